"""The message for a path where a graph is wanted."""

import inspect
from pathlib import Path

import pytest

import csdf
from csdf.errors import NotRead

# Values of parameters that are looked at before the graph, which they are checked against.
BEFORE = {"weights": {"a": 1}, "names": ("a",), "path": "out.xml", "first": csdf.Parameter(
    name="x", weights={"a": (1,)}, nominal=0, minimum=0)}  # fmt: skip
BEFORE["second"] = BEFORE["first"]
BEFORE |= {"high": (1, 1), "period": 1, "latency": 1}


def functions_of(kind):
    """The public functions with a parameter of this kind, and its name."""
    found = []
    for name in csdf.__all__:
        function = getattr(csdf, name)
        if inspect.isfunction(function):
            parameters = inspect.signature(function).parameters.values()
            found += [(name, one.name) for one in parameters if one.annotation == kind]
    return found


def called(name, wanted, value):
    """Call the function with this value for a parameter, with something for the others."""
    function = getattr(csdf, name)
    parameters = inspect.signature(function).parameters.values()
    needed = [one.name for one in parameters if one.default is one.empty]
    return function(**{one: BEFORE.get(one, "a") for one in needed} | {wanted: value})


def test_the_functions_of_graphs_are_found():
    names = {name for name, _ in functions_of("Graph")}
    assert {"throughput", "pareto_front", "with_capacities", "write_graph"} <= names
    assert [name for name, _ in functions_of("ScenarioGraph")] == ["scenario_throughput"]


@pytest.mark.parametrize("path", ["graph.xml", Path("graph.xml")], ids=["text", "path"])
@pytest.mark.parametrize(("name", "wanted"), functions_of("Graph"))
def test_a_path_for_a_graph_is_told_how_to_be_read(name, wanted, path):
    with pytest.raises(NotRead) as refusal:
        called(name, wanted, path)
    assert str(refusal.value) == (
        "expected a Graph, found the path 'graph.xml'; read it first: csdf.read_graph('graph.xml')"
    )


def test_a_path_for_scenarios_is_told_how_to_be_read():
    with pytest.raises(NotRead, match=r"read it first: csdf\.read_scenarios\('modes\.json'\)"):
        csdf.scenario_throughput("modes.json")


def test_any_other_value_is_named_by_its_type():
    with pytest.raises(TypeError, match="expected a Graph, found a dict; csdf"):
        csdf.throughput({"actors": []})


def test_swapped_arguments_of_write_graph_are_told_apart(tmp_path):
    path = tmp_path / "out.json"
    graph = csdf.random_graph(1, csdf.GraphShape(actors=2))
    with pytest.raises(NotRead, match="expected a Graph, found the path"):
        csdf.write_graph(graph, path)
    assert not path.exists()
