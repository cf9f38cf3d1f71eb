"""Consistency: how often each actor fires in one iteration."""

from __future__ import annotations

from fractions import Fraction
from math import lcm

from csdf.arguments import public
from csdf.errors import InconsistentGraph
from csdf.model.graph import Channel, Graph


@public
def repetition_vector(graph: Graph) -> dict[str, int]:
    """Return the least number of firings of each actor in one iteration.

    Firings, not phase cycles: every entry is a multiple of the actor's phase count.
    Each connected component is scaled on its own. Python integers, so there is no largest one.
    O(actors + channels).

    Raises InconsistentGraph, naming one channel that cannot be balanced and both demands on it.
    Source: Bilsen et al., Cycle-Static Dataflow, IEEE Trans. Signal Processing 44(2), 1996.
    """
    cycles = cycle_vector(graph)
    return {actor.name: cycles[actor.name] * len(actor.durations) for actor in graph.actors}


def cycle_vector(graph: Graph) -> dict[str, int]:
    """Return the least number of whole phase cycles of each actor in one iteration.

    Raises InconsistentGraph as `repetition_vector` does.
    """
    touching: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
    for channel in graph.channels:
        touching[channel.producer].append(channel)
        if not channel.is_self_loop:
            touching[channel.consumer].append(channel)
    cycles: dict[str, int] = {}
    for actor in graph.actors:
        if actor.name not in cycles:
            cycles |= _component_cycles(actor.name, touching)
    return {actor.name: cycles[actor.name] for actor in graph.actors}


def _component_cycles(first: str, touching: dict[str, list[Channel]]) -> dict[str, int]:
    """Cycles of all actors connected with the first one, without a common factor."""
    ratio = {first: Fraction(1)}
    reached = [first]
    for name in reached:
        for channel in touching[name]:
            neighbour = channel.consumer if channel.producer == name else channel.producer
            if neighbour in ratio:
                continue
            produced, consumed = sum(channel.production), sum(channel.consumption)
            forward = Fraction(produced, consumed)
            ratio[neighbour] = ratio[name] * (forward if channel.producer == name else 1 / forward)
            reached.append(neighbour)
    scale = lcm(*(value.denominator for value in ratio.values()))
    # No prime divides all of these: the first ratio is 1, and the scale is the least common multiple.
    cycles = {name: value.numerator * (scale // value.denominator) for name, value in ratio.items()}
    for name in reached:
        for channel in touching[name]:
            produced = cycles[channel.producer] * sum(channel.production)
            consumed = cycles[channel.consumer] * sum(channel.consumption)
            if produced != consumed:
                raise InconsistentGraph(
                    channel.name, channel.producer, channel.consumer, produced, consumed
                )
    return cycles
