"""Everything one can do with a group: bytes, time and work of each choice, from sums over sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.platforms import Platform
from csdf.stopping import Budget, Stop, stop_of
from planners.fusion.chains import Chain
from planners.fusion.configurations import Group, single
from planners.fusion.cost import LayerCost, Price, price_of
from planners.fusion.memory import last_steps, whole_buffers
from planners.fusion.streaming import Streamed, Streams
from planners.fusion.tilings import TilesTo, Tilings
from planners.fusion.ways import Scratch, Way
from planners.plan import Buffer, most_alive
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
    """A group, the most bytes alive while it works, and what it costs.

    bound: no buffers with which the group works this way have fewer bytes alive.
    """

    memory: int
    cost: Cost
    group: Group
    bound: int


def options(
    chain: Chain, terms: Terms, budget: Budget = None, streams: Streams | None = None
) -> Iterator[Option]:
    """Yield every choice for every group, those that work layer by layer at once.

    budget: a stop, or seconds; ends the work by GaveUp. streams: of the chain, where the caller
    has use for them later.
    """
    stop = stop_of(budget)
    price = price_of(terms.platform)
    if Way.WHOLE in terms.ways:
        yield from (_whole(chain, first, terms, price) for first in range(len(chain.sections)))
    if Way.ROWS in terms.ways:
        yield from _by_rows(chain, terms, stop, streams or Streams(chain, terms.element_bytes))
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
    return Option(memory, cost, single(chain, first, first + 1, Way.WHOLE), memory)


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


def _by_rows(chain: Chain, terms: Terms, stop: Stop, streams: Streams) -> Iterator[Option]:
    """Groups that stream rows: their buffers and their times are sums over their sections.

    A section of one that does not work by rows is streamed as well as it can be.
    """
    found: list[Streamed] = []
    works: list[int] = []
    for last in range(len(chain.sections)):
        stop.look()
        found.append(streams.streamed(last, terms.platform, terms.scratch, stop))
        works.append(_work(chain.network, chain.layers(last, last + 1)))
        yield from reversed(list(_streaming_to(chain, last, found, works, terms)))


def _work(network: Network, layers: Sequence[Layer]) -> int:
    return sum(multiply_accumulates(one, network.input_shapes(one)) for one in layers)


def _streaming_to(
    chain: Chain, last: int, found: Sequence[Streamed], works: Sequence[int], terms: Terms
) -> Iterator[Option]:
    """The groups that stream rows and end with one section, the shortest first."""
    result = _bytes(chain, chain.sections[last].result, terms)
    inner = bound = scratch = 0
    cost = NOTHING
    for first in range(last, -1, -1):
        part = found[first]
        inner, bound = inner + part.inner, bound + part.inner_bound
        scratch = max(scratch, part.scratch)
        cost = cost.plus(Cost(part.nanoseconds, works[first]))
        beside = _bytes(chain, chain.sections[first].source, terms) + result + scratch
        yield Option(
            beside + inner + found[last].exit,
            cost,
            single(chain, first, last + 1, Way.ROWS),
            beside + bound + found[last].exit_bound,
        )


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
            memory,
        )
