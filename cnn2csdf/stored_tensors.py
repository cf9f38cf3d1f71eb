"""How tensors are stored: as integers or not, and the memory layout of inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.network import Layer, Network


def stores_integers(network: Network) -> bool:
    """Whether any tensor is stored as quantised integers."""
    is_quantised = any(layer.quantization is not None for layer in network.layers)
    return is_quantised or bool(stored_at_run_time(network))


def stored_at_run_time(network: Network) -> frozenset[str]:
    """Return the tensors of 8-bit integers whose scale is found in the frame, and their zero points."""
    quantized_names: set[str] = set()
    for layer in network.layers:
        is_moved = layer.operator.moves and quantized_names.intersection(layer.inputs)
        if is_moved or layer.operator.run_time_result in ("integers", "zero point"):
            quantized_names.add(layer.name)
    return frozenset(quantized_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAs:
    """Memory layout of an input or output of a network, for the caller that fills or reads it."""

    name: str
    element: Element
    shape: tuple[int, ...]  # of a map rows, columns, channels
    layout: str
    quantization: Quantization | None

    def to_json(self) -> dict[str, Any]:
        """Return this as a JSON value; scale and zero point where integers stand for real numbers."""
        quantization = self.quantization
        scaled = (
            {}
            if quantization is None
            else {"scale": quantization.scale, "zero_point": quantization.zero_point}
        )
        shape = list(self.shape)
        fields = {"name": self.name, "element": self.element.value, "shape": shape}
        return {**fields, "layout": self.layout, **scaled}

    def in_words(self) -> str:
        """Return this in one line."""
        size = "x".join(map(str, self.shape))
        text = f"{self.name}: {self.element.value} {size} ({self.layout})"
        real = self.real_in_words()
        return f"{text}, real = {real}" if real else text

    def real_in_words(self) -> str:
        """Return the real number that an integer stands for; nothing where none is meant."""
        if self.quantization is None:
            return ""
        zero, limits = self.quantization.zero_point, np.iinfo(self.element.value)
        less = f"- {zero}" if zero >= 0 else f"+ {-zero}"
        least, most = (
            self.quantization.scale * (limit - zero) for limit in (limits.min, limits.max)
        )
        return f"{self.quantization.scale:.9g} * (integer {less}), from {least:.4g} to {most:.4g}"


def stored_as(layer: Layer) -> StoredAs:
    """Return the memory layout of the tensor of an input or output: maps are rows of pixels."""
    shape = layer.shape
    return StoredAs(
        name=layer.name,
        element=layer.element,
        shape=(shape.height, shape.width, shape.channels) if shape.is_map else shape.dims,
        layout="HWC" if shape.is_map else "as in the file",
        quantization=layer.quantization,
    )
