"""How much memory a network needs: every way to work it in one arena, and the best of them.

The ways: layers one after the other, each as a whole; all layers at once by rows, nothing computed
twice; and groups of lines and strips, which is the search of planners.streaming.search.front. All are
plans of one form, so their figures compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from cnn2csdf.fixed_point.flash import flash_bytes as stored_bytes
from cnn2csdf.network import Network
from cnn2csdf.parameters import (
    layer_parameter_bytes,
    multiply_accumulates,
    operations,
)
from cnn2csdf.platforms import Platform
from csdf.outcome import Reason, Status, because
from csdf.stopping import ENDS, Budget, Stop, reason_of, stop_of
from planners.network_arena import whole_arena
from planners.streaming.again import worked_network
from planners.streaming.course import Course, course_of
from planners.streaming.making import plan_of, smaller_plan
from planners.streaming.ordered.plain import whole_layers
from planners.streaming.plan import StreamingPlan
from planners.streaming.search.chains import GroupWay, PlanWay
from planners.streaming.search.front import ALL, ANY_WORK, front
from planners.streaming.search.moves import PARTS, Move, Moves
from planners.streaming.search.spaces import OnceMoves, PlainMoves, TwiceMoves
from planners.streaming.stage import Stage
from planners.streaming.stages import StageTable
from planners.streaming.ways import (
    BY_ROWS,
    IN_PARTS,
    LINES,
    OUTSIDE,
    PLAIN,
    RESIDENT,
    ROWS,
    SEARCHED_FIRST,
    STRIPS,
    TWICE,
    WHOLE_LAYERS,
    Fit,
    FitWay,
    FitWhy,
)

NEARLY_AS_FAST = Fraction(1, 100)  # no difference that a model of a platform can tell
ANY_BYTES = 2**62  # more than any arena has
SMALL_GAP = 256  # part of the bytes counted; no other chain is looked for
PARTS_OF_GAP = 4  # arenas that are tried between what is counted and what is taken
MOST_CAPS = 12  # arenas that are tried after a search
WIDTHS = (12, 100, ALL)  # labels at a place, one search after the other


def fit(
    network: Network,
    *,
    ram: int | None = None,
    flash: int | None = None,
    nanoseconds: Fraction | None = None,
    element_bytes: int | None = None,
    parameter_bytes: int | None = None,
    input: str = RESIDENT,  # noqa: A002 - the word of the command
    result: str = RESIDENT,
    searched: Sequence[str] = SEARCHED_FIRST,
    platform: Platform | None = None,
    budget: Budget = None,
) -> Fit:
    """Return whether a network fits into some RAM and flash, and the best way to work it.

    nanoseconds: of a frame, at most, as the platform predicts it.
    element_bytes: of all tensors and trained numbers; by default as the network says.
    parameter_bytes: of each trained number, if it is another. input: of INPUTS, result: of
    RESULTS; a network of several inputs has them all resident or all outside, an input that goes out
    as it is and results that layers read are resident. searched: of SEARCHED, beside the plain ways;
    by default those without parts of channels. budget: a stop, or seconds; where it or Ctrl-C ends the
    search, the best way found by then stands, marked in the reason.
    """
    limits = _Limits(ram, flash, nanoseconds)
    return _Fitting(
        network,
        limits,
        element_bytes,
        parameter_bytes or element_bytes,
        (input, result),
        searched,
        platform,
        stop_of(budget),
    ).answer()


class _Limits(NamedTuple):
    """Bytes of RAM and flash, nanoseconds of a frame; None where there is no limit."""

    ram: int | None
    flash: int | None
    nanoseconds: Fraction | None


class _Fitting:
    """The ways of a network, found one after the other."""

    def __init__(
        self,
        network: Network,
        limits: _Limits,
        element_bytes: int | None,
        parameter_bytes: int | None,
        ends: tuple[str, str],
        searched: Sequence[str],
        platform: Platform | None,
        stop: Stop,
    ) -> None:
        self._course = course_of(network)
        self._result = ends[1]
        outside = _outside(self._course, ends)
        self._table = StageTable(network, element_bytes=element_bytes, outside=outside)
        self._moves = Moves(self._course, self._table)
        self._spaces = {
            name: moves
            for name, moves in (
                (STRIPS, self._moves),
                *self._twice(),
                (IN_PARTS, Moves(self._course, self._table, PARTS)),
            )
            if name in searched
        }
        self._ram, self._flash, self._longest = limits
        self._flash_bytes = stored_bytes(network, parameter_bytes)
        self._is_streamed = ends[0] == ROWS and _can_stream(self._course)
        self._input = RESIDENT if ends[0] == ROWS and not self._is_streamed else ends[0]
        self._platform = platform
        self._stop = stop
        self._ways: list[FitWay] = []
        self._planned: set[tuple[object, ...]] = set()  # plans that were made, by their moves
        self._once = sum(
            multiply_accumulates(layer, network.input_shapes(layer)) for layer in network.layers
        )
        self._ended: Reason | None = None
        self._parameter_bytes = parameter_bytes

    def _twice(self) -> Iterator[tuple[str, Moves]]:
        """The space in which gates are computed twice, if there are gates."""
        moves = TwiceMoves(self._course, self._table)
        if moves.has_spans:
            yield TWICE, moves

    def answer(self) -> Fit:
        """Return the answer, after as much search as the stop allows."""
        self._add_whole_layers()
        self._add(BY_ROWS, self._by_rows())
        try:
            self._search()
        except ENDS as end:
            self._ended = reason_of(end)
        return self._told()

    def _add(self, name: str, groups: Sequence[GroupWay]) -> None:
        plan = plan_of(self._course, self._table, groups, is_streamed=self._is_streamed)
        self._add_plan(name, plan)

    def _add_plan(self, name: str, plan: StreamingPlan) -> None:
        work = Fraction(plan.multiply_accumulates, max(self._once, 1))
        self._ways.append(
            FitWay(name=name, plan=plan, work=work, nanoseconds=self._nanoseconds(plan))
        )

    def _add_whole_layers(self) -> None:
        """Add one arena of whole tensors: the answer of planners.network_arena, as a plan."""
        size, outside = self._table.element_bytes, self._table.outside
        arena = whole_arena(self._course.network, element_bytes=size, outside=outside).plan
        plan = whole_layers(self._course, self._table, arena.offsets, is_streamed=self._is_streamed)
        self._add_plan(WHOLE_LAYERS, plan)

    def _by_rows(self) -> list[GroupWay]:
        stages = tuple(Stage(layers=(name,)) for name in self._course.layers[1:])
        last = len(self._course.cuts) - 1
        return [GroupWay(0, 0, 0, last, (Move(0, last, stages),))]

    def _search(self) -> None:
        """Lines alone first, strips below what lines need; with more and more labels at a place."""
        once = OnceMoves(self._course, self._table)
        most = min(way.ram_bytes for way in self._ways)
        self._take(LINES, PlainMoves(self._course, self._table), most, WIDTHS[0])
        for labels in WIDTHS:
            most = min(way.ram_bytes for way in self._ways if way.name in PLAIN)
            is_complete = self._take(LINES, once, most, labels)
            lowest = min(way.work for way in self._ways)  # 1, or 0 where nothing multiplies
            least = min(way.ram_bytes for way in self._ways if way.work == lowest)
            if self._ram is not None and least <= self._ram:
                return
            is_complete &= self._strips(least, labels)
            if is_complete:
                return

    def _strips(self, least: int, labels: int) -> bool:
        """Look for strips below the least bytes of lines; return whether nothing was left out."""
        is_complete = True
        is_first = labels == WIDTHS[0]
        for name, moves in self._spaces.items():
            for limit in _limits(least, self._ram):
                before = len(self._ways)
                is_complete &= self._take(name, moves, limit, labels)
                if self._ram is not None and len(self._ways) > before and not is_first:
                    break
        return is_complete

    def _take(self, name: str, moves: Moves, limit: int, labels: int) -> bool:
        """Add the plans of a front that are new; return whether none is missing."""
        found = front(moves, limit, is_streamed=self._is_streamed, labels=labels, budget=self._stop)
        gaps: list[tuple[int, int]] = []
        for way in found.plans:
            plan = self._tried(name, way)
            if plan is not None and plan.arena_bytes > way.memory:
                gaps.append((way.memory, plan.arena_bytes))
        for cap in _caps(gaps, self._ram):
            self._stop.look()
            works = (one.plan.multiply_accumulates for one in self._ways if one.ram_bytes <= cap)
            chain = found.chains.within(cap, min(works, default=ANY_WORK))
            if chain is not None:
                self._tried(name, chain)
        return found.is_complete

    def _tried(self, name: str, way: PlanWay) -> StreamingPlan | None:
        """Add the plan of a chain of groups that is new, unless others are as good; return it."""
        self._stop.look()
        key = (name, *(group.moves for group in way.groups))
        if key in self._planned:
            return None
        self._planned.add(key)
        known = (one for one in self._ways if one.plan.multiply_accumulates <= way.work)
        plan = smaller_plan(
            self._course,
            self._table,
            way.groups,
            is_streamed=self._is_streamed,
            than=min((one.ram_bytes for one in known), default=ANY_BYTES),
        )
        if plan is not None:
            self._add_plan(name, plan)
        return plan

    def _nanoseconds(self, plan: StreamingPlan) -> int | None:
        if self._platform is None:
            return None
        table = self._table
        if plan.again:
            table = table.of(worked_network(self._course.network, plan.again))
        return sum(
            self._stage_nanoseconds(one.stage, table, self._platform)
            for group in plan.groups
            for one in group.stages
        )

    def _stage_nanoseconds(self, stage: Stage, table: StageTable, platform: Platform) -> int:
        """A stage starts with each firing, reads its parameters and rows, and writes rows."""
        network, found = table.network, table.geometry(stage)
        firings = found.firings.count
        work, parameters = Fraction(0), 0
        for name in stage.layers:
            layer = network.layer(name)
            inputs = network.input_shapes(layer)
            parameters += layer_parameter_bytes(layer, inputs, self._parameter_bytes)
            if found.accumulator:
                work += operations(layer, inputs)
            else:
                of_row = Fraction(operations(layer, inputs), layer.shape.rows)
                work += of_row * sum(end - first for first, end in found.ranges[name])
        moved = table.tensor_bytes(stage.result) + sum(
            table.tensor_bytes(reading.tensor) for reading in found.firings.readings
        )
        each = platform.nanoseconds(work / firings, Fraction(moved, firings) + parameters)
        return each * firings

    def _told(self) -> Fit:
        ways = tuple(_worth_showing(self._ways))
        fitting = [
            way
            for way in ways
            if (self._ram is None or way.ram_bytes <= self._ram) and self._is_fast(way)
        ]
        best = _chosen(fitting, is_limited=self._ram is not None)
        status, reason = self._verdict(ways, best)
        return Fit(
            network=self._course.network.name,
            input=self._input,
            result=self._result,
            ram=self._ram,
            flash=self._flash,
            flash_bytes=self._flash_bytes,
            ways=ways,
            best=best if status == Status.FEASIBLE else None,
            lower_bound=self._lower_bound(),
            status=status,
            reason=reason,
        )

    def _is_fast(self, way: FitWay) -> bool:
        """Whether the way is predicted to be as fast as required."""
        return self._longest is None or (
            way.nanoseconds is not None and way.nanoseconds <= self._longest
        )

    def _verdict(self, ways: Sequence[FitWay], best: FitWay | None) -> tuple[Status, Reason]:
        if self._flash is not None and self._flash_bytes > self._flash:
            return Status.INFEASIBLE, because(
                FitWhy.FLASH, needed=self._flash_bytes, flash=self._flash
            )
        if best is not None and self._ended is not None:
            return Status.FEASIBLE, because(FitWhy.LEAST_BY_THEN, end=self._ended)
        if best is not None:
            return Status.FEASIBLE, because(_why_chosen(best, ways))
        least = min(way.ram_bytes for way in ways)
        if self._ram is None or least <= self._ram:
            fastest = min(way.nanoseconds or 0 for way in ways)
            return Status.INFEASIBLE, because(FitWhy.TOO_SLOW, nanoseconds=fastest)
        if self._lower_bound() > self._ram:
            return Status.INFEASIBLE, because(FitWhy.ENDS, least=self._lower_bound())
        if self._ended is not None:
            return Status.GAVE_UP, because(FitWhy.TOO_LARGE_BY_THEN, end=self._ended, least=least)
        return Status.INFEASIBLE, because(FitWhy.TOO_LARGE, least=least)

    def _lower_bound(self) -> int:
        """Bytes that lie in the arena at the start, or at the end, of any plan."""
        inputs = () if self._is_streamed else (self._course.at(0), *self._course.others)
        return max(
            sum(self._table.arena_bytes(name) for name in inputs),
            sum(self._table.arena_bytes(name) for name in self._course.results),
        )


def _chosen(fitting: Sequence[FitWay], *, is_limited: bool) -> FitWay | None:
    """The way with the least work, of several the one with the least RAM.

    is_limited: RAM within the limit costs nothing, so the fastest comes first, as far as predicted
    times differ by more than NEARLY_AS_FAST.
    """
    lowest = min((way.work for way in fitting), default=None)
    ways = [way for way in fitting if way.work == lowest]
    times = [way.nanoseconds for way in ways if way.nanoseconds is not None]
    if is_limited and times:
        most = min(times) * (1 + NEARLY_AS_FAST)
        ways = [way for way in ways if way.nanoseconds is None or way.nanoseconds <= most]
    return min(ways, key=lambda way: way.ram_bytes, default=None)


def _why_chosen(best: FitWay, ways: Sequence[FitWay]) -> FitWhy:
    is_smaller = any(way.work == best.work and way.ram_bytes < best.ram_bytes for way in ways)
    return FitWhy.FASTEST if is_smaller else FitWhy.LEAST_WORK


def _can_stream(course: Course) -> bool:
    """Whether the one input may come row by row, and need not lie whole to go out again."""
    return not course.others and course.at(0) not in course.results


def _outside(course: Course, ends: tuple[str, str]) -> frozenset[str]:
    """Inputs, and results that no layer reads, where they are outside."""
    read = {source for name in course.layers for source in course.network.layer(name).inputs}
    inputs = {course.at(0), *course.others} if ends[0] == OUTSIDE else set()
    return frozenset(inputs | (course.results - read if ends[1] == OUTSIDE else set()))


def _limits(least: int, ram: int | None) -> Iterator[int]:
    """Limits for the search of strips, each giving all ways below it.

    Of equal counts the search keeps one, another under each limit, and their bytes differ when they
    are placed. So the limits are steps that do not depend on the RAM, and the first search takes all
    from the RAM on: what it finds with more RAM, and fits, it finds with less.
    """
    if ram is None:
        yield from (least // 4, least // 2, least - 1)
        return
    lowest = ram + ram // 8  # the count of the search is above the bytes of its plan here and there
    steps = [least - 1]
    while (below := steps[-1] - steps[-1] // 10 - 1) >= lowest:
        steps.append(below)
    yield from reversed(steps)


def _caps(gaps: Sequence[tuple[int, int]], ram: int | None) -> list[int]:
    """Arenas in which other chains might be placed, where some take more bytes than are counted.

    gaps: bytes that are counted, and those of the plan.
    """
    steps = {
        counted + (taken - counted) * part // PARTS_OF_GAP
        for counted, taken in gaps
        if taken > counted + counted // SMALL_GAP
        for part in range(PARTS_OF_GAP)
    }
    if ram is not None and any(counted <= ram < taken for counted, taken in gaps):
        steps.add(ram)
    some = sorted(steps)
    return some[:: -(-len(some) // MOST_CAPS) or 1]


def _worth_showing(ways: Sequence[FitWay]) -> Iterator[FitWay]:
    """The plain ways, and of the others those that no way improves on; by growing RAM."""
    least_work: Fraction | None = None
    for way in sorted(ways, key=lambda one: (one.ram_bytes, one.work, len(one.plan.groups))):
        improves = least_work is None or way.work < least_work
        if improves or way.name in PLAIN:
            yield way
        if improves:
            least_work = way.work
