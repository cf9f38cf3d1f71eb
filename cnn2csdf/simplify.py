"""Rewrites that keep the function of a network: fewer layers, or layers executed row by row.

Maps with their channels behind (rows x columns x channels) turned, so that layers are executed row by
row. Work by rows cuts the second axis of a tensor. Between two transpositions, as around the layer
normalisations of ConvNeXt, that axis is the columns: a transposition from channels x rows x columns
needs the whole tensor then. Where all layers between treat rows and columns alike, the tensors may
as well be columns x rows x channels, and both transpositions keep the rows where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.rewrites import STEPS
from cnn2csdf.tokens import tokens_as_rows
from cnn2csdf.weights import Array, Model, Weights
from csdf.arguments import public
from csdf.errors import InvalidNetwork

TURNED = (1, 0, 2)  # where each axis of a turned tensor was before


def turn_maps(model: Model) -> Model:
    """Turn rows and columns of all tensors between transpositions, where no layer minds.

    Names, numbers of elements and weights stay as they are.
    """
    network, turned, seen = model.network, set[str](), set[str]()
    consumers = network.consumers
    for layer in network.layers:
        if layer.name not in seen and _is_entry(layer):
            region = _region(network, layer.name, consumers)
            seen |= region or {layer.name}
            turned |= region
    if not turned:
        return model
    layers = tuple(_turned(layer, turned) for layer in network.layers)
    return replace(model, network=replace(network, layers=layers))


def _region(network: Network, entry: str, consumers: Mapping[str, Sequence[str]]) -> set[str]:
    """The layers whose outputs are turned together with the output of an entry; none if one minds."""
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
            region_layer = network.layer(name)
            if not (_is_entry(region_layer) or _is_turnable(region_layer)):
                return set()
            if name not in region:
                region.add(name)
                waiting.append(name)
    return region


def _is_entry(layer: Layer) -> bool:
    """Whether it puts the rows in front, so that they are the second axis of the turned output."""
    order = layer.operator.axis_order
    return order is not None and len(order) == 3 and order[0] == 1 and not layer.epilogue


def _is_exit(layer: Layer) -> bool:
    """Whether the rows, in front of what it reads, are the second axis of what it writes."""
    order = layer.operator.axis_order
    return order is not None and len(order) == 3 and order[1] == 0 and not layer.epilogue


def _is_turnable(layer: Layer) -> bool:
    """Whether a layer does the same to rows and to columns, so that turned inputs turn its output."""
    steps = (layer.operator, *layer.epilogue)
    return layer.shape.is_map and all(step.swaps_with_inputs for step in steps)


def _turned(layer: Layer, turned: set[str]) -> Layer:
    """A layer whose output or inputs are turned."""
    operator = layer.operator
    axes = operator.axis_order
    if axes is not None:
        if layer.inputs[0] in turned:
            axes = tuple(TURNED[axis] for axis in axes)
        if layer.name in turned:
            axes = tuple(axes[place] for place in TURNED)
        operator = op.Transpose(permutation=axes)
    dims = layer.shape.dims
    if layer.name in turned:
        dims = tuple(dims[place] for place in TURNED)
    return replace(layer, operator=operator, shape=Shape(dims=dims))


Rewrite = Callable[[Model], Model]


def drop_identities(model: Model) -> Model:
    """Leave out what moves no element: dropout, and reshapes that only rename the dims.

    A reshape goes where its readers take all elements in order anyway, or where the dims stay.
    """
    network = model.network
    consumers = network.consumers
    dropped = {
        layer.name: layer.inputs[0]
        for layer in network.layers
        if not layer.epilogue
        and _is_idle(layer, [network.layer(name) for name in consumers[layer.name]], network)
    }
    return _without(model, dropped)


def _is_idle(layer: Layer, readers: Sequence[Layer], network: Network) -> bool:
    source = network.layer(layer.inputs[0]) if layer.inputs else layer
    if (source.element, source.quantization) != (layer.element, layer.quantization):
        return False
    if not layer.operator.keeps_order:
        return False
    if network.input_shapes(layer) == (layer.shape,):
        return True
    return bool(readers) and all(reader.operator.dense_units is not None for reader in readers)


def absorb_biases(model: Model) -> Model:
    """Let the layer before it make each addition of a trained constant, as if it were its bias.

    Nothing else reads that layer.
    """
    return _merged(model, _absorbed)


def fold_batch_normalization(model: Model) -> Model:
    """Multiply a batch normalisation, or a scale and a shift a channel, into the layer before it.

    That layer is a convolution or fully connected, and nothing else reads it.
    """
    return _merged(model, _folded)


def fuse_activations(model: Model) -> Model:
    """Let the layer before it apply a function of single elements to its own output.

    Activations, normalisations and constants; nothing else reads that layer.
    """
    return _merged(model, _fused)


def fold_padding(model: Model) -> Model:
    """Let a convolution pad its input itself, where it alone reads what was padded with zeros.

    Quantised integers that are stored alike before and behind are padded with their zero point.
    """
    network = model.network
    alike = {
        layer.name
        for layer in network.layers
        if layer.operator.zero_border is not None
        and network.layer(layer.inputs[0]).quantization == layer.quantization
    }
    return _merged(model, partial(_self_padded, alike))


Merged = tuple[Layer, Mapping[str, Array] | None]
Merge = Callable[[Layer, Layer, Weights | None], Merged | None]


def _merged(model: Model, merge: Merge) -> Model:
    """Merge each layer into the one before it wherever that is possible, in order."""
    consumers = model.network.consumers
    layers = {layer.name: layer for layer in model.network.layers}
    weights = None if model.weights is None else dict(model.weights)
    moved: dict[str, str] = {}  # merged layer: where it is now
    for layer in model.network.layers:
        if len(layer.inputs) != 1 or len(consumers[layer.inputs[0]]) != 1:
            continue
        before = layers[moved.get(layer.inputs[0], layer.inputs[0])]
        merged = merge(before, layer, weights)
        if merged is None:
            continue
        moved[layer.name] = before.name
        layers[before.name], new = merged
        if weights is not None and new is not None:
            weights[before.name] = new
    network = Network(name=model.network.name, layers=tuple(layers.values()))
    return _without(Model(network=network), moved, weights)


def _self_padded(
    alike: Set[str], before: Layer, layer: Layer, weights: Weights | None
) -> Merged | None:
    """The convolution after a padding whose layers store alike on both sides."""
    added, bank = before.operator.zero_border, layer.operator.filter_bank
    if added is None or bank is None or before.name not in alike:
        return None
    window = bank.window
    if min(added) < 0 or before.epilogue or any(window.overhang):
        return None
    top, left, bottom, right = (
        margin + more for margin, more in zip(window.padding, added, strict=True)
    )
    padded = replace(window, padding=(top, left, bottom, right))
    operator = layer.operator.with_window(padded)
    merged = replace(layer, name=before.name, operator=operator, inputs=before.inputs)
    return merged, None if weights is None else weights.get(layer.name, {})


def _absorbed(before: Layer, layer: Layer, weights: Weights | None) -> Merged | None:
    dims = layer.operator.constant_dims
    if dims is None or layer.operator.elementwise_function != "add":
        return None
    if _takes_bias(before, dims) and not layer.epilogue:
        return _with_bias(before, layer, weights)
    return _fused(before, layer, weights)


def _takes_bias(before: Layer, dims: tuple[int, ...]) -> bool:
    """Whether it is a product of real numbers, and the constant has a number for each column."""
    operator, columns = before.operator, before.shape.dims[-1]
    if operator.bias_axis != -1 or operator.with_bias() == operator:
        return False
    is_real = before.quantization is None
    return is_real and not before.epilogue and prod(dims) == columns == dims[-1]


def _with_bias(before: Layer, layer: Layer, weights: Weights | None) -> Merged:
    (constant,) = layer.stored or (Stored(role="constant"),)
    merged = replace(
        before,
        operator=before.operator.with_bias(),
        element=layer.element,
        stored=(*before.stored, replace(constant, role="bias")),
    )
    if weights is None:
        return merged, None
    bias = weights[layer.name]["constant"].reshape(-1)
    return merged, {**weights[before.name], "bias": bias}


def _fused(before: Layer, layer: Layer, weights: Weights | None) -> Merged | None:
    if before.is_input or not _can_be_fused(before, layer):
        return None
    is_refused = layer.quantization is not None and not layer.operator.can_follow_integers
    if before.quantization != layer.quantization or is_refused:
        return None  # integers are rounded between the two
    place = len(before.epilogue)
    moved = tuple(replace(stored, role=_fused_role(stored.role, place)) for stored in layer.stored)
    merged = replace(
        before,
        epilogue=(*before.epilogue, layer.operator, *layer.epilogue),
        element=layer.element,
        stored=(*before.stored, *moved),
    )
    if weights is None:
        return merged, None
    joined = dict(weights.get(before.name, {}))
    for role, array in weights.get(layer.name, {}).items():
        joined[_fused_role(role, place)] = array
    return merged, joined


def _fused_role(role: str, place: int) -> str:
    """The role that an array of a layer has once the layer is fused at that place."""
    first, _, rest = role.partition(".")
    return f"{place + 1 + int(first)}.{rest}" if rest else f"{place}.{role}"


def _can_be_fused(before: Layer, layer: Layer) -> bool:
    """Whether it needs one row of the same shape for a row, whichever rows they are."""
    dims = layer.operator.constant_dims
    if dims is not None:
        rows = Shape(dims=dims).rows if len(dims) == 3 else 1
        return before.shape == layer.shape and rows == 1
    if layer.operator.is_channel_softmax:
        return before.operator.rereads_rows
    return layer.operator.can_be_fused and not layer.operator.moves


def _folded(before: Layer, layer: Layer, weights: Weights | None) -> Merged | None:
    if before.operator.bias_axis != 0 or before.epilogue or layer.epilogue:
        return None
    if before.quantization is not None or layer.quantization is not None:
        return None
    channels = before.shape.channels
    role = before.operator.weight_role
    if role is None or not layer.operator.scales_channels(before.shape):
        return None
    merged = replace(
        before,
        operator=before.operator.with_bias(),
        element=layer.element,
        stored=_folded_arrays(before, layer, role),
    )
    if weights is None:
        return merged, None
    affine = layer.operator.factors_and_offsets(weights[layer.name])
    scale, shift = (_single(np.broadcast_to(array, (channels,))) for array in affine)
    arrays = weights[before.name]
    rows = scale.reshape(-1, *(1,) * (arrays[role].ndim - 1))
    bias = arrays.get("bias", np.zeros(channels, np.float32))
    return merged, {role: _single(arrays[role] * rows), "bias": _single(bias * scale + shift)}


def _folded_arrays(before: Layer, layer: Layer, role: str) -> tuple[Stored, ...]:
    """Shared with another layer only where that folds the same arrays."""
    roles = (role, "bias") if before.stored_as("bias").name else (role,)
    behind = layer.operator.trained((before.shape,))
    names = [before.stored_as(trained_role).name for trained_role in roles]
    names += [layer.stored_as(trained_role).name for trained_role in behind]
    joined = None if None in names else " ".join(map(repr, names))
    element = before.stored_as(role).element
    return tuple(
        Stored(role=kind, element=element, name=joined and f"{kind} of {joined}")
        for kind in (role, "bias")
    )


def _single(array: np.ndarray) -> Array:
    return np.asarray(array, dtype=np.float32)


def _without(model: Model, dropped: Mapping[str, str], weights: Weights | None = None) -> Model:
    """The model without some layers; their readers read other layers instead.

    dropped: for a dropped layer, the layer to read in its place, which may be dropped too. weights:
    replace those of the model.
    """
    place: dict[str, str] = {}
    for layer in model.network.layers:
        instead = dropped.get(layer.name, layer.name)
        place[layer.name] = place.get(instead, instead)
    left = tuple(
        replace(layer, inputs=tuple(place[name] for name in layer.inputs))
        for layer in model.network.layers
        if layer.name not in dropped
    )
    network = Network(name=model.network.name, layers=left)
    weights = model.weights if weights is None else weights
    if weights is None:
        return Model(network=network)
    return Model(
        network=network,
        weights={layer.name: weights[layer.name] for layer in left if layer.name in weights},
    )


_INSTEAD: tuple[Rewrite, ...] = (  # in the order of their names
    drop_identities,
    turn_maps,
    tokens_as_rows,
    fold_padding,
    fold_batch_normalization,
    absorb_biases,
    fuse_activations,
)
REWRITES: Mapping[str, Rewrite] = dict(zip(STEPS, _INSTEAD, strict=True))


@public
def simplified(model: Model, names: tuple[str, ...] = STEPS) -> Model:
    """Return the model after the rewrites of these names, in the order of REWRITES.

    Raises InvalidNetwork for a name that no rewrite has.
    """
    if unknown := [name for name in names if name not in REWRITES]:
        raise InvalidNetwork(f"there is no rewrite {unknown[0]!r}; {', '.join(REWRITES)}")
    for name, rewrite in REWRITES.items():
        if name in names:
            model = rewrite(model)
    return model
