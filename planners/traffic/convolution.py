"""A convolution as six loops over three arrays: input, weights and output.

Bias and layers fused after it move no array of their own. A fully connected layer is a convolution
with one output place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from cnn2csdf.geometry import ReceptiveField, Window
from cnn2csdf.network import Layer, Network
from csdf.arguments import public
from csdf.errors import InvalidNetwork, counted

Pair = tuple[int, int]  # along rows, along columns


class ArrayBytes(NamedTuple):
    """Bytes of one element of each array of a convolution: input, weights and output.

    Sums that are not complete count as elements of the output.
    """

    input: int
    weights: int
    output: int

    @property
    def uniform(self) -> int | None:
        """The bytes of every element; None where the arrays differ."""
        return self.input if len(set(self)) == 1 else None

    def to_json(self) -> int | dict[str, int]:
        """Return one number where all arrays have the same, else one for each array."""
        return self._asdict() if self.uniform is None else self.uniform


ELEMENTS = ArrayBytes(1, 1, 1)  # so that elements are counted


def array_bytes(element_bytes: int | ArrayBytes) -> ArrayBytes:
    """Return the bytes of each array; one number stands for all three."""
    if isinstance(element_bytes, ArrayBytes):
        return element_bytes
    return ArrayBytes(element_bytes, element_bytes, element_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionLoops:
    """Filters that slide over feature maps; depthwise where groups equals the channels.

    channels, filters: of all groups. padding: top, left, bottom, right; it is no element of any
    array. Raises InvalidNetwork, naming the layer, where the sizes do not make a convolution.
    """

    name: str
    filters: int
    channels: int  # of the input
    input_rows: int
    input_columns: int
    kernel_rows: int = 1
    kernel_columns: int = 1
    groups: int = 1
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    def __post_init__(self) -> None:
        for what, *values in (
            ("filters", self.filters),
            ("channels", self.channels),
            ("groups", self.groups),
            ("input size", self.input_rows, self.input_columns),
            ("kernel", self.kernel_rows, self.kernel_columns),
            ("stride", *self.stride),
            ("dilation", *self.dilation),
        ):
            if min(values) < 1:
                raise InvalidNetwork(f"convolution {self.name!r}: {what} is {min(values)}, below 1")
        if min(self.padding) < 0:
            raise InvalidNetwork(f"convolution {self.name!r}: padding {self.padding} is negative")
        if self.channels % self.groups or self.filters % self.groups:
            raise InvalidNetwork(
                f"convolution {self.name!r}: {self.groups} groups do not divide "
                f"{counted(self.channels, 'channel')}, {counted(self.filters, 'filter')}"
            )
        if min(self.output_rows, self.output_columns) < 1:
            raise InvalidNetwork(
                f"convolution {self.name!r}: a kernel of {self.kernel_rows}x{self.kernel_columns}, "
                f"dilation {self.dilation}, does not fit into {self.input_rows}x"
                f"{self.input_columns} with padding {self.padding}"
            )

    @property
    def window(self) -> Window:
        """How the filters move over the maps."""
        return Window(
            kernel=(self.kernel_rows, self.kernel_columns),
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
        )

    @property
    def output_rows(self) -> int:
        """Rows of an output map."""
        return self.window.rows.outputs(self.input_rows)

    @property
    def output_columns(self) -> int:
        """Columns of an output map."""
        return self.window.columns.outputs(self.input_columns)

    @property
    def group_filters(self) -> int:
        """Filters of one group."""
        return self.filters // self.groups

    @property
    def group_channels(self) -> int:
        """Input channels of one group."""
        return self.channels // self.groups

    @property
    def input_elements(self) -> int:
        """Elements of all input maps."""
        return self.channels * self.input_rows * self.input_columns

    @property
    def output_elements(self) -> int:
        """Elements of all output maps."""
        return self.filters * self.output_rows * self.output_columns


@lru_cache(maxsize=10_000)
def axes_of(convolution: ConvolutionLoops) -> tuple[ReceptiveField, ReceptiveField]:
    """Return the dependences of outputs on inputs along rows and along columns."""
    inputs = convolution.input_rows, convolution.input_columns
    outputs = convolution.output_rows, convolution.output_columns
    return convolution.window.fields(inputs, outputs)


@public
def convolution_of(network: Network, layer: Layer) -> ConvolutionLoops:
    """Return the loops of a convolution or a fully connected layer.

    Raises InvalidNetwork, naming the layer, for any other layer and for a negative padding.
    """
    bank, units = layer.operator.filter_bank, layer.operator.dense_units
    if bank is None and units is None:
        raise InvalidNetwork(
            f"layer {layer.name!r} is {type(layer.operator).__name__}; "
            "loop nests are known of Convolution and FullyConnected"
        )
    source = network.input_shapes(layer)[0]
    if bank is None:
        channels = source.elements
        return ConvolutionLoops(
            name=layer.name, filters=units or 0, channels=channels, input_rows=1, input_columns=1
        )
    filters, groups, window = bank.filters, bank.groups, bank.window
    # overhang: rows and columns after the padding that rounding up (ceil mode) adds.
    top, left, bottom, right = window.padding
    return ConvolutionLoops(
        name=layer.name,
        filters=filters,
        channels=source.channels,
        groups=groups,
        input_rows=source.height,
        input_columns=source.width,
        kernel_rows=window.kernel[0],
        kernel_columns=window.kernel[1],
        stride=window.stride,
        dilation=window.dilation,
        padding=(top, left, bottom + window.overhang[0], right + window.overhang[1]),
    )


def is_loop_nest(layer: Layer) -> bool:
    """Return whether a layer is a convolution or fully connected: `convolution_of` has its loops."""
    return layer.operator.filter_bank is not None or layer.operator.dense_units is not None


def group_of(convolution: ConvolutionLoops) -> ConvolutionLoops:
    """Return the convolution of one group: the groups share no element, and all are alike."""
    return replace(
        convolution,
        filters=convolution.group_filters,
        channels=convolution.group_channels,
        groups=1,
    )
