"""Smallest depths of all FIFOs of a design: greedy growth, exchanges of depth, and a proof.

1. The depth of each FIFO with all others unbounded is a lower bound.
2. Where these depths do not suffice together, the cheapest FIFO on the critical cycle gets deeper.
3. The depths are made minimal: no single depth can be reduced.
4. Two methods alternate until the time limit. One exchanges depth of a FIFO for fewer bits in another
   FIFO; the other proves the smallest depths of subsets of the FIFOs (planners.fifo.proving).

Turns are counted in events, not in seconds: a longer search continues a shorter one, so its answer is
never worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from csdf.bisection import first_between
from csdf.search.least import reduced
from csdf.search.variables import Variable
from csdf.status import Ended, Reason, Status, Why, because
from csdf.time_limit import ENDS, Stop, reason_of
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.evaluator import DesignEvaluator, TimedDesign
from planners.fifo.event_graph import EventCycle
from planners.fifo.proving import DepthProof

Depths = tuple[int, ...]

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
    SEVERAL_RUNS = "for each FIFO the largest depth of any run"
    SLOWER_MEMORIES = "with the depths of other runs, deep FIFOs are memories and too slow"
    UNCALIBRATED = "not proved, timing is not calibrated: {accesses}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedDepths:
    """Depths that a search found, with the status of their proof, and the reason of its end."""

    status: Status
    reason: Reason
    depths: Depths
    cost: int
    lower_bound: int
    evaluations: int

    @property
    def is_cut_short(self) -> bool:
        """Whether the time limit ended the search before a proof."""
        is_open = self.status in (Status.FEASIBLE, Status.UNKNOWN)
        return is_open and self.reason.has(Ended.TIME_LIMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing(SearchedDepths):
    """Depths in the order of the FIFOs, with their cost and its proof.

    period: the maximum period; None if the design only has to be free of deadlock. status: optimal if
    no cheaper depths suffice in the model of the design, all integers from 2 on being allowed; feasible
    with a proved lower bound of the cost; infeasible if no depths suffice, with the critical cycle;
    unknown if the time limit ended the search before any depths were found. cost: in bits, or in the
    unit of the objective. is_minimal: whether it is proved that no single depth can be reduced.
    least_bits: for an objective other than bits, a lower bound on the bits of depths for the period.
    """

    period: Fraction | None
    is_minimal: bool
    cycle: EventCycle | None
    least_bits: int | None = None

    @property
    def gap(self) -> Fraction | None:
        """Maximum excess of the cost over the minimum, relative to the lower bound; None above 0."""
        if self.cost and not self.lower_bound:
            return None
        return Fraction(self.cost - self.lower_bound, self.lower_bound or 1)


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

    weights: cost of an element of each FIFO, by default its bits. floor: the smallest depths that are
    allowed. known: sufficient depths to begin with.
    """
    return _DepthSearch(graph, period, stop or Stop(), weights, floor, known).answer()


def unavoidable_cycle(evaluator: DesignEvaluator, period: Fraction | None) -> EventCycle | None:
    """Return a cycle above the period that no depths remove; None if unbounded FIFOs suffice."""
    slowest = evaluator.slowest()
    if period is not None and evaluator.alone(slowest) > period:
        return EventCycle(period=evaluator.alone(slowest), fifos=(), layers=(slowest,))
    return evaluator.critical_cycle([None] * len(evaluator.graph.design.fifos))


class _BoundReached(Exception):
    """The lower bound has reached the cost of the best depths."""


class _DepthSearch:
    """The search for the smallest depths of a design: the best depths so far, and the lower bound."""

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
            graph, required=period, only_live=period is None, spend=self._spend_beyond_limit
        )
        self._best, self._has_begun = known, bool(known)
        self._finishing = self._stop.finishing()
        self._floor = tuple(floor or [LEAST_DEPTH] * len(fifos))
        self._start = self._least = self._floor
        self._bound = self._size(self._floor)
        self._is_minimal = False
        self._proof_ratio = 1  # work of the proof per work of the search for smaller depths
        self._proof: DepthProof | None = None

    def _size(self, depths: Sequence[int]) -> int:
        return sum(map(int.__mul__, depths, self._weights))

    def answer(self) -> Sizing:
        """Return the smallest depths, or the best depths when the stop ends the search.

        Only the time limit or an interrupt can leave depths that are not minimal.
        """
        proof = because(SizingWhy.PROVED, of=self._of)
        try:
            if (cycle := unavoidable_cycle(self._evaluator, self._period)) is not None:
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

    def _find(self) -> DepthProof:
        """Find depths whose single depths are all minimal; return the proof to continue with.

        Depths of a large design grow from the floor before any lower bound is computed, so that a
        short search has an answer.
        """
        is_large = self._evaluator.graph.design.events > LARGE
        if self._has_begun:
            self._evaluator.spend = self._spend
        elif is_large:
            self._look_alone()
            for smaller in minimal_depths(
                self._evaluator, self._grow(is_hurried=True), self._floor, self._weights
            ):
                self._take(smaller)
            self._is_minimal = True
            self._evaluator.spend = self._spend
        self._least = tuple(map(max, least_depths(self._evaluator), self._floor))
        self._start, self._bound = self._least, self._size(self._least)
        proof = DepthProof(self._evaluator, self._least, self._weights, self._floor, self._look)
        self._proof = proof
        if not is_large:  # the depths of a large design are reduced in alternation with the proof
            self._make_minimal(self._grow())
        self._evaluator.spend = self._spend
        return proof

    def _spend(self, microseconds: int) -> None:
        self._stop.charge(microseconds)

    def _spend_beyond_limit(self, microseconds: int) -> None:
        """Count the effort of a step that may exceed the limit."""
        self._stop.spend(microseconds)
        self._finishing.look()

    def _look_alone(self) -> None:
        """Raise the bound by minimum depths of single FIFOs, within a limit of simulated frames."""
        minimum = list(self._floor)
        for index in range(len(minimum)):
            if self._evaluator.work > FRAMES_ALONE * self._evaluator.graph.design.events:
                break
            minimum[index] = max(minimum[index], least_depth(self._evaluator, index))
            self._bound = self._size(minimum)

    def _grow(self, *, is_hurried: bool = False) -> Depths:
        maximum = [None] * len(self._start) if self._proof is None else self._proof.maximum
        for grown_depths, is_enough in grown(
            self._evaluator, self._start, maximum, is_hurried=is_hurried
        ):
            self._start = grown_depths
            if is_enough:
                self._take(grown_depths)
        return self._start

    def _make_minimal(self, depths: Depths) -> None:
        variables = variables_of(self._least, self._weights)
        for reduced_depths in reduced(variables, depths, self._evaluator.suffices, is_close=True):
            self._take(reduced_depths)
            depths = reduced_depths
        self._is_minimal |= depths == self._best

    def _take(self, depths: Depths) -> None:
        if self._best and self._size(depths) >= self._size(self._best):
            return
        self._best, self._is_minimal = depths, False
        if self._proof is not None:
            self._proof.sufficient = depths
        if self._size(depths) <= self._bound:
            self._is_minimal = True
            raise _BoundReached

    def _prove(self, proof: DepthProof) -> None:
        """Alternate between the proof and exchanges of depth, in proportion to their events."""
        spent = self._evaluator.work
        exchanges = self._exchanges(proof)
        for proved in proof.proved(self._best):
            self._note_bound()
            depths = tuple(proved.get(index, depth) for index, depth in enumerate(self._best))
            is_smaller = self._size(depths) < self._size(self._best)
            if is_smaller and self._evaluator.suffices(depths):
                self._take(depths)
                exchanges = self._exchanges(proof)
            end = self._evaluator.work + (self._evaluator.work - spent) // self._proof_ratio
            while self._evaluator.work < end and next(exchanges, None):
                pass
            spent = self._evaluator.work

    def _exchanges(self, proof: DepthProof) -> Iterator[bool]:
        """Reduce the cost by exchanging depth of a FIFO for depth of another; yield after each step."""
        if not self._is_minimal:
            variables = variables_of(self._least, self._weights)
            for better in reduced(variables, self._best, self._evaluator.suffices, is_close=True):
                self._take(better)
                yield True
            self._is_minimal = True
        self._proof_ratio = EXCHANGES
        for better in exchanged(
            self._evaluator, self._best, self._least, proof.maximum, self._weights
        ):
            self._take(better)
            yield True
        if not self._is_minimal:
            self._make_minimal(self._best)

    def _look(self) -> None:
        """Look at the stop, and at whether the bound has reached the cost of the best depths."""
        self._stop.look()
        self._note_bound()
        if self._best and self._bound >= self._size(self._best):
            raise _BoundReached

    def _note_bound(self) -> None:
        if self._proof is not None:
            self._bound = max(self._bound, self._proof.lower_bound)

    def _sizing(self, status: Status, reason: Reason, cycle: EventCycle | None = None) -> Sizing:
        size = self._size(self._best)
        bound = min(self._bound, size) if size else self._bound
        return Sizing(
            period=self._period, status=status, depths=self._best, cost=size,
            lower_bound=size if status is Status.OPTIMAL else bound,
            is_minimal=self._is_minimal, cycle=cycle, evaluations=self._evaluator.count,
            reason=reason,
        )  # fmt: skip


def variables_of(minimum: Sequence[int], weights: Sequence[int]) -> list[Variable]:
    """Return the depths as variables of the engine's searches."""
    return [
        Variable(channels=(), least=depth, step=1, weight=weight)
        for depth, weight in zip(minimum, weights, strict=True)
    ]


def least_depths(evaluator: DesignEvaluator) -> Depths:
    """Return for each FIFO the minimum depth that suffices if all others are unbounded."""
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
    """Return the minimum depth of one FIFO that suffices; by default all others are unbounded.

    depths: of the other FIFOs. above: a depth that is too small. enough: a depth that may suffice.
    """
    fifos = evaluator.graph.design.fifos
    trial: list[int | None] = [None] * len(fifos) if depths is None else list(depths)

    def is_sufficient(depth: int) -> bool:
        trial[index] = depth
        return evaluator.suffices(trial)

    low, high, step = above + 1, enough, 1
    if is_sufficient(low):
        return low
    # Galloping: without an upper bound the step doubles until a depth suffices.
    if high is None or high <= low or not is_sufficient(high):
        while not is_sufficient(low + step):
            low, step = low + step, 2 * step
        high = low + step
    return first_between(low, high, is_sufficient)


def grown(
    evaluator: DesignEvaluator,
    start: Sequence[int],
    maximum: Sequence[int | None],
    *,
    is_hurried: bool = False,
) -> Iterator[tuple[Depths, bool]]:
    """Yield increasing depths with whether they suffice; the last depths suffice.

    Of FIFOs that are too small together, the FIFO with the fewest bits per frame grows: there a waiting
    element is cheapest. maximum: depth that a FIFO need not exceed; FIFOs without one (None) grow
    first. is_hurried: accept the first sufficient depth.
    """
    current, fifos = list(start), evaluator.graph.design.fifos
    while True:
        groups: list[tuple[int, ...]] = []
        trial: list[int | None] = [*current]
        while (cycle := evaluator.critical_cycle(trial)) is not None:
            # Unbounding the FIFOs of one cycle shows the next independent cycle at the same depths.
            groups.append(cycle.fifos)
            trial = [None if at in cycle.fifos else depth for at, depth in enumerate(trial)]
        if not groups:
            break
        for group in groups:
            cheapest_first = sorted(
                group,
                key=lambda index: (
                    maximum[index] is not None,
                    fifos[index].bits * fifos[index].words,
                ),
            )
            for _ in _repair(evaluator, current, cheapest_first, is_hurried=is_hurried):
                yield tuple(current), False
    yield tuple(current), True


def _repair(
    evaluator: DesignEvaluator, current: list[int], group: Sequence[int], *, is_hurried: bool
) -> Iterator[None]:
    """Deepen the first FIFOs of a group until it suffices, all FIFOs outside unbounded."""
    trial: list[int | None] = [depth if at in group else None for at, depth in enumerate(current)]
    growing = []
    for index in group:
        growing.append(index)
        trial[index] = None
        if evaluator.suffices(trial):
            break
    # The FIFO that made the group suffice comes first; the earlier FIFOs may then stay small.
    for index in reversed(growing):
        # The maximum occupancy without a bound suffices: an upper end for bisection.
        enough = evaluator.max_occupancy(trial, index)
        if is_hurried and enough is not None:
            # At most three simulations replace a bisection of up to log2(depth).
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


def minimal_depths(
    evaluator: DesignEvaluator, depths: Depths, floor: Sequence[int], weights: Sequence[int]
) -> Iterator[Depths]:
    """Yield decreasing sufficient depths; no single depth of the last can be reduced.

    The depths are bisected one FIFO after another, in the order of their cost above the floor. After
    each success every FIFO is cut to its maximum occupancy.
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
                # Without the surplus space of any FIFO: unused words cannot change the timing.
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
    """Yield the cheapest depths so far after each exchange of depth between two FIFOs.

    An attempt removes a share of the depth of a FIFO above its minimum: all of it, then half, and so
    on, the FIFO with the highest removable cost first.
    """
    current = depths
    # Large exchanges first; halved shares reach depths that large steps jump over.
    for share in SHARES:
        for position in sorted(
            range(len(depths)), key=lambda index: (minimum[index] - current[index]) * weights[index]
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
    """Cheaper sufficient depths: `fewer` elements less in a FIFO, more in another; or None."""
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
