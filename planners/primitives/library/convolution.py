"""The sizes of one convolution: all that a primitive needs to know besides the weights."""

from __future__ import annotations

from dataclasses import dataclass

from cnn2csdf.network import Layer, Shape
from cnn2csdf.operators import Convolution, Pair
from csdf.errors import InvalidNetwork
from planners.kernels import ranges

ELEMENT_BYTES = 4  # single precision

Steps = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionSizes:
    """A convolution between maps of known sizes; two layers with equal sizes take equal time.

    steps: stride down and across, dilation down and across, padding at the top and on the left. The
    padding below and on the right, and an overhang, show in the rows and columns alone.
    """

    channels: int
    height: int
    width: int
    filters: int
    rows: int  # of the output
    columns: int
    kernel: Pair
    steps: Steps
    groups: int = 1

    @property
    def input_dims(self) -> tuple[int, int, int]:
        """Channels, rows, columns."""
        return (self.channels, self.height, self.width)

    @property
    def output_dims(self) -> tuple[int, int, int]:
        """Channels, rows, columns."""
        return (self.filters, self.rows, self.columns)

    @property
    def kernel_dims(self) -> tuple[int, int, int, int]:
        """Filters, channels of a group, rows, columns."""
        return (self.filters, self.group_channels, *self.kernel)

    @property
    def group_channels(self) -> int:
        """Channels that one filter sees."""
        return self.channels // self.groups

    @property
    def group_filters(self) -> int:
        """Filters that see the same channels."""
        return self.filters // self.groups

    @property
    def largest(self) -> int:
        """The largest index of a window, see planners/kernels/ranges.py."""
        dims = (self.height, self.width), (self.rows, self.columns)
        return ranges.windows(self.steps, self.kernel, *dims)

    @property
    def places(self) -> int:
        """Elements of an output map."""
        return self.rows * self.columns

    @property
    def seen(self) -> int:
        """Elements that one output element depends on."""
        return self.group_channels * self.kernel[0] * self.kernel[1]

    @property
    def weights(self) -> int:
        """Trained numbers of the kernels."""
        return self.filters * self.seen

    @property
    def is_dense(self) -> bool:
        """Whether it has one group, stride one and no dilation."""
        return self.groups == 1 and self.steps[:4] == (1, 1, 1, 1)

    @property
    def is_pointwise(self) -> bool:
        """Whether each output element depends on the input elements of its own place alone."""
        return (
            self.is_dense
            and self.kernel == (1, 1)
            and self.steps[4:] == (0, 0)
            and (self.rows, self.columns) == (self.height, self.width)
        )


def convolution_sizes(layer: Layer, source: Shape) -> ConvolutionSizes:
    """Return the sizes of a convolution layer that reads a map of this shape.

    Raises InvalidNetwork for any other layer, and where an overhang meets a cropped border.
    """
    operator = layer.operator
    if not isinstance(operator, Convolution):
        kind = type(operator).__name__
        raise InvalidNetwork(f"layer {layer.name!r} is a {kind}; expected a convolution")
    window = operator.window
    if min(window.padding[2:]) < 0 and max(window.overhang) > 0:
        raise InvalidNetwork(
            f"layer {layer.name!r} crops its input and hangs over its border; no primitive does both"
        )
    return ConvolutionSizes(
        channels=source.channels,
        height=source.height,
        width=source.width,
        filters=operator.filters,
        rows=layer.shape.height,
        columns=layer.shape.width,
        kernel=window.kernel,
        steps=(*window.stride, *window.dilation, *window.padding[:2]),
        groups=operator.groups,
    )
