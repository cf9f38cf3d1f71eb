"""Networks in which layers of real numbers stand among those of integers, made of random ones.

Each layer is drawn to be of one kind or the other; where two kinds meet stands a conversion, as
converters write it: one for each tensor and way.
"""

from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Stored
from cnn2csdf.weights import Model, random_weights

ROLES = {op.Convolution: "kernel", op.FullyConnected: "matrix"}
IN_INTEGERS = (
    *ROLES, op.Pooling, op.Reduction, op.Pad, op.Slice, op.SpaceToDepth, op.DepthToSpace,
    op.Concatenation, op.Elementwise, op.Activation, op.Softmax, op.Resize,
)  # fmt: skip
KEEP_SCALES = (op.Pooling, op.Pad, op.Resize)  # in fixed point, beside what only moves elements


class Mixing:
    """A network on its way to one of two kinds of layers."""

    def __init__(self, seed, arithmetic, element=Element.INT8, real=None):
        """Take how integers are rescaled, and which they are; real: operators of real layers.

        Of UNSIGNED_FIXED_POINT the weights are uint8 with a zero point, and so are the tensors.
        """
        self.source = np.random.default_rng(seed)
        self.weights = self.arithmetic = arithmetic
        self.element, self.real = element, real
        if arithmetic is Arithmetic.UNSIGNED_FIXED_POINT:
            self.arithmetic, self.element = Arithmetic.FIXED_POINT, Element.UINT8
        self.builder = NetworkBuilder("mixed")
        self.types = {}  # of the tensors, by their names here
        self.converted = {}  # tensors by name and types
        self.names = {}  # of the tensors by their names in the given network

    def mixed(self, network):
        """Return the network with both kinds of layers, and random weights."""
        for layer in network.layers:
            if layer.is_input:
                types = self.drawn() if self.source.integers(2) else None
                self.names[layer.name] = self.added(layer, (), types)
                continue
            inputs = tuple(self.names[name] for name in layer.inputs)
            if layer.is_output:
                self.names[layer.name] = self.added(layer, inputs, self.types[inputs[0]])
            elif self.can_be_integer(layer) and not self.is_real(layer):
                self.names[layer.name] = self.in_integers(layer, inputs)
            else:
                inputs = tuple(self.as_types(name, None) for name in inputs)
                self.names[layer.name] = self.added(layer, inputs, None)
        found = self.builder.network()
        return Model(network=found, weights=random_weights(found, int(self.source.integers(99))))

    def drawn(self):
        """Return scale and zero point of a tensor."""
        limits = np.iinfo(self.element.value)
        middle, steps = (limits.min + limits.max + 1) // 2, (limits.max - limits.min) / 255
        return Quantization(
            element=self.element,
            scales=(float(np.float32(self.source.uniform(0.02, 0.09) / steps)),),
            zero_point=middle + int(self.source.integers(-30, 30)),
            arithmetic=self.arithmetic,
        )

    def is_real(self, layer):
        """Whether a layer is to be one of real numbers."""
        if self.real is not None:
            return isinstance(layer.operator, self.real)
        return not self.source.integers(3)

    def can_be_integer(self, layer):
        """Whether it has a form in integers."""
        match layer.operator:
            case op.Resize(function=function):
                return function == "nearest"
            case op.Pad(mode=mode):
                return mode == "constant"
            case op.Reduction(function=function):
                return function == "mean"
            case op.Elementwise(function=function, constant=constant):
                return constant is None and function in ("add", "subtract", "multiply")
            case op.BatchNormalization() | op.GlobalPooling(function="average"):
                return self.arithmetic is Arithmetic.SINGLE_PRECISION
            case op.Activation() | op.Softmax() if self.element.bytes > 1:
                return False  # without tables for each integer
            case op.FullyConnected() | op.Activation(function="sigmoid" | "tanh") if (
                self.weights is Arithmetic.UNSIGNED_FIXED_POINT
            ):
                return False  # computed otherwise than those of int8, and not in C
            case op.Activation(function=function):
                return function not in ("prelu", "log", "sqrt", "reciprocal")
        return isinstance(layer.operator, IN_INTEGERS)

    def in_integers(self, layer, inputs):
        """Add a layer of integers; in fixed point some have the scale of what they read."""
        inputs = tuple(
            name if self.types[name] else self.as_types(name, self.drawn()) for name in inputs
        )
        types = self.drawn()
        if isinstance(layer.operator, op.Pad):
            types = self.types[inputs[0]]
        if self.arithmetic is Arithmetic.FIXED_POINT or self.element.bytes > 1:
            if layer.operator.moves or isinstance(layer.operator, KEEP_SCALES):
                types = self.types[inputs[0]]
                inputs = tuple(self.as_types(name, types) for name in inputs)
            if isinstance(layer.operator, op.Softmax):
                smallest = np.iinfo(self.element.value).min
                types = replace(types, scales=(1 / 256,), zero_point=int(smallest))
        return self.added(layer, inputs, types)

    def as_types(self, name, types):
        """Return the tensor as real numbers (None) or in a scale, behind a conversion if need be."""
        if self.types[name] == types:
            return name
        if (name, types) not in self.converted:
            element = Element.FLOAT32 if types is None else types.element
            made = self.builder.add(
                op.Conversion(), name, name=f"as {name}", element=element, quantization=types
            )
            self.types[made] = types
            self.converted[name, types] = made
        return self.converted[name, types]

    def added(self, layer, inputs, types):
        """Add a layer as it is, with its result of some types."""
        name = self.builder.add(
            layer.operator,
            *inputs,
            name=layer.name,
            element=Element.FLOAT32 if types is None else types.element,
            quantization=types,
            stored=tuple(self.stored(layer)) if types else (),
        )
        self.types[name] = types
        return name

    def stored(self, layer):
        """Say how parameters are stored: with one scale, or with one for each channel."""
        role = ROLES.get(type(layer.operator))
        if role is None:
            return
        filters = layer.shape.channels if role == "kernel" else layer.operator.units
        is_unsigned = self.weights is Arithmetic.UNSIGNED_FIXED_POINT
        many = filters if self.source.integers(2) and not is_unsigned else 1
        scales = tuple(float(np.float32(one)) for one in self.source.uniform(0.001, 0.02, many))
        types = Quantization(
            element=Element.UINT8 if is_unsigned else Element.INT8,
            scales=scales,
            zero_point=int(self.source.integers(100, 156)) if is_unsigned else 0,
            arithmetic=self.weights,
        )
        yield Stored(role=role, element=types.element, quantization=types)
        yield Stored(role="bias", element=Element.INT32)
