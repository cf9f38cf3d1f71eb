"""Looped schedules of one processor, and their effect on the tokens of each channel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from csdf.model.graph import Channel, Graph

# Kinds of schedules; min-memory: the better of the others.
ORDERS = ("min-memory", "single-appearance", "demand-driven")


@dataclass(frozen=True, slots=True)
class Fire:
    """A firing of an actor, in its next phase."""

    actor: str


@dataclass(frozen=True, slots=True)
class LoopedBody:
    """A loop: `count` executions of a body."""

    count: int
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Interleaved:
    """A data-driven part of a schedule: repeatedly, the first enabled actor of `order` fires.

    Only channels between these actors decide whether an actor is enabled. The tokens that other
    actors produce for them are present before the part begins. written: the same firings as loops,
    if the loops are short.
    """

    order: tuple[str, ...]
    firings: tuple[int, ...]  # firings of each actor in the part
    written: Node | None = None


Node = Fire | LoopedBody | Interleaved


def looped(count: int, *body: Node) -> Node:
    """Return a loop over a body; a single execution or a nested single loop is simplified."""
    if count == 1 and len(body) == 1:
        return body[0]
    if len(body) == 1 and isinstance(body[0], LoopedBody):
        return LoopedBody(count * body[0].count, body[0].body)
    return LoopedBody(count, body)


def leaves(node: Node) -> Iterator[Fire | Interleaved]:
    """Yield the leaves of a schedule from left to right, each appearance once."""
    if isinstance(node, LoopedBody):
        for inner in node.body:
            yield from leaves(inner)
    else:
        yield node


def in_words(node: Node) -> str:
    """Return a schedule in the notation of the literature: `(3 a (2 b)) c`.

    Braces hold a data-driven part: `{2 a 3 b}` are two firings of a and three of b, interleaved.
    """
    if isinstance(node, LoopedBody) and node.count == 1:
        return " ".join(map(in_words, node.body))
    return _text(node)


def _text(node: Node) -> str:
    if isinstance(node, Fire):
        return node.actor
    if isinstance(node, Interleaved):
        if node.written is not None:
            return in_words(node.written)
        pairs = zip(node.firings, node.order, strict=True)
        return "{" + " ".join(f"{count} {name}" for count, name in pairs) + "}"
    return f"({node.count} {' '.join(map(_text, node.body))})"


class Effect(NamedTuple):
    """The effect of a part of a schedule on a channel that begins without tokens.

    change, lowest: final and minimum number of tokens available to the consumer. kept_change,
    highest: final and maximum number of tokens that occupy the buffer. Besides the available tokens,
    these are the tokens that a window retains and the tokens that a running firing produces.
    """

    change: int
    lowest: int
    kept_change: int
    highest: int


NOTHING = Effect(0, 0, 0, 0)


def then(first: Effect, second: Effect) -> Effect:
    """Return the effect of two consecutive parts of a schedule."""
    return Effect(
        first.change + second.change,
        min(first.lowest, first.change + second.lowest),
        first.kept_change + second.kept_change,
        max(first.highest, first.kept_change + second.highest),
    )


def repeated(effect: Effect, count: int) -> Effect:
    """Return the effect of `count` repetitions, in closed form."""
    if not count:
        return NOTHING
    return Effect(
        count * effect.change,
        effect.lowest + min(0, (count - 1) * effect.change),
        count * effect.kept_change,
        effect.highest + max(0, (count - 1) * effect.kept_change),
    )


class Ports:
    """The tokens that each phase of an actor produces and consumes, by channel."""

    def __init__(self, graph: Graph) -> None:
        """Index the channels of a graph by actor; capacities are ignored."""
        self.phases = {actor.name: actor.phases for actor in graph.actors}
        self.touched: dict[str, list[Channel]] = {actor.name: [] for actor in graph.actors}
        for channel in graph.channels:
            for name in dict.fromkeys((channel.producer, channel.consumer)):
                self.touched[name].append(channel)

    def firing(self, actor: str, phase: int, channel: Channel) -> Effect:
        """Return the effect of a firing on a channel that its actor reads or writes."""
        taken = channel.consumption[phase] if channel.consumer == actor else 0
        given_back = channel.release_rates[phase] if channel.consumer == actor else 0
        made = channel.production[phase] if channel.producer == actor else 0
        return Effect(made - taken, -taken, made - given_back, made)


Effects = Mapping[str, Effect]


def effects(node: Node, ports: Ports, orders: Mapping[Interleaved, Sequence[str]]) -> Effects:
    """Return the effect of a schedule on each channel of its actors, without executing the loops.

    orders: the firing sequence of each interleaved part. Each loop body contains whole cycles of
    each of its actors, or a single firing. The count of such a single firing is a multiple of the
    phases of its actor; otherwise raises AssertionError.
    """
    if isinstance(node, Interleaved):
        return _listed_effects(orders[node], ports)
    if isinstance(node, LoopedBody) and len(node.body) == 1 and isinstance(node.body[0], Fire):
        return _cycles(node.body[0].actor, node.count, ports)
    if isinstance(node, Fire):
        return _cycles(node.actor, 1, ports)
    effects_of: dict[str, Effect] = {}
    for inner in node.body:
        for name, effect in effects(inner, ports, orders).items():
            effects_of[name] = then(effects_of.get(name, NOTHING), effect)
    return {name: repeated(effect, node.count) for name, effect in effects_of.items()}


def _cycles(actor: str, count: int, ports: Ports) -> Effects:
    """Return the effect of whole cycles of an actor. count: firings."""
    cycles, rest = divmod(count, ports.phases[actor])
    assert rest == 0, f"{actor} fires {count} times, which are no whole cycles"
    cycle = _listed_effects([actor] * ports.phases[actor], ports)
    return {channel: repeated(effect, cycles) for channel, effect in cycle.items()}


def _listed_effects(firings: Sequence[str], ports: Ports) -> Effects:
    """Return the effect of a firing sequence in which each actor begins in phase 0."""
    phase: dict[str, int] = {}
    effects_of: dict[str, Effect] = {}
    for actor in firings:
        now = phase.get(actor, 0)
        for channel in ports.touched[actor]:
            effect = ports.firing(actor, now, channel)
            effects_of[channel.name] = then(effects_of.get(channel.name, NOTHING), effect)
        phase[actor] = (now + 1) % ports.phases[actor]
    return effects_of
