"""Iterative modulo scheduling: static orders with a required period.

In a modulo schedule all firings of an iteration repeat with the period, so a processor is modelled as a
wheel: its time modulo the period. Firings are placed by priority (height); a firing without a free
interval ejects the overlapping firings, which are placed again later.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush

from csdf.mapping.model import Mapping, StaticOrder
from csdf.mapping.problem import MappingProblem, iteration_order

EJECTIONS = 20  # ejections for each firing, on average, before the schedule is given up
MOST_STEPS = 10_000  # placements in addition to one for each firing
MOST_PREFIX = 200_000  # firings of a prefix; their simulation takes about 2 s


def modulo_schedule(
    problem: MappingProblem,
    binding: Sequence[int],
    period: Fraction,
    look: Callable[[], None] = lambda: None,
) -> list[int] | None:
    """Return start times of a periodic schedule, times the denominator of the period; None if none.

    look: called before each placement; may end the search by raising.
    Source: Rau, Iterative modulo scheduling, MICRO 1994.
    """
    return _Schedule(problem, binding, period).starts(look)


class _Schedule:
    """A partial modulo schedule: start times of the placed firings, and a wheel for each processor."""

    def __init__(self, problem: MappingProblem, binding: Sequence[int], period: Fraction) -> None:
        scale = period.denominator
        self.period = period.numerator
        self.core = [binding[actor] for actor, _ in problem.firings]
        self.durations = [
            problem.duration(firing, core) * scale for firing, core in enumerate(self.core)
        ]
        self.into: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.out_of: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for dependency in problem.dependencies:
            delay = problem.delay(
                dependency.channel, self.core[dependency.before], self.core[dependency.after]
            )
            gap = (
                self.durations[dependency.before]
                + delay * scale
                - self.period * dependency.distance
            )
            self.into[dependency.after].append((dependency.before, gap))
            self.out_of[dependency.before].append((dependency.after, gap))
        self.start: list[int | None] = [None] * len(self.core)
        self.latest: list[int | None] = [None] * len(self.core)  # also after an ejection
        self.wheels = [_Wheel(self.period) for _ in problem.platform.cores]
        self.order = iteration_order(problem)

    def starts(self, look: Callable[[], None]) -> list[int] | None:
        if any(duration > self.period for duration in self.durations):
            return None
        heights = self._heights(look)
        if heights is None:
            return None
        waiting = [(-height, firing) for firing, height in enumerate(heights)]
        heapify(waiting)
        for _ in range(len(self.core) + min(EJECTIONS * len(self.core), MOST_STEPS)):
            look()
            if not waiting:
                break
            _, firing = heappop(waiting)
            for lost in self._place(firing):
                heappush(waiting, (-heights[lost], lost))
        return None if waiting else [start for start in self.start if start is not None]

    def _heights(self, look: Callable[[], None]) -> list[int] | None:
        """Return the longest path from each firing; None if a cycle is longer than the period."""
        heights = [0] * len(self.core)
        # Bellman-Ford in reverse topological order of an iteration: each round settles all paths
        # with one more dependency on an earlier iteration.
        backwards = self.order[::-1]
        for _ in range(len(self.core) + 1):
            look()
            has_changed = False
            for before in backwards:
                for after, gap in self.out_of[before]:
                    if heights[after] + gap > heights[before]:
                        heights[before] = heights[after] + gap
                        has_changed = True
            if not has_changed:
                return heights
        return None

    def _place(self, firing: int) -> list[int]:
        """Place a firing; return the ejected firings."""
        earliest = 0
        for before, gap in self.into[firing]:
            begin = self.start[before]
            if begin is not None:
                earliest = max(earliest, begin + gap)
        duration, wheel = self.durations[firing], self.wheels[self.core[firing]]
        start = wheel.free_from(earliest, duration)
        lost = []
        if start is None:
            last = self.latest[firing]
            # Rau: a forced placement starts later than the firing's last start, so that two firings
            # do not eject each other forever.
            start = earliest if last is None or earliest > last else last + 1
            lost = wheel.occupants(start, duration)
            for firing_lost in lost:
                self._remove(firing_lost)
        self.start[firing] = self.latest[firing] = start
        wheel.occupy(firing, start, duration)
        for after, gap in self.out_of[firing]:
            begin = self.start[after]
            if begin is not None and begin < start + gap and after != firing:
                self._remove(after)
                lost.append(after)
        return lost

    def _remove(self, firing: int) -> None:
        start = self.start[firing]
        if start is not None:
            self.wheels[self.core[firing]].leave(firing, start, self.durations[firing])
        self.start[firing] = None


class _Wheel:
    """The time of one processor modulo the period: disjoint firings, and blocks.

    A block is a maximal run of firings without a gap. The search for a free interval only visits
    blocks, and a full wheel has few blocks. If the end of a block exceeds the period, the block
    continues at its begin: with period 10, the blocks 2 to 5 and 8 to 11 leave 1 to 2 and 5 to 8 free.
    """

    def __init__(self, period: int) -> None:
        self._period = period
        self._firings: list[tuple[int, int, int]] = []  # begin, end, firing; by begin
        self._begins: list[int] = []  # of blocks, ascending
        self._ends: list[int] = []

    def free_from(self, earliest: int, duration: int) -> int | None:
        """Return the first start within a period with a free interval of this duration, or None."""
        begins, ends, period = self._begins, self._ends, self._period
        if not duration or not begins:
            return earliest
        position = earliest % period
        following = bisect_right(begins, position)
        free = max(position, ends[following - 1] - (period if following == 0 else 0))
        for number in range(following, following + len(begins) + 1):
            lap, index = divmod(number, len(begins))  # the block is met again in each lap
            if free + duration <= begins[index] + lap * period:
                break
            free = max(free, ends[index] + lap * period)
        return None if free >= position + period else earliest + free - position

    def occupants(self, start: int, duration: int) -> list[int]:
        """Return the firings that overlap an interval."""
        begin = start % self._period
        end = begin + duration
        return [
            firing
            for first, last, firing in self._firings
            if any(
                first + lap < end and begin < last + lap for lap in (0, self._period, -self._period)
            )
        ]

    def occupy(self, firing: int, start: int, duration: int) -> None:
        """Add a firing in a gap; a firing of zero duration occupies no time."""
        if not duration:
            return
        begins, ends = self._begins, self._ends
        begin = start % self._period
        end = begin + duration
        insort(self._firings, (begin, end, firing))
        block = bisect_right(begins, begin)
        if block and ends[block - 1] == begin:
            block -= 1
            ends[block] = end
        else:
            begins.insert(block, begin)
            ends.insert(block, end)
        if block + 1 < len(begins) and begins[block + 1] == end:
            ends[block] = ends.pop(block + 1)
            del begins[block + 1]

    def leave(self, firing: int, start: int, duration: int) -> None:
        """Remove a firing; its block splits into the parts before and after it."""
        if not duration:
            return
        begins, ends = self._begins, self._ends
        begin = start % self._period
        end = begin + duration
        del self._firings[bisect_left(self._firings, (begin, end, firing))]
        block = bisect_right(begins, begin) - 1
        parts = [part for part in ((begins[block], begin), (end, ends[block])) if part[0] < part[1]]
        begins[block : block + 1] = [first for first, _ in parts]
        ends[block : block + 1] = [last for _, last in parts]


def mapping_of(
    problem: MappingProblem, binding: Sequence[int], starts: Sequence[int], period: int
) -> Mapping | None:
    """Return the mapping of a periodic schedule, each order with its shortest prefix.

    The prefix of a processor covers the pipeline stages of its own firings, not the stages between
    processors: a long latency delays the whole order of the receiver. None if a prefix would have more
    than MOST_PREFIX firings. starts, period: of `modulo_schedule`, in its time units.
    """
    names = [core.name for core in problem.platform.cores]
    firings_on: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for firing in iteration_order(problem):
        actor = problem.firings[firing][0]
        duration = problem.duration(firing, binding[actor])
        firings_on[binding[actor]].append((starts[firing], duration, actor))
    orders = {}
    for core, listed in firings_on.items():
        order = _static_order(listed, period)
        if order is None:
            return None
        prefix, periodic = ([problem.actors[actor] for actor in part] for part in order)
        orders[names[core]] = shortest_order(prefix, periodic)
    bound = {actor: names[core] for actor, core in zip(problem.actors, binding, strict=True)}
    return Mapping(binding=bound, orders=orders)


def _static_order(
    firings: Sequence[tuple[int, int, int]], period: int
) -> tuple[list[int], list[int]] | None:
    """Return the actors of a prefix and of a periodic list; None for a prefix that is too long.

    firings: (start, duration, actor) of each firing on one processor, in the order of an iteration.
    Of firings that start together, all but the last take no time, and may feed each other.
    """
    first = min(start for start, _, _ in firings)
    stages = [(start - first) // period for start, _, _ in firings]
    last = max(stages)
    if sum(last - stage for stage in stages) > MOST_PREFIX:
        return None
    events = sorted(
        (start - first + lap * period, duration, lap, number, actor)
        for number, ((start, duration, actor), stage) in enumerate(
            zip(firings, stages, strict=True)
        )
        for lap in range(last - stage + 1)
    )
    begin = last * period
    prefix = [actor for time, *_, actor in events if time < begin]
    return prefix, [actor for time, *_, actor in events if time >= begin]


def shortest_order(prefix: Sequence[str], periodic: Sequence[str]) -> StaticOrder:
    """Return the static order with the shortest prefix for the same infinite sequence of firings."""
    prefix_length, turned, count = len(prefix), 0, len(periodic)
    # Rotating the periodic list back by one absorbs the last firing of the prefix.
    while prefix_length and prefix[prefix_length - 1] == periodic[(turned - 1) % count]:
        prefix_length, turned = prefix_length - 1, turned - 1
    start = turned % count
    return StaticOrder(
        prefix=tuple(prefix[:prefix_length]), periodic=(*periodic[start:], *periodic[:start])
    )
