"""Large cyclic graphs: work grows with the graph, and periods are those of other methods."""

import random
from math import gcd

import pytest

from csdf.analysis import execution as executions
from csdf.analysis.execution import Execution
from csdf.analysis.periodic import PeriodicProblem
from csdf.analysis.throughput import throughput
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder


def ring(actors, seed=1, repetitions=4):
    """A ring with as many short channels; half of its channels hold tokens."""
    draw = random.Random(seed)
    firings = [draw.randint(1, repetitions) for _ in range(actors)]
    builder = GraphBuilder(f"ring of {actors}")
    for number in range(actors):
        builder.actor(f"a{number}", draw.randint(1, 100), overlap=False)
    steps = [(number, 1, draw.random() < 0.5) for number in range(actors)]
    steps += [(draw.randrange(actors), draw.randint(2, 8), False) for _ in range(actors)]
    for number, length, has_tokens in steps:
        to = (number + length) % actors
        shared = gcd(firings[number], firings[to])
        consumed = firings[number] // shared
        tokens = consumed * draw.randint(1, 3) if has_tokens or to < number else 0
        builder.channel(
            f"a{number}", firings[to] // shared, f"a{to}", consumed, initial_tokens=tokens
        )
    return builder.graph()


@pytest.fixture
def layouts(monkeypatch):
    """Count how often the rings of a whole graph are laid out."""
    count = []
    plain = Execution._lay_out
    monkeypatch.setattr(Execution, "_lay_out", lambda *args: (count.append(1), plain(*args)))
    return count


def test_rings_of_a_large_graph_that_run_full_move_one_by_one(layouts):
    throughput(ring(250), method="execution")
    assert len(layouts) <= 4  # 15 where each full ring lays out all, 5,000 for 4,000 actors


@pytest.fixture
def schedules(monkeypatch):
    """The number of firings of each periodic schedule that is solved."""
    sizes = []
    plain = PeriodicProblem.solve

    def solve(self, copies, *args, **options):
        sizes.append(self.nodes(copies))
        return plain(self, copies, *args, **options)

    monkeypatch.setattr(PeriodicProblem, "solve", solve)
    return sizes


def test_refining_a_large_random_graph_ends_with_all_firings_at_once(schedules):
    shape = GraphShape(
        actors=250, extra_channels=250, max_repetitions=4, max_extra_initial_tokens=3
    )
    graph = random_graph(1, shape)
    refined = throughput(graph)
    assert len(schedules) <= 4  # six without, and 87 for 10,000 actors
    assert refined.period == throughput(graph, method="execution").period


@pytest.mark.parametrize("seed", range(5))
def test_the_period_of_a_ring_is_the_one_of_its_execution(seed):
    graph = ring(60, seed, repetitions=12)
    refined, executed = throughput(graph), throughput(graph, method="execution")
    assert (refined.period, refined.is_deadlocked) == (executed.period, executed.is_deadlocked)


def test_states_with_equal_hashes_are_told_apart(monkeypatch):
    monkeypatch.setattr(executions, "hash", lambda _state: 0, raising=False)
    for seed in range(5):
        graph = random_graph(seed, GraphShape(actors=5, max_extra_initial_tokens=4))
        assert throughput(graph, method="execution").period == throughput(graph).period
