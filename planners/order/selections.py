"""Minimum peak over orders and alternatives of steps: best-first branch and bound over selections.

A selection chooses an alternative for each step. A part is a set of selections: those among the allowed
alternatives of each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from typing import NamedTuple

from csdf.errors import InvalidGraph
from csdf.time_limit import Progress, Stop
from planners.order.heuristics import file_order
from planners.order.order_plan import OrderPlan
from planners.order.problem import OrderProblem, Step, StepAlternative, peak_of
from planners.order.timed import earliest_deadline_first, in_windows, windows_of

Selection = tuple[int, ...]  # index of the alternative of each step with alternatives
Allowed = tuple[tuple[int, ...], ...]  # for each of these steps, the allowed indices of a part
PASSES = 3  # over all steps, of the descent from the first selections


class SelectedOrder(NamedTuple):
    """An alternative of each step, and an order with them; fewer bytes are better, then the price.

    bytes: the peak, or the peak limit where that is higher.
    """

    bytes: int
    price: int
    order: tuple[str, ...]
    selection: Selection


class _Part(NamedTuple):
    """The selections among `allowed` alternatives, with lower bounds on their bytes and price."""

    bound: int
    price: int
    number: int
    allowed: Allowed


class SelectionSearch:
    """The best selection of alternatives so far, and the parts of all selections that remain.

    The bound of a part is that of its relaxation: each step reads only the tensors that all its
    alternatives read, and has the minimum of their scratch and output bytes. The part with the smallest
    bound is split first, at the step whose alternatives differ by the most bytes.
    """

    def __init__(
        self,
        problem: OrderProblem,
        solve: Callable[[OrderProblem], OrderPlan],
        *,
        price_limit: int | None = None,
        peak_limit: int = 0,
    ) -> None:
        """Set the problem. solve: returns the order of minimum peak without alternatives.

        peak_limit: bytes; of two orders within them the cheaper is better.
        """
        self._problem = problem
        self._solve = solve
        self._limit, self._peak_limit = price_limit, peak_limit
        self._steps = [step for step in problem.steps if step.alternatives]
        self._waiting: list[_Part] = []
        self._unproved: list[tuple[int, int]] = []  # bounds and prices of single selections
        self._parts = 0
        self._bound_of_all = 0
        # Bound and price of the part that is being split; Ctrl-C may end the search at any line.
        self._split: tuple[tuple[int, int], ...] = ()
        self.best: SelectedOrder | None = None
        minimum = sum(min(option.price for option in step.alternatives) for step in self._steps)
        if price_limit is not None and minimum > price_limit:
            raise InvalidGraph(
                f"graph {problem.name!r}: the alternatives of least price cost {minimum} in all; found "
                f"a price limit of {price_limit}; expected at least {minimum}"
            )

    @property
    def lower_bound(self) -> int:
        """A lower bound on the peak of all selections."""
        if self.best is not None and self.best.bytes <= self._peak_limit:
            return self._bound_of_all
        bounds = [bound for bound, _ in self._remaining()]
        bounds += [] if self.best is None else [self.best.bytes]
        return min(bounds, default=self._bound_of_all)  # no selection has an order

    @property
    def is_complete(self) -> bool:
        """Whether no remaining part can contain a better selection."""
        return self.best is not None and all(pair >= self.best[:2] for pair in self._remaining())

    def _remaining(self) -> list[tuple[int, int]]:
        """Lower bounds on bytes and price of the selections that are not searched completely."""
        return [*self._unproved, *self._split, *(part[:2] for part in self._waiting)]

    def run(self, stop: Stop) -> None:
        """Split parts until none can contain a better selection."""
        self._split = ((0, 0),)  # all selections
        self._enter(tuple(tuple(range(len(step.alternatives))) for step in self._steps), 0)
        self._split = ()
        while self._waiting:
            part = self._waiting[0]
            if self.best is not None and part.bound > self.best.bytes:
                return
            stop.look(Progress(lower_bound=part.bound))
            self._split = (part[:2],)
            heappop(self._waiting)
            if self.best is not None and part[:2] >= self.best[:2]:
                self._split = ()
                continue
            index = max(
                (index for index, numbers in enumerate(part.allowed) if len(numbers) > 1),
                key=lambda index: self._spread(self._steps[index], part.allowed[index]),
            )
            for number in part.allowed[index]:
                allowed = (*part.allowed[:index], (number,), *part.allowed[index + 1 :])
                self._enter(allowed, part.bound)
            self._split = ()

    def _enter(self, allowed: Allowed, bound: int) -> None:
        """Bound a part, offer selections of it, and store it if it can contain a better selection."""
        options = self._options(allowed)
        price = sum(min(option.price for option in row) for row in options.values())
        if self._limit is not None and price > self._limit:
            return
        problem = relaxation(self._problem, options)
        if problem.has_times and earliest_deadline_first(windows_of(problem)) is None:
            return  # no order has each step within its positions
        plan = self._solve(problem)
        self._bound_of_all = self._bound_of_all or plan.lower_bound
        bound = max(bound, plan.lower_bound, self._peak_limit)
        if all(len(numbers) == 1 for numbers in allowed):
            selection = tuple(number for (number,) in allowed)
            if plan.gap:
                self._unproved.append((bound, price))
            self._offer(plan.peak, price, plan.order, selection)
            return
        for selection in self._simple(allowed):
            self._offer_order(plan.order, selection)
        if not self._parts and self.best is not None:
            self._descend(plan.order)
        self._parts += 1
        heappush(self._waiting, _Part(bound, price, self._parts, allowed))

    def _options(self, allowed: Allowed) -> dict[str, list[StepAlternative]]:
        """The allowed alternatives of each step, by its name."""
        return {
            step.name: [step.alternatives[number] for number in numbers]
            for step, numbers in zip(self._steps, allowed, strict=True)
        }

    def _bytes(self, option: StepAlternative) -> int:
        """Bytes that an alternative reads, writes, and takes as scratch."""
        read = sum(self._problem.sizes[tensor] for tensor in option.reads)
        return read + sum(option.sizes.values()) + option.scratch

    def _spread(self, step: Step, numbers: Sequence[int]) -> int:
        sizes = [self._bytes(step.alternatives[number]) for number in numbers]
        return max(sizes) - min(sizes)

    def _simple(self, allowed: Allowed) -> Iterator[Selection]:
        """Yield the cheapest selection, and the selection of fewest bytes."""
        for cost in (lambda option: option.price, self._bytes):
            yield tuple(
                min(numbers, key=lambda number: (cost(step.alternatives[number]), number))
                for step, numbers in zip(self._steps, allowed, strict=True)
            )

    def _offer(self, peak: int, price: int, order: tuple[str, ...], selection: Selection) -> None:
        choice = SelectedOrder(max(peak, self._peak_limit), price, order, selection)
        if self.best is None or choice < self.best:
            self.best = choice

    def _offer_order(self, order: Sequence[str], selection: Selection) -> None:
        """Offer a selection in an order of a relaxation, repaired to a topological order."""
        price = sum(
            step.alternatives[number].price
            for step, number in zip(self._steps, selection, strict=True)
        )
        if self._limit is not None and price > self._limit:
            return
        problem = self.problem_of(selection)
        steps = {step.name: step for step in problem.steps}
        ranked = replace(problem, steps=tuple(steps[name] for name in order))
        numbers = file_order(ranked.numbered)
        if not in_windows(windows_of(ranked), numbers):
            return
        repaired = tuple(ranked.named(numbers))
        self._offer(peak_of(problem, repaired), price, repaired, selection)

    def _descend(self, order: Sequence[str]) -> None:
        """Change alternatives of the best selection, step by step, to a lower peak or price."""
        for _ in range(PASSES):
            before = self.best
            for index, step in enumerate(self._steps):
                for number in range(len(step.alternatives)):
                    if self.best is not None and number != self.best.selection[index]:
                        selection = self.best.selection
                        changed = (*selection[:index], number, *selection[index + 1 :])
                        self._offer_order(order, changed)
            if self.best is before:
                return

    @property
    def file_peak(self) -> int:
        """The peak of the first alternatives in the order of the file."""
        problem = self.problem_of((0,) * len(self._steps))
        return peak_of(problem, problem.named(file_order(problem.numbered)))

    def problem_of(self, selection: Selection) -> OrderProblem:
        """Return the problem with these alternatives alone."""
        options = self._options(tuple((number,) for number in selection))
        return relaxation(self._problem, options)


def relaxation(
    problem: OrderProblem, options: Mapping[str, Sequence[StepAlternative]]
) -> OrderProblem:
    """Return a problem without alternatives whose minimum peak bounds every selection of these options.

    With a single option for each step, it is the problem with these alternatives. A result in place has
    at most the bytes of the tensor that it overwrites; both may be relaxed.
    """
    sizes, largest = dict(problem.sizes), dict(problem.sizes)
    steps: dict[str, Step] = {}
    for step in problem.steps:
        rows = options.get(step.name, ())
        reads, scratch = step.reads, step.scratch
        if rows:
            reads = tuple(name for name in reads if all(name in option.reads for option in rows))
            scratch += min(option.scratch for option in rows)
        for tensor in step.writes if rows else ():
            sizes[tensor] = min(option.sizes[tensor] for option in rows)
            largest[tensor] = max(option.sizes[tensor] for option in rows)
        steps[step.name] = replace(step, reads=reads, scratch=scratch, alternatives=())
    for name in TopologicalSorter(problem.predecessors()).static_order():
        step = steps[name]
        overwrites = tuple(
            tensor
            for tensor in step.overwrites
            if tensor in step.reads and largest[tensor] >= sizes[step.writes[0]]
        )
        if overwrites:
            result = step.writes[0]
            sizes[result] = min((sizes[result], *(sizes[tensor] for tensor in overwrites)))
        steps[name] = replace(step, overwrites=overwrites)
    may_be_read = {
        tensor
        for step in problem.steps
        for option in options.get(step.name, (step,))
        for tensor in option.reads
    }
    is_read = {tensor for step in steps.values() for tensor in step.reads}
    for tensor in problem.inputs:
        # An input that no step of the relaxation reads would be live until the end.
        if tensor in may_be_read - is_read and tensor not in problem.outputs:
            sizes[tensor] = 0
    return replace(problem, sizes=sizes, steps=tuple(steps.values()))
