"""A graph and its search space: evaluators of distributions, points by channel name, refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from csdf.arguments import public
from csdf.errors import counted
from csdf.model.graph import Graph
from csdf.search.evaluator import CapacityEvaluator
from csdf.search.learned_bounds import Sufficient
from csdf.search.pareto import ParetoPoint
from csdf.search.variables import Distribution, SearchSpace, least_capacity, prepared, size_of
from csdf.status import Reason, Why, because
from csdf.time_limit import ENDS, Budget, stop_of


class GraphWhy(Why):
    """Why no storage distribution meets a requirement."""

    DEADLOCKS = "even without bounds the graph deadlocks"
    IS_SLOW = "even without bounds the graph has period {period}"
    NOT_PERIODIC = "no schedule repeats {copies} of each actor; others may still exist"
    PERIODIC_IS_SLOW = (
        "schedules that repeat {copies} of each actor have period {period}; others may be faster"
    )
    KEPT_DEADLOCKS = "with {kept}, and no other bound, the graph deadlocks{short}"
    KEPT_IS_SLOW = "with {kept}, and no other bound, the graph has period {period}{short}"


class SearchedGraph:
    """A graph and its search space, which translates between distributions and channel names.

    bare: the graph with its fixed capacities; fixed_size: the storage of these capacities. Periods are
    in ticks of the graph for evaluators, and in units of the user for points.
    """

    def __init__(self, graph: Graph, space: SearchSpace) -> None:
        self.graph, self.space = graph, space
        self.bare, self.variables, self.fixed_size = prepared(graph, space)

    def evaluator(
        self, look: Callable[[], None] = lambda: None, *, only_live: bool = False
    ) -> CapacityEvaluator:
        """Return an evaluator of distributions."""
        return CapacityEvaluator(
            self.bare,
            self.variables,
            with_self_loops=self.space.with_self_loops,
            only_live=only_live,
            copies=self.space.copies,
            look=look,
        )

    def in_units(self, period: Fraction | None) -> Fraction | None:
        """Return the period in the units of the user."""
        return None if period is None else period * self.graph.time_unit

    def capacities(self, distribution: Sequence[int]) -> dict[str, int]:
        """Return the capacity of each channel that is searched or fixed."""
        named = dict(self.space.fixed or {})
        for variable, capacity in zip(self.variables, distribution, strict=True):
            named |= {channel.name: capacity for channel in variable.channels}
        return named

    def distribution(self, capacities: Mapping[str, int]) -> Distribution:
        """Return the capacities of the variables, in their order."""
        return tuple(capacities[variable.channels[0].name] for variable in self.variables)

    def point(self, distribution: Sequence[int], period: Fraction | None) -> ParetoPoint:
        """Return the point of a distribution."""
        return ParetoPoint(
            size=size_of(self.variables, distribution) + self.fixed_size,
            period=self.in_units(period),
            capacities=self.capacities(distribution),
        )

    def timed_point(self, distribution: Distribution) -> ParetoPoint:
        """Return the point with its period; without period if that takes too long."""
        evaluator, period = self.evaluator(), None
        evaluator.hurry()
        with suppress(*ENDS):
            period = evaluator.evaluate(distribution).period
        return self.point(distribution, period)

    def refusal(self, best: Fraction | None, is_sufficient: Sufficient) -> Reason:
        """Return the reason why even `best` is not sufficient.

        best: the period with the fixed and excluded capacities alone, None for a deadlock. If the graph
        without these capacities would suffice, the reason names them and their minimums.
        """
        graph, space = self.graph, self.space
        if space.copies is not None:
            copies = counted(space.copies, "cycle")
            if best is None:
                return because(GraphWhy.NOT_PERIODIC, copies=copies)
            return because(GraphWhy.PERIODIC_IS_SLOW, copies=copies, period=self.in_units(best))
        constraining = [
            channel
            for name in (*(space.fixed or {}), *space.excluded)
            if (channel := self.bare.channel(name)).capacity is not None
            and (space.with_self_loops or not channel.is_self_loop)
        ]
        if constraining:
            free = tuple(replace(channel, capacity=None) for channel in graph.channels)
            unbounded = CapacityEvaluator(replace(graph, channels=free, origin=None), ()).evaluate(
                ()
            )
            if is_sufficient(unbounded.period):
                named = " and ".join(
                    f"{channel.name!r} at {channel.capacity}" for channel in constraining
                )
                needs = [(channel.name, least_capacity(channel)) for channel in constraining]
                short = " and ".join(
                    f"{name!r} needs at least {need}"
                    for (name, need), channel in zip(needs, constraining, strict=True)
                    if need > (channel.capacity or 0)
                )
                values = {"kept": named, "short": f"; {short}" if short else ""}
                if best is None:
                    return because(GraphWhy.KEPT_DEADLOCKS, **values)
                return because(GraphWhy.KEPT_IS_SLOW, period=self.in_units(best), **values)
            # Not even the graph without any capacity suffices: its period is the reason.
            best = unbounded.period
        if best is None:
            return because(GraphWhy.DEADLOCKS)
        return because(GraphWhy.IS_SLOW, period=self.in_units(best))


@public
def useful_growth(graph: Graph, *, budget: Budget = None) -> dict[str, int]:
    """Return the channels whose capacity limits the period, with the minimum useful growth of each.

    The space of these channels is on a critical cycle, or on a cycle of blocked actors if the graph
    deadlocks. Unless one of them grows by at least its number of tokens in the result, no storage
    distribution has a shorter period. Empty if no capacity limits the period. Self-loops are unbounded.
    Raises InconsistentGraph; GaveUp if the budget, a stop or seconds, ends the analysis.
    Source: Stuijk, Geilen, Basten, IEEE Trans. Computers 57(10), 2008 (storage dependencies).
    """
    searched, stop = SearchedGraph(graph, SearchSpace()), stop_of(budget)
    evaluator = searched.evaluator(stop.look)
    channels = [variable.channels[0] for variable in searched.variables]
    evaluation = evaluator.evaluate(tuple(channel.capacity for channel in channels))
    growth = {}
    for position in evaluation.holding:
        channel, step = channels[position], searched.variables[position].step
        used = (channel.capacity or 0) - channel.initial_tokens
        # A capacity between initial tokens + k * step and + (k + 1) * step has the period of the
        # lower of these two values.
        growth[channel.name] = step - used % step
    return growth
