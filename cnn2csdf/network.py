"""A CNN as a graph of layers: frozen values, valid from birth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from cnn2csdf.describe import describe
from cnn2csdf.operators import Input, Operator, Output
from csdf.errors import InvalidNetwork
from csdf.model.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The dims of one tensor of one frame: (channels, height, width), or any others.

    Work by parts cuts the height. A tensor of another rank than three is a single row.
    """

    dims: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.dims or min(self.dims) < 1:
            raise InvalidNetwork(f"a tensor of shape {self} holds nothing")

    @property
    def is_map(self) -> bool:
        """Whether it is a stack of feature maps."""
        return len(self.dims) == 3

    @property
    def elements(self) -> int:
        """Elements of one frame."""
        return prod(self.dims)

    @property
    def rows(self) -> int:
        """Rows that work by parts can cut it into."""
        return self.dims[1] if self.is_map else 1

    @property
    def row_elements(self) -> int:
        """Elements of one row, of all feature maps."""
        return self.elements // self.rows

    @property
    def channels(self) -> int:
        """Feature maps."""
        return self.dims[0]

    @property
    def height(self) -> int:
        """Rows of a feature map."""
        return self.dims[1] if self.is_map else 1

    @property
    def width(self) -> int:
        """Columns of a feature map."""
        return self.dims[2] if self.is_map else 1

    def __str__(self) -> str:
        return "x".join(str(size) for size in self.dims) or "()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One operator with where its inputs come from and the shape of what it writes.

    epilogue: operators fused behind it, each applied to the output of the one before; all of them
    work on one element or one column of elements at a time.
    """

    name: str
    operator: Operator
    inputs: tuple[str, ...]  # names of layers
    shape: Shape  # of its output
    epilogue: tuple[Operator, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what it is called, does, reads and writes, as a JSON value."""
        return {
            "layer": self.name,
            "operator": describe(self.operator, self.epilogue),
            "inputs": list(self.inputs),
            "output": list(self.shape.dims),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One input of a layer: the consumer reads what the producer writes.

    index: which of the consumer's inputs it is, counted from 0.
    """

    producer: str
    consumer: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Shown):
    """Layers in an order in which each comes after those it reads."""

    name: str
    layers: tuple[Layer, ...]
    _layers: dict[str, Layer] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.layers:
            raise InvalidNetwork(f"network {self.name!r} has no layer")
        known: dict[str, Layer] = {}
        for layer in self.layers:
            if layer.name in known:
                raise InvalidNetwork(f"two layers are named {layer.name!r}")
            for source in layer.inputs:
                if source not in known:
                    raise InvalidNetwork(
                        f"layer {layer.name!r} reads {source!r}, which is not a layer before it"
                    )
            if not layer.inputs and not isinstance(layer.operator, Input):
                raise InvalidNetwork(f"layer {layer.name!r} has no input")
            known[layer.name] = layer
        object.__setattr__(self, "_layers", known)

    def layer(self, name: str) -> Layer:
        """Return the layer of that name; raise InvalidNetwork if there is none."""
        if name not in self._layers:
            raise InvalidNetwork(f"network {self.name!r}: there is no layer {name!r}")
        return self._layers[name]

    def input_shapes(self, layer: Layer) -> tuple[Shape, ...]:
        """Shapes of what the layer reads."""
        return tuple(self._layers[source].shape for source in layer.inputs)

    @property
    def connections(self) -> Iterator[Connection]:
        """Every input of every layer, in the order of the layers."""
        for layer in self.layers:
            for index, source in enumerate(layer.inputs):
                yield Connection(producer=source, consumer=layer.name, index=index)

    @property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """For each layer, the names of those that read it; twice, if one reads it twice."""
        readers: dict[str, list[str]] = {layer.name: [] for layer in self.layers}
        for connection in self.connections:
            readers[connection.producer].append(connection.consumer)
        return {name: tuple(found) for name, found in readers.items()}

    @property
    def inputs(self) -> tuple[Layer, ...]:
        """Layers where frames come in."""
        return tuple(layer for layer in self.layers if isinstance(layer.operator, Input))

    @property
    def outputs(self) -> tuple[Layer, ...]:
        """Layers where results go out."""
        return tuple(layer for layer in self.layers if isinstance(layer.operator, Output))

    def to_json(self) -> dict[str, Any]:
        """Return the layers in words, as a JSON value."""
        return {"network": self.name, "layers": [layer.to_json() for layer in self.layers]}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each layer, as for a data frame."""
        return [
            {**layer.to_json(), "inputs": layer.inputs, "output": layer.shape}
            for layer in self.layers
        ]
