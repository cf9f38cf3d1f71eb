"""Facts about the timing of a design that its model does not state: given by the user, or assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, log2

from planners.fifo.timing.cluster import require_short

COPYING = 3  # cycles from a read to the write that depends on it, where nothing is computed
DSP58_LANES = 3  # with more the core of mvu.sv is taken
DSP58_SETUP, DSP58_STAGE = 0.741, 0.605  # ns, of mvu_vvu_8sx9_dsp58.sv
LATENCIES = {  # of HLS layers: a guess for each, by operator; others as COPYING
    "MVAU": 5,
    "VVAU": 5,
    "Pool": 4,
    "GlobalAccPool": 4,
    "LabelSelect": 4,
    "StreamingDataWidthConverter": 2,
    "UpsampleNearestNeighbour": 2,
}
ADDER_TREES = ("MVAU", "VVAU")  # one more cycle for each level of the tree of SIMD inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingOptions:
    """Latencies by operator or by node, the clock, and the DSP of the part.

    clock_ns: the period that the build asks for; it decides the depth of a DSP58 pipeline.
    dsp: 48 or 58. idle: cycles between two frames of an HLS layer. more: added to every guess.
    Raises InvalidGraph for more cycles than are simulated.
    """

    latencies: Mapping[str, int] = field(default_factory=dict)
    clock_ns: float = 5.0
    dsp: int = 48
    idle: int = 0
    more: int = 0

    def __post_init__(self) -> None:
        for cycles in (*self.latencies.values(), self.idle, self.more):
            require_short(cycles)

    def latency(self, operator: str, node: str, simd: int = 1) -> tuple[int, str]:
        """Return the latency of an HLS layer, and what to say if nobody gave it."""
        for key in (node, operator):
            if key in self.latencies:
                return self.latencies[key], ""
        guess = LATENCIES.get(operator, COPYING) + self.more
        if operator in ADDER_TREES:
            guess += ceil(log2(simd)) if simd > 1 else 0
        return guess, f"latency {guess}"

    def core(self, simd: int, weight_bits: int, input_bits: int, *, is_vvau: bool) -> int:
        """Return the pipeline of the computing core of an MVAU or VVAU in RTL, in cycles."""
        lanes = 1 + (27 - 1 - weight_bits) // max(1, weight_bits + input_bits - 1)
        small = weight_bits <= 8 and input_bits <= 9
        if self.dsp == 58 and small and (is_vvau or lanes <= DSP58_LANES):
            chain = -(-simd // 3)
            reach = int((self.clock_ns - DSP58_SETUP) / DSP58_STAGE + 1)
            return 2 + -(-chain // max(1, min(reach, chain)))
        return 4 + (ceil(log2(simd)) if simd > 1 else 1)
