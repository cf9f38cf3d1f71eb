"""Rules of rewrites: the example in the docstring of each, and the frame that applies them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from cnn2csdf import moves_as_views, rings, simplify, streams, token_arithmetic, token_moves, tokens
from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.index_maps import AXES
from cnn2csdf.network import Network
from cnn2csdf.operators import Next, Previous
from cnn2csdf.rewriting import Edit, edited, exhausted, rewritten
from cnn2csdf.token_layers import TokenDraft
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

    def named(name):
        return f"'{name}'" if "," in name else name

    for layer in model.network.layers:
        if layer.name.endswith(" out"):
            continue
        text = f"{named(layer.name)} {'x'.join(map(str, layer.shape.dims))}"
        if layer.inputs == (last,):
            chains[-1] += f" -> {text}"
        else:
            chains.append(
                f"{', '.join(map(named, layer.inputs))} -> {text}" if layer.inputs else text
            )
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
JOIN, JOIN_TOKENS = op.Concatenation(axis=1), op.Concatenation(axis=0)


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
    moves_as_views.without_identity: built(
        ("map", op.Input(dims=(8, 4, 1))), ("dropout", op.Identity(), "map"), ends=["dropout"]
    ),
    moves_as_views.as_view: built(
        ("map", op.Input(dims=(8, 4, 1))),
        ("turned", op.Transpose(permutation=(1, 2, 0)), "map"),
        ("line", op.Reshape(dims=(32,)), "turned"),
        ends=["line"],
    ),
    moves_as_views.read_before_view: built(
        ("map", op.Input(dims=(8, 4, 1))),
        ("line", op.View(dims=(32,)), "map"),
        ("classes", op.FullyConnected(units=2), "line"),
    ),
    moves_as_views.input_with_dims_of_view: built(
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


TOKENS = ("tokens", op.Input(dims=(8, 4)))
TURNED = ("turned", op.Transpose(permutation=(1, 0)), "tokens")
IMAGE = ("image", op.Input(dims=(4, 2, 3)))
SPREAD = (
    ("scores", op.Input(dims=(2, 8, 4))),
    ("mask", op.Input(dims=(1, 8, 4))),
    ("spread", op.Repeat(axis=0, times=2), "mask"),
)
SUM, SCALARS = op.Elementwise(function="add"), ((1, (1,)), (2, (1,)))
ON_MAPS = {
    token_moves.matrix_input: built(TOKENS),
    token_moves.output_from_map: built(TOKENS, ("result", op.Output(), "tokens")),
    token_moves.reshape: built(IMAGE, ("rows", op.Reshape(dims=(4, 6)), "image")),
    token_moves.view: built(IMAGE, ("tokens", op.View(dims=(6, 4)), "image")),
    token_moves.transposition: built(TOKENS, TURNED),
    token_moves.range_of_positions: built(
        TOKENS, ("last", op.Slice(axis=0, start=5, stop=8), "tokens")
    ),
    token_moves.gather: built(
        TOKENS,
        ("dense", op.MatrixProduct(units=6), "tokens"),
        ("three", op.Reshape(dims=(8, 3, 2)), "dense"),
        ("query", op.Gather(axis=1, places=(0,)), "three"),
    ),
    token_arithmetic.matrix_product: built(TOKENS, ("dense", op.MatrixProduct(units=6), "tokens")),
    token_arithmetic.product_of_tensors: built(
        ("query", op.Input(dims=(8, 4))),
        ("key", op.Input(dims=(5, 4))),
        ("turned", op.Transpose(permutation=(1, 0)), "key"),
        ("scores", op.MatrixProduct(), "query", "turned"),
    ),
    token_arithmetic.elements_one_by_one: built(
        TOKENS, TURNED, ("relu", op.Activation(function="relu"), "turned")
    ),
    token_arithmetic.embedding: built(
        ("numbers", op.Input(dims=(1, 8, 1))),
        ("rows", op.Embedding(entries=9, width=4), "numbers"),
    ),
    token_arithmetic.choice_between_scalars: built(
        *SPREAD,
        ("bias", op.Choice(constants=SCALARS), "spread"),
        ("masked", SUM, "scores", "bias"),
    ),
    token_moves.repetition: built(*SPREAD, ("masked", SUM, "scores", "spread")),
    token_arithmetic.elementwise: built(
        TOKENS, TURNED, ("shifted", op.Elementwise(function="add", constant=(4, 1)), "turned")
    ),
    token_arithmetic.layer_normalization: built(
        TOKENS, ("norm", op.LayerNormalization(axis=1), "tokens")
    ),
    token_arithmetic.softmax: built(TOKENS, ("shares", op.Softmax(axis=1), "tokens")),
    token_arithmetic.reduction: built(
        TOKENS, ("mean", op.Reduction(function="mean", axes=(0,), keeps=False), "tokens")
    ),
    token_moves.concatenation: built(
        TOKENS, ("state", op.Input(dims=(3, 4))), ("joined", JOIN_TOKENS, "state", "tokens")
    ),
    tokens.in_file_dims: built(TOKENS, ("sums", op.RunningSum(axis=0), "tokens")),
}


def on_maps(model):
    """The layers on feature maps that the last tensor needs, and the elements that it has of them."""
    draft, last = TokenDraft(model), model.network.layers[-1].name
    edited(draft, *tokens.RULES)
    needed = {draft.mapped[last].layer if last in draft.mapped else last}
    for layer in reversed(draft.layers.values()):
        needed.update(layer.inputs if layer.name in needed else ())
    layers = tuple(layer for layer in draft.layers.values() if layer.name in needed)
    text = sketch(Model(network=Network(name="on maps", layers=layers)))
    if last not in draft.mapped:
        return text
    tensor = draft.mapped[last]
    dims = (digits(dim, tensor.shape) for dim in tensor.index_map)
    return f"{text}; {last} = {tensor.layer}[{', '.join(dims)}]"


def digits(dim, shape):
    """The digits of a dim: `y x`, `c//4%2`, or 0 for a dim of size 1."""
    words = []
    for axis, stride, size in dim:
        step = f"//{stride}" if stride > 1 else ""
        rest = f"%{size}" if stride * size < shape.dims[AXES.index(axis)] else ""
        words.append(f"{axis.lower()}{step}{rest}")
    return " ".join(words) or "0"


STATES = {  # arguments of a rule besides the draft and the layer
    moves_as_views.as_view: lambda network: {},
    simplify.swap_first_axes: simplify.tensors_to_swap,
}


def applied(rule, model):
    """The model after a rule, or after a rewrite of the whole model."""
    if rule in WHOLE_MODELS:
        return rule(model)
    state = STATES.get(rule)
    return rewritten(model, partial(rule, state(model.network)) if state else rule)


def after(rule, model):
    """The part of an example that is the result of its rule."""
    return on_maps(model) if rule in ON_MAPS else sketch(applied(rule, model))


SIMPLIFYING = [rule for rule in EXAMPLES if rule.__module__ == simplify.__name__]

ALL = pytest.mark.parametrize(
    ("rule", "model"),
    [*EXAMPLES.items(), *WHOLE_MODELS.items(), *ON_MAPS.items()],
    ids=lambda value: getattr(value, "__name__", ""),
)


@ALL
def test_the_example_in_the_docstring_is_what_a_rule_does(rule, model):
    example = f"before: {sketch(model)} after: {after(rule, model)}"
    assert " ".join(example.split()) in " ".join(rule.__doc__.split())


@ALL
def test_new_layers_have_names_of_their_own(rule, model):
    def rewrite(network):
        if rule in ON_MAPS:
            return edited(TokenDraft(Model(network=network)), *tokens.RULES).network
        return applied(rule, Model(network=network)).network

    layers, alone = model.network.layers, rewrite(model.network)
    new_names = {layer.name for layer in alone.layers} - {layer.name for layer in layers}
    inputs = [(name, op.Input(dims=(2, 1, 1))) for name in sorted(new_names)]
    added = built(*inputs, ends=new_names).network.layers if new_names else ()
    crowded = rewrite(Network(name="crowded", layers=(*layers, *added)))
    assert len(crowded.layers) == len(alone.layers) + len(added)


@pytest.mark.parametrize("rule", SIMPLIFYING, ids=lambda rule: rule.__name__)
def test_a_rule_that_simplifies_leaves_its_own_result_as_it_is(rule):
    once = applied(rule, EXAMPLES[rule])
    assert applied(rule, once) is once


def test_every_rule_for_tokens_has_an_example():
    assert {*ON_MAPS} == {*tokens.RULES}


def test_a_function_with_parameters_that_follows_a_move_keeps_the_dims_of_the_file():
    builder = NetworkBuilder()
    scores = builder.add(
        op.MatrixProduct(), builder.input((8, 4)), builder.input((4, 5)), name="scores"
    )
    line = builder.add(op.Reshape(dims=(5, 8)), scores, epilogue=(op.BatchNormalization(),))
    builder.output(line)
    model = Model(network=builder.network())
    kept = replace(model.network.layer(line), inputs=("scores 8x5",))
    assert tokens.tokens_as_rows(model).network.layer(line) == kept


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


def test_an_edit_of_an_added_layer_holds():
    model = image_and(("first", op.Identity(), "image"), ("second", op.Identity(), "first"))

    def add_and_edit(draft, layer):
        added = replace(layer, name="added")
        if layer.name == "first":
            return Edit(layers={"first": (added, replace(layer, inputs=("added",)))})
        if layer.name == "second":
            relu = replace(added, operator=op.Activation(function="relu"), inputs=("image",))
            return Edit(layers={"added": (relu,)})
        return None

    layers = rewritten(model, add_and_edit).network.layers
    assert [layer.name for layer in layers] == ["image", "added", "first", "second"]
    assert layers[1].operator == op.Activation(function="relu")


def test_an_edit_of_weights_or_sources_alone_holds():
    model = image_and(("first", op.Identity(), "image"), ("second", op.Identity(), "first"))
    weights = {"second": {"numbers": np.ones(2)}}

    def only_sources(draft, layer):
        return Edit(layers={}, sources={"first": "image"}) if layer.name == "first" else None

    def only_weights(draft, layer):
        return Edit(layers={}, weights=weights) if layer.name == "second" else None

    edited_sources = rewritten(model, only_sources)
    assert [layer.name for layer in edited_sources.network.layers] == ["image", "second"]
    assert rewritten(replace(model, weights={}), only_weights).weights == weights


def test_a_layer_that_reads_masks_several_times_has_one_copy_of_each():
    model = built(
        ("image", op.Input(dims=(1, 4, 4))),
        ("mask", op.Input(dims=(1, 4, 4))),
        ("far", op.Identity(), "mask"),
        ("near", op.Identity(), "far"),
        ("first", op.Concatenation(axis=0), "image", "near", "far", "near"),
    )
    (first,) = tokens.with_masks_of_readers(model).network.layers[-1:]
    assert first.inputs == ("image", "near for first", "far for first", "near for first")


def test_an_input_in_the_dims_of_a_view_keeps_the_dims_of_the_file():
    model = built(
        ("input", op.Input(dims=(4, 8, 1), file_dims=(8, 4))),
        ("line", op.View(dims=(32,)), "input"),
        ends=["line"],
    )
    (first, _) = moves_as_views.with_views(model).network.layers
    assert first.operator == op.Input(dims=(32,), file_dims=(8, 4))


@pytest.mark.parametrize(
    "reader", [op.FullyConnected(units=2), op.Activation(function="relu")], ids=str
)
def test_a_view_between_integers_of_two_scales_stays(reader):
    others = {"element": Element.INT8, "quantization": replace(INTEGERS, scales=(0.25,))}
    model = built(
        ("input", op.Input(dims=(8, 4, 1)), INT8),
        ("line", op.View(dims=(32,)), "input", others),
        ("end", reader, "line", others),
        ends=["end"],
    )
    assert moves_as_views.with_views(model).network.layer("end").inputs == ("line",)


def test_a_variable_that_begins_with_other_numbers_than_zeros_stays_real():
    example = EXAMPLES[rings.stored_as_integers]
    layers = [
        replace(layer, operator=replace(layer.operator, begin=None))
        if layer.name == "state"
        else layer
        for layer in example.network.layers
    ]
    model = Model(network=Network(name="real", layers=tuple(layers)))
    assert rewritten(model, rings.stored_as_integers) is model


def test_the_first_rule_that_matches_a_layer_wins():
    offered = []

    def second(draft, layer):
        offered.append(layer.name)

    rewritten(EXAMPLES[moves_as_views.without_identity], moves_as_views.without_identity, second)
    assert offered == ["map", "dropout out"]


def test_a_model_that_no_rule_matches_is_returned_itself():
    model = EXAMPLES[moves_as_views.as_view]
    assert rewritten(model, moves_as_views.without_identity) is model
    assert exhausted(model, moves_as_views.without_identity) is model


def outputs_of_frames(model):
    states, generator = first_states(model), np.random.default_rng(0)
    frames = [
        {
            layer.name: generator.standard_normal(layer.shape.dims, np.float32)
            for layer in model.network.inputs
        }
        for _ in range(6)
    ]
    return [run_layer_by_layer(model, frame, states) for frame in frames]


MEAN = op.Reduction(function="mean", axes=(1,), keeps=True)


@pytest.mark.parametrize(
    ("layers", "ends"),
    [
        ([*ring(4, 2), ("stored", rows(1, 5), "window"), ("next", NEXT, "stored")], ["window"]),
        # No output is the window: its rows before the slices are removed.
        (
            [
                *ring(4, 1),
                *(("newest", rows(2, 5), "window"), ("middle", rows(2, 4), "window")),
                *(("mean", MEAN, "middle"), ("next", NEXT, "window")),
            ],
            ["newest", "mean"],
        ),
    ],
    ids=["a variable stores rows that are not the last", "slices end before the last row"],
)
def test_rings_keep_results_where_slices_of_a_window_end_early(layers, ends):
    model = replace(built(*layers, ends=ends), weights={})
    results, expected = outputs_of_frames(rings.with_rings(model)), outputs_of_frames(model)
    for outputs, outputs_expected in zip(results, expected, strict=True):
        for name, array in outputs_expected.items():
            np.testing.assert_array_equal(outputs[name], array)
