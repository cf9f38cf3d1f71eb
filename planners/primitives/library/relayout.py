"""A change of layout of one map."""

from __future__ import annotations

from cnn2csdf.weights import Array
from planners.kernels import convolution_layers as kernels
from planners.primitives.library.primitive import compiled
from planners.primitives.profile import CHW

BLOCK = 16  # elements on a side: whole cache lines on both sides


def change_layout(source: Array, source_layout: str, output: Array) -> None:
    """Write the map in the other layout; no workspace."""
    channels = source.shape[0] if source_layout == CHW else source.shape[2]
    if source_layout == CHW:
        matrix, result = source.reshape(channels, -1), output.reshape(-1, channels)
    else:
        matrix, result = source.reshape(-1, channels), output.reshape(channels, -1)
    compiled(kernels.transpose)(matrix, result, BLOCK)
