"""Graphs of other tools, whose answers are known."""

from fractions import Fraction

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import METHODS, throughput
from csdf.errors import InconsistentGraph
from tests.shared_data import each, oracle, shared_graph

TRAPS = oracle("traps.json")
PERIODS = {
    name: known["period"]
    for name, known in oracle("throughput.json").items()
    if known["period"] is not None
}
UNLIMITED = [
    name for name, known in oracle("throughput.json").items() if "period 0" in known["note"]
]
ONLY_AUTO = ("csdf-agb5/", "csdf-ib5/Echo_sized")  # one method alone takes seconds

each_method = pytest.mark.parametrize("method", METHODS)


def known_period(truth):
    """The period of a trap: None for a deadlock, 0 where nothing limits it."""
    largest = truth["max_throughput"]
    if isinstance(largest, dict):
        largest = largest["indexed FIFO"]
    if largest == "unbounded":
        return Fraction(0)
    if largest.startswith("0 "):
        return None
    return 1 / Fraction(largest)


@each("name", [name for name in TRAPS if name != "inconsistent"])
def test_traps_have_their_repetition_vector(name):
    assert repetition_vector(shared_graph(f"traps/{name}.xml")) == TRAPS[name]["q"]


@each_method
@each("name", [name for name in TRAPS if name != "inconsistent"])
def test_traps_have_their_period(name, method):
    if method == "execution" and name.startswith("bigq"):
        pytest.skip("an iteration of 10**12 firings and more")
    found = throughput(shared_graph(f"traps/{name}.xml"), method=method)
    assert found.period == known_period(TRAPS[name]["truth"])
    assert (found.deadlock is None) == (found.period is not None)


@each("name", [name for name in TRAPS if name == "inconsistent"])
def test_the_inconsistent_trap_is_refused(name):
    with pytest.raises(InconsistentGraph):
        throughput(shared_graph(f"traps/{name}.xml"))


@pytest.mark.slow
@each("name", PERIODS)
def test_published_graphs_have_their_period(name):
    assert throughput(shared_graph(name)).period == Fraction(PERIODS[name])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["periodic", "execution"])
@each("name", [name for name in PERIODS if not name.startswith(ONLY_AUTO)])
def test_published_graphs_have_their_period_by_both_methods(name, method):
    assert throughput(shared_graph(name), method=method).period == Fraction(PERIODS[name])


@each_method
@each("name", UNLIMITED)
def test_published_graphs_without_a_limit_have_period_0(name, method):
    found = throughput(shared_graph(name), method=method)
    assert (found.period, found.throughput) == (0, None)
