"""Bounds on firing counts at the start of one firing, for any firing order; tightening of boxes.

The tokens that the firing needs were produced before it, firings that need its tokens follow it, and
no channel holds more than its largest capacity. So the number of earlier firings of each actor has a
lower and an upper bound. If the two bounds of an actor contradict each other, no order of firings
reaches this firing: the capacities are too small.

A box holds a lower and an upper bound of each capacity. Live capacities below a given size are never
lost. If the upper bounds deadlock, every point of the box does. If they deadlock with one capacity at
its lower bound, the lower bound of that capacity is raised.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, cycle, islice
from typing import NamedTuple

from csdf.model.indexed import IndexedGraph
from csdf.search.variables import Distribution, Variable, size_of


class LiveBound(NamedTuple):
    """No live capacities have a smaller size than `lower_bound`. capacities: the smallest known."""

    lower_bound: int
    capacities: Distribution


class Moment(NamedTuple):
    """The start of a firing of this actor, after this many firings of it."""

    actor: int
    firings: int


class Counted(NamedTuple):
    """A channel between two actors. made, taken: tokens after each number of firings.

    variable: position of the searched capacity of a space; None if the initial tokens are fixed.
    """

    producer: int
    consumer: int
    tokens: int
    made: Sequence[int]
    taken: Sequence[int]
    variable: int | None

    def there(self, room: Sequence[int]) -> int:
        """Tokens at first. room: capacity of each variable."""
        return self.tokens + (0 if self.variable is None else room[self.variable])


class FiringWindow(NamedTuple):
    """Lower and upper bounds on the firings of each actor by the moment."""

    fewest: Sequence[int]
    most: Sequence[int]


class IterationFirings:
    """The firings of one iteration of a graph, and the channels between different actors.

    graph: the last channels are spaces that are searched, by variables `owners`, each with `occupied`
    tokens in its channel at first. cycles: of each actor in an iteration.
    """

    def __init__(
        self,
        graph: IndexedGraph,
        *,
        owners: Sequence[int],
        occupied: Sequence[int],
        cycles: Sequence[int],
    ) -> None:
        self.each = [a * b for a, b in zip(cycles, graph.phases, strict=True)]
        first = len(graph.producer) - len(owners)
        tokens = [*graph.initial_tokens[:first], *(-token_count for token_count in occupied)]
        owner_of = [*([None] * first), *owners]
        self.channels = [
            self._counted(graph, index, tokens[index], owner_of[index])
            for index in range(len(graph.producer))
            if graph.producer[index] != graph.consumer[index]
        ]
        self._inputs: list[list[Counted]] = [[] for _ in self.each]
        followers: list[dict[int, None]] = [{} for _ in self.each]
        for channel in self.channels:
            self._inputs[channel.consumer].append(channel)
            followers[channel.producer][channel.consumer] = None
        self._followers = [list(row) for row in followers]

    def _counted(self, graph: IndexedGraph, one: int, tokens: int, variable: int | None) -> Counted:
        def counted(actor: int, rates: Sequence[int], start: int) -> list[int]:
            phases = rates[start : start + graph.phases[actor]]
            return list(accumulate(islice(cycle(phases), self.each[actor]), initial=0))

        producer, consumer = graph.producer[one], graph.consumer[one]
        made = counted(producer, graph.production, graph.production_start[one])
        taken = counted(consumer, graph.consumption, graph.consumption_start[one])
        return Counted(producer, consumer, tokens, made, taken, variable)

    def is_live(self, capacities: Sequence[int]) -> bool:
        """Return whether all actors complete an iteration, if their self-loops allow it."""
        done = [0] * len(self.each)
        waiting = deque(range(len(done)))
        is_waiting = [True] * len(done)
        while waiting:
            actor = waiting.popleft()
            is_waiting[actor] = False
            # Dataflow graphs are persistent: a firing never disables another actor. So one order of
            # firings decides liveness, and each actor may fire as often as it can.
            possible = self.each[actor]
            for channel in self._inputs[actor]:
                there = channel.there(capacities) + channel.made[done[channel.producer]]
                possible = min(possible, bisect_right(channel.taken, there) - 1)
            if possible > done[actor]:
                done[actor] = possible
                for follower in self._followers[actor]:
                    if not is_waiting[follower]:
                        is_waiting[follower] = True
                        waiting.append(follower)
        return done == self.each

    def window(self, moment: Moment, room: Sequence[int]) -> FiringWindow | None:
        """Return the bounds on the firings of each actor by the moment; None if no order reaches it.

        room: the largest capacity of each variable.
        """
        fewest = self._fewest(moment, room)
        maximum = None if fewest is None else self._most(moment, room)
        if fewest is None or maximum is None:
            return None
        return FiringWindow(fewest, maximum) if all(map(int.__le__, fewest, maximum)) else None

    def _fewest(self, moment: Moment, room: Sequence[int]) -> list[int] | None:
        """Firings that have come before the moment in any order."""
        fewest = [0] * len(self.each)
        fewest[moment.actor] = moment.firings
        changed = list(range(len(fewest)))
        while changed:
            actor = changed.pop()
            for channel in self._inputs[actor]:
                starts = fewest[actor] + (actor == moment.actor)
                needed = bisect_left(channel.made, channel.taken[starts] - channel.there(room))
                if needed > fewest[channel.producer]:
                    # The actor of the moment has fired exactly this often;
                    # a demand for more is a contradiction.
                    if channel.producer == moment.actor or needed > self.each[channel.producer]:
                        return None
                    fewest[channel.producer] = needed
                    changed.append(channel.producer)
        return fewest

    def _most(self, moment: Moment, room: Sequence[int]) -> list[int] | None:
        """Firings that may have come before the moment."""
        maximum = list(self.each)
        maximum[moment.actor] = moment.firings
        is_settled = False
        while not is_settled:
            is_settled = True
            for channel in self.channels:
                there = channel.there(room) + channel.made[maximum[channel.producer]]
                possible = bisect_right(channel.taken, there) - 1
                if channel.consumer == moment.actor:
                    if possible <= moment.firings:
                        return None
                elif possible < maximum[channel.consumer]:
                    maximum[channel.consumer] = possible
                    is_settled = False
        return maximum


ANY = 1 << 40  # tokens, more than an iteration of moderate size has


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
    """Return the box without capacities that alone make a distribution larger than a size."""
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
    """Return a box with all live capacities of this one up to a size; None if there are none.

    The capacities at these positions are raised to the smallest that are live while all other
    capacities have their upper bounds. look: called between runs; may raise to end the search.
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

    low, high = -1, (box.most[index] - start) // step
    if high > 0 and is_enough(0):
        return start
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return start + high * step
