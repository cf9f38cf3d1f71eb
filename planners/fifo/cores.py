"""FIFO cores of FINN's library: what they hold, and their LUTs and block RAMs.

Up to 256 words a FIFO is a shift register in LUTs (Q_srl); beyond, a FIFO of the vendor with a power
of two of words, at most 32768, in block RAM. Words are padded to whole bytes. The costs are
FINN's own estimates: transformation/fpgadataflow and custom_op/fpgadataflow/streamingfifo.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from csdf.search.memory_cost import (
    MOST_SHIFTED,
    MOST_VENDOR,
    MemoryCost,
    address_luts,
    blocks,
    padded,
    shift_luts,
)
from planners.fifo.design import LEAST_DEPTH, Design, DesignLayer, Fifo
from planners.fifo.timing.cluster import Cluster, EventSequence, WordPort

VENDOR_DEPTHS = [
    1 << exponent for exponent in range(9, MOST_VENDOR.bit_length())
]  # above a shift register


@dataclass(frozen=True, slots=True, kw_only=True)
class FifoCore:
    """A FIFO core: its `impl_style` in FINN, "rtl" or "vivado", and the words that it holds."""

    style: str
    depth: int


class CoreCost(NamedTuple):
    """LUTs, and block RAMs of 18 kbit."""

    luts: int
    blocks: int


def whole_core(depth: int) -> tuple[FifoCore, ...]:
    """Return the core for a depth, rounded up; more than one only beyond the largest core."""
    # One less, so that a depth of exactly one core does not need a second core.
    largest, remainder = divmod(max(depth - 1, 0), MOST_VENDOR)
    largest_cores = (FifoCore(style="vivado", depth=MOST_VENDOR),) * largest
    if remainder >= MOST_SHIFTED:
        return (*largest_cores, FifoCore(style="vivado", depth=1 << remainder.bit_length()))
    return (*largest_cores, FifoCore(style="rtl", depth=max(remainder + 1, LEAST_DEPTH)))


def split_cores(depth: int) -> tuple[FifoCore, ...]:
    """Return a chain of cores with little more than the depth, as FINN's SplitLargeFIFOs makes it."""
    cores = []
    while depth > MOST_SHIFTED:
        piece = min(1 << (depth.bit_length() - 1), MOST_VENDOR)
        cores.append(FifoCore(style="rtl" if piece <= MOST_SHIFTED else "vivado", depth=piece))
        depth -= piece
    if depth or not cores:
        cores.append(FifoCore(style="rtl", depth=max(depth, LEAST_DEPTH)))
    return tuple(cores)


def cheapest_chain(depth: int, bits: int, memory_cost: MemoryCost) -> tuple[FifoCore, ...]:
    """Return the cheapest chain that SplitLargeFIFOs makes of this depth or of a larger one.

    A chain is one core for each binary digit of its depth, so a depth rounded up to a multiple of a
    power of two may cost less: 1536 is 1024 and 512, 2048 one core. A larger depth that is not among
    these has all cores of one that is, and more.
    """
    depths = [depth, *(-(-depth // step) * step for step in VENDOR_DEPTHS)]
    return min(
        map(split_cores, depths),
        key=lambda row: (
            sum(memory_cost(core.depth, bits) for core in row), sum(core.depth for core in row),
        ),
    )  # fmt: skip


def chain_cost(memory_cost: MemoryCost) -> MemoryCost:
    """Return what the cheapest chain costs; never less for more depth."""

    @cache
    def price(depth: int, bits: int) -> int:
        row = cheapest_chain(depth, bits, memory_cost)
        return sum(memory_cost(core.depth, bits) for core in row)

    return price


def cost(core: FifoCore, bits: int) -> CoreCost:
    """Return the cost of a core with words of this many bits, by FINN's estimate (`ram_style` auto)."""
    if core.style == "rtl":
        return CoreCost(shift_luts(core.depth, bits), 0)
    return CoreCost(address_luts(core.depth), blocks(core.depth, padded(bits)))


def total_cost(design: Design, cores: Sequence[Sequence[FifoCore]]) -> CoreCost:
    """Return what the cores of all FIFOs cost."""
    costs = [
        cost(core, fifo.bits) for fifo, row in zip(design.fifos, cores, strict=True) for core in row
    ]
    return CoreCost(sum(core.luts for core in costs), sum(core.blocks for core in costs))


def with_cores(
    design: Design, cores: Sequence[Sequence[FifoCore]]
) -> tuple[Design, tuple[int, ...]]:
    """Return the design with chains of FIFOs, and their depths.

    A word leaves a core and enters the next in a cycle: a layer between them.
    """
    layers, fifos, depths = list(design.layers), list[Fifo](), list[int]()
    for fifo, row in zip(design.fifos, cores, strict=True):
        shortened = fifo
        for number, core in enumerate(row[:-1]):
            port = WordPort(sequence=0, words=fifo.words, bits=fifo.bits)
            sequence = EventSequence(name="pass", events=fifo.words)
            wire = Cluster(sequences=(sequence,), waits=(), inputs=(port,), outputs=(port,))
            middle = len(layers)
            layers.append(
                DesignLayer(name=f"{fifo.name}, core {number}", kind="wire", cluster=wire)
            )
            name = f"{fifo.name}, {number}"
            fifos.append(replace(shortened, name=name, consumer=middle, input=0))
            shortened = replace(shortened, producer=middle, output=0)
            depths.append(core.depth)
        fifos.append(shortened)
        depths.append(row[-1].depth)
    return replace(design, layers=tuple(layers), fifos=tuple(fifos)), tuple(depths)
