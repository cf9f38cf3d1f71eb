"""Sensitivity: slack, gain and the worth of tokens, against computing every changed graph anew."""

from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.analysis.capacity_steps import capacity_steps
from csdf.analysis.cycle_lines import added_time, added_to_phase
from csdf.analysis.parametric import parametric_period
from csdf.analysis.sensitivity import sensitivity
from csdf.analysis.throughput import throughput
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph
from csdf.kernels import ranges, slack
from csdf.model.builder import GraphBuilder
from csdf.time_limit import Stop
from tests.analysis.changed_graphs import all_phases, drawn, longer, period_of
from tests.both_kernels import BOTH, use
from tests.cli.running import GRAPHS

BIT = Fraction(1, 2)


def row_of(found, actor, phase=None):
    return next(one for one in found.actors if (one.actor, one.phase) == (actor, phase))


def pipeline():
    """a is busy for 2 * 5, b for 3 * 4 an iteration; 12 places let both work at once."""
    builder = GraphBuilder().actor("a", 5, overlap=False).actor("b", 4, overlap=False)
    return builder.channel("a", 3, "b", 2, name="ab", capacity=12).graph()


def test_the_busiest_actor_has_no_slack_and_the_other_what_is_left():
    found = sensitivity(pipeline())
    # a may take (12 - 10) / 2 longer for each of its two firings.
    assert found.period == 12
    assert (row_of(found, "a").slack, row_of(found, "b").slack) == (1, 0)
    assert row_of(found, "a").next_critical == ("a",)


def test_a_bottleneck_gains_until_another_one_takes_over():
    row = row_of(sensitivity(pipeline()), "b")
    # Three firings, each 2/3 faster: 3 * (4 - 2/3) = 10, what a needs.
    assert (row.reduction, row.valid_up_to, row.min_period) == (3, Fraction(2, 3), 10)


def test_two_bottlenecks_gain_nothing_alone():
    builder = GraphBuilder().actor("a", 6, overlap=False).actor("b", 4, overlap=False)
    found = sensitivity(builder.channel("a", 3, "b", 2, name="ab", capacity=12).graph())
    assert [(one.slack, one.reduction) for one in found.actors] == [(0, 0), (0, 0)]


def test_an_actor_whose_firings_overlap_may_take_as_long_as_it_likes():
    graph = GraphBuilder().actor("a", 5, overlap=False).actor("b", 4).channel("a", 1, "b", 1)
    assert row_of(sensitivity(graph.graph()), "b").slack is None


def test_tokens_count_in_the_steps_that_matter():
    # The ring holds 6 tokens that move by 6: both take turns, 3 + 5. With 6 more both work at once.
    builder = GraphBuilder().actor("a", 3, overlap=False).actor("b", 5, overlap=False)
    builder.channel("a", 6, "b", 6, name="ab", initial_tokens=0)
    found = sensitivity(builder.channel("b", 6, "a", 6, name="ba", initial_tokens=7).graph())
    rows = {one.channel: (one.added_tokens, one.period) for one in found.channels}
    assert found.period == 8
    assert rows["ab"] == (6, 5)
    assert rows["ba"] == (5, 5)


def test_a_place_more_counts_too():
    graph = replace(pipeline(), channels=pipeline().channels)
    tight = replace(
        graph, channels=tuple(replace(one, capacity=4) if one.name == "ab" else one
                              for one in graph.channels)
    )  # fmt: skip
    row = next(one for one in sensitivity(tight).channels if one.kind == "capacity")
    larger = replace(
        tight, channels=tuple(replace(one, capacity=4 + row.added_tokens) if one.name == "ab" else one
                              for one in tight.channels)
    )  # fmt: skip
    assert row.period == throughput(larger).period < throughput(tight).period


def test_a_deadlock_is_an_answer():
    found = sensitivity(read_graph(GRAPHS / "deadlocked.xml"))
    assert found.period is None
    assert found.deadlock is not None
    assert found.actors == ()


def test_a_budget_keeps_the_rows_computed_so_far():
    graph = random_graph(3, GraphShape(actors=40, extra_channels=40))
    found = sensitivity(graph, budget=Stop(steps=20))
    assert not found.is_complete
    assert "20 steps" in found.reason
    assert len(found.actors) < 40


def test_times_of_the_user_stay_fractions():
    builder = GraphBuilder().actor("a", "5/2", overlap=False).actor("b", "1/3", overlap=False)
    found = sensitivity(builder.channel("a", 1, "b", 1).graph())
    assert row_of(found, "b").slack == Fraction(5, 2) - Fraction(1, 3)


def test_a_scaled_graph_has_scaled_slack():
    graph = read_graph(GRAPHS / "modem.xml")
    once, thrice = sensitivity(graph), sensitivity(replace(graph, time_unit=Fraction(3)))
    assert [one.slack and one.slack * 3 for one in once.actors] == [
        one.slack for one in thrice.actors
    ]


@pytest.mark.parametrize("backend", BOTH)
def test_both_kinds_of_kernels_agree_with_the_parametric_method(backend, monkeypatch):
    use(monkeypatch, backend)
    for seed in range(10):
        assert_slacks_are_those_of_pieces(drawn(seed))


def test_sums_beyond_64_bits_are_searched_in_rooms_that_are_built_once(monkeypatch):
    graph = drawn(4)
    expected = sensitivity(graph)
    monkeypatch.setattr(ranges, "largest_in_better_cycle", lambda *_: 2**80)
    searched = []
    search = slack.better_cycle
    monkeypatch.setattr(
        slack, "better_cycle", lambda rooms, *given: searched.append(rooms) or search(rooms, *given)
    )
    assert sensitivity(graph) == expected
    assert 0 < len(set(map(id, searched))) < len(searched)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, 100))
def test_slack_is_the_first_breakpoint_of_the_parametric_period(first):
    for seed in range(first, first + 100):
        assert_slacks_are_those_of_pieces(drawn(seed))


def assert_slacks_are_those_of_pieces(graph):
    for row in sensitivity(graph).actors:
        parameter = (
            added_time(graph, {row.actor: 1})
            if row.phase is None
            else added_to_phase(graph, row.actor, row.phase)
        )
        assert row.slack == parametric_period(graph, parameter).slack, (graph.name, row)


def test_a_few_random_graphs_agree_with_simulations_of_changed_ones():
    for seed in range(8):
        assert_rows_hold(drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, 100))
def test_random_graphs_agree_with_simulations_of_changed_ones(first):
    for seed in range(first, first + 100):
        assert_rows_hold(drawn(seed))


def assert_rows_hold(graph):
    found = sensitivity(graph)
    period = found.period
    assert period == period_of(graph)
    for row in found.actors:
        for time, expected in expectations(graph, row, period):
            changed = (
                all_phases(graph, row.actor, time)
                if row.phase is None
                else longer(graph, {(row.actor, row.phase): time})
            )
            simulated = period_of(changed) * changed.time_unit
            assert expected(simulated), (graph.name, row, time, simulated)
    for row in found.channels:
        if row.kind == "tokens":
            assert_tokens_hold(graph, row, period)


def expectations(graph, row, period):
    """Changes of the duration, each with what must be true of the period then."""
    if row.slack is None:
        yield Fraction(60), lambda new: new == period
    else:
        yield row.slack, lambda new: new == period
        yield row.slack + BIT, lambda new: new > period
    durations = graph.actor(row.actor).durations
    shortest = min(durations) if row.phase is None else durations[row.phase]
    if shortest:
        yield Fraction(-shortest), lambda new: new == row.min_period
        if row.reduction:
            yield -row.valid_up_to, lambda new: new == period - row.reduction * row.valid_up_to
            yield (
                -row.valid_up_to / 2,
                lambda new: new == period - row.reduction * row.valid_up_to / 2,
            )


def assert_tokens_hold(graph, row, period):
    for more in {1, row.added_tokens - 1, row.added_tokens}:
        channels = tuple(
            replace(
                one,
                initial_tokens=one.initial_tokens + more,
                capacity=None if one.capacity is None else one.capacity + more,
            )
            if one.name == row.channel
            else one
            for one in graph.channels
        )
        expected = row.period if more == row.added_tokens else period
        assert period_of(replace(graph, channels=channels)) == expected, (graph.name, row, more)


def two_ways_through():
    """Two rings of one token through a: one by its first phase, 3 + 4, one by its second, 3 + 4."""
    builder = GraphBuilder().actor("a", [3, 3], overlap=False)
    builder.actor("b", 4, overlap=False).actor("c", 4, overlap=False)
    builder.channel("a", [1, 0], "b", 1).channel("b", 1, "a", [1, 0], initial_tokens=1)
    builder.channel("a", [0, 1], "c", 1).channel("c", 1, "a", [0, 1], initial_tokens=1)
    return builder.graph()


def test_an_actor_gains_where_each_critical_cycle_takes_another_phase_of_it():
    # Each phase alone leaves the other ring at 7; both faster by 1 leave 2 + 4.
    found = sensitivity(two_ways_through())
    assert found.period == 7
    assert [row_of(found, "a", phase).reduction for phase in (None, 0, 1)] == [1, 0, 0]
    assert all(row.period == 7 for row in found.channels)


def test_the_cycle_that_limits_the_graph_is_told():
    graph = pipeline()
    assert sensitivity(graph).critical_cycle == throughput(graph).critical_cycle


def test_a_smaller_time_unit_changes_no_answer():
    # The same times in thirds of a unit, so that steps of 1/2 are none of the graph's own times.
    graph = drawn(7)
    actors = tuple(
        replace(one, durations=tuple(3 * time for time in one.durations)) for one in graph.actors
    )
    thirds = replace(graph, actors=actors, time_unit=graph.time_unit / 3)
    assert sensitivity(thirds).actors == sensitivity(graph).actors
    weights = {actor.name: Fraction(1, 2) for actor in graph.actors}
    pieces = [parametric_period(one, added_time(one, weights)).segments for one in (graph, thirds)]
    values = [Fraction(at, 4) for at in range(9)]
    for value in values:
        first, second = (
            next(one.period(value) for one in reversed(found) if one.start <= value)
            for found in pieces
        )
        assert first == second == throughput(all_longer(graph, value / 2)).period


def test_a_time_unit_above_one_is_divided_exactly():
    graph = replace(pipeline(), time_unit=Fraction(4))
    name = graph.actors[0].name
    found = parametric_period(graph, added_time(graph, {name: Fraction(1, 2)}))
    for value in (Fraction(1), Fraction(3), Fraction(50)):
        period = next(one.period(value) for one in reversed(found.segments) if one.start <= value)
        assert period == throughput(all_phases(graph, name, value / 2)).period


def all_longer(graph, time):
    return longer(
        graph,
        {(one.name, phase): time for one in graph.actors for phase in range(one.phases)},
    )


def test_a_channel_that_is_named_like_a_space_is_not_one():
    def steps_and_rows(other):
        graph = GraphBuilder().actor("a", 5, overlap=False).actor("b", 4, overlap=False)
        graph = graph.channel("a", 1, "b", 1, name="c", capacity=1)
        graph = graph.channel("b", 1, "a", 1, name=other, initial_tokens=3).graph()
        rows = sensitivity(graph).channels
        cycle = throughput(graph).critical_cycle
        steps = [(one.capacity, one.period) for one in capacity_steps(graph, "c").steps]
        return steps, [(one.kind, one.period) for one in rows], cycle.capacities

    assert steps_and_rows("c (space)") == steps_and_rows("d")
    assert steps_and_rows("d")[2] == ("c",)
