"""Comparison of a run row by row with the reference, the run layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.execution.streaming_executor import Frame, RowByRowRun, run_row_by_row
from cnn2csdf.network import Layer, Network
from cnn2csdf.weights import Array, Model
from csdf.arguments import Natural, public
from csdf.errors import ExecutionError
from csdf.model.graph import Graph
from csdf.model.schedule import Firing
from csdf.model.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far a tensor is from its reference; NaN where only one of them holds a NaN."""

    largest: float  # absolute; equal infinities, and a NaN in both, do not differ
    magnitude: float  # of the largest finite element of the reference

    @property
    def relative(self) -> float:
        """The largest difference over the largest magnitude; absolute if that is zero."""
        return self.largest / self.magnitude if self.magnitude else self.largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(Shown):
    """Outputs of a run row by row compared with those of the reference.

    differences: of each frame, by output layer. run: the run itself, with the peaks of the buffers.
    """

    differences: tuple[dict[str, Difference], ...]
    run: RowByRowRun

    @property
    def worst(self) -> Difference:
        """The largest relative difference of all frames and outputs."""
        return worst_of(self.differences)

    def to_json(self) -> dict[str, Any]:
        """Return how far the run was from the reference, as a JSON value."""
        return {
            "frames": len(self.run.outputs),
            "firings": self.run.firings,
            "largest_difference": self.worst.largest,
            "relative_difference": self.worst.relative,
        }


@public
def random_frames(network: Network, count: Natural, seed: Natural) -> list[dict[str, Array]]:
    """Return frames for each input layer by name: normally distributed elements, or whole numbers.

    Whole numbers, of 0 to 127 or below the rows of the tables that they choose from, are for inputs
    whose elements are integers.
    """
    generator = np.random.default_rng(seed)
    entries = table_entries(network)
    return [
        {
            layer.name: random_tensor(layer, generator, entries.get(layer.name, 128))
            for layer in network.inputs
        }
        for _ in range(count)
    ]


def table_entries(network: Network) -> dict[str, int]:
    """Return the rows of the smallest table that each input chooses from, by its name."""
    entries_of: dict[str, int] = {}
    for layer in network.layers:
        entries = layer.operator.index_limit
        if entries is not None:
            source = layer
            while source.inputs:
                source = network.layer(source.inputs[0])
            entries_of[source.name] = min(entries, entries_of.get(source.name, 128))
    return entries_of


def random_tensor(layer: Layer, generator: np.random.Generator, below: int = 128) -> Array:
    """Return a random output of a layer, of its element type; integers are less than `below`."""
    if layer.quantization is not None:
        limits = np.iinfo(layer.array_type)
        return generator.integers(
            limits.min, limits.max, layer.shape.dims, layer.array_type, endpoint=True
        )
    if layer.element.is_integer:
        return generator.integers(0, below, layer.shape.dims).astype(np.float32)
    return generator.standard_normal(layer.shape.dims, np.float32)


def difference(ours: Array, reference: Array) -> Difference:
    """Return how far ours is from the reference. Raises ExecutionError for different shapes."""
    if ours.shape != reference.shape:
        raise ExecutionError(f"a tensor of shape {ours.shape}, expected {reference.shape}")
    # A type in which differences do not overflow.
    ours, reference = (
        np.asarray(array, np.float32 if array.dtype.kind == "f" else np.float64)
        for array in (ours, reference)
    )
    differs = (ours != reference) & ~(np.isnan(ours) & np.isnan(reference))
    differing = np.subtract(ours, reference, out=np.zeros_like(ours), where=differs)
    magnitudes = np.abs(reference, out=np.zeros_like(ours), where=np.isfinite(reference))
    return Difference(largest=float(np.max(np.abs(differing))), magnitude=float(np.max(magnitudes)))


@public
def verify(
    model: Model, graph: Graph, schedule: Iterable[Firing], frames: Sequence[Frame]
) -> Verification:
    """Run row by row and layer by layer, and compare. Raises ExecutionError as run_row_by_row does."""
    run = run_row_by_row(model, graph, schedule, frames)
    references = [run_layer_by_layer(model, frame) for frame in frames]
    return Verification(differences=differences(run.outputs, references), run=run)


def differences(
    outputs: Sequence[Frame], references: Sequence[Frame]
) -> tuple[dict[str, Difference], ...]:
    """Return how far each output of each frame is from its reference."""
    return tuple(
        {name: difference(ours[name], reference[name]) for name in reference}
        for ours, reference in zip(outputs, references, strict=True)
    )


def worst_of(differences: Iterable[Mapping[str, Difference]]) -> Difference:
    """Return the largest relative difference of all frames and outputs."""
    # NaN first: it compares as false with every number, so max alone would depend on the order.
    return max(
        (difference for frame in differences for difference in frame.values()),
        key=lambda difference: (isnan(difference.relative), difference.relative),
    )
