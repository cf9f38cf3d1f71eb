"""Arguments of all public functions: what is refused, and what is taken in the words of commands."""

import inspect
from fractions import Fraction

import numpy as np
import pytest

import cnn2csdf
import csdf
import planners
from csdf.errors import CsdfError, InvalidArgument, NotRead

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


@pytest.fixture(scope="module")
def model():
    network = cnn2csdf.from_catalogue("resnet8")
    return cnn2csdf.Model(network=network, weights=cnn2csdf.random_weights(network, 0))


def test_fit_takes_a_model_sizes_and_a_platform_as_texts(model):
    texts = planners.fit(model, ram="64kB", flash="1MB", platform="cortex-m7", labels=(2,))
    platform = cnn2csdf.PLATFORMS["cortex-m7"]
    numbers = planners.fit(model.network, ram=64_000, flash=10**6, platform=platform, labels=(2,))
    assert texts == numbers


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
    ],
    ids=str,
)
def test_fit_refuses_what_it_would_answer_wrongly(model, given, message):
    with pytest.raises(InvalidArgument) as refusal:
        planners.fit(model, **given)
    assert str(refusal.value).startswith(message)


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
    assert repr(model) == "Model(resnet8: 31 layers, with weights)"


def test_the_answer_of_fit_is_short_and_a_table_in_notebooks(model):
    found = planners.fit(model, labels=(2,))
    assert len(repr(found)) < 200
    assert "layer by layer" in found._repr_html_()
