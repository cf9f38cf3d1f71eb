"""Whether a mapping is one of this graph onto this platform."""

from __future__ import annotations

from fractions import Fraction

from csdf.analysis.consistency import repetition_vector
from csdf.errors import counted
from csdf.model.graph import Graph, require_graph
from csdf.model.mapping import InvalidMapping, Mapping, Platform


def require_valid(graph: Graph, platform: Platform, mapping: Mapping) -> None:
    """Raise InvalidMapping unless the mapping is one of this graph onto this platform.

    Each order has to hold exactly the actors of its processor, in its periodic list all equally
    often against the repetition vector.
    """
    require_graph(graph)
    for actor, core in mapping.binding.items():
        if actor not in {one.name for one in graph.actors}:
            raise InvalidMapping(
                f"the binding names {actor!r}, which is no actor of {graph.name!r}"
            )
        platform.core(core)
    channels = {one.name for one in graph.channels}
    for name in (*mapping.buffers, *mapping.delays):
        if name not in channels:
            raise InvalidMapping(f"there is no channel {name!r} in {graph.name!r}")
    used = dict.fromkeys(mapping.binding.values())
    for core in used:
        if core not in mapping.orders:
            raise InvalidMapping(f"processor {core!r} has actors, but no static order")
    repetitions = repetition_vector(graph)
    for core in mapping.orders:
        platform.core(core)
        _require_order(core, mapping, repetitions)


def _require_order(core: str, mapping: Mapping, repetitions: dict[str, int]) -> None:
    order = mapping.orders[core]
    bound = {actor for actor, other in mapping.binding.items() if other == core}
    for actor in (*order.prefix, *order.periodic):
        if actor not in bound:
            raise InvalidMapping(
                f"the order of processor {core!r} names {actor!r}, which is not bound to it"
            )
    first = next(iter(order.periodic))
    iterations = Fraction(order.periodic.count(first), repetitions[first])
    for actor in bound:
        found = order.periodic.count(actor)
        if found != iterations * repetitions[actor] or not found:
            raise InvalidMapping(
                f"the order of processor {core!r} has {counted(found, 'firing')} of {actor!r} "
                f"and {order.periodic.count(first)} of {first!r}; an iteration has "
                f"{repetitions[actor]} and {repetitions[first]}"
            )
