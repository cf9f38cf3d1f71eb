"""Sweep of graph parameters: period, minimum storage or deadlock at every value, and formulas.

Each value in the range is computed separately and exactly. A formula is then fitted and checked at all
values of the range; it holds only there. If one parameter occurs only in durations that are linear in
it, `csdf.analysis.parametric` computes the period as a function, so the range may have any length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.cycle_lines import Parameter
from csdf.analysis.parametric import LinearSegment, parametric_period
from csdf.analysis.throughput import throughput
from csdf.arguments import public
from csdf.errors import CsdfError, Deadlocked, GaveUp, InconsistentGraph
from csdf.model.expression import Expression
from csdf.model.graph import Graph
from csdf.model.shown import Shown, Tabular
from csdf.parameters.formula import MOST_FITTED, Formula, cost, piecewise
from csdf.parameters.graph import ParametricGraph
from csdf.search.pareto import SmallestStorage
from csdf.search.trade_off import smallest_storage
from csdf.search.variables import SearchSpace
from csdf.status import Status
from csdf.time_limit import ENDS, Budget, Progress, Stop, stop_of

if TYPE_CHECKING:
    from csdf.parameters.consistency import SymbolicRepetitions

MOST_VALUES = 20_000  # of all parameters together


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance(Shown):
    """A graph with parameters at one value of each.

    answer: `period`, `deadlock`, `inconsistent`, `invalid` (the value of an expression is not allowed),
    or `unknown`; reason: of the last three. storage: the smallest without deadlock.
    """

    values: Mapping[str, Fraction]
    answer: str
    reason: str = ""
    firings: int | None = None
    period: Fraction | None = None
    storage: SmallestStorage | None = None

    @property
    def size(self) -> int | None:
        """The minimum storage size; None if unknown."""
        storage = self.storage
        return None if storage is None or storage.point is None else storage.point.size

    def to_json(self) -> dict[str, Any]:
        """Return the instance as a JSON value."""
        storage = self.storage
        return {
            "values": {name: str(value) for name, value in self.values.items()},
            "answer": self.answer,
            "reason": self.reason or None,
            "firings_per_iteration": self.firings,
            "period": None if self.period is None else str(self.period),
            "storage": self.size,
            "storage_lower_bound": None if storage is None else storage.lower_bound,
            "storage_status": None if storage is None else str(storage.status),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Tabular):
    """A graph with parameters at all values of a range.

    formulas: of the period and of the minimum storage, if they exist. segments: the period
    as a function of a parameter that occurs only in durations. is_complete: whether every instance
    has an answer.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "graph=name", "parameters", "instances", "formulas", "segments", "complete",
    )  # fmt: skip
    FLOATS: ClassVar[tuple[str, ...]] = ("period",)

    name: str
    parameters: tuple[str, ...]
    instances: tuple[Instance, ...]
    formulas: Mapping[str, Formula]
    segments: tuple[LinearSegment, ...] = ()
    is_complete: bool

    def rows(self) -> list[dict[str, Any]]:
        """Return an exact row for each instance."""
        return [
            {
                **dict(instance.values),
                "answer": instance.answer,
                "firings": instance.firings,
                "period": instance.period,
                "storage": instance.size,
            }
            for instance in self.instances
        ]


@public
def sweep(
    graph: ParametricGraph,
    values: Mapping[str, Sequence[Fraction]],
    *,
    change: Callable[[Graph], tuple[Graph, Sequence[str]]] = lambda graph: (graph, ()),
    with_storage: bool = True,
    repetitions: SymbolicRepetitions | None = None,
    budget: Budget = None,
) -> Sweep:
    """Return the graph at all combinations of the values of its parameters.

    change: returns a changed instance, such as with self-loops that limit auto-concurrency, and the
    channels that are not storage.
    repetitions: symbolic repetition vector; with it the formula of a period may be f(n) / d(n), where
    d(n) is the common divisor of the vector.
    budget: all periods are computed first, then storage with the rest of the budget.
    """
    wanted = prod(map(len, values.values()))
    if wanted > MOST_VALUES:
        raise CsdfError(f"{wanted} combinations of values; at most {MOST_VALUES}")
    stop = stop_of(budget)
    names = graph.parameters
    combinations = [
        dict(zip(names, combination, strict=True))
        for combination in product(*(values[name] for name in names))
    ]
    analyses = _Analyses(graph, change)
    instances: list[Instance] = []
    segments: tuple[LinearSegment, ...] = ()
    is_complete = True
    varied = [name for name in names if len(values[name]) > 1]
    try:
        if len(varied) == 1:
            segments = analyses.segments(varied[0], combinations, stop)
        for number, combination in enumerate(combinations):
            stop.look(Progress(done=number, total=wanted))
            instances.append(analyses.instance(combination, segments, varied, stop))
        for number, instance in enumerate(instances if with_storage else ()):
            stop.look(Progress(done=number, total=wanted))
            storage = analyses.storage(instance, stop.part(share=max(1 / (wanted - number), 0.01)))
            instances[number] = replace(instance, storage=storage)
    except ENDS:
        is_complete = False
    is_complete = is_complete and all(
        instance.answer != "unknown"
        and (instance.storage is None or instance.storage.status is Status.OPTIMAL)
        for instance in instances
    )
    try:
        formulas = _formulas(varied, instances, repetitions)
    except ENDS:  # the budget ended after the last value
        formulas = {}
    return Sweep(
        name=graph.name, parameters=names, instances=tuple(instances), is_complete=is_complete,
        formulas=formulas, segments=segments,
    )  # fmt: skip


class _Analyses:
    """Analyses of instances; consecutive instances that differ only in durations share storage."""

    def __init__(
        self, graph: ParametricGraph, change: Callable[[Graph], tuple[Graph, Sequence[str]]]
    ) -> None:
        self._graph, self._change = graph, change
        # A cache of one entry: instances of the same untimed graph are usually consecutive.
        self._latest: tuple[Graph, SmallestStorage] | None = None

    def instance(
        self,
        values: Mapping[str, Fraction],
        segments: Sequence[LinearSegment],
        varied: Sequence[str],
        stop: Stop,
    ) -> Instance:
        """Return the instance with its period, without storage."""
        try:
            graph, _ = self._change(self._graph.at(values))
            firings = sum(repetition_vector(graph).values())
        except InconsistentGraph as error:
            return Instance(values=values, answer="inconsistent", reason=str(error))
        except CsdfError as error:
            return Instance(values=values, answer="invalid", reason=str(error))
        if segments:
            number = values[varied[0]]
            segment = next(segment for segment in reversed(segments) if segment.start <= number)
            return Instance(
                values=values, answer="period", firings=firings, period=segment.period(number)
            )
        try:
            period = throughput(graph, budget=stop).period
        except GaveUp as end:
            stop.end_whole(end.reason)
            return Instance(
                values=values, answer="unknown", reason=str(end.reason), firings=firings
            )
        answer = "deadlock" if period is None else "period"
        return Instance(values=values, answer=answer, firings=firings, period=period)

    def storage(self, instance: Instance, stop: Stop) -> SmallestStorage | None:
        """Return the smallest storage without deadlock; None if the graph is not live."""
        if instance.answer not in ("period", "unknown"):
            return None
        graph, loops = self._change(self._graph.at(instance.values))
        actors = tuple(
            replace(actor, durations=(1,) * actor.phases, processors=()) for actor in graph.actors
        )
        untimed = replace(graph, actors=actors, origin=None, time_unit=Fraction(1))
        if self._latest is not None and self._latest[0] == untimed:
            return self._latest[1]
        storage = smallest_storage(untimed, SearchSpace(excluded=list(loops)), budget=stop)
        if storage.status is Status.OPTIMAL:
            self._latest = untimed, storage
        return storage

    def segments(
        self, parameter: str, combinations: Sequence[Mapping[str, Fraction]], stop: Stop
    ) -> tuple[LinearSegment, ...]:
        """Return the period as a function of a parameter; () unless only durations depend on it."""
        fixed = combinations[0]
        lines = {}
        if not self._graph.is_only_in_durations(parameter):
            return ()
        for actor, terms in self._graph.actors.items():
            as_lines = [_linear(term, parameter, fixed) for term in terms]
            rows = [row for row in as_lines if row is not None and row[1] >= 0]
            if len(rows) < len(terms):
                return ()
            if any(slope for _, slope in rows):
                lines[actor] = rows
        try:
            graph, _ = self._change(self._graph.at(fixed))
            function = parametric_period(
                graph,
                Parameter(
                    name=parameter,
                    weights={
                        actor: tuple(slope for _, slope in rows) for actor, rows in lines.items()
                    },
                    nominal=fixed[parameter],
                    minimum=max(
                        -base / slope for rows in lines.values() for base, slope in rows if slope
                    ),
                ),
                budget=stop,
            )
        except (Deadlocked, InconsistentGraph):
            return ()
        except GaveUp as end:
            stop.end_whole(end.reason)
            return ()
        except CsdfError:
            return ()
        if function.reason is not None:
            stop.end_whole(function.reason)
            return ()
        return function.segments


Line = tuple[Fraction, Fraction]  # the value at zero, and the slope


class _NotLinear(Exception):
    """An expression is no linear function of the parameter."""


def _linear(
    term: Fraction | Expression, parameter: str, fixed: Mapping[str, Fraction]
) -> Line | None:
    """Return a term as a linear function of the parameter, others fixed; None if nonlinear."""
    if isinstance(term, Fraction):
        return term, Fraction(0)
    values: dict[str, Any] = {name: (value, Fraction(0)) for name, value in fixed.items()}
    values[parameter] = (Fraction(0), Fraction(1))
    try:
        result: Line = term.computed(values, lambda number: (number, Fraction(0)), _applied)
    except (_NotLinear, ZeroDivisionError, CsdfError):
        return None
    return result


def _applied(operator: str, operands: list[Line]) -> Line:
    """Apply an operator or function to linear functions. Raises _NotLinear."""
    if len(operands) == 1 and operator == "-":
        return -operands[0][0], -operands[0][1]
    if operator in "+-" and len(operands) == 2:
        sign = 1 if operator == "+" else -1
        (left, left_slope), (right, right_slope) = operands
        return left + sign * right, left_slope + sign * right_slope
    # Constants: evaluated exactly as an expression of their own.
    if not any(slope for _, slope in operands):
        numbers = {f"x{index}": base for index, (base, _) in enumerate(operands)}
        call = f"{operator}({', '.join(numbers)})" if operator.isalpha() else operator.join(numbers)
        return Expression(call).value(numbers), Fraction(0)
    if operator == "*" and not (operands[0][1] and operands[1][1]):
        (left, left_slope), (right, right_slope) = operands
        return left * right, left * right_slope + left_slope * right
    if operator == "/" and not operands[1][1]:
        return operands[0][0] / operands[1][0], operands[0][1] / operands[1][0]
    raise _NotLinear


def _formulas(
    varied: Sequence[str], instances: Sequence[Instance], repetitions: SymbolicRepetitions | None
) -> dict[str, Formula]:
    """Formulas of period and storage, if a single parameter has integer values in equal steps."""
    if len(varied) != 1 or len(instances) < 4 or len(instances) > MOST_FITTED:
        return {}
    name = varied[0]
    numbers = [instance.values[name] for instance in instances]
    step = numbers[1] - numbers[0]
    is_even = all(after - before == step for before, after in pairwise(numbers))
    if not is_even or step <= 0 or any(number.denominator != 1 for number in numbers):
        return {}
    sizes = [
        Fraction(instance.size)
        if instance.storage and instance.size and instance.storage.status is Status.OPTIMAL
        else None
        for instance in instances
    ]
    arguments = [int(number) for number in numbers]
    periods = [instance.period for instance in instances]
    formulas = {
        "period": piecewise(name, arguments, periods),
        "storage": piecewise(name, arguments, sizes),
    }
    if repetitions is not None and len(repetitions.cycles) == 1:
        # A period times its divisor often has a simpler formula than the period.
        divisors = {
            argument: repetitions.divisor_at(instance.values)
            for argument, instance in zip(arguments, instances, strict=True)
            if instance.period is not None
        }
        scaled = [
            None if period is None else period * divisors[argument]
            for argument, period in zip(arguments, periods, strict=True)
        ]
        whole = piecewise(name, arguments, scaled)
        if whole is not None and cost(whole) + 1 < cost(formulas["period"]):
            words = repetitions.divisors[0], repetitions.latex["divisors"][0]
            formulas["period"] = replace(whole, divisor=words, divisors=divisors)
    return {name: formula for name, formula in formulas.items() if formula is not None}
