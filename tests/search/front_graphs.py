"""Random graphs whose storage distributions can all be tried, one shape for every trait."""

from functools import cache
from math import comb

from csdf.errors import GaveUp
from csdf.generation import GraphShape, random_graph
from csdf.search.trade_off import EVERYTHING, pareto_front
from csdf.time_limit import Stop
from tests.reference import brute_front
from tests.reference.brute_front import single_firing

CALLS = 300  # of the watch, before a front that may have no end is cut off
DISTRIBUTIONS = 1000  # most that are tried for one graph

SHAPES = {
    "SDF": GraphShape(actors=3, extra_channels=0, max_repetitions=4, max_rate=4),
    "SDF, initial tokens": GraphShape(
        actors=3, extra_channels=1, max_repetitions=3, max_rate=3, max_extra_initial_tokens=4
    ),
    "CSDF": GraphShape(
        actors=3, extra_channels=0, max_phases=3, max_repetitions=4, max_rate=4,
    ),
    "tree": GraphShape(
        actors=4, extra_channels=0, max_phases=2, max_repetitions=4, max_rate=4,
        max_extra_initial_tokens=2, is_strongly_connected=False,
    ),
    "parallel channels": GraphShape(
        actors=2, extra_channels=2, max_phases=3, max_repetitions=3, max_rate=3,
        max_extra_initial_tokens=2, is_strongly_connected=False,
    ),
    "overlapping": GraphShape(
        actors=3, extra_channels=0, max_phases=2, max_repetitions=3, max_rate=3,
        max_extra_initial_tokens=4, has_self_loops=False,
    ),
    "several firings at once": GraphShape(
        actors=3, extra_channels=1, max_phases=2, max_repetitions=3, max_rate=3,
        max_concurrency=3, is_strongly_connected=False,
    ),
    "zero durations": GraphShape(
        actors=3, extra_channels=1, max_phases=2, max_repetitions=3, max_rate=3,
        min_duration=0, max_duration=2, is_strongly_connected=False,
    ),
    "windows": GraphShape(
        actors=3, extra_channels=0, max_phases=3, max_repetitions=4, max_rate=4,
        is_bounded=True, has_late_release=True, is_strongly_connected=False,
    ),
    "windows, overlapping, zero durations": GraphShape(
        actors=2, extra_channels=1, max_phases=3, max_repetitions=3, max_rate=3,
        min_duration=0, max_duration=3, max_extra_initial_tokens=3, has_self_loops=False,
        is_bounded=True, has_late_release=True, is_strongly_connected=False,
    ),
}  # fmt: skip


class Limit:
    """A report that ends the search at the given call, counted from 1."""

    def __init__(self, last, error=GaveUp):
        self.calls = 0
        self._last = last
        self._error = error

    def __call__(self, progress):
        self.calls += 1
        if self.calls >= self._last:
            raise self._error("enough")


def front_of(graph, choice=EVERYTHING, calls=CALLS):
    return pareto_front(graph, choice, budget=Stop(report=Limit(calls)))


def largest_size(front):
    """The size up to which the front claims to be known."""
    return front.points[-1].size if front.is_complete else front.lower_bound - 1


def brute_points(graph, front):
    """All points up to the size that the front claims to know, by trying all distributions."""
    return _brute_points(graph, largest_size(front))


_brute_points = cache(
    brute_front.front_of
)  # settings of the search differ, the graphs are the same


def known_points(front):
    return [(point.size, point.period) for point in front.points]


def count_of_distributions(graph, size, channels=None):
    """How many distributions of at most that size hold every single firing."""
    channels = channels or [channel for channel in graph.channels if not channel.is_self_loop]
    spare = size - sum(map(single_firing, channels))
    return comb(spare + len(channels), len(channels)) if spare >= 0 else 0


def drawn(shape, count):
    """The first graphs of the shape whose front can be found by brute force: (seed, graph, front)."""
    seed = 0
    while count:
        graph = random_graph(seed, SHAPES[shape])
        front = front_of(graph)
        if count_of_distributions(graph, largest_size(front)) <= DISTRIBUTIONS:
            yield seed, graph, front
            count -= 1
        seed += 1
