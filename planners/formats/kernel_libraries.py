"""Scratch and own data of optimised kernels in the arena of TensorFlow Lite Micro, by layer shapes.

Scratch lives while its operator runs, in addition to the scratch of the reference kernel. Each
formula has the terms of the library's own function, which requests the bytes. Sources: CMSIS-NN
4ab83cc, Source/*/arm_*_get_buffer_sizes_s8.c (7.0.0: less for grouped convolutions), compiled by
gcc, with the kernels of tflite-micro 90b983c, lite/micro/kernels/cmsis_nn, optimised for speed;
ESP-NN 1.1.2 and 1.2.3, src/*/*_esp32s3.c, with the kernels of esp-tflite-micro 1.4.0, kernels/esp_nn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cnn2csdf.dtypes import Element
from cnn2csdf.readers.tflite.model_file import TfliteGraph, TfliteNode

WORD = 4  # bytes of an accumulator
MVE_LANES = 16  # bytes of a vector, and so channels of int8
# Alignments and margins of ESP-NN: bytes that each version adds to the end of its scratch.
MARGIN_1_1, MARGIN_1_2 = 32, 64
DEPTHWISE_BLOCK = 124  # channels of a depthwise convolution at a time, MVE
# A depthwise layer with one input channel and more outputs is computed as a convolution (MVE, gcc).
MOST_DEPTHWISE_OUTPUTS = 1
# Larger inputs of a depthwise layer are copied to scratch in strips, of as many rows as the filter.
LARGEST_WHOLE_INPUT = 40 * 1024  # bytes of int8, 3x3 filters
LARGEST_WIDE_INPUT = 48 * 1024  # bytes of input and filter in int16, other filters


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Sizes of buffers of one kernel: during its operator, and from preparation on."""

    scratch: tuple[int, ...] = ()
    persistent: tuple[int, ...] = ()


Kernel = Callable[[TfliteNode, TfliteGraph], Request]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLibrary:
    """A version of a kernel library, built for one instruction set.

    kernels: requests of int8 kernels, by operator. data: bytes of the data of a kernel where they
    differ from those of the reference kernel. uncounted: operators whose requests are not counted.
    int8_only: operators whose requests for other integers are not counted.
    """

    name: str
    version: str
    build: str
    kernels: Mapping[str, Kernel]
    data: Mapping[str, int] = field(default_factory=dict)
    uncounted: frozenset[str] = frozenset()
    int8_only: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.name} {self.version}, {self.build}"

    def request(self, node: TfliteNode, graph: TfliteGraph) -> Request:
        """Return the bytes that a kernel requests in addition to the reference kernel."""
        kernel = self.kernels.get(node.kind)
        return kernel(node, graph) if kernel is not None and _is_int8(node, graph) else Request()

    def is_guess(self, node: TfliteNode, graph: TfliteGraph) -> bool:
        """Return whether the requests of a node are not counted."""
        if node.kind not in self.int8_only:
            return node.kind in self.uncounted
        is_float = graph.tensors[node.inputs[0]].element is Element.FLOAT32
        return not is_float and not _is_int8(node, graph)


def _is_int8(node: TfliteNode, graph: TfliteGraph) -> bool:
    """Return whether input, filter and output are of int8; the bias, a third input, may be wider."""
    numbers = (*node.inputs[:2], *node.outputs[:1])
    return all(graph.tensors[number].element is Element.INT8 for number in numbers if number >= 0)


def _rounded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAxis:
    """A convolution along its rows or its columns.

    size, taps, outputs: of the input, filter and output. pad: before the first element.
    """

    size: int
    taps: int
    outputs: int
    stride: int
    dilation: int
    pad: int

    @property
    def beyond(self) -> int:
        """The elements that the kernels of ESP-NN read after the end of the input.

        Each output reads a stride, the last output the rest of its window as well. For example,
        5 outputs with stride 2 and 3 taps read 5 * 2 + 3 - 1 = 12 rows, 1 beyond an input of 11. As
        in ESP-NN, dilation does not count: the number is below 0 for some dilated filters.
        """
        return self.outputs * self.stride + self.taps - 1 - self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """The shapes of a convolution.

    batch: of the input. channels, filter_channels, outputs: of input, filter and output.
    """

    batch: int
    rows: WindowAxis
    columns: WindowAxis
    channels: int
    filter_channels: int
    outputs: int

    @property
    def taps(self) -> int:
        """The elements of a channel of the filter."""
        return self.rows.taps * self.columns.taps

    @property
    def window(self) -> int:
        """The elements of the input under the filter."""
        return self.taps * self.channels

    @property
    def is_padded(self) -> bool:
        """Whether padding precedes the first row or column."""
        return (self.rows.pad, self.columns.pad) != (0, 0)

    @property
    def is_dilated(self) -> bool:
        """Whether the elements of a window are apart."""
        return (self.rows.dilation, self.columns.dilation) != (1, 1)

    def is_filter(self, rows: int, columns: int) -> bool:
        """Whether the filter has these sizes."""
        return (self.rows.taps, self.columns.taps) == (rows, columns)

    def padded(self, more_rows: int = 0, more_columns: int = 0) -> int:
        """Return the elements of a channel of the input with so many more rows and columns."""
        return (self.rows.size + more_rows) * (self.columns.size + more_columns)


def convolution_of(node: TfliteNode, graph: TfliteGraph) -> Convolution | None:
    """Return the shapes of CONV_2D and DEPTHWISE_CONV_2D; None where a tensor has not four axes."""
    dims = [graph.tensors[number].dims for number in (*node.inputs[:2], *node.outputs[:1])]
    if len(dims) != 3 or any(len(axes) != 4 for axes in dims) or node.options is None:
        return None
    options, dilation_field = node.options, 4 if node.kind == "CONV_2D" else 5
    is_same = options.integer(0, "b") == 0

    def axis(number: int) -> WindowAxis:
        """Return the rows (1) or columns (2); the options have the columns first."""
        size, taps, outputs = (axes[number] for axes in dims)
        stride = options.integer(3 - number, "i")
        dilation = options.integer(dilation_field + 2 - number, "i", 1)
        total_pad = max(0, (outputs - 1) * stride + (taps - 1) * dilation + 1 - size)
        return WindowAxis(
            size=size, taps=taps, outputs=outputs, stride=stride, dilation=dilation,
            pad=total_pad // 2 if is_same else 0,
        )  # fmt: skip

    source, filters, result = dims
    return Convolution(
        batch=source[0], rows=axis(1), columns=axis(2),
        channels=source[3], filter_channels=filters[3], outputs=result[3],
    )  # fmt: skip


def by_shapes(formula: Callable[[Convolution], int]) -> Kernel:
    """Return the requests of a kernel whose scratch is a formula of the shapes of a convolution."""

    def requests(node: TfliteNode, graph: TfliteGraph) -> Request:
        shapes = convolution_of(node, graph)
        size = 0 if shapes is None else formula(shapes)
        return Request(scratch=(size,) if size > 0 else ())

    return requests


def _is_pointwise(layer: Convolution) -> bool:
    is_plain = layer.is_filter(1, 1) and not layer.is_padded and not layer.is_dilated
    return is_plain and layer.channels == layer.filter_channels


def arm_dsp_convolution(layer: Convolution) -> int:
    """Return the bytes of two columns of int16, or none for pointwise convolutions."""
    return 0 if _is_pointwise(layer) else 2 * 2 * _rounded(layer.window, 4)


def arm_mve_convolution(layer: Convolution) -> int:
    """Return the bytes of four columns in whole vectors; for kernels of one row, of padded windows."""
    if _is_pointwise(layer):
        return 0
    row = _mve_row(layer)
    return 4 * _rounded(layer.window, MVE_LANES) if row is None else row


def _mve_row(layer: Convolution) -> int | None:
    """Return the bytes of a convolution in one row; None for others.

    The kernel (arm_convolve_1_x_n_s8) copies the windows that overlap padding, at the left end and
    then at the right end; windows inside the input are read in place. A row with fewer outputs than
    overlap padding is computed as other convolutions are.
    """
    columns, channels = layer.columns, layer.channels
    is_row = layer.rows.size == layer.rows.taps == 1 and not layer.is_dilated
    if not is_row or columns.stride * channels % 4 or channels != layer.filter_channels:
        return None
    total_pad = (columns.outputs - 1) * columns.stride + columns.taps - columns.size
    # The remainder of C has the sign of the dividend: -1 if the windows end before the input does.
    more_at_right = total_pad % 2 if total_pad >= 0 else -(total_pad % 2)

    def outputs_over(padding: int) -> int:
        """Return the number of outputs whose windows overlap padding of that width."""
        return max(1, -(-padding // columns.stride)) if padding else 0

    at_right = outputs_over(columns.pad + more_at_right)
    if outputs_over(columns.pad) + at_right > columns.outputs:
        return None
    left = columns.taps + columns.pad
    right = columns.taps - 1 + (at_right if more_at_right else columns.pad)
    return max(left, right) * channels


def _is_blocked(layer: Convolution) -> bool:
    return layer.channels == layer.outputs and layer.batch == 1 and not layer.is_dilated


def arm_dsp_depthwise(layer: Convolution) -> int:
    """Return the bytes of one window of int16, or none for 3x3 kernels and for channel multipliers."""
    is_small = layer.is_filter(3, 3) and layer.rows.pad <= 1 and layer.columns.pad <= 1
    return 2 * layer.window if _is_blocked(layer) and not is_small else 0


def arm_mve_depthwise(layer: Convolution) -> int:
    """Return the bytes of four windows of a block of channels, or of a convolution and its filter."""
    if layer.channels == 1 and layer.outputs > MOST_DEPTHWISE_OUTPUTS:
        as_convolution = replace(layer, filter_channels=1)
        return arm_mve_convolution(as_convolution) + layer.outputs * layer.taps
    return 4 * DEPTHWISE_BLOCK * layer.taps if _is_blocked(layer) else 0


def arm_dsp_average(node: TfliteNode, graph: TfliteGraph) -> Request:
    """Return the sums of all channels."""
    return Request(scratch=(WORD * graph.tensors[node.outputs[0]].dims[-1],))


def arm_fully_connected(*, has_vectors: bool) -> Kernel:
    """Return the requests of FULLY_CONNECTED; has_vectors: for MVE, which sums the weights before."""

    def requests(node: TfliteNode, graph: TfliteGraph) -> Request:
        filters, result = graph.tensors[node.inputs[1]], graph.tensors[node.outputs[0]].dims
        if len(result) > 2 and filters.dims[-1] % 4 == 0:  # as a convolution, quantized by channel
            return Request(scratch=() if filters.scales.size > 1 else (2 * WORD * result[-1],))
        if not has_vectors:
            return Request()
        constants = [graph.tensors[number] for number in node.inputs[1:3] if number >= 0]
        if all(tensor.is_constant for tensor in constants):
            return Request(persistent=(WORD * result[-1],))
        return Request(scratch=(WORD * result[-1],))

    return requests


def arm_mve_svdf(node: TfliteNode, graph: TfliteGraph) -> Request:
    """Return the sums of the weights of each filter."""
    return Request(persistent=(WORD * graph.tensors[node.inputs[1]].dims[0],))


def _esp_pointwise(layer: Convolution, margin: int) -> int | None:
    """Return the bytes of a pointwise convolution; None for others.

    Filters are copied with channels in whole vectors; the input only if its channels are not. Eight
    pixels are transposed at a time, in two buffers. margin: bytes for alignment.
    """
    has_stride = (layer.rows.stride, layer.columns.stride) != (1, 1)
    if not layer.is_filter(1, 1) or layer.is_padded or has_stride:
        return None
    channels, pixels = _rounded(layer.channels, 8), layer.padded()
    source = pixels * channels if layer.channels % 8 else 0
    transposed = 2 * 8 * channels if pixels >= 8 else 0
    return source + channels * layer.outputs + transposed + margin


def _esp_general(layer: Convolution, margin: int) -> int:
    """Return the bytes of the padded input, of the filters in whole vectors, and of accumulators."""
    padded = layer.padded(2 * layer.rows.pad, 2 * layer.columns.pad)
    source = padded * layer.channels if layer.is_padded else 0
    filters = layer.taps * _rounded(layer.channels, 16) * layer.outputs
    return source + filters + margin + WORD * layer.outputs


def esp_1_1_convolution(layer: Convolution) -> int:
    """Return the scratch of a convolution, ESP-NN 1.1."""
    pointwise = _esp_pointwise(layer, MARGIN_1_1)
    return _esp_general(layer, MARGIN_1_1) if pointwise is None else pointwise


def esp_1_2_convolution(layer: Convolution) -> int:
    """Return the scratch of a convolution, ESP-NN 1.2: more copies of filters and input."""
    pointwise = _esp_pointwise(layer, MARGIN_1_2)
    if pointwise is not None:
        return pointwise
    row = layer.columns.taps * layer.channels
    if row < 16 <= layer.window:  # each filter and one window are copied in whole vectors
        windows = (layer.outputs + 1) * _rounded(layer.window, 16)
        return MARGIN_1_2 + 2 * 16 + WORD * layer.outputs + windows
    filters = _rounded(row, 16) * layer.rows.taps * layer.outputs
    rows, columns = max(0, layer.rows.beyond), max(0, layer.columns.beyond)
    source = layer.padded(rows, columns) * layer.channels if rows or columns else 0
    return _esp_general(layer, MARGIN_1_2) + filters + source


def _esp_padding(layer: Convolution) -> tuple[int, int]:
    """Return the rows and columns that 3x3 depthwise kernels add, as the library: also below 0."""
    rows, columns = layer.rows, layer.columns
    return (2 * rows.pad, 2 * columns.pad) if layer.is_padded else (rows.beyond, columns.beyond)


def _esp_wide(layer: Convolution) -> int:
    """Return the bytes of filter and input of a depthwise convolution in int16."""
    return 2 * (layer.taps * layer.outputs + layer.padded() * layer.channels)


def esp_1_1_depthwise(layer: Convolution) -> int:
    """Return the scratch of a depthwise convolution, ESP-NN 1.1."""
    multiplier = layer.outputs // layer.channels
    if multiplier == 1 and layer.channels % 8 == 0 and layer.is_filter(3, 3):
        if layer.channels % 16:
            return _esp_wide(layer) + 16
        rows, columns = _esp_padding(layer)
        source = layer.padded(rows, columns) * layer.channels if rows or columns else 0
        return layer.window + source + 16
    return _esp_wide(layer) + 16 if multiplier % 4 == 0 else 32


def esp_1_2_depthwise(layer: Convolution) -> int:
    """Return the scratch of a depthwise convolution, ESP-NN 1.2."""
    channels, multiplier = layer.channels, layer.outputs // layer.channels
    if multiplier != 1:
        return _esp_wide(layer) + 32 if multiplier % 4 == 0 else 32
    if channels % 8:
        return _esp_padded_channels(layer) if channels > 3 else 32
    if layer.is_filter(3, 3) and channels > 8:
        return _esp_three_by_three(layer)
    if layer.is_filter(3, 3) or _esp_wide(layer) <= LARGEST_WIDE_INPUT:
        return _esp_wide(layer) + 32
    strip = layer.rows.taps * layer.columns.size * channels
    return 2 * (layer.window + strip) + 32


def _esp_three_by_three(layer: Convolution) -> int:
    """Return the bytes of the filter and the padded input, whole or a strip of it.

    If channels are no whole vectors, they are copied as such, and so is the result.
    """
    channels = layer.channels
    if channels % 16 == 0:
        rows, columns = _esp_padding(layer)
        source = layer.padded(rows, columns) * channels if rows or columns else 0
        strip = (layer.columns.size + columns) * 3 * channels
        return layer.window + (source if source <= LARGEST_WHOLE_INPUT else strip) + 16
    rows, columns = (2 * axis.pad + max(0, axis.beyond) for axis in (layer.rows, layer.columns))
    elements = layer.taps + layer.padded(rows, columns) + layer.rows.outputs * layer.columns.outputs
    return elements * _rounded(channels, 16) + 64


def _esp_padded_channels(layer: Convolution) -> int:
    """Return the bytes of filter and input in int16, of the result, and of three words a channel.

    The words are bias, shift and multiplier. Channels are in whole vectors, and so is each array.
    """
    channels = _rounded(layer.channels, 8)
    end = _rounded(2 * layer.taps * channels, 16)
    end = _rounded(end + 2 * layer.padded() * channels, 16)
    end = _rounded(end + layer.rows.outputs * layer.columns.outputs * channels, 16)
    return end + 3 * WORD * channels + 16


def esp_softmax(node: TfliteNode, graph: TfliteGraph) -> Request:
    """Return a word for each element along the second axis."""
    dims = graph.tensors[node.inputs[0]].dims
    return Request(scratch=(WORD * dims[1],) if len(dims) > 1 else ())


ARM_VERSION, ARM_DATA = "4ab83cc", {
    "AVERAGE_POOL_2D": 36, "CONV_2D": 60, "DEPTHWISE_CONV_2D": 60, "FULLY_CONNECTED": 72,
    "MAX_POOL_2D": 36, "SOFTMAX": 64, "SVDF": 40,
}  # fmt: skip
ARM_UNCOUNTED = frozenset(("BATCH_MATMUL", "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM"))
ARM_INT8 = frozenset(("AVERAGE_POOL_2D", "CONV_2D", "FULLY_CONNECTED", "SVDF"))
ESP_DATA = {"CONV_2D": 60, "DEPTHWISE_CONV_2D": 60, "SOFTMAX": 60}
LIBRARIES = (
    KernelLibrary(
        name="CMSIS-NN", version=ARM_VERSION, build="DSP",
        kernels={
            "CONV_2D": by_shapes(arm_dsp_convolution),
            "DEPTHWISE_CONV_2D": by_shapes(arm_dsp_depthwise),
            "FULLY_CONNECTED": arm_fully_connected(has_vectors=False),
            "AVERAGE_POOL_2D": arm_dsp_average,
        },
        data=ARM_DATA, uncounted=ARM_UNCOUNTED, int8_only=ARM_INT8,
    ),
    KernelLibrary(
        name="CMSIS-NN", version=ARM_VERSION, build="MVE",
        kernels={
            "CONV_2D": by_shapes(arm_mve_convolution),
            "DEPTHWISE_CONV_2D": by_shapes(arm_mve_depthwise),
            "FULLY_CONNECTED": arm_fully_connected(has_vectors=True),
            "SVDF": arm_mve_svdf,
        },
        data=ARM_DATA, uncounted=ARM_UNCOUNTED, int8_only=ARM_INT8,
    ),
    *(
        KernelLibrary(
            name="ESP-NN", version=version, build="ESP32-S3",
            kernels={
                "CONV_2D": by_shapes(convolution),
                "DEPTHWISE_CONV_2D": by_shapes(depthwise),
                "SOFTMAX": esp_softmax,
            },
            data=ESP_DATA,
        )
        for version, convolution, depthwise in (
            ("1.1.2", esp_1_1_convolution, esp_1_1_depthwise),
            ("1.2.3", esp_1_2_convolution, esp_1_2_depthwise),
        )
    ),
)  # fmt: skip
