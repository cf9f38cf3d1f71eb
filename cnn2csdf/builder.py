"""Building a network layer by layer; shapes follow from the operators."""

from __future__ import annotations

from dataclasses import replace

from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators import Input, Operator, Output
from csdf.errors import InvalidNetwork
from csdf.names import free_name


class NetworkBuilder:
    """Collects layers; `network()` returns the frozen network.

    Every method returns the name of the layer that it added, an input name for later layers.
    """

    def __init__(self, name: str = "network") -> None:
        self._name = name
        self._layers: dict[str, Layer] = {}

    def input(
        self,
        dims: tuple[int, ...],
        name: str = "input",
        *,
        element: Element = Element.FLOAT32,
        quantization: Quantization | None = None,
    ) -> str:
        """Add an input layer; dims without the batch."""
        return self.add(Input(dims=dims), name=name, element=element, quantization=quantization)

    def output(self, source: str, name: str = "output") -> str:
        """Add an output layer."""
        return self.add(Output(), source, name=name, quantization=self._layers[source].quantization)

    def add(
        self,
        operator: Operator,
        *inputs: str,
        name: str | None = None,
        element: Element | None = None,
        stored: tuple[Stored, ...] = (),
        quantization: Quantization | None = None,
        epilogue: tuple[Operator, ...] = (),
    ) -> str:
        """Add a layer. Raises InvalidNetwork, naming it, where its inputs do not fit.

        element: type of its output; by default that of its first input.
        """
        free = self.free_name(type(operator).__name__.lower() if name is None else name)
        missing = [source for source in inputs if source not in self._layers]
        if missing:
            raise InvalidNetwork(f"layer {free!r} reads {missing[0]!r}, which does not exist")
        try:
            shape = operator.output_shape([self._layers[source].shape for source in inputs])
        except InvalidNetwork as error:
            raise InvalidNetwork(f"layer {free!r}: {error}") from None
        if element is None:
            element = self._layers[inputs[0]].element if inputs else Element.FLOAT32
        self._layers[free] = Layer(
            name=free,
            operator=operator,
            inputs=inputs,
            shape=shape,
            element=element,
            stored=stored,
            quantization=quantization,
            epilogue=epilogue,
        )
        return free

    def layer(self, name: str) -> Layer:
        """Return a layer that was added."""
        return self._layers[name]

    def quantize(self, name: str, quantization: Quantization) -> None:
        """Set the quantisation of the output of a layer."""
        self._layers[name] = replace(self._layers[name], quantization=quantization)

    def shape(self, name: str) -> Shape:
        """Return the shape of the output of a layer."""
        return self._layers[name].shape

    def free_name(self, wanted: str) -> str:
        """Return the name, with a number appended if the name exists."""
        return free_name(wanted, self._layers)

    def network(self) -> Network:
        """Return the network. Raises InvalidNetwork naming what is wrong."""
        return Network(name=self._name, layers=tuple(self._layers.values()))
