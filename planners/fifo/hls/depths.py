"""Smallest and cheapest FIFO depths of one call of an HLS design.

A shift register is a cycle faster than a memory, so a larger depth can be slower. The search begins
with depths that need no search: the occupancy of each FIFO, reduced until no single depth can be
smaller; this step ignores the limit on effort. Then, by objective:

- Fewest bits. With all FIFOs as shift registers the problem is monotone, and its optimum is a lower
  bound for real depths. If the optimum contains memories whose latency misses the goal, the search
  is repeated with these groups fixed as memories; its result then suffices.
- Fewest block RAMs or LUTs, and the front. Best-first search over the ends of the cost steps, with
  exact times. Depths on the queue only grow, so a group that is a memory stays a memory, and a cut
  learned from a path over memories holds for all successors.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from csdf.search.evaluator import PeriodEvaluation
from csdf.search.learned_bounds import fast_enough
from csdf.search.memory_cost import StepSearch
from csdf.status import Status, because
from csdf.time_limit import ENDS, Stop, reason_of
from planners.fifo.design import LEAST_DEPTH
from planners.fifo.event_graph import Spend, spend_nothing
from planners.fifo.hls.call import CallModel, Outcome
from planners.fifo.hls.call_design import CallGraph
from planners.fifo.hls.reduction import Depths, occupied_depths, reductions, total_cost
from planners.fifo.sizing import SearchedDepths, Sizing, SizingWhy, smallest_depths, variables_of

STEPPED = ("bram", "lut")  # objectives that cost in steps
# Rounds in which the set of groups that are memories is corrected by the depths found for it.
MOST_ROUNDS = 8
# Shares of the effort of a search, in this order; each is a share of the remaining effort.
FEW_MEMORIES = 0.25  # depths with few block RAMs
PREPARATION = 0.1  # further initial depths, and groups that are memories in every solution
FEWEST_BITS = 0.8  # depths with the fewest bits, for one set of memories
BEFORE_STEPS = 0.3  # depths with the fewest bits, before the search of a cost in steps
POINTS = 8  # of a front in bits
FASTEST_POINT = 0.25  # seconds of effort for the fastest point of an incomplete front


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSizing(SearchedDepths):
    """Depths by group of FIFOs, with their cost, its lower bound, and the status of the proof.

    goal: maximum cycles, None for freedom from deadlock. cycles: of the depths. cost, lower_bound:
    in the unit of the objective. status: optimal if no depths cost less; feasible with a lower
    bound; infeasible if no depths reach the goal; unknown if none were found in time.
    """

    goal: int | None
    cycles: int | None


def fewest_cycles(model: CallModel, spend: Spend = spend_nothing) -> Outcome:
    """Return the outcome with unbounded FIFOs, as shift registers where the source allows it."""
    return model.outcome([None] * len(model.members), memories=model.fixed_memories, spend=spend)


def sized(
    model: CallModel,
    goal: int | None,
    *,
    objective: str = "bits",
    stop: Stop,
    is_full_rate: bool = False,
) -> CallSizing:
    """Return the cheapest depths with at most `goal` cycles, or without deadlock if it is None.

    No single depth of the answer can be reduced, unless the time limit or an interrupt ended the
    search. is_full_rate: if the latencies of memories miss the goal, minimise for the fewest cycles
    reached.
    """
    if objective not in STEPPED:
        return _FewestBits(model, goal, objective, stop, is_full_rate=is_full_rate).answer()
    part = stop.part(share=BEFORE_STEPS)
    begin = _FewestBits(model, goal, "bits", part, is_full_rate=is_full_rate).answer()
    if begin.status in (Status.INFEASIBLE, Status.UNKNOWN):
        return begin
    if is_full_rate and goal is not None and begin.cycles is not None:
        goal = max(goal, begin.cycles)
    search = _CallSearch(model, objective, stop)
    best, status, reason = begin.depths, Status.OPTIMAL, because(SizingWhy.CHEAPEST)
    try:
        cheapest = search.cheapest(goal)
    except ENDS as end:
        cheapest, reason = None, reason_of(end)
        is_proved = total_cost(model, best, objective) <= search.lower_bound
        status = Status.OPTIMAL if is_proved else Status.FEASIBLE
    if cheapest is not None:
        best = _reduced_in_time(model, cheapest, goal, stop)
    cost = total_cost(model, best, objective)
    # Costs in steps leave ties: of these the fewest bits.
    if cost == total_cost(model, begin.depths, objective):
        best = min(best, begin.depths, key=lambda depths: total_cost(model, depths, "bits"))
    return CallSizing(
        goal=goal, status=status, reason=reason, depths=best, cost=cost,
        cycles=model.outcome(best, spend=stop.finishing().spend).cycles,
        lower_bound=cost if status is Status.OPTIMAL else min(cost, search.lower_bound),
        evaluations=begin.evaluations + search.count,
    )  # fmt: skip


def _reduced_in_time(model: CallModel, depths: Depths, goal: int | None, stop: Stop) -> Depths:
    """Return reduced depths, or the depths so far when the time limit ends the work."""
    smallest = depths
    with suppress(*ENDS):
        for smaller in reductions(model, depths, goal, stop.finishing().charge):
            smallest = smaller
    return smallest


class _FewestBits:
    """The search for the fewest bits or elements of a call: best depths and lower bound so far."""

    def __init__(
        self, model: CallModel, goal: int | None, objective: str, stop: Stop, *, is_full_rate: bool
    ) -> None:
        self._model, self._goal, self._objective, self._stop = model, goal, objective, stop
        self._finishing = stop.finishing()
        self._is_full_rate = is_full_rate
        self._initial: list[Depths] = []  # depths found without a search
        self._best: Depths | None = None
        self._bound, self._evaluations = 0, 0
        self._reason = because(SizingWhy.NO_DEPTHS)

    def answer(self) -> CallSizing:
        """Return the smallest depths, or the best depths when the stop ends the search."""
        is_possible = True
        try:
            self._find_initial_depths()
            is_possible = self._search()
        except ENDS as end:
            self._reason = reason_of(end)
        if not is_possible:
            return self._unanswered(Status.INFEASIBLE)
        if self._best is None and not self._settle_for_slower():
            return self._unanswered(Status.UNKNOWN)
        return self._answered()

    def _spend_beyond_limit(self, microseconds: int) -> None:
        """Count the effort of a step that may exceed the limit."""
        self._stop.spend(microseconds)
        self._finishing.look()

    def _cost(self, depths: Depths) -> int:
        return total_cost(self._model, depths, self._objective)

    def _rank(self, depths: Depths) -> tuple[int, int]:
        """Return the objective, with block RAMs as the tie-breaker."""
        return self._cost(depths), total_cost(self._model, depths, "bram")

    def _is_enough(self, cycles: int | None) -> bool:
        return cycles is not None and (self._goal is None or cycles <= self._goal)

    def _take(self, depths: Depths | None) -> bool:
        """Store depths that reach the goal and cost less; return whether they reach it."""
        if depths is None or len(depths) < len(self._model.members):
            return False
        spend = self._spend_beyond_limit
        cycles = self._model.outcome(depths, limit=self._goal, spend=spend).cycles
        if not self._is_enough(cycles):
            return False
        if self._best is None or self._rank(depths) < self._rank(self._best):
            self._best = depths
        return True

    def _find_initial_depths(self) -> None:
        """Reduce the occupancies of all FIFOs, ignoring the limit on effort.

        If the latencies of memories miss full rate, the goal is the cycles of the occupancies.
        """
        model, spend = self._model, self._spend_beyond_limit
        # Room for all words of a call: no write waits for space, whatever the kind of memory.
        ample = tuple(max(LEAST_DEPTH, words) for words in model.words)
        for depths in (occupied_depths(model, spend), ample, model.source_depths):
            if self._initial:
                spend = self._stop.part(share=PREPARATION).charge
            with suppress(*(ENDS if self._initial else ())):
                cycles = model.outcome(depths, spend=spend).cycles
                is_enough = self._is_enough(cycles)
                if cycles is None or not (is_enough or self._is_full_rate):
                    continue
                goal = self._goal if is_enough else cycles
                self._initial.append(depths)
                for smaller in reductions(model, depths, goal, spend):
                    self._initial[-1] = smaller

    def _search(self) -> bool:
        """Search for the fewest bits, raising the goal at full rate; return whether depths suffice."""
        model, memories = self._model, list(self._model.fixed_memories)
        for _ in range(MOST_ROUNDS):
            for depths in self._initial:
                self._take(depths)
            self._take(self._with_few_memories())
            # Groups that are memories in every answer are memories in the relaxation too.
            forced = _forced_memories(model, self._goal, self._stop.part(share=PREPARATION))
            cycles = self._fewest_cycles_with(forced)
            if not self._is_enough(cycles):
                if not self._is_full_rate or cycles is None:
                    return False
                self._goal = cycles
                continue
            # Relaxation: shift registers are faster than memories, so these bits are a lower bound.
            bounding = self._sized_with(forced)
            self._bound, self._reason = bounding.lower_bound, bounding.reason
            # The relaxed answer also holds with its true memories: it is optimal.
            if self._take(bounding.depths):
                break
            deep = model.memories(bounding.depths) if bounding.depths else memories
            # Memories are only added, so the rounds end.
            memories = [old or new for old, new in zip(memories, deep, strict=True)]
            cycles = self._fewest_cycles_with(memories)
            if self._is_enough(cycles):
                self._take(self._sized_with(memories).depths)
            if self._best is not None:
                break
            if self._is_full_rate and self._goal is not None:
                self._goal = self._goal + 1 if cycles is None else max(self._goal + 1, cycles)
        return True

    def _with_few_memories(self) -> Depths | None:
        """Return depths with the fewest block RAMs, reduced; None if not found in time."""
        stop = self._stop.part(share=FEW_MEMORIES)
        try:
            cheapest = _CallSearch(self._model, "bram", stop).cheapest(self._goal)
        except ENDS:
            return None
        return cheapest and _reduced_in_time(self._model, cheapest, self._goal, stop)

    def _fewest_cycles_with(self, memories: Sequence[bool]) -> int | None:
        """Return the fewest cycles with these groups as memories; None for a deadlock."""
        unbounded = [None] * len(memories)
        spend = self._stop.charge
        return self._model.outcome(unbounded, memories=memories, spend=spend).cycles

    def _sized_with(self, memories: Sequence[bool]) -> Sizing:
        """Return the fewest bits with these groups as memories and all others as shift registers."""
        model = self._model
        start = self._best or (self._initial[0] if self._initial else None)
        if start is not None:
            spend = self._stop.charge
            cycles = model.outcome(start, memories=memories, limit=self._goal, spend=spend).cycles
            start = start if self._is_enough(cycles) else None
        sizing = smallest_depths(
            CallGraph(model, memories),
            None if self._goal is None else Fraction(max(1, self._goal)),
            stop=self._stop.part(share=FEWEST_BITS),
            weights=[model.price(index, 1, self._objective) for index in range(len(memories))],
            known=start or tuple(max(LEAST_DEPTH, words) for words in model.words),
        )
        self._evaluations += sizing.evaluations
        return sizing

    def _settle_for_slower(self) -> bool:
        """Raise the goal to the fastest depths found so far, if any."""
        if not self._initial or not self._is_full_rate:
            return False
        model = self._model
        spend = self._finishing.spend
        reached = {
            depths: model.outcome(depths, spend=spend).cycles or 0 for depths in self._initial
        }
        self._best = min(reached, key=lambda depths: (reached[depths], self._cost(depths)))
        self._goal = reached[self._best]
        self._bound = self._cost((LEAST_DEPTH,) * len(model.members))
        return True

    def _answered(self) -> CallSizing:
        """Return the best depths, reduced, and whether they are proved."""
        best = self._best or ()
        if self._cost(best) > self._bound:
            try:
                spend = self._spend_beyond_limit
                for smaller in reductions(self._model, best, self._goal, spend):
                    best = smaller
            except ENDS as end:
                self._reason = reason_of(end)
        cost = self._cost(best)
        is_proved = cost <= self._bound
        return CallSizing(
            goal=self._goal,
            status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
            reason=because(SizingWhy.PROVED, of=self._objective) if is_proved else self._reason,
            depths=best,
            cycles=self._model.outcome(best, spend=self._finishing.spend).cycles,
            cost=cost,
            lower_bound=min(self._bound, cost),
            evaluations=self._evaluations,
        )

    def _unanswered(self, status: Status) -> CallSizing:
        return CallSizing(
            goal=self._goal, status=status, reason=self._reason, depths=(), cycles=None, cost=0,
            lower_bound=self._bound, evaluations=self._evaluations,
        )  # fmt: skip


def _forced_memories(model: CallModel, goal: int | None, stop: Stop) -> tuple[bool, ...]:
    """Return the groups that are proved in time to be memories in all depths that reach a goal.

    A group is forced if no shift register suffices for it even with all other groups unbounded.
    """
    memories_found = list(model.fixed_memories)
    try:
        while True:
            before = list(memories_found)
            for index in range(len(memories_found)):
                shallow = model.first_memory(index) - 1
                # A FIFO whose words all fit a shift register never has to be a memory.
                if memories_found[index] or shallow >= model.words[index]:
                    continue
                trial: list[int | None] = [None] * len(memories_found)
                trial[index] = shallow
                cycles = model.outcome(
                    trial, memories=memories_found, limit=goal, spend=stop.charge
                ).cycles
                memories_found[index] = cycles is None or (goal is not None and cycles > goal)
            if memories_found == before:
                return tuple(memories_found)
    except ENDS:
        # The set of the last complete round: each member was proved under forced memories only.
        return tuple(before)


class _CallSearch:
    """The search of csdf.search over costs, with the cycles of a call as periods."""

    firings = 0

    def __init__(self, model: CallModel, objective: str, stop: Stop) -> None:
        self._model, self._objective, self._stop = model, objective, stop
        self._known: dict[Depths, PeriodEvaluation] = {}
        self._goal: int | None = None  # which only becomes stricter
        floor = [LEAST_DEPTH] * len(model.members)
        variables = variables_of(floor, [1] * len(floor))
        self._search = StepSearch(self, variables, self._price, stop.look)

    @property
    def count(self) -> int:
        """Depths evaluated so far."""
        return len(self._known)

    @property
    def lower_bound(self) -> int:
        """The least cost of any depths that are still searched for."""
        return self._search.lower_bound

    def _price(self, index: int, depth: int) -> int:
        """Return the cost of a group at a depth, plus 1 for each word that a call never uses."""
        # Words beyond those of a call are never used, but a rising price keeps the queue finite.
        maximum = max(LEAST_DEPTH, self._model.words[index])
        price = self._model.price(index, min(depth, maximum), self._objective)
        return price + max(0, depth - maximum)

    def evaluate(self, capacities: tuple[int | None, ...]) -> PeriodEvaluation:
        """Return the cycles in these depths, and what they rest on."""
        depths = tuple(capacity or 0 for capacity in capacities)
        if depths not in self._known:
            outcome = self._model.outcome(depths, limit=self._goal, spend=self._stop.charge)
            # A cut by the latency of a memory holds only from the depth on at which it is a memory.
            minimums = tuple((index, self._model.first_memory(index)) for index in outcome.slowed)
            period = None if outcome.cycles is None else Fraction(outcome.cycles)
            self._known[depths] = PeriodEvaluation(period, outcome.holding, minimums=minimums)
        return self._known[depths]

    def cheapest(self, goal: int | None) -> Depths | None:
        """Return the cheapest depths with at most this many cycles, None if there are none."""
        self._goal = goal
        return self._search.cheapest_of_all(fast_enough(None if goal is None else Fraction(goal)))


def front(
    model: CallModel, *, objective: str = "bits", stop: Stop
) -> tuple[list[CallSizing], bool]:
    """Return the trade-off of cost and cycles, the cheapest first, and whether it is complete.

    In bits, POINTS goals between freedom from deadlock and full rate are solved. In block RAMs and
    LUTs all Pareto points are enumerated; each is proved if its search ended.
    """
    minimum = fewest_cycles(model, stop.finishing().charge)
    if minimum.cycles is None:
        return [], True
    if objective in STEPPED:
        return _stepped_front(model, minimum.cycles, objective, stop)
    slowest = sized(model, None, objective=objective, stop=stop.part(share=1 / POINTS))
    if slowest.cycles is None:
        return [], False
    points = [slowest]
    for number in range(1, POINTS):
        goal = slowest.cycles - (slowest.cycles - minimum.cycles) * number // (POINTS - 1)
        part = stop.part(share=1 / (POINTS - number))
        is_last = number == POINTS - 1
        points.append(sized(model, goal, objective=objective, stop=part, is_full_rate=is_last))
    front_points: list[CallSizing] = []
    for point in sorted(points, key=lambda point: (point.cost, point.cycles or 0)):
        if point.cycles is not None and (
            not front_points or point.cycles < (front_points[-1].cycles or 0)
        ):
            front_points.append(point)
    return front_points, False


def _stepped_front(
    model: CallModel, minimum: int, objective: str, stop: Stop
) -> tuple[list[CallSizing], bool]:
    search = _CallSearch(model, objective, stop)
    points: list[CallSizing] = []
    goal: int | None = None
    is_complete = True
    try:
        while goal is None or goal >= minimum:
            depths = search.cheapest(goal)
            if depths is None:
                break
            cycles = model.outcome(depths, spend=stop.finishing().spend).cycles
            cost = total_cost(model, depths, objective)
            if points and points[-1].cost == cost:
                points.pop()  # of those that cost the same the fastest counts
            points.append(
                CallSizing(
                    goal=cycles,
                    status=Status.OPTIMAL,
                    reason=because(SizingWhy.CHEAPEST),
                    depths=depths,
                    cycles=cycles,
                    cost=cost,
                    lower_bound=cost,
                    evaluations=search.count,
                )
            )
            goal = (cycles or 0) - 1
    except ENDS as end:
        is_complete = False
        reason = reason_of(end)
        part = stop.finishing().part(effort=FASTEST_POINT)
        fastest = _FewestBits(model, minimum, "bits", part, is_full_rate=True).answer()
        if fastest.depths and (not points or (fastest.cycles or 0) < (points[-1].cycles or 0)):
            cost = total_cost(model, fastest.depths, objective)
            points.append(
                replace(
                    fastest,
                    status=Status.FEASIBLE,
                    reason=reason,
                    cost=cost,
                    lower_bound=min(cost, search.lower_bound),
                )
            )
    return [
        replace(point, depths=_reduced_in_time(model, point.depths, point.cycles, stop))
        for point in points
    ], is_complete
