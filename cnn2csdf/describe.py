"""Layers and numbers of bytes in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a network describes its layers
    from cnn2csdf.network import Layer


def describe(layer: Layer) -> str:
    """Return what the layer does, with its window and what is fused behind it."""
    return " + ".join(operator.in_words() for operator in (layer.operator, *layer.epilogue))


def bytes_in_words(count: int) -> str:
    """Return bytes with three digits and a unit; kB and MB are 1000 and 1,000,000 bytes."""
    for unit, size in (("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"
