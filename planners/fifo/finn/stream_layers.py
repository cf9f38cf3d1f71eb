"""FINN operators that pass streams on: copies, sums, pooling, joins, splits, look-ups."""

from __future__ import annotations

from math import prod

import numpy as np

from planners.fifo.finn import windows
from planners.fifo.finn.layer_loops import Layer, loop, loop_of
from planners.fifo.finn.nodes import Node
from planners.fifo.timing.cluster import Cluster, counting, require_few, require_short
from planners.fifo.timing.options import TimingOptions


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
    size, grown = windows.resized(node)
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
