"""Size and work of a graph, without analysing its behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from csdf.analysis.consistency import cycle_vector
from csdf.arguments import public
from csdf.model.graph import Graph
from csdf.model.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics(Shown):
    """Figures of one graph; those of an iteration follow from the repetition vector.

    work: the durations of all firings of an iteration, in the units of the user.
    tokens_moved, bytes_moved: by all channels in an iteration. initial_bytes: of all initial tokens.
    Both numbers of bytes are None where a token size is unknown.
    """

    actors: int
    channels: int
    self_loops: int
    phases: int
    initial_tokens: int
    firings_per_iteration: int
    work: Fraction
    tokens_moved: int
    bytes_moved: int | None
    initial_bytes: int | None


@public
def statistics(graph: Graph) -> Statistics:
    """Return the figures of a consistent graph. Raises InconsistentGraph."""
    cycles = cycle_vector(graph)
    moved = [cycles[channel.producer] * sum(channel.production) for channel in graph.channels]
    sizes = [channel.token_size for channel in graph.channels]
    sizes_known = [size for size in sizes if size is not None]
    is_known = len(sizes_known) == len(sizes)
    initial = [channel.initial_tokens for channel in graph.channels]
    work = sum(cycles[actor.name] * sum(actor.durations) for actor in graph.actors)
    return Statistics(
        actors=len(graph.actors),
        channels=len(graph.channels),
        self_loops=sum(channel.is_self_loop for channel in graph.channels),
        phases=sum(actor.phases for actor in graph.actors),
        initial_tokens=sum(initial),
        firings_per_iteration=sum(cycles[actor.name] * actor.phases for actor in graph.actors),
        work=work * graph.time_unit,
        tokens_moved=sum(moved),
        bytes_moved=sum(map(int.__mul__, moved, sizes_known)) if is_known else None,
        initial_bytes=sum(map(int.__mul__, initial, sizes_known)) if is_known else None,
    )
