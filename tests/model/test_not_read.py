"""The message for a path where a graph is wanted."""

import inspect
from pathlib import Path

import pytest

import csdf
from csdf.errors import InvalidArgument, NotRead


def functions_of(kind):
    """The public functions with a parameter of this kind, and its name."""
    found = []
    for name in csdf.__all__:
        function = getattr(csdf, name)
        if inspect.isfunction(function):
            parameters = inspect.signature(function).parameters.values()
            found += [(name, one.name) for one in parameters if one.annotation == kind]
    return found


def test_the_functions_of_graphs_are_found():
    names = {name for name, _ in functions_of("Graph")}
    assert {"throughput", "pareto_front", "with_capacities", "write_graph"} <= names
    of_scenarios = {name for name, _ in functions_of("ScenarioGraph")}
    assert of_scenarios == {"expected_throughput", "scenario_throughput"}


@pytest.mark.parametrize("path", ["graph.xml", Path("graph.xml")], ids=["text", "path"])
@pytest.mark.parametrize(("name", "wanted"), functions_of("Graph"))
def test_a_path_instead_of_a_graph_is_refused_with_the_reading_function(name, wanted, path):
    with pytest.raises(NotRead) as refusal:
        getattr(csdf, name)(**{wanted: path})
    assert str(refusal.value) == (
        "expected a Graph, found the path 'graph.xml'; read it first: csdf.read_graph('graph.xml')"
    )


def test_a_path_instead_of_scenarios_is_refused_with_the_reading_function():
    with pytest.raises(NotRead, match=r"read it first: csdf\.read_scenarios\('modes\.json'\)"):
        csdf.scenario_throughput("modes.json")


def test_any_other_value_is_named_by_its_type():
    with pytest.raises(TypeError, match="expected a Graph, found a dict; csdf"):
        csdf.throughput({"actors": []})


def test_swapped_arguments_of_write_graph_are_told_apart(tmp_path):
    path = tmp_path / "out.json"
    graph = csdf.random_graph(1, csdf.GraphShape(actors=2))
    with pytest.raises(
        InvalidArgument, match="write_graph: path is a Graph; expected a text or a path"
    ):
        csdf.write_graph(graph, path)
    assert not path.exists()
