"""Cheapest depths outside infeasible regions: set covering with branch and bound over LP bounds.

A region is a set of depths that are all too small: in each of its chains of FIFOs the total depth is
at most the limit of the chain. Depths leave the region as soon as one of its chains is deeper than its
limit, so each region is a covering constraint: at least one chain exceeds its limit.

Example: FIFOs 0 and 1 with a least depth of 2, and the region {((0, 1),): 4, ((1, 1),): 7}. Depths
(4, 7) lie inside; (5, 2) and (2, 8) are the cheapest depths outside, if elements cost 1 and less of
FIFO 1 does not pay. A chain ((0, 1), (1, 2)) has the depth of FIFO 0 plus twice the depth of FIFO 1.

The variables are the depths, and a binary variable for each chain and each depth that some region asks
of it: 1 if the chain has at least that depth. With the binary variables relaxed to [0, 1], a linear
program gives the lower bound. The search branches on fractional binary variables, best first.

No float decides: the bound of a linear program is computed again in integers (see
csdf.search.liveness_bounds.linear_programs), and the columns of the solver only propose depths.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from math import ceil, gcd
from typing import NamedTuple

from csdf.search.liveness_bounds.linear_programs import LinearProgram, solved
from planners.fifo.event_graph import Chain, Spend, spend_nothing, total_depth

Depths = tuple[int, ...]
Limits = Mapping[Chain, int]  # of an infeasible region: the largest depth of each of its chains
Look = Callable[[], None]  # looks at the stop; raises to end the work
ChainDepth = tuple[Chain, int]  # the decision that a chain has at least this depth

# Effort of a linear program in microseconds of a typical machine, and for each factor of its rows.
PROGRAM_EFFORT, FACTOR_EFFORT = 2000, 4
# Wall-clock limit of one linear program, which takes milliseconds: a safeguard, not part of the effort.
SECONDS = 60.0
# Distance from an integer within which a float of the solver counts as that integer.
CLOSE = 1e-6


class _SearchNode(NamedTuple):
    """A node of the branch and bound: a lower bound of its cost, and the decisions that lead to it.

    Nodes are compared by their bound, then by their number, the order of their creation.
    """

    bound: int
    number: int
    decided: Mapping[ChainDepth, bool]


class RegionCovering:
    """Infeasible regions over a set of FIFOs, and the search for the cheapest depths outside them.

    fifos: numbers of the FIFOs of the set, in whose order depths are proposed. minimum, maximum,
    weights: of all FIFOs of the design; a maximum of None is no limit. lower_bound: of the cost of
    depths outside all regions, proved so far.
    """

    def __init__(
        self,
        fifos: Sequence[int],
        minimum: Sequence[int],
        maximum: Sequence[int | None],
        weights: Sequence[int],
        spend: Spend = spend_nothing,
    ) -> None:
        self._spend = spend
        self.fifos, self.minimum, self.maximum = tuple(fifos), minimum, maximum
        self.weights = weights
        self._cost_step = gcd(*(weights[fifo] for fifo in fifos)) or 1
        self._regions: list[Limits] = []
        self.lower_bound = self.cost([minimum[fifo] for fifo in fifos])
        self._open_nodes = [_SearchNode(self.lower_bound, 0, {})]
        self._created = 1

    def cost(self, depths: Sequence[int]) -> int:
        """Return the cost of depths of the set."""
        return sum(
            self.weights[fifo] * depth for fifo, depth in zip(self.fifos, depths, strict=True)
        )

    def add(self, region: Limits) -> None:
        """Exclude a region. Chains that cannot exceed their limit are left out of it."""
        if any((total_depth(chain, self.minimum) or 0) > limit for chain, limit in region.items()):
            return  # even the minimum depths lie outside
        region_inside = {
            chain: limit
            for chain, limit in region.items()
            if (maximum := total_depth(chain, self.maximum)) is None or maximum > limit
        }
        # Subsumption: only maximal regions are kept, which keeps the linear programs small.
        if any(_is_within(region_inside, region) for region in self._regions):
            return
        self._regions = [
            region for region in self._regions if not _is_within(region, region_inside)
        ]
        self._regions.append(region_inside)

    def proposal(self, look: Look, sufficient: set[Depths]) -> Depths | None:
        """Return depths outside all regions; the caller tests them and adds a region if they fail.

        sufficient: depths that passed the test. None if no depths outside are cheaper than these.
        """
        best = min(map(self.cost, sufficient), default=None)
        while self._open_nodes:
            look()
            node = heapq.heappop(self._open_nodes)
            self.lower_bound = max(self.lower_bound, node.bound)
            if best is not None and node.bound >= best:
                self.lower_bound = max(self.lower_bound, best)
                return None
            try:
                relaxation = self._relaxed(node, look)
            # An interrupted node stays open, else the lower bound would be wrong afterwards.
            except BaseException:
                heapq.heappush(self._open_nodes, node)
                raise
            if relaxation is None:
                continue
            bound, depths, branch = relaxation
            node = _SearchNode(max(bound, node.bound), node.number, node.decided)
            # Best first: a node whose bound rose waits until it is the cheapest again.
            if self._open_nodes and node.bound > self._open_nodes[0].bound:
                heapq.heappush(self._open_nodes, node)
                continue
            self.lower_bound = max(self.lower_bound, node.bound)
            if depths not in sufficient and not self._is_excluded(depths):
                heapq.heappush(self._open_nodes, node)
                return depths
            for is_deep in (True, False):
                self._created += 1
                decided = {**node.decided, branch: is_deep}
                heapq.heappush(self._open_nodes, _SearchNode(node.bound, self._created, decided))
        return None

    def _is_excluded(self, depths: Depths) -> bool:
        depth_of = dict(zip(self.fifos, depths, strict=True))
        return any(
            all((total_depth(chain, depth_of) or 0) <= limit for chain, limit in region.items())
            for region in self._regions
        )

    def _relaxed(self, node: _SearchNode, look: Look) -> tuple[int, Depths, ChainDepth] | None:
        """Lower bound of a node, depths rounded up from its LP optimum, and the decision to branch on.

        None if the decisions of the node contradict each other.
        """
        relaxation = _Relaxation(self, self._regions, node.decided)
        if relaxation.is_empty:
            return None
        factors = sum(map(len, relaxation.program.rows))
        self._spend(PROGRAM_EFFORT + FACTOR_EFFORT * factors)
        solution = solved(relaxation.program, SECONDS, look)
        if solution is None:  # the program has a solution, so the solver gave up
            minimum = tuple(self.minimum[fifo] for fifo in self.fifos)
            return node.bound, minimum, relaxation.open_decision()
        depths = tuple(ceil(column - CLOSE) for column in solution.columns[: len(self.fifos)])
        # Costs are multiples of the greatest common divisor of the weights: round up.
        bound = -(-solution.lower_bound // self._cost_step) * self._cost_step
        return bound, depths, relaxation.branching_decision(solution.columns)


class _Relaxation:
    """The linear program of a node.

    The first columns are the depths of the FIFOs; a column in [0, 1] follows for each chain and each
    depth that a region or a decision asks of it.
    """

    def __init__(
        self,
        covering: RegionCovering,
        regions: Sequence[Limits],
        decided: Mapping[ChainDepth, bool],
    ) -> None:
        self.program = program = LinearProgram()
        self.is_empty = False
        self._decided, self._fifos = decided, covering.fifos
        self._column_of_fifo = {fifo: column for column, fifo in enumerate(covering.fifos)}
        self._maximum: dict[int, int | None] = {}
        for fifo in covering.fifos:
            # A decision against a depth of the FIFO alone limits its column.
            limits = [
                depth - 1
                for (chain, depth), is_deep in decided.items()
                if chain == ((fifo, 1),) and not is_deep
            ]
            limit = covering.maximum[fifo]
            maximum = min([*limits, *([] if limit is None else [limit])], default=None)
            self._maximum[fifo] = maximum
            self.is_empty |= maximum is not None and maximum < covering.minimum[fifo]
            program.add_column(covering.weights[fifo], covering.minimum[fifo], maximum)
        depths_of_chain: dict[Chain, set[int]] = {}
        for region in regions:
            for chain, limit in region.items():
                depths_of_chain.setdefault(chain, set()).add(limit + 1)
        for (chain, depth), is_deep in decided.items():
            if is_deep:
                depths_of_chain.setdefault(chain, set()).add(depth)
        self._column_of: dict[ChainDepth, int] = {}
        for chain, depths in depths_of_chain.items():
            self._add_chain(chain, sorted(depths), total_depth(chain, covering.minimum) or 0)
        for region in regions:
            columns = [self._column_of[chain, limit + 1] for chain, limit in region.items()]
            self.is_empty |= not any(program.most[column] for column in columns)
            # Covering constraint: at least one chain of the region exceeds its limit.
            program.add_row([(column, -1) for column in columns], -1)

    def _add_chain(self, chain: Chain, depths: Sequence[int], base: int) -> None:
        """Add a column for each depth of a chain, and tie the columns to the depths of its FIFOs.

        base: the depth of the chain if each FIFO has its minimum. With the depths d1 < d2 < ... and
        their columns x1 >= x2 >= ..., the depth of the chain is at least
        base + (d1 - base) x1 + (d2 - d1) x2 + ...
        """
        decisions = [
            (depth, is_deep)
            for (decided_chain, depth), is_deep in self._decided.items()
            if decided_chain == chain
        ]
        maximum, previous = total_depth(chain, self._maximum), base
        terms = [(self._column_of_fifo[fifo], -times) for fifo, times in chain]
        for depth in depths:
            must = any(is_deep and depth <= limit for limit, is_deep in decisions)
            may = (maximum is None or maximum >= depth) and all(
                is_deep or depth < limit for limit, is_deep in decisions
            )
            column = self.program.add_column(0, int(must), int(may))
            self.is_empty |= must and not may
            if previous != base:
                self.program.add_row([(column, 1), (column - 1, -1)], 0)
            self._column_of[chain, depth] = column
            terms.append((column, depth - previous))
            previous = depth
        self.program.add_row(terms, -base)

    def branching_decision(self, columns: Sequence[float]) -> ChainDepth:
        """Return the decision with the most fractional column, else a depth that is fractional."""
        distance = {
            decision: min(columns[column], 1 - columns[column])
            for decision, column in self._column_of.items()
        }
        best = max(distance, key=lambda decision: distance[decision], default=None)
        if best is not None and distance[best] > CLOSE:
            return best
        depth_of = dict(zip(self._fifos, columns, strict=False))
        fractional = [fifo for fifo, depth in depth_of.items() if depth % 1 > CLOSE < 1 - depth % 1]
        for fifo in [*fractional, *depth_of]:
            decision = ((fifo, 1),), ceil(depth_of[fifo] - CLOSE)
            if decision not in self._decided:
                return decision
        return self.open_decision()

    def open_decision(self) -> ChainDepth:
        """Return a decision whose column may still be 0 or 1."""
        for decision, column in self._column_of.items():
            if self.program.least[column] != self.program.most[column]:
                return decision
        raise AssertionError("all columns are decided, but the cheapest depths are not")


def _is_within(inner: Limits, outer: Limits) -> bool:
    """Whether all depths of the inner region are in the outer region."""
    return all(chain in inner and inner[chain] <= limit for chain, limit in outer.items())
