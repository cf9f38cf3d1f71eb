"""Timing of FINN operators: the attributes of a node become a cluster of event sequences.

RTL operators follow planners.fifo.timing.rtl. All other operators are loops of one iteration per
cycle, with reads and writes at some of the iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from cnn2csdf.geometry import Axis
from csdf.errors import InvalidGraph
from planners.fifo.finn.nodes import FinnNode
from planners.fifo.timing import rtl
from planners.fifo.timing.cluster import (
    Cluster,
    Numbers,
    TimingOptions,
    counting,
    require_few,
    require_short,
)
from planners.fifo.timing.loops import Stream, loop_cluster, marked

Layer = Callable[[FinnNode, TimingOptions], Cluster]

ELEMENTWISE = "Elementwise"  # prefix of the operators with two inputs and a shape


def knows(operator: str) -> bool:
    """Whether the operator has a timing rule."""
    return operator in LAYERS or operator.startswith(ELEMENTWISE)


def layer_cluster(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a layer. Raises UnreadableFile for invalid attributes."""
    layer = _elementwise if node.operator.startswith(ELEMENTWISE) else LAYERS[node.operator]
    try:
        return layer(node, options)
    except InvalidGraph as error:
        raise node.refusal(str(error)) from error


def _loop(
    node: FinnNode,
    options: TimingOptions,
    iterations: int,
    reads: Sequence[Stream],
    writes: Sequence[Stream],
) -> Cluster:
    """Return the cluster of a loop: its iterations, and the iterations that read and write."""
    simd = node.whole("SIMD") if node.has("SIMD") else 1
    latency, remark = options.latency(node.operator, node.name, simd)
    return loop_cluster(
        iterations, reads, writes, latency=latency, gap=options.restart_gap,
        assumed=(remark,) if remark else (),
    )  # fmt: skip


def _words(node: FinnNode, channels: str = "NumChannels", fold: str = "PE") -> int:
    """Return the words of a frame: pixels times channel folds."""
    return node.vectors * node.divided(node.whole(channels), fold, channels)


def _stream_bits(node: FinnNode, streams: int, *keys: str) -> list[int]:
    """Return the bits of an element in each stream, by the first stated list of data types.

    A single type, such as `inputDataType` without a list, is the type of all streams.
    """
    listed = next((key for key in keys if node.has(key)), None)
    kinds = [node["inputDataType"]] if listed is None else list(node[listed])
    if len(kinds) == 1:
        kinds *= streams
    if len(kinds) < streams:
        raise node.refusal(f"{len(kinds)} data types for {streams} streams")
    return [node.type_bits(str(kind)) for kind in kinds[:streams]]


def _pointwise(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of an operator that writes one word to each output per input word."""
    starts, lanes = counting(_words(node)), node.whole("PE")
    out_type = "outputDataType" if node.has("outputDataType") else "inputDataType"
    reads = [(starts, lanes * node.bits("inputDataType"))]
    writes = [(starts, lanes * node.bits(out_type))] * len(node.outputs)
    return _loop(node, options, len(starts), reads, writes)


def _add(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of an addition of streams: a word of each input gives a word of the sum."""
    if node.has("out_shape"):
        return _elementwise(node, options)
    lanes, starts = node.whole("PE"), counting(_words(node))
    bits_of_inputs = _stream_bits(node, len(node.inputs), "inputDataTypes")
    bits_out = max(bits_of_inputs, default=0) + 1  # of a sum of two
    if node.has("outputDataType"):
        bits_out = node.bits("outputDataType")
    reads = [(starts, lanes * bits) for bits in bits_of_inputs]
    return _loop(node, options, len(starts), reads, [(starts, lanes * bits_out)])


def _elementwise(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of an operator with two inputs, which are broadcast to the shape of its output.

    A word of an input is read where the loops over its broadcast axes begin: an input of shape (1, 4)
    in the first row of an output (3, 4), an input (3, 1) in the first step of each row.
    """
    shape, lanes = node.wholes("out_shape"), node.whole("PE")
    folded = (*shape[:-1], node.divided(shape[-1], "PE", "the last axis"))
    steps = counting(prod(folded)).reshape(folded)
    reads = []
    for side in ("lhs", "rhs"):
        if node[f"{side}_style"] != "input":
            continue
        input_shape = node.wholes(f"{side}_shape")
        padded = (1,) * (len(shape) - len(input_shape)) + input_shape
        if len(input_shape) > len(shape) or any(
            size not in (1, whole) for size, whole in zip(padded, shape, strict=True)
        ):
            raise node.refusal(f"a {side}_shape of {input_shape} for an out_shape of {shape}")
        begins = tuple(slice(1 if size == 1 else None) for size in padded)
        reads.append((np.ravel(steps[begins]), lanes * node.bits(f"{side}_dtype")))
    writes = [(np.ravel(steps), lanes * node.bits("out_dtype"))]
    return _loop(node, options, steps.size, reads, writes)


def _pool(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a pooling of windows: a word is written after its last kernel position."""
    folds = node.divided(node.whole("Channels"), "PE", "Channels")
    output_words = node.whole("BatchSize") * prod(node.wholes("OutImgDims", 2)) * folds
    kernel, lanes = prod(node.wholes("KernelSize", 2)), node.whole("PE")
    steps = counting(output_words * kernel)
    bits_in, bits_out = lanes * node.bits("InputDataType"), lanes * node.bits("OutputDataType")
    return _loop(
        node, options, len(steps), [(steps, bits_in)], [(steps[kernel - 1 :: kernel], bits_out)]
    )


def _global_pool(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a pooling of whole maps: all words are read, then all sums written."""
    read, lanes, bits = _words(node), node.whole("PE"), node.bits("inputDataType")
    folds = read // node.vectors
    sum_bits = bits + (max(1, node.vectors) - 1).bit_length()
    latency, _ = options.latency(node.operator, node.name)
    require_short(read + latency + folds)
    # The second loop writes after the last read has passed the pipeline of the first.
    begin = read + latency
    writes = [(begin + counting(folds), lanes * sum_bits)]
    return _loop(node, options, begin + folds, [(counting(read), lanes * bits)], writes)


def _label_select(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a top-K: for each vector read all labels, wait, write K labels."""
    lanes, labels, vectors = node.whole("PE"), node.whole("K"), node.vectors
    words_each = _words(node, "Labels") // vectors
    latency, _ = options.latency(node.operator, node.name)
    length = words_each + latency + labels
    require_few(vectors * max(words_each, labels))
    require_short(vectors * length)
    begins = counting(vectors)[:, None] * length
    reads = np.ravel(begins + counting(words_each))
    writes = np.ravel(begins + words_each + latency + counting(labels))
    bits_out = node.bits("outputDataType") if node.has("outputDataType") else 32
    input_bits = lanes * node.bits("inputDataType")
    return _loop(node, options, length * vectors, [(reads, input_bits)], [(writes, bits_out)])


def _max_pool(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a pooling that reads all rows of a window before it writes a row."""
    rows, columns = node.wholes("ImgDim", 2)
    pool_rows, pool_columns = node.wholes("PoolDim", 2)
    lanes, folds = node.whole("PE"), node.divided(node.whole("NumChannels"), "PE", "NumChannels")
    if node["CeilMode"]:
        output_rows, output_columns = -(-rows // pool_rows), -(-columns // pool_columns)
    else:
        output_rows, output_columns = rows // pool_rows, columns // pool_columns
    reading, writing = pool_rows * columns * folds, output_columns * folds
    total = rows * columns * folds
    require_few(max(output_rows * (reading + writing), total))
    begins = counting(output_rows)[:, None] * (reading + writing)
    reads = np.ravel(begins + counting(reading))[:total]
    writes = np.ravel(begins + reading + counting(writing))
    bits = lanes * node.bits("dataType" if node.has("dataType") else "inputDataType")
    # Rows below the last whole window are read and dropped at the end of the frame.
    dropped = max(0, total - len(reads))
    end = output_rows * (reading + writing)
    reads = np.concatenate((reads, end + counting(dropped)))
    return _loop(node, options, end + dropped, [(reads, bits)], [(writes, bits)])


def _upsample(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of an upsampling: each word is read for its first copy; rows are stored."""
    if node.has("HI"):
        before, after = (tuple(map(node.whole, sides)) for sides in (("HI", "WI"), ("HO", "WO")))
    else:
        before, after = node.wholes("IFMDim", 2), node.wholes("OFMDim", 2)
    if any(large % small for small, large in zip(before, after, strict=True)):
        raise node.refusal(f"{tuple(after)} is not a multiple of {tuple(before)}")
    lanes = "SIMD" if node.has("SIMD") else "PE"
    folds = node.divided(node.whole("NumChannels"), lanes, "NumChannels")
    require_few(prod(after) * folds)
    is_new = [
        counting(large) % (large // small) == 0 for small, large in zip(before, after, strict=True)
    ]
    steps, bits = counting(prod(after) * folds), node.whole(lanes) * node.bits("inputDataType")
    reads = marked(*is_new, words=folds)
    return _loop(node, options, len(steps), [(reads, bits)], [(steps, bits)])


def _down_sample(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a layer that forwards every stride-th pixel of every stride-th row."""
    size, stride = node.wholes("ImgDim", 2), node.wholes("Stride", 2)
    folds = node.divided(node.whole("NumChannels"), "SIMD", "NumChannels")
    require_few(prod(size) * folds)
    selected = [counting(count) % step == 0 for count, step in zip(size, stride, strict=True)]
    steps, bits = counting(prod(size) * folds), node.whole("SIMD") * node.bits("inputDataType")
    writes = marked(*selected, words=folds)
    return _loop(node, options, len(steps), [(steps, bits)], [(writes, bits)])


def _concat_or_split(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a concatenation or a split: per pixel, one channel part at a time."""
    key = "ChannelsPerStream" if node.has("ChannelsPerStream") else "ElemsPerStream"
    is_concat, lanes, channels = node.operator == "Concat", node.whole("SIMD"), node.wholes(key)
    if any(channel % lanes for channel in channels):
        raise node.refusal(f"SIMD={lanes} does not divide {key}={list(channels)}")
    listed = () if is_concat else ("outputDataTypes",)
    bits_of_streams = _stream_bits(node, len(channels), *listed, "inputDataTypes")
    widths = [lanes * bits for bits in bits_of_streams]
    parts = [channel // lanes for channel in channels]
    require_few(node.vectors * sum(parts))
    owner = np.tile(np.repeat(counting(len(parts)), parts), node.vectors)
    steps = counting(len(owner))
    many = [(steps[owner == part], bits) for part, bits in enumerate(widths)]
    single = [(steps, max(widths))]
    reads, writes = (many, single) if is_concat else (single, many)
    return _loop(node, options, len(steps), reads, writes)


def _lookup(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of an embedding: a row of the table is written for each index."""
    if str(node["mem_mode"]) in ("external", "external_decoupled"):
        raise node.refusal("embeddings in external memory; their delay is not in the model")
    starts = counting(prod(node.wholes("InputShape")))
    bits_in = node.bits("InputType" if node.has("InputType") else "inputDataType")
    kind = "EmbeddingType" if node.has("EmbeddingType") else "outputDataType"
    bits_out = node.whole("EmbeddingDim") * node.bits(kind)
    return _loop(node, options, len(starts), [(starts, bits_in)], [(starts, bits_out)])


def _matrix_unit(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of an MVAU, or of a VVAU, which has a vector for each channel fold."""
    simd, lanes, is_vvau = node.whole("SIMD"), node.whole("PE"), node.operator == "VVAU"
    if is_vvau:
        synapse, neuron = node.divided(prod(node.wholes("Kernel", 2)), "SIMD", "kernel size"), 1
        channel_folds = node.divided(node.whole("Channels"), "PE", "Channels")
        vectors = prod(node.wholes("Dim", 2)) * channel_folds
    else:
        synapse = node.divided(node.whole("MW"), "SIMD", "MW")
        neuron = node.divided(node.whole("MH"), "PE", "MH")
        vectors = node.vectors
    require_few(vectors * synapse * neuron)
    bits_in = simd * (lanes if is_vvau else 1) * node.bits("inputDataType")
    bits_out = lanes * node.bits("outputDataType")
    if node.style == "rtl":
        weight, element = node.bits("weightDataType"), node.bits("inputDataType")
        core = options.core(simd, weight, element, is_vvau=is_vvau)
        cluster = rtl.matrix_vector(vectors, (synapse, neuron), core, bits=(bits_in, bits_out))
        return replace(cluster, assumed=(f"pipeline {core}",))
    steps = counting(vectors * synapse * neuron)
    # Input vectors are read in the first neuron fold and replayed in the others.
    reads = steps[steps % (synapse * neuron) < synapse]
    writes = steps[synapse - 1 :: synapse]
    return _loop(node, options, len(steps), [(reads, bits_in)], [(writes, bits_out)])


def _thresholding(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a thresholding: one word is written for each word read."""
    words, lanes = _words(node), node.whole("PE")
    require_few(words)
    bits_in, bits_out = lanes * node.bits("inputDataType"), lanes * node.bits("outputDataType")
    if not node.is_rtl:
        starts = counting(words)
        return _loop(node, options, words, [(starts, bits_in)], [(starts, bits_out)])
    # Binary search over the thresholds: a stage for each bit of the number of steps.
    stages = node.whole("numSteps").bit_length() * (2 if node["deep_pipeline"] else 1)
    return rtl.pipeline(words, stages + 2, stages + 3, bits=(bits_in, bits_out))


def _padding(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a padding: each step writes a word; it reads one inside the border."""
    size = node.wholes("ImgDim", 2)
    folds = node.divided(node.whole("NumChannels"), "SIMD", "NumChannels")
    frames = node.vectors if node.has("numInputVectors") else 1
    if node.operator == "FMPaddingPixel":
        stride = node.wholes("Stride", 2)
        padded = [(length - 1) * step + 1 for length, step in zip(size, stride, strict=True)]
        require_few(prod(padded) * folds * frames)
        inner = [counting(length) % step == 0 for length, step in zip(padded, stride, strict=True)]
    else:
        borders = node.wholes("Padding", 4, least=0)
        before, after = borders[:2], borders[2:]  # top and left, bottom and right
        padded = [sum(lengths) for lengths in zip(size, before, after, strict=True)]
        require_few(prod(padded) * folds * frames)
        inner = [
            np.pad(np.ones(length, dtype=bool), edges)
            for length, *edges in zip(size, before, after, strict=True)
        ]
    words = prod(padded) * folds
    inner_words = marked(*inner, words=folds)
    reads = np.ravel(counting(frames)[:, None] * words + inner_words)
    bits = node.whole("SIMD") * node.bits("inputDataType")
    if node.is_rtl:
        return rtl.padding(reads, words * frames, bits=bits)
    steps = counting(words * frames)
    return _loop(node, options, len(steps), [(reads, bits)], [(steps, bits)])


def _sliding_window(node: FinnNode, _: TimingOptions) -> Cluster:
    """Return the timing of a sliding-window generator, sequential or parallel."""
    window = window_of(node)
    require_few(window.written * (window.folds if window.is_parallel else 1))
    bits = node.whole("SIMD") * node.bits("inputDataType")
    if window.is_parallel:
        wide = bits * prod(window.kernel) if node["parallel_window"] else bits
        cluster = rtl.sliding_window_parallel(window.last_words(), window.read, bits=(bits, wide))
    else:
        fetched, first = window.fetches()
        cluster = rtl.sliding_window(fetched, first, window.buffer_words, window.read, bits=bits)
    return cluster if node.is_rtl else replace(cluster, assumed=("timed as the RTL variant",))


def _converter(node: FinnNode, options: TimingOptions) -> Cluster:
    """Return the timing of a converter between words of two widths."""
    narrow, wide = node.whole("inWidth"), node.whole("outWidth")
    total = prod(node.wholes("shape")) * node.bits("dataType")
    if total % narrow or total % wide:
        raise node.refusal(
            f"a frame of {total} bits is not whole words of {narrow} and {wide} bits"
        )
    return converter_cluster(node, options, total, (narrow, wide))


def converter_cluster(
    node: FinnNode, options: TimingOptions, total: int, widths: tuple[int, int]
) -> Cluster:
    """Return the timing of a width converter for this number of bits per frame."""
    bits_in, bits_out = widths
    read, written = total // bits_in, total // bits_out
    require_few(max(read, written))
    if node.is_rtl and bits_out % bits_in == 0 and bits_out > bits_in:
        return rtl.widening(read, bits_out // bits_in, bits=bits_in)
    if node.is_rtl and bits_in % bits_out == 0 and bits_in > bits_out:
        return rtl.narrowing(read, bits_in // bits_out, bits=bits_in)
    if read == written:
        return rtl.pipeline(read, 1, 2, bits=widths)
    # Two converters through the common width `step`: each word is read when its first bit is needed.
    step = gcd(bits_in, bits_out)
    begin = counting(read) * (bits_in // step)
    end = (counting(written) + 1) * (bits_out // step)
    reads, writes = counting(read), counting(written)
    if read >= written:
        # A word is written when it is complete; each port moves at most one word a cycle.
        writes = np.maximum.accumulate(np.searchsorted(begin, end, side="left") - 1)
    else:
        reads = np.searchsorted(end, begin, side="right")
    return _loop(
        node, options, max(read, written), [(reads.astype(np.int64), bits_in)],
        [(writes.astype(np.int64), bits_out)],
    )  # fmt: skip


LAYERS: dict[str, Layer] = {
    "AddStreams": _add,
    "ChannelwiseOp": _pointwise,
    "Concat": _concat_or_split,
    "ConvolutionInputGenerator": _sliding_window,
    "DownSampler": _down_sample,
    "DuplicateStreams": _pointwise,
    "FMPadding": _padding,
    "FMPaddingPixel": _padding,
    "GlobalAccPool": _global_pool,
    "LabelSelect": _label_select,
    "Lookup": _lookup,
    "MVAU": _matrix_unit,
    "Pool": _pool,
    "Split": _concat_or_split,
    "StreamingDataWidthConverter": _converter,
    "StreamingMaxPool": _max_pool,
    "Thresholding": _thresholding,
    "UpsampleNearestNeighbour": _upsample,
    "VVAU": _matrix_unit,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindow:
    """A window that slides over an image row by row; each pixel has `folds` words.

    image, output_pixels: rows and columns of the input, and of the output. is_depthwise: the words of a
    window are ordered by channel fold, then by pixel, not the reverse. is_parallel: all pixels of a
    window are written in one word.
    """

    axes: tuple[Axis, Axis]
    image: tuple[int, int]
    output_pixels: tuple[int, int]
    folds: int
    is_depthwise: bool
    is_parallel: bool

    @property
    def kernel(self) -> tuple[int, int]:
        """Pixels of a window along each axis."""
        down, across = self.axes
        return down.kernel, across.kernel

    @property
    def read(self) -> int:
        """Words read in a frame."""
        return prod(self.image) * self.folds

    @property
    def written(self) -> int:
        """Words written in a frame."""
        words = 1 if self.is_parallel else prod(self.kernel)  # of a window and a fold
        return prod(self.output_pixels) * self.folds * words

    @property
    def span(self) -> int:
        """Words of the input stream from the first to the last of a window, both counted."""
        (down, across), (_, columns) = self.axes, self.image
        return ((down.extent - 1) * columns + across.extent) * self.folds

    @property
    def buffer_words(self) -> int:
        """Capacity of the buffer: the words of a window, and of the pixels that the stride skips.

        Source: get_buffer_depth of the RTL generator of FINN.
        """
        (down, across), (_, columns), size = self.axes, self.image, prod(self.kernel)
        right = max(0, across.stride - 1 - size) * self.folds
        below = max(0, (down.stride - 1) * columns - size) * self.folds
        return self.span + right + below

    def starts(self) -> Numbers:
        """Return the first word of each window."""
        # With a single window along an axis the stride has no effect, and may be of any size.
        down, across = (
            counting(count) * min(axis.stride, size)
            for count, axis, size in zip(self.output_pixels, self.axes, self.image, strict=True)
        )
        _, columns = self.image
        return np.ravel(down[:, None] * columns + across) * self.folds

    def last_words(self) -> Numbers:
        """Return the input words of the last pixel of each window, one for each fold."""
        return np.ravel(self.starts()[:, None] + self.span - self.folds + counting(self.folds))

    def fetches(self) -> tuple[Numbers, Numbers]:
        """Return the input word of each step, and the first word that is still needed after it."""
        # The dilation of a kernel of 1 has no effect, and may be of any size.
        down, across = (
            counting(axis.kernel) * min(axis.dilation, size)
            for axis, size in zip(self.axes, self.image, strict=True)
        )
        _, columns = self.image
        pixels = np.ravel(down[:, None] * columns + across) * self.folds
        folds, starts = counting(self.folds), self.starts()
        order = folds[:, None] + pixels if self.is_depthwise else pixels[:, None] + folds
        fetched = np.ravel(starts[:, None] + np.ravel(order))
        following = np.append(starts[1:], starts[-1] + self.span - 1)
        needed = np.repeat(following[:, None], order.size, axis=1)
        if self.is_depthwise and self.folds > 1:
            # The first step of a fold is the last read of its first word, and frees it. After the last
            # fold only words of the following window are needed.
            fold = np.repeat(folds, len(pixels))
            inner = fold < self.folds - 1
            needed[:, inner] = starts[:, None] + fold[inner] + 1
        return fetched, np.ravel(needed)


def window_of(node: FinnNode) -> SlidingWindow:
    """Return the window of a ConvolutionInputGenerator."""
    rows, columns = node.wholes("IFMDim", 2)
    output_rows, output_columns = node.wholes("OFMDim", 2)
    kernel = node.wholes("ConvKernelDim", 2)
    down, across = map(Axis, kernel, node.wholes("Stride", 2), node.wholes("Dilation", 2))
    for axis, size, windows in ((down, rows, output_rows), (across, columns, output_columns)):
        _, reach = axis.covered((0, windows))
        if reach > size:
            raise node.refusal(f"windows reach to {reach} of {size} pixels along an axis")
    return SlidingWindow(
        axes=(down, across),
        image=(rows, columns),
        output_pixels=(output_rows, output_columns),
        folds=node.divided(node.whole("IFMChannels"), "SIMD", "IFMChannels"),
        is_depthwise=bool(node["depthwise"]),
        is_parallel=bool(node["parallel_window"]) or prod(kernel) == 1,
    )
