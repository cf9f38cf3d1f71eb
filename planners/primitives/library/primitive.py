"""Convolution primitives: methods to compute a convolution between two layouts, and their sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from cnn2csdf.network import Layer, Shape
from cnn2csdf.operators import Pair
from cnn2csdf.weights import Array
from csdf.errors import InvalidNetwork
from csdf.kernels import compile as compiler
from planners.kernels import ranges
from planners.primitives.profile import CHW, Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """A convolution without its bias, from a map in one layout to a map in another.

    name: names its algorithm; with both layouts it is unique. Maps are contiguous arrays of float32:
    (channels, rows, columns) for "CHW", (rows, columns, channels) for "HWC". `run` allocates no array:
    temporary arrays are in the workspace. The packed blocks of a library of matrix products, of a fixed
    size, are not counted.
    """

    name: str
    input_layout: str
    output_layout: str

    @property
    def variant(self) -> Variant:
        """The name with the layouts."""
        return Variant(self.name, self.input_layout, self.output_layout)

    def applies(self, sizes: ConvolutionSizes) -> bool:
        """Whether it can compute a convolution of these sizes; all other methods require that."""
        return True

    def workspace_bytes(self, sizes: ConvolutionSizes) -> int:
        """Bytes of its temporary arrays; the primitive writes every byte."""
        return 0

    def parameter_bytes(self, sizes: ConvolutionSizes) -> int:
        """Bytes of the prepared weights; by default those of the convolution."""
        return float_bytes(sizes.weights)

    def prepare(self, sizes: ConvolutionSizes, kernel: Array) -> Array:
        """Return the weights as `run` reads them; kernel: (filters, channels of a group, ...)."""
        raise NotImplementedError

    def run(
        self, sizes: ConvolutionSizes, source: Array, kernel: Array, workspace: Array, output: Array
    ) -> None:
        """Write the convolution of the source to the output.

        kernel: of `prepare`. workspace: a flat array of at least workspace_bytes / 4 elements.
        """
        raise NotImplementedError


def by_channels(array: NDArray[Any], layout: str) -> NDArray[Any]:
    """Return a view of a map by (channel, row, column), from any layout."""
    return array if layout == CHW else array.transpose(2, 0, 1)


def by_pixels(array: NDArray[Any], layout: str) -> NDArray[Any]:
    """Return a view of a map by (row, column, channel), from any layout."""
    return array.transpose(1, 2, 0) if layout == CHW else array


def map_dims(dims: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Return the dims in memory of a tensor; a vector has one layout only."""
    return dims if layout == CHW or len(dims) != 3 else (*dims[1:], dims[0])


def compiled(function: Callable[..., Any], largest: int = 0) -> Callable[..., Any]:
    """Return the kernel as compiled code if possible. largest: the largest number that it computes."""
    return compiler.backend(fits=largest <= compiler.INT64_SUM_LIMIT).kernel(function)


def float_bytes(elements: int) -> int:
    """Return the bytes of this many elements."""
    return elements * ELEMENT_BYTES


ELEMENT_BYTES = 4  # single precision


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionSizes:
    """A convolution between maps of known sizes; two layers with equal sizes take equal time.

    The padding below and on the right, and an overhang, show in the rows and columns alone.
    """

    channels: int
    height: int
    width: int
    filters: int
    rows: int  # of the output
    columns: int
    kernel: Pair
    steps: ranges.Steps
    groups: int = 1

    @property
    def group_channels(self) -> int:
        """Input channels of a filter."""
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        """Filters of a group."""
        return self.filters // self.groups

    @property
    def largest(self) -> int:
        """The largest index of a window, see planners/kernels/ranges.py."""
        dims = (self.height, self.width), (self.rows, self.columns)
        return ranges.windows(self.steps, self.kernel, *dims)

    @property
    def pixels(self) -> int:
        """Pixels of an output map."""
        return self.rows * self.columns

    @property
    def window_elements(self) -> int:
        """Input elements of a window, which an output element depends on."""
        return self.group_channels * self.kernel[0] * self.kernel[1]

    @property
    def weights(self) -> int:
        """Parameters of the kernels."""
        return self.filters * self.window_elements

    @property
    def is_dense(self) -> bool:
        """Whether it has one group, stride one and no dilation."""
        return self.groups == 1 and self.steps.stride == self.steps.dilation == (1, 1)

    @property
    def is_pointwise(self) -> bool:
        """Whether each output element depends on the input elements of its own pixel alone."""
        return (
            self.is_dense
            and self.kernel == (1, 1)
            and self.steps.padding == (0, 0)
            and (self.rows, self.columns) == (self.height, self.width)
        )


def convolution_sizes(layer: Layer, source: Shape) -> ConvolutionSizes:
    """Return the sizes of a convolution layer that reads a map of this shape.

    Raises InvalidNetwork for any other layer, and where an overhang meets a cropped border.
    """
    bank = layer.operator.filter_bank
    if bank is None:
        kind = type(layer.operator).__name__
        raise InvalidNetwork(f"layer {layer.name!r} is a {kind}; expected a convolution")
    window = bank.window
    if min(window.padding[2:]) < 0 and max(window.overhang) > 0:
        raise InvalidNetwork(
            f"layer {layer.name!r} crops its input and hangs over its border; no primitive does both"
        )
    return ConvolutionSizes(
        channels=source.channels,
        height=source.height,
        width=source.width,
        filters=bank.filters,
        rows=layer.shape.height,
        columns=layer.shape.width,
        kernel=window.kernel,
        steps=ranges.Steps(window.stride, window.dilation, window.padding[:2]),
        groups=bank.groups,
    )
