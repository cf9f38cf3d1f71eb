"""Maps with their channels behind (rows x columns x channels) turned, so that layers work by rows.

Work by rows cuts the second axis of a tensor. Between two transpositions, as around the layer
normalisations of ConvNeXt, that axis is the columns: a transposition from channels x rows x columns
needs the whole tensor then. Where all layers between treat rows and columns alike, the tensors may as
well be columns x rows x channels, and both transpositions keep the rows where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.weights import Model

TURNED = (1, 0, 2)  # where each axis of a turned tensor was before


def turn_maps(model: Model) -> Model:
    """Turn rows and columns of all tensors between transpositions, where no layer minds.

    Names, numbers of elements and weights stay as they are.
    """
    network, turned, seen = model.network, set[str](), set[str]()
    consumers = network.consumers
    for layer in network.layers:
        if layer.name not in seen and _is_entry(layer):
            found = _region(network, layer.name, consumers)
            seen |= found or {layer.name}
            turned |= found
    if not turned:
        return model
    layers = tuple(_turned(layer, turned) for layer in network.layers)
    return replace(model, network=replace(network, layers=layers))


def _region(network: Network, entry: str, consumers: Mapping[str, Sequence[str]]) -> set[str]:
    """The layers whose outputs are turned together with that of an entry; none if one minds."""
    region, waiting = {entry}, [entry]
    while waiting:
        layer = network.layer(waiting.pop())
        neighbours = [name for name in consumers[layer.name] if not _is_exit(network.layer(name))]
        if not _is_entry(layer):
            for source in layer.inputs:
                dims = network.layer(source).shape.dims
                if len(dims) == 2:
                    return set()
                neighbours += [source] if len(dims) == 3 and dims[:2] != (1, 1) else []
        for name in neighbours:
            one = network.layer(name)
            if not (_is_entry(one) or _is_turnable(one)):
                return set()
            if name not in region:
                region.add(name)
                waiting.append(name)
    return region


def _is_entry(layer: Layer) -> bool:
    """Whether it puts the rows in front, so that they are the second axis of the turned output."""
    match layer.operator:
        case op.Transpose(permutation=(1, _, _)):
            return not layer.epilogue
    return False


def _is_exit(layer: Layer) -> bool:
    """Whether the rows, in front of what it reads, are the second axis of what it writes."""
    match layer.operator:
        case op.Transpose(permutation=(_, 0, _)):
            return not layer.epilogue
    return False


def _is_turnable(layer: Layer) -> bool:
    """Whether a layer does the same to rows and to columns, so that turned inputs turn its output."""
    if not layer.shape.is_map or any(not isinstance(one, op.Activation) for one in layer.epilogue):
        return False
    match layer.operator:
        case op.Activation() | op.Identity() | op.Conversion():
            return True
        case op.LayerNormalization(axis=2) | op.Softmax(axis=2) | op.Concatenation(axis=2):
            return True
        case op.Slice(axis=2) | op.MatrixProduct(units=int()):
            return True
        case op.Elementwise(constant=constant):
            dims = (1, 1, 1, *(constant or ()))[-3:]
            return dims[:2] == (1, 1)
        case op.Reduction(axes=axes, keeps=True):
            return len({0, 1} & set(axes)) != 1
    return False


def _turned(layer: Layer, turned: set[str]) -> Layer:
    """A layer whose output or inputs are among those that are turned."""
    operator = layer.operator
    if isinstance(operator, op.Transpose):
        axes = operator.permutation
        if layer.inputs[0] in turned:
            axes = tuple(TURNED[axis] for axis in axes)
        if layer.name in turned:
            axes = tuple(axes[place] for place in TURNED)
        operator = op.Transpose(permutation=axes)
    dims = layer.shape.dims
    if layer.name in turned:
        dims = tuple(dims[place] for place in TURNED)
    return replace(layer, operator=operator, shape=Shape(dims=dims))
