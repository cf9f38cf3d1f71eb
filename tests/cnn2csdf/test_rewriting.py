"""Rules of rewrites: the example in the docstring of each, and the frame that applies them."""

from dataclasses import replace
from functools import partial

import pytest

from cnn2csdf import operators as op
from cnn2csdf import rings, simplify, streams, tokens
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.operators import Next, Previous
from cnn2csdf.rewriting import Edit, exhausted, rewritten
from cnn2csdf.weights import Model

INTEGERS = Quantization(element=Element.INT8, scales=(0.5,), zero_point=3)
MATRIX = Stored(
    role="matrix",
    element=Element.INT8,
    quantization=Quantization(element=Element.INT8, scales=(0.5,)),
)
INT8 = {"element": Element.INT8, "quantization": INTEGERS}


def sketch(model):
    """Chains of layers with their dims, as in the examples; outputs are left out."""
    chains, last = [], None
    for layer in model.network.layers:
        if layer.name.endswith(" out"):
            continue
        text = f"{layer.name} {'x'.join(map(str, layer.shape.dims))}"
        if layer.inputs == (last,):
            chains[-1] += f" -> {text}"
        else:
            chains.append(f"{', '.join(layer.inputs)} -> {text}" if layer.inputs else text)
        last = layer.name
    return "; ".join(chains)


def built(*layers, ends=()):
    """A model of layers, each a name, an operator, its inputs and options."""
    builder = NetworkBuilder()
    for name, operator, *inputs in layers:
        options = inputs.pop() if inputs and isinstance(inputs[-1], dict) else {}
        builder.add(operator, *inputs, name=name, **options)
    for name in ends:
        builder.output(name, name=f"{name} out")
    return Model(network=builder.network())


def previous(*dims, begin=0):
    return Previous(dims=dims, variable="x", begin=begin)


NEXT = Next(variable="x")
JOIN = op.Concatenation(axis=1)


def rows(start, stop):
    return op.Slice(axis=1, start=start, stop=stop)


def channels(start, stop):
    return op.Slice(axis=0, start=start, stop=stop)


def ring(old, new, channels_of_map=1, **options):
    """The layers of a ring of old and new rows; what reads its window comes behind."""
    return (
        ("previous", previous(channels_of_map, old, 1, **options)),
        ("new", op.Input(dims=(channels_of_map, new, 1))),
        ("window", JOIN, "previous", "new"),
    )


EXAMPLES = {
    rings.without_stored_slice: built(
        *ring(4, 1), ("last", rows(1, 5), "window"), ("next", NEXT, "last"), ends=["window"]
    ),
    rings.without_oldest_rows: built(
        *ring(4, 1), ("last", rows(2, 5), "window"), ("next", NEXT, "window"), ends=["last"]
    ),
    rings.split_by_readers: built(
        *ring(2, 1, 8),
        ("first", channels(0, 4), "window"),
        ("second", channels(4, 8), "window"),
        ("next", NEXT, "window"),
        ends=["first", "second"],
    ),
    rings.view_before_output: built(
        *ring(2, 1), ("next", NEXT, "window"), ("result", op.Output(), "window")
    ),
    rings.without_identity: built(
        ("map", op.Input(dims=(8, 4, 1))), ("dropout", op.Identity(), "map"), ends=["dropout"]
    ),
    rings.as_view: built(
        ("map", op.Input(dims=(8, 4, 1))),
        ("turned", op.Transpose(permutation=(1, 2, 0)), "map"),
        ("line", op.Reshape(dims=(32,)), "turned"),
        ends=["line"],
    ),
    rings.read_before_view: built(
        ("map", op.Input(dims=(8, 4, 1))),
        ("line", op.View(dims=(32,)), "map"),
        ("classes", op.FullyConnected(units=2), "line"),
    ),
    rings.input_with_dims_of_view: built(
        ("input", op.Input(dims=(32,))), ("map", op.View(dims=(1, 4, 8)), "input"), ends=["map"]
    ),
    rings.sequence_by_rows: built(
        ("steps", op.Input(dims=(10, 8))),
        ("lstm", op.QuantizedLstm(units=16, cell_scale=2.0**-11, keeps=0), "steps"),
        ends=["lstm"],
    ),
    rings.stored_as_integers: built(
        ("state", previous(2, 3, 1)),
        ("integers", op.Conversion(), "state", INT8),
        ("new", op.Input(dims=(2, 1, 1)), INT8),
        ("window", JOIN, "integers", "new", INT8),
        ("numbers", op.Conversion(), "window", {"element": Element.FLOAT32}),
        ("last", rows(1, 4), "numbers"),
        ("next", NEXT, "numbers"),
        ends=["window"],
    ),
    rings.heads_as_columns: built(
        ("previous", previous(4, 8, 16)),
        ("new", op.Input(dims=(4, 1, 16))),
        ("window", JOIN, "previous", "new"),
        ("keys", op.Transpose(permutation=(0, 2, 1)), "window"),
        ("next", NEXT, "window"),
        ends=["keys"],
    ),
    rings.with_accumulators: built(
        ("previous", previous(9, 7, 1, begin=3), INT8),
        ("new", op.Input(dims=(9, 1, 1)), INT8),
        ("window", JOIN, "previous", "new", INT8),
        (
            "dense",
            op.FullyConnected(units=2, has_bias=False),
            "window",
            INT8 | {"stored": (MATRIX,)},
        ),
        ("next", NEXT, "window", INT8),
        ends=["dense"],
    ),
    streams.input_as_map: built(
        ("input", op.Input(dims=(49, 40))),
        ("map", op.Reshape(dims=(1, 49, 40)), "input"),
        ends=["map"],
    ),
}


def convolution(**options):
    window = op.Window(kernel=(3, 3))
    return ("conv", op.Convolution(filters=4, window=window, **options), "image")


def image_and(*layers):
    return built(("image", op.Input(dims=(3, 6, 6))), *layers)


EXAMPLES |= {
    simplify.drop_layer_that_moves_nothing: image_and(
        ("dropout", op.Identity(), "image"),
        ("line", op.Reshape(dims=(108,)), "dropout"),
        ("classes", op.FullyConnected(units=2), "line"),
    ),
    simplify.absorb_bias: image_and(
        convolution(has_bias=False),
        ("shift", op.Elementwise(function="add", constant=(4, 1, 1)), "conv"),
    ),
    simplify.fold_batch_normalization: image_and(
        convolution(has_bias=False), ("norm", op.BatchNormalization(), "conv")
    ),
    simplify.fuse_activation: image_and(
        convolution(), ("relu", op.Activation(function="relu"), "conv")
    ),
    simplify.fold_padding: image_and(
        ("pad", op.Pad(padding=(1, 1, 1, 1)), "image"),
        ("conv", op.Convolution(filters=4, window=op.Window(kernel=(3, 3))), "pad"),
    ),
    simplify.swap_first_axes: built(
        ("image", op.Input(dims=(3, 6, 4))),
        ("to last", op.Transpose(permutation=(1, 2, 0)), "image"),
        ("relu", op.Activation(function="relu"), "to last"),
        ("to first", op.Transpose(permutation=(2, 0, 1)), "relu"),
    ),
}

WHOLE_MODELS = {
    tokens.with_masks_of_readers: built(
        ("image", op.Input(dims=(1, 4, 4))),
        ("mask", op.Input(dims=(1, 4, 4))),
        ("far", op.Elementwise(function="multiply", constant=(1, 1, 1)), "mask"),
        ("first", op.Elementwise(function="add"), "image", "far"),
        ("second", op.Elementwise(function="add"), "first", "far"),
    ),
}


STATES = {  # arguments of a rule besides the draft and the layer
    rings.as_view: lambda network: {},
    simplify.swap_first_axes: simplify.tensors_to_swap,
}


def applied(rule, model):
    """The model after a rule, or after a rewrite of the whole model."""
    if rule in WHOLE_MODELS:
        return rule(model)
    state = STATES.get(rule)
    return rewritten(model, partial(rule, state(model.network)) if state else rule)


SIMPLIFYING = [rule for rule in EXAMPLES if rule.__module__ == simplify.__name__]

ALL = pytest.mark.parametrize(
    ("rule", "model"),
    [*EXAMPLES.items(), *WHOLE_MODELS.items()],
    ids=lambda value: getattr(value, "__name__", ""),
)


@ALL
def test_the_example_in_the_docstring_is_what_a_rule_does(rule, model):
    example = f"before: {sketch(model)} after: {sketch(applied(rule, model))}"
    assert " ".join(example.split()) in " ".join(rule.__doc__.split())


@pytest.mark.parametrize("rule", SIMPLIFYING, ids=lambda rule: rule.__name__)
def test_a_rule_that_simplifies_leaves_its_own_result_as_it_is(rule):
    once = applied(rule, EXAMPLES[rule])
    assert applied(rule, once) is once


def test_layers_that_lose_their_consumers_are_left_out_and_unread_layers_stay():
    model = image_and(
        ("unread", op.Identity(), "image"),
        ("first", op.Identity(), "image"),
        ("second", op.Identity(), "first"),
        ("third", op.Identity(), "second"),
    )

    def skip(draft, layer):
        is_third = layer.name == "third"
        return Edit(layers={"third": (replace(layer, inputs=("image",)),)}) if is_third else None

    edited = rewritten(model, skip)
    assert [layer.name for layer in edited.network.layers] == ["image", "unread", "third"]


def test_the_first_rule_that_matches_a_layer_wins():
    offered = []

    def second(draft, layer):
        offered.append(layer.name)

    rewritten(EXAMPLES[rings.without_identity], rings.without_identity, second)
    assert offered == ["map", "dropout out"]


def test_a_model_that_no_rule_matches_is_returned_itself():
    model = EXAMPLES[rings.as_view]
    assert rewritten(model, rings.without_identity) is model
    assert exhausted(model, rings.without_identity) is model
