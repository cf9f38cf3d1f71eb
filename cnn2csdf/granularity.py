"""Granularity of each layer's output, whole or a number of rows a phase, and the rates that follow.

A part is the rows of an output that one phase of the layer writes. The row rule of an operator
(`rows_needed`) gives the input rows that a part needs: its phase consumes them, and releases the rows
that no later phase needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from cnn2csdf.network import Layer, Network, Shape
from csdf.arguments import public
from csdf.errors import InvalidNetwork


@public
@dataclass(frozen=True, slots=True, kw_only=True)
class Granularity:
    """Rows of a part: `rows` for all layers but those in `layers`. None is the whole tensor.

    A layer that needs all of an input at once has a single part. joins_wait: additions and
    concatenations write their whole output with their last part, as in the published accounting of
    SAMOS 2020. Such a graph counts buffers and cannot run: earlier parts would have no space.
    """

    rows: int | None = 1
    layers: Mapping[str, int | None] = field(default_factory=dict)
    joins_wait: bool = False

    def __post_init__(self) -> None:
        for rows in (self.rows, *self.layers.values()):
            if rows is not None and rows < 1:
                raise InvalidNetwork(f"parts of {rows} rows; expected at least 1, or the whole")

    def check_names(self, network: Network) -> None:
        """Raise InvalidNetwork for a name in `layers` that no layer has."""
        for name in self.layers:
            network.layer(name)


WHOLE = Granularity(rows=None)
ROWS = Granularity(rows=1)

# Parts of all tensors. Each takes 3 microseconds and 200 bytes in csdf fit, more in a graph: at the
# limit, a plan takes 2 seconds beyond its budget and 150 MB, at eight times as many 13 s and 1 GB.
MOST_PARTS = 2**19
# Columns of all tensors: at twice as many, a plan of column strips takes 4 s beyond its budget.
MOST_COLUMNS = 2**22


def parts(layer: Layer, inputs: Sequence[Shape], granularity: Granularity) -> tuple[int, ...]:
    """Return where each part of the layer's output ends: rows written after each phase."""
    height = layer.shape.rows
    rows = granularity.layers.get(layer.name, granularity.rows)
    if rows is None or not _is_row_by_row(layer, inputs):
        return (height,)
    return (*range(rows, height, rows), height)


def require_few_parts(network: Network, granularity: Granularity = ROWS) -> None:
    """Raise InvalidNetwork where all layers together have more parts than can be listed.

    To be asked before parts are listed; takes no time for a part.
    """
    count, most, largest = 0, 0, ""
    for layer in network.layers:
        rows = granularity.layers.get(layer.name, granularity.rows)
        if rows is not None and _is_row_by_row(layer, network.input_shapes(layer)):
            parts = -(-layer.shape.rows // rows)
            count += parts
            if parts > most:
                most, largest = parts, layer.name
    if count > MOST_PARTS:
        raise InvalidNetwork(
            f"network {network.name!r} has {count:,} parts of rows in all tensors, {most:,} of them in "
            f"layer {largest!r}; at most {MOST_PARTS:,} are listed: take a frame of fewer rows, whose "
            f"buffers by rows are as large"
        )


def require_few_columns(network: Network) -> None:
    """Raise InvalidNetwork where all layers together have more columns than column strips can list."""
    count = sum(layer.shape.width for layer in network.layers)
    if count > MOST_COLUMNS:
        widest = max(network.layers, key=lambda layer: layer.shape.width)
        raise InvalidNetwork(
            f"network {network.name!r} has {count:,} columns in all tensors, {widest.shape.width:,} of "
            f"them in layer {widest.name!r}; at most {MOST_COLUMNS:,} are listed: take a narrower frame"
        )


def _is_row_by_row(layer: Layer, inputs: Sequence[Shape]) -> bool:
    return all(
        layer.operator.rows_needed(index, inputs, layer.shape) is not None
        for index in range(len(inputs))
    )


def written_rows(
    layer: Layer, inputs: Sequence[Shape], granularity: Granularity
) -> tuple[int, ...]:
    """Return the rows that each phase of the layer writes."""
    ends = parts(layer, inputs, granularity)
    joins_branches = layer.operator.reads_once and len(layer.inputs) > 1
    if granularity.joins_wait and joins_branches:
        return (0,) * (len(ends) - 1) + (ends[-1],)
    return differences(ends)


def differences(totals: Sequence[int]) -> tuple[int, ...]:
    """Return what each entry adds to the one before: the inverse of running totals."""
    return tuple(now - before for before, now in zip((0, *totals), totals, strict=False))


def totals(amounts: Sequence[int]) -> tuple[int, ...]:
    """Return the running totals."""
    return tuple(accumulate(amounts))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRates:
    """The rows of an input that each phase of its consumer consumes, releases and keeps.

    A phase consumes rows when it first needs them, releases rows that no later phase needs, and
    keeps the rest for the next phase. Over a cycle it consumes and releases every row once.
    """

    consumed: tuple[int, ...]
    released: tuple[int, ...]
    kept: tuple[int, ...]


def reading_rates(
    layer: Layer, index: int, inputs: Sequence[Shape], granularity: Granularity
) -> ReadingRates:
    """Return the rates at which the layer reads its input of that index.

    Both are differences of running totals, clipped to the input and never decreasing, so that rates
    are never negative and their sum is the height of the input. For 5 rows and a kernel of 3 rows with
    a padding of 1, phases of one row consume 2 1 1 1 0 rows, and release 0 1 1 1 2.
    """
    height = inputs[index].rows
    ends = parts(layer, inputs, granularity)
    needed = layer.operator.rows_needed(index, inputs, layer.shape)
    if needed is None or len(ends) == 1:
        return ReadingRates(consumed=(height,), released=(height,), kept=(0,))
    # Running totals after each phase; the last phase also consumes and releases unneeded rows.
    consumed: list[int] = []
    for end in ends[:-1]:
        before = consumed[-1] if consumed else 0
        consumed.append(min(height, max(before, needed(end - 1)[1])))
    released = [
        min(max(needed(end)[0], 0), height, total)
        for end, total in zip(ends[:-1], consumed, strict=True)
    ]
    consumed.append(height)
    released.append(height)
    return ReadingRates(
        consumed=differences(consumed),
        released=differences(released),
        kept=tuple(total - free for total, free in zip(consumed, released, strict=True)),
    )
