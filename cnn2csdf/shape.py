"""The shape of a tensor, as the layers see it: without a batch."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from csdf.errors import InvalidNetwork

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The dims of one tensor of one frame: (channels, height, width), or any others.

    Running row by row cuts the height. A tensor of another rank than three is a single row.
    """

    dims: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.dims or min(self.dims) < 1:
            raise InvalidNetwork(f"a tensor of shape {self} holds nothing")

    @property
    def is_map(self) -> bool:
        """Whether it is a stack of feature maps."""
        return len(self.dims) == 3

    @property
    def elements(self) -> int:
        """Elements of one frame."""
        return prod(self.dims)

    @property
    def rows(self) -> int:
        """Rows that firings can cut it into."""
        return self.dims[1] if self.is_map else 1

    @property
    def row_elements(self) -> int:
        """Elements of one row, of all feature maps."""
        return self.elements // self.rows

    @property
    def pixel_elements(self) -> int:
        """Elements of one pixel: its channels; all elements of a tensor that is no map."""
        return self.row_elements // self.width

    @property
    def channels(self) -> int:
        """Feature maps; of a tensor that is no map, its first size."""
        return self.dims[0]

    @property
    def height(self) -> int:
        """Rows of a feature map."""
        return self.dims[1] if self.is_map else 1

    @property
    def width(self) -> int:
        """Columns of a feature map."""
        return self.dims[2] if self.is_map else 1

    @property
    def turned(self) -> Shape:
        """The shape of a map with height and width exchanged; another tensor as it is."""
        return Shape(dims=(self.channels, self.width, self.height)) if self.is_map else self

    def __str__(self) -> str:
        return "x".join(str(size) for size in self.dims) or "()"
