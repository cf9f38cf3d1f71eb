"""Tensors that stay from one frame to the next, by the names of their variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cnn2csdf.operators.moves import Input, Output
from cnn2csdf.shape import Dims, Shape

__all__ = ["Next", "Previous"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Previous(Input):
    """The numbers that a variable holds when a frame begins.

    begin: each number of the first frame, as it is stored;
    None where they differ: then they are parameters.
    """

    is_state = True
    variable: str
    begin: int | None = 0

    @property
    def state_variable(self) -> str:
        return self.variable

    def less_offset(self, offset: int, *, is_fixed_point: bool) -> Previous:
        return self if self.begin is None else replace(self, begin=self.begin - offset)

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        return {} if self.begin is not None else {"initial": self.dims}


@dataclass(frozen=True, slots=True, kw_only=True)
class Next(Output):
    """The numbers that a variable holds behind a frame: as many of the last rows as it has."""

    is_state = True
    variable: str

    @property
    def state_variable(self) -> str:
        return self.variable
