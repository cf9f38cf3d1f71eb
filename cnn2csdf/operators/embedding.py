"""Embedding: rows of a trained table, selected by the elements of the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cnn2csdf.arrays import Array
from cnn2csdf.operators.operator import Operator, RowsNeeded, map_dims, same_row
from cnn2csdf.part import OutputRows, Types
from cnn2csdf.shape import Dims, Shape
from csdf.errors import InvalidNetwork

__all__ = ["Embedding", "ScaledEmbedding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(Operator):
    """Rows of a trained table: each element of a map of one channel is the index of a row.

    A negative index counts from the end of the table. Indices are clipped to the table.
    """

    depends_on_all = True
    half_roles = ("table",)
    entries: int
    width: int

    @property
    def index_limit(self) -> int:
        return self.entries

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        channels, *places = map_dims(self, inputs)
        if channels != 1 or min(self.entries, self.width) < 1:
            raise InvalidNetwork(f"{self.in_words()} of {channels} numbers at each place")
        return (self.width, *places)

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded:
        return same_row

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return {"table": (self.entries, self.width)}

    def computed(self, part: OutputRows) -> Array:
        indices = part.inputs[0].rows(part.begin, part.end)[0].astype(np.int64)
        rows_read = np.where(indices < 0, indices + self.entries, indices)
        table = part.weights["table"]
        rows: Array = np.take(table, rows_read, axis=0, mode="clip")
        return rows.transpose(2, 0, 1)

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return rows of a table that has the types of the result."""
        return self.computed(part)

    def in_words(self) -> str:
        return f"embedding of {self.entries} entries"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledEmbedding(Embedding):
    """Rows of a table of int8 in floating point. scales: of the table, one or one for each row."""

    has_integer_weights = True
    scales: tuple[float, ...]

    def derived_arrays(self, types: Types, output: Shape) -> Mapping[str, Array]:
        return {"scales": np.array(self.scales, np.float32)}

    def computed(self, part: OutputRows) -> Array:
        factors = np.array(self.scales, np.float32)[:, None]
        table = part.weights["table"].astype(np.float32) * factors
        return Embedding.computed(self, part._replace(weights={"table": table}))
