"""Proof of the smallest depths of a design: decomposition into subsets of FIFOs that are solved alone.

The minimum cost of a subset, all other FIFOs being unbounded, is a lower bound of its share of any
sufficient depths, so the minima of disjoint subsets add up to a lower bound for the design. The proof
begins with small subsets whose FIFOs were found to be too small together, solves each, and merges
subsets whose optima do not suffice together, until the optima of all subsets suffice for the design.
A layer without slack separates subsets: FIFOs before and after it are never merged.

Each subset is solved by lazy constraint generation. The cheapest depths outside all known infeasible
regions (planners.fifo.region_covering) are simulated; if they are too slow, the critical cycle gives a
new region, which is enlarged before it is added. Storage can lie in any FIFO of a path, so an
enlarged region has few chains, and its limits rise together by equal cost: each region then
excludes all distributions of that cost over the path.

csdf.search excludes boxes and bounds the cost of leaving them by a dual ascent. That bound is too weak
for FIFOs: of the small ResNet at 2500 cycles it proves 3998 bits in 6,566 evaluations, where linear
programs over regions prove the optimum of 4898 bits in 767.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from planners.fifo.dominance import DepthExchanges
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import Chain, Infeasible, total_depth
from planners.fifo.region_covering import Depths, Look, RegionCovering

# Simulations in a subset before the next subset is searched. Each round doubles them, so that a hard
# subset does not use up the effort of the others.
EFFORT = 64
# A region with more chains than this is enlarged in all chains together only: enlarging each chain
# alone costs a bisection a chain.
MOST_SINGLY = 4

# Depths of FIFOs of a subset; all other FIFOs are unbounded or at a limit.
Trial = dict[int, int]


class _EffortSpent(Exception):
    """The simulations of one turn of a subset are used up."""


class DepthProof:
    """A search for the smallest depths of a design with a lower bound that rises to their cost.

    minimum: computed lower bounds of the depths; floor: the smallest depths that are allowed. weights:
    cost of an element in each FIFO. sufficient: sufficient depths of all FIFOs, once known. maximum:
    depths that at least one optimum does not exceed, by the dominance rules; None for no such limit.
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
        self._minimum, self._weights, self._floor, self._look = minimum, weights, floor, look
        self._exchanges = DepthExchanges(evaluator.graph.design, evaluator.alone)
        self._dominance_limits = self._exchanges.depth_limits(weights, floor)
        self.maximum = self._dominance_limits.depths
        self.sufficient: Depths = ()
        self._subsets: list[_FifoSubset] = []
        self._regions: list[Infeasible] = []
        self._simulation_limit = 0  # of the turn of a subset

    @property
    def lower_bound(self) -> int:
        """Return the proved lower bound on the cost of sufficient depths."""
        inside = {fifo for subset in self._subsets for fifo in subset.fifos}
        outside = self._minimum_cost(set(range(len(self._minimum))) - inside)
        return outside + sum(subset.lower_bound for subset in self._subsets)

    def _minimum_cost(self, fifos: Iterable[int]) -> int:
        return sum(self._weights[fifo] * self._minimum[fifo] for fifo in fifos)

    def proved(self, depths: Depths) -> Iterator[dict[int, int]]:
        """Yield the smallest depths of the solved subsets, by FIFO, after each turn of a subset.

        The last mapping holds all FIFOs, and only its depths are known to suffice. depths: sufficient
        depths, from which the first subsets are derived.
        """
        self.sufficient = depths
        self._add_first_subsets(depths)
        effort = EFFORT
        yield from self._solved(effort)
        while groups := self._insufficient_groups():
            for group in groups:
                self._merge(group)
            # Doubled effort: a hard subset is searched again at most a logarithmic number of times.
            effort *= 2
            yield from self._solved(effort)
        yield dict(enumerate(self._combined()))

    def _add_first_subsets(self, depths: Depths) -> None:
        """Add disjoint subsets: a FIFO at its minimum depth, and the FIFOs that are then too small.

        These subsets are small and soon solved, and their bounds add up.
        """
        inside = set[int]()
        for index in sorted(
            range(len(depths)),
            key=lambda index: (self._minimum[index] - depths[index]) * self._weights[index],
        ):
            if depths[index] == self._minimum[index] or index in inside:
                continue
            trial = (*depths[:index], self._minimum[index], *depths[index + 1 :])
            cycle = self._evaluator.critical_cycle(trial)
            group = () if cycle is None else self._irreducible(cycle.fifos, trial)
            # Subsets must be disjoint, else the bound would count the cost of a common FIFO twice.
            if group and not inside & set(group):
                self._add_subset(group, self._minimum_cost(group))
                inside |= set(group)

    def _add_subset(self, fifos: Iterable[int], bound: int) -> None:
        inside = set(fifos)
        weights = [weight if index in inside else 0 for index, weight in enumerate(self._weights)]
        limits = self._exchanges.depth_limits(weights, self._floor, self._dominance_limits)
        covering = RegionCovering(
            sorted(inside), self._minimum, limits.depths, self._weights, self._evaluator.spend
        )
        self._subsets.append(
            _FifoSubset(self._evaluator, covering, self._look_in_turn, self._regions, bound)
        )

    def _look_in_turn(self) -> None:
        self._look()
        if self._evaluator.simulations > self._simulation_limit:
            raise _EffortSpent

    def _solved(self, effort: int) -> Iterator[dict[int, int]]:
        """Search each open subset for this many simulations; a later round resumes the search."""
        # Small subsets first: their proofs are cheap and raise the bound early.
        for subset in sorted(self._subsets, key=lambda subset: len(subset.fifos)):
            if subset.depths is None:
                self._simulation_limit = self._evaluator.simulations + effort
                with suppress(_EffortSpent):
                    subset.search(self.sufficient)
                yield self._solved_depths()

    def _insufficient_groups(self) -> list[tuple[int, ...]]:
        """Return disjoint groups of FIFOs on critical cycles of the combined optima, if any."""
        trial: list[int | None] = list(self._combined())
        groups = []
        while (cycle := self._evaluator.critical_cycle(trial)) is not None:
            # By the dominance rules a FIFO at its limit need not grow.
            group = tuple(fifo for fifo in cycle.fifos if not self._is_at_limit(fifo, trial[fifo]))
            if not group:
                raise AssertionError("a dominance limit is too low: a critical cycle remains")
            groups.append(group)
            for fifo in group:
                trial[fifo] = self.maximum[fifo]
        return groups

    def _is_at_limit(self, fifo: int, depth: int | None) -> bool:
        limit = self.maximum[fifo]
        return depth is None or (limit is not None and depth >= limit)

    def _combined(self) -> Depths:
        """Return the optima of the solved subsets, and the minimum depth of all other FIFOs."""
        solved_depths = self._solved_depths()
        return tuple(solved_depths.get(index, depth) for index, depth in enumerate(self._minimum))

    def _solved_depths(self) -> dict[int, int]:
        return {
            index: depth
            for subset in self._subsets
            if subset.depths is not None
            for index, depth in zip(subset.fifos, subset.depths, strict=True)
        }

    def _merge(self, group: tuple[int, ...]) -> None:
        """Merge the subsets that are too small together, with the FIFOs of the group outside them."""
        short = set(self._irreducible(group, self._combined()))
        merged = [subset for subset in self._subsets if short & set(subset.fifos)]
        inside = {index for subset in merged for index in subset.fifos}
        self._subsets = [subset for subset in self._subsets if subset not in merged]
        # The bounds of disjoint subsets stay valid for their union.
        bound = sum(subset.lower_bound for subset in merged) + self._minimum_cost(short - inside)
        self._add_subset(inside | short, bound)

    def _irreducible(self, group: Sequence[int], depths: Depths) -> list[int]:
        """Return an irreducible subset of a group that is too small: without any FIFO it suffices.

        A deletion filter: FIFOs are unbounded one by one, the expensive ones first.
        """
        remaining, tried = list(group), set[int]()
        while untried := [index for index in remaining if index not in tried]:
            self._look()
            removed = max(untried, key=lambda index: self._weights[index])
            tried.add(removed)
            trial = list(self.maximum)
            for index in remaining:
                trial[index] = depths[index] if index != removed else trial[index]
            cycle = self._evaluator.critical_cycle(trial)
            if cycle is not None:
                remaining = [
                    index for index in cycle.fifos if index in remaining and index != removed
                ]
        return remaining


class _FifoSubset:
    """The search for the smallest depths of a subset of FIFOs, all others at their dominance limit.

    regions: infeasible regions of the whole design, shared by all subsets; the search appends to them.
    depths: the smallest, in the order of `fifos`; None while the search is open.
    """

    def __init__(
        self,
        evaluator: DesignEvaluator,
        covering: RegionCovering,
        look: Look,
        regions: list[Infeasible],
        bound: int,
    ) -> None:
        self._evaluator, self._covering, self._look = evaluator, covering, look
        self._regions, self._bound = regions, bound
        self._regions_used = 0
        self._weights, self._maximum = covering.weights, covering.maximum
        self.fifos = covering.fifos
        self._inside = set(covering.fifos)
        self._sufficient = set[Depths]()
        self.depths: Depths | None = None

    @property
    def lower_bound(self) -> int:
        """Return the proved lower bound on the cost of the depths of the subset."""
        return max(self._bound, self._covering.lower_bound)

    def search(self, sufficient: Depths) -> None:
        """Find the smallest depths. sufficient: depths of all FIFOs of the design that suffice."""
        covering = self._covering
        if all(
            maximum is None or depth <= maximum
            for depth, maximum in zip(sufficient, self._maximum, strict=True)
        ):
            # More depth outside the subset never slows the design.
            self._sufficient.add(tuple(sufficient[index] for index in self.fifos))
        self._add_new_regions()
        while (depths := covering.proposal(self._look, self._sufficient)) is not None:
            trial = dict(zip(self.fifos, depths, strict=True))
            region = self._region_around(trial)
            if region is None:
                self._sufficient.add(depths)
                continue
            # Each region costs simulations once and prunes all later proposals inside it.
            self._regions.append(self._enlarged(trial, region))
            self._add_new_regions()
        self.depths = min(
            self._sufficient, key=lambda candidate: (covering.cost(candidate), candidate)
        )

    def _region_around(self, trial: Trial) -> Infeasible | None:
        """Return infeasible depths of the design that include the trial; None if the trial suffices."""
        depths = list(self._maximum)
        for fifo, depth in trial.items():
            maximum = self._maximum[fifo]
            depths[fifo] = depth if maximum is None else min(depth, maximum)
        cycle = self._evaluator.critical_cycle(depths)
        return None if cycle is None else cycle.infeasible

    def _tried(self, trial: Trial) -> Infeasible | None:
        self._look()
        return self._region_around(trial)

    def _chains(self, region: Infeasible) -> list[list[int]]:
        """Return the FIFOs of each chain of a region that are in the subset."""
        chains_inside = [
            [index for index, _ in chain if index in self._inside] for chain in region.limits
        ]
        return [chain for chain in chains_inside if chain]

    def _add_new_regions(self) -> None:
        """Restrict new regions to the subset, all FIFOs outside at their maximum, and exclude them.

        Example: a chain of FIFO 3 inside and FIFO 4 outside with a limit of 20 becomes FIFO 3 alone
        with a limit of 20 - 8, if FIFO 4 has a maximum of 8. If the depth of FIFO 4 has no maximum,
        FIFO 4 alone can leave the region, which then says nothing about the subset.
        """
        for region in self._regions[self._regions_used :]:
            limits_inside: dict[Chain, int] = {}
            for chain, limit in region.limits.items():
                inner = tuple(hop for hop in chain if hop[0] in self._inside)
                outer = tuple(hop for hop in chain if hop[0] not in self._inside)
                depth_outside = total_depth(outer, self._maximum)
                if depth_outside is None or (not inner and depth_outside > limit):
                    break
                if inner:
                    remaining = limit - depth_outside
                    limits_inside[inner] = min(limits_inside.get(inner, remaining), remaining)
            else:
                self._covering.add(limits_inside)
        self._regions_used = len(self._regions)

    def _enlarged(self, depths: Trial, region: Infeasible) -> Infeasible:
        """Return a larger region around the depths: few chains, and high limits."""
        fifos, region = self._irreducible(depths, region)
        limits, region = self._raised_together(depths, fifos, region)
        chains = self._chains(region)
        if len(chains) <= MOST_SINGLY:
            for chain in sorted(chains, key=lambda chain: -self._weights[chain[0]]):
                limits, region = self._raised_alone(limits, chain, region)
        return region

    def _irreducible(self, depths: Trial, region: Infeasible) -> tuple[list[int], Infeasible]:
        """Return an irreducible subset of FIFOs that are too small together, and their region."""

        def fifos_of(region: Infeasible) -> list[int]:
            return sorted({fifo for chain in self._chains(region) for fifo in chain})

        remaining, tried = fifos_of(region), set[int]()
        while untried := [fifo for fifo in remaining if fifo not in tried]:
            removed = max(untried, key=lambda fifo: self._weights[fifo])
            tried.add(removed)
            narrower = self._tried({fifo: depths[fifo] for fifo in remaining if fifo != removed})
            if narrower is not None:
                remaining, region = fifos_of(narrower), narrower
        return remaining, region

    def _raised_together(
        self, depths: Trial, fifos: Sequence[int], region: Infeasible
    ) -> tuple[Trial, Infeasible]:
        """Raise the depths of these FIFOs by equal cost, while they remain too small."""

        def raised(cost: int) -> Trial:
            return {fifo: depths[fifo] + cost // self._weights[fifo] for fifo in fifos}

        weights = [self._weights[fifo] for fifo in fifos]
        # The first step adds an element to at least one FIFO; then doubling, then bisection.
        low, high = 0, max(weights)
        best = raised(0)
        while (wider := self._tried(trial := raised(high))) is not None:
            low, high, best, region = high, 2 * high, trial, wider
        # A difference below the cheapest element is not worth a simulation.
        while high - low > min(weights):
            middle = (low + high) // 2
            wider = self._tried(trial := raised(middle))
            if wider is None:
                high = middle
            else:
                low, best, region = middle, trial, wider
        return best, region

    def _raised_alone(
        self, limits: Trial, chain: Sequence[int], region: Infeasible
    ) -> tuple[Trial, Infeasible]:
        """Raise the depth of one FIFO of a chain, while the depths remain too small."""
        raised = next((fifo for fifo in chain if fifo in limits), None)
        if raised is None:
            return limits, region
        low, step, high = limits[raised], 1, None
        while high is None or high - low > 1:
            middle = low + step if high is None else (low + high) // 2
            wider = self._tried({**limits, raised: middle})
            if wider is None:
                high = middle
                continue
            low, step, region = middle, 2 * step, wider
            # Before a long gallop: a FIFO that may be unbounded drops out of the region.
            if high is None and step == 2:
                without = {fifo: limit for fifo, limit in limits.items() if fifo != raised}
                wider = self._tried(without)
                if wider is not None:
                    return without, wider
        return {**limits, raised: low}, region
