"""Proof of the smallest depths: LP covering of infeasible regions, part by part.

A part is a set of FIFOs; its smallest depths suffice while all FIFOs outside have no
bound. No depths of the whole have fewer bits than the parts together. Parts begin as those FIFOs that
were found to be too small together, and are joined only where the smallest of each do not suffice
together. A layer without any slack separates parts: FIFOs before it and after it are never joined.

In a part, cheapest depths outside of all regions known to be infeasible are proposed, until they
suffice. A region is left by a chain of FIFOs that is deeper than its limit: of each region one chain
has to be, and which of them is what is searched. Storage for one purpose can lie in any FIFO of a path,
so each of them has to be a little larger before one of them is large enough. A region is therefore made
of as few FIFOs as can be, and where they are many it grows in all of them at once, by the same cost.

The search of csdf.search excludes boxes, and bounds the cost of leaving them by a dual ascent. For
FIFOs that is too weak: of the small ResNet at 2500 cycles it proves 3998 bits in 6,566 evaluations,
where linear programs over regions prove the 4898 bits of the answer in 767.

No float decides: a solver's prices are computed again in integers (see
csdf.search.liveness_bounds.linear_programs), and its columns are no more than a proposal.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import ceil, gcd
from typing import NamedTuple

from csdf.search.liveness_bounds.linear_programs import LinearProgram, solved
from planners.fifo.dominance import DepthExchanges
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import Chain, Infeasible, Spend, spend_nothing, total_depth

Depths = tuple[int, ...]
Limits = Mapping[Chain, int]
Look = Callable[[], None]

# Effort of a linear program in microseconds of a usual machine, and for each factor of a column in it.
PROGRAM_EFFORT, FACTOR_EFFORT = 2000, 4
# Simulations of a part before the next part is searched; each round doubles them, so that a hard part
# does not use up the effort of the others.
EFFORT = 64
# Chains of an infeasible region up to which each chain is extended alone to its maximum. More chains
# are extended together.
MOST_SINGLY = 4
Trial = dict[int, int]  # depths of some FIFOs of a part, all others being at their most


class _Enough(Exception):
    """The effort for a part is used up for now."""


class Parts:
    """A search that proves the smallest depths.

    minimum: what no answer is below, found out; floor: what none may be below. weights: of a word.
    sufficient: depths of all FIFOs that suffice, once some are known. most: what none need exceed.
    """

    def __init__(
        self,
        evaluator: DesignEvaluator,
        minimum: Sequence[int],
        weights: Sequence[int],
        floor: Sequence[int],
        look: Look,
    ) -> None:
        self._evaluator = evaluator
        self._least, self._weights, self._floor, self._look = minimum, weights, floor, look
        self._moves = DepthExchanges(evaluator.graph.design, evaluator.alone)
        self._known_most = self._moves.most_depths(weights, floor)
        self.most = self._known_most.depths
        self.sufficient: Depths = ()
        self._parts: list[_FifoCluster] = []
        self._regions: list[Infeasible] = []
        self._end = 0  # of the turn of a part, in simulations

    @property
    def lower_bound(self) -> int:
        """Return the least cost of any sufficient distribution, proved so far."""
        inside = {index for part in self._parts for index in part.places}
        outside = self._least_cost(set(range(len(self._least))) - inside)
        return outside + sum(part.lower_bound for part in self._parts)

    def _least_cost(self, indices: Iterable[int]) -> int:
        return sum(self._weights[index] * self._least[index] for index in indices)

    def proved(self, depths: Depths) -> Iterator[dict[int, int]]:
        """Yield smallest depths of ever more parts, by place; in the last those of all FIFOs.

        Only the last ones suffice for sure. Yields after each turn of a part, also if it was not
        enough for its smallest. depths: some that suffice; they say where to begin.
        """
        self.sufficient = depths
        # Disjoint parts add up to a lower bound at once; joining them later only raises it.
        self._begin(depths)
        effort = EFFORT
        yield from self._solved(effort)
        while short := self._short():
            for group in short:
                self._join(group)
            # Doubled effort: a part that needs long is searched again at most a logarithmic number
            # of times.
            effort *= 2
            yield from self._solved(effort)
        yield dict(enumerate(self._together()))

    def _begin(self, depths: Depths) -> None:
        """Make parts without a FIFO in common of those whose depths are too small together.

        Each has a FIFO at its least, and the others of these depths that it then lacks: few and small
        parts, soon searched, and the bounds of all of them add up.
        """
        inside = set[int]()
        for index in sorted(
            range(len(depths)),
            key=lambda index: (self._least[index] - depths[index]) * self._weights[index],
        ):
            if depths[index] == self._least[index] or index in inside:
                continue
            trial = (*depths[:index], self._least[index], *depths[index + 1 :])
            cycle = self._evaluator.critical_cycle(trial)
            group = () if cycle is None else self._fewest(cycle.fifos, trial)
            # Parts must be disjoint, else the cost of a common FIFO would be counted twice in the
            # bound.
            if group and not inside & set(group):
                self._add(group, self._least_cost(group))
                inside |= set(group)

    def _add(self, indices: Iterable[int], bound: int) -> None:
        """Begin a part with a known bound."""
        inside = set(indices)
        weights = [weight if index in inside else 0 for index, weight in enumerate(self._weights)]
        maximum = self._moves.most_depths(weights, self._floor, self._known_most).depths
        covering = Covering(
            sorted(inside), self._least, maximum, self._weights, self._evaluator.spend
        )
        self._parts.append(
            _FifoCluster(self._evaluator, covering, self._look_within, self._regions, bound)
        )

    def _look_within(self) -> None:
        self._look()
        if self._evaluator.simulations > self._end:
            raise _Enough

    def _solved(self, effort: int) -> Iterator[dict[int, int]]:
        """Search in each part, for this many simulations; what is not found is searched on later."""
        # Small parts first: their proofs are cheap and raise the bound early.
        for part in sorted(self._parts, key=lambda part: len(part.places)):
            if part.depths is None:
                self._end = self._evaluator.simulations + effort
                with suppress(_Enough):
                    part.search(self.sufficient)
                yield self._known()

    def _short(self) -> list[tuple[int, ...]]:
        """Groups of FIFOs that hold the smallest depths of the parts back; none if they suffice."""
        trial: list[int | None] = list(self._together())
        parts = []
        while (cycle := self._evaluator.critical_cycle(trial)) is not None:
            free = tuple(
                fifo
                for fifo in cycle.fifos
                # At its limit a FIFO need not grow: the dominance rules place the words elsewhere.
                if _least_of(trial[fifo], self.most[fifo]) != self.most[fifo]
            )
            if not free:
                raise AssertionError("storage was moved where it does not do the same")
            parts.append(free)
            for index in free:
                trial[index] = self.most[index]
        return parts

    def _together(self) -> Depths:
        proved = self._known()
        return tuple(proved.get(index, depth) for index, depth in enumerate(self._least))

    def _known(self) -> dict[int, int]:
        return {
            index: depth
            for part in self._parts
            if part.depths is not None
            for index, depth in zip(part.places, part.depths, strict=True)
        }

    def _join(self, group: tuple[int, ...]) -> None:
        """Make one part of those parts that lack space together, and of the FIFOs between them."""
        short = set(self._fewest(group, self._together()))
        joined = [part for part in self._parts if short & set(part.places)]
        inside = {index for part in joined for index in part.places}
        self._parts = [part for part in self._parts if part not in joined]
        # The bounds of disjoint parts stay valid for their union.
        bound = sum(part.lower_bound for part in joined) + self._least_cost(short - inside)
        self._add(inside | short, bound)

    def _fewest(self, group: Sequence[int], depths: Depths) -> list[int]:
        """FIFOs of a group that are too small together, a minimal set."""
        remaining, tried = list(group), set[int]()
        while left := [index for index in remaining if index not in tried]:
            self._look()
            # Deletion filter for a minimal infeasible set: expensive FIFOs go first, so that cheap
            # FIFOs remain.
            removed = max(left, key=lambda index: self._weights[index])
            tried.add(removed)
            trial = list(self.most)
            for index in remaining:
                trial[index] = depths[index] if index != removed else trial[index]
            cycle = self._evaluator.critical_cycle(trial)
            if cycle is not None:
                remaining = [
                    index for index in cycle.fifos if index in remaining and index != removed
                ]
        return remaining


def _least_of(one: int | None, other: int | None) -> int | None:
    """The lesser of two depths; None is infinite."""
    return min((depth for depth in (one, other) if depth is not None), default=None)


class _FifoCluster:
    """FIFOs that are searched together: depths are proposed, and regions learnt from those too small.

    regions: of all parts, known so far; what is learnt is added. depths: the smallest, in the order of
    the places, once they are found.
    """

    def __init__(
        self,
        evaluator: DesignEvaluator,
        covering: Covering,
        look: Look,
        regions: list[Infeasible],
        bound: int,
    ) -> None:
        self._evaluator, self._covering, self._look = evaluator, covering, look
        self._regions, self._bound = regions, bound
        self._learnt = 0  # of the regions
        self._weights, self._most = covering.weights, covering.most
        self.places = covering.places
        self._inside = set(covering.places)
        self._sufficient = set[Depths]()
        self.depths: Depths | None = None

    @property
    def lower_bound(self) -> int:
        """Return the known lower bound on the cost of the depths."""
        return max(self._bound, self._covering.lower_bound)

    def search(self, sufficient: Depths) -> None:
        """Find the cheapest depths that suffice. sufficient: depths of all FIFOs that do."""
        covering = self._covering
        if all(
            _least_of(capacity, maximum) == capacity
            for capacity, maximum in zip(sufficient, self._most, strict=True)
        ):
            # They suffice in the part, too, where others are at their most.
            self._sufficient.add(tuple(sufficient[index] for index in self.places))
        self._learn()
        while (depths := covering.proposal(self._look, self._sufficient)) is not None:
            trial = dict(zip(self.places, depths, strict=True))
            region = self._too_small(trial)
            if region is None:
                self._sufficient.add(depths)
                continue
            # Each region costs simulations once and prunes all later proposals inside it.
            self._regions.append(self._enlarged(trial, region))
            self._learn()
        self.depths = min(
            self._sufficient, key=lambda candidate: (covering.cost(candidate), candidate)
        )

    def _too_small(self, trial: Trial) -> Infeasible | None:
        """Infeasible depths of the design, these among them; None if these suffice."""
        depths = [
            maximum
            if index not in trial
            else trial[index]
            if maximum is None
            else min(trial[index], maximum)
            for index, maximum in enumerate(self._most)
        ]
        cycle = self._evaluator.critical_cycle(depths)
        return None if cycle is None else cycle.infeasible

    def _tried(self, trial: Trial) -> Infeasible | None:
        self._look()
        return self._too_small(trial)

    def _chains(self, region: Infeasible) -> list[list[int]]:
        """The FIFOs of each chain of a region that are in the part."""
        chains_inside = [
            [index for index, _ in chain if index in self._inside] for chain in region.limits
        ]
        return [chain for chain in chains_inside if chain]

    def _learn(self) -> None:
        """Let the covering know all regions by chains of the part, all other FIFOs being at their most.

        A region says nothing where FIFOs outside may have no end.
        """
        for region in self._regions[self._learnt :]:
            limits_inside: dict[Chain, int] = {}
            for chain, limit in region.limits.items():
                inner = tuple(hop for hop in chain if hop[0] in self._inside)
                outer = tuple(hop for hop in chain if hop[0] not in self._inside)
                depth_outside = total_depth(outer, self._most)
                # Outside FIFOs can leave the region by themselves: it says nothing about this part.
                if depth_outside is None or (not inner and depth_outside > limit):
                    break
                if inner:
                    limits_inside[inner] = min(
                        limits_inside.get(inner, limit - depth_outside), limit - depth_outside
                    )
            else:
                self._covering.add(limits_inside)
        self._learnt = len(self._regions)

    def _enlarged(self, depths: Trial, region: Infeasible) -> Infeasible:
        """A region with these depths that is as large as can be, of few chains."""
        holding, region = self._fewest(depths, region)
        # A region that grows in all its FIFOs by equal cost excludes every way to spend that cost
        # there.
        limits, region = self._grown(depths, holding, region)
        chains = self._chains(region)
        if len(chains) <= MOST_SINGLY:
            for chain in sorted(chains, key=lambda chain: -self._weights[chain[0]]):
                limits, region = self._largest(limits, chain, region)
        return region

    def _fewest(self, depths: Trial, region: Infeasible) -> tuple[list[int], Infeasible]:
        """FIFOs that are too small together, a minimal set, and their region."""
        remaining, tried = (
            sorted({place_limit for chain in self._chains(region) for place_limit in chain}),
            set[int](),
        )
        while left := [place_left for place_left in remaining if place_left not in tried]:
            place_removed = max(left, key=lambda index: self._weights[index])
            tried.add(place_removed)
            narrower = self._tried(
                {index: depths[index] for index in remaining if index != place_removed}
            )
            if narrower is not None:
                remaining = sorted(
                    {place_limit for chain in self._chains(narrower) for place_limit in chain}
                )
                region = narrower
        return remaining, region

    def _grown(
        self, depths: Trial, holding: Sequence[int], region: Infeasible
    ) -> tuple[Trial, Infeasible]:
        """The depths with the largest common cost above these that are still too small."""

        def larger(cost: int) -> Trial:
            return {index: depths[index] + cost // self._weights[index] for index in holding}

        weights = [self._weights[index] for index in holding]
        # At least one FIFO gets one word more; then doubling, then bisection.
        low, high = 0, max(weights)
        best = larger(0)
        while (wider := self._tried(trial := larger(high))) is not None:
            low, high, best, region = high, 2 * high, trial, wider
        # A difference below the cheapest word is not worth a simulation.
        while high - low > min(weights):
            middle = (low + high) // 2
            wider = self._tried(trial := larger(middle))
            if wider is None:
                high = middle
            else:
                low, best, region = middle, trial, wider
        return best, region

    def _largest(
        self, limits: Trial, chain: Sequence[int], region: Infeasible
    ) -> tuple[Trial, Infeasible]:
        """The limits with as much more depth in one FIFO of a chain as is still too small."""
        index = next((number for number in chain if number in limits), None)
        if index is None:
            return limits, region
        low, step, high = limits[index], 1, None
        while high is None or high - low > 1:
            middle = low + step if high is None else (low + high) // 2
            wider = self._tried({**limits, index: middle})
            if wider is None:
                high = middle
                continue
            low, step, region = middle, 2 * step, wider
            # Before a long gallop: if the FIFO may even be unbounded it drops out of the region.
            if high is None and step == 2:
                without = {number: limit for number, limit in limits.items() if number != index}
                wider = self._tried(without)
                if wider is not None:
                    return without, wider
        return {**limits, index: low}, region


Length = tuple[Chain, int]  # a chain that is so deep at least

# Limit of one linear program, which takes milliseconds: a safeguard, not part of the effort.
SECONDS = 60.0
CLOSE = 1e-6  # distance of a float from an integer below which it counts as that integer


class _DepthNode(NamedTuple):
    """A part of the search: what its depths cost at least, and the lengths that were decided on."""

    bound: int
    number: int
    decided: Mapping[Length, bool]


class Covering:
    """Infeasible regions of some FIFOs, and the search for the cheapest depths outside of all of them.

    A column for each chain and each length that counts says whether the chain is that long. As a linear
    program, with columns from 0 to 1, this is a lower bound, and mostly a close one; where a column is
    neither, both are tried, the cheaper first.

    indices: of the FIFOs; minimum, maximum, weights: of all FIFOs of the design, None for no end.
    """

    def __init__(
        self,
        indices: Sequence[int],
        minimum: Sequence[int],
        maximum: Sequence[int | None],
        weights: Sequence[int],
        spend: Spend = spend_nothing,
    ) -> None:
        self._spend = spend
        self.places, self.least, self.most, self.weights = tuple(indices), minimum, maximum, weights
        self._step = gcd(*(weights[index] for index in indices)) or 1
        self._regions: list[Limits] = []
        self.lower_bound = self.cost([minimum[index] for index in indices])
        self._nodes = [_DepthNode(self.lower_bound, 0, {})]
        self._made = 1

    def cost(self, depths: Sequence[int]) -> int:
        """Return what depths cost."""
        return sum(self.weights[at] * depth for at, depth in zip(self.places, depths, strict=True))

    def add(self, region: Limits) -> None:
        """Take note of a region; chains that cannot be longer do not count."""
        if any((total_depth(chain, self.least) or 0) > limit for chain, limit in region.items()):
            return  # none of the depths that are looked at is in it
        region_inside = {
            chain: limit
            for chain, limit in region.items()
            if (maximum := total_depth(chain, self.most)) is None or maximum > limit
        }
        # Subsumption: only maximal regions are kept, which keeps the linear programs small.
        if any(_is_within(region_inside, region) for region in self._regions):
            return
        self._regions = [
            region for region in self._regions if not _is_within(region, region_inside)
        ]
        self._regions.append(region_inside)

    def proposal(self, look: Look, sufficient: set[Depths]) -> Depths | None:
        """Return depths outside all regions: they suffice, or another region is to be learnt from them.

        sufficient: depths that are known to suffice. None if nothing is cheaper than one of them.
        """
        best = min(map(self.cost, sufficient), default=None)
        while self._nodes:
            look()
            node = heapq.heappop(self._nodes)
            self.lower_bound = max(self.lower_bound, node.bound)
            if best is not None and node.bound >= best:
                self.lower_bound = max(self.lower_bound, best)
                return None
            try:
                solution = self._solved(node, look)
            # An interrupted node stays open, else the lower bound would be wrong afterwards.
            except BaseException:
                heapq.heappush(self._nodes, node)  # its part of the depths is still to be searched
                raise
            if solution is None:
                continue
            bound, depths, unsure = solution
            node = _DepthNode(max(bound, node.bound), node.number, node.decided)
            # Best first: a node whose bound rose waits until it is the cheapest again.
            if self._nodes and node.bound > self._nodes[0].bound:
                heapq.heappush(self._nodes, node)
                continue
            self.lower_bound = max(self.lower_bound, node.bound)
            if depths not in sufficient and not self._is_inside(depths):
                heapq.heappush(self._nodes, node)
                return depths
            # Branching on one length of a chain: long enough, or shorter.
            for has in (True, False):
                self._made += 1
                decided = {**node.decided, unsure: has}
                heapq.heappush(self._nodes, _DepthNode(node.bound, self._made, decided))
        return None

    def _is_inside(self, depths: Depths) -> bool:
        depth_at = dict(zip(self.places, depths, strict=True))
        return any(
            all((total_depth(chain, depth_at) or 0) <= limit for chain, limit in region.items())
            for region in self._regions
        )

    def _solved(self, node: _DepthNode, look: Look) -> tuple[int, Depths, Length] | None:
        """The bound of a node, depths near its optimum, a length to decide on; None if it is empty."""
        program = _Program(self, self._regions, node.decided)
        if program.is_empty:
            return None
        factors = sum(map(len, program.program.rows))
        self._spend(PROGRAM_EFFORT + FACTOR_EFFORT * factors)
        relaxed = solved(program.program, SECONDS, look)
        if relaxed is None:  # of a program that has a solution: the solver gave up
            minimum = tuple(self.least[index] for index in self.places)
            return node.bound, minimum, program.any_length()
        depths = tuple(ceil(column - CLOSE) for column in relaxed.columns[: len(self.places)])
        # Costs are multiples of the greatest common divisor of the weights, so the bound may be
        # rounded up.
        bound = -(-relaxed.lower_bound // self._step) * self._step
        return bound, depths, program.unsure(relaxed.columns)


class _Program:
    """The linear program of a node: depths, and for each chain the lengths that count."""

    def __init__(
        self, covering: Covering, regions: Sequence[Limits], decided: Mapping[Length, bool]
    ) -> None:
        self.program = program = LinearProgram()
        self.is_empty = False
        self._decided, self._places = decided, covering.places
        self._column = {index: column for column, index in enumerate(covering.places)}
        self._most: dict[int, int | None] = {}
        for index in covering.places:
            # A FIFO may have been decided to be less deep than some length.
            ends = [
                length - 1
                for (chain, length), has in decided.items()
                if chain == ((index, 1),) and not has
            ]
            most_at = covering.most[index]
            maximum = min([*ends, *([] if most_at is None else [most_at])], default=None)
            self._most[index] = maximum
            self.is_empty |= maximum is not None and maximum < covering.least[index]
            program.add_column(covering.weights[index], covering.least[index], maximum)
        lengths: dict[Chain, set[int]] = {}
        for region in regions:
            for chain, limit in region.items():
                lengths.setdefault(chain, set()).add(limit + 1)
        for (chain, length), has in decided.items():
            if has:
                lengths.setdefault(chain, set()).add(length)
        self._columns: dict[Length, int] = {}
        for chain, limits_of_chain in lengths.items():
            self._add_chain(chain, sorted(limits_of_chain), total_depth(chain, covering.least) or 0)
        for region in regions:
            ways = [self._columns[chain, limit + 1] for chain, limit in region.items()]
            self.is_empty |= not any(program.most[way_column] for way_column in ways)
            # Covering constraint: at least one chain of the region exceeds its limit.
            program.add_row([(way_column, -1) for way_column in ways], -1)

    def _add_chain(self, chain: Chain, lengths: Sequence[int], base: int) -> None:
        """A chain of FIFOs is as long as the longest of its lengths says, and no less than `base`."""
        decided = [
            (limit, has)
            for (chain_decided, limit), has in self._decided.items()
            if chain_decided == chain
        ]
        maximum, before = total_depth(chain, self._most), base
        terms = [(self._column[fifo], -times) for fifo, times in chain]
        for length in lengths:
            must = any(has and length <= limit for limit, has in decided)
            may = (maximum is None or maximum >= length) and all(
                has or length < limit for limit, has in decided
            )
            column = self.program.add_column(0, int(must), int(may))
            self.is_empty |= must and not may
            if before != base:
                # Monotonic columns: a chain that reaches a length reaches all smaller lengths.
                self.program.add_row([(column, 1), (column - 1, -1)], 0)
            self._columns[chain, length] = column
            terms.append((column, length - before))
            before = length
        self.program.add_row(terms, -base)

    def unsure(self, columns: Sequence[float]) -> Length:
        """Return the length that is least decided in a solution, or a depth if all are decided."""
        doubt = {length: min(columns[at], 1 - columns[at]) for length, at in self._columns.items()}
        # Most fractional branching.
        best = max(doubt, key=lambda column: doubt[column], default=None)
        if best is not None and doubt[best] > CLOSE:
            return best
        depths = dict(zip(self._places, columns, strict=False))
        broken = [index for index, depth in depths.items() if depth % 1 > CLOSE < 1 - depth % 1]
        for index in [*broken, *depths]:
            length = ((index, 1),), ceil(depths[index] - CLOSE)
            if length not in self._decided:
                return length
        return self.any_length()

    def any_length(self) -> Length:
        """Return a length that is not decided yet."""
        for length, column in self._columns.items():
            if self.program.least[column] != self.program.most[column]:
                return length
        raise AssertionError(
            "all lengths are decided, and yet it is open which depths are cheapest"
        )


def _is_within(less: Limits, more: Limits) -> bool:
    """Whether all depths of one region are in the other."""
    return all(chain in less and less[chain] <= limit for chain, limit in more.items())
