"""Graphs with other durations, made the slow way, and the random graphs that are changed."""

from dataclasses import replace
from math import lcm

from csdf.analysis.bound_channels import bound_channels
from csdf.generation import GraphShape, random_graph
from tests.reference import brute_cycle_ratio, slow_simulation


def drawn(seed):
    """A small random graph; its traits follow from the seed."""
    shape = GraphShape(
        actors=2 + seed % 3,
        extra_channels=seed % 3,
        max_phases=1 + seed % 3,
        max_repetitions=4,
        max_rate=4,
        min_duration=seed % 2,
        max_duration=6,
        max_extra_initial_tokens=seed % 4,
        max_concurrency=1 + seed % 2,
        has_self_loops=seed % 5 != 0,
        is_strongly_connected=seed % 4 != 3,
        is_bounded=seed % 6 == 0,
    )
    return random_graph(seed, shape)


def longer(graph, times):
    """The graph with more time for phases: times by (actor, phase), in the units of the user."""
    scale = lcm(*((time / graph.time_unit).denominator for time in times.values()))
    actors = tuple(
        replace(
            actor,
            durations=tuple(
                int((duration + times.get((actor.name, phase), 0) / graph.time_unit) * scale)
                for phase, duration in enumerate(actor.durations)
            ),
        )
        for actor in graph.actors
    )
    return replace(graph, actors=actors, time_unit=graph.time_unit / scale)


def all_phases(graph, name, time):
    return longer(graph, {(name, phase): time for phase in range(graph.actor(name).phases)})


def period_of(graph):
    """The period by simulation; by a search over cycles where too many states come first."""
    try:
        return slow_simulation.period_of(graph)
    except AssertionError:
        return brute_cycle_ratio.period_of(bound_channels(graph))
