"""Graphs of other tools whose fronts are known."""

from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.throughput import throughput
from csdf.search.trade_off import pareto_front
from tests.shared_data import each, oracle, shared_graph

TRAPS = {
    name: known["truth"]["pareto"]
    for name, known in oracle("traps.json").items()
    if "pareto" in known["truth"]
}
KNOWN = {name: known["points"] for name, known in oracle("pareto.json").items() if known["points"]}
ECHO = "csdf-ib5/Echo.xml"


def six_digits(throughput):
    """As the other tools print it; the file's exact fractions are compared exactly."""
    return f"{float(throughput):.6g}"


@each("name", TRAPS)
def test_traps_have_their_front(name):
    front = pareto_front(shared_graph(f"traps/{name}.xml"))
    expected = [(size, Fraction(throughput)) for size, throughput in TRAPS[name]]
    assert [(point.size, point.throughput) for point in front.points] == expected
    assert front.is_complete


@each("name", KNOWN)
def test_published_graphs_have_their_front(name):
    front = pareto_front(shared_graph(name))
    assert front.is_complete
    assert [point.size for point in front.points] == [size for size, _ in KNOWN[name]]
    for point, (_, known) in zip(front.points, KNOWN[name], strict=True):
        if isinstance(known, str):
            assert point.throughput == Fraction(known)
        else:
            assert six_digits(point.throughput) == six_digits(known)


@each("name", [name for name in KNOWN if name.startswith(("small/", "sdf3/"))])
def test_capacities_of_published_graphs_have_the_period_of_their_point(name):
    graph = shared_graph(name)
    for point in pareto_front(graph).points:
        assert sum(point.capacities.values()) == point.size
        assert throughput(with_capacities(graph, point.capacities)).period == point.period


@each("name", [name for name in oracle("pareto.json") if name.endswith("PDectect.xml")])
def test_periods_that_print_alike_are_told_apart(name):
    # The oracle's note: 4686640 has period 2033761 against 2033760 of 5067890.
    last = pareto_front(shared_graph(name)).points[-2:]
    assert [(point.size, point.period) for point in last] == [
        (4686640, 2033761),
        (5067890, 2033760),
    ]


@pytest.mark.slow
@each("name", [name for name in oracle("pareto.json") if name == ECHO])
def test_the_front_of_echo_is_complete(name):
    # No other tool finishes; a linear program of Kiter reaches the largest throughput at 28039.
    graph = shared_graph(name)
    front = pareto_front(graph)
    assert front.is_complete
    last = front.points[-1]
    assert last.size <= 28039
    assert last.period == throughput(graph).period
    assert throughput(with_capacities(graph, last.capacities)).period == last.period
