"""Rules that simplify a network and keep its function: fewer layers, or layers executed row by row.

`REWRITES` lists them by the names of `csdf cnn show --simplify`, in the order in which they are
applied; each has a worked example. Dims in the examples are channels x rows x columns. A firing
computes rows, that is positions along the second of these axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial, wraps
from importlib import import_module
from math import prod

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.dtypes import Stored
from cnn2csdf.moves_as_views import moves_as_views
from cnn2csdf.network import Layer, Network
from cnn2csdf.rewrite_names import REWRITE_NAMES
from cnn2csdf.rewriting import Draft, Edit, Rule, rewritten
from cnn2csdf.shape import Dims, Shape
from cnn2csdf.weights import Array, Model
from csdf.arguments import public
from csdf.errors import InvalidNetwork

SWAPPED = (1, 0, 2)  # the axis of a tensor that becomes each axis of the swapped tensor


def drop_layer_that_moves_nothing(draft: Draft, layer: Layer) -> Edit | None:
    """Leave out dropout, and reshapes that only rename the dims.

    A reshape is left out if its consumers read all elements in order anyway, or if the dims stay.

    before: image 3x6x6 -> dropout 3x6x6 -> line 108 -> classes 2
    after:  image 3x6x6 -> classes 2
    """
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


def swap_first_axes(swapped: Set[str], _draft: Draft, layer: Layer) -> Edit | None:
    """Swap the first two axes of tensors between transpositions, so that firings compute image rows.

    Layer normalisation in ConvNeXt reads rows x columns x channels, between two transpositions. The
    second axis there counts columns, so each firing of the first transposition computes a column and
    needs the whole image. In columns x rows x channels each firing reads and writes an image row.

    swapped: the tensors with swapped axes (`tensors_to_swap`).

    before: image 3x6x4 -> to last 6x4x3 -> relu 6x4x3 -> to first 3x6x4
    after:  image 3x6x4 -> to last 4x6x3 -> relu 4x6x3 -> to first 3x6x4
    """
    reads_swapped, writes_swapped = not swapped.isdisjoint(layer.inputs), layer.name in swapped
    if not (reads_swapped or writes_swapped):
        return None
    operator, dims, permutation = layer.operator, layer.shape.dims, layer.operator.axis_order
    if writes_swapped:
        dims = _with_first_axes_swapped(dims)
    if permutation is not None:
        if reads_swapped:  # the input has each axis at its swapped position
            permutation = tuple(SWAPPED[axis] for axis in permutation)
        if writes_swapped:
            permutation = _with_first_axes_swapped(permutation)
        operator = op.Transpose(permutation=permutation)
    swapped_layer = replace(layer, operator=operator, shape=Shape(dims=dims))
    return Edit(layers={layer.name: (swapped_layer,)})


def _with_first_axes_swapped(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(values[axis] for axis in SWAPPED)


def tensors_to_swap(network: Network) -> Set[str]:
    """Return the results of layers between transpositions that treat the first two axes alike."""
    swapped, consumers = set[str](), network.consumers
    for layer in network.layers:
        if layer.name not in swapped and _begins_region(layer):
            swapped |= _region(network, layer.name, consumers)
    return swapped


def _region(network: Network, first: str, consumers: Mapping[str, Sequence[str]]) -> set[str]:
    """The layers whose results are swapped together with the result of a first transposition.

    The region spreads from each layer to its consumers, except transpositions that end the region, and
    to its inputs, except those of transpositions that begin it. Empty if a layer of it treats the two
    axes differently.
    """
    region, waiting = {first}, [first]
    while waiting:
        layer = network.layer(waiting.pop())
        readers = map(network.layer, consumers[layer.name])
        neighbours = [reader for reader in readers if not _ends_region(reader)]
        if not _begins_region(layer):
            sources = map(network.layer, layer.inputs)
            neighbours += [source for source in sources if not _is_same_swapped(source.shape.dims)]
        for neighbour in neighbours:
            if not (_begins_region(neighbour) or _is_swappable(neighbour)):
                return set()
            if neighbour.name not in region:
                region.add(neighbour.name)
                waiting.append(neighbour.name)
    return region


def _begins_region(layer: Layer) -> bool:
    """Whether it is a transposition whose result begins with the axis of the rows.

    Such as channels x rows x columns to rows x columns x channels: axis 1 becomes axis 0.
    """
    order = layer.operator.axis_order
    return order is not None and len(order) == 3 and order[0] == 1 and not layer.epilogue


def _ends_region(layer: Layer) -> bool:
    """Whether it is a transposition that moves the first axis back to the rows.

    Such as rows x columns x channels to channels x rows x columns: axis 0 becomes axis 1. The order
    (1, 0, 2) begins and ends a region: its input may be swapped, and its result, too.
    """
    order = layer.operator.axis_order
    return order is not None and len(order) == 3 and order[1] == 0 and not layer.epilogue


def _is_same_swapped(dims: Dims) -> bool:
    """Whether a tensor lacks the two axes, or has size 1 along both, as a mean over an image."""
    return dims[-3:-1] in ((), (1, 1))


def _is_swappable(layer: Layer) -> bool:
    """Whether a layer treats the first two axes alike, so that swapped inputs swap its result."""
    steps = (layer.operator, *layer.epilogue)
    return layer.shape.is_map and all(step.swaps_with_inputs for step in steps)


# A layer in place of two, with its arrays by role; None for the arrays of a model without weights.
Merged = tuple[Layer, Mapping[str, Array] | None]


def merging(merge: Callable[[Draft, Layer, Layer], Merged | None]) -> Rule:
    """Return the rule that merges the only consumer of a layer into this layer.

    merge: of a draft, the layer before and the layer; returns the merged layer, or None.
    """

    @wraps(merge)
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


@merging
def fold_padding(draft: Draft, before: Layer, layer: Layer) -> Merged | None:
    """Let a convolution pad its input itself, where it alone reads what was padded with zeros.

    Quantised integers of equal types before and after the padding are padded with their zero point.

    before: image 3x6x6 -> pad 3x8x8 -> conv 4x6x6
    after:  image 3x6x6 -> pad 4x6x6
    """
    added, bank = before.operator.zero_border, layer.operator.filter_bank
    if added is None or bank is None or min(added) < 0 or before.epilogue:
        return None
    window, source = bank.window, draft.network.layer(before.inputs[0])
    if any(window.overhang) or source.quantization != before.quantization:
        return None
    top, left, bottom, right = (
        margin + more for margin, more in zip(window.padding, added, strict=True)
    )
    padded = replace(window, padding=(top, left, bottom, right))
    operator = layer.operator.with_window(padded)
    merged = replace(layer, name=before.name, operator=operator, inputs=before.inputs)
    return merged, draft.arrays(layer.name)


@merging
def absorb_bias(draft: Draft, before: Layer, layer: Layer) -> Merged | None:
    """Let the layer before it add a trained constant, as its bias or after its last step.

    before: image 3x6x6 -> conv 4x4x4 -> shift 4x4x4
    after:  image 3x6x6 -> conv 4x4x4
    """
    if layer.operator.elementwise_function != "add" or layer.operator.constant_dims is None:
        return None
    if not _is_bias(before, layer, layer.operator.constant_dims):
        return _with_layer_in_epilogue(draft, before, layer)
    merged = replace(
        before,
        operator=before.operator.with_bias(),
        element=layer.element,
        stored=(*before.stored, replace(layer.stored_as("constant"), role="bias")),
    )
    arrays, constants = draft.arrays(before.name), draft.arrays(layer.name)
    if arrays is None or constants is None:
        return merged, None
    return merged, {**arrays, "bias": constants["constant"].reshape(-1)}


def _is_bias(before: Layer, layer: Layer, dims: Dims) -> bool:
    """Whether a layer adds a number to each column of a product of real numbers without a bias.

    before: the product. dims: of the numbers, such as 1 x 6. Dims of 1 that the product lacks would
    change the shape of the result.
    """
    product, columns = before.operator, before.shape.dims[-1]
    lacks_bias = product.bias_axis == -1 and product.with_bias() != product
    are_real = before.quantization is None and layer.quantization is None
    has_number_a_column = dims[-1:] == (columns,) and prod(dims) == columns
    return (
        lacks_bias
        and are_real
        and has_number_a_column
        and before.shape == layer.shape
        and not (before.epilogue or layer.epilogue)
    )


@merging
def fuse_activation(draft: Draft, before: Layer, layer: Layer) -> Merged | None:
    """Let the layer before it apply an activation, a normalisation or a constant to its own output.

    before: image 3x6x6 -> conv 4x4x4 -> relu 4x4x4
    after:  image 3x6x6 -> conv 4x4x4
    """
    return _with_layer_in_epilogue(draft, before, layer)


def _with_layer_in_epilogue(draft: Draft, before: Layer, layer: Layer) -> Merged | None:
    """The layer before with the operators of the layer after its own; None if it cannot have them."""
    if before.is_input or not _is_function_of_row(before, layer):
        return None
    if before.quantization != layer.quantization:
        return None
    if layer.quantization is not None and not layer.operator.can_follow_integers:
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
    """The role of an array of a layer after the layer has moved to a position of an epilogue.

    The array `scale` of an operator at position 1 is `1.scale`. The array `0.scale` of the first
    operator of the layer's own epilogue, which then has position 2, is `2.scale`.
    """
    first, _, rest = role.partition(".")
    return f"{position + 1 + int(first)}.{rest}" if rest else f"{position}.{role}"


def _is_function_of_row(before: Layer, layer: Layer) -> bool:
    """Whether it computes each row from the same row, by a function that is equal for all rows."""
    operator, dims = layer.operator, layer.operator.constant_dims
    if dims is not None:
        constant_rows = dims[-2] if layer.shape.is_map and len(dims) > 1 else 1
        return before.shape == layer.shape and constant_rows == 1
    if operator.is_channel_softmax:  # of the scores of attention only
        return before.operator.rereads_rows
    return operator.can_be_fused and not operator.moves


@merging
def fold_batch_normalization(draft: Draft, before: Layer, layer: Layer) -> Merged | None:
    """Multiply a batch normalisation, or a scale and a shift by channel, into the layer before it.

    That layer is a convolution or fully connected.

    before: image 3x6x6 -> conv 4x4x4 -> norm 4x4x4
    after:  image 3x6x6 -> conv 4x4x4
    """
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
    """How the folded arrays are stored: under a name made from the names of the arrays in the file.

    So two layers share the folded arrays if they share all arrays that are folded, and the function
    that folds them. An array without a name is a layer's own, and so are the folded arrays.
    """
    has_bias = before.operator == before.operator.with_bias()
    names = [before.stored_as(folded).name for folded in (role, *["bias"] * has_bias)]
    names += [layer.stored_as(trained).name for trained in layer.operator.trained((before.shape,))]
    joined = None if None in names else " ".join(map(repr, (*names, layer.operator)))
    element = before.stored_as(role).element
    return tuple(
        Stored(role=kind, element=element, name=joined and f"{kind} of {joined}")
        for kind in (role, "bias")
    )


def _single(array: np.ndarray) -> Array:
    return np.asarray(array, dtype=np.float32)


def _by(rule: Rule) -> Callable[[Model], Model]:
    """Return the rewrite that offers each layer of a model to a rule."""
    return lambda model: rewritten(model, rule)


def _with_swapped_axes(model: Model) -> Model:
    return rewritten(model, partial(swap_first_axes, tensors_to_swap(model.network)))


def _attention_as_rows(model: Model) -> Model:
    if not any(layer.operator.multiplies_inputs for layer in model.network.layers):
        return model
    tokens: Callable[[Model], Model] = import_module("cnn2csdf.tokens").tokens_as_rows
    return tokens(model)


_REWRITES = (  # in the order of REWRITE_NAMES
    _by(drop_layer_that_moves_nothing),
    _with_swapped_axes,
    _attention_as_rows,
    moves_as_views,
    *map(_by, (fold_padding, fold_batch_normalization, absorb_bias, fuse_activation)),
)
REWRITES: Mapping[str, Callable[[Model], Model]] = dict(zip(REWRITE_NAMES, _REWRITES, strict=True))


@public
def simplified(model: Model, names: tuple[str, ...] = REWRITE_NAMES) -> Model:
    """Return the model after the rewrites of these names, in the order of REWRITES.

    Raises InvalidNetwork for a name that no rewrite has.
    """
    if unknown := [name for name in names if name not in REWRITES]:
        raise InvalidNetwork(f"there is no rewrite {unknown[0]!r}; {', '.join(REWRITES)}")
    for name, rewrite in REWRITES.items():
        if name in names:
            model = rewrite(model)
    return model
