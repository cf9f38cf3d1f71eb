"""FINN operators timed in a frame: attributes of a node become a cluster of series.

FINN operators that pass streams on: copies, sums, pooling, joins, splits, look-ups.

FINN operators as loops: steps of an iteration a cycle, with reads and writes at some of them.

Windows over images: which word of the input each step of a sliding window takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from csdf.errors import InvalidGraph
from planners.fifo.finn.nodes import Node
from planners.fifo.timing import rtl
from planners.fifo.timing.cluster import (
    Cluster,
    Numbers,
    TimingOptions,
    counting,
    require_few,
    require_short,
)
from planners.fifo.timing.loops import Loop, Stream, loop_cluster


def _one_to_one(node: Node, options: TimingOptions) -> Cluster:
    words = node.vectors * node.divided(node.whole("NumChannels"), "PE", "NumChannels")
    lanes, each = node.whole("PE"), counting(words)
    taken = lanes * node.bits("inputDataType")
    given = lanes * node.bits("outputDataType") if node.has("outputDataType") else taken
    return loop(node, options, words, (each, taken), (each, given))


def _duplicate(node: Node, options: TimingOptions) -> Cluster:
    words = node.vectors * node.divided(node.whole("NumChannels"), "PE", "NumChannels")
    bits, each = node.whole("PE") * node.bits("inputDataType"), counting(words)
    return loop(node, options, words, (each, bits), *[(each, bits)] * len(node.outputs))


def _add(node: Node, options: TimingOptions) -> Cluster:
    if not node.has("out_shape"):
        words = node.vectors * node.divided(node.whole("NumChannels"), "PE", "NumChannels")
        kinds = [str(node["inputDataType"])] * len(node.inputs)
        if node.has("inputDataTypes"):
            kinds = [str(kind) for kind in node["inputDataTypes"]]
        widths = [node.whole("PE") * _bits(node, kind) for kind in kinds]
        given = node.whole("PE") * max(_bits(node, kind) + 1 for kind in kinds)
        if node.has("outputDataType"):
            given = node.whole("PE") * node.bits("outputDataType")
        each = counting(words)
        return loop_of(node, options, words, [(each, one) for one in widths], [(each, given)])
    return elementwise(node, options)


def _bits(node: Node, kind: str) -> int:
    return Node(
        name=node.name, operator=node.operator, style=node.style, written=node.written,
        attributes={"type": kind}, inputs=(), outputs=(), file=node.file,
    ).bits("type")  # fmt: skip


def elementwise(node: Node, options: TimingOptions) -> Cluster:
    """Return an operator of two inputs and a shape."""
    shape, lanes = node.wholes("out_shape"), node.whole("PE")
    words = node.divided(prod(shape), "PE", "elements")
    reads = []
    for side in ("lhs", "rhs"):
        if node[f"{side}_style"] != "input":
            continue
        given = prod(node.wholes(f"{side}_shape"))
        if given not in (prod(shape), 0) and prod(shape) % given:
            raise node.refusal(f"a {side}_shape of {given} elements for {prod(shape)}")
        taken = max(1, given // lanes)
        reads.append((counting(taken) * (words // taken), lanes * node.bits(f"{side}_dtype")))
    each = counting(words)
    return loop_of(node, options, words, reads, [(each, lanes * node.bits("out_dtype"))])


def _pool(node: Node, options: TimingOptions) -> Cluster:
    folds = node.divided(node.whole("Channels"), "PE", "Channels")
    made = node.whole("BatchSize") * prod(node.wholes("OutImgDims", 2)) * folds
    kernel, lanes = prod(node.wholes("KernelSize", 2)), node.whole("PE")
    steps = counting(made * kernel)
    bits = lanes * node.bits("InputDataType"), lanes * node.bits("OutputDataType")
    return loop(node, options, len(steps), (steps, bits[0]), (steps[kernel - 1 :: kernel], bits[1]))


def _global_pool(node: Node, options: TimingOptions) -> Cluster:
    folds = node.divided(node.whole("NumChannels"), "PE", "NumChannels")
    read, lanes = node.vectors * folds, node.whole("PE")
    taken = node.bits("inputDataType")
    given = taken + (max(1, node.vectors) - 1).bit_length()
    latency, _ = options.latency(node.operator, node.name)
    require_short(read + latency + folds)
    begin = read + latency  # the second loop begins when the first has ended
    writes = begin + counting(folds)
    return loop(
        node, options, begin + folds, (counting(read), lanes * taken), (writes, lanes * given)
    )


def _label_select(node: Node, options: TimingOptions) -> Cluster:
    labels, lanes, kept = node.whole("Labels"), node.whole("PE"), node.whole("K")
    read = node.vectors * node.divided(labels, "PE", "Labels")
    each = read // node.vectors
    latency, _ = options.latency(node.operator, node.name)
    length = each + latency + kept
    require_few(node.vectors * max(each, kept))
    require_short(node.vectors * length)
    begin = np.repeat(counting(node.vectors) * length, each)
    reads = begin + np.tile(counting(each), node.vectors)
    ends = np.repeat(counting(node.vectors) * length, kept)
    writes = ends + np.tile(each + latency + counting(kept), node.vectors)
    given = node.bits("outputDataType") if node.has("outputDataType") else 32
    return loop(
        node,
        options,
        length * node.vectors,
        (reads, lanes * node.bits("inputDataType")),
        (writes, given),
    )


def _max_pool(node: Node, options: TimingOptions) -> Cluster:
    """For each row of output all rows that it covers are read, then it is written."""
    image, pool = node.wholes("ImgDim", 2), node.wholes("PoolDim", 2)
    channels, lanes = node.whole("NumChannels"), node.whole("PE")
    folds = node.divided(channels, "PE", "NumChannels")
    made = [
        (size + one - 1) // one if node["CeilMode"] else size // one
        for size, one in zip(image, pool, strict=True)
    ]
    reading, writing = pool[0] * image[1] * folds, made[1] * folds
    require_few(max(made[0] * (reading + writing), prod(image) * folds))
    rows = counting(made[0]) * (reading + writing)
    reads = (rows[:, None] + counting(reading)[None, :]).ravel()[: image[0] * image[1] * folds]
    writes = (rows[:, None] + reading + counting(writing)[None, :]).ravel()
    bits = lanes * node.bits("dataType" if node.has("dataType") else "inputDataType")
    left = image[0] * image[1] * folds - len(reads)  # rows below the last whole window
    end = made[0] * (reading + writing)
    reads = np.concatenate((reads, end + counting(max(0, left))))
    return loop(node, options, end + max(0, left), (reads, bits), (writes, bits))


def _upsample(node: Node, options: TimingOptions) -> Cluster:
    """Every word of a row is read when its first copy is written; rows are kept to be repeated."""
    size, grown = resized(node)
    lanes = "SIMD" if node.has("SIMD") else "PE"
    folds = node.divided(node.whole("NumChannels"), lanes, "NumChannels")
    require_few(prod(grown) * folds)
    rows, columns = (
        np.repeat(counting(one), two // one) for one, two in zip(size, grown, strict=True)
    )
    is_new = np.append(True, np.diff(rows) > 0)[:, None] & np.append(True, np.diff(columns) > 0)
    reads = np.flatnonzero(np.repeat(is_new.ravel(), folds)).astype(np.int64)
    steps = counting(prod(grown) * folds)
    bits = node.whole(lanes) * node.bits("inputDataType")
    return loop(node, options, len(steps), (reads, bits), (steps, bits))


def _concat(node: Node, options: TimingOptions) -> Cluster:
    parts, lanes, kinds, given = _parts(node, "inputDataTypes")
    require_few(node.vectors * sum(parts))
    turns = np.repeat(counting(len(parts)), parts)
    steps = counting(node.vectors * len(turns))
    owner = np.tile(turns, node.vectors)
    reads = [(steps[owner == part], lanes * _bits(node, kind)) for part, kind in enumerate(kinds)]
    return loop_of(node, options, len(steps), reads, [(steps, lanes * given)])


def _split(node: Node, options: TimingOptions) -> Cluster:
    parts, lanes, kinds, given = _parts(node, "outputDataTypes")
    require_few(node.vectors * sum(parts))
    owner = np.tile(np.repeat(counting(len(parts)), parts), node.vectors)
    steps = counting(len(owner))
    writes = [(steps[owner == part], lanes * _bits(node, kind)) for part, kind in enumerate(kinds)]
    return loop_of(node, options, len(steps), [(steps, lanes * given)], writes)


def _parts(node: Node, kinds_key: str) -> tuple[list[int], int, list[str], int]:
    """The words of each part of a vector, the lanes, the types of the parts, the bits of all."""
    key = "ChannelsPerStream" if node.has("ChannelsPerStream") else "ElemsPerStream"
    lanes = node.whole("SIMD")
    channels = node.wholes(key)
    if any(one % lanes for one in channels):
        raise node.refusal(f"SIMD={lanes} does not divide {key}={list(channels)}")
    kinds = [str(node["inputDataType"])] * len(channels)
    if node.has(kinds_key):
        kinds = [str(kind) for kind in node[kinds_key]]
    elif node.has("inputDataTypes"):
        kinds = [str(kind) for kind in node["inputDataTypes"]] * len(channels)
    kinds = kinds[: len(channels)]
    return [one // lanes for one in channels], lanes, kinds, max(_bits(node, one) for one in kinds)


def _lookup(node: Node, options: TimingOptions) -> Cluster:
    if str(node["mem_mode"]) in ("external", "external_decoupled"):
        raise node.refusal("embeddings in external memory; their delay is not in the model")
    words = prod(node.wholes("InputShape"))
    kind = "EmbeddingType" if node.has("EmbeddingType") else "outputDataType"
    taken = node.bits("InputType" if node.has("InputType") else "inputDataType")
    each = counting(words)
    given = node.whole("EmbeddingDim") * node.bits(kind)
    return loop(node, options, words, (each, taken), (each, given))


def _down_sampler(node: Node, options: TimingOptions) -> Cluster:
    """Of every stride-th row every stride-th pixel is passed on."""
    size = node.wholes("ImgDim", 2)
    stride = node.wholes("Stride", 2)
    folds = node.divided(node.whole("NumChannels"), "SIMD", "NumChannels")
    require_few(prod(size) * folds)
    kept = (counting(size[0]) % stride[0] == 0)[:, None] & (counting(size[1]) % stride[1] == 0)
    writes = np.flatnonzero(np.repeat(kept.ravel(), folds)).astype(np.int64)
    steps = counting(prod(size) * folds)
    bits = node.whole("SIMD") * node.bits("inputDataType")
    return loop(node, options, len(steps), (steps, bits), (writes, bits))


STREAM_LAYERS: dict[str, Layer] = {
    "AddStreams": _add,
    "ChannelwiseOp": _one_to_one,
    "Concat": _concat,
    "DownSampler": _down_sampler,
    "DuplicateStreams": _duplicate,
    "GlobalAccPool": _global_pool,
    "LabelSelect": _label_select,
    "Lookup": _lookup,
    "Pool": _pool,
    "Split": _split,
    "StreamingMaxPool": _max_pool,
    "UpsampleNearestNeighbour": _upsample,
}


def layer_cluster(node: Node, options: TimingOptions) -> Cluster:
    """Return how the layer is timed. Raises UnreadableFile for attributes that make no sense."""
    layer = elementwise if node.operator.startswith(ELEMENTWISE) else LAYERS[node.operator]
    try:
        return layer(node, options)
    except InvalidGraph as error:
        raise node.refusal(str(error)) from error


def _matrix_vector(node: Node, options: TimingOptions) -> Cluster:
    rows, columns = node.whole("MH"), node.whole("MW")
    synapse = node.divided(columns, "SIMD", "MW")
    neuron = node.divided(rows, "PE", "MH")
    vectors, simd = node.vectors, node.whole("SIMD")
    require_few(vectors * synapse * neuron)
    bits = simd * node.bits("inputDataType"), node.whole("PE") * node.bits("outputDataType")
    if node.style == "rtl":
        core = options.core(
            simd, node.bits("weightDataType"), node.bits("inputDataType"), is_vvau=False
        )
        found = rtl.matrix_vector(vectors, (synapse, neuron), core, bits=bits)
        return _assuming(found, f"pipeline {core}")
    steps = counting(vectors * synapse * neuron)
    reads = steps[steps % (synapse * neuron) < synapse]
    return loop(
        node, options, len(steps), (reads, bits[0]), (steps[synapse - 1 :: synapse], bits[1])
    )


def _vector_vector(node: Node, options: TimingOptions) -> Cluster:
    channels, pixels = node.whole("Channels"), prod(node.wholes("Dim", 2))
    kernel = prod(node.wholes("Kernel", 2))
    synapse = node.divided(kernel, "SIMD", "kernel size")
    made = pixels * node.divided(channels, "PE", "Channels")
    lanes = node.whole("SIMD") * node.whole("PE")
    require_few(made * synapse)
    bits = lanes * node.bits("inputDataType"), node.whole("PE") * node.bits("outputDataType")
    if node.style == "rtl":
        core = options.core(
            node.whole("SIMD"),
            node.bits("weightDataType"),
            node.bits("inputDataType"),
            is_vvau=True,
        )
        found = rtl.matrix_vector(made, (synapse, 1), core, bits=bits)
        return _assuming(found, f"pipeline {core}")
    steps = counting(made * synapse)
    return loop(
        node, options, len(steps), (steps, bits[0]), (steps[synapse - 1 :: synapse], bits[1])
    )


def _assuming(cluster: Cluster, *remarks: str) -> Cluster:
    return Cluster(
        series=cluster.series,
        waits=cluster.waits,
        inputs=cluster.inputs,
        outputs=cluster.outputs,
        assumed=(*cluster.assumed, *remarks),
    )


def _padding(node: Node, options: TimingOptions) -> Cluster:
    inner = inner_positions(node)
    bits = node.whole("SIMD") * node.bits("inputDataType")
    if node.is_rtl:
        return rtl.padding(inner, bits=bits)
    steps = counting(len(inner))
    return loop(node, options, len(steps), (np.flatnonzero(inner), bits), (steps, bits))


def _sliding_window(node: Node, _: TimingOptions) -> Cluster:
    window = window_of(node)
    require_few(window.written * (window.folds if window.is_parallel else 1))
    simd = node.whole("SIMD")
    bits = simd * node.bits("inputDataType")
    if window.is_parallel:
        wide = bits * window.kernel[0] * window.kernel[1] if node["parallel_window"] else bits
        found = rtl.sliding_window_parallel(window.last_words(), window.read, bits=(bits, wide))
    else:
        fetched, first = window.fetches()
        found = rtl.sliding_window(fetched, first, window.room, window.read, bits=bits)
    return found if node.is_rtl else _assuming(found, "timed as the RTL variant")


def _converter(node: Node, options: TimingOptions) -> Cluster:
    narrow, wide = node.whole("inWidth"), node.whole("outWidth")
    total = prod(node.wholes("shape")) * node.bits("dataType")
    if total % narrow or total % wide:
        raise node.refusal(
            f"a frame of {total} bits is not whole words of {narrow} and {wide} bits"
        )
    return converter_cluster(node, options, total, (narrow, wide))


def converter_cluster(
    node: Node, options: TimingOptions, total: int, widths: tuple[int, int]
) -> Cluster:
    """Return a width converter for so many bits of a frame."""
    taken, given = widths
    read, written = total // taken, total // given
    require_few(max(read, written))
    if node.is_rtl and given % taken == 0 and given > taken:
        return rtl.widening(read, given // taken, bits=taken)
    if node.is_rtl and taken % given == 0 and taken > given:
        return rtl.narrowing(read, taken // given, bits=taken)
    if read == written:
        return rtl.pipeline(read, 1, 2, bits=(taken, given))
    return _any_ratio(node, options, (read, taken), (written, given))


def _any_ratio(
    node: Node, options: TimingOptions, read: tuple[int, int], write: tuple[int, int]
) -> Cluster:
    """Bits are taken as soon as they are needed: as two converters through a common width do."""
    step = gcd(read[1], write[1])
    begin = counting(read[0]) * (read[1] // step)
    end = (counting(write[0]) + 1) * (write[1] // step)
    # A word is read before the bits of it are needed; both ports have at most one word a cycle.
    words = np.maximum.accumulate(np.searchsorted(begin, end, side="left") - 1)
    ratio = max(read[0], write[0])
    if read[0] >= write[0]:
        return loop(
            node, options, ratio, (counting(ratio), read[1]), (words.astype(np.int64), write[1])
        )
    first = np.searchsorted(end, begin, side="right").astype(np.int64)
    return loop(node, options, ratio, (first, read[1]), (counting(ratio), write[1]))


def _thresholding(node: Node, options: TimingOptions) -> Cluster:
    words = node.vectors * node.divided(node.whole("NumChannels"), "PE", "NumChannels")
    lanes = node.whole("PE")
    bits = lanes * node.bits("inputDataType"), lanes * node.bits("outputDataType")
    require_few(words)
    if not node.is_rtl:
        return loop(node, options, words, (counting(words), bits[0]), (counting(words), bits[1]))
    stages = node.whole("numSteps").bit_length() * (2 if node["deep_pipeline"] else 1)
    return rtl.pipeline(words, stages + 2, stages + 3, bits=bits)


LAYERS: dict[str, Layer] = STREAM_LAYERS | {
    "ConvolutionInputGenerator": _sliding_window,
    "FMPadding": _padding,
    "FMPaddingPixel": _padding,
    "MVAU": _matrix_vector,
    "StreamingDataWidthConverter": _converter,
    "Thresholding": _thresholding,
    "VVAU": _vector_vector,
}
ELEMENTWISE = "Elementwise"  # operators of this beginning have two inputs and a shape


def knows(operator: str) -> bool:
    """Whether there is a rule for the operator."""
    return operator in LAYERS or operator.startswith(ELEMENTWISE)


Layer = Callable[[Node, TimingOptions], Cluster]


def loop(
    node: Node,
    options: TimingOptions,
    iterations: int,
    read: tuple[Numbers, int],
    *writes: tuple[Numbers, int],
) -> Cluster:
    """Return a loop that reads one stream: the iterations at which it reads and writes, and bits."""
    return loop_of(node, options, iterations, [read], list(writes))


def loop_of(
    node: Node,
    options: TimingOptions,
    iterations: int,
    reads: list[tuple[Numbers, int]],
    writes: list[tuple[Numbers, int]],
) -> Cluster:
    """Return a loop that reads and writes several streams."""
    simd = node.whole("SIMD") if node.has("SIMD") else 1
    latency, remark = options.latency(node.operator, node.name, simd)
    return loop_cluster(
        Loop(iterations=iterations, latency=latency, idle=options.idle),
        [Stream(iterations=one, bits=bits) for one, bits in reads],
        [Stream(iterations=one, bits=bits) for one, bits in writes],
        (remark,) if remark else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window that slides over an image, row by row; a pixel has `folds` words."""

    image: tuple[int, int]
    made: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    folds: int
    is_depthwise: bool
    is_parallel: bool

    @property
    def read(self) -> int:
        """Words read in a frame."""
        return prod(self.image) * self.folds

    @property
    def written(self) -> int:
        """Words written in a frame."""
        return prod(self.made) * self.folds * (1 if self.is_parallel else prod(self.kernel))

    @property
    def span(self) -> int:
        """Words from the first to the last of a window, both counted."""
        rows = (self.kernel[0] - 1) * self.dilation[0] * self.image[1]
        return (rows + (self.kernel[1] - 1) * self.dilation[1] + 1) * self.folds

    @property
    def room(self) -> int:
        """Words that the buffer holds. Source: get_buffer_depth of the RTL generator."""
        size = prod(self.kernel)
        across = max(0, self.stride[1] - 1 - size) * self.folds
        down = max(0, (self.stride[0] - 1) * self.image[1] - size) * self.folds
        return self.span + across + down

    def starts(self) -> Numbers:
        """Return the first word of each window."""
        # With one window along an axis its stride moves nothing, and may be of any size.
        down, across = map(min, self.stride, self.image)
        rows = counting(self.made[0]) * down * self.image[1]
        columns = counting(self.made[1]) * across
        return np.ravel(rows[:, None] + columns[None, :]) * self.folds

    def last_words(self) -> Numbers:
        """Return the word that completes each window, for each fold of it."""
        end = (self.span // self.folds - 1) * self.folds
        return np.ravel(self.starts()[:, None] + end + counting(self.folds)[None, :])

    def fetches(self) -> tuple[Numbers, Numbers]:
        """Return the word of each step, and the first that is still needed after it."""
        inside = self._inside()
        starts = self.starts()
        fetched = np.ravel(starts[:, None] + inside[None, :])
        following = np.append(starts[1:], starts[-1] + self.span - 1)
        if self.is_depthwise and self.folds > 1:
            return fetched, self._depthwise_needs(starts, following)
        return fetched, np.repeat(following, len(inside))

    def _inside(self) -> Numbers:
        """Places of a window's words after its first, in the order in which they are fetched."""
        down, across = map(min, self.dilation, self.image)  # likewise with a kernel of one
        rows = counting(self.kernel[0]) * down * self.image[1] * self.folds
        columns = counting(self.kernel[1]) * across * self.folds
        pixels = np.ravel(rows[:, None] + columns[None, :])
        folds = counting(self.folds)
        if self.is_depthwise:
            return np.ravel(folds[:, None] + pixels[None, :])
        return np.ravel(pixels[:, None] + folds[None, :])

    def _depthwise_needs(self, starts: Numbers, following: Numbers) -> Numbers:
        """Return the first word that is still needed after each step, where folds come one by one.

        The first step of a fold reads its first word for the last time, and so frees it. After the last
        fold only words of the following window are needed.
        """
        fold = np.repeat(counting(self.folds), prod(self.kernel))
        within = starts[:, None] + (fold + 1)[None, :]
        within[:, fold == self.folds - 1] = following[:, None]
        return np.ravel(within)


def window_of(node: Node) -> Window:
    """Return the window of a ConvolutionInputGenerator."""
    image, kernel = node.wholes("IFMDim", 2), node.wholes("ConvKernelDim", 2)
    stride, dilation = node.wholes("Stride", 2), node.wholes("Dilation", 2)
    made = node.wholes("OFMDim", 2)
    for axis in range(2):
        reach = (kernel[axis] - 1) * dilation[axis] + (made[axis] - 1) * stride[axis] + 1
        if reach > image[axis]:
            raise node.refusal(f"windows reach to {reach} of {image[axis]} pixels along an axis")
    return Window(
        image=(image[0], image[1]),
        made=(made[0], made[1]),
        kernel=(kernel[0], kernel[1]),
        stride=(stride[0], stride[1]),
        dilation=(dilation[0], dilation[1]),
        folds=node.divided(node.whole("IFMChannels"), "SIMD", "IFMChannels"),
        is_depthwise=bool(node["depthwise"]),
        is_parallel=bool(node["parallel_window"]) or prod(kernel) == 1,
    )


def inner_positions(node: Node) -> Numbers:
    """Return for each word that an FMPadding writes whether it is one that it read."""
    size = node.wholes("ImgDim", 2)
    folds = node.divided(node.whole("NumChannels"), "SIMD", "NumChannels")
    frames = node.vectors if node.has("numInputVectors") else 1
    if node.operator == "FMPaddingPixel":
        stride = node.wholes("Stride", 2)
        grown = ((one - 1) * step + 1 for one, step in zip(size, stride, strict=True))
        require_few(prod(grown) * folds * frames)
        axes = [
            np.arange((one - 1) * step + 1) % step == 0
            for one, step in zip(size, stride, strict=True)
        ]
    else:
        top, left, bottom, right = node.wholes("Padding", 4, least=0)
        require_few((size[0] + top + bottom) * (size[1] + left + right) * folds * frames)
        axes = [
            np.pad(np.ones(one, dtype=bool), edges)
            for one, edges in zip(size, ((top, bottom), (left, right)), strict=True)
        ]
    image = np.ravel(axes[0][:, None] & axes[1][None, :])
    return np.tile(np.repeat(image, folds), frames)


def resized(node: Node) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the sizes before and after an UpsampleNearestNeighbour."""
    if node.has("HI"):
        before = node.whole("HI"), node.whole("WI")
        after = node.whole("HO"), node.whole("WO")
    else:
        small, large = node.wholes("IFMDim", 2), node.wholes("OFMDim", 2)
        before, after = (small[0], small[1]), (large[0], large[1])
    if any(large % small for small, large in zip(before, after, strict=True)):
        raise node.refusal(f"{after} is not a multiple of {before}")
    return before, after
