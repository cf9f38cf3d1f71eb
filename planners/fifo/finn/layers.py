"""FINN operators timed in a frame: attributes of a node become a cluster of series."""

from __future__ import annotations

from math import gcd, prod

import numpy as np

from csdf.errors import InvalidGraph
from planners.fifo.finn import windows
from planners.fifo.finn.layer_loops import Layer, loop
from planners.fifo.finn.nodes import Node
from planners.fifo.finn.stream_layers import STREAM_LAYERS, elementwise
from planners.fifo.timing import rtl
from planners.fifo.timing.cluster import Cluster, counting, require_few
from planners.fifo.timing.options import TimingOptions


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
    inner = windows.inner_positions(node)
    bits = node.whole("SIMD") * node.bits("inputDataType")
    if node.is_rtl:
        return rtl.padding(inner, bits=bits)
    steps = counting(len(inner))
    return loop(node, options, len(steps), (np.flatnonzero(inner), bits), (steps, bits))


def _sliding_window(node: Node, _: TimingOptions) -> Cluster:
    window = windows.window_of(node)
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
