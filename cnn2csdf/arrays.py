"""The arrays of feature maps and weights: single precision, or integers as stored in the file."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
