"""Bounds on firing counts at the start of one firing, for any firing order; tightening of boxes.

A moment is the start of one firing; its window bounds the number of earlier firings of each actor. The
tokens that the firing needs are produced before it, firings that need its tokens follow it, and no
channel holds more than its largest capacity. If the two bounds of an actor contradict each other, no
order of firings reaches the moment: the capacities are too small.

A box holds a lower and an upper bound of each capacity. It is tightened without losing live capacities
up to a given size. If the upper bounds deadlock, every point of the box does. If they deadlock with one
capacity at its lower bound, that lower bound is raised.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, cycle, islice
from typing import NamedTuple

from csdf.bisection import first_between
from csdf.model.indexed import IndexedGraph
from csdf.search.variables import Distribution, Variable, size_of


class LiveBound(NamedTuple):
    """A lower bound of the size of live capacities, and the smallest live capacities so far."""

    lower_bound: int
    capacities: Distribution


class Moment(NamedTuple):
    """The start of a firing of this actor, after this many firings of it."""

    actor: int
    firings: int


class CountedChannel(NamedTuple):
    """A channel between two actors, with its token counts in one iteration.

    produced, consumed: after 0, 1, ... firings of the producer, of the consumer. variable: the position
    of the searched capacity, if the channel models the space of another channel; else None.
    tokens: initial tokens; of a searched space, without its capacity (so at most 0).
    """

    producer: int
    consumer: int
    tokens: int
    produced: Sequence[int]
    consumed: Sequence[int]
    variable: int | None

    def tokens_at_start(self, room: Sequence[int]) -> int:
        """Return the initial tokens. room: capacity of each variable."""
        return self.tokens + (0 if self.variable is None else room[self.variable])


class FiringWindow(NamedTuple):
    """Lower and upper bounds on the firings of each actor before a moment."""

    fewest: Sequence[int]
    most: Sequence[int]


class IterationFirings:
    """The firings of one iteration of a graph, and the channels between different actors.

    graph: its last channels model the searched spaces. owners: for each space, the position of its
    variable. occupied: for each space, the initial tokens of the channel whose space it is. cycles:
    phase cycles of each actor in an iteration. per_iteration: firings of each actor in an iteration.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        *,
        owners: Sequence[int],
        occupied: Sequence[int],
        cycles: Sequence[int],
    ) -> None:
        self.per_iteration = [a * b for a, b in zip(cycles, graph.phases, strict=True)]
        first = len(graph.producer) - len(owners)
        tokens = [*graph.initial_tokens[:first], *(-token_count for token_count in occupied)]
        owner_of = [*([None] * first), *owners]
        self.channels = [
            self._counted(graph, index, tokens[index], owner_of[index])
            for index in range(len(graph.producer))
            if graph.producer[index] != graph.consumer[index]
        ]
        self._inputs: list[list[CountedChannel]] = [[] for _ in self.per_iteration]
        followers: list[dict[int, None]] = [{} for _ in self.per_iteration]
        for channel in self.channels:
            self._inputs[channel.consumer].append(channel)
            followers[channel.producer][channel.consumer] = None
        self._followers = [list(row) for row in followers]

    def _counted(
        self, graph: IndexedGraph, index: int, tokens: int, variable: int | None
    ) -> CountedChannel:
        def counted(actor: int, rates: Sequence[int], start: int) -> list[int]:
            phases = rates[start : start + graph.phases[actor]]
            return list(accumulate(islice(cycle(phases), self.per_iteration[actor]), initial=0))

        producer, consumer = graph.producer[index], graph.consumer[index]
        produced = counted(producer, graph.production, graph.production_start[index])
        consumed = counted(consumer, graph.consumption, graph.consumption_start[index])
        return CountedChannel(producer, consumer, tokens, produced, consumed, variable)

    def is_live(self, capacities: Sequence[int]) -> bool:
        """Return whether all actors complete an iteration. Self-loops are ignored."""
        done = [0] * len(self.per_iteration)
        waiting = deque(range(len(done)))
        is_waiting = [True] * len(done)
        while waiting:
            actor = waiting.popleft()
            is_waiting[actor] = False
            # Dataflow graphs are persistent: a firing never disables another actor. So one order of
            # firings decides liveness, and each actor may fire as often as it can.
            possible = self.per_iteration[actor]
            for channel in self._inputs[actor]:
                available = (
                    channel.tokens_at_start(capacities) + channel.produced[done[channel.producer]]
                )
                possible = min(possible, bisect_right(channel.consumed, available) - 1)
            if possible > done[actor]:
                done[actor] = possible
                for follower in self._followers[actor]:
                    if not is_waiting[follower]:
                        is_waiting[follower] = True
                        waiting.append(follower)
        return done == self.per_iteration

    def window(self, moment: Moment, room: Sequence[int]) -> FiringWindow | None:
        """Return the window of a moment; None if no order of firings reaches it.

        room: the largest capacity of each variable.
        """
        fewest = self._fewest(moment, room)
        maximum = None if fewest is None else self._most(moment, room)
        if fewest is None or maximum is None:
            return None
        return FiringWindow(fewest, maximum) if all(map(int.__le__, fewest, maximum)) else None

    def _fewest(self, moment: Moment, room: Sequence[int]) -> list[int] | None:
        """Return how often each actor fires at least before the moment; None for a contradiction."""
        fewest = [0] * len(self.per_iteration)
        fewest[moment.actor] = moment.firings
        changed = list(range(len(fewest)))
        while changed:
            actor = changed.pop()
            for channel in self._inputs[actor]:
                starts = fewest[actor] + (actor == moment.actor)
                needed = bisect_left(
                    channel.produced, channel.consumed[starts] - channel.tokens_at_start(room)
                )
                if needed > fewest[channel.producer]:
                    # The actor of the moment has fired exactly this often;
                    # a demand for more is a contradiction.
                    if (
                        channel.producer == moment.actor
                        or needed > self.per_iteration[channel.producer]
                    ):
                        return None
                    fewest[channel.producer] = needed
                    changed.append(channel.producer)
        return fewest

    def _most(self, moment: Moment, room: Sequence[int]) -> list[int] | None:
        """Return how often each actor may fire before the moment; None if that never suffices."""
        maximum = list(self.per_iteration)
        maximum[moment.actor] = moment.firings
        is_settled = False
        while not is_settled:
            is_settled = True
            for channel in self.channels:
                available = (
                    channel.tokens_at_start(room) + channel.produced[maximum[channel.producer]]
                )
                possible = bisect_right(channel.consumed, available) - 1
                if channel.consumer == moment.actor:
                    if possible <= moment.firings:
                        return None
                elif possible < maximum[channel.consumer]:
                    maximum[channel.consumer] = possible
                    is_settled = False
        return maximum


ANY = 1 << 40  # tokens: an upper bound of a capacity that has none


class CapacityBox(NamedTuple):
    """The distributions with capacities from `least` to `most`."""

    least: tuple[int, ...]
    most: tuple[int, ...]

    def raised(self, index: int, minimum: int) -> CapacityBox:
        """Return the part of the box with a capacity of at least this value at a position."""
        return CapacityBox((*self.least[:index], minimum, *self.least[index + 1 :]), self.most)

    def lowered(self, index: int, maximum: int) -> CapacityBox:
        """Return the part of the box with a capacity of at most this value at a position."""
        return CapacityBox(self.least, (*self.most[:index], maximum, *self.most[index + 1 :]))


def affordable(variables: Sequence[Variable], box: CapacityBox, size: int) -> CapacityBox | None:
    """Return the box with upper bounds lowered to what a size permits; None if nothing fits."""
    spare = size - size_of(variables, box.least)
    if spare < 0:
        return None
    steps = [
        spare // (variable.weight * variable.step) if variable.weight else ANY
        for variable in variables
    ]
    maximum = (
        min(high, low + count * variable.step)
        for variable, low, high, count in zip(variables, *box, steps, strict=True)
    )
    return CapacityBox(box.least, tuple(maximum))


def live_part(
    firings: IterationFirings,
    variables: Sequence[Variable],
    box: CapacityBox,
    size: int,
    indices: Iterable[int],
    *,
    look: Callable[[], None],
) -> CapacityBox | None:
    """Return a smaller box with all live capacities of this one up to a size; None if there are none.

    At these positions, the lower bound becomes the smallest capacity that is live while all other
    capacities have their upper bounds. look: called between simulations; may raise to end the search.
    """
    smaller = affordable(variables, box, size)
    # Liveness is monotonic in the capacities: where the upper corner deadlocks, the whole box does.
    if smaller is None or not firings.is_live(smaller.most):
        return None
    raised = smaller
    for index in indices:
        look()
        raised = raised.raised(index, _least(firings, variables, smaller, index))
    return affordable(variables, raised, size)


def _least(
    firings: IterationFirings, variables: Sequence[Variable], box: CapacityBox, index: int
) -> int:
    """The smallest live value of a capacity while all other capacities have their upper bounds."""
    start, step = box.least[index], variables[index].step

    def is_enough(steps: int) -> bool:
        return firings.is_live(box.lowered(index, start + steps * step).most)

    most = (box.most[index] - start) // step
    if most > 0 and is_enough(0):
        return start
    return start + first_between(-1, most, is_enough) * step
