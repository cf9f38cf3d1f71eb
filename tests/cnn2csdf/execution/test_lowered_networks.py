"""Random networks, lowered, bounded, scheduled and run."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hand_written import frames
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_networks import finished, models

from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.compare import verify
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.granularity import Granularity
from cnn2csdf.lowering import lower
from cnn2csdf.operators import Elementwise
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.schedules import listed_firings, periodic_schedule
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import ExecutionError, GaveUp
from csdf.search.trade_off import smallest_storage
from csdf.time_limit import Stop

FRAMES = 2
HALF = Fraction(1, 2)
TOLERANCE = 1e-4  # sums are taken in another order, and softmax and divisions spread their errors


def examples(count):
    return settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def patient(evaluations):
    """Ends a search after so many evaluations, however fast they are."""

    def watch(progress):
        if progress.done >= evaluations:
            raise GaveUp("enough evaluations")

    return watch


def with_peaks(graph):
    """The graph with the peaks of a self-timed execution as capacities, and that execution.

    No channel holds more than two frames: without bounds a fast part runs ahead for ever.
    """
    frame = {
        channel.name: sum(channel.production)
        for channel in graph.channels
        if not channel.is_self_loop
    }
    roomy = with_capacities(graph, {name: 2 * size for name, size in frame.items()})
    execution = self_timed_execution(roomy, iterations=FRAMES)
    return with_capacities(
        graph, {name: execution.max_occupancy[name] for name in frame}
    ), execution


granularities = st.sampled_from([Granularity(), Granularity(rows=2), Granularity(rows=None)])


@pytest.mark.slow
@given(model=models(), granularity=granularities)
@examples(40)
def test_a_self_timed_run_by_parts_is_the_whole_run(model, granularity):
    graph, execution = with_peaks(lower(model.network, granularity))
    found = verify(model, graph, execution.firings, frames(model, FRAMES))
    assert found.worst.relative < TOLERANCE
    assert found.run.peaks == found.run.capacities
    assert found.run.firings == len(execution.firings)


@given(model=models())
@examples(15)
def test_the_smallest_storage_suffices_for_a_run(model):
    graph = lower(model.network)
    found = smallest_storage(graph, budget=Stop(report=patient(200)))
    bounded = with_capacities(graph, dict(found.point.capacities))
    execution = self_timed_execution(bounded, iterations=FRAMES)
    checked = verify(model, bounded, execution.firings, frames(model, FRAMES))
    assert checked.worst.relative < TOLERANCE
    assert all(checked.run.peaks[name] <= size for name, size in checked.run.capacities.items())


@given(model=models(layers=3))
@examples(10)
def test_a_periodic_schedule_runs(model):
    graph, _ = with_peaks(lower(model.network))
    schedule = periodic_schedule(graph)
    firings = listed_firings(graph, schedule, iterations=FRAMES)
    assert verify(model, graph, firings, frames(model, FRAMES)).worst.relative < TOLERANCE


@given(model=models(), data=st.data())
@examples(30)
def test_one_row_less_than_the_peak_is_found(model, data):
    graph, execution = with_peaks(lower(model.network))
    names = [channel.name for channel in graph.channels if not channel.is_self_loop]
    name = data.draw(st.sampled_from(names))
    short = with_capacities(graph, {name: execution.max_occupancy[name] - 1})
    with pytest.raises(ExecutionError, match=f"channel '{name}'"):
        run_row_by_row(model, short, execution.firings, frames(model, FRAMES))


@pytest.mark.slow
@given(model=models(), data=st.data())
@examples(25)
def test_a_firing_that_starts_a_moment_early_is_found(model, data):
    # Self-timed, a firing starts when something that it waits for ends: a moment before, it lacks
    # tokens, or space, or its own earlier firing still runs.
    graph, execution = with_peaks(lower(model.network))
    waited = [place for place, one in enumerate(execution.firings) if one.start > 0]
    place = data.draw(st.sampled_from(waited))
    firings = list(execution.firings)
    early = firings[place]
    firings[place] = replace(early, start=early.start - HALF, end=early.end - HALF)
    with pytest.raises(ExecutionError, match=f"actor '{early.actor}', firing {early.index} "):
        run_row_by_row(model, graph, firings, frames(model, FRAMES))


@pytest.mark.slow
@given(model=models(), data=st.data())
@examples(25)
def test_a_window_that_releases_what_it_consumes_is_found(model, data):
    graph = lower(model.network)
    windows = [channel for channel in graph.channels if channel.release is not None]
    assume(windows)
    hasty = replace(data.draw(st.sampled_from(windows)), release=None)
    channels = [hasty if one.name == hasty.name else one for one in graph.channels]
    graph, execution = with_peaks(replace(graph, channels=tuple(channels)))
    with pytest.raises(ExecutionError, match=f"channel '{hasty.name}': rows"):
        run_row_by_row(model, graph, execution.firings, frames(model, FRAMES))


def test_a_join_that_writes_all_with_its_last_part_cannot_run():
    builder = NetworkBuilder()
    source = builder.input((1, 4, 2))
    builder.output(builder.add(Elementwise(function="add"), source, source, name="join"))
    model = finished(builder, 0)
    graph, execution = with_peaks(lower(model.network, Granularity(joins_wait=True)))
    with pytest.raises(ExecutionError, match="rows 0 to 4 read, but it holds rows 3 to"):
        run_row_by_row(model, graph, execution.firings, frames(model, FRAMES))
