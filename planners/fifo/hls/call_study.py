"""The answer of `csdf fifo hls`: cycles, what limits them, deadlocks, and smallest depths.

Lanes may be read later than the report says: this delay is the skew. The cycles in the depths of the
source are reported without skew, and again with the assumed skew. Depths are searched for the assumed
skew; they suffice for each smaller skew as well. Several runs are traces of one design for several
inputs: the depths suffice for all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from csdf.bisection import first_between
from csdf.errors import InvalidGraph
from csdf.status import Status, because
from csdf.time_limit import ENDS, Stop
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.event_graph import Spend
from planners.fifo.hls.call import CallModel, Outcome
from planners.fifo.hls.critical import CycleLimit, limit
from planners.fifo.hls.depths import CallSizing, fewest_cycles, front, sized
from planners.fifo.hls.pipelines import Skew, StagedDesign
from planners.fifo.hls.reduction import total_cost
from planners.fifo.sizing import SizingWhy

# Total stages of the calls that search for unneeded depth, about 2 s by EVENTS of call.py.
MOST_TRIED = 50_000_000
Staging = Callable[[Skew], StagedDesign]  # the design for a skew


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Outcomes of a call in fixed depths.

    depths: words of each FIFO, or array of FIFOs. outcome: without skew. assumed: with the assumed
    skew. deadlocks_from: the smallest skew with a deadlock; None if there is none up to that skew.
    """

    depths: tuple[int, ...]
    outcome: Outcome
    assumed: Outcome
    deadlocks_from: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStudy:
    """The answer for one design: for the first of several runs, except that the sizing is for all runs.

    skew: assumed, in stages; None for the largest of each read. largest_skew: of any read.
    unbounded: the call in unbounded FIFOs, which no depths make faster. as_given: in the depths of the
    source. at_depth_2: with depth 2 for each FIFO. limit: the longest path in the depths of the source.
    sizing: smallest depths for the assumed skew. sizing_without_skew: smallest depths without skew;
    None if no skew is assumed. points: of the Pareto front; is_complete: whether the front has no
    other point. idle: indices of the FIFOs that are never full in the depths of the source. unneeded:
    indices of the FIFOs whose depth in the source could be 2 without a change of the cycles, both
    without skew and with the assumed skew. uncalibrated: accesses with a timing never seen in RTL.
    """

    model: CallModel
    skew: Skew
    largest_skew: int
    unbounded: Outcome
    as_given: Tried
    at_depth_2: Tried
    limit: CycleLimit | None
    sizing: CallSizing | None
    sizing_without_skew: CallSizing | None
    points: tuple[CallSizing, ...] = ()
    is_complete: bool = False
    idle: tuple[int, ...] = ()
    unneeded: tuple[int, ...] = ()
    uncalibrated: tuple[str, ...] = ()

    @property
    def is_cut_short(self) -> bool:
        """Whether the time limit ended the search for the sizing, or for a point, before a proof."""
        return any(sizing.is_cut_short for sizing in (self.sizing, *self.points) if sizing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The goal of the search for depths: full rate by default.

    cycles: at most these cycles instead. only_live: no deadlock instead. has_front: the Pareto front of
    cost and cycles instead. objective: the cost, "bits", "bram" or "lut". skew: as in CallStudy.
    is_grouped: FIFOs of an array have equal depths. storage: memory of all FIFOs; "": as in the source.
    """

    cycles: int | None = None
    only_live: bool = False
    has_front: bool = False
    objective: str = "bits"
    skew: Skew = None
    is_grouped: bool = True
    storage: str = ""


def study(runs: Sequence[Staging], question: Question, stops: Callable[[], Stop]) -> CallStudy:
    """Return the answer. runs: the design as traced in each run."""
    models = [_Models(run, question) for run in runs]
    first = models[0]
    model, nominal = first.at(question.skew), first.at(0)
    for skewed in models[1:]:
        if skewed.at(0).names != nominal.names:
            raise InvalidGraph("the runs have different FIFOs; they have to be of one design")
    spend = stops().finishing().charge
    minimum = fewest_cycles(nominal, spend)
    least_depths = (LEAST_DEPTH,) * len(nominal.members)
    as_given = _tried(first, nominal.source_depths, question.skew, spend, has_path=True)
    at_depth_2 = _tried(first, least_depths, question.skew, spend)
    outcome = as_given.outcome
    points: tuple[CallSizing, ...] = ()
    is_complete = False
    sizing = plain = None
    if question.has_front:
        points_of_front, is_complete = front(model, objective=question.objective, stop=stops())
        points = tuple(points_of_front)
    else:
        sizing = _for_all([model.at(question.skew) for model in models], question, stops)
        if question.skew != 0 and nominal.design.largest_skew and sizing.depths:
            plain = _for_all([model.at(0) for model in models], question, stops)
    uncalibrated = tuple(
        dict.fromkeys(note for run in models for note in run.at(0).design.uncalibrated)
    )
    if uncalibrated:
        points = tuple(_unproved(point, model, question, uncalibrated) for point in points)
        sizing = sizing and _unproved(sizing, model, question, uncalibrated)
        plain = plain and _unproved(plain, nominal, question, uncalibrated)
    return CallStudy(
        model=model, skew=question.skew, largest_skew=nominal.design.largest_skew,
        unbounded=minimum, as_given=as_given, at_depth_2=at_depth_2,
        limit=None if outcome.cycles is None else limit(nominal, outcome),
        sizing=sizing, sizing_without_skew=plain,
        # A front without points is complete by a deadlock in any depths, whatever the timing.
        points=points, is_complete=is_complete and not (points and uncalibrated),
        uncalibrated=uncalibrated,
        idle=tuple(index for index in range(len(as_given.depths)) if index not in outcome.full),
        unneeded=_unneeded(first, as_given, question.skew, stops().finishing().charge),
    )  # fmt: skip


def _unproved(
    sizing: CallSizing, model: CallModel, question: Question, uncalibrated: Sequence[str]
) -> CallSizing:
    """Withdraw a proof that rests on cycles that were never compared with RTL.

    The proof of a deadlock in any depths uses no cycles and remains.
    """
    reason = because(SizingWhy.UNCALIBRATED, accesses="; ".join(uncalibrated))
    floor = total_cost(model, [LEAST_DEPTH] * len(model.members), question.objective)
    if sizing.depths:
        return replace(
            sizing, status=Status.FEASIBLE, reason=reason, lower_bound=min(sizing.cost, floor)
        )
    if sizing.status is Status.INFEASIBLE and sizing.goal is not None:
        return replace(sizing, status=Status.UNKNOWN, reason=reason)
    return sizing


def _unneeded(models: _Models, given: Tried, skew: Skew, spend: Spend) -> tuple[int, ...]:
    """Indices of FIFOs that could have depth 2, one at a time; up to the end of the time limit."""
    model, nominal, depths = models.at(skew), models.at(0), given.depths
    if nominal.events * len(depths) > MOST_TRIED:
        return ()
    indices = []
    with suppress(*ENDS):
        for index, depth in enumerate(depths):
            trial = (*depths[:index], LEAST_DEPTH, *depths[index + 1 :])
            if (
                depth > LEAST_DEPTH
                and _is_no_slower(nominal, trial, given.outcome, spend)
                and (model is nominal or _is_no_slower(model, trial, given.assumed, spend))
            ):
                indices.append(index)
    return tuple(indices)


class _Models:
    """The models of one run by their skew."""

    def __init__(self, staging: Staging, question: Question) -> None:
        self._staging, self._question = staging, question
        self._found: dict[Skew, CallModel] = {}

    def at(self, skew: Skew) -> CallModel:
        """Return the model for a skew; without lanes it makes no difference."""
        if skew not in self._found:
            design = self._staging(skew)
            if storage := self._question.storage:
                fifos = tuple(replace(fifo, kind=storage) for fifo in design.fifos)
                design = replace(design, fifos=fifos)
            self._found[skew] = CallModel(design, is_grouped=self._question.is_grouped)
        return self._found[skew]


def _tried(
    models: _Models, depths: tuple[int, ...], skew: Skew, spend: Spend, *, has_path: bool = False
) -> Tried:
    """Simulate a call in these depths; bisect for the least skew that deadlocks."""
    nominal = models.at(0)
    outcome = nominal.outcome(depths, has_path=has_path, spend=spend)
    largest = nominal.design.largest_skew
    assumed = models.at(skew).outcome(depths, spend=spend)
    deadlocks_from = 0 if outcome.cycles is None else None
    if outcome.cycles is not None and assumed.cycles is None:
        # More skew is never faster.
        deadlocks_from = first_between(
            0, largest if skew is None else min(skew, largest),
            lambda between: models.at(between).outcome(depths, spend=spend).cycles is None,
        )  # fmt: skip
    return Tried(depths=depths, outcome=outcome, assumed=assumed, deadlocks_from=deadlocks_from)


def _is_no_slower(model: CallModel, depths: tuple[int, ...], than: Outcome, spend: Spend) -> bool:
    """Whether a call in these depths takes at most the cycles of an outcome without deadlock."""
    if than.cycles is None:
        return False
    cycles = model.outcome(depths, limit=than.cycles, spend=spend).cycles
    return cycles is not None and cycles <= than.cycles


def _for_all(
    models: Sequence[CallModel], question: Question, stops: Callable[[], Stop]
) -> CallSizing:
    """Depths that suffice in each run: for each FIFO the largest depth that a run needs."""
    sizings = [_for_one(model, question, stops()) for model in models]
    best = sizings[0]
    if len(sizings) == 1 or any(not sizing.depths for sizing in sizings):
        return next((sizing for sizing in sizings if not sizing.depths), best)
    # The maximum suffices by monotonicity, but for slower memories: the outcomes below check it.
    depths = tuple(map(max, zip(*(sizing.depths for sizing in sizings), strict=True)))
    cost = total_cost(models[0], depths, question.objective)
    # Depths for all runs are depths for each run: the largest bound holds.
    bounding = max(sizings, key=lambda sizing: sizing.lower_bound)
    bound = bounding.lower_bound
    outcomes = [model.outcome(depths) for model in models]
    is_enough = all(
        outcome.cycles is not None and (sizing.goal is None or outcome.cycles <= sizing.goal)
        for outcome, sizing in zip(outcomes, sizings, strict=True)
    )
    if not is_enough:
        status, reason = Status.UNKNOWN, because(SizingWhy.SLOWER_MEMORIES)
    elif cost <= bound:
        status, reason = Status.OPTIMAL, bounding.reason
    else:
        # A reason of the time limit says that more time may help.
        cut_short = (sizing.reason for sizing in sizings if sizing.status is Status.FEASIBLE)
        status, reason = Status.FEASIBLE, next(cut_short, because(SizingWhy.SEVERAL_RUNS))
    return replace(
        best, depths=depths, cost=cost, lower_bound=min(bound, cost), cycles=outcomes[0].cycles,
        status=status, reason=reason, evaluations=sum(sizing.evaluations for sizing in sizings),
    )  # fmt: skip


def _for_one(model: CallModel, question: Question, stop: Stop) -> CallSizing:
    """Depths for one run; without a goal, for the fewest cycles, if any depths avoid a deadlock."""
    goal, is_full_rate = None if question.only_live else question.cycles, False
    if goal is None and not question.only_live:
        goal = fewest_cycles(model, stop.finishing().spend).cycles
        is_full_rate = goal is not None
    objective = question.objective
    return sized(model, goal, objective=objective, stop=stop, is_full_rate=is_full_rate)
