"""Rates of one connection, phase by phase, in rows of the tensor that it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cnn2csdf.granularity import Granularity, differences, parts
from cnn2csdf.network import Layer, Shape
from cnn2csdf.operators.operator import RowsNeeded


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRates:
    """The rows of an input that each phase of its consumer consumes, releases and keeps.

    A phase consumes rows when it first needs them, releases those that no later phase needs, and
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
    return _window_rates(ends, needed, height)


def _window_rates(ends: Sequence[int], needed: RowsNeeded, height: int) -> ReadingRates:
    """The last phase also takes, and gives back, the rows that no window needs."""
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
