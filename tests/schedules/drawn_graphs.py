"""Random live graphs of many shapes, each small enough for the checker."""

from csdf.generation import GraphShape, random_graph

SHAPES = {
    "plain": GraphShape(actors=4, max_phases=1),
    "phases": GraphShape(actors=4, max_phases=3),
    "zero durations": GraphShape(actors=4, max_phases=2, min_duration=0, max_duration=2),
    "overlap": GraphShape(actors=4, max_phases=3, has_self_loops=False, max_extra_initial_tokens=4),
    "two at once": GraphShape(actors=3, max_phases=2, max_concurrency=2, max_extra_initial_tokens=4),
    "bounded": GraphShape(actors=4, max_phases=2, is_bounded=True, max_extra_initial_tokens=2),
    "bounded chain": GraphShape(
        actors=4, max_phases=2, is_bounded=True, is_strongly_connected=False, extra_channels=1
    ),
    "windows": GraphShape(actors=3, max_phases=3, is_bounded=True, has_late_release=True),
    "windows, overlap, zero durations": GraphShape(
        actors=3, max_phases=3, min_duration=0, max_duration=2, is_bounded=True,
        has_late_release=True, has_self_loops=False, max_extra_initial_tokens=3,
    ),
}  # fmt: skip

DRAWN = {
    f"{name}, seed {seed}": random_graph(seed, shape)
    for name, shape in SHAPES.items()
    for seed in range(8)
}
