"""What the elements of tensors and of trained numbers are, and how many bytes they take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Element(Enum):
    """The type of the elements of a tensor."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT64 = "int64"
    INT32 = "int32"
    INT16 = "int16"
    INT8 = "int8"
    UINT8 = "uint8"
    BOOL = "bool"

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        bits = "".join(filter(str.isdigit, self.value))
        return int(bits or 8) // 8

    @property
    def is_integer(self) -> bool:
        """Whether the elements are whole numbers."""
        return "float" not in self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """How an array of trained numbers of a layer is stored.

    role: which array of the layer it is. name: of the array in the file; layers whose arrays have
    the same name share it. None is an array of the layer's own.
    """

    role: str
    element: Element = Element.FLOAT32
    name: str | None = None
