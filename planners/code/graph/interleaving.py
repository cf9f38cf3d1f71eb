"""Interleaved firings of actors on a cycle: a simulated order, written as short loops if possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from csdf.errors import GaveUp
from csdf.model.graph import Channel, Graph
from csdf.time_limit import Stop
from planners.code.graph.looped import Fire, Node, leaves, looped

MOST_FIRINGS = 2_000_000  # simulated firings: a few seconds
MOST_WRITTEN = 20_000  # firings that are searched for loops
LONGEST_BODY = 400  # nodes in the body of a loop that is searched for
PLACES_EACH = 6  # mean appearances of an actor in loops that count as short


def firing_order(
    graph: Graph, order: Sequence[str], firings: Sequence[int], stop: Stop
) -> list[str]:
    """Return a firing sequence: repeatedly, the first enabled actor of `order` fires.

    graph: contains only these actors, and no capacities. firings: of each actor, in this order. Raises
    GaveUp for too many firings and for a deadlock.
    """
    if sum(firings) > MOST_FIRINGS:
        raise GaveUp(
            f"{sum(firings)} firings of {len(order)} actors that wait for one another in turn; "
            f"at most {MOST_FIRINGS} are counted one by one"
        )
    simulation = _Simulation(graph, order, firings)
    sequence: list[str] = []
    while (actor := simulation.next_actor()) is not None:
        simulation.fire(actor)
        sequence.append(actor)
        if len(sequence) % 10_000 == 0:
            stop.look()
    if len(sequence) < sum(firings):
        raise GaveUp(f"no actor of {', '.join(order)} can fire; they block one another")
    return sequence


class _Simulation:
    """Tokens in the channels of a graph, and remaining firings of its actors."""

    def __init__(self, graph: Graph, order: Sequence[str], firings: Sequence[int]) -> None:
        self._left = dict(zip(order, firings, strict=True))
        self._tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
        self._phase = dict.fromkeys(order, 0)  # of the next firing
        self._phases = {name: graph.actor(name).phases for name in order}
        self._inputs: dict[str, list[Channel]] = {name: [] for name in order}
        self._outputs: dict[str, list[Channel]] = {name: [] for name in order}
        for channel in graph.channels:
            self._inputs[channel.consumer].append(channel)
            self._outputs[channel.producer].append(channel)

    def next_actor(self) -> str | None:
        """Return the first actor with firings left that is enabled."""
        for name, left in self._left.items():
            if left and self._can_fire(name):
                return name
        return None

    def _can_fire(self, name: str) -> bool:
        phase = self._phase[name]
        return all(
            self._tokens[channel.name] >= channel.consumption[phase]
            for channel in self._inputs[name]
        )

    def fire(self, name: str) -> None:
        """Move the tokens of a firing."""
        phase = self._phase[name]
        for channel in self._inputs[name]:
            self._tokens[channel.name] -= channel.consumption[phase]
        for channel in self._outputs[name]:
            self._tokens[channel.name] += channel.production[phase]
        self._phase[name] = (phase + 1) % self._phases[name]
        self._left[name] -= 1


def short_loops(firings: Sequence[str]) -> Node | None:
    """Return a firing sequence as loops, or None if the loops are not short.

    Adjacent repetitions become loops, shortest bodies first. This greedy compression does not always
    minimise the appearances. Loops are short if the actors have at most about PLACES_EACH
    appearances on average. Example: a b b a b b c is (2 a (2 b)) c.
    """
    if len(firings) > MOST_WRITTEN:
        return None
    numbers: dict[Node, int] = {}  # equal nodes share a number: comparisons take constant time
    sequence = [numbers.setdefault(Fire(name), len(numbers)) for name in firings]
    length = 1  # of the bodies that are searched for
    while length <= min(len(sequence) // 2, LONGEST_BODY):
        shorter = _with_loops(sequence, length, numbers)
        # A new loop may be part of repetitions of shorter bodies.
        length = 1 if len(shorter) < len(sequence) and length > 1 else length + 1
        sequence = shorter
    nodes = list(numbers)
    nested = looped(1, *(nodes[number] for number in sequence))
    appearances = len(list(leaves(nested)))
    return nested if appearances <= PLACES_EACH * (len(set(firings)) + 1) else None


def _with_loops(sequence: Sequence[int], length: int, numbers: dict[Node, int]) -> list[int]:
    """A sequence of nodes in which loops replace adjacent repetitions of bodies of some length.

    numbers: the number of each node, in order; new loops are added.
    """
    nodes = list(numbers)
    # For each position, how many successive nodes equal the nodes `length` positions later.
    alike = [0] * (len(sequence) + 1)
    for position in reversed(range(len(sequence) - length)):
        if sequence[position] == sequence[position + length]:
            alike[position] = alike[position + 1] + 1
    shorter: list[int] = []
    position = 0
    while position < len(sequence):
        times = 1 + alike[position] // length
        if times == 1:
            shorter.append(sequence[position])
            position += 1
        else:
            body = (nodes[number] for number in sequence[position : position + length])
            shorter.append(numbers.setdefault(looped(times, *body), len(numbers)))
            position += times * length
    return shorter


def downstream_first(feeds: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return actors with consumers before producers (depth-first postorder).

    feeds: the consumers of each actor. On a cycle, the edge that closes the cycle is ignored.
    """
    actors: dict[str, None] = {}
    met: set[str] = set()
    for first in feeds:
        path = [] if first in met else [first]
        while path:
            met.add(path[-1])
            ahead = next((follower for follower in feeds[path[-1]] if follower not in met), None)
            if ahead is not None:
                path.append(ahead)
            else:
                actors.setdefault(path.pop())
    return tuple(actors)
