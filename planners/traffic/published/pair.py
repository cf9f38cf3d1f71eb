"""Two convolutions that share a buffer as in the slides of Liao et al.

The map between the two stays in the buffer, whole or a part at a time: of each part first the nest of
the first layer, then that of the second. What later parts need of the map between goes to DRAM behind
the first nest and comes back before the second of those parts. Weights come once for each part. Input
that windows of several parts see comes for each of them. The traffic is T1 + T2 with T1 = T_I + T_W and
T2 = T_W + 2 T_O, and the borders.

In the buffer are the part of the map between, one map of the input or of the output, and of the
weights those that the innermost loop runs over: of all filters of the first layer at one place of one
channel, of all channels of a filter of the second layer at one place. Another operand of an addition
behind a layer, which the slides do not have, comes an element at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from cnn2csdf.geometry import Places
from planners.plan.regions import COLUMNS, ROWS
from planners.traffic.fused.accounting import CutTables, moved
from planners.traffic.fused.group import FusedGroup
from planners.traffic.fused.schedule import AGAIN, SENT, FusedSchedule
from planners.traffic.fused.search import grids

Part = tuple[Places, ...]  # along one axis: of input, between, output what is made; between needed


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTraffic:
    """The bytes that a pair moves by the printed formula, and holds.

    parts: along rows, along columns. borders: written, and read back. output: moved twice, as
    printed. held: the most at a time, and of it in the first and in the second nest.
    """

    group: FusedGroup
    parts: tuple[int, int]
    input: int
    weights: int
    borders: int
    output: int
    held: tuple[int, int]

    @property
    def total(self) -> int:
        """T1 + T2 and the borders."""
        return self.input + self.weights + self.borders + self.output

    @property
    def count(self) -> int:
        """Parts."""
        return self.parts[0] * self.parts[1]

    def to_json(self) -> dict[str, Any]:
        """Return how the pair runs as a JSON value."""
        return {
            "parts": list(self.parts),
            "borders": [SENT.value] * 2,
            "input_borders": [AGAIN.value] * 2,
        }


def pair_traffic(group: FusedGroup, parts: tuple[int, int]) -> PairTraffic:
    """Return what a pair moves and holds that is cut into so many parts."""
    return _counted(CutTables(group), parts)


def least_pair_traffic(group: FusedGroup, room: int) -> PairTraffic | None:
    """Return the cut that moves least in a buffer of so many bytes; None where none fits.

    Of the even cuts that `fused.search` looks at; ties go to fewer parts, and to parts of columns.
    """
    tables, best = CutTables(group), None
    weights, once = sum(tables.weights), 2 * tables.outputs
    for parts in sorted(grids(group), key=lambda one: (one[0] * one[1], one)):
        if best is not None and parts[0] * parts[1] * weights + once >= best.total:
            break
        found = _counted(tables, parts)
        if max(found.held) <= room and (best is None or found.total < best.total):
            best = found
    return best


def _counted(tables: CutTables, parts: tuple[int, int]) -> PairTraffic:
    schedule = FusedSchedule(
        group=tables.group, parts=parts, borders=(SENT, SENT), input_borders=(AGAIN, AGAIN)
    )
    found = moved(schedule, tables)
    return PairTraffic(
        group=tables.group,
        parts=parts,
        input=found.input,
        weights=found.weights,
        borders=found.borders_written + found.borders_read,
        output=2 * found.output,
        held=_held(tables, parts),
    )


def _held(tables: CutTables, parts: tuple[int, int]) -> tuple[int, int]:
    """Bytes in the buffer in the first and in the second nest, of the part with most."""
    first, second = tables.group.layers
    between = tables.sizes.maps[1]  # bytes of a place
    of_first = first.filters // first.groups * first.weight_bytes + sum(first.beside_bytes)
    of_second = second.channels // second.groups * second.weight_bytes
    of_second += sum(second.beside_bytes)
    nests = [0, 0]
    for rows, columns in product(*map(set, axis_parts(tables, parts))):
        read, made, written, needed = (
            one.bit_count() * other.bit_count() for one, other in zip(rows, columns, strict=True)
        )
        read *= tables.group.input_bytes
        written *= second.output_bytes
        nests[0] = max(nests[0], between * made + read + of_first)
        nests[1] = max(nests[1], between * needed + written + of_second)
    return nests[0], nests[1]


def axis_parts(tables: CutTables, parts: tuple[int, int]) -> Iterator[list[Part]]:
    """Yield for rows and for columns what each part reads, makes, writes and needs."""
    for axis in (ROWS, COLUMNS):
        cut = tables.cut(axis, parts[axis], SENT, AGAIN)
        yield list(zip(*cut.made, cut.needed[1], strict=True))
