"""`csdf schema`, and the schemas themselves."""

import json
from pathlib import Path

import pytest

from csdf.cli.about.completion import leaves
from csdf.cli.about.schema import schema, schema_names
from csdf.io.graph_files import read_graph
from csdf.io.json_graph import graph_to_json
from csdf.model.builder import GraphBuilder
from tests.cli.running import GRAPHS
from tests.cli.schema_text import SCHEMAS, formatted
from tests.cli.schemas import closed
from tests.shared_data import SHARED, each

ROOT = Path(__file__).parents[2]
FORMATS = {"csdf-graph", "csdf-platform", "csdf-mapping", "csdf-scenarios"}
FORMATS |= {"fit-plan", "arena-problems"}
NAMES = schema_names()
MAP = ("map", GRAPHS / "csdf_example.xml", "--processors", 2)


def named_like_commands():
    """The commands with --json, as their schemas are called."""
    for leaf in leaves():
        if any("--json" in action.option_strings for action in leaf.parser._actions):
            yield "-".join(leaf.name.split()[1:])


def validator(name, *, is_strict=True):
    jsonschema = pytest.importorskip("jsonschema", reason="pip install jsonschema")
    found = schema(name)
    return jsonschema.Draft202012Validator(closed(found) if is_strict else found)


def test_each_command_with_json_has_a_schema_and_each_format():
    assert set(NAMES) == set(named_like_commands()) | FORMATS | {"error"}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_and_says_its_name_and_version(name):
    found = schema(name)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    version = found.get("properties", {}).get("version", {}).get("const", 1)
    assert found["$id"] == f"urn:csdf:schema:{name}:{version}"
    validator(name).check_schema(found)


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_a_schema_has_a_property_a_line(path):
    text = path.read_text(encoding="utf-8")
    assert text == formatted(json.loads(text)) + "\n", "python -m tests.cli.schema_text"


def test_without_a_name_all_schemas_are_listed(run):
    code, output, remarks = run("schema")
    assert (code, remarks) == (0, "")
    assert [line.split()[0] for line in output.splitlines()] == NAMES


def test_the_words_of_a_command_name_its_schema(run):
    assert json.loads(run("schema", "plan", "arena")[1]) == schema("plan-arena")
    assert run("schema", "plan", "arena") == run("schema", "plan-arena")


def test_an_unknown_name_is_refused_with_the_one_that_may_be_meant(run):
    assert run("schema", "analyse") == (
        2,
        "",
        "csdf schema: there is no schema 'analyse'; did you mean analyze?\n",
    )


def test_the_page_lists_all_schemas():
    page = (ROOT / "docs" / "schemas.md").read_text(encoding="utf-8")
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert listed == NAMES


@pytest.mark.parametrize("path", sorted(GRAPHS.glob("*.xml")), ids=lambda path: path.stem)
def test_graphs_are_written_as_their_schema_says(path):
    validator("csdf-graph").validate(json.loads(graph_to_json(read_graph(path))))


@pytest.mark.parametrize("path", sorted((ROOT / "models" / "platforms").glob("*.json")), ids=str)
def test_platforms_of_the_examples_are_as_their_schema_says(path):
    validator("csdf-platform").validate(json.loads(path.read_text()))


def test_scenarios_of_the_examples_are_as_their_schema_says():
    path = ROOT / "models" / "scenarios" / "video_decoder.json"
    validator("csdf-scenarios").validate(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("csdf-mapping", MAP),
        pytest.param(
            "fit-plan",
            ("fit", "person_detection", "--element-bytes", 1, "--ram", "12kB"),
            marks=pytest.mark.slow,
        ),
        ("fit-plan", ("cnn", "memory", "resnet8")),
        ("fit-plan", ("plan", "fusion", "resnet8", "--ram", "150kB")),
    ],
)
def test_what_is_written_is_as_its_schema_says(run, tmp_path, name, words):
    path = tmp_path / "written.json"
    run(*words, "-o", path)
    validator(name).validate(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("value", "is_exact"),
    [("7", True), ("-1/2", True), (7, False), ("0.5", False), (0.5, False), ("1/", False)],
)
def test_an_exact_number_is_a_text(value, is_exact):
    found = {"format": "csdf-graph", "version": 1, "name": "g", "time_unit": value}
    found |= {"throughput_constraint": None, "actors": [], "channels": [], "origin": None}
    assert validator("csdf-graph").is_valid(found) == is_exact


def test_a_misspelt_key_of_a_format_is_found():
    assert not validator("csdf-mapping", is_strict=False).is_valid(
        {"format": "csdf-mapping", "version": 1, "binding": {}, "order": {}}
    )


def parts_of(found, place=""):
    """All schemas within a schema, each with its place; without those that a choice names."""
    if isinstance(found, list):
        for one in found:
            yield from parts_of(one, place)
    elif isinstance(found, dict):
        yield place, found
        for key, one in found.items():
            if key not in ("anyOf", "const", "enum"):
                yield from parts_of(one, f"{place}/{key}")


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_describes_more_than_one_example(name):
    # A part that is never anything but null was written after one answer, in which it was null.
    found = parts_of(schema(name))
    assert [place for place, one in found if one.get("type") == "null"] == []


def test_an_actor_that_nothing_limits_has_a_slack_without_end(answer, tmp_path):
    graph = tmp_path / "free.json"
    free = GraphBuilder("free").actor("a", 1).actor("b", 2).channel("a", 1, "b", 1)
    graph.write_text(graph_to_json(free.graph()))
    code, found = answer("sensitivity", graph)  # held against its schema
    assert code == 0
    assert {one["slack"] for one in found["actors"]} == {None}


FINN = [SHARED / "fifo" / f"{name}.onnx" for name in ("tfc_w2a2_t100", "mobilenet_small_unfolded")]


@each("path", [path for path in FINN if path.exists()])
def test_a_design_that_runs_with_depth_2_answers_as_its_schema_says(path, answer):
    code, found = answer("fifo", "finn", path, "--time-limit", "1s")
    assert code == 0
    assert found["depth_2"]["deadlock"] is False
    assert found["depth_2"]["period"] is not None
