"""The search in parts finds what the search as a whole finds, however the parts were guessed."""

from fractions import Fraction

import pytest

from csdf.model.builder import GraphBuilder
from csdf.search import named_search
from csdf.search.exploration import Known
from csdf.search.learned_bounds import InsufficientRegion
from csdf.search.parted_exploration import PartedExploration, independent_parts
from csdf.search.trade_off import pareto_front, smallest_storage
from tests import both_kernels
from tests.both_kernels import BOTH
from tests.search.front_graphs import (
    SHAPES,
    brute_points,
    drawn,
    front_of,
    known_points,
    largest_size,
)
from tests.shared_data import each, oracle, shared_graph

each_patience = pytest.mark.parametrize("patience", [0, 2, 8])
KNOWN = {
    name: known["points"]
    for name, known in oracle("pareto.json").items()
    if known["points"] and name.startswith(("small/", "sdf3/"))
}


@pytest.fixture(params=BOTH)
def _backend(request, monkeypatch):
    """Every test with kernels as they are written, and as machine code."""
    both_kernels.use(monkeypatch, request.param)


@pytest.fixture
def parted(monkeypatch):
    """The number of parts of each parted search, at its begin and whenever some were joined."""
    seen = []
    begin, learn = PartedExploration.__init__, PartedExploration._learn

    def begun(self, *arguments):
        begin(self, *arguments)
        seen.append([len(self._parts)])

    def learned(self, *arguments):
        learn(self, *arguments)
        seen[-1].append(len(self._parts))

    monkeypatch.setattr(PartedExploration, "__init__", begun)
    monkeypatch.setattr(PartedExploration, "_learn", learned)
    return seen


def be_impatient(monkeypatch, patience):
    monkeypatch.setattr(named_search, "PATIENCE", patience)


@pytest.mark.usefixtures("_backend")
@each_patience
@pytest.mark.parametrize("shape", SHAPES)
def test_a_front_in_parts_is_that_of_brute_force(monkeypatch, shape, patience):
    for seed, graph, front in drawn(shape, 2):
        brute = brute_points(graph, front)
        with monkeypatch.context() as patch:
            be_impatient(patch, patience)
            again = front_of(graph)
        size = min(largest_size(front), largest_size(again))
        found = [point for point in known_points(again) if point[0] <= size]
        assert found == [point for point in brute if point[0] <= size], seed
        assert again.is_complete == front.is_complete, seed


def chain(tokens):
    """Three actors in a row, each slower, whose channels share the storage of a long latency."""
    builder = GraphBuilder()
    for name, time in (("a", 2), ("b", 3), ("c", 5), ("d", 4)):
        builder.actor(name, time, overlap=False)
    return (
        builder.channel("a", 3, "b", 2, name="ab")
        .channel("b", 2, "c", 3, name="bc")
        .channel("c", 1, "d", 1, name="cd", initial_tokens=tokens)
        .graph()
    )


@pytest.mark.parametrize("tokens", [0, 1])
def test_parts_that_one_reason_joins_become_one(monkeypatch, parted, tokens):
    whole = pareto_front(chain(tokens))
    be_impatient(monkeypatch, 0)
    assert known_points(pareto_front(chain(tokens))) == known_points(whole)
    # Three channels, and at first no cut: three parts, and fewer once a cycle passes two of them.
    assert parted[0][0] == 3
    assert parted[0][-1] < 3


def test_most_searches_begin_with_several_parts_and_some_join_them(monkeypatch, parted):
    be_impatient(monkeypatch, 0)
    for shape in SHAPES:
        for _ in drawn(shape, 4):
            pass
    assert sum(parts[0] > 1 for parts in parted) > 20
    assert sum(parts[-1] < parts[0] for parts in parted) > 10


@each_patience
@pytest.mark.parametrize("shape", SHAPES)
def test_the_least_storage_for_a_period_is_the_same_in_parts(monkeypatch, shape, patience):
    for seed, graph, front in drawn(shape, 3):
        for point in front.points[:4]:
            if not point.period:
                continue
            with monkeypatch.context() as patch:
                be_impatient(patch, patience)
                found = smallest_storage(graph, period=point.period)
            assert found.point.size == found.lower_bound == point.size, seed


@each("name", KNOWN)
def test_published_graphs_have_their_front_in_parts(monkeypatch, name):
    graph = shared_graph(name)
    whole = pareto_front(graph)
    be_impatient(monkeypatch, 5)
    front = pareto_front(graph)
    assert front.is_complete
    assert known_points(front) == known_points(whole)
    assert [point.size for point in front.points] == [size for size, _ in KNOWN[name]]


def test_variables_of_one_cut_are_in_one_part():
    cuts = [
        InsufficientRegion({0: 3, 4: 1}),
        InsufficientRegion({2: 5}),
        InsufficientRegion({4: 2, 1: 2}),
        InsufficientRegion({}),
    ]
    assert independent_parts(6, Known(cuts, []).joined) == [[0, 1, 4], [2], [3], [5]]


def test_a_front_that_is_ended_in_parts_claims_only_what_is_proved(monkeypatch):
    graph = chain(1)
    whole = pareto_front(graph)
    be_impatient(monkeypatch, 2)
    for calls in range(3, 40, 3):
        ended = front_of(graph, calls=calls)
        below = [point for point in known_points(whole) if point[0] < ended.lower_bound]
        if not ended.is_complete:
            assert known_points(ended) == below
    assert whole.points[-1].period == Fraction(whole.best_period)
