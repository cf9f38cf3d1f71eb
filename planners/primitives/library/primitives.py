"""All convolution primitives, by name and layouts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from csdf.errors import InvalidPlan
from planners.primitives.library.direct import DIRECT
from planners.primitives.library.im2col import LOWERED, MEMORY_EFFICIENT, POINTWISE
from planners.primitives.library.kn2row import SHIFTED
from planners.primitives.library.primitive import ConvolutionSizes, Primitive
from planners.primitives.library.winograd import TILED, TILED_ROWS

PRIMITIVES: tuple[Primitive, ...] = (
    *DIRECT,
    *LOWERED,
    *POINTWISE,
    *SHIFTED,
    *MEMORY_EFFICIENT,
    *TILED,
    *TILED_ROWS,
)

Way = tuple[str, str, str]  # name, input layout, output layout

_BY_WAY: Mapping[Way, Primitive] = MappingProxyType(
    {(one.name, one.input_layout, one.output_layout): one for one in PRIMITIVES}
)


def primitive_of(way: Way) -> Primitive:
    """Return the primitive of that name between those layouts. Raises InvalidPlan if none is."""
    if way not in _BY_WAY:
        raise InvalidPlan(f"there is no primitive {way[0]!r} from {way[1]} to {way[2]}")
    return _BY_WAY[way]


def applicable(sizes: ConvolutionSizes) -> tuple[Primitive, ...]:
    """Return the primitives that can compute a convolution of these sizes."""
    return tuple(one for one in PRIMITIVES if one.applies(sizes))
