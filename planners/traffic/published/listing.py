"""The nests of a pair as the slides of Liao et al. write them: indices from 1, upper ends exclusive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from planners.traffic.fused.cut_tables import CutTables
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.reach import Places
from planners.traffic.published.pair import PairTraffic, axis_parts

SHOWN_PARTS = (
    4  # all nests of so many parts are listed; of more, those of the first two and the last
)


class _Place(NamedTuple):
    """What one part works on along one axis: made of the map between, made of the output."""

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
