"""The base class of all operators, and the answers that planners and writers of C ask for.

An operator is asked for its properties instead of its class. The answers are grouped in classes that
`Operator` inherits:

    LayerRole      inputs and outputs of the network, state variables, names in words
    Dataflow       elements of the inputs that elements of the output need
    Movement       operators that change no element: slices, transpositions, concatenations
    Fusion         functions of one element that join another layer
    PlanMemory     results over inputs, parts of the output, scratch
    Products       windows, filters, matrices, attention, reductions
    IntegerForm    constant arrays in C, and the arithmetic of integers; extends Products
    Work           multiply-accumulates, operations, loops of kernels
    Operator       shape, trained arrays, values, and variants of the operator on other tensors

Defaults are safe: an operator that answers only `output_dims` and `formula` is planned whole, without
fusion or tiles. Bases of families follow: `Pointwise`, `Move`, and operators that work row by row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import ClassVar, NamedTuple

from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Quantization
from cnn2csdf.geometry import Window
from cnn2csdf.integers import channel_ratios, quantized, requantising_arrays
from cnn2csdf.part import KeptState, OutputRows, RealRows, Types, rows_of_part
from cnn2csdf.shape import Dims, Shape
from csdf.errors import ExecutionError, InvalidNetwork, counted

__all__ = ["Operator", "Pointwise"]

RowsNeeded = Callable[[int], tuple[int, int]]
"""Output row -> first input row needed, and one past the last; neither is clipped to the input.

Both grow with the output row, or stay.
"""


SINGLE_BYTES = 4  # of a number in single precision


class FilterBank(NamedTuple):
    """Trained filters that slide over feature maps; depthwise where groups equals the channels.

    block: for a matrix product in the file, the number of products that its runtime sums in a block,
    as in `Convolution`; None for a convolution.
    """

    filters: int
    groups: int
    window: Window
    block: int | None

    def is_depthwise(self, channels: int) -> bool:
        """Whether each of several channels has a filter of its own."""
        return 1 < self.groups == self.filters == channels


class SlicedRange(NamedTuple):
    """Elements start, start + step, ... before stop along an axis."""

    axis: int
    start: int
    stop: int
    step: int


class Attention(NamedTuple):
    """A product of attention of two maps whose rows are tokens.

    gives: "scores", the products of queries and keys; or "values", the sums of values by weights.
    heads: equal parts of the numbers of a token, multiplied independently of one another.
    groups: equal ranges of tokens; each range attends to itself alone.
    """

    gives: str
    heads: int
    groups: int


Counts = dict[str, int]  # by the name of a loop, how often it runs in a frame
KernelLoops = tuple[str, Counts]  # the kernel, before words for its types, and its loops


class KernelUse(NamedTuple):
    """The tensors and the arithmetic for which the loops of a kernel are counted.

    ring: columns of the ring buffer of the first input; 0 where its rows are stored whole.
    """

    inputs: Sequence[Shape]
    output: Shape
    is_real: bool
    ring: int = 0


def moved_elements(inputs: Sequence[Shape], output: Shape) -> Counts:
    """Return the elements that a kernel reads and writes, and its output pixels."""
    return {
        "read": sum(source.elements for source in inputs),
        "written": output.elements,
        "places": output.height * output.width if output.is_map else 1,
    }


class LayerRole:
    """Whether a tensor enters or leaves the network here, state variables, names in words."""

    __slots__ = ()

    is_input: ClassVar[bool] = False  # whether a tensor enters the network here
    is_output: ClassVar[bool] = False  # whether a tensor leaves the network here
    is_state: ClassVar[bool] = False  # whether that tensor is a state variable, and no frame
    words: ClassVar[str] = ""  # as in a table of layers; by default the words of the class's name

    @property
    def state_variable(self) -> str | None:
        """The state variable that it reads or writes; None if it has no variable."""
        return None

    @property
    def is_stateful_sequence(self) -> bool:
        """Whether it computes a sequence of steps, the first from the state of the previous frame."""
        return False

    def in_words(self) -> str:
        """Return the operator in a few words, as in a table of layers."""
        name = type(self).__name__
        spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
        return self.words or spaced.strip()


class Dataflow:
    """Elements of the inputs that elements of the output need: rows, columns, channels, frames.

    Columns of an operator are the rows of the operator turned: `Operator.columns_needed`.
    """

    __slots__ = ()

    # Whether the whole output depends on the whole of each input; False if unknown.
    depends_on_all: ClassVar[bool] = False
    # Whether an output element is a function of the input elements of its index, and parameters.
    is_elementwise: ClassVar[bool] = False
    reads_once: ClassVar[bool] = False  # whether it reads no element of an input twice
    # Whether each output row reads many rows of the second input, as products of tokens do.
    rereads_rows: ClassVar[bool] = False

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the rows of input `index` that each output row needs; None if it needs all rows."""
        return None

    def row_elements_read(self, source: Shape, output: Shape) -> int:
        """Return the number of distinct elements of an input row that the operator reads."""
        return source.row_elements

    def accumulates_rows(self, source: Shape, output: Shape) -> bool:
        """Return whether the one output row can be accumulated row by row of the input map."""
        return False

    def reads_all(self, source: Shape, output: Shape) -> bool:
        """Return whether the whole output depends on the whole input of this shape."""
        return self.depends_on_all

    @property
    def channels_before(self) -> int:
        """The number of input channels before its own that an output channel reads at one pixel."""
        return 0

    @property
    def frames_per_output(self) -> int:
        """The number of frames over which an output is summed, in accumulators kept between them."""
        return 1

    @property
    def mixes_channels(self) -> bool:
        """Whether each output channel is a sum over all input channels, with trained factors."""
        return False

    @property
    def keeps_columns(self) -> bool:
        """Whether each column of the output is computed from the same column of each input."""
        return self.is_elementwise

    @property
    def is_tileable(self) -> bool:
        """Whether each rectangle of an output map needs a rectangle of each input map at most."""
        return False

    @property
    def is_channelwise(self) -> bool:
        """Whether each channel of the output is computed from the same channel of the input."""
        return False

    @property
    def is_scalar_function(self) -> bool:
        """Whether it is one function of one element, the same for all: a table of 8-bit integers."""
        return False


class Movement:
    """Operators that change no element, and where they move elements."""

    __slots__ = ()

    moves: ClassVar[bool] = False  # whether it only moves elements and changes none
    converts: ClassVar[bool] = False  # whether it stores the same numbers in another type
    is_view: ClassVar[bool] = False  # whether its output can be the memory of its inputs
    # Whether the output has the elements of the input in their order, perhaps under other dims.
    keeps_order: ClassVar[bool] = False
    # Whether the output has the elements of the input as they follow one another in memory.
    keeps_memory_order: ClassVar[bool] = False
    # Whether it only gives the elements of its input other dims, or its axes another order.
    rearranges_axes: ClassVar[bool] = False

    @property
    def picks_elements(self) -> bool:
        """Whether each element of the output is an element of the input."""
        return self.moves

    @property
    def allows_stored_integers(self) -> bool:
        """Whether it moves or compares elements only, so that it may read integers as stored."""
        return self.picks_elements

    @property
    def joined_axis(self) -> int | None:
        """The axis along which the inputs follow one another; None if it does not concatenate."""
        return None

    @property
    def sliced_range(self) -> SlicedRange | None:
        """The range of the input that is the output; None if the operator is no slice."""
        return None

    @property
    def axis_order(self) -> tuple[int, ...] | None:
        """The axis of the input that is each axis of the output; None if it is no transposition."""
        return None

    @property
    def zero_border(self) -> tuple[int, int, int, int] | None:
        """The rows and columns of zeros that it adds: top, left, bottom, right."""
        return None

    def enlargement(self, source: Shape) -> tuple[int, int] | None:
        """Return how often an upsampling repeats each row and column; None for other operators."""
        return None

    @property
    def swaps_with_inputs(self) -> bool:
        """Whether inputs with the first two axes swapped give the output with these axes swapped."""
        return False


class Products:
    """Windows, filters and matrices, attention, reductions."""

    __slots__ = ()

    # Whether it divides each element by a power of its neighbours in other channels of the pixel.
    normalizes_responses: ClassVar[bool] = False
    # Whether each input element is multiplied by a kernel and added to several output pixels.
    scatters_products: ClassVar[bool] = False

    @property
    def stride(self) -> tuple[int, int]:
        """Rows and columns of the input between two neighbouring pixels of the output."""
        return 1, 1

    @property
    def sliding_window(self) -> Window | None:
        """The window whose pixels of the input alone decide a pixel of the output, if it has one."""
        return None

    def window_over(self, source: Shape) -> Window | None:
        """Return its window over an input of this shape, which may be the whole feature map."""
        return self.sliding_window

    @property
    def window_taps(self) -> tuple[int, int]:
        """Rows and columns of the kernel that slides over the input; 0 where there is no window."""
        return 0, 0

    @property
    def filter_bank(self) -> FilterBank | None:
        """The filters of a convolution; None for other operators."""
        return None

    @property
    def dense_units(self) -> int | None:
        """The number of outputs that are products of a trained matrix and the whole input."""
        return None

    @property
    def reduction(self) -> str | None:
        """The function of the elements in its windows, or along its axes, such as "max" or "mean"."""
        return None

    @property
    def attention(self) -> Attention | None:
        """The heads and groups of a product of tokens with tokens; None for other operators."""
        return None

    @property
    def weight_role(self) -> str | None:
        """The role of the trained factors of its products; None without products of weights."""
        return None

    @property
    def multiplies_inputs(self) -> bool:
        """Whether it is a matrix product of two tensors of the frame."""
        return False

    @property
    def counts_zero_padding(self) -> bool:
        """Whether zeros of the padding count in a mean."""
        return False

    @property
    def bias_axis(self) -> int | None:
        """The axis of the output along which a bias has its elements; None if it takes no bias."""
        return None


class Fusion:
    """Functions of one element that join another layer: factors, offsets, limits."""

    __slots__ = ()

    # Whether it can be the epilogue of another layer: a row is computed from that row alone.
    can_be_fused: ClassVar[bool] = False
    # Whether it can be the epilogue of a layer whose integers have the same type before and after.
    can_follow_integers: ClassVar[bool] = False

    @property
    def elementwise_function(self) -> str | None:
        """The function of the elements at one position of all operands; None without operands."""
        return None

    @property
    def constant_dims(self) -> Dims | None:
        """The dims of the trained operand of an elementwise function; None without an operand."""
        return None

    @property
    def is_channel_softmax(self) -> bool:
        """Whether it is a softmax over the channels of each pixel."""
        return False

    def scales_channels(self, source: Shape) -> bool:
        """Return whether the output is a factor times the input plus an offset, by channel."""
        return False

    def factors_and_offsets(self, weights: Mapping[str, Array]) -> tuple[Array, Array]:
        """Return factors and offsets of an affine operator, by channel or as one element.

        Raises NotImplementedError for an operator that is not affine.
        """
        raise NotImplementedError

    @property
    def limits(self) -> tuple[float, float] | None:
        """The range to which it clips numbers; None if it computes anything else."""
        return None

    @property
    def index_limit(self) -> int | None:
        """The number of rows that the elements of the input are indices of; None for numbers."""
        return None


class PlanMemory:
    """Memory of a plan: results over inputs, parts of the output, scratch."""

    __slots__ = ()

    # Whether each element of the result may be written over the element of the input that was read.
    overwrites_input: ClassVar[bool] = False
    # Whether each row of the input can be written to its pixels of the output when it is read.
    scatters_rows: ClassVar[bool] = False
    # Whether some output channels can be computed without the others, from the whole input.
    splits_filters: ClassVar[bool] = False
    # Whether a mask is computed anew for each layer that reads the mask, rather than stored.
    copies_masks: ClassVar[bool] = False
    # Whether it reads and writes pixel by pixel, in memory with an arbitrary pixel stride.
    by_pixels: ClassVar[bool] = False

    @property
    def writes_by_pixels(self) -> bool:
        """Whether it writes as `by_pixels` says, however it reads."""
        return self.by_pixels

    def scratch_elements(self, inputs: Sequence[Shape]) -> int:
        """Return the number of scratch elements of its C, in addition to inputs and output."""
        return 0

    def scratch_bytes(self, inputs: Sequence[Shape], element_bytes: int) -> int:
        """Return the bytes of the scratch. element_bytes: of an element of the output."""
        return SINGLE_BYTES * self.scratch_elements(inputs)


class IntegerForm(Products):
    """Constant arrays in C, and the arithmetic of integers."""

    __slots__ = ()

    # Whether its arrays are integers in C although its output is a real number.
    has_integer_weights: ClassVar[bool] = False
    # Whether its arrays are real numbers in C although its output is integers.
    has_real_weights: ClassVar[bool] = False
    # Whether 8-bit integers pass through a table of 256 bytes, unless it only limits them.
    has_lookup_table: ClassVar[bool] = False
    # Arrays that C reads in two bytes a number where the file has bytes.
    short_roles: ClassVar[tuple[str, ...]] = ()
    # Arrays that C reads in two bytes a number where the file has them in float16.
    half_roles: ClassVar[tuple[str, ...]] = ()

    def elements_in_flash(self, role: str, dims: Dims, output: Shape, *, is_fused: bool) -> int:
        """Return the number of elements of a trained array as C reads it. dims: as trained."""
        return prod(dims)

    @property
    def run_time_result(self) -> str | None:
        """The kind of result, if integers get their scale in each frame from their elements.

        One of "integers", their "scale", their "zero point", and "sums" of products of such integers;
        None for any other operator.
        """
        return None

    def sum_ratios(self, types: Types, output: Shape) -> list[float] | None:
        """Return, for each output channel, the scale of sums of products over the scale of the output.

        None unless inputs, weights and output are all quantised integers.
        """
        role = self.weight_role or ""
        weights, result = types.weights.get(role), types.output
        input_types = types.inputs[0] if types.inputs else None
        if weights is None or input_types is None or result is None:
            return None
        outputs = output.dims[-1] if role == "matrix" else output.channels
        return channel_ratios(input_types, weights, result, outputs)

    def derived_arrays(self, types: Types, output: Shape) -> Mapping[str, Array]:
        """Return the arrays in flash that follow from types and attributes alone, by their role.

        By default the arrays that requantise sums of products, if there are such sums.
        """
        ratios = self.sum_ratios(types, output)
        if ratios is None or types.output is None:
            return {}
        rounds_once = any(stored.rounds_sums_once for stored in types.weights.values())
        return requantising_arrays(ratios, types.output, rounds_once=rounds_once)


class Work:
    """Operations of one frame, and the loops of the kernel that executes them."""

    __slots__ = ()

    element_operations: ClassVar[int] = 0  # for each element of the output

    def multiply_accumulates(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Return the multiply-accumulates of one frame: convolutions and matrix products only."""
        return 0

    @property
    def kernel(self) -> str:
        """The name of its kernel in tables of instructions, before words for the types."""
        return type(self).__name__

    def kernel_loops(self, use: KernelUse) -> KernelLoops:
        """Return its kernel and the loops of a frame; by default elements read and written."""
        return self.kernel, moved_elements(use.inputs, use.output)

    def operations(self, inputs: Sequence[Shape], output: Shape) -> int:
        """Return the arithmetic operations of one frame; none for moving elements."""
        moved = output.elements * self.element_operations
        return 2 * self.multiply_accumulates(inputs, output) + moved


class Operator(LayerRole, Dataflow, Movement, Fusion, PlanMemory, IntegerForm, Work, ABC):
    """The computation of a layer: a frozen value of sizes and attributes, without parameters.

    Tensors are those of one frame: (channels, height, width) for feature maps, other ranks
    otherwise. An attribute that is a float, such as a slope, never participates in an analysis.
    An operator implements `formula`, where the same formula computes all rows and a part of the
    rows, and `computed` otherwise.
    """

    __slots__ = ()

    @abstractmethod
    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the dims of the output. Raises InvalidNetwork where the inputs do not fit."""

    def output_shape(self, inputs: Sequence[Shape]) -> Shape:
        """Return the shape of the output. Raises InvalidNetwork as output_dims does."""
        return Shape(dims=self.output_dims(inputs))

    def tensor_of_frame(self, array: Array) -> Array:
        """Return the array of a frame in the dims of the tensor that enters the network here."""
        return array

    def trained(self, inputs: Sequence[Shape]) -> Mapping[str, Dims]:
        """Return the dims of each array of parameters, by its role."""
        return {}

    def kept(self, inputs: Sequence[Shape]) -> Mapping[str, KeptState]:
        """Return the state that the layer retains from frame to frame, by its role."""
        return {}

    # == Values: rows of the output from rows of the inputs ==

    def computed(self, part: OutputRows) -> Array:
        """Return the rows of the part; the part may be the whole. May be a view of an input."""
        return self.computed_by(self.formula, part)

    def computed_by(
        self, formula: Callable[[Sequence[Array], OutputRows], Array], part: OutputRows
    ) -> Array:
        """Return the rows of the part by a formula, which is called as `formula` is.

        The formula is applied to the rows given by `rows_needed`, clipped to the inputs. If the first
        input is needed whole, the formula computes all rows, and the rows of the part are sliced.
        """
        shapes = [reader.shape for reader in part.inputs]
        rules = [self.rows_needed(index, shapes, part.shape) for index in range(len(shapes))]
        tensors = []
        for reader, needed in zip(part.inputs, rules, strict=True):
            first, end = 0, reader.shape.rows
            if needed is not None:
                (first_needed, _), (_, end_needed) = needed(part.begin), needed(part.end - 1)
                first, end = max(first_needed, 0), min(end_needed, end)
            if first < end:
                tensors.append(reader.rows(first, end))
        computed_rows = formula(tensors, part)
        if rules[0] is not None:
            return computed_rows
        return rows_of_part(computed_rows.reshape(part.shape.dims), part)

    def formula(self, tensors: Sequence[Array], part: OutputRows) -> Array:
        """Return the rows of the part, or all rows, from the needed rows of the inputs.

        Inputs without a needed row are not among the tensors.
        """
        raise NotImplementedError

    def computed_in_integers(self, part: OutputRows, types: Types) -> Array:
        """Return the rows of the part where an input or the output is quantised.

        An operator that only moves elements keeps integers as they are stored if all tensors have the
        same type, or are integers in fixed point. Any other operator, without fixed point, dequantises
        its inputs and quantises its result, as ONNX Runtime does. Raises ExecutionError for an operator
        in fixed point that has no form of its own.
        """
        all_types, result = (*types.inputs, types.output), types.output
        is_raw = result is not None and result.is_fixed_point and None not in types.inputs
        if self.moves and (is_raw or len(set(all_types)) == 1):
            return self.computed(part)
        if any(of_tensor is not None and of_tensor.is_fixed_point for of_tensor in all_types):
            raise ExecutionError(f"{self.in_words()} is not computed with quantised integers")
        readers = [
            reader if input_types is None else RealRows(reader, input_types)
            for reader, input_types in zip(part.inputs, types.inputs, strict=True)
        ]
        values = self.computed(part._replace(inputs=readers))
        return values if result is None else quantized(values, result)

    # == Variants: the operator on other tensors ==

    def turned(self) -> Operator:
        """Return the operator on maps turned around their diagonal: rows become columns."""
        return self

    def columns_needed(
        self, index: int, inputs: Sequence[Shape], output: Shape
    ) -> RowsNeeded | None:
        """Return the columns of input `index` that each output column needs, as `rows_needed`."""
        shapes = [shape.turned for shape in inputs]
        return self.turned().rows_needed(index, shapes, output.turned)

    def with_window(self, window: Window) -> Operator:
        """Return the operator with another sliding window; unchanged if it has no such window."""
        return self

    def with_border(self, padding: tuple[int, int, int, int]) -> Operator:
        """Return the operator with other padding at the border; unchanged if it adds no border."""
        return self

    def with_bias(self) -> Operator:
        """Return the operator that adds a bias; unchanged if it takes no bias."""
        return self

    def of_channels(self, count: int) -> Operator | None:
        """Return the operator that computes `count` of its output channels, any of them.

        None unless each output channel has trained numbers of its own, or none.
        """
        return None

    def on_channels(self, count: int, whole: int) -> Operator | None:
        """Return the operator that reads and computes `count` of the `whole` channels of each input.

        None unless each output channel depends on the input channels of its index only.
        """
        return self if self.is_channelwise else None

    def of_one_group(self) -> Operator:
        """Return attention within one of its groups of tokens; any other operator as it is."""
        return self

    def of_head(self, axis: int, heads: int) -> Operator | None:
        """Return the operator that computes one head: one of `heads` equal parts along an axis.

        The same part of each input is read, by a convolution all channels. None if a part of the
        output may depend on any other part of an input.
        """
        return None

    def on_signed_integers(self, offset: int, *, is_fixed_point: bool) -> Operator:
        """Return the operator on signed integers: the unsigned integers of the file less `offset`."""
        return self


class SameDims(Operator):
    """An operator with one input, whose output has the dims of the input."""

    __slots__ = ()

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the dims of the input."""
        return only_input(self, inputs).dims


class RowByRow(SameDims):
    """An operator with one input: each output row needs the input row of the same number alone."""

    __slots__ = ()

    def rows_needed(self, index: int, inputs: Sequence[Shape], output: Shape) -> RowsNeeded | None:
        """Return the row of the same number."""
        return same_row


class Pointwise(RowByRow):
    """An operator with one input: each element it writes is a function of the element read.

    The function may have parameters for each channel. A row may be written over the row read.
    """

    __slots__ = ()
    is_tileable = True
    is_channelwise = True
    element_operations = 1
    is_elementwise = True
    reads_once = True
    can_be_fused = True
    overwrites_input = True
    by_pixels = True

    @property
    def is_scalar_function(self) -> bool:
        return True


class Move(Operator):
    """An operator that moves elements and changes none."""

    __slots__ = ()
    moves = True


class RowMove(RowByRow):
    """An operator with one input that moves elements within their rows."""

    __slots__ = ()
    moves = True


class AlongOneAxis(Operator):
    """An operator with one input, whose output has another size along one axis at most."""

    __slots__ = ()
    axis: int

    def output_dims(self, inputs: Sequence[Shape]) -> Dims:
        """Return the dims of the input, with the size of the output along the axis."""
        dims = only_input(self, inputs).dims
        if not 0 <= self.axis < len(dims):
            raise InvalidNetwork(f"{type(self).__name__} along axis {self.axis} of {inputs[0]}")
        return (*dims[: self.axis], self.size_of(inputs[0]), *dims[self.axis + 1 :])

    def size_of(self, source: Shape) -> int:
        """Return the size of the axis in the output. Raises InvalidNetwork as output_dims does."""
        return source.dims[self.axis]


def only_input(operator: Operator, inputs: Sequence[Shape]) -> Shape:
    """Return the input of an operator that takes one. Raises InvalidNetwork for another number."""
    if len(inputs) != 1:
        raise InvalidNetwork(f"{type(operator).__name__} takes one input, found {len(inputs)}")
    return inputs[0]


def quantized_types(operator: Operator, types: Types) -> tuple[Quantization, Quantization]:
    """Return the types of the input and the output of an operator between quantised integers.

    Raises ExecutionError if one of the two tensors has real numbers.
    """
    input_types, result = types.inputs[0], types.output
    if input_types is None or result is None:
        raise ExecutionError(f"{operator.in_words()} with one side quantised, one in real numbers")
    return input_types, result


def map_dims(operator: Operator, inputs: Sequence[Shape]) -> tuple[int, int, int]:
    """Return the dims of the only input. Raises InvalidNetwork where it is no stack of maps."""
    shape = only_input(operator, inputs)
    if not shape.is_map:
        raise InvalidNetwork(
            f"{type(operator).__name__} needs feature maps (channels x height x width), "
            f"found {shape}"
        )
    return (shape.channels, shape.height, shape.width)


def require_groups(channels: int, filters: int, groups: int) -> None:
    """Raise InvalidNetwork where groups do not divide channels and filters."""
    if groups < 1 or channels % groups or filters % groups:
        raise InvalidNetwork(
            f"groups: {groups} does not divide {counted(channels, 'channel')} and "
            f"{counted(filters, 'filter')}"
        )


def same_row(row: int) -> tuple[int, int]:
    """Return the row of the same number, as a range."""
    return row, row + 1


def only_row(_row: int) -> tuple[int, int]:
    """Return the only row of an input, as a range."""
    return 0, 1


def strided_row(start: int, step: int = 1) -> RowsNeeded:
    """Return the rule of an output row that needs the single row start + row * step."""
    return lambda row: (start + row * step, start + row * step + 1)


def channel_array_elements(dims: Dims, output: Shape) -> int:
    """Return the number of elements in C of a trained array with a number for each channel.

    C repeats the array for the elements of a tensor that is no feature map.
    """
    return prod(dims) if output.is_map else output.elements


def describe(operator: Operator, epilogue: Sequence[Operator] = ()) -> str:
    """Return what an operator does, with its window and what is fused after it."""
    return " + ".join(fused.in_words() for fused in (operator, *epilogue))
