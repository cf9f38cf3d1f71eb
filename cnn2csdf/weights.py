"""The parameters of a network, and seeded random ones where there are none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from cnn2csdf.arrays import Array as Array
from cnn2csdf.dtypes import Element, Stored
from cnn2csdf.network import Network
from cnn2csdf.parameters import parameter_shapes
from csdf.arguments import Natural, public
from csdf.errors import InvalidNetwork, counted
from csdf.model.shown import Viewed
from csdf.units import bytes_in_words

Weights = Mapping[str, Mapping[str, Array]]  # layer name, role: array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model(Viewed):
    """A network, with its parameters where they were asked for; equal where all of both are equal."""

    network: Network
    weights: Weights | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            network = self.network
            for layer in network.layers:
                arrays = self.weights.get(layer.name, {})
                for role, dims in parameter_shapes(layer, network.input_shapes(layer)).items():
                    if role not in arrays:
                        raise InvalidNetwork(f"layer {layer.name!r} has no weights {role!r}")
                    if arrays[role].shape != dims:
                        raise InvalidNetwork(
                            f"layer {layer.name!r}: weights {role!r} of shape {arrays[role].shape}, "
                            f"expected {dims}"
                        )

    def __repr__(self) -> str:
        network = self.network
        summary = "without weights: random_weights(network, seed) makes some"
        if self.weights is not None:
            arrays = [array for layer in self.weights.values() for array in layer.values()]
            size = bytes_in_words(sum(array.nbytes for array in arrays))
            summary = f"{sum(array.size for array in arrays):,} weights, {size}"
        return f"Model({network.name}: {counted(len(network.layers), 'layer')}, {summary})"

    def __hash__(self) -> int:
        return hash((self.network.name, len(self.network.layers)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Model):
            return NotImplemented
        if self.network != other.network or (self.weights is None) != (other.weights is None):
            return False
        mine, theirs = self.weights or {}, other.weights or {}
        return mine.keys() == theirs.keys() and all(
            mine[name].keys() == theirs[name].keys()
            and all(np.array_equal(mine[name][role], theirs[name][role]) for role in mine[name])
            for name in mine
        )


@public
def random_weights(network: Network, seed: Natural) -> Weights:
    """Return weights under which the elements keep their size from layer to layer.

    Kernels and matrices are normal with variance 2 / inputs (He et al., Delving Deep into
    Rectifiers, ICCV 2015, section 2.2); scales and variances lie around one, the rest around zero.
    Integers are drawn evenly from -127 to 127, unsigned integers from 0 to 255.
    """
    generator = np.random.default_rng(seed)
    return {
        layer.name: {
            role: _drawn(generator, layer.stored_as(role), dims)
            for role, dims in parameter_shapes(layer, network.input_shapes(layer)).items()
        }
        for layer in network.layers
    }


def _drawn(generator: np.random.Generator, stored: Stored, dims: tuple[int, ...]) -> Array:
    if prod(dims) > sys.maxsize // 8:  # numpy has another error for what no memory holds
        raise MemoryError(f"{prod(dims)} numbers of an array of weights")
    kind = stored.role.rpartition(".")[2]
    if stored.element.is_integer:
        is_unsigned = np.issubdtype(stored.element.value, np.unsignedinteger)
        first, end = (0, 256) if is_unsigned else (-127, 128)
        return generator.integers(first, end, dims, stored.element.value)
    if kind in ("kernel", "matrix"):
        drawn = generator.standard_normal(dims) * (2 / (prod(dims[1:]) or 1)) ** 0.5
    elif kind in ("scale", "variance", "constant"):
        drawn = generator.uniform(0.5, 1.5, dims)
    else:
        drawn = generator.uniform(-0.2, 0.2, dims)
    is_half = stored.element is Element.FLOAT16
    return np.asarray(drawn, np.float16 if is_half else np.float32).astype(np.float32)
