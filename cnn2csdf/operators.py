"""What a layer computes: one frozen value for each kind of operator, sizes and attributes only.

Tensors are those of one frame: (channels, height, width) for feature maps, other ranks otherwise.
The trained numbers are elsewhere (weights); an attribute that is a float, such as a slope, never
takes part in an analysis.
"""

from __future__ import annotations

from dataclasses import dataclass

from csdf.errors import InvalidNetwork

Pair = tuple[int, int]  # vertical, horizontal

ACTIVATIONS = {  # name: how many parameters it takes
    "relu": 0,
    "leaky relu": 1,  # slope
    "prelu": 0,  # slopes are weights
    "clip": 2,  # low, high
    "sigmoid": 0,
    "hard sigmoid": 2,  # alpha, beta
    "hard swish": 0,
    "silu": 0,
    "mish": 0,
    "gelu": 0,
    "elu": 1,  # alpha
    "selu": 2,  # alpha, gamma
    "celu": 1,  # alpha
    "tanh": 0,
    "softplus": 0,
    "softsign": 0,
    "thresholded relu": 1,  # alpha
    "exp": 0,
    "log": 0,
    "sqrt": 0,
    "abs": 0,
    "negative": 0,
    "reciprocal": 0,
}
ELEMENTWISE = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "mean", "power")
REDUCTIONS = ("mean", "sum", "max", "min", "l2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How a kernel moves over the rows and columns of its input.

    padding: top, left, bottom, right; a negative one crops. overhang: rows below and columns to the
    right of the padding that the last windows may cover (ceil mode); they hold nothing and count
    nothing.
    """

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    overhang: Pair = (0, 0)

    def __post_init__(self) -> None:
        for what, values in (
            ("kernel", self.kernel),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ):
            if min(values) < 1:
                raise InvalidNetwork(f"{what} {values[0]}x{values[1]} is not positive")
        if min(self.overhang) < 0:
            raise InvalidNetwork(f"overhang {self.overhang} is negative")

    @property
    def extent(self) -> Pair:
        """Rows and columns from the first to the last element of the dilated kernel."""
        (kernel_rows, kernel_columns), (down, across) = self.kernel, self.dilation
        return (down * (kernel_rows - 1) + 1, across * (kernel_columns - 1) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Where frames come in."""

    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where results go out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """Filters that slide over the feature maps; depthwise where groups equals the channels."""

    filters: int
    window: Window
    groups: int = 1
    has_bias: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposedConvolution:
    """A convolution backwards: each input element adds a kernel to the output.

    window.padding is cut from the output; extra: rows and columns added at the bottom and right.
    """

    filters: int
    window: Window
    groups: int = 1
    has_bias: bool = True
    extra: Pair = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """The largest or the mean element under a window, for each feature map on its own."""

    function: str  # "max" or "average"
    window: Window
    counts_padding: bool = False  # whether padding counts in the mean


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalPooling:
    """One element a feature map."""

    function: str  # "max" or "average"


@dataclass(frozen=True, slots=True, kw_only=True)
class FullyConnected:
    """A matrix times all elements of the input, in (channel, row, column) order."""

    units: int
    has_bias: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixProduct:
    """Product over the last axis of the first input: with the second input, or with weights.

    units: columns of the matrix of weights; None where the matrix is a second input.
    """

    units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormalization:
    """Each feature map minus its mean, over its deviation, times a scale, plus a shift."""

    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNormalization:
    """Each feature map normalised by its own mean and variance, then scaled and shifted."""

    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNormalization:
    """The axes from `axis` on normalised by their own mean and variance, then scaled and shifted."""

    axis: int
    epsilon: float = 1e-5
    has_bias: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResponseNormalization:
    """Each element over a power of the squares of its neighbours in `size` feature maps."""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """A function of one element; ACTIVATIONS says which there are and what parameters they take."""

    function: str
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.function not in ACTIVATIONS:
            raise InvalidNetwork(f"there is no activation {self.function!r}")
        if len(self.parameters) != ACTIVATIONS[self.function]:
            raise InvalidNetwork(
                f"activation {self.function!r} takes {ACTIVATIONS[self.function]} parameters, "
                f"found {len(self.parameters)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """A function of the elements at one place in all inputs; axes of size one are repeated.

    constant: dims of a trained operand that comes after the inputs (before them where
    `constant_first`), None where there is none.
    """

    function: str
    constant: tuple[int, ...] | None = None
    constant_first: bool = False

    def __post_init__(self) -> None:
        if self.function not in ELEMENTWISE:
            raise InvalidNetwork(f"there is no elementwise function {self.function!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Concatenation:
    """The inputs one after another along an axis."""

    axis: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Elements start, start + step, ... before stop along an axis; step is positive."""

    axis: int
    start: int
    stop: int
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelShuffle:
    """Feature maps of `groups` groups, dealt out in turn."""

    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Feature maps of another height and width.

    coordinates: how an output place is found in the input: "asymmetric", "half pixel",
    "pytorch half pixel" or "align corners". rounding, for "nearest": "floor", "ceil",
    "prefer floor", "prefer ceil" or "ceil where smaller" (floor where larger). scales: vertical and
    horizontal, where they are not just the output size over the input size; floats, since single
    precision is what finds the nearest place.
    """

    size: Pair
    function: str  # "nearest" or "linear"
    coordinates: str = "asymmetric"
    rounding: str = "floor"
    scales: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad:
    """Rows and columns added around: top, left, bottom, right; a negative one crops."""

    padding: tuple[int, int, int, int]
    mode: str = "constant"  # or "reflect", "edge"
    value: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceToDepth:
    """Blocks of block x block places become channels.

    order: "block first" (ONNX: the place in the block is the slow part of the new channel) or
    "darknet" (the reorg layer of YOLOv2).
    """

    block: int
    order: str = "block first"


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthToSpace:
    """Channels become blocks of block x block places.

    order: "block first" (ONNX mode DCR) or "channel first" (mode CRD).
    """

    block: int
    order: str = "block first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape:
    """The same elements in the same order under other dims."""

    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose:
    """Axes in another order."""

    permutation: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Nothing, at inference: dropout and its like."""

    kind: str = "identity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax:
    """Exponentials over their sum, over the axes from `axis` to `last` (by default that axis)."""

    axis: int
    last: int | None = None
    is_logarithm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """One element for all those along some axes; the axes stay, with size one, where `keeps`."""

    function: str
    axes: tuple[int, ...]
    keeps: bool = True

    def __post_init__(self) -> None:
        if self.function not in REDUCTIONS:
            raise InvalidNetwork(f"there is no reduction {self.function!r}")


Operator = (
    Input
    | Output
    | Convolution
    | TransposedConvolution
    | Pooling
    | GlobalPooling
    | FullyConnected
    | MatrixProduct
    | BatchNormalization
    | InstanceNormalization
    | LayerNormalization
    | LocalResponseNormalization
    | Activation
    | Elementwise
    | Concatenation
    | Slice
    | ChannelShuffle
    | Resize
    | Pad
    | SpaceToDepth
    | DepthToSpace
    | Reshape
    | Transpose
    | Identity
    | Softmax
    | Reduction
)
POINTWISE = (BatchNormalization, LocalResponseNormalization, Activation, Identity)
"""Operators with one input that need one row of it, of the same shape, for each row they write."""
