"""Smallest and cheapest depths of the FIFOs of one call, by the searches of the engine.

Shift registers are a cycle faster than memories, so more depth can be slower. Two ways:

- Fewest bits: the search for depths with all FIFOs as shift registers is monotone, and no real depths
  need fewer bits. Where the depths found are memories that cost the cycles gained, it is repeated with
  those places as memories: then the depths suffice, and the first search bounds them.
- Fewest block RAMs or LUTs, and the front: best first over the ends of the steps, with the true times.
  Depths on the queue only grow, so a place that is a memory stays one; what is learned from a path over
  memories holds where they are memories.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

from csdf.search.evaluator import Evaluation
from csdf.search.memory_cost import StepSearch
from csdf.status import Reason, Status, because
from csdf.time_limit import ENDS, Stop, reason_of
from planners.fifo.design import LEAST_DEPTH, Design, Fifo, Layer
from planners.fifo.event_graph import Chain, CriticalCycle, Infeasible
from planners.fifo.hls.call import CallModel, Look, Memories, Outcome, events
from planners.fifo.sizing import Sizing, SizingWhy, smallest_depths, variables_of
from planners.fifo.timing.cluster import Cluster, EventSequence, Port

Depths = tuple[int, ...]
STEPPED = ("bram", "lut")  # objectives that cost in steps
MOST_ROUNDS = 8  # of guessing which places are memories
FIRST = 0.25  # of the time, for depths with few memories
SHARE = 0.7  # of the rest, for a search for the fewest bits before others
POINTS = 8  # of a front in bits


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSizing:
    """Depths by place, and what is known about them.

    goal: cycles that were asked for, None for no deadlock. cycles: of the depths. cost and lower_bound:
    in the objective. status: optimal if no depths cost less, feasible with a bound, infeasible if no
    depths do, unknown if none were found in time.
    """

    goal: int | None
    status: Status
    reason: Reason
    depths: Depths
    cycles: int | None
    cost: int
    lower_bound: int
    evaluations: int


class _Part:
    """A question to a call, in the words of planners.fifo.evaluator."""

    def __init__(self, model: CallModel, depths: Sequence[int | None], memories: Memories) -> None:
        self._model, self._depths, self._memories = model, depths, memories
        self.simulated = 0

    def _outcome(self, look: Look, limit: int | None = None) -> Outcome:
        before = self._model.simulated
        found = self._model.outcome(self._depths, memories=self._memories, limit=limit, look=look)
        self.simulated += self._model.simulated - before
        return found

    def deadlock(self) -> CriticalCycle | None:
        """Return the processes and FIFOs that wait for one another, or None."""
        found = self._outcome(lambda: None)
        return None if found.cycles is not None else self._cycle(found)

    def cycle_above(self, period: Fraction, look: Look = lambda: None) -> CriticalCycle | None:
        """Return the longest path if it takes more cycles, or a deadlock."""
        found = self._outcome(look, int(period))
        return None if found.cycles is not None and found.cycles <= period else self._cycle(found)

    def _cycle(self, found: Outcome) -> CriticalCycle:
        limits: dict[Chain, int] = {
            ((place, 1),): self._depths[place] or 0 for place in found.holding
        }
        return CriticalCycle(
            period=None if found.cycles is None else Fraction(found.cycles),
            fifos=found.holding,
            layers=found.processes or (0,),
            infeasible=Infeasible(limits),
        )

    def max_occupancy(self, number: int, period: Fraction) -> int:  # noqa: ARG002 -- of the words
        """Return a depth with which no write to a place waits."""
        found = self._model.occupancy(self._depths, number, self._memories)
        return max(LEAST_DEPTH, found)


class CallGraph:
    """A call as a design of planners.fifo: one FIFO for each place, one layer for each process.

    memories: the places that are memories whatever their depths.
    """

    def __init__(self, model: CallModel, memories: Sequence[bool]) -> None:
        self._model, self._memories = model, memories
        self.design = _design(model)
        self.alone = {
            number: Fraction(one.stages) for number, one in enumerate(model.design.processes)
        }

    def components(self, depths: Sequence[int | None]) -> list[list[int]]:  # noqa: ARG002
        """All processes: the cycles of a call are those of the last one to end."""
        return [list(range(len(self._model.design.processes)))]

    def restricted(self, layers: Iterable[int], depths: Sequence[int | None]) -> _Part:  # noqa: ARG002
        """Return the question of the whole call in some depths."""
        return _Part(self._model, depths, self._memories)


def _design(model: CallModel) -> Design:
    """The places as FIFOs; ports only have words, for times come from the stages."""
    bits = [sum(model.design.fifos[one].bits for one in row) for row in model.members]
    outputs: list[list[Port]] = [[] for _ in model.design.processes]
    inputs: list[list[Port]] = [[] for _ in model.design.processes]
    fifos = []
    for place, row in enumerate(model.members):
        first = model.design.fifos[row[0]]
        port = Port(sequence=0, words=model.words[place], bits=bits[place])
        fifos.append(
            Fifo(
                name=model.names[place],
                producer=first.writer,
                output=len(outputs[first.writer]),
                consumer=first.reader,
                input=len(inputs[first.reader]),
                bits=bits[place],
                words=model.words[place],
                given=model.given[place],
            )
        )
        outputs[first.writer].append(port)
        inputs[first.reader].append(port)
    layers = []
    for process, own, read in zip(model.design.processes, outputs, inputs, strict=True):
        # One more input, of no FIFO: rules about layers of which all events are known do not hold.
        ports = (*read, Port(sequence=0, words=0, bits=0))
        sequence = EventSequence(name="stages", events=sum(map(events, process.tracks)))
        cluster = Cluster(sequences=(sequence,), waits=(), inputs=ports, outputs=tuple(own))
        layers.append(Layer(name=process.name, kind="process", cluster=cluster))
    return Design(name=model.design.name, layers=tuple(layers), fifos=tuple(fifos))


def total_cost(model: CallModel, depths: Sequence[int], objective: str) -> int:
    """Return what depths cost."""
    return sum(model.price(place, depth, objective) for place, depth in enumerate(depths))


def fewest_cycles(model: CallModel, look: Look = lambda: None) -> Outcome:
    """Return what a call does with FIFOs without end, shift registers if they may be: the fastest."""
    return model.outcome([None] * len(model.members), memories=model.fixed_memories, look=look)


def sized(
    model: CallModel,
    goal: int | None,
    *,
    objective: str = "bits",
    stop: Stop,
    is_full_rate: bool = False,
) -> CallSizing:
    """Return the cheapest depths with at most so many cycles, or without deadlock if it is None.

    is_full_rate: take the fewest cycles that the depths found reach, where latencies of memories keep
    them from the goal.
    """
    if objective not in STEPPED:
        return _smallest(model, goal, objective, stop, is_full_rate=is_full_rate)
    begin = _smallest(model, goal, "bits", stop.part(share=SHARE), is_full_rate=is_full_rate)
    if begin.status in (Status.INFEASIBLE, Status.UNKNOWN):
        return begin
    if is_full_rate and goal is not None and begin.cycles is not None:
        goal = max(goal, begin.cycles)
    search = _Steps(model, objective, stop.look)
    best, status, reason = begin.depths, Status.OPTIMAL, because(SizingWhy.CHEAPEST)
    try:
        found = search.cheapest(goal)
        if found is not None:
            best = narrow(model, found, goal, stop.look)
    except ENDS as end:
        reason = reason_of(end)
        is_proved = total_cost(model, best, objective) <= search.lower_bound
        status = Status.OPTIMAL if is_proved else Status.FEASIBLE
    cost = total_cost(model, best, objective)
    if cost == total_cost(model, begin.depths, objective) and begin.cycles is not None:
        best = begin.depths  # of those that cost the same, the fewest bits
    return CallSizing(
        goal=goal, status=status, reason=reason, depths=best, cost=cost,
        cycles=model.outcome(best).cycles,
        lower_bound=cost if status is Status.OPTIMAL else min(cost, search.lower_bound),
        evaluations=begin.evaluations + search.count,
    )  # fmt: skip


def _smallest(
    model: CallModel, goal: int | None, objective: str, stop: Stop, *, is_full_rate: bool
) -> CallSizing:
    """The fewest bits or elements."""
    count = len(model.members)
    weights = [model.price(place, 1, objective) for place in range(count)]
    asked, evaluations = goal, 0
    memories: Sequence[bool] = model.fixed_memories
    best: Depths | None = None

    def reached(memories: Sequence[bool]) -> int | None:
        """The fewest cycles with these places as memories."""
        return model.outcome([None] * count, memories=memories, look=stop.look).cycles

    def search(memories: Sequence[bool], share: float) -> Sizing:
        period = None if asked is None else Fraction(max(1, asked))
        known = best or start
        found = model.outcome(known, memories=memories, limit=asked)
        if found.cycles is None or (asked is not None and found.cycles > asked):
            known = tuple(max(LEAST_DEPTH, one) for one in model.words)
        return smallest_depths(
            CallGraph(model, memories), period, stop=stop.part(share=share), weights=weights,
            known=known,
        )  # fmt: skip

    def take(depths: Depths | None) -> bool:
        """Keep depths that reach the goal if they cost less; whether they reach it."""
        nonlocal best
        cycles = model.outcome(depths, limit=asked).cycles if depths else None
        if not depths or cycles is None or (asked is not None and cycles > asked):
            return False
        known = () if best is None else (best,)
        best = min((*known, depths), key=lambda one: total_cost(model, one, objective))
        return True

    bound, status, reason = 0, Status.UNKNOWN, because(SizingWhy.NO_DEPTHS)
    start = occupied_depths(model)
    fastest = model.outcome(start).cycles
    if fastest is not None:
        start_goal = None if asked is None else max(asked, fastest)
        start = _narrow_in_time(model, start, start_goal, stop)
    try:
        for number in range(MOST_ROUNDS):
            take(start)  # where the goal of full rate was raised
            take(_few_memories(model, asked, stop.part(share=FIRST)))
            forced = _forced_memories(model, asked, stop.part(share=FIRST))
            fewest = reached(forced)
            if fewest is None or (asked is not None and fewest > asked):
                if is_full_rate and fewest is not None:
                    asked = fewest
                    continue
                status = Status.INFEASIBLE
                break
            bounding = search(forced, FIRST if number else SHARE)
            evaluations += bounding.evaluations
            bound, reason = bounding.lower_bound, bounding.reason
            if take(bounding.depths):
                break
            is_deep = model.memories(bounding.depths)
            memories = [old or new for old, new in zip(memories, is_deep, strict=True)]
            fewest = reached(memories)
            if fewest is not None and (asked is None or fewest <= asked):
                slower = search(memories, SHARE)
                evaluations += slower.evaluations
                take(slower.depths)
            if best is not None:
                break
            if is_full_rate and asked is not None:
                asked = asked + 1 if fewest is None else max(asked + 1, fewest)
    except ENDS as end:
        reason = reason_of(end)
    if best is None and status is not Status.INFEASIBLE:
        take(model.given)
        ample = tuple(max(LEAST_DEPTH, one) for one in model.words)
        for depths in (start, model.given, ample) if is_full_rate and best is None else ():
            cycles = model.outcome(depths).cycles
            if cycles is not None:  # nearly full rate, in no time
                asked, best = cycles, depths
                bound = total_cost(model, [LEAST_DEPTH] * count, objective)
                break
    if best is not None and total_cost(model, best, objective) > bound:
        take(_narrow_in_time(model, best, asked, stop))
    if best is None:
        return CallSizing(
            goal=asked, status=status, reason=reason, depths=(), cycles=None, cost=0,
            lower_bound=bound, evaluations=evaluations,
        )  # fmt: skip
    cost = total_cost(model, best, objective)
    is_proved = cost <= bound
    reason = because(SizingWhy.PROVED, of=objective) if is_proved else reason
    return CallSizing(
        goal=asked, status=Status.OPTIMAL if is_proved else Status.FEASIBLE, reason=reason,
        depths=best, cycles=model.outcome(best).cycles, cost=cost,
        lower_bound=min(bound, cost), evaluations=evaluations,
    )  # fmt: skip


def _forced_memories(model: CallModel, goal: int | None, stop: Stop) -> tuple[bool, ...]:
    """Which places are memories in all depths that reach a goal, as far as the time allows.

    A place is one where no shift register is enough, be all others without end.
    """
    found = list(model.fixed_memories)
    try:
        while True:
            before = list(found)
            for place in range(len(found)):
                shallow = model.first_memory(place) - 1
                if found[place] or shallow >= model.words[place]:
                    continue
                trial: list[int | None] = [None] * len(found)
                trial[place] = shallow
                cycles = model.outcome(trial, memories=found, limit=goal, look=stop.look).cycles
                found[place] = cycles is None or (goal is not None and cycles > goal)
            if found == before:
                return tuple(found)
    except ENDS:
        return tuple(before)


def occupied_depths(model: CallModel) -> Depths:
    """Return the most words that each FIFO holds where none is ever full, from a few simulations.

    No limit ends them, so every answer begins with these depths, not with the depths of the source.

    Depths above those of shift registers are memories, which are read later and may hold more: the
    simulation is repeated with these memories until no more are added.
    """
    memories, unbounded = model.fixed_memories, [None] * len(model.members)
    while True:
        held = model.occupancies(unbounded, memories)
        depths = tuple(max(LEAST_DEPTH, words) for words in held)
        deep = model.memories(depths)
        added = tuple(old or new for old, new in zip(memories, deep, strict=True))
        if added == memories:
            return depths
        memories = added


def _narrow_in_time(model: CallModel, depths: Depths, goal: int | None, stop: Stop) -> Depths:
    """Return narrowed depths; those by then if the stop ends the work."""
    narrowest = depths
    with suppress(*ENDS):
        for smaller in narrowed(model, depths, goal, stop.look):
            narrowest = smaller
    return narrowest


def _few_memories(model: CallModel, goal: int | None, stop: Stop) -> Depths | None:
    """Depths with as few block RAMs as can be, made narrow; None if they are not found in time."""
    try:
        found = _Steps(model, "bram", stop.look).cheapest(goal)
        return None if found is None else narrow(model, found, goal, stop.look)
    except ENDS:
        return None


class _Steps:
    """The search by cost of csdf.search, with the cycles of a call for periods."""

    firings = 0

    def __init__(self, model: CallModel, objective: str, look: Look) -> None:
        self._model, self._objective, self._look = model, objective, look
        self._known: dict[Depths, Evaluation] = {}
        self._goal: int | None = None  # which only becomes stricter
        floor = [LEAST_DEPTH] * len(model.members)
        variables = variables_of(floor, [1] * len(floor))
        self._search = StepSearch(self, variables, self._price, look)

    @property
    def count(self) -> int:
        """Depths evaluated so far."""
        return len(self._known)

    @property
    def lower_bound(self) -> int:
        """The least cost of any depths that are still searched for."""
        return self._search.lower_bound

    def _price(self, place: int, depth: int) -> int:
        """Cost of a place; more than it ever holds costs more, so that nothing grows without end."""
        most = max(LEAST_DEPTH, self._model.words[place])
        return self._model.price(place, min(depth, most), self._objective) + max(0, depth - most)

    def evaluate(self, capacities: tuple[int | None, ...]) -> Evaluation:
        """Return the cycles in these depths, and what they rest on."""
        depths = tuple(one or 0 for one in capacities)
        if depths not in self._known:
            found = self._model.outcome(depths, limit=self._goal, look=self._look)
            deep = tuple((place, self._model.first_memory(place)) for place in found.slowed)
            period = None if found.cycles is None else Fraction(found.cycles)
            self._known[depths] = Evaluation(period, found.holding, deep=deep)
        return self._known[depths]

    def cheapest(self, goal: int | None) -> Depths | None:
        """Return the cheapest depths with at most so many cycles, None if there are none."""
        self._goal = goal
        return self._search.cheapest_of_all(
            lambda period: period is not None and (goal is None or period <= goal)
        )

    def end(self, depths: Sequence[int]) -> Depths:
        """The largest depths that cost no more."""
        return tuple(self._search.end(place, depth) for place, depth in enumerate(depths))


def narrow(model: CallModel, depths: Depths, goal: int | None, look: Look) -> Depths:
    """Return depths that reach the goal, of which no single one can be less."""
    return [depths, *narrowed(model, depths, goal, look)][-1]


def narrowed(model: CallModel, depths: Depths, goal: int | None, look: Look) -> Iterator[Depths]:
    """Yield ever smaller depths that reach the goal; of the last ones no single one can be less.

    A place that becomes a shift register is read earlier, and others may then be less: places are
    bisected one after the other, the largest first, until a round changes none.
    """
    current = depths
    is_changed = True
    while is_changed:
        before = current
        for place in sorted(
            range(len(depths)), key=lambda place: -model.price(place, before[place], "bits")
        ):
            least = _least_of_place(model, current, place, goal, look)
            if least < current[place]:
                current = (*current[:place], least, *current[place + 1 :])
                yield current
        is_changed = current != before


def _least_of_place(
    model: CallModel, depths: Depths, place: int, goal: int | None, look: Look
) -> int:
    """Return the least depth of one place that reaches the goal, the others having these depths.

    More depth is never slower within a kind of memory, so each kind is bisected by itself.
    """

    def suffices(depth: int) -> bool:
        trial = (*depths[:place], depth, *depths[place + 1 :])
        cycles = model.outcome(trial, limit=goal, look=look).cycles
        return cycles is not None and (goal is None or cycles <= goal)

    high, shallow = depths[place], model.first_memory(place) - 1
    if high > shallow >= LEAST_DEPTH and suffices(shallow):
        high = shallow
    low = LEAST_DEPTH - 1 if high <= shallow else max(shallow, LEAST_DEPTH - 1)
    if high - low < 2 or not suffices(high - 1):
        return high
    high -= 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def front(
    model: CallModel, *, objective: str = "bits", stop: Stop
) -> tuple[list[CallSizing], bool]:
    """Return the trade-off of cost and cycles, the cheapest first, and whether it is complete.

    In bits the points lie between no deadlock and full rate; in block RAMs and LUTs they are all there
    are, each proved where the search came to its end.
    """
    least = fewest_cycles(model, stop.look)
    if least.cycles is None:
        return [], True
    if objective in STEPPED:
        return _stepped_front(model, least.cycles, objective, stop)
    slowest = sized(model, None, objective=objective, stop=stop.part(share=1 / POINTS))
    if slowest.cycles is None:
        return [], False
    points = [slowest]
    for number in range(1, POINTS):
        goal = slowest.cycles - (slowest.cycles - least.cycles) * number // (POINTS - 1)
        part = stop.part(share=1 / (POINTS - number))
        is_last = number == POINTS - 1
        points.append(sized(model, goal, objective=objective, stop=part, is_full_rate=is_last))
    found: list[CallSizing] = []
    for point in sorted(points, key=lambda one: (one.cost, one.cycles or 0)):
        if point.cycles is not None and (not found or point.cycles < (found[-1].cycles or 0)):
            found.append(point)
    return found, False


def _stepped_front(
    model: CallModel, least: int, objective: str, stop: Stop
) -> tuple[list[CallSizing], bool]:
    search = _Steps(model, objective, stop.look)
    points: list[CallSizing] = []
    goal: int | None = None
    is_complete = True
    try:
        while goal is None or goal >= least:
            depths = search.cheapest(goal)
            if depths is None:
                break
            cycles = model.outcome(depths).cycles
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
        fastest = _smallest(model, least, "bits", Stop(FIRST), is_full_rate=True)
        if fastest.depths and (not points or (fastest.cycles or 0) < (points[-1].cycles or 0)):
            depths = search.end(fastest.depths)
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
    done = []
    for point in points:
        try:
            depths = narrow(model, point.depths, point.cycles, stop.look)
        except ENDS:
            depths = point.depths
        done.append(replace(point, depths=depths))
    return done, is_complete
