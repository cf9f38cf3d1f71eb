"""Shapes of random graphs small enough for the slow references, one for every trait that matters."""

from csdf.generation.shape import GraphShape

SHAPES = {
    "SDF": GraphShape(actors=4, most_early_tokens=4),
    "CSDF": GraphShape(actors=3, most_phases=3, most_early_tokens=3),
    "tight": GraphShape(actors=4, most_phases=2, extra_channels=5),
    "overlapping": GraphShape(actors=3, most_phases=3, has_self_loops=False, most_early_tokens=6),
    "overlapping, zero durations": GraphShape(
        actors=3,
        most_phases=3,
        has_self_loops=False,
        least_duration=0,
        most_duration=3,
        most_early_tokens=6,
    ),
    "loosely connected": GraphShape(
        actors=4,
        most_phases=3,
        most_concurrency=3,
        least_duration=0,
        most_duration=3,
        most_early_tokens=6,
        is_strongly_connected=False,
    ),
    "bounded, windows": GraphShape(
        actors=3,
        most_phases=3,
        is_bounded=True,
        has_windows=True,
        is_strongly_connected=False,
        most_early_tokens=2,
    ),
    "bounded, windows, overlapping": GraphShape(
        actors=3,
        most_phases=4,
        is_bounded=True,
        has_windows=True,
        has_self_loops=False,
        least_duration=0,
        most_duration=4,
        most_early_tokens=4,
    ),
    "single actor": GraphShape(
        actors=1, most_phases=4, least_duration=0, most_duration=4, most_concurrency=5
    ),
    "HSDF, zero durations": GraphShape(
        actors=5,
        most_repetitions=1,
        most_rate=1,
        has_self_loops=False,
        least_duration=0,
        most_duration=2,
        most_early_tokens=1,
    ),
}
