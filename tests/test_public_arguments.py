"""Arguments of all public functions: what is refused, and what is taken in the words of commands."""

import inspect
import json
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure

import cnn2csdf
import csdf
import planners
from csdf.cli.main import main
from csdf.errors import CsdfError, InvalidArgument, NotRead
from planners.plan.ram import ram_beside

PACKAGES = (csdf, cnn2csdf, planners)
OBJECT = object()


def parameters():
    """Every parameter of every public function that an annotation says anything of."""
    for package in PACKAGES:
        for name in package.__all__:
            function = getattr(package, name)
            if inspect.isfunction(function):
                for one in inspect.signature(function).parameters.values():
                    if one.kind is not one.VAR_KEYWORD:
                        yield pytest.param(function, one, id=f"{name}-{one.name}")


ALL = list(parameters())


def test_there_are_functions_to_try():
    assert {"throughput-graph", "fit-ram", "lower-network"} <= {one.id for one in ALL}


@pytest.mark.parametrize(("function", "parameter"), ALL)
def test_a_value_of_no_kind_is_refused_by_its_name(function, parameter):
    with pytest.raises((InvalidArgument, NotRead)) as refusal:
        function(**{parameter.name: OBJECT})
    assert "expected" in str(refusal.value)
    assert "\n" not in str(refusal.value)


NUMBERS = [one for one in ALL if {"int", "Natural", "Positive", "Bytes"} & set(
    one.values[1].annotation.split(" | "))]  # fmt: skip


@pytest.mark.parametrize(("function", "parameter"), NUMBERS)
def test_no_integer_is_taken_from_a_float_or_a_truth_value(function, parameter):
    for value in (2.5, float("nan"), True, b"7", []):
        with pytest.raises(InvalidArgument, match=f"{parameter.name} is"):
            function(**{parameter.name: value})
    kinds = parameter.annotation.split(" | ")
    for value in [-1] * ("int" not in kinds) + [0] * ("Positive" in kinds):
        with pytest.raises(InvalidArgument, match=f"{parameter.name} is {value}; expected"):
            function(**{parameter.name: value})


@pytest.fixture
def graph():
    return csdf.random_graph(3, csdf.GraphShape(actors=4))


def test_integers_of_numpy_are_integers(graph):
    assert csdf.unfold(graph, np.int64(2)) == csdf.unfold(graph, 2)


def test_a_budget_is_taken_as_commands_take_it(graph):
    assert csdf.throughput(graph, budget="60s") == csdf.throughput(graph, budget=60)
    with pytest.raises(InvalidArgument, match=r"throughput: budget is '6x'; expected seconds"):
        csdf.throughput(graph, budget="6x")


def test_a_share_is_not_taken_for_a_percentage(graph):
    assert csdf.pareto_front(graph, gap="50%").gap == csdf.pareto_front(graph, gap="1/2").gap
    for value, said in (
        (10, "share of 1000%"),
        ("ten", "'ten' is not a number"),
        ("-1", "at least 0"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            csdf.pareto_front(graph, gap=value)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_misspelt_public_name_is_told_the_right_one(package):
    name = package.__all__[-1]
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}x'; did you mean '{name}'"):
        getattr(package, f"{name}x")


def test_a_misspelt_function_is_told_a_function_rather_than_a_class():
    # The class ParetoPoint has fewer letters more than pareto_front.
    with pytest.raises(AttributeError, match="did you mean 'pareto_front'"):
        _ = csdf.pareto


@pytest.mark.parametrize(
    "read",
    [csdf.read_graph, cnn2csdf.read_model, planners.read_profile],
    ids=lambda one: one.__name__,
)
@pytest.mark.parametrize("suffix", [".xml", ".json", ".onnx", ".tflite"])
def test_a_missing_file_is_told_from_a_wrong_one(read, suffix, tmp_path):
    path = tmp_path / f"none{suffix}"
    if read is cnn2csdf.read_model and suffix == ".xml":  # the name of a catalogue
        return
    with pytest.raises(FileNotFoundError, match="cannot be read") as refusal:
        read(path)
    assert isinstance(refusal.value, csdf.MissingFile)
    path.write_text("neither")
    with pytest.raises(csdf.UnreadableFile) as refusal:
        read(path)
    assert not isinstance(refusal.value, OSError)


def test_a_model_in_the_place_of_its_network_is_told_so(model):
    with pytest.raises(NotRead, match=r"found a Model; give its network, \.network"):
        cnn2csdf.lower(model)


def test_a_front_is_drawn_on_given_axes(graph):
    front, axes = csdf.pareto_front(graph), Figure().add_subplot()
    csdf.plot_front(axes, front)
    (dots,) = [line for line in axes.lines if line.get_label() == "front"]
    assert dots.get_xdata().tolist() == [one.size for one in front.points]
    assert dots.get_ydata().tolist() == [1 / float(one.period) for one in front.points]


@pytest.fixture(scope="module")
def model():
    network = cnn2csdf.from_catalogue("resnet8")
    return cnn2csdf.Model(network=network, weights=cnn2csdf.random_weights(network, 0))


def test_fit_takes_a_model_sizes_and_a_platform_as_texts(model):
    texts = planners.fit(model, ram="64kB", flash="1MB", platform="cortex-m7", labels=(2,))
    platform = cnn2csdf.PLATFORMS["cortex-m7"]
    numbers = planners.fit(model.network, ram=64_000, flash=10**6, platform=platform, labels=(2,))
    assert texts == numbers


@pytest.fixture(scope="module")
def small():
    return cnn2csdf.simplified(cnn2csdf.read_model("samos_example"))


def test_fit_takes_memories_as_texts(small):
    texts = ["sram=6kB", "psram=1MB:slow:read=1/2"]
    sram = cnn2csdf.BoardMemory(name="sram", size=6000)
    psram = cnn2csdf.BoardMemory(name="psram", size=10**6, is_slow=True, read=Fraction(1, 2))
    assert planners.fit(small, memories=texts).slow.memories == (sram, psram)
    board = cnn2csdf.PLATFORMS["esp32-s3"].memories
    found = planners.fit(small, memories=["sram=6kB"], platform="esp32-s3")
    assert found.slow.memories == (replace(board[0], size=6000), *board[1:])


def test_fit_answers_as_the_command(small, capsys):
    main(["fit", "samos_example", "--ram", "250kB", "--json"])
    said = json.loads(capsys.readouterr().out)
    beside = ram_beside(small.network)  # the stack, and no reserve
    found = planners.fit(small, ram="250kB", searched=planners.SEARCHED, beside=beside)
    assert found.best.ram_bytes == said["ram_bytes"]
    assert found.to_json()["methods"] == said["methods"]
    main(["fit", "samos_example", "--ram", "600B", "--json"])
    said = json.loads(capsys.readouterr().out)
    terms = {"searched": planners.SEARCHED, "beside": beside}
    found = planners.fit_with_alternatives(small, ram="600B", **terms)
    assert found.to_json()["alternatives"] == said["alternatives"]


def test_plans_are_written_read_and_drawn(small, tmp_path):
    found = planners.fit(small)
    plans = [one.plan for one in found.methods]
    planners.write_plan(tmp_path / "one.json", plans[0])
    assert planners.read_plan(tmp_path / "one.json") == plans[0]
    planners.write_plan(tmp_path / "all.json", plans)
    assert planners.read_plans(tmp_path / "all.json") == tuple(plans)
    with pytest.raises(csdf.UnreadableFile, match=rf"found {len(plans)} plans"):
        planners.read_plan(tmp_path / "all.json")
    assert main(["fit", "samos_example", "--plan", str(tmp_path / "one.json")]) == 0
    axes = Figure().add_subplot()
    planners.plot_plan(axes, small, plans[0])
    (live,) = [line for line in axes.lines if line.get_label() == "live bytes"]
    assert max(live.get_ydata()) <= plans[0].arena_bytes < 1.1 * axes.get_ylim()[1]
    axes = Figure().add_subplot()
    planners.plot_fit(axes, found)
    assert [1000 * x for x in axes.lines[0].get_xdata()] == [one.ram_bytes for one in found.methods]
    assert [one["ram_bytes"] for one in found.to_records()] == [one.arena_bytes for one in plans]
    assert "bytes)" in repr(plans[0])


def test_fit_warns_of_layers_that_the_command_merges(model, small):
    with pytest.warns(
        csdf.Suspicious, match=r"of network 'resnet8' can be merged.*simplified"
    ) as said:
        planners.fit(model, searched=())
    assert said[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        planners.fit(small, searched=())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ram": -5}, "fit: ram is -5; expected an integer of at least 0"),
        ({"ram": "16kW"}, "fit: ram is '16kW'; expected"),
        ({"input": "row"}, "fit: input is 'row'; expected one of 'resident', 'rows', 'external'"),
        ({"output": "out"}, "fit: output is 'out'; expected one of 'resident', 'external'"),
        ({"searched": "all"}, "fit: searched is 'all'; expected a list of names"),
        ({"searched": ("all",)}, "fit: searched is 'all'; expected one of"),
        ({"element_bytes": 0}, "fit: element_bytes is 0; expected an integer of at least 1"),
        ({"platform": "z80"}, "fit: platform is 'z80'; expected one of"),
        ({"nanoseconds": Fraction(0)}, "fit: nanoseconds is 0; expected a time above 0"),
        ({"labels": ()}, "fit: labels is empty"),
        (
            {"memories": "sram=1kB"},
            "fit: memories is 'sram=1kB'; expected a list of Memory values",
        ),
        ({"memories": ["sram"]}, "fit: memories: 'sram' is not a name and a size"),
        ({"memories": ["a=0.5B"]}, "fit: memories: '0.5B' is not a whole number of bytes"),
        ({"memories": ["a=1kB", "a=2kB"]}, "fit: memories: memories of one name"),
        (
            {"memories": ["axi=1kB:slow"], "platform": "esp32-s3"},
            "fit: memories: the platform has no 'axi'; it has sram, psram, flash",
        ),
    ],
    ids=str,
)
def test_fit_refuses_what_it_would_answer_wrongly(model, given, message):
    with pytest.raises(InvalidArgument) as refusal:
        planners.fit(model, **given)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("element_bytes", 0, "an integer of at least 1"),
        ("element_bytes", "2", "an integer of at least 1 or None"),
        ("element_bytes", 1.5, "an integer of at least 1 or None"),
        ("element_bytes", True, "an integer of at least 1 or None"),
        ("parameter_bytes", -1, "an integer of at least 1"),
        ("labels", (2, 0), "an integer of at least 1"),
        ("labels", 8, "a list of Positive values"),
        ("labels", ("a",), "a list of Positive values"),
        ("searched", "lines", "a list of names"),
        ("searched", 3, "a list of names"),
        ("durations", 3, "a mapping from names to Sequence[int] values or None"),
        ("beside", "x", "a RamBeside or None"),
        ("input", 3, "a text"),
    ],
    ids=str,
)
def test_alternatives_refuse_values_of_other_kinds_by_their_name(small, name, value, expected):
    with pytest.raises(InvalidArgument) as refusal:
        planners.fit_with_alternatives(small, ram=600, **{name: value})
    assert str(refusal.value) == f"FitRequest: {name} is {value!r}; expected {expected}"


def test_alternatives_take_integers_of_numpy(small):
    found = planners.fit_with_alternatives(small, ram=1, element_bytes=np.int64(1))
    assert found == planners.fit_with_alternatives(small, ram=1, element_bytes=1)


def test_a_library_needs_a_plan(model, tmp_path):
    with pytest.raises(InvalidArgument, match="write_library: plan is None; expected a Streaming"):
        planners.write_library(model, None, tmp_path / "library")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("field", ["size", "start", "end", "alignment", "offset", "hint"])
@pytest.mark.parametrize("value", [3.5, "3", True])
def test_a_buffer_is_made_of_integers(field, value):
    fields = {"name": "a", "size": 64, "start": 0, "end": 2}
    with pytest.raises(CsdfError, match=f"buffer 'a' has {field} .*; expected an integer"):
        planners.Buffer(**fields | {field: value})


def test_models_are_equal_where_all_their_weights_are(model):
    again = cnn2csdf.Model(network=model.network, weights=cnn2csdf.random_weights(model.network, 0))
    other = cnn2csdf.Model(network=model.network, weights=cnn2csdf.random_weights(model.network, 1))
    assert model == again
    assert hash(model) == hash(again)
    assert model != other
    assert model != cnn2csdf.Model(network=model.network)
    assert repr(model) == "Model(resnet8: 31 layers, 78,666 weights, 314.7 kB)"


def test_the_answer_of_fit_is_short_and_a_table_in_notebooks(model):
    found = planners.fit(model, labels=(2,))
    assert len(repr(found)) < 200
    assert "layer by layer" in found._repr_html_()
