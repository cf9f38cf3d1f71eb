"""How much memory a network needs: every way to work it in one arena, and the best of them.

The ways: layers one after the other, each as a whole; all layers at once by rows, nothing computed
twice; and groups of lines and strips, which is the search of planners.memory.labels. All are
plans of one form, so their figures compare.

A plan that was made before, as an answer to whether a network fits: checked, not searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.fixed_point.flash import flash_bytes as stored_bytes
from cnn2csdf.network import Network
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.platforms import Platform
from csdf.outcome import Reason, Status, Why, because
from csdf.time_limit import Budget, Stop, stop_of
from planners.memory.answer import (
    EXTERNAL,
    PLAIN,
    RESIDENT,
    ROWS,
    SEARCHED_FIRST,
    Fit,
    FitMethod,
    FitWhy,
)
from planners.memory.order import course_of
from planners.memory.plain_plans import ends_of
from planners.memory.search import WIDTHS, Finding
from planners.memory.stages import StageTable
from planners.memory.times import PlanTimes
from planners.plan.checker import require_carried_out
from planners.plan.plan import Kind, StreamingPlan

NEARLY_AS_FAST = Fraction(1, 100)  # no difference that a model of a platform can tell


def fit(
    network: Network,
    *,
    ram: int | None = None,
    flash: int | None = None,
    nanoseconds: Fraction | None = None,
    element_bytes: int | None = None,
    parameter_bytes: int | None = None,
    input: str = RESIDENT,  # noqa: A002 - the word of the command
    output: str = RESIDENT,
    searched: Sequence[str] = SEARCHED_FIRST,
    labels: Sequence[int] = WIDTHS,
    platform: Platform | None = None,
    budget: Budget = None,
) -> Fit:
    """Return whether a network fits into some RAM and flash, and the best way to work it.

    nanoseconds: of a frame, at most, as the platform predicts it. element_bytes: of all tensors and
    trained numbers; by default as the network says. parameter_bytes: of each trained number, if it
    is another. input: of INPUTS, output: of OUTPUT_MEMORIES; a network of several inputs has them
    all resident or all external, an input that goes out as it is and outputs that layers read are
    resident. searched: of SEARCHED, beside the plain ways; by default those without parts of
    channels. labels: at a place, in one search after the other: the more, the better and slower.
    budget: a stop, or seconds; where it or Ctrl-C ends the search, the best way found by then
    stands, marked in the reason.
    """
    limits = _Limits(ram, flash, nanoseconds)
    return _Fitting(
        network,
        limits,
        element_bytes,
        parameter_bytes or element_bytes,
        (input, output),
        searched,
        labels,
        platform,
        stop_of(budget),
    ).answer()


class _Limits(NamedTuple):
    """Bytes of RAM and flash, nanoseconds of a frame; None where there is no limit."""

    ram: int | None
    flash: int | None
    nanoseconds: Fraction | None


class _Fitting:
    """A search for the ways of a network, and the answer."""

    def __init__(
        self,
        network: Network,
        limits: _Limits,
        element_bytes: int | None,
        parameter_bytes: int | None,
        ends: tuple[str, str],
        searched: Sequence[str],
        labels: Sequence[int],
        platform: Platform | None,
        stop: Stop,
    ) -> None:
        self._course = course = course_of(network)
        self._output = ends[1]
        self._is_streamed, outside = ends_of(course, *ends)
        self._input = RESIDENT if ends[0] == ROWS and not self._is_streamed else ends[0]
        self._table = StageTable(network, element_bytes=element_bytes, outside=outside)
        self._ram, self._flash, self._longest = limits
        self._flash_bytes = stored_bytes(network, parameter_bytes)
        self._finding = Finding(
            course,
            self._table,
            is_streamed=self._is_streamed,
            searched=searched,
            labels=labels,
            ram=self._ram,
            times=None if platform is None else PlanTimes(self._table, platform, parameter_bytes),
            stop=stop,
        )

    def answer(self) -> Fit:
        """Return the answer, after as much search as the stop allows."""
        self._finding.run()
        ways = tuple(_worth_showing(self._finding.methods))
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
            output=self._output,
            ram=self._ram,
            flash=self._flash,
            flash_bytes=self._flash_bytes,
            methods=ways,
            best=best if status == Status.FEASIBLE else None,
            lower_bound=self._lower_bound(),
            status=status,
            reason=reason,
        )

    def _is_fast(self, way: FitMethod) -> bool:
        """Whether the way is predicted to be as fast as required."""
        return self._longest is None or (
            way.nanoseconds is not None and way.nanoseconds <= self._longest
        )

    def _verdict(self, ways: Sequence[FitMethod], best: FitMethod | None) -> tuple[Status, Reason]:
        if self._flash is not None and self._flash_bytes > self._flash:
            return Status.INFEASIBLE, because(
                FitWhy.FLASH, needed=self._flash_bytes, flash=self._flash
            )
        if best is not None and self._finding.ended is not None:
            return Status.FEASIBLE, because(FitWhy.LEAST_BY_THEN, end=self._finding.ended)
        if best is not None:
            return Status.FEASIBLE, because(_why_chosen(best, ways))
        least, end = min(way.ram_bytes for way in ways), self._finding.ended
        if self._ram is None or least <= self._ram:
            fastest = min(way.nanoseconds or 0 for way in ways)
            return Status.INFEASIBLE, because(FitWhy.TOO_SLOW, nanoseconds=fastest)
        if self._lower_bound() > self._ram:
            return Status.INFEASIBLE, because(FitWhy.ENDS, least=self._lower_bound())
        if end is not None:
            return Status.UNKNOWN, because(FitWhy.TOO_LARGE_BY_THEN, end=end, least=least)
        return Status.INFEASIBLE, because(FitWhy.TOO_LARGE, least=least)

    def _lower_bound(self) -> int:
        """Bytes that lie in the arena at the start, or at the end, of any plan."""
        inputs = () if self._is_streamed else (self._course.at(0), *self._course.others)
        return max(
            sum(self._table.arena_bytes(name) for name in inputs),
            sum(self._table.arena_bytes(name) for name in self._course.results),
        )


def _chosen(fitting: Sequence[FitMethod], *, is_limited: bool) -> FitMethod | None:
    """The way with the least work, of several the one with the least RAM.

    is_limited: RAM within the limit costs nothing, so the fastest comes first, as far as predicted
    times differ by more than NEARLY_AS_FAST.
    """
    lowest = min((way.mac_ratio for way in fitting), default=None)
    ways = [way for way in fitting if way.mac_ratio == lowest]
    times = [way.nanoseconds for way in ways if way.nanoseconds is not None]
    if is_limited and times:
        most = min(times) * (1 + NEARLY_AS_FAST)
        ways = [way for way in ways if way.nanoseconds is None or way.nanoseconds <= most]
    return min(ways, key=lambda way: way.ram_bytes, default=None)


def _why_chosen(best: FitMethod, ways: Sequence[FitMethod]) -> FitWhy:
    is_smaller = any(
        way.mac_ratio == best.mac_ratio and way.ram_bytes < best.ram_bytes for way in ways
    )
    return FitWhy.FASTEST if is_smaller else FitWhy.LEAST_WORK


def _worth_showing(ways: Sequence[FitMethod]) -> Iterator[FitMethod]:
    """The plain ways, and of the others those that no way improves on; by growing RAM."""
    least_work: Fraction | None = None
    for way in sorted(ways, key=lambda one: (one.ram_bytes, one.mac_ratio, len(one.plan.groups))):
        improves = least_work is None or way.mac_ratio < least_work
        if improves or way.name in PLAIN:
            yield way
        if improves:
            least_work = way.mac_ratio


GIVEN = "loaded plan"


class GivenWhy(Why):
    """Reasons for the answer about a loaded plan."""

    CHECKED = "the loaded plan works this network; no other was looked for"
    CHECKED_PART = (
        "the loaded plan works layers {first}:{end} of this network; no other was looked for"
    )
    TOO_LARGE = "the loaded plan takes {needed} bytes of RAM, {ram} are there"
    FLASH = "the parameters need {needed} bytes of flash, {flash} are there"


def fit_of(
    network: Network, plan: StreamingPlan, *, ram: int | None = None, flash: int | None = None
) -> Fit:
    """Return whether a network, worked as a plan says, fits.

    Raises InvalidPlan where the plan does not work this network, with what is wrong.
    """
    require_carried_out(network, plan)
    once = sum(multiply_accumulates(layer, network.input_shapes(layer)) for layer in network.layers)
    work = Fraction(plan.multiply_accumulates, max(once, 1))
    way = FitMethod(name=GIVEN, plan=plan, mac_ratio=work, nanoseconds=None)
    needed = flash_bytes(network, plan.element_bytes)
    status, reason = _verdict(plan, needed, ram, flash)
    places = _places(network, plan)
    return Fit(
        network=network.name,
        input=places[0],
        output=places[1],
        ram=ram,
        flash=flash,
        flash_bytes=needed,
        methods=(way,),
        best=way if status is Status.FEASIBLE else None,
        lower_bound=_lower_bound(network, plan),
        status=status,
        reason=reason,
    )


def _verdict(
    plan: StreamingPlan, needed: int, ram: int | None, flash: int | None
) -> tuple[Status, Reason]:
    if ram is not None and plan.arena_bytes > ram:
        return Status.INFEASIBLE, because(GivenWhy.TOO_LARGE, needed=plan.arena_bytes, ram=ram)
    if flash is not None and needed > flash:
        return Status.INFEASIBLE, because(GivenWhy.FLASH, needed=needed, flash=flash)
    if plan.layers is not None:
        first, end = plan.layers
        return Status.FEASIBLE, because(GivenWhy.CHECKED_PART, first=first, end=end)
    return Status.FEASIBLE, because(GivenWhy.CHECKED)


def _places(network: Network, plan: StreamingPlan) -> tuple[str, str]:
    """Return the places of inputs and results, in the words of `csdf fit`."""
    outside = {one.tensor for one in plan.buffers if one.kind is Kind.EXTERNAL}
    inputs = {layer.name for layer in network.inputs}
    source = EXTERNAL if inputs & outside else RESIDENT
    made = {one.stage.result for group in plan.groups for one in group.stages}
    arrives = plan.groups[0].streamed_input is not None and not plan.is_copied(0)
    is_streamed = arrives or bool(inputs & made)
    source = ROWS if is_streamed else source
    return source, EXTERNAL if outside - inputs else RESIDENT


def _lower_bound(network: Network, plan: StreamingPlan) -> int:
    """Bytes that lie in the arena at the start, or at the end, of any plan with the same places."""
    results = {source for layer in network.outputs for source in layer.inputs}
    size = {one.tensor: one.size for one in plan.buffers if one.kind is Kind.WHOLE}
    if plan.collects_input:  # another plan may take its rows as they come
        size.pop(plan.groups[0].streamed_input or "")
    return max(
        sum(size.get(layer.name, 0) for layer in network.inputs),
        sum(size.get(name, 0) for name in results),
    )
