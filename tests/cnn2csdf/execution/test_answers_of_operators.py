"""Answers of operators, against the outputs that change when an input element does."""

import numpy as np
import pytest
from single_layers import SingleLayer

from cnn2csdf import operators as op

MAP = (4, 5, 6)
PERIOD = 7  # of the elements that are changed one by one: coprime to all sizes of MAP
LARGE = 50.0
WINDOW = op.Window(kernel=(3, 2), stride=(2, 1), padding=(1, 0, 1, 1))
CASES = [
    (op.Activation(function="tanh"), MAP),
    (op.Activation(function="prelu"), MAP),
    (op.BatchNormalization(), MAP),
    (op.LocalResponseNormalization(size=3), MAP),
    (op.Identity(), MAP),
    (op.Conversion(), MAP),
    (op.Elementwise(function="add"), MAP, MAP),
    (op.Elementwise(function="multiply", constant=(4, 1, 1)), MAP),
    (op.Elementwise(function="add", constant=(1,)), MAP),
    (op.Concatenation(axis=0), MAP, MAP),
    (op.Concatenation(axis=2), MAP, MAP),
    (op.Slice(axis=0, start=1, stop=3), MAP),
    (op.Slice(axis=2, start=1, stop=6, step=2), MAP),
    (op.ChannelShuffle(groups=2), MAP),
    (op.SpaceToDepth(block=1), MAP),
    (op.DepthToSpace(block=2), MAP),
    (op.Transpose(permutation=(0, 2, 1)), MAP),
    (op.Convolution(filters=3, window=WINDOW), MAP),
    (op.Convolution(filters=4, groups=4, window=WINDOW), MAP),
    (op.Convolution(filters=8, groups=4, window=WINDOW), MAP),
    (op.TransposedConvolution(filters=2, window=op.Window(kernel=(2, 2), stride=(2, 2))), MAP),
    (op.Pooling(function="average", window=WINDOW), MAP),
    (op.GlobalPooling(function="average"), MAP),
    (op.Reduction(function="mean", axes=(0,)), MAP),
    (op.Reduction(function="sum", axes=(1, 2)), MAP),
    (op.Softmax(axis=0), MAP),
    (op.LayerNormalization(axis=0, last=0), MAP),
    (op.InstanceNormalization(), MAP),
    (op.Pad(padding=(1, 0, 2, 1)), MAP),
    (op.Resize(size=(10, 12), function="nearest"), MAP),
    (op.Resize(size=(10, 18), function="nearest"), MAP),
    (op.FullyConnected(units=3), MAP),
    (op.AttentionProduct(gives="scores", heads=2), (4, 5, 1), (4, 6, 1)),
]


def changes(single, place):
    """Yield each changed index of an input, and the indices of the output that change with it."""
    before, tensor = single.whole().copy(), single.tensors[place]  # moves give views
    for number in range(0, tensor.size, PERIOD):
        index = np.unravel_index(number, tensor.shape)
        kept, tensor[index] = tensor[index], tensor[index] + LARGE
        yield index, np.argwhere(single.whole() != before)
        tensor[index] = kept


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].in_words())
def test_an_output_element_depends_on_what_the_operator_says(case):
    operator, *dims = case
    single = SingleLayer(operator, *dims)
    shapes, output = list(single.model.network.input_shapes(single.layer)), single.layer.shape
    for place, shape in enumerate(shapes):
        rows = operator.rows_needed(place, shapes, output)
        columns = operator.columns_needed(place, shapes, output) if operator.is_tileable else None
        for index, changed in changes(single, place):
            if operator.is_elementwise and shape == output:
                assert {tuple(each) for each in changed} <= {tuple(index)}
            if output.is_map and rows is not None:
                assert all(rows(row)[0] <= index[1] < rows(row)[1] for row in changed[:, 1])
            if columns is not None:
                assert all(columns(x)[0] <= index[2] < columns(x)[1] for x in changed[:, 2])
            if operator.keeps_columns and output.is_map:
                assert set(changed[:, 2]) <= {index[2]}
            if operator.is_channelwise:
                assert set(changed[:, 0]) <= {index[0]}
            if operator.reads_all(shape, output):
                assert len(changed)


SCALAR = [case for case in CASES if case[0].is_scalar_function]


@pytest.mark.parametrize("case", SCALAR, ids=lambda case: case[0].in_words())
def test_a_scalar_function_is_the_same_for_all_elements(case):
    operator, *dims = case
    single = SingleLayer(operator, *dims)
    before = single.whole().copy()
    single.tensors[0] = np.ascontiguousarray(single.tensors[0][::-1, ::-1, ::-1])
    assert np.array_equal(single.whole(), before[::-1, ::-1, ::-1])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].in_words())
def test_an_enlargement_repeats_rows_and_columns_and_does_nothing_else(case):
    operator, *dims = case
    single = SingleLayer(operator, *dims)
    factors = operator.enlargement(single.model.network.layer("input 0").shape)
    if factors is not None:
        repeated = single.tensors[0].repeat(factors[0], axis=1).repeat(factors[1], axis=2)
        assert np.array_equal(single.whole(), repeated)


def test_only_operators_that_say_so_can_do_anything():
    class Silent(op.Operator):
        def output_dims(self, inputs):
            return inputs[0].dims

    silent = Silent()
    facts = [name for name in dir(op.Operator) if name.startswith(("is_", "can_", "keeps_", "by_"))]
    assert len(facts) > 10
    assert [name for name in facts if getattr(silent, name)] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].in_words())
def test_moves_move_elements_as_their_answers_say(case):
    operator, *dims = case
    single = SingleLayer(operator, *dims)
    whole, (first, *_) = single.whole(), single.tensors
    if operator.keeps_order:
        assert whole.reshape(-1).tolist() == first.reshape(-1).tolist()
    if operator.rearranges_axes:
        assert sorted(whole.reshape(-1)) == sorted(first.reshape(-1))
    if operator.axis_order is not None:
        assert np.array_equal(whole, first.transpose(operator.axis_order))
    if operator.joined_axis is not None:
        assert np.array_equal(whole, np.concatenate(single.tensors, operator.joined_axis))
    if operator.sliced_range is not None:
        axis, start, stop, step = operator.sliced_range
        assert np.array_equal(
            whole, np.moveaxis(np.moveaxis(first, axis, 0)[start:stop:step], 0, axis)
        )


SWAPPED = [
    case for case in CASES if case[0].swaps_with_inputs and all(len(dims) == 3 for dims in case[1:])
]


@pytest.mark.parametrize("case", SWAPPED, ids=lambda case: case[0].in_words())
def test_swapped_axes_of_inputs_swap_the_axes_of_the_output(case):
    operator, *dims = case
    single = SingleLayer(operator, *dims)
    turned = SingleLayer(operator, *((rows, channels, width) for channels, rows, width in dims))
    turned.tensors[:] = [np.ascontiguousarray(array.swapaxes(0, 1)) for array in single.tensors]
    if not operator.trained(single.model.network.input_shapes(single.layer)):
        assert np.array_equal(turned.whole(), single.whole().swapaxes(0, 1))


def test_answers_of_a_convolution_agree_with_its_fields():
    window = op.Window(kernel=(3, 2), stride=(2, 1), padding=(1, 0, 1, 1))
    operator = op.Convolution(filters=8, window=window, groups=1)
    wider = op.Window(kernel=(3, 2), stride=(2, 1))
    assert operator.with_window(wider).sliding_window == wider
    assert operator.filter_bank == (8, 1, window, None)
    assert operator.of_head(0, 4).filters == 2  # a quarter of the filters
    assert operator.of_head(2, 4) is None  # columns of a window overlap
    depthwise = op.Convolution(filters=8, window=window, groups=8)
    assert depthwise.of_head(0, 4) is None  # each group reads channels of its own
