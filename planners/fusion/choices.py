"""Everything one can do with a group: bytes, time and work of each choice, from sums over sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from cnn2csdf.durations import Platform
from cnn2csdf.parameters import multiply_accumulates
from planners.fusion.chains import Chain
from planners.fusion.configurations import Group, Way, single
from planners.fusion.cost import LayerCost, Price, price_of
from planners.fusion.memory import Scratch, last_steps, most_alive, whole_buffers
from planners.fusion.regions import Needs
from planners.fusion.streaming import streamed
from planners.fusion.tilings import TilesTo, Tilings
from planners.plan import Buffer

UP_TO_FIVE = tuple((down, across) for down in range(1, 6) for across in range(1, 6))

Look = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what a choice is judged, and what choices there are.

    tilings: tiles down and across; ways: which ways of working are allowed.
    """

    platform: Platform
    scratch: Scratch = Scratch.IM2COL
    element_bytes: int = 4
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


def options(chain: Chain, terms: Terms, look: Look = lambda: None) -> Iterator[Option]:
    """Yield every choice for every group. look: called now and then; it may raise to end the work."""
    price = price_of(terms.platform)
    if Way.WHOLE in terms.ways:
        yield from (_whole(chain, first, terms, price) for first in range(len(chain.sections)))
    if Way.ROWS in terms.ways:
        yield from _by_rows(chain, terms, look)
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
            look()
            yield from _tiled(chain, upto, way, tiles, terms)


def _bytes(chain: Chain, name: str, terms: Terms) -> int:
    return chain.network.layer(name).shape.elements * terms.element_bytes


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
    return Option(most_alive(buffers), cost, single(chain, first, first + 1, Way.WHOLE))


def _by_rows(chain: Chain, terms: Terms, look: Look) -> Iterator[Option]:
    """Groups that stream rows: their buffers and their times are sums over their sections.

    A section of one that does not work by rows is streamed as well as it can be.
    """
    found, works = [], []
    for first, section in enumerate(chain.sections):
        look()
        layers = chain.layers(first, first + 1)
        found.append(
            streamed(
                chain.network,
                section.source,
                layers,
                terms.platform,
                terms.scratch,
                element_bytes=terms.element_bytes,
            )
        )
        works.append(
            sum(multiply_accumulates(one, chain.network.input_shapes(one)) for one in layers)
        )
    for first, section in enumerate(chain.sections):
        given = _bytes(chain, section.source, terms)
        inner = scratch = 0
        cost = NOTHING
        for upto in range(first + 1, len(chain.sections) + 1):
            part = found[upto - 1]
            inner, scratch = inner + part.inner, max(scratch, part.scratch)
            cost = cost.plus(Cost(part.nanoseconds, works[upto - 1]))
            result = _bytes(chain, chain.sections[upto - 1].result, terms)
            memory = given + result + inner + part.exit + scratch
            yield Option(memory, cost, single(chain, first, upto, Way.ROWS))


def _tiled(chain: Chain, upto: int, way: Way, tiles: TilesTo, terms: Terms) -> Iterator[Option]:
    """The groups that end with one section and work tile by tile."""
    result = _bytes(chain, chain.sections[upto - 1].result, terms)
    for found in tiles.groups(keeps=way is Way.KEEP):
        given = _bytes(chain, chain.sections[found.first].source, terms)
        yield Option(
            given + result + found.elements * terms.element_bytes,
            Cost(found.nanoseconds, found.multiply_accumulates),
            Group(first=found.first, upto=upto, way=way, grid=found.grid),
        )
