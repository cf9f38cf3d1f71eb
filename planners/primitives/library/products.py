"""Matrix products into a place given, between either order of axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.primitives.profile import CHW


def multiply(weights: NDArray[Any], seen: NDArray[Any], layout: str, result: NDArray[Any]) -> None:
    """Write weights times what is seen; further axes in front count the products.

    weights: (filters, K). seen: (K, places). result: (filters, places) for "CHW", (places, filters)
    for "HWC". Any of them may be a transposed view: no array is copied as long as one of its last
    two axes has neighbours in memory.
    """
    if layout == CHW:
        np.matmul(weights, seen, out=result)
    else:
        np.matmul(seen.swapaxes(-1, -2), weights.swapaxes(-1, -2), out=result)


def matrix_of(output: NDArray[Any], layout: str, places: int) -> NDArray[Any]:
    """Return a view of a whole map as the result of a product, see `multiply`."""
    return output.reshape(-1, places) if layout == CHW else output.reshape(places, -1)


def part_of(
    matrix: NDArray[Any], layout: str, filters: tuple[int, int], places: tuple[int, int]
) -> NDArray[Any]:
    """Return some filters at some places of a result of a product, a view."""
    if layout == CHW:
        return matrix[filters[0] : filters[1], places[0] : places[1]]
    return matrix[places[0] : places[1], filters[0] : filters[1]]
