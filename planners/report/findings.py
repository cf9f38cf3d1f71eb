"""What the page says about a network: its layers, and its memory as a whole and by parts."""

from __future__ import annotations

from dataclasses import dataclass

from csdf.draw.report.sections import Contribution
from planners.parts_memory import MemoryComparison


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFigures:
    """One layer. Bytes; buffers are those of its inputs; nanoseconds of a frame, by parts."""

    name: str
    operator: str
    output: str
    phases: int
    parameters: int
    multiply_accumulates: int
    output_bytes: int
    whole_buffers: int
    parts_buffers: int
    nanoseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFindings:
    """What is known about the memory of a network.

    memory: None where it was not found in time. added: what others know about the network. capacity:
    bytes that it should fit.
    """

    name: str
    layers: tuple[LayerFigures, ...]
    memory: MemoryComparison | None
    added: tuple[Contribution, ...] = ()
    capacity: int | None = None
