"""Granularity of each layer's output (whole, some rows a firing), and the rates that follow from it."""

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
    """Rows of a part: one number for all layers, other numbers for some. None is the whole tensor.

    A layer that needs all of an input at once is executed whole, whatever is said here.
    joins_wait: additions and concatenations write their whole output with their last part, as in
    the published accounting of SAMOS 2020; a graph for counting, not one that can run, since the
    rows in between would be nowhere.
    """

    rows: int | None = 1
    layers: Mapping[str, int | None] = field(default_factory=dict)
    joins_wait: bool = False

    def __post_init__(self) -> None:
        for rows in (self.rows, *self.layers.values()):
            if rows is not None and rows < 1:
                raise InvalidNetwork(f"parts of {rows} rows; expected at least 1, or the whole")

    def check_names(self, network: Network) -> None:
        """Raise InvalidNetwork if a layer it speaks of does not exist."""
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
    if rows is None or not _works_by_rows(layer, inputs):
        return (height,)
    return (*range(rows, height, rows), height)


def require_few_parts(network: Network, granularity: Granularity = ROWS) -> None:
    """Raise InvalidNetwork where all layers together have more parts than can be listed.

    To be asked before parts are listed; takes no time for a part.
    """
    count, most, largest = 0, 0, ""
    for layer in network.layers:
        rows = granularity.layers.get(layer.name, granularity.rows)
        if rows is not None and _works_by_rows(layer, network.input_shapes(layer)):
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


def _works_by_rows(layer: Layer, inputs: Sequence[Shape]) -> bool:
    return all(
        layer.operator.rows_needed(index, inputs, layer.shape) is not None
        for index in range(len(inputs))
    )


def written_rows(
    layer: Layer, inputs: Sequence[Shape], granularity: Granularity
) -> tuple[int, ...]:
    """Return the rows that each phase of the layer writes."""
    ends = parts(layer, inputs, granularity)
    # Whether the layer brings several branches together.
    if granularity.joins_wait and (layer.operator.reads_once and len(layer.inputs) > 1):
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

    The general row rule: consumed and released rows are running totals, clipped to the input, so
    that any kernel, stride, padding and dilation gives rates that are never negative and add up.
    """
    height = inputs[index].rows
    ends = parts(layer, inputs, granularity)
    needed = layer.operator.rows_needed(index, inputs, layer.shape)
    if needed is None or len(ends) == 1:
        return ReadingRates(consumed=(height,), released=(height,), kept=(0,))
    # The last phase also takes, and gives back, the rows that no window needs.
    starts = (0, *ends[:-1])
    first = [min(max(needed(start)[0], 0), height) for start in starts]
    through: list[int] = []
    for end in ends[:-1]:
        before = through[-1] if through else 0
        through.append(min(height, max(before, needed(end - 1)[1])))
    through.append(height)
    freed = [min(after, here) for after, here in zip(first[1:], through[:-1], strict=True)]
    freed.append(height)
    return ReadingRates(
        consumed=differences(through),
        released=differences(freed),
        kept=tuple(here - gone for here, gone in zip(through, freed, strict=True)),
    )
