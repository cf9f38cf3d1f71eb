"""FINN operators as loops: steps of an iteration a cycle, with reads and writes at some of them."""

from __future__ import annotations

from collections.abc import Callable

from planners.fifo.finn.nodes import Node
from planners.fifo.timing.cluster import Cluster, Numbers
from planners.fifo.timing.loops import Loop, Stream, loop_cluster
from planners.fifo.timing.options import TimingOptions

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
