"""Plan a graph for one processor: a looped schedule and its buffers.

A single appearance schedule consists of nested loops in which each actor appears once. The nesting
is searched for small buffers. Actors on a cycle with too few initial tokens have no such schedule.
They form one part of the schedule, in which their firings interleave; all other actors appear once.
The interleaved firings are simulated, and written as short loops where such loops are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import gcd
from random import Random
from typing import Any, NamedTuple

from csdf.analysis.bound_channels import SPACE, bound_channels
from csdf.analysis.components import strong_components
from csdf.analysis.consistency import cycle_vector, repetition_vector
from csdf.analysis.liveness import Deadlock, deadlock
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Channel, Graph
from csdf.status import Reason
from csdf.time_limit import ENDS, Budget, Stop, reason_of, stop_of
from planners.code.graph.looped import (
    ORDERS,
    Fire,
    Interleaved,
    LoopedBody,
    Node,
    Ports,
    effects,
    in_words,
    leaves,
    looped,
)
from planners.code.graph.storage import CircularBuffer, arena_bytes, rings_of

MOST_SHORT = 200_000  # firings up to which min-memory also tries the demand-driven order


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGraph:
    """A graph with a schedule for one processor and the buffers of this schedule.

    order: the kind of schedule: `single-appearance` loops, or `demand-driven`, where an actor fires
    only if none of its consumers can. reason: why the search ended before it tried another order.
    """

    graph: Graph
    schedule: Node
    rings: tuple[CircularBuffer, ...]
    order: str
    reason: Reason | None = None

    @property
    def arena_bytes(self) -> int:
        """Size of the arena that holds all buffers, in bytes."""
        return arena_bytes(self.rings)

    @property
    def is_static(self) -> bool:
        """Whether loops alone fix the firing order, without decisions at run time."""
        return all(
            not isinstance(leaf, Interleaved) or leaf.written is not None
            for leaf in leaves(self.schedule)
        )

    @property
    def firings(self) -> int:
        """Firings of one iteration."""
        return sum(repetition_vector(self.graph).values())

    def to_json(self) -> dict[str, Any]:
        """Return the schedule and its buffers as a JSON value."""
        return {
            "graph": self.graph.name,
            "firings": self.firings,
            "order": self.order,
            "reason": None if self.reason is None else str(self.reason),
            "is_static": self.is_static,
            "schedule": in_words(self.schedule),
            "arena_bytes": self.arena_bytes,
            "buffer_bytes": sum(ring.size for ring in self.rings),
            "buffers": [ring.to_json() for ring in self.rings],
        }


def planned_graph(
    graph: Graph, *, token_bytes: int = 4, order: str = "min-memory", budget: Budget = None
) -> PlannedGraph | Deadlock:
    """Return a schedule of one iteration on one processor with its buffers, or the deadlock.

    The schedule respects the capacities of the graph; a channel without a capacity gets the capacity
    that the schedule needs. token_bytes: size of tokens for which the graph has none. order:
    `single-appearance`, `demand-driven`, or `min-memory`. `min-memory` prefers a static schedule,
    then the smaller arena. budget: a stop, or seconds; if the budget or Ctrl-C ends the search, the
    best schedule so far is returned.

    Raises InconsistentGraph. Raises GaveUp if the analysis would have to simulate too many firings,
    or if the search ends before the first schedule.
    """
    if order not in ORDERS:
        raise CsdfError(f"order {order!r}; expected one of {', '.join(ORDERS)}")
    stop = stop_of(budget)
    blocked = deadlock(graph, budget=stop)
    if blocked is not None:
        return blocked
    planning = _ProgramPlanning(graph, token_bytes, stop)
    plans = []
    firings = sum(repetition_vector(graph).values())
    if order != "demand-driven":
        plans.append(planning.planned("single-appearance"))
    if order == "demand-driven" or (order == "min-memory" and firings <= MOST_SHORT):
        try:
            plans.append(planning.planned("demand-driven"))
        except ENDS as end:
            if not plans:
                raise
            return replace(plans[0], reason=reason_of(end))
    return min(plans, key=lambda plan: (not plan.is_static, plan.arena_bytes))


class _ProgramPlanning:
    def __init__(self, graph: Graph, token_bytes: int, stop: Stop) -> None:
        self._graph, self._stop = graph, stop
        self._bound = bound_channels(graph)
        self._cycles = cycle_vector(graph)
        self._phases = {actor.name: actor.phases for actor in graph.actors}
        self._ports = Ports(graph)
        self._token_bytes = {
            channel.name: token_bytes if channel.token_size is None else channel.token_size
            for channel in graph.channels
        }
        self._orders: dict[Interleaved, Sequence[str]] = {}

    def planned(self, order: str) -> PlannedGraph:
        if order == "single-appearance":
            nesting = Nesting(self._links(), self._phases, self._turns)
            schedule = nesting.schedule(self._cycles)
        else:
            schedule = self._turns(tuple(self._cycles), self._cycles)
        channel_effects = effects(schedule, self._ports, self._orders)
        # A schedule that violates the graph is an internal error of the search.
        for channel in self._graph.channels:
            effect = channel_effects[channel.name]
            if effect.change or channel.initial_tokens + effect.lowest < 0:
                raise GaveUp(f"the schedule found takes tokens from {channel.name!r} too early")
            limit = None if channel.is_self_loop else channel.capacity
            if limit is not None and channel.initial_tokens + effect.highest > limit:
                raise GaveUp(f"the schedule found puts too many tokens into {channel.name!r}")
        rings = rings_of(self._graph, schedule, channel_effects, self._token_bytes)
        return PlannedGraph(graph=self._graph, schedule=schedule, rings=rings, order=order)

    def _links(self) -> list[TokenLink]:
        """Return the tokens per cycle of all channels and of the reverse channels for capacities.

        Only channels without a capacity have a weight: the buffers of the others are fixed.
        """
        weights = {
            channel.name: self._token_bytes[channel.name]
            for channel in self._graph.channels
            if channel.capacity is None
        }
        return [
            TokenLink(
                channel.producer,
                channel.consumer,
                sum(channel.production),
                sum(channel.consumption),
                channel.initial_tokens,
                weights.get(channel.name, 0),
            )
            for channel in self._bound.channels
        ]

    def _turns(self, names: Sequence[str], cycles: Mapping[str, int]) -> Node:
        """The part of a schedule in which the firings of some actors interleave."""
        members = set(names)
        channels = tuple(
            replace(channel, release=None)
            for channel in self._bound.channels
            if {channel.producer, channel.consumer} <= members
        )
        part = replace(
            self._graph,
            actors=tuple(actor for actor in self._graph.actors if actor.name in members),
            channels=channels,
            origin=None,
        )
        feeds: dict[str, list[str]] = {name: [] for name in names}
        for channel in channels:
            if not channel.name.endswith(SPACE):
                feeds[channel.producer].append(channel.consumer)
        order = downstream_first(feeds)
        counts = tuple(cycles[name] * self._phases[name] for name in order)
        firings = firing_order(part, order, counts, self._stop)
        piece = Interleaved(order, counts, short_loops(firings))
        self._orders[piece] = firings
        return piece


FEW = 9  # components up to which all topological orders are tried
EFFORT = 1_000_000  # limit of the cost of a search among orders: orders times components cubed
MANY = 100  # components beyond which a greedy split replaces the search

Turns = Callable[[Sequence[str], Mapping[str, int]], Node]


class TokenLink(NamedTuple):
    """The tokens from one actor to another per cycle of each; tokens: initial; weight: bytes each."""

    producer: str
    consumer: str
    made: int
    taken: int
    tokens: int
    weight: int


class SchedulePiece(NamedTuple):
    """Actors of one strongly connected component, and how often their part executes."""

    actors: tuple[str, ...]
    rounds: int


class Nesting:
    """Search for a single appearance schedule of a graph."""

    def __init__(self, links: Sequence[TokenLink], phases: Mapping[str, int], turns: Turns) -> None:
        """links: tokens per cycle. phases: of each actor. turns: schedules interleaved firings."""
        self._links, self._phases, self._turns = links, phases, turns

    def schedule(self, cycles: Mapping[str, int]) -> Node:
        """Return nested loops that execute the given number of cycles of each actor."""
        common = gcd(*cycles.values())
        cycles_each = {name: count // common for name, count in cycles.items()}
        if len(cycles_each) == 1:
            (name,) = cycles_each
            return looped(common, looped(self._phases[name], Fire(name)))
        inside = [
            link for link in self._links if {link.producer, link.consumer} <= cycles_each.keys()
        ]
        binding = [
            link
            for link in inside
            if link.producer != link.consumer
            and link.tokens < cycles_each[link.consumer] * link.taken
        ]
        pieces = _pieces(cycles_each, binding)
        if len(pieces) == 1:
            return looped(common, self._turns(tuple(cycles_each), cycles_each))
        order = _Order(pieces, cycles_each, inside, binding)
        return looped(common, self._nested(order.tree(), cycles_each, 1))

    def _nested(self, tree: Tree, each: Mapping[str, int], rounds: int) -> Node:
        """Return the loops of a tree inside a body that executes `rounds` times in total."""
        if isinstance(tree, SchedulePiece):
            return self.schedule({name: each[name] // rounds for name in tree.actors})
        common = gcd(*(piece.rounds for piece in _pieces_of(tree)))
        left, right = (self._nested(side, each, common) for side in tree)
        return looped(common // rounds, *_body(left), *_body(right))


Tree = SchedulePiece | tuple["Tree", "Tree"]


def _body(node: Node) -> tuple[Node, ...]:
    return node.body if isinstance(node, LoopedBody) and node.count == 1 else (node,)


def _pieces_of(tree: Tree) -> list[SchedulePiece]:
    if isinstance(tree, SchedulePiece):
        return [tree]
    return [*_pieces_of(tree[0]), *_pieces_of(tree[1])]


def _pieces(each: Mapping[str, int], binding: Sequence[TokenLink]) -> list[SchedulePiece]:
    """Strongly connected components of the binding links, in topological order."""
    numbers = {name: number for number, name in enumerate(each)}
    successors: list[list[int]] = [[] for _ in each]
    for link in binding:
        successors[numbers[link.producer]].append(numbers[link.consumer])
    component = strong_components(len(each), successors)
    groups: dict[int, list[str]] = {}
    for name, number in zip(each, component, strict=True):
        groups.setdefault(number, []).append(name)
    return [
        SchedulePiece(tuple(groups[number]), gcd(*(each[name] for name in groups[number])))
        for number in sorted(groups, reverse=True)
    ]


class _Order:
    """Search for a nesting of loops with few buffer bytes: a binary tree over the components."""

    def __init__(
        self,
        pieces: Sequence[SchedulePiece],
        each: Mapping[str, int],
        inside: Sequence[TokenLink],
        binding: Sequence[TokenLink],
    ) -> None:
        self._pieces = pieces
        place = {name: number for number, piece in enumerate(pieces) for name in piece.actors}
        ends = {link: (place[link.producer], place[link.consumer]) for link in inside}
        self._across = [
            (producer, consumer, each[link.producer] * link.made * link.weight)
            for link, (producer, consumer) in ends.items()
            if link.weight and producer != consumer
        ]
        self._before = [0] * len(pieces)
        for producer, consumer in map(ends.__getitem__, binding):
            if producer != consumer:
                self._before[consumer] |= 1 << producer

    def tree(self) -> Tree:
        if len(self._pieces) <= FEW:
            # Exact: dynamic programming over subsets covers all topological orders and nestings.
            @cache
            def best(members: int) -> tuple[int, Tree]:
                if members & (members - 1) == 0:
                    return 0, self._pieces[members.bit_length() - 1]
                common = self._common(members)
                candidates: list[tuple[int, int, Tree]] = []
                left = (members - 1) & members
                while left:
                    right = members & ~left
                    if not any(
                        left >> number & 1 and self._before[number] & right
                        for number in range(len(self._pieces))
                    ):
                        (left_bytes, before), (right_bytes, behind) = best(left), best(right)
                        size = left_bytes + right_bytes + self._bytes(left, right, common)
                        candidates.append((size, left, (before, behind)))
                    left = (left - 1) & members
                size, _, tree = min(candidates, key=lambda way: way[:2])
                return size, tree

            return best((1 << len(self._pieces)) - 1)[1]
        return self._best_in_order() if len(self._pieces) <= MANY else self._cut_in_order()

    def _bytes(self, left: int, right: int, common: int) -> int:
        """Return the bytes of buffers between two sets of components in an iteration of their loop."""
        return sum(
            size // common
            for producer, consumer, size in self._across
            if (left >> producer & 1 and right >> consumer & 1)
            or (right >> producer & 1 and left >> consumer & 1)
        )

    def _common(self, members: int) -> int:
        return gcd(
            *(piece.rounds for number, piece in enumerate(self._pieces) if members >> number & 1)
        )

    def _best_in_order(self) -> Tree:
        """Return the best nesting found by random local search over topological orders."""
        source = Random(0)
        order = list(range(len(self._pieces)))
        least, nesting = self._nesting_of(order)
        for _ in range(EFFORT // len(order) ** 3):
            moved_order = self._moved(order, source)
            size, tree = self._nesting_of(moved_order)
            if size <= least:
                least, nesting, order = size, tree, moved_order
        return nesting

    def _moved(self, order: Sequence[int], source: Random) -> list[int]:
        """Return the order with one component moved; the order remains topological."""
        piece = source.choice(order)
        rest = [member for member in order if member != piece]
        first, end = 0, len(rest)
        for place, neighbour in enumerate(rest):
            if self._before[piece] >> neighbour & 1:
                first = place + 1
            if self._before[neighbour] >> piece & 1:
                end = min(end, place)
        rest.insert(source.randint(first, end), piece)
        return rest

    def _nesting_of(self, order: Sequence[int]) -> tuple[int, Tree]:
        """Return the best nesting of one order, by dynamic programming over its intervals.

        Source: Murthy, Bhattacharyya, Lee, Joint minimization of code and data for synchronous
        dataflow programs, Formal Methods in System Design 11(1), 1997 (GDPPO).
        """
        sums = self._sums(order)

        @cache
        def best(first: int, end: int) -> tuple[int, Tree]:
            if end == first + 1:
                return 0, self._pieces[order[first]]
            common = gcd(*(self._pieces[member].rounds for member in order[first:end]))
            ways = (
                (
                    best(first, cut)[0]
                    + best(cut, end)[0]
                    + _between(sums, first, cut, end) // common,
                    cut,
                )
                for cut in range(first + 1, end)
            )
            size, cut = min(ways, key=lambda way: (way[0], abs(2 * way[1] - first - end)))
            return size, (best(first, cut)[1], best(cut, end)[1])

        return best(0, len(order))

    def _sums(self, order: Sequence[int]) -> list[list[int]]:
        """Return prefix sums, in two dimensions, of the bytes between components of an order."""
        count = len(order)
        at = {piece: place for place, piece in enumerate(order)}
        sums = [[0] * (count + 1) for _ in range(count + 1)]
        for producer, consumer, size in self._across:
            low, high = sorted((at[producer], at[consumer]))
            sums[low + 1][high + 1] += size
        for row in range(1, count + 1):
            for column in range(1, count + 1):
                sums[row][column] += (
                    sums[row - 1][column] + sums[row][column - 1] - sums[row - 1][column - 1]
                )
        return sums

    def _cut_in_order(self) -> Tree:
        """Split the given order recursively where the fewest bytes cross."""
        sums = self._sums(range(len(self._pieces)))

        def tree(first: int, end: int) -> Tree:
            if end == first + 1:
                return self._pieces[first]
            if all(piece.rounds == 1 for piece in self._pieces[first:end]):
                cut = (first + end) // 2
            else:
                ways = range(first + 1, end)
                cut = min(
                    ways, key=lambda position: (_between(sums, first, position, end), position)
                )
            return tree(first, cut), tree(cut, end)

        return tree(0, len(self._pieces))


def _between(sums: Sequence[Sequence[int]], first: int, cut: int, end: int) -> int:
    """Return the bytes between the components of two adjacent intervals."""
    return sums[cut][end] - sums[first][end] - sums[cut][cut] + sums[first][cut]


MOST_FIRINGS = 2_000_000  # simulated firings: a few seconds
MOST_WRITTEN = 20_000  # firings that are searched for loops
LONGEST_BODY = 400  # nodes in the body of a loop that is searched for
PLACES_EACH = 6  # mean appearances of an actor in loops that count as short


def firing_order(
    graph: Graph, order: Sequence[str], firings: Sequence[int], stop: Stop
) -> list[str]:
    """Return a firing sequence: repeatedly, the first enabled actor of `order` fires.

    graph: contains only these actors, and no capacities. Raises GaveUp for too many firings and
    for a deadlock.
    """
    if sum(firings) > MOST_FIRINGS:
        raise GaveUp(
            f"{sum(firings)} firings of {len(order)} actors that wait for one another in turn; "
            f"at most {MOST_FIRINGS} are counted one by one"
        )
    turns = _Turns(graph, order, dict(zip(order, firings, strict=True)))
    sequence: list[str] = []
    while (actor := turns.next_actor()) is not None:
        turns.fire(actor)
        sequence.append(actor)
        if len(sequence) % 10_000 == 0:
            stop.look()
    if any(turns.left.values()):
        raise GaveUp(f"no actor of {', '.join(order)} can fire; they block one another")
    return sequence


class _Turns:
    """A simulation: tokens in the channels, phases, and remaining firings of the actors."""

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
    """Return a firing sequence as loops, or None if the loops are not short.

    Adjacent repetitions become loops, shortest bodies first. This greedy compression does not always
    minimise the appearances. Loops are short if the actors have at most about PLACES_EACH
    appearances on average.
    """
    if len(firings) > MOST_WRITTEN:
        return None
    numbers: dict[Node, int] = {}
    nodes: list[Node] = []
    line = [_numbered(Fire(name), numbers, nodes) for name in firings]
    length = 1
    while length <= min(len(line) // 2, LONGEST_BODY):
        # Replace adjacent repetitions of bodies of that length by loops.
        shorter: list[int] = []
        # For each index, the length of the run that equals the run `length` indices later.
        alike = [0] * (len(line) - length + 1)
        for place in reversed(range(len(alike) - 1)):
            alike[place] = alike[place + 1] + 1 if line[place] == line[place + length] else 0
        place = 0
        while place < len(line):
            times = 1 + alike[place] // length if place < len(alike) else 1
            if times == 1:
                shorter.append(line[place])
                place += 1
                continue
            body = [nodes[number] for number in line[place : place + length]]
            shorter.append(_numbered(looped(times, *body), numbers, nodes))
            place += times * length
        length = 1 if len(shorter) < len(line) and length > 1 else length + 1
        line = shorter
    nested = looped(1, *(nodes[number] for number in line))
    places = len(list(leaves(nested)))
    return nested if places <= PLACES_EACH * len(set(firings)) + PLACES_EACH else None


def _numbered(node: Node, numbers: dict[Node, int], nodes: list[Node]) -> int:
    """Return the number of a node; equal nodes share it, so that comparisons take constant time."""
    if node not in numbers:
        numbers[node] = len(nodes)
        nodes.append(node)
    return numbers[node]


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
