"""Constraints of periodic schedules: numbers beyond 64 bits, and actors of many phases."""

from random import Random

import pytest

from csdf import throughput
from csdf.analysis import periodic
from csdf.analysis.self_timed import self_timed_execution
from csdf.kernels.compile import has_compiled
from csdf.model.builder import GraphBuilder
from csdf.model.indexed import indexed


def test_rounding_changes_no_period_where_64_bits_do_not_hold_the_sums(monkeypatch):
    # lcm(1, ..., 29) is about 2^41, and a cycle takes a thousand units and more: products pass 61 bits
    random = Random(5)
    repetitions = [1 + i % 29 for i in range(174)]
    builder = GraphBuilder("ring")
    for i in range(174):
        builder = builder.actor(f"a{i}", random.randint(1, 10**6), overlap=False)
    for i, here in enumerate(repetitions):
        j = (i + 1) % 174
        there = repetitions[j]
        tokens = 9 * here * there if j == 0 else 0
        builder = builder.channel(f"a{i}", there, f"a{j}", here, initial_tokens=tokens)
    graph = builder.graph()
    monkeypatch.setattr(periodic, "MANY_NODES", 10)
    rounded = []
    monkeypatch.setattr(
        periodic,
        "_rounded_choice",
        lambda *given, real=periodic._rounded_choice: rounded.append(real(*given)) or rounded[-1],
    )
    fast = throughput(graph).period
    assert any(rounded) or not has_compiled()
    monkeypatch.setattr(periodic, "_rounded_choice", lambda *_: None)
    assert throughput(graph).period == fast


def test_actors_of_many_phases_that_overlap_agree_with_their_execution():
    # durations differ, so that no firing of a producer stands for the ones before it
    random = Random(3)
    builder = GraphBuilder("phases")
    for i in range(3):
        builder = builder.actor(f"a{i}", [random.randint(1, 100) for _ in range(60)])
    for i in range(3):
        made = [random.randint(0, 5) for _ in range(60)]
        taken = random.sample(made, 60)
        builder = builder.channel(
            f"a{i}", made, f"a{(i + 1) % 3}", taken, initial_tokens=sum(made) if i == 2 else 0
        )
    graph = builder.graph()
    assert throughput(graph).period == self_timed_execution(graph).period


def test_an_interrupted_solution_leaves_the_arrays_of_the_one_before(monkeypatch):
    builder = GraphBuilder("ring").actor("a", 5).actor("b", 3)
    builder.channel("a", 2, "b", 3).channel("b", 3, "a", 2, initial_tokens=7)
    problem = periodic.PeriodicProblem(indexed(builder.graph()), [3, 2])
    periods = [problem.solve(copies).period for copies in ([1, 1], [3, 2], [1, 1])]
    assert periods[0] != periods[1]

    def interrupted(**_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(periodic, "NodeArrays", interrupted)
        with pytest.raises(KeyboardInterrupt):
            problem.solve([3, 2])
    assert [problem.solve(copies).period for copies in ([3, 2], [1, 1])] == periods[1:]
