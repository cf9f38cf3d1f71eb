"""Rewrites that keep the function of a network: fewer layers, or layers executed row by row.

Maps with their channels behind (rows x columns x channels) turned, so that layers are executed row by
row. Work by rows cuts the second axis of a tensor. Between two transpositions, as around the layer
normalisations of ConvNeXt, that axis is the columns: a transposition from channels x rows x columns
needs the whole tensor then. Where all layers between treat rows and columns alike, the tensors may
as well be columns x rows x channels, and both transpositions keep the rows where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.rewrites import STEPS
from cnn2csdf.rewriting import Draft, Edit, Rule, rewritten
from cnn2csdf.tokens import tokens_as_rows
from cnn2csdf.weights import Array, Model
from csdf.arguments import public
from csdf.errors import InvalidNetwork

TURNED = (1, 0, 2)  # where each axis of a turned tensor was before


def turn_maps(model: Model) -> Model:
    """Turn rows and columns of all tensors between transpositions, where no layer minds.

    Names, numbers of elements and weights stay as they are.

    before: image 3x6x4 -> rows first 6x4x3 -> relu 6x4x3 -> channels first 3x6x4
    after:  image 3x6x4 -> rows first 4x6x3 -> relu 4x6x3 -> channels first 3x6x4
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


def drop_identities(model: Model) -> Model:
    """Leave out layers that move no element: dropout, and reshapes that only rename the dims.

    A reshape is left out if its consumers read all elements in order anyway, or if the dims stay.

    before: image 3x6x6 -> dropout 3x6x6 -> line 108 -> classes 2
    after:  image 3x6x6 -> classes 2
    """
    return rewritten(model, _dropped)


def absorb_biases(model: Model) -> Model:
    """Let the layer before it make each addition of a trained constant, as if it were its bias.

    The addition must be the only consumer of that layer, here and in all rules that merge two layers.

    before: image 3x6x6 -> conv 4x4x4 -> shift 4x4x4
    after:  image 3x6x6 -> conv 4x4x4
    """
    return rewritten(model, _merging(_absorbed))


def fold_batch_normalization(model: Model) -> Model:
    """Multiply a batch normalisation, or a scale and a shift by channel, into the layer before it.

    That layer is a convolution or fully connected.

    before: image 3x6x6 -> conv 4x4x4 -> norm 4x4x4
    after:  image 3x6x6 -> conv 4x4x4
    """
    return rewritten(model, _merging(_folded))


def fuse_activations(model: Model) -> Model:
    """Let the layer before it apply a function of single elements to its own output.

    Activations, normalisations and constants.

    before: image 3x6x6 -> conv 4x4x4 -> relu 4x4x4
    after:  image 3x6x6 -> conv 4x4x4
    """
    return rewritten(model, _merging(_fused))


def fold_padding(model: Model) -> Model:
    """Let a convolution pad its input itself, where it alone reads what was padded with zeros.

    Quantised integers of equal types before and after the padding are padded with their zero point.

    before: image 3x6x6 -> pad 3x8x8 -> conv 4x6x6
    after:  image 3x6x6 -> pad 4x6x6
    """
    return rewritten(model, _merging(_self_padded))


def _dropped(draft: Draft, layer: Layer) -> Edit | None:
    if not layer.inputs or layer.epilogue or not layer.operator.keeps_order:
        return None
    (source,) = layer.inputs
    before, readers = draft.network.layer(source), draft.readers(layer.name)
    if (before.element, before.quantization) != (layer.element, layer.quantization):
        return None
    read_in_order = readers and all(reader.operator.dense_units is not None for reader in readers)
    if before.shape != layer.shape and not read_in_order:
        return None
    return Edit(layers={layer.name: ()}, sources={layer.name: source})


Merged = tuple[Layer, Mapping[str, Array] | None]  # weights: None if they stay as they are
Merge = Callable[[Draft, Layer, Layer], Merged | None]


def _merging(merge: Merge) -> Rule:
    """A rule that merges a layer into the layer before it, of which it is the only consumer."""

    def rule(draft: Draft, layer: Layer) -> Edit | None:
        if len(layer.inputs) != 1 or len(draft.consumers[layer.inputs[0]]) != 1:
            return None
        before = draft.layer(layer.inputs[0])
        if (result := merge(draft, before, layer)) is None:
            return None
        merged, arrays = result
        return Edit(
            layers={before.name: (merged,), layer.name: ()},
            sources={layer.name: before.name},
            weights={} if arrays is None else {before.name: arrays},
        )

    return rule


def _self_padded(draft: Draft, before: Layer, layer: Layer) -> Merged | None:
    """The convolution after a padding whose layers store alike on both sides."""
    added, bank = before.operator.zero_border, layer.operator.filter_bank
    if added is None or bank is None:
        return None
    window, source = bank.window, draft.network.layer(before.inputs[0])
    if min(added) < 0 or before.epilogue or any(window.overhang):
        return None
    if source.quantization != before.quantization:
        return None
    top, left, bottom, right = (
        margin + more for margin, more in zip(window.padding, added, strict=True)
    )
    padded = replace(window, padding=(top, left, bottom, right))
    operator = layer.operator.with_window(padded)
    merged = replace(layer, name=before.name, operator=operator, inputs=before.inputs)
    return merged, draft.arrays(layer.name)


def _absorbed(draft: Draft, before: Layer, layer: Layer) -> Merged | None:
    dims = layer.operator.constant_dims
    if dims is None or layer.operator.elementwise_function != "add":
        return None
    if not _takes_bias(before, dims) or layer.epilogue:
        return _fused(draft, before, layer)
    (constant,) = layer.stored or (Stored(role="constant"),)
    merged = replace(
        before,
        operator=before.operator.with_bias(),
        element=layer.element,
        stored=(*before.stored, replace(constant, role="bias")),
    )
    arrays, constants = draft.arrays(before.name), draft.arrays(layer.name)
    if arrays is None or constants is None:
        return merged, None
    return merged, {**arrays, "bias": constants["constant"].reshape(-1)}


def _takes_bias(before: Layer, dims: tuple[int, ...]) -> bool:
    """Whether it is a product of real numbers, and the constant has a number for each column."""
    operator, columns = before.operator, before.shape.dims[-1]
    if operator.bias_axis != -1 or operator.with_bias() == operator:
        return False
    is_real = before.quantization is None
    return is_real and not before.epilogue and prod(dims) == columns == dims[-1]


def _fused(draft: Draft, before: Layer, layer: Layer) -> Merged | None:
    if before.is_input or not _can_be_fused(before, layer):
        return None
    is_refused = layer.quantization is not None and not layer.operator.can_follow_integers
    if before.quantization != layer.quantization or is_refused:
        return None  # integers are rounded between the two
    position = len(before.epilogue)
    moved = [replace(stored, role=_fused_role(stored.role, position)) for stored in layer.stored]
    merged = replace(
        before,
        epilogue=(*before.epilogue, layer.operator, *layer.epilogue),
        element=layer.element,
        stored=(*before.stored, *moved),
    )
    arrays, added = draft.arrays(before.name), draft.arrays(layer.name)
    if arrays is None or added is None:
        return merged, None
    by_new_role = {_fused_role(role, position): array for role, array in added.items()}
    return merged, {**arrays, **by_new_role}


def _fused_role(role: str, position: int) -> str:
    """The role of an array of a layer once the layer is at that position of an epilogue."""
    first, _, rest = role.partition(".")
    return f"{position + 1 + int(first)}.{rest}" if rest else f"{position}.{role}"


def _can_be_fused(before: Layer, layer: Layer) -> bool:
    """Whether it needs one row of the same shape for a row, whichever rows they are."""
    dims = layer.operator.constant_dims
    if dims is not None:
        rows = Shape(dims=dims).rows if len(dims) == 3 else 1
        return before.shape == layer.shape and rows == 1
    if layer.operator.is_channel_softmax:
        return before.operator.rereads_rows
    return layer.operator.can_be_fused and not layer.operator.moves


def _folded(draft: Draft, before: Layer, layer: Layer) -> Merged | None:
    if before.operator.bias_axis != 0 or before.epilogue or layer.epilogue:
        return None
    if before.quantization is not None or layer.quantization is not None:
        return None
    channels = before.shape.channels
    role = before.operator.weight_role
    if role is None or not layer.operator.scales_channels(before.shape):
        return None
    if before.reads_halves(role):  # a product with the scale would take four bytes
        return None
    merged = replace(
        before,
        operator=before.operator.with_bias(),
        element=layer.element,
        stored=_folded_arrays(before, layer, role),
    )
    arrays, normalization = draft.arrays(before.name), draft.arrays(layer.name)
    if arrays is None or normalization is None:
        return merged, None
    affine = layer.operator.factors_and_offsets(normalization)
    scale, shift = (_single(np.broadcast_to(array, (channels,))) for array in affine)
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


_INSTEAD: tuple[Callable[[Model], Model], ...] = (  # in the order of their names
    drop_identities,
    turn_maps,
    tokens_as_rows,
    fold_padding,
    fold_batch_normalization,
    absorb_biases,
    fuse_activations,
)
REWRITES: Mapping[str, Callable[[Model], Model]] = dict(zip(STEPS, _INSTEAD, strict=True))


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
