"""Every operator in C, against the whole network: rows, strips, sums, channels, fused or not."""

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import UnsupportedOperator
from planners.code.library import library
from planners.memory.moves import WHOLE
from planners.memory.plan_runs import run_plan
from planners.plan.plan import Mode
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.memory.plain import plan_of
from tests.planners.memory.streamed import random_frame, random_plan, space

pytestmark = pytest.mark.slow

MAP = (6, 7, 5)
SAMPLES = {"leaky relu": (0.1,), "clip": (-0.3, 0.4), "hard sigmoid": (0.2, 0.5), "elu": (0.7,),
           "selu": (1.67, 1.05), "celu": (0.6,), "thresholded relu": (0.3,)}  # fmt: skip
POSITIVE = ("log", "sqrt", "reciprocal")


def window(size=(3, 3), **options):
    return op.Window(kernel=size, **options)


CONVOLUTIONS = [
    op.Convolution(filters=11, window=window(padding=(1, 1, 1, 1))),
    op.Convolution(filters=9, groups=3, window=window(padding=(1, 2, 0, 1), stride=(2, 1))),
    op.Convolution(filters=6, groups=6, window=window(dilation=(2, 1), padding=(2, 1, 2, 1))),
    op.Convolution(filters=12, groups=6, window=window(), has_bias=False),
    op.Convolution(filters=17, window=window((1, 1)), has_bias=False),
    op.TransposedConvolution(filters=4, window=window(stride=(2, 2), padding=(1, 0, 0, 1))),
    op.TransposedConvolution(filters=6, groups=2, window=window((2, 3), dilation=(2, 1))),
]
OTHERS = [
    op.Pooling(function="max", window=window(stride=(2, 2), padding=(1, 0, 1, 0))),
    op.Pooling(function="average", window=window(padding=(1, 1, 1, 1)), counts_padding=True),
    op.Pooling(function="average", window=window(padding=(1, 1, 1, 1))),
    op.GlobalPooling(function="average"),
    op.GlobalPooling(function="max"),
    op.BatchNormalization(),
    op.InstanceNormalization(),
    op.LayerNormalization(axis=0),
    op.LayerNormalization(axis=2, has_bias=False),
    op.LocalResponseNormalization(size=3, alpha=0.3),
    op.LocalResponseNormalization(size=4, alpha=0.3, bias=2.0),
    op.Activation(function="prelu"),
    op.MatrixProduct(units=3),
    op.Slice(axis=0, start=1, stop=6, step=2),
    op.Slice(axis=1, start=1, stop=6, step=2),
    op.Slice(axis=2, start=1, stop=4),
    op.ChannelShuffle(groups=3),
    op.Pad(padding=(1, 0, 0, 2), value=0.5, channels=(2, 1)),
    op.Pad(padding=(0, 0, 0, 0), channels=(0, 3)),
    op.Resize(size=(5, 9), function="nearest", coordinates="half pixel", rounding="prefer ceil"),
    op.Resize(size=(11, 4), function="linear", coordinates="align corners"),
    op.Resize(size=(10, 3), function="linear", coordinates="pytorch half pixel"),
    op.Resize(size=(11, 4), function="cubic", coordinates="half pixel"),
    op.Resize(size=(3, 9), function="cubic", cubic=-0.5, skips_outside=True),
    op.Pad(padding=(1, 2, 0, 1), value=0.5),
    op.Pad(padding=(2, 2, 3, 1), mode="reflect"),
    op.Pad(padding=(2, 2, 3, 1), mode="symmetric"),
    op.Pad(padding=(2, -1, 3, 1), mode="edge"),
    op.Transpose(permutation=(2, 1, 0)),
    op.Transpose(permutation=(1, 2, 0)),
    op.Reshape(dims=(5, 42)),
    op.Identity(),
    *(op.Softmax(axis=axis) for axis in range(3)),
    op.Softmax(axis=0, last=2, is_logarithm=True),
    *(op.Gather(axis=axis, places=places) for axis, places in
      ((0, (5, 0, 0, 3)), (1, (1, 2, 2, 6)), (1, (6, 0)), (2, (4, 4, 1)))),
    *(op.Repeat(axis=axis, times=2) for axis in range(3)),
    *(op.ExtremePlace(function=function, axis=axis, takes_last=last) for function, axis, last in
      (("max", 0, False), ("min", 1, True), ("max", 2, True))),
    *(op.RunningSum(axis=axis, is_exclusive=axis == 1, is_reversed=axis > 0) for axis in range(3)),
    op.Ranking(axis=0, count=3),
    op.Ranking(axis=1, count=2, takes_largest=False, gives_places=True),
    op.Ranking(axis=2, count=5, gives_places=True),
    *(
        op.Reduction(function=function, axes=axes, keeps=keeps)
        for function, axes, keeps in (
            ("mean", (1, 2), True), ("sum", (0,), True), ("max", (2,), False),
            ("min", (0, 1), False), ("l2", (0, 1, 2), False), ("mean", (1,), True),
        )
    ),
]  # fmt: skip
FLAT = [
    op.FullyConnected(units=10),
    op.FullyConnected(units=3, has_bias=False),
    op.Softmax(axis=0),
    op.Softmax(axis=1),
    op.Reduction(function="sum", axes=(0,)),
    op.Reduction(function="max", axes=(1,), keeps=False),
    op.LayerNormalization(axis=1),
    op.BatchNormalization(),
    op.Slice(axis=1, start=1, stop=11, step=3),
    op.Transpose(permutation=(1, 0)),
    op.MatrixProduct(units=4),
    op.Activation(function="prelu"),
    op.Elementwise(function="add", constant=(12,)),
    op.Reshape(dims=(2, 3, 10)),
    op.Gather(axis=1, places=(11, 0, 0)),
    op.Repeat(axis=0, times=3),
    op.ExtremePlace(function="min", axis=1),
    op.RunningSum(axis=0),
    op.Ranking(axis=1, count=4, gives_places=True),
]


def finished(builder, names):
    for name in names:
        builder.output(name, name=f"out of {name}")
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 1))


def side_by_side(operators, dims=MAP):
    """A network with each operator on the same input, and an output for each."""
    builder = NetworkBuilder("side by side")
    source = builder.input(dims)
    return finished(builder, [builder.add(one, source) for one in operators])


def activations():
    builder = NetworkBuilder("activations")
    source = builder.input(MAP)
    positive = builder.add(op.Activation(function="exp"), source)
    names = [
        builder.add(
            op.Activation(function=function, parameters=SAMPLES.get(function, ())),
            positive if function in POSITIVE else source,
        )
        for function in op.ACTIVATIONS
        if function != "exp"
    ]
    return finished(builder, names)


def elementwise():
    """All functions of two tensors, of constants on both sides, with repeated axes."""
    builder = NetworkBuilder("elementwise")
    one, other, third, plane = (
        builder.input(dims, name=name)
        for name, dims in (("a", MAP), ("b", MAP), ("c", (6, 1, 1)), ("d", (7, 5)))
    )
    one = builder.add(op.Activation(function="exp"), one)
    names = []
    for function in op.ELEMENTWISE:
        function_of = op.Elementwise(function=function)
        names += [
            builder.add(function_of, one, other if function != "power" else third),
            builder.add(function_of, one, third),
            builder.add(function_of, one, plane),
        ]
        for first in (False, True):
            for dims in ((6, 1, 1), (5,), (1, 7, 1), MAP):
                operator = op.Elementwise(function=function, constant=dims, constant_first=first)
                names.append(builder.add(operator, one))
    names.append(builder.add(op.Elementwise(function="mean"), one, other, third))
    return finished(builder, names)


def joined():
    builder = NetworkBuilder("joined")
    one, other = builder.input(MAP, name="a"), builder.input(MAP, name="b")
    names = [builder.add(op.Concatenation(axis=axis), one, other, one) for axis in range(3)]
    flat = [builder.add(op.Reshape(dims=(6, 35)), name) for name in (one, other)]
    names += [builder.add(op.Concatenation(axis=axis), *flat) for axis in range(2)]
    turned = builder.add(op.Transpose(permutation=(1, 0)), flat[1])
    names += [
        builder.add(op.MatrixProduct(), flat[0], turned),
        builder.add(op.MatrixProduct(), one, builder.add(op.Transpose(permutation=(0, 2, 1)), one)),
        builder.add(op.Elementwise(function="multiply"), *flat),
    ]
    return finished(builder, names)


def recurrences():
    """Each kind of recurrent layer, in one direction and both, with and without first states."""
    builder = NetworkBuilder("recurrences")
    source = builder.input((5, 2, 3))
    names = [
        builder.add(
            op.Recurrence(kind=kind, units=4, direction=way, gives=gives, **options), source
        )
        for kind in ("lstm", "gru", "rnn")
        for way, gives, options in (
            ("forward", "all", {}),
            ("bidirectional", "last", {"has_state": True}),
            ("reverse", "all", {"has_bias": False}),
        )
    ]
    options = {"has_state": True, "has_cell": True, "gives": "cell"}
    names.append(builder.add(op.Recurrence(kind="lstm", units=3, **options), source))
    names.append(builder.add(op.Recurrence(kind="gru", units=3, resets_after=True), source))
    names.append(builder.add(op.Recurrence(kind="lstm", units=3, cell_limit=0.05), source))
    return finished(builder, names)


def choices():
    """A choice of two tensors, of a tensor and a constant, for each place."""
    builder = NetworkBuilder("choices")
    one, other, third = (builder.input(dims, name=name) for name, dims in
                         (("a", MAP), ("b", MAP), ("c", (6, 1, 1))))  # fmt: skip
    where = builder.add(op.Elementwise(function="greater"), one, third)
    names = [
        builder.add(op.Choice(), where, one, other),
        builder.add(op.Choice(), where, third, one),
        builder.add(op.Choice(constants=((2, (1,)),)), where, one),
        builder.add(op.Choice(constants=((1, (6, 1, 1)),)), where, other),
    ]
    return finished(builder, names)


def blocks(dims, *operators):
    return side_by_side(operators, dims)


def fused():
    """Everything that can stand behind a convolution, in strips between two convolutions."""
    builder = NetworkBuilder("fused")
    last = builder.input((3, 9, 8))
    for operator in (
        op.Activation(function="prelu"),
        op.BatchNormalization(),
        op.LocalResponseNormalization(size=3, alpha=0.2),
        op.Elementwise(function="subtract", constant=(6, 1, 1), constant_first=True),
        op.Elementwise(function="multiply", constant=(1, 1, 8)),
        op.Elementwise(function="multiply", constant=(9, 8)),
        op.Activation(function="hard swish"),
    ):
        last = builder.add(op.Convolution(filters=6, window=window(padding=(1, 1, 1, 1))), last)
        last = builder.add(op.Activation(function="relu"), last)
        last = builder.add(operator, last)
    return simplified(finished(builder, [last]), ("fuse-activation",))


def summing(*operators, dims=(4, 6, 6)):
    """A convolution and an operator that adds up what it makes."""
    builder = NetworkBuilder("summing")
    last = builder.add(
        op.Convolution(filters=10, groups=2, window=window(padding=(1, 1, 1, 1))),
        builder.input(dims),
    )
    for operator in operators:
        last = builder.add(operator, last)
    return simplified(finished(builder, [last]), ("fuse-activation",))


SUMS = [
    (op.GlobalPooling(function="average"), op.Activation(function="sigmoid")),
    (op.Activation(function="relu"), op.GlobalPooling(function="max")),
    (op.Reduction(function="sum", axes=(1, 2)),),
    (op.Reduction(function="mean", axes=(1, 2), keeps=False),),
    (op.Pooling(function="average", window=window((6, 6))),),
    (op.Pooling(function="max", window=window((5, 6), stride=(5, 6))),),
    (op.Pooling(function="average", window=window((2, 6), stride=(6, 6))),),
    (op.FullyConnected(units=9), op.Activation(function="relu")),
]


WAYS = ((Mode.ACCUMULATING, 1), (Mode.ACCUMULATING, 2), (Mode.CHANNELS, 2))


def with_mode(model, mode, count):
    """A plan whose last stage has that mode and number of layers; none where there is no such move."""
    moves = space(model.network, parts=(2,))
    last = len(moves.layer_order.separators) - 1
    for begin in range(last):
        for move in moves.moves_from(begin, WHOLE):
            stage = move.stages[-1]
            if move.end == last and (stage.mode, len(stage.layers)) == (mode, count):
                before = [moves_to(moves, begin)] if begin else []
                groups = [*before, (move,)]
                return plan_of(moves.layer_order, moves.table, groups, is_streamed=False)
    return None


def moves_to(moves, end):
    """A network with one row a firing up to a cut."""
    found, cut = [], 0
    while cut < end:
        move = next(move for move in moves.moves_from(cut, WHOLE) if move.end <= end)
        found.append(move)
        cut = move.end
    return tuple(found)


def streamed(model, *seeds):
    """Random plans, in turn with the input by row and resident."""
    one_input = len(model.network.inputs) == 1
    return [
        (model, random_plan(model.network, seed, is_streamed=one_input and seed % 2 == 1))
        for seed in seeds
    ]


def cases():
    models = [
        activations(),
        elementwise(),
        joined(),
        recurrences(),
        choices(),
        side_by_side(CONVOLUTIONS),
        side_by_side(OTHERS),
        side_by_side(FLAT, (5, 12)),
        blocks((8, 6, 4), op.SpaceToDepth(block=2), op.DepthToSpace(block=2),
               op.DepthToSpace(block=2, order="channel first"),
               op.SpaceToDepth(block=2, order="darknet")),
    ]  # fmt: skip
    found = [case for number, model in enumerate(models) for case in streamed(model, number)]
    found += streamed(fused(), 1, 2, 3)
    for operators in SUMS:
        model = summing(*operators)
        plans = [with_mode(model, *way) for way in WAYS]
        found += [(model, plan) for plan in plans if plan is not None]
    return found


@needs_compiler
def test_every_operator_gives_what_the_whole_network_gives(tmp_path):
    assert run_all(libraries(cases()), tmp_path) == []


def test_sums_and_channels_are_among_the_plans():
    found = [[with_mode(summing(*operators), *way) for operators in SUMS] for way in WAYS]
    counts = [sum(plan is not None for plan in plans) for plans in found]
    assert counts == [len(SUMS), 7, 7]  # no fully connected layer has a stage with a convolution


@pytest.mark.parametrize("way", WAYS)
def test_sums_and_channels_run_as_the_whole_network(way):
    ran = 0
    for operators in SUMS:
        model = summing(*operators)
        plan = with_mode(model, *way)
        if plan is not None:
            frame = random_frame(model.network, 0)
            wanted = run_layer_by_layer(model, frame)
            found = run_plan(model, plan, frame).outputs
            assert all(np.allclose(found[end], wanted[end], atol=1e-5) for end in wanted)
            ran += 1
    assert ran >= 7


def test_a_normalisation_over_channels_goes_not_a_few_channels_at_a_time():
    builder = NetworkBuilder("responses")
    last = builder.add(op.Convolution(filters=6, window=window()), builder.input((2, 6, 6)))
    last = builder.add(op.LocalResponseNormalization(size=3), last)
    last = builder.add(op.GlobalPooling(function="average"), last)
    model = simplified(finished(builder, [last]), ("fuse-activation",))
    assert any(layer.epilogue for layer in model.network.layers)
    assert [with_mode(model, *way) for way in WAYS if way[1] == 2] == [None, None]


@pytest.mark.parametrize("operator", [*CONVOLUTIONS, *OTHERS, *FLAT], ids=repr)
def test_each_operator_is_written(operator):
    dims = (5, 12) if operator in FLAT else MAP
    model = side_by_side([operator], dims)
    (made,) = libraries([(model, random_plan(model.network, 0, is_streamed=False))])
    assert "net0_run" in made.files["src/net0.c"]


def test_a_layer_without_a_kernel_is_refused_by_name():
    model = side_by_side([op.TensorProduct(terms=("abc",), result="cab")])
    plan = random_plan(model.network, 0, is_streamed=False)
    with pytest.raises(UnsupportedOperator, match="no C code"):
        library(model, plan)
