"""Actors that take turns: their firings one by one, and the same as short loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from csdf.errors import GaveUp
from csdf.model.graph import Channel, Graph
from csdf.stopping import Stop
from planners.code.graph.looped import Fire, Loop, Node, looped

MOST_FIRINGS = 2_000_000  # that are counted one by one: some seconds
MOST_WRITTEN = 20_000  # that are searched for loops
LONGEST_BODY = 400  # of a loop that is searched for, in pieces
PLACES_EACH = 6  # how often an actor may stand in loops before they are no longer short


def firing_order(
    graph: Graph, order: Sequence[str], firings: Sequence[int], stop: Stop
) -> list[str]:
    """Return the firings of some actors, always the first of `order` that can fire.

    graph: of these actors alone, without capacities. Raises GaveUp where they are too many, and for
    actors that block one another.
    """
    if sum(firings) > MOST_FIRINGS:
        raise GaveUp(
            f"{sum(firings)} firings of {len(order)} actors that wait for one another in turn; "
            f"at most {MOST_FIRINGS} are counted one by one"
        )
    turns = _Turns(graph, order, dict(zip(order, firings, strict=True)))
    found: list[str] = []
    while (actor := turns.next_actor()) is not None:
        turns.fire(actor)
        found.append(actor)
        if len(found) % 10_000 == 0:
            stop.look()
    if any(turns.left.values()):
        raise GaveUp(f"no actor of {', '.join(order)} can fire; they block one another")
    return found


class _Turns:
    """Tokens in the channels of some actors, and who can fire."""

    def __init__(self, graph: Graph, order: Sequence[str], left: dict[str, int]) -> None:
        self.left = left
        self._order = order
        self._tokens = {channel.name: channel.initial_tokens for channel in graph.channels}
        self._phase = dict.fromkeys(order, 0)
        self._phases = {name: graph.actor(name).phases for name in order}
        self._inputs: dict[str, list[Channel]] = {name: [] for name in order}
        self._outputs: dict[str, list[Channel]] = {name: [] for name in order}
        for channel in graph.channels:
            self._inputs[channel.consumer].append(channel)
            self._outputs[channel.producer].append(channel)

    def next_actor(self) -> str | None:
        for name in self._order:
            if self.left[name] and self._can_fire(name):
                return name
        return None

    def _can_fire(self, name: str) -> bool:
        phase = self._phase[name]
        return all(
            self._tokens[channel.name] >= channel.consumption[phase]
            for channel in self._inputs[name]
        )

    def fire(self, name: str) -> None:
        phase = self._phase[name]
        for channel in self._inputs[name]:
            self._tokens[channel.name] -= channel.consumption[phase]
        for channel in self._outputs[name]:
            self._tokens[channel.name] += channel.production[phase]
        self._phase[name] = (phase + 1) % self._phases[name]
        self.left[name] -= 1


def short_loops(firings: Sequence[str]) -> Node | None:
    """Return firings as loops, or None where these are not short.

    Repetitions that stand side by side become loops, the shortest bodies first; not always the
    fewest places that are possible. Short: each actor stands in a few places, however often it fires.
    """
    if len(firings) > MOST_WRITTEN:
        return None
    numbers: dict[Node, int] = {}
    nodes: list[Node] = []
    line = [_numbered(Fire(name), numbers, nodes) for name in firings]
    length = 1
    while length <= min(len(line) // 2, LONGEST_BODY):
        shorter = _with_loops(line, length, numbers, nodes)
        length = 1 if len(shorter) < len(line) and length > 1 else length + 1
        line = shorter
    found = looped(1, *(nodes[number] for number in line))
    places = sum(1 for _ in _places(found))
    return found if places <= PLACES_EACH * len(set(firings)) + PLACES_EACH else None


def _places(node: Node) -> list[Node]:
    if isinstance(node, Loop):
        return [place for inner in node.body for place in _places(inner)]
    return [node]


def _numbered(node: Node, numbers: dict[Node, int], nodes: list[Node]) -> int:
    """A number that equal pieces share, so that pieces compare at once."""
    if node not in numbers:
        numbers[node] = len(nodes)
        nodes.append(node)
    return numbers[node]


def _with_loops(
    line: list[int], length: int, numbers: dict[Node, int], nodes: list[Node]
) -> list[int]:
    """The line with repetitions of bodies of that length as loops."""
    found: list[int] = []
    place = 0
    alike = _runs_alike(line, length)
    while place < len(line):
        times = 1 + alike[place] // length if place < len(alike) else 1
        if times == 1:
            found.append(line[place])
            place += 1
            continue
        body = [nodes[number] for number in line[place : place + length]]
        found.append(_numbered(looped(times, *body), numbers, nodes))
        place += times * length
    return found


def _runs_alike(line: Sequence[int], length: int) -> list[int]:
    """For each place, how many pieces from there on are like those `length` places later."""
    found = [0] * (len(line) - length)
    run = 0
    for place in reversed(range(len(found))):
        run = run + 1 if line[place] == line[place + length] else 0
        found[place] = run
    return found


def downstream_first(feeds: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return actors such that those that take tokens stand before those that make them.

    feeds: the actors that each one feeds. Where they feed one another in a circle, one of them
    counts as fed by none of the others.
    """
    found: dict[str, None] = {}
    met: set[str] = set()
    for first in feeds:
        path = [] if first in met else [first]
        while path:
            met.add(path[-1])
            ahead = next((one for one in feeds[path[-1]] if one not in met), None)
            if ahead is not None:
                path.append(ahead)
            else:
                found.setdefault(path.pop())
    return tuple(found)
