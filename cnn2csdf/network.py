"""A CNN as a graph of layers: frozen values, valid from birth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.operators import Input, Next, Operator, Output, Previous
from cnn2csdf.operators.operator import describe
from cnn2csdf.shape import Shape as Shape
from csdf.errors import InvalidNetwork
from csdf.model.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """An operator with where its inputs come from and the shape of what it writes.

    epilogue: operators fused behind it, each applied to the output of the one before; all of them
    work on one element or one column of elements at a time. element: of what it writes; stored: how
    its parameters are stored, where that is not in single precision and for itself alone.
    quantization: of what it writes, where that is quantised integers; also between the operators of
    its epilogue.
    """

    name: str
    operator: Operator
    inputs: tuple[str, ...]  # names of layers
    shape: Shape  # of its output
    epilogue: tuple[Operator, ...] = ()
    element: Element = Element.FLOAT32
    stored: tuple[Stored, ...] = ()
    quantization: Quantization | None = None

    @property
    def array_type(self) -> str:
        """Type of the arrays its output is computed in: integers only where it is quantised."""
        return "float32" if self.quantization is None else self.element.value

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of what it writes."""
        return self.element.bytes

    def stored_as(self, role: str) -> Stored:
        """Return how the parameters of that role are stored."""
        return next((one for one in self.stored if one.role == role), Stored(role=role))

    def to_json(self) -> dict[str, Any]:
        """Return what it is called, does, reads and writes, as a JSON value."""
        return {
            "layer": self.name,
            "operator": describe(self.operator, self.epilogue),
            "inputs": list(self.inputs),
            "output": list(self.shape.dims),
            "element": self.element.value,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An input of a layer: the consumer reads what the producer writes.

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
        """For each layer, the names of its readers; a layer that reads it twice is named twice."""
        readers: dict[str, list[str]] = {layer.name: [] for layer in self.layers}
        for connection in self.connections:
            readers[connection.producer].append(connection.consumer)
        return {name: tuple(found) for name, found in readers.items()}

    @property
    def inputs(self) -> tuple[Layer, ...]:
        """Layers where frames come in."""
        ends = (one for one in self.layers if isinstance(one.operator, Input))
        return tuple(one for one in ends if not isinstance(one.operator, Previous))

    @property
    def outputs(self) -> tuple[Layer, ...]:
        """Layers where results go out."""
        ends = (one for one in self.layers if isinstance(one.operator, Output))
        return tuple(one for one in ends if not isinstance(one.operator, Next))

    @property
    def variables(self) -> tuple[tuple[Layer, Layer], ...]:
        """The variables: for each the layer that gives it, and the one that takes it."""
        previous = [one for one in self.layers if isinstance(one.operator, Previous)]
        following = {
            one.operator.variable: one for one in self.layers if isinstance(one.operator, Next)
        }
        return tuple((one, following[one.operator.variable]) for one in previous)  # type: ignore[attr-defined]

    @property
    def keeps_state(self) -> bool:
        """Whether a frame depends on those before it."""
        return any(
            isinstance(one.operator, Previous) or one.operator.kept(self.input_shapes(one))
            for one in self.layers
        )

    def kept_bytes(self, element_bytes: int | None = None) -> int:
        """Return the bytes that stay from frame to frame. element_bytes: of all tensors."""
        found = 0
        for layer in self.layers:
            if isinstance(layer.operator, Previous):
                found += layer.shape.elements * (element_bytes or layer.element_bytes)
            for one in layer.operator.kept(self.input_shapes(layer)).values():
                found += prod(one.dims) * one.element.bytes
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the layers in words, as a JSON value."""
        return {"network": self.name, "layers": [layer.to_json() for layer in self.layers]}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each layer, as for a data frame."""
        return [
            {**layer.to_json(), "inputs": layer.inputs, "output": layer.shape}
            for layer in self.layers
        ]
