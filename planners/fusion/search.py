"""The best configurations of a chain under a memory limit: all choices of groups, dynamic programming.

Each group works whole, by rows or by tiles, with the bytes, the time and the work that follow from
sums over its sections. The memory of a configuration is the most that any of its groups needs; its
cost is the sum. So the best ways to work the first sections are extended by one group after the
other, and of those that end with the same section only the pairs of memory and cost survive that no
other improves on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from cnn2csdf.network import Layer
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.platforms import Platform
from csdf.time_limit import Budget, Stop, stop_of
from planners.arena.problem import Buffer, most_alive
from planners.fusion.configurations import Chain, Configuration, Group, single
from planners.fusion.tiles import last_steps, scratch_bytes, whole_buffers
from planners.fusion.tilings import LayerCost, Price, TilesTo, Tilings, price_of
from planners.fusion.ways import Scratch, Way
from planners.memory.line_buffers import Keeping, kept_rows
from planners.memory.search import PlanTimes
from planners.memory.stages import StageTable
from planners.plan.accumulators import sums_over_rows
from planners.plan.plan import Mode, Stage
from planners.tiling.regions import Needs

UP_TO_FIVE = tuple((down, across) for down in range(1, 6) for across in range(1, 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what a choice is judged, and what choices there are.

    element_bytes: of each element and each trained number; None: as the network stores them.
    tilings: tiles down and across; ways: which ways of working are allowed.
    """

    platform: Platform
    scratch: Scratch = Scratch.NONE
    element_bytes: int | None = 4
    tilings: tuple[tuple[int, int], ...] = UP_TO_FIVE
    ways: frozenset[Way] = frozenset(Way)


class Cost(NamedTuple):
    """Time first, then work: what is added over groups, and compared in this order."""

    nanoseconds: int
    multiply_accumulates: int

    def plus(self, other: Cost) -> Cost:
        """Return both together."""
        return Cost(
            self.nanoseconds + other.nanoseconds,
            self.multiply_accumulates + other.multiply_accumulates,
        )


NOTHING = Cost(0, 0)


class Option(NamedTuple):
    """A group, the most bytes alive while it works, and what it costs."""

    memory: int
    cost: Cost
    group: Group


def options(chain: Chain, terms: Terms, budget: Budget = None) -> Iterator[Option]:
    """Yield every choice for every group, those that work layer by layer at once.

    budget: a stop, or seconds; ends the work by GaveUp.
    """
    stop = stop_of(budget)
    price = price_of(terms.platform)
    if Way.WHOLE in terms.ways:
        yield from (_whole(chain, first, terms, price) for first in range(len(chain.sections)))
    if Way.ROWS in terms.ways:
        yield from _by_rows(chain, terms, stop)
    ways = [way for way in (Way.RECOMPUTE, Way.KEEP) if way in terms.ways]
    needs, tilings = Needs(chain.network), Tilings.of(terms.tilings)
    for upto in range(1, len(chain.sections) + 1) if ways else ():
        tiles = TilesTo(
            needs,
            chain,
            upto,
            tilings,
            price,
            scratch=terms.scratch,
            element_bytes=terms.element_bytes,
        )
        for way in ways:
            for option in _tiled(chain, upto, way, tiles, terms):
                stop.look()
                yield option


def _bytes(chain: Chain, name: str, terms: Terms) -> int:
    layer = chain.network.layer(name)
    return layer.shape.elements * (terms.element_bytes or layer.element_bytes)


def _whole(chain: Chain, first: int, terms: Terms, price: Price) -> Option:
    """A section layer by layer; several of them need no more than the most of them."""
    section, network = chain.sections[first], chain.network
    layers = chain.layers(first, first + 1)
    given = _bytes(chain, section.source, terms), _bytes(chain, section.result, terms)
    buffers = (
        Buffer(name="in", size=given[0], start=0, end=last_steps(layers)[section.source] + 1),
        Buffer(name="out", size=given[1], start=len(layers) - 1, end=len(layers)),
        *whole_buffers(network, layers, terms.scratch, begin=0, element_bytes=terms.element_bytes),
    )
    cost = NOTHING
    for layer in layers:
        time = LayerCost(
            network=network, layer=layer, price=price, element_bytes=terms.element_bytes
        ).whole()
        cost = cost.plus(Cost(time, multiply_accumulates(layer, network.input_shapes(layer))))
    memory = most_alive(buffers)
    return Option(memory, cost, single(chain, first, first + 1, Way.WHOLE))


def least_memory(chain: Chain, terms: Terms) -> int:
    """Return bytes that no configuration is below, without a look at tiles or rows.

    A section works layer by layer, or in a group whose input and output lie whole in memory.
    """
    ends = [_bytes(chain, chain.frame, terms)]
    ends += [_bytes(chain, section.result, terms) for section in chain.sections]
    before = list(accumulate(ends, min))
    behind = list(accumulate(reversed(ends), min))[::-1]
    least = [given + result for given, result in zip(before, behind[1:], strict=False)]
    if Way.WHOLE in terms.ways:
        price = price_of(terms.platform)
        wholes = [_whole(chain, first, terms, price).memory for first in range(len(least))]
        least = list(map(min, least, wholes)) if len(terms.ways) > 1 else wholes
    return max(least)


def _by_rows(chain: Chain, terms: Terms, stop: Stop) -> Iterator[Option]:
    rows = Rows(chain, terms)
    for last in range(len(chain.sections)):
        stop.look()
        yield from reversed(list(rows.ending(last)))


class Rows:
    """Groups that stream rows, each layer a stage of its own: lines, as `rows` of csdf fit."""

    def __init__(self, chain: Chain, terms: Terms) -> None:
        self._chain, self._terms = chain, terms
        self.table = StageTable(chain.network, element_bytes=terms.element_bytes)
        self._times = PlanTimes(self.table, terms.platform, terms.element_bytes)
        self._unit = max(self.table.bytes_of(name) for name in chain.course.layers)
        self._found: dict[tuple[int, bool, bool], _KeptRows] = {}
        self._scratch: list[int] = []
        self._costs: list[Cost] = []

    def stages(self, first: int, upto: int) -> tuple[Stage, ...]:
        """Return the stages of some sections; what sums up a map does so row by row."""
        network = self._chain.network
        return tuple(
            Stage(
                layers=(layer.name,),
                mode=Mode.ACCUMULATING if sums_over_rows(network, layer) else Mode.ROWS,
            )
            for layer in self._chain.layers(first, upto)
        )

    def cost(self, first: int, upto: int) -> Cost:
        """Return time and work of some sections."""
        stages = self.stages(first, upto)
        work = sum(self.table.geometry(stage).work for stage in stages)
        return Cost(sum(map(self._times.of_stage, stages)), work)

    def scratch(self, layer: Layer) -> int:
        """Return the bytes of scratch for one row of a layer."""
        terms, width = self._terms, layer.shape.width
        return scratch_bytes(self._chain.network, layer, width, terms.scratch, terms.element_bytes)

    def ending(self, last: int) -> Iterator[Option]:
        """Yield the groups that end with a section, the shortest first; sections come in order.

        Lines and times add up over sections; of what comes and goes with a firing the most counts.
        """
        chain, terms = self._chain, self._terms
        result = _bytes(chain, chain.sections[last].result, terms)
        self._scratch.append(max(map(self.scratch, chain.layers(last, last + 1))))
        self._costs.append(self.cost(last, last + 1))
        lines = passing = scratch = 0
        cost = NOTHING
        for first in range(last, -1, -1):
            begun = self._kept(first, is_first=True, is_last=first == last)
            scratch, cost = max(scratch, self._scratch[first]), cost.plus(self._costs[first])
            beside = _bytes(chain, chain.sections[first].source, terms) + result + scratch
            pool = max(passing, begun.passing)
            memory = beside + lines + begun.lines + -(-pool // self._unit) * self._unit
            yield Option(memory, cost, single(chain, first, last + 1, Way.ROWS))
            if first:
                going = self._kept(first, is_first=False, is_last=first == last)
                lines, passing = lines + going.lines, max(passing, going.passing)

    def _kept(self, number: int, *, is_first: bool, is_last: bool) -> _KeptRows:
        """Return what a section keeps, and what passes, at this place of a group.

        It depends on the neighbours alone: between two sections a single tensor is alive, so that the
        stages behind it ask for its rows one by one, however far the group goes on.
        """
        key = number, is_first, is_last
        if key not in self._found:
            begin, upto = number - (not is_first), number + 1 + (not is_last)
            found = [self.table.geometry(stage) for stage in self.stages(begin, upto)]
            firings = [one.firings for one in found]
            keeping = {one.result: Keeping.LINE for one in firings}
            keeping[firings[-1].result] = Keeping.WHOLE
            sizes = {one.result: self.table.row_bytes(one.result) for one in firings}
            kept = kept_rows(firings, sizes, [0] * len(firings), keeping)
            section = self._chain.sections[number]
            inside = {section.source, *section.layers[:-1]}
            own = set(section.layers)
            self._found[key] = _KeptRows(
                sum(rows * sizes[name] for name, rows in kept.rows.items() if name in inside)
                + sum(one.accumulator for one in found if one.firings.result in own),
                max(
                    size
                    for one, size in zip(firings, kept.passing, strict=True)
                    if one.result in own
                ),
            )
        return self._found[key]


class _KeptRows(NamedTuple):
    """Bytes of lines and sums of a section, and the most that come and go with one of its firings."""

    lines: int
    passing: int


def _tiled(chain: Chain, upto: int, way: Way, tiles: TilesTo, terms: Terms) -> Iterator[Option]:
    """The groups that end with one section and work tile by tile."""
    result = _bytes(chain, chain.sections[upto - 1].result, terms)
    for found in tiles.groups(keeps=way is Way.KEEP):
        given = _bytes(chain, chain.sections[found.first].source, terms)
        memory = given + result + found.bytes
        yield Option(
            memory,
            Cost(found.nanoseconds, found.multiply_accumulates),
            Group(first=found.first, upto=upto, way=way, grid=found.grid),
        )


class FusionPoint(NamedTuple):
    """A configuration with the most bytes alive in it and its cost."""

    memory: int
    cost: Cost
    groups: Configuration
    parts: int  # groups that work by parts


def front(options: Iterable[Option], sections: int) -> list[FusionPoint]:
    """Return the points no other improves on, by growing memory and falling cost.

    Empty where no groups of the options cover all sections. Dynamic programming over cuts, exact in
    the memory and cost that the options state.
    """
    by_end: list[list[Option]] = [[] for _ in range(sections + 1)]
    for option in options:
        by_end[option.group.upto].append(option)
    best: list[list[FusionPoint]] = [[FusionPoint(0, NOTHING, (), 0)]]
    for upto in range(1, sections + 1):
        best.append(_extended(best, _useful(by_end[upto])))
    return best[-1]


def _extended(
    best: Sequence[Sequence[FusionPoint]], options: Sequence[Option]
) -> list[FusionPoint]:
    """The points that end with these options and that no other improves on.

    Of configurations that are equal otherwise, those with fewer groups that work by parts stay.
    """
    candidates = [
        (
            max(point.memory, option.memory),
            point.cost.nanoseconds + option.cost.nanoseconds,
            point.cost.multiply_accumulates + option.cost.multiply_accumulates,
            point.parts + (option.group.way is not Way.WHOLE),
            number,
            place,
        )
        for number, option in enumerate(options)
        for place, point in enumerate(best[option.group.first])
    ]
    kept: list[FusionPoint] = []
    for memory, nanoseconds, work, parts, number, place in sorted(candidates):
        cost = Cost(nanoseconds, work)
        if not kept or cost < kept[-1].cost:
            group = options[number].group
            kept.append(FusionPoint(memory, cost, (*best[group.first][place].groups, group), parts))
    return kept


def best_under(points: Sequence[FusionPoint], memory: int) -> FusionPoint | None:
    """Return the point of least cost within a memory limit; None if none fits."""
    place = bisect_right(points, memory, key=lambda point: point.memory)
    return points[place - 1] if place else None


def merged(groups: Configuration) -> Configuration:
    """Return the configuration with neighbouring groups that work layer by layer made one."""
    found: list[Group] = []
    for group in groups:
        if found and group.way is Way.WHOLE and found[-1].way is Way.WHOLE:
            before = found.pop()
            group = Group(first=before.first, upto=group.upto, way=Way.WHOLE, grid=group.grid)
        found.append(group)
    return tuple(found)


def _useful(options: Sequence[Option]) -> list[Option]:
    """The options of each group that no other of the same group improves on."""
    by_first: dict[int, list[Option]] = {}
    for option in options:
        by_first.setdefault(option.group.first, []).append(option)
    return [option for same in by_first.values() for option in _lowest(same)]


def _lowest(options: Sequence[Option]) -> list[Option]:
    kept: list[Option] = []
    for option in sorted(options, key=lambda one: (one.memory, one.cost)):
        if not kept or option.cost < kept[-1].cost:
            kept.append(option)
    return kept
