"""The least traffic of a network as printed by Liao et al.: layers alone, and pairs of convolutions.

A layer alone moves T = T_I + T_W + 2 T_O by the best of our loop nests, with input that tiles share
read again: every partial result is read and written, the first reading too. Layers without weights,
which the slides do not have, read and write once.

The nests of a pair as the slides of Liao et al. write them: indices from 1, upper ends exclusive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from cnn2csdf.geometry import Places
from cnn2csdf.network import Network
from csdf.outcome import Why
from csdf.time_limit import Stop
from planners.traffic.fused.accounting import CutTables
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.stage_groups import groups_of
from planners.traffic.fused.stages import Stage
from planners.traffic.nest import Halo
from planners.traffic.network_traffic import GroupTraffic, NetworkSearch, pair_fused, stage_alone
from planners.traffic.published.pair import PairTraffic, axis_parts, least_pair_traffic

PAIR = 2


class PublishedWhy(Why):
    """Reasons for the answer about traffic as printed."""

    LEAST = (
        "no loop nest of a layer with up to two levels of tiles and no even cut of a pair moves "
        "less by the printed formulas; the bound holds for any schedule, with outputs once"
    )


class PublishedSearch(NetworkSearch):
    """Finds the least traffic by the printed formulas, for one buffer after another."""

    proof = PublishedWhy.LEAST

    def __init__(self, network: Network, element_bytes: int | None) -> None:
        super().__init__(network, element_bytes)
        self._pairs: dict[tuple[FusedGroup, int], PairTraffic | None] = {}

    def _alone(self, stage: Stage, buffer_bytes: int, stop: Stop) -> GroupTraffic:
        found = stage_alone(stage, buffer_bytes, stop, halo=Halo.RELOADED)
        if found.layer is None:
            return found
        once = found.layer.convolution.output_elements * stage.element_bytes
        return replace(found, output_bytes=found.output_bytes + once)

    def _starts(self, end: int, longest: int | None, buffer_bytes: int) -> Iterator[int]:
        """Yield the only stage that a pair could start with."""
        is_allowed = longest is None or longest >= PAIR
        if is_allowed and end >= PAIR and self._best_pair(end, buffer_bytes) is not None:
            yield end - PAIR

    def _best_pair(self, end: int, buffer_bytes: int) -> PairTraffic | None:
        """The best cut of the last two stages; None where they are no pair, or no cut fits."""
        group = self._pair(end)
        if group is None:
            return None
        key = group, buffer_bytes
        if key not in self._pairs:
            self._pairs[key] = least_pair_traffic(*key)
        return self._pairs[key]

    def _pair(self, end: int) -> FusedGroup | None:
        """Two convolutions, the second of which alone reads what the first makes."""
        first, second = self.stages[end - PAIR : end]
        if first.convolution is None or second.convolution is None:
            return None
        for group in groups_of(self.stages, end - PAIR, end):
            if group.is_chain and not group.skips and not group.written:
                return group
        return None

    def _fused(
        self, first: int, end: int, buffer_bytes: int, below: int, stop: Stop
    ) -> GroupTraffic | None:
        """The best cut of a pair, if it moves less than so many bytes."""
        stop.look()
        found = self._best_pair(end, buffer_bytes)
        if found is None or found.total >= below:
            return None
        return pair_fused(self.stages[first:end], found)


SHOWN_PARTS = (
    4  # all nests of so many parts are listed; of more, those of the first two and the last
)


class _Place(NamedTuple):
    """The places of a part along an axis: made of the map between, made of the output."""

    made: Places
    written: Places


def in_short(pair: PairTraffic) -> str:
    """Return the cut, and what it means for weights and borders."""
    if pair.count == 1:
        return "the map between stays whole"
    return (
        f"{pair.parts[0]}x{pair.parts[1]} parts, borders sent, of the input read again, "
        "all weights for each part"
    )


def nests(pair: PairTraffic, names: Sequence[str] = ("layer 1", "layer 2")) -> str:
    """Return the nests of a pair: two for each part, and what crosses between them."""
    down, across = axis_parts(CutTables(pair.group), pair.parts)
    parts = [
        (_Place(rows[1], rows[2]), _Place(columns[1], columns[2]))
        for rows, columns in product(down, across)
    ]
    lines: list[str] = []
    for number, (rows, columns) in enumerate(parts):
        if len(parts) > SHOWN_PARTS and 2 <= number < len(parts) - 1:
            lines += ["..."] if number == 2 else []
            continue
        lines += _of_part(pair.group, names, number, rows, columns)
        if number + 1 < len(parts):
            lines.append(
                "what later parts need of I2 goes to DRAM, and comes back before their nest 2"
            )
    return "\n".join(lines)


def _of_part(
    group: FusedGroup, names: Sequence[str], number: int, rows: _Place, columns: _Place
) -> Iterator[str]:
    first, second = group.layers
    yield f"nest {2 * number + 1}, {names[0]}, into the buffer"
    yield from _nest(first, rows.made, columns.made, steps=(first.filters, 1), held="I")
    yield f"nest {2 * number + 2}, {names[1]}"
    yield from _nest(second, rows.written, columns.written, steps=(1, second.channels), held="O")


def _nest(
    layer: FusedLayer, rows: Places, columns: Places, *, steps: tuple[int, int], held: str
) -> Iterator[str]:
    """The loops of one nest; steps: of filters and of channels in the tile loops."""
    deed = "I2 += I1 * W1" if held == "I" else "O += I2 * W2"
    loops = (
        f"mm = 1, {layer.filters + 1}, step {steps[0]}",
        f"cc = 1, {layer.channels // layer.groups + 1}, step {steps[1]}",
        f"oxx = {_range(columns)}  # {_counted(columns, 'column')}",
        f"oyy = {_range(rows)}  # {_counted(rows, 'row')}",
        f"[{held}]",
        f"fy = 1, {layer.rows.kernel + 1}",
        f"fx = 1, {layer.columns.kernel + 1}",
        "[W]",
        "oy, ox, c, m",
    )
    for depth, loop in enumerate(loops, 1):
        yield "  " * depth + (loop if loop.startswith("[") else f"for {loop}")
    yield "  " * (len(loops) + 1) + deed


def _range(places: Places) -> str:
    """First and behind the last of places that lie next to each other, from 1."""
    first = (places & -places).bit_length()
    return f"{first}, {places.bit_length() + 1}" if places else "1, 1"


def _counted(places: Places, what: str) -> str:
    count = places.bit_count()
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
