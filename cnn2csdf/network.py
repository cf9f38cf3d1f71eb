"""A CNN as a graph of layers: frozen values, valid from birth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod
from typing import Any

from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.operators import Operator, Previous
from cnn2csdf.operators.operator import describe
from cnn2csdf.part import Types
from cnn2csdf.shape import Shape as Shape
from csdf.errors import InvalidNetwork
from csdf.model.shown import Shown
from csdf.names import expected_names


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """An operator with the names of its inputs and the shape of its output.

    epilogue: operators fused after it, each applied to the output of the one before; all of them
    work on one element or one column of elements at a time. element: of its output; stored: how
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
        """Bytes of one element of the output."""
        return self.element.bytes

    @property
    def is_input(self) -> bool:
        """Whether a frame or a state variable enters the network here."""
        return self.operator.is_input

    @property
    def is_output(self) -> bool:
        """Whether a result or a state variable leaves the network here."""
        return self.operator.is_output

    @property
    def is_end(self) -> bool:
        """Whether it is an input or an output of the network, and computes nothing."""
        return self.operator.is_input or self.operator.is_output

    def stored_as(self, role: str) -> Stored:
        """Return how the parameters of that role are stored."""
        return next((stored for stored in self.stored if stored.role == role), Stored(role=role))

    def types(self, inputs: Sequence[Quantization | None]) -> Types:
        """Return the quantisations of inputs, output and parameters. inputs: of the inputs."""
        weights = {
            stored.role: stored.quantization
            for stored in self.stored
            if stored.quantization is not None
        }
        return Types(tuple(inputs), self.quantization, weights)

    def reads_halves(self, role: str) -> bool:
        """Whether C reads that array of floating-point numbers in two bytes a number."""
        is_half = self.stored_as(role).element is Element.FLOAT16
        return is_half and self.quantization is None and role in self.operator.half_roles

    def to_json(self) -> dict[str, Any]:
        """Return the layer as a JSON value: name, operator, inputs and output."""
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

    index: of this input among the inputs of the consumer, from 0.
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
    _consumers: dict[str, tuple[str, ...]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.layers:
            raise InvalidNetwork(f"network {self.name!r} has no layer")
        layers_before: dict[str, Layer] = {}
        for layer in self.layers:
            if layer.name in layers_before:
                raise InvalidNetwork(f"two layers are named {layer.name!r}")
            for source in layer.inputs:
                if source not in layers_before:
                    raise InvalidNetwork(
                        f"layer {layer.name!r} reads {source!r}, which is not a layer before it"
                    )
            if not layer.inputs and not layer.is_input:
                raise InvalidNetwork(f"layer {layer.name!r} has no input")
            layers_before[layer.name] = layer
        readers: dict[str, list[str]] = {name: [] for name in layers_before}
        for connection in self.connections:
            readers[connection.producer].append(connection.consumer)
        consumers = {name: tuple(readers_of) for name, readers_of in readers.items()}
        object.__setattr__(self, "_layers", layers_before)
        object.__setattr__(self, "_consumers", consumers)

    def layer(self, name: str) -> Layer:
        """Return the layer of that name; raise InvalidNetwork if there is none."""
        if name not in self._layers:
            expected = expected_names(name, self._layers)
            raise InvalidNetwork(f"network {self.name!r}: there is no layer {name!r}{expected}")
        return self._layers[name]

    def input_shapes(self, layer: Layer) -> tuple[Shape, ...]:
        """Shapes of the inputs of a layer."""
        return tuple(self._layers[source].shape for source in layer.inputs)

    def input_types(self, layer: Layer) -> tuple[Quantization | None, ...]:
        """Quantisations of the inputs of a layer; None for real numbers."""
        return tuple(self._layers[source].quantization for source in layer.inputs)

    @property
    def connections(self) -> Iterator[Connection]:
        """Every input of every layer, in the order of the layers."""
        for layer in self.layers:
            for index, source in enumerate(layer.inputs):
                yield Connection(producer=source, consumer=layer.name, index=index)

    @property
    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """For each layer, the names of its readers; a layer that reads it twice is named twice."""
        return self._consumers

    @property
    def inputs(self) -> tuple[Layer, ...]:
        """Layers where frames come in."""
        return tuple(
            layer for layer in self.layers if layer.is_input and not layer.operator.is_state
        )

    @property
    def outputs(self) -> tuple[Layer, ...]:
        """Layers where results go out."""
        return tuple(
            layer for layer in self.layers if layer.is_output and not layer.operator.is_state
        )

    @property
    def results(self) -> frozenset[str]:
        """The tensors that go out."""
        return frozenset(source for layer in self.outputs for source in layer.inputs)

    @property
    def variables(self) -> tuple[tuple[Layer, Layer], ...]:
        """State variables: of each the layer that reads it, and the layer that writes it."""
        writers = {
            layer.operator.state_variable: layer
            for layer in self.layers
            if layer.operator.is_state and layer.is_output
        }
        return tuple(
            (self._layers[name], writers[operator.variable])
            for name, operator in self.initial_states.items()
        )

    @property
    def initial_states(self) -> dict[str, Previous]:
        """The operators that read state variables, which have their first values, by layer name."""
        return {
            layer.name: layer.operator
            for layer in self.layers
            if isinstance(layer.operator, Previous)
        }

    @property
    def keeps_state(self) -> bool:
        """Whether a frame depends on earlier frames."""
        return any(
            layer.operator.is_state or layer.operator.kept(self.input_shapes(layer))
            for layer in self.layers
        )

    def kept_bytes(self, element_bytes: int | None = None) -> int:
        """Return the bytes that stay from frame to frame. element_bytes: of all tensors."""
        variables = sum(
            previous.shape.elements * (element_bytes or previous.element_bytes)
            for previous, _ in self.variables
        )
        states = (layer.operator.kept(self.input_shapes(layer)).values() for layer in self.layers)
        return variables + sum(
            prod(state.dims) * state.element.bytes for state in chain.from_iterable(states)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the layers in words, as a JSON value."""
        return {"network": self.name, "layers": [layer.to_json() for layer in self.layers]}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each layer, as for a data frame."""
        return [
            {**layer.to_json(), "inputs": layer.inputs, "output": layer.shape}
            for layer in self.layers
        ]
