"""Applications as values and as texts."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element
from cnn2csdf.operators import Activation
from csdf.errors import CsdfError, InvalidNetwork, UnreadableFile
from planners.published.todaes import as_published, comparison, read_published_application
from planners.reuse.application import (
    Application,
    ApplicationNetwork,
    Partition,
    of_one_size,
    parse_application,
    read_application,
    single_partition,
    without_parallelism,
)
from planners.reuse.edge_buffers import edge_buffers
from tests.planners.reuse.front.small_applications import divided

MODELS = Path(__file__).parents[3] / "models"
YAML = """
name: glasses
networks:
  - model: mobilenet_v1:width=1/4,resolution=32
    name: eyes
    outside: [input, output]
    partitions:
      - {name: P1, last: LAST}
      - {name: P2}
  - model: resnet8
parallel:
  - [P1, P2]
"""


def chain(name="net", layers=4):
    build = NetworkBuilder(name)
    source = build.input((2, 8, 8), name="l1")
    for number in range(2, layers + 1):
        source = build.add(Activation(function="relu"), source, name=f"l{number}")
    return build.network()


def partition(name, *layers):
    return Partition(name=name, layers=layers)


def one(member, *parallel):
    return Application(name="app", members=(member,), parallel=tuple(map(frozenset, parallel)))


def test_elements_of_networks_of_different_types_count_alike_with_one_size():
    network = chain("bytes")
    small = tuple(replace(layer, element=Element.INT8) for layer in network.layers)
    members = tuple(
        map(single_partition, (replace(network, layers=small), replace(network, name="words")))
    )
    application = Application(name="both", members=members)
    assert (application.unit, application.has_one_size) == (1, False)
    sizes = {edge.elements for edge in edge_buffers(of_one_size(application))}
    assert sizes == {2 * 8 * 8}


def glasses():
    """The example text, with a layer that exists."""
    eyes = parse_application('{"networks": [{"model": "mobilenet_v1:resolution=32"}]}', "a.json")
    return YAML.replace("LAST", json.dumps(eyes.members[0].layers[8]))


def as_json(text):
    yaml = pytest.importorskip("yaml")
    return json.dumps(yaml.safe_load(text))


def test_json_and_yaml_say_the_same():
    text = glasses()
    first = parse_application(as_json(text), "a.json")
    assert first == parse_application(text, "a.yaml") == parse_application(text, "a.YML")
    assert [member.name for member in first.members] == ["eyes", "resnet8"]
    assert first.parallel == (frozenset({"P1", "P2"}),)
    assert [found.name for _, found in first.partitions] == ["P1", "P2", "resnet8"]
    assert not {"input", "output"} & set(first.members[0].layers)


def test_a_network_without_partitions_is_one_partition_of_its_own_name():
    found = parse_application('{"networks": [{"model": "resnet8"}]}', "small.json")
    assert found.name == "small"
    assert found.members == (single_partition(found.members[0].network),)


def test_a_model_file_is_found_in_the_folder_of_the_application(tmp_path):
    entry = {"op": "conv", "subop": "conv", "fs": 1, "stride": 1, "pads": [0, 0, 0, 0]}
    size = {"ifm": 2, "ih": 8, "iw": 8, "ofm": 3, "oh": 8, "ow": 8, "fused_ops": []}
    network = {
        "name": "tiny",
        "_DNN__layers": [{"id": 0, "name": "only", **entry, **size}],
        "_DNN__connections": [],
    }
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.json").write_text(json.dumps(network))
    path = tmp_path / "app.json"
    path.write_text(json.dumps({"networks": [{"model": "models/tiny.json", "name": "t"}]}))
    assert read_application(path).layers == (("t", "input"), ("t", "only"), ("t", "output"))


def test_a_simplified_network_has_no_normalisation_layers():
    found = parse_application('{"networks": [{"model": "resnet8", "simplify": true}]}', "a.json")
    operators = {type(layer.operator).__name__ for layer in found.members[0].network.layers}
    assert not operators & {"BatchNormalization", "Activation"}


def test_without_pyyaml_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "planners.reuse.yaml_text", raising=False)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(CsdfError, match=r"a.yaml: YAML files need PyYAML: pip install"):
        parse_application("networks: []", "a.yaml")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "a.json:1: not JSON"),
        ("[]", "expected an object"),
        ('{"networks": []}', "has no network"),
        ('{"parallel": []}', "the key 'networks' is missing"),
        (
            '{"networks": [{"model": "resnet8"}], "speed": 1}',
            "'speed' is unknown; expected: networks; optional: name",
        ),
        ('{"networks": [{"model": 3}]}', r"networks\[0\].model: found 3; expected a text"),
        (
            '{"networks": [{"model": "resnet9"}]}',
            r"a.json: networks\[0\]: there is no network 'resnet9'",
        ),
        ('{"networks": [{"model": "none.onnx"}]}', r"a.json: networks\[0\]: none.onnx: cannot be"),
        ('{"networks": [{"model": "resnet8", "repair": 1}]}', "expected true or false"),
        ('{"networks": [{"model": "resnet8", "outside": ["x"]}]}', "there is no layer 'x'"),
        ('{"networks": [{"model": "resnet8"}, {"model": "resnet8"}]}', "two networks are named"),
        ('{"networks": [{"model": "resnet8"}], "parallel": [["x"]]}', "there is no partition 'x'"),
        (
            '{"networks": [{"model": "resnet8", "partitions": [{"name": "P", "last": "x"}]}]}',
            "expected a layer after the previous partition",
        ),
        (
            '{"networks": [{"model": "resnet8", "partitions": [{"name": "P", "last": "input"}]}]}',
            "no partition has layer",
        ),
    ],
)
def test_a_malformed_text_is_refused_with_its_place(text, complaint):
    with pytest.raises(CsdfError, match=complaint):
        parse_application(text, "a.json")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("networks: [", "a.yaml:1: not YAML"),
        ("name: a\nname: b", "a.yaml:1: not YAML: a key occurs twice"),
        ("a: &x [1]\nb: *x", "a.yaml:2: not YAML: aliases are not read"),
        ("networks:\n  - model: 2026-01-01", "expected a text"),
        ("a: !!python/object:os.system {}", "a.yaml:1: not YAML"),
        ("a: 1\nb: !!bool x", "a.yaml:2: not YAML: tags are not read"),
        ("a: !!timestamp x", "a.yaml:1: not YAML: tags are not read"),
        ("a:\n" + "{" * 20_000, "a.yaml:2: not YAML: nested too deeply"),
        ("a: 1" + ":1" * 500_000, "a.yaml:1: not YAML: a number has more than 1000 characters"),
        ("\x00", "a.yaml: not YAML: [^\n]*$"),
    ],
)
def test_a_malformed_yaml_text_is_refused_with_its_line(text, complaint):
    pytest.importorskip("yaml")
    with pytest.raises(UnreadableFile, match=complaint):
        parse_application(text, "a.yaml")


@pytest.mark.parametrize(
    ("partitions", "complaint"),
    [
        ([("P", "l1", "l2", "l3")], "no partition has layer 'l4'"),
        ([("P", "l1", "l2"), ("Q", "l4", "l3")], "'l4' stands before 'l3', which it reads"),
        ([("P", "l1", "l3"), ("Q", "l2", "l4")], "has layer 'l3'; expected .* l1, l2"),
        ([("P", "l1", "l1"), ("Q", "l3", "l4")], "has 'l1' twice"),
        ([("P", "l1", "l2"), ("Q", "l3", "l4"), ("R", "l4")], "expected .* here none"),
        ([("P", "l1", "l2"), ("Q", "l3", "l9")], "there is no layer 'l9'"),
        ([("P",)], "partition 'P' has no layer"),
    ],
)
def test_partitions_that_are_no_division_of_the_network_are_refused(partitions, complaint):
    with pytest.raises(InvalidNetwork, match=complaint):
        ApplicationNetwork(
            network=chain(), partitions=tuple(partition(*found) for found in partitions)
        )


def test_a_partition_in_two_parallel_sets_is_refused():
    member = divided(chain(), (1, 1, 2))
    with pytest.raises(InvalidNetwork, match="two parallel partitions are named 'net/2'"):
        one(member, ["net/1", "net/2"], ["net/2", "net/3"])


def test_a_cut_edge_has_two_buffers_where_its_partitions_are_pipelined():
    member = divided(chain(), (2, 2))
    pipelined = edge_buffers(one(member, ["net/1", "net/2"]))
    assert [edge.name for edge in pipelined] == [
        "net: l1 to l2",
        "net: l2 to l3 (1)",
        "net: l2 to l3 (2)",
        "net: l3 to l4",
    ]
    serial = edge_buffers(one(member))
    assert [edge.name for edge in serial] == ["net: l1 to l2", "net: l2 to l3", "net: l3 to l4"]
    assert [stay.partition for stay in serial[1].stays] == [0, 1]


def test_an_edge_past_a_stage_of_a_pipeline_has_a_copy_in_that_stage_too():
    # While stage 3 reads frame 1, stage 2 is at frame 2 and stage 1 writes frame 3.
    build = NetworkBuilder("net")
    build.input((2, 8, 8), name="l1")
    build.add(Activation(function="relu"), "l1", name="l2")
    build.output("l1", name="l3")
    member = divided(build.network(), (1, 1, 1))
    edges = edge_buffers(one(member, ["net/1", "net/2", "net/3"]))
    assert [
        [stay.partition for stay in edge.stays]
        for edge in edges
        if edge.connection.consumer == "l3"
    ] == [[0], [1], [2]]


def test_without_parallelism_no_edge_is_cut():
    application = one(divided(chain(), (2, 2)), ["net/1", "net/2"])
    assert all(edge.inner is not None for edge in edge_buffers(without_parallelism(application)))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "expected an object"),
        ('{"b": {}}', "there is no application 'a'"),
        ('{"a": 3}', "a: found 3; expected an object"),
        ('{"a": {}}', "the key 'networks' is missing"),
        ('{"a": {"networks": ["none"]}}', "none.json: cannot be read"),
    ],
)
def test_a_malformed_table_of_applications_is_refused(tmp_path, text, complaint):
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(UnreadableFile, match=complaint):
        read_published_application(path, "a")


def test_the_worked_example_as_a_file_has_the_printed_sizes():
    # TODAES 2022, Tables 6.1 (misprinted 51,446) and 6.2, elements.
    found = comparison(read_application(MODELS / "applications" / "worked_example.json"))
    assert (found.no_reduction, found.pipelined_reuse) == (4 * 51_466, 4 * 24_586)


def test_the_applications_as_files_need_what_the_readme_of_the_models_says():
    lines = re.findall(
        r"\| `(application_\d\.json)` \| (\S+) .*?\| (\S+) .*?\| (\S+) ",
        (MODELS / "README.md").read_text(),
    )
    assert len(lines) == 6
    for file, *shown in lines:
        found = comparison(as_published(read_application(MODELS / "applications" / file)))
        sizes = (found.no_reduction, found.reuse_only, found.parts_only)
        assert [f"{(found.weights + size) / 1e6:.2f}" for size in sizes] == shown


def test_the_readme_of_the_models_names_files_that_are_there():
    table = (MODELS / "README.md").read_text().split("## Graphs")[0]
    named = re.findall(r"models/[\w/.]*\w", table)
    assert len(named) > 10
    for name in named:
        assert (MODELS.parent / name).exists(), name
