"""Convolution primitives: ways to compute a convolution between two layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cnn2csdf.weights import Array
from csdf.kernels import compile as compiler
from planners.primitives.library.convolution import ELEMENT_BYTES, ConvolutionSizes
from planners.primitives.profile import CHW

Prepared = Any  # weights as one primitive keeps them: one array


class Primitive(Protocol):
    """A convolution without its bias, from a map in one layout to a map in another.

    Maps are contiguous arrays of float32: (channels, rows, columns) for "CHW", (rows, columns,
    channels) for "HWC". A primitive allocates no array in `run`: all that it needs beyond input,
    prepared weights and output lies in the workspace. What a library of matrix products keeps for
    itself, some packed blocks of a fixed size, is not counted.
    """

    @property
    def name(self) -> str:
        """The name, which says how it works; with both layouts it is unique."""

    @property
    def input_layout(self) -> str:
        """The layout in which it reads."""

    @property
    def output_layout(self) -> str:
        """The layout in which it writes."""

    def applies(self, sizes: ConvolutionSizes) -> bool:
        """Whether it can compute such a convolution. The rest is for those it can."""

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        """Bytes of its temporary arrays, every one of which it writes."""

    def parameter_bytes(self, sizes: ConvolutionSizes) -> int:
        """Bytes of the prepared weights."""

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Prepared:
        """Return the weights as `run` wants them; kernel: (filters, channels of a group, ...)."""

    def run(
        self,
        sizes: ConvolutionSizes,
        source: Array,
        prepared: Prepared,
        workspace: Array,
        output: Array,
    ) -> None:
        """Write the convolution of the source to the output.

        workspace: a flat array of at least workspace_bytes / 4 elements.
        """


class PlainWeights:
    """A primitive that keeps the weights of the convolution, in whatever order."""

    __slots__ = ()

    def parameter_bytes(self, sizes: ConvolutionSizes) -> int:
        return float_bytes(sizes.weights)


def by_channels(array: NDArray[Any], layout: str) -> NDArray[Any]:
    """Return a view of a map by (channel, row, column), however it lies in memory."""
    return array if layout == CHW else array.transpose(2, 0, 1)


def by_places(array: NDArray[Any], layout: str) -> NDArray[Any]:
    """Return a view of a map by (row, column, channel), however it lies in memory."""
    return array.transpose(1, 2, 0) if layout == CHW else array


def map_dims(dims: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Return the dims in memory of a tensor; a vector has one layout only."""
    return dims if layout == CHW or len(dims) != 3 else (*dims[1:], dims[0])


def compiled(function: Callable[..., Any], largest: int = 0) -> Callable[..., Any]:
    """Return the kernel as compiled code, if there is any. largest: number that it computes."""
    return compiler.backend(fits=largest <= compiler.SAFE).kernel(function)


def contiguous(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array in one piece, in the order of its axes."""
    return np.ascontiguousarray(array)


def float_bytes(elements: int) -> int:
    """Return the bytes of so many elements."""
    return elements * ELEMENT_BYTES
