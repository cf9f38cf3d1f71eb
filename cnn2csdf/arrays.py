"""The arrays that feature maps and weights are computed in.

Numbers in single precision; integers, stored as in the file, where a tensor is quantised.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
