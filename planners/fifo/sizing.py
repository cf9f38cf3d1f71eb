"""Smallest depths of all FIFOs of a design by greedy growth, exchange, and proof part by part.

Each FIFO with all others unbounded gives depths that no answer goes below. Where these do not suffice
together, the cheapest FIFO on the critical cycle gets deeper, and then all are made narrow: no single
one can be less. Then two methods alternate while time allows: depth of one FIFO is exchanged for
fewer bits in another, and the smallest depths are found and proved part by part. Turns are counted in
events, not in seconds, so more time only ever continues what less time did: no answer becomes worse by
it.

Where memories cost in steps (block RAMs, LUTs) the search is in csdf.search.memory_cost, which
`csdf buffers --objective` uses as well. Where it proves the least cost at once, the rest of the time
goes to the fewest bits, which break ties. Else the depths of the fewest bits and of the fewest elements
are looked at, too: they bound the cost from above, and the search goes on from where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from csdf.errors import GaveUp
from csdf.search.least import reduced
from csdf.search.memory_cost import StepSearch
from csdf.search.variables import Variable
from csdf.status import Ended, Reason, Status, Why, because
from csdf.time_limit import ENDS, Stop, reason_of
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.evaluator import DesignEvaluator, TimedDesign
from planners.fifo.event_graph import EventCycle
from planners.fifo.proving import Parts

Depths = tuple[int, ...]
MemoryCost = Callable[[int, int], int]  # of a depth and a width in bits

# Events of a frame above which the first sufficient depth is accepted without trying smaller ones.
LARGE = 500_000
# Frames of a large design that are simulated for single FIFOs before any depths are known.
FRAMES_ALONE = 10
# Ratio of the work on the proof to the work on exchanges of depth, which rarely save bits.
EXCHANGES = 4
# An exchange moves 1/1, 1/2, ... of the removable depth of a FIFO to others.
SHARES = (1, 2, 4, 8, 16, 32)


class SizingWhy(Why):
    """Why a search for depths ended by itself."""

    PROVED = "no fewer {of} suffice"
    CHEAPEST = "no cheaper memories suffice"
    NO_DEPTHS = "no depths reach it"
    UNCALIBRATED = "not proved, timing is not calibrated: {accesses}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Depths in the order of the FIFOs, and what is known about them.

    period: the one asked for, None for no deadlock. status: optimal if no depths of fewer bits do, of
    all whole numbers from 2 on, in the model of the design; feasible with a proved bound of the bits;
    infeasible if no depths do, with the critical cycle; unknown if none were found in time.
    is_narrow: whether it was found out that no single depth can be less. least_bits: where something
    else than bits was to be small, the bits that any depths for the period have at least.
    """

    period: Fraction | None
    status: Status
    depths: Depths
    bits: int
    lower_bound: int
    is_narrow: bool
    cycle: EventCycle | None
    evaluations: int
    reason: Reason
    least_bits: int | None = None

    @property
    def is_cut_short(self) -> bool:
        """Whether the clock ended the search of an answer that is not proved."""
        is_open = self.status in (Status.FEASIBLE, Status.UNKNOWN)
        return is_open and self.reason.has(Ended.TIME_LIMIT)

    @property
    def gap(self) -> Fraction:
        """How far the bits may be above the smallest, relative to the bound."""
        return Fraction(self.bits - self.lower_bound, max(1, self.lower_bound))


def smallest_depths(
    graph: TimedDesign,
    period: Fraction | None,
    *,
    stop: Stop | None = None,
    weights: Sequence[int] | None = None,
    floor: Sequence[int] | None = None,
    known: Depths = (),
) -> Sizing:
    """Return the smallest depths with at most this period, or without deadlock if it is None.

    weights: what an element of each FIFO costs; by default its bits. floor: depths that none goes
    below. known: depths that suffice, which are the answer where no others are found in time.
    """
    return _Smallest(graph, period, stop or Stop(), weights, floor, known).answer()


def cheapest_depths(
    graph: TimedDesign, period: Fraction | None, cost: MemoryCost, *, stop: Stop | None = None
) -> Sizing:
    """Return depths of the least cost with at most this period, or without deadlock if it is None.

    Bits and bound of the answer are costs. Of all depths found that cost the same, those with the
    fewest bits are taken.
    """
    return _Cheapest(graph, period, cost, stop or Stop()).answer()


def held_back(evaluator: DesignEvaluator, period: Fraction | None) -> EventCycle | None:
    """Return what holds a design back even with FIFOs without end; None if some depths suffice."""
    slowest = evaluator.slowest()
    if period is not None and evaluator.alone(slowest) > period:
        return EventCycle(period=evaluator.alone(slowest), fifos=(), layers=(slowest,))
    return evaluator.critical_cycle([None] * len(evaluator.graph.design.fifos))


class _BoundReached(Exception):
    """The bound has reached what was found."""


class _Smallest:
    """A question about a design: what was found so far, and what is proved."""

    def __init__(
        self,
        graph: TimedDesign,
        period: Fraction | None,
        stop: Stop,
        weights: Sequence[int] | None,
        floor: Sequence[int] | None,
        known: Depths = (),
    ) -> None:
        fifos = graph.design.fifos
        is_counting = weights is not None and set(weights) <= {1}
        self._of = "bits" if weights is None else "elements" if is_counting else "weighted elements"
        self._period, self._stop = period, stop
        self._weights = [fifo.bits for fifo in fifos] if weights is None else list(weights)
        self._evaluator = DesignEvaluator(
            graph, required=period, only_live=period is None, spend=self._spend_whatever
        )
        self._best, self._has_begun = known, bool(known)
        self._finishing = self._stop.finishing()
        self._floor = tuple(floor or [LEAST_DEPTH] * len(fifos))
        self._start = self._least = self._floor
        self._bound = self._size(self._floor)
        self._is_narrow = False
        self._fewer = 1  # times the work of the proof is that of smaller depths
        self._parts: Parts | None = None

    def _size(self, depths: Sequence[int]) -> int:
        return sum(map(int.__mul__, depths, self._weights))

    def answer(self) -> Sizing:
        """Return the smallest depths, or the best by the time the stop ends the work.

        The clock and an interrupt alone keep an answer from being narrow.
        """
        proof = because(SizingWhy.PROVED, of=self._of)
        try:
            if (cycle := held_back(self._evaluator, self._period)) is not None:
                return self._sizing(Status.INFEASIBLE, because(SizingWhy.NO_DEPTHS), cycle)
            self._prove(self._find())
        except _BoundReached:
            pass
        except ENDS as end:
            self._note_bound()
            if self._best and self._size(self._best) == self._bound:
                return self._sizing(Status.OPTIMAL, proof)
            status = Status.FEASIBLE if self._best else Status.UNKNOWN
            return self._sizing(status, reason_of(end))
        return self._sizing(Status.OPTIMAL, proof)

    def _find(self) -> Parts:
        """Find depths that are minimal one by one; return what proves the smallest.

        A large design has some at once, grown from the floor: elements then wait in few FIFOs.
        """
        is_large = self._evaluator.graph.design.events > LARGE
        if self._has_begun:
            self._evaluator.spend = self._spend
        elif is_large:
            self._look_alone()
            for narrower in narrowed(
                self._evaluator, self._grow(is_hurried=True), self._floor, self._weights
            ):
                self._take(narrower)
            self._is_narrow = True
            self._evaluator.spend = self._spend
        self._least = tuple(map(max, least_depths(self._evaluator), self._floor))
        self._start, self._bound = self._least, self._size(self._least)
        parts = Parts(self._evaluator, self._least, self._weights, self._floor, self._look)
        self._parts = parts
        if not is_large:  # else in turns with the proof
            self._narrow(self._grow())
        self._evaluator.spend = self._spend
        return parts

    def _spend(self, microseconds: int) -> None:
        self._stop.charge(microseconds)

    def _spend_whatever(self, microseconds: int) -> None:
        """Count work that is finished whatever the effort."""
        self._stop.spend(microseconds)
        self._finishing.look()

    def _look_alone(self) -> None:
        """Find least depths of FIFOs by themselves, for a bound, as long as that takes few frames."""
        minimum = list(self._floor)
        for index in range(len(minimum)):
            if self._evaluator.work > FRAMES_ALONE * self._evaluator.graph.design.events:
                break
            minimum[index] = max(minimum[index], least_depth(self._evaluator, index))
            self._bound = self._size(minimum)

    def _grow(self, *, is_hurried: bool = False) -> Depths:
        maximum = [None] * len(self._start) if self._parts is None else self._parts.most
        for grown_depths, is_enough in grown(
            self._evaluator, self._start, maximum, is_hurried=is_hurried
        ):
            self._start = grown_depths
            if is_enough:
                self._take(grown_depths)
        return self._start

    def _narrow(self, depths: Depths) -> None:
        variables = variables_of(self._least, self._weights)
        for reduced_depths in reduced(variables, depths, self._evaluator.suffices, is_close=True):
            self._take(reduced_depths)
            depths = reduced_depths
        self._is_narrow |= depths == self._best

    def _take(self, depths: Depths) -> None:
        if self._best and self._size(depths) >= self._size(self._best):
            return
        self._best, self._is_narrow = depths, False
        if self._parts is not None:
            self._parts.sufficient = depths
        if self._size(depths) <= self._bound:
            self._is_narrow = True
            raise _BoundReached

    def _prove(self, parts: Parts) -> None:
        """Look by turns for smaller depths and for a proof that there are none."""
        spent = self._evaluator.work
        exchanges = self._exchanges(parts)
        for proved in parts.proved(self._best):
            self._note_bound()
            depths = tuple(proved.get(index, depth) for index, depth in enumerate(self._best))
            is_smaller = self._size(depths) < self._size(self._best)
            if is_smaller and self._evaluator.suffices(depths):
                self._take(depths)
                exchanges = self._exchanges(parts)
            end = self._evaluator.work + (self._evaluator.work - spent) // self._fewer
            while self._evaluator.work < end and next(exchanges, None):
                pass
            spent = self._evaluator.work

    def _exchanges(self, parts: Parts) -> Iterator[bool]:
        """Take ever cheaper depths, depth of one FIFO being exchanged for depth of another FIFO."""
        if not self._is_narrow:
            variables = variables_of(self._least, self._weights)
            for better in reduced(variables, self._best, self._evaluator.suffices, is_close=True):
                self._take(better)
                yield True
            self._is_narrow = True
        self._fewer = EXCHANGES
        for better in exchanged(
            self._evaluator, self._best, self._least, parts.most, self._weights
        ):
            self._take(better)
            yield True
        if not self._is_narrow:
            self._narrow(self._best)

    def _look(self) -> None:
        """Look at the stop, and whether the bound has reached what was found."""
        self._stop.look()
        self._note_bound()
        if self._best and self._bound >= self._size(self._best):
            raise _BoundReached

    def _note_bound(self) -> None:
        if self._parts is not None:
            self._bound = max(self._bound, self._parts.lower_bound)

    def _sizing(self, status: Status, reason: Reason, cycle: EventCycle | None = None) -> Sizing:
        size = self._size(self._best)
        bound = min(self._bound, size) if size else self._bound
        return Sizing(
            period=self._period, status=status, depths=self._best, bits=size,
            lower_bound=size if status is Status.OPTIMAL else bound,
            is_narrow=self._is_narrow, cycle=cycle, evaluations=self._evaluator.count,
            reason=reason,
        )  # fmt: skip


def variables_of(minimum: Sequence[int], weights: Sequence[int]) -> list[Variable]:
    """Return the depths as the searches of the engine choose them."""
    return [
        Variable(channels=(), least=depth, step=1, weight=weight)
        for depth, weight in zip(minimum, weights, strict=True)
    ]


def least_depths(evaluator: DesignEvaluator) -> Depths:
    """Return for each FIFO the least depth that does if all others have no bound."""
    return tuple(
        least_depth(evaluator, index) for index in range(len(evaluator.graph.design.fifos))
    )


def least_depth(
    evaluator: DesignEvaluator,
    index: int,
    depths: Sequence[int | None] | None = None,
    *,
    above: int = LEAST_DEPTH - 1,
    enough: int | None = None,
) -> int:
    """Return the least depth of one FIFO that does; by default all others have no bound.

    depths: of the others. above: a depth that is too small. enough: one that may do.
    """
    fifos = evaluator.graph.design.fifos
    trial: list[int | None] = [None] * len(fifos) if depths is None else list(depths)

    def does(depth: int) -> bool:
        trial[index] = depth
        return evaluator.suffices(trial)

    low, high, step = above + 1, enough, 1
    if does(low):
        return low
    # Galloping: without an upper bound the step doubles until a depth suffices.
    if high is None or high <= low or not does(high):
        while not does(low + step):
            low, step = low + step, 2 * step
        high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    return high


def grown(
    evaluator: DesignEvaluator,
    start: Sequence[int],
    maximum: Sequence[int | None],
    *,
    is_hurried: bool = False,
) -> Iterator[tuple[Depths, bool]]:
    """Yield ever larger depths, and whether they suffice: the last ones do.

    Of FIFOs that are too small together, the FIFO with the fewest bits a frame grows: there a waiting
    element is cheapest. maximum: depth that a FIFO need not exceed; None if unbounded, and such FIFOs
    grow first. is_hurried: accept the first sufficient depth.
    """
    current, fifos = list(start), evaluator.graph.design.fifos
    while True:
        groups: list[tuple[int, ...]] = []
        trial: list[int | None] = [*current]
        while (cycle := evaluator.critical_cycle(trial)) is not None:
            # Unbounding the FIFOs of one cycle shows the next independent cycle at the same depths.
            groups.append(cycle.fifos)  # without a FIFO in common with those before
            trial = [None if at in cycle.fifos else capacity for at, capacity in enumerate(trial)]
        if not groups:
            break
        for group in groups:
            in_turn = sorted(
                group,
                key=lambda index: (
                    maximum[index] is not None,
                    fifos[index].bits * fifos[index].words,
                ),
            )
            for _ in _repair(evaluator, current, in_turn, is_hurried=is_hurried):
                yield tuple(current), False
    yield tuple(current), True


def _repair(
    evaluator: DesignEvaluator, current: list[int], group: Sequence[int], *, is_hurried: bool
) -> Iterator[None]:
    """Let the first FIFOs of a group grow until it suffices, all others unbounded."""
    trial: list[int | None] = [depth if at in group else None for at, depth in enumerate(current)]
    grow = []
    for index in group:
        grow.append(index)
        trial[index] = None
        if evaluator.suffices(trial):
            break
    # The FIFO that made the group suffice comes first; the earlier FIFOs may then stay small.
    for index in reversed(grow):
        # The maximum occupancy without a bound is a depth that suffices: an upper end for
        # bisection.
        enough = evaluator.max_occupancy(trial, index)
        if is_hurried and enough is not None:
            # In a hurry at most three simulations replace a bisection of up to log2(depth).
            for depth in sorted((current[index], enough // 64, enough // 8, enough)):
                trial[index] = depth
                if depth >= enough or (depth >= LEAST_DEPTH and evaluator.suffices(trial)):
                    break
        else:
            trial[index] = least_depth(
                evaluator, index, trial, above=current[index] - 1, enough=enough
            )
        trial[index] = current[index] = max(trial[index] or 0, current[index])
        yield


def narrowed(
    evaluator: DesignEvaluator, depths: Depths, floor: Sequence[int], weights: Sequence[int]
) -> Iterator[Depths]:
    """Yield ever smaller depths that suffice; of the last ones no single one can be less.

    FIFOs are bisected in sequence, the one that costs the most above its floor first. Space
    that no element uses any more goes at once, from all FIFOs.
    """
    current = evaluator.occupied(depths)
    yield current
    for index in sorted(
        range(len(depths)), key=lambda index: (floor[index] - current[index]) * weights[index]
    ):
        low, high = floor[index] - 1, current[index]
        # One step less first: most depths are minimal already, and one failure settles them.
        middle = high - 1
        while high - low > 1:
            trial = (*current[:index], middle, *current[index + 1 :])
            if evaluator.suffices(trial):
                # Surplus space of all FIFOs is removed at once: unused words cannot change the
                # timing.
                current = evaluator.occupied(trial)
                yield current
                high = current[index]
            else:
                low = middle
            middle = (low + high) // 2


def exchanged(
    evaluator: DesignEvaluator,
    depths: Depths,
    minimum: Depths,
    maximum: Sequence[int | None],
    weights: Sequence[int],
) -> Iterator[Depths]:
    """Yield after each attempt the cheapest depths so far: a FIFO gets less, and another one grows.

    First all depth above the least of a FIFO, the most expensive first, then half of it, and so on.
    """
    current = depths
    # Large exchanges first; halved shares reach depths that large steps jump over.
    for share in SHARES:
        for position in sorted(
            range(len(depths)),
            key=lambda index: (minimum[index] - current[index]) * weights[index],
        ):
            fewer = -(-(current[position] - minimum[position]) // share)
            while 0 < fewer <= current[position] - minimum[position]:
                exchanged_depths = _exchange(evaluator, current, position, fewer, maximum, weights)
                current = exchanged_depths or current
                yield current
                if exchanged_depths is None:
                    break


def _exchange(
    evaluator: DesignEvaluator,
    depths: Depths,
    index: int,
    fewer: int,
    maximum: Sequence[int | None],
    weights: Sequence[int],
) -> Depths | None:
    """Cheaper depths with so much less in one FIFO and more in one other, if there are any."""
    trial = list(depths)
    trial[index] -= fewer
    cycle = evaluator.critical_cycle(trial)
    if cycle is None:
        return tuple(trial)
    for fifo in cycle.fifos:
        # The largest growth that still makes the exchange cheaper by at least one unit of cost.
        more = (fewer * weights[index] - 1) // weights[fifo]
        # By the dominance rules a FIFO with a limit need not exceed it in some smallest depths.
        if fifo == index or maximum[fifo] is not None or more < 1:
            continue
        exchange = list(trial)
        exchange[fifo] += more
        if evaluator.suffices(exchange):
            exchange[fifo] = least_depth(
                evaluator, fifo, trial, above=trial[fifo], enough=exchange[fifo]
            )
            return tuple(exchange)
    return None


# Shares of the effort of a search, in this order; each is a share of the remaining effort.
AT_ONCE = 0.15  # proof by cycles of events, before any search
BEGINNING = 0.3  # fewest bits
ELEMENTS = 0.65  # fewest elements, whose proof also bounds the bits
FINISH = 0.9  # fewest bits again, after the proof


class _Cheapest:
    """The search for the least cost, and its intermediate results."""

    def __init__(
        self, graph: TimedDesign, period: Fraction | None, cost: MemoryCost, stop: Stop
    ) -> None:
        self._graph, self._period = graph, period
        self._fifos = graph.design.fifos
        self._stop = self._part = stop
        self._found: list[Depths] = []
        self._narrow: set[Depths] = set()  # no depth of these can be less by itself
        self._evaluator = DesignEvaluator(
            graph, required=period, only_live=period is None, spend=self._spend
        )
        self._cost = cost
        floor = [LEAST_DEPTH] * len(self._fifos)
        variables = variables_of(floor, [1] * len(floor))
        self._search = StepSearch(self._evaluator, variables, self._price, self._look)

    def _look(self) -> None:
        self._part.look()

    def _spend(self, microseconds: int) -> None:
        self._part.charge(microseconds)

    def _price(self, index: int, depth: int) -> int:
        return self._cost(depth, self._fifos[index].bits)

    def answer(self) -> Sizing:
        """Return the cheapest depths, or the best found with a bound if the stop ends the work."""
        is_proved = self._is_proved(self._stop.part(share=AT_ONCE))
        # After a proof of the cost only ties are left to break, by bits.
        share = FINISH if is_proved else BEGINNING
        begin = smallest_depths(self._graph, self._period, stop=self._stop.part(share=share))
        if not begin.depths:
            return begin
        self._found.append(begin.depths)
        if begin.is_narrow:
            self._narrow.add(begin.depths)
        reason, bits = None if is_proved else self._compared(), self._graph.design.bits
        best = min(
            self._found, key=lambda candidate: (self._search.total(candidate), bits(candidate))
        )
        cost, bound = self._search.total(best), self._search.lower_bound
        is_proved = reason is None or cost == bound
        return replace(
            begin,
            status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
            depths=best,
            bits=cost,
            lower_bound=cost if is_proved else bound,
            is_narrow=best in self._narrow,
            evaluations=begin.evaluations + self._evaluator.count,
            least_bits=begin.lower_bound,
            reason=because(SizingWhy.CHEAPEST) if reason is None or is_proved else reason,
        )

    def _is_proved(self, stop: Stop) -> bool:
        """Whether the least cost is found until then."""
        self._part = stop
        try:
            if held_back(self._evaluator, self._period) is not None:
                return False
            self._take(self._search.cheapest(self._evaluator.reaches))
        except GaveUp:
            return False
        finally:
            self._part = self._stop
        return True

    def _compared(self) -> Reason | None:
        """Look at the fewest elements, then for a proof; return why there is none."""
        elements = smallest_depths(
            self._graph, self._period, stop=self._stop.part(share=ELEMENTS),
            weights=[1] * len(self._fifos),
        )  # fmt: skip
        if elements.depths:
            self._take(elements.depths)
        try:
            self._descend()
            if min(map(self._search.total, self._found)) > self._search.lower_bound:
                self._take(self._search.cheapest(self._evaluator.reaches))
        except ENDS as end:
            return reason_of(end)
        return None

    def _descend(self) -> None:
        """Take steps down from all depths found, each at first as large as it can be at its cost."""
        # Depths of the fewest bits or elements are upper bounds that best-first search has not met.
        for start in sorted(self._found, key=self._search.total):
            depths = tuple(map(self._search.end, range(len(start)), start))
            while (less := self._stepped(depths)) is not None:
                depths = less
            if self._search.total(depths) < self._search.total(start):
                self._take(depths)

    def _stepped(self, depths: Depths) -> Depths | None:
        """Cheaper depths that suffice: one FIFO a step down, and if need be another a step up."""
        for position in sorted(
            range(len(depths)), key=lambda index: -self._price(index, depths[index])
        ):
            below = self._search.below(position, depths[position])
            if below is None:
                continue
            trial = (*depths[:position], below, *depths[position + 1 :])
            cycle = self._evaluator.critical_cycle(trial)
            if cycle is None:
                return trial
            for fifo in cycle.fifos:
                more = self._search.end(fifo, trial[fifo] + 1)
                enlarged = (*trial[:fifo], more, *trial[fifo + 1 :])
                if self._search.total(enlarged) >= self._search.total(depths):
                    continue
                if self._evaluator.suffices(enlarged):
                    return enlarged
        return None

    def _take(self, depths: Depths) -> None:
        """Note depths that suffice, reduced while time allows."""
        self._found.append(depths)
        suffices = self._evaluator.suffices
        try:
            minimum = least_depths(self._evaluator)
            variables = variables_of(minimum, [fifo.bits for fifo in self._fifos])
            # Within one cost step depths can still shrink; users read them as the minimum.
            for less in reduced(variables, depths, suffices, is_close=True):
                self._found[-1] = less
        except ENDS:
            return
        self._narrow.add(self._found[-1])
