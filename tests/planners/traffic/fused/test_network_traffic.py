"""Whole networks: stages, groups, bounds; the best cut against all cuts."""

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.embedded import resnet8
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.dtypes import Element, Stored
from cnn2csdf.simplify import REWRITES, simplified
from cnn2csdf.weights import Model
from csdf.errors import GaveUp, InvalidPlan
from csdf.status import Status
from csdf.time_limit import Stop
from planners.traffic.fused.accounting import CutTables, minimum_working_bytes
from planners.traffic.fused.search import GroupSearch
from planners.traffic.fused.stages import groups_of, stages_of
from planners.traffic.network_traffic import NetworkSearch, stage_alone
from tests.reference.fused_schedule_run import run_schedule


def window(kernel, stride=1):
    halo = kernel // 2
    return op.Window(kernel=(kernel, kernel), stride=(stride, stride), padding=(halo,) * 4)


def convolution(filters, kernel=3, stride=1, groups=1):
    return op.Convolution(filters=filters, window=window(kernel, stride), groups=groups)


def chain(*operators, dims=(3, 8, 8)):
    builder = NetworkBuilder("chain")
    source = builder.input(dims)
    for operator in operators:
        source = builder.add(operator, source)
    builder.output(source)
    return builder.network()


def residual_block():
    """x -> a -> b, plus x; then c, which alone reads the sum."""
    builder = NetworkBuilder("block")
    frame = builder.input((4, 6, 6))
    x = builder.add(convolution(4), frame, name="x")
    a = builder.add(convolution(4), x, name="a")
    b = builder.add(convolution(4), a, name="b")
    total = builder.add(op.Elementwise(function="add"), b, x, name="sum")
    builder.output(builder.add(convolution(2, 1), total, name="c"))
    return builder.network()


def projected_block():
    """A residual block of half the size: p of 1x1 and a, b of 3x3 read x; then c reads the sum."""
    builder = NetworkBuilder("projected")
    x = builder.input((4, 6, 6))
    p = builder.add(convolution(3, 1, 2), x, name="p")
    a = builder.add(convolution(3, 3, 2), x, name="a")
    b = builder.add(convolution(3), a, name="b")
    total = builder.add(op.Elementwise(function="add"), b, p, name="sum")
    builder.output(builder.add(convolution(2, 1), total, name="c"))
    return builder.network()


def fire_module(reader=None):
    """A squeezing layer s, from which two layers expand that are joined; then c, or a reader."""
    builder = NetworkBuilder("fire")
    s = builder.add(convolution(2, 1), builder.input((4, 5, 5)), name="s")
    one = builder.add(convolution(3, 1), s, name="one")
    three = builder.add(convolution(5), s, name="three")
    joined = builder.add(op.Concatenation(), one, three, name="joined")
    if reader is not None:
        joined = builder.add(reader, joined, name="reader")
    builder.output(builder.add(convolution(2, 1), joined, name="c"))
    return builder.network()


@st.composite
def branched(draw):
    """Networks of up to six windows on 6x6 places, joined by additions and concatenations."""
    builder = NetworkBuilder("branched")
    tensors = [(builder.input((draw(st.integers(1, 3)), 6, 6)), 0)]
    for number in range(draw(st.integers(3, 6))):
        source = draw(st.sampled_from([name for name, _ in tensors[-3:]]))
        filters = draw(st.sampled_from((2, 2, 3)))
        made = builder.add(convolution(filters, draw(st.sampled_from((1, 3)))), source)
        alike = [name for name, maps in tensors if maps == filters]
        how = draw(st.sampled_from(("alone", "added", "joined")))
        if how == "added" and alike:
            made = builder.add(op.Elementwise(function="add"), made, draw(st.sampled_from(alike)))
        tensors.append((made, filters))
        if how == "joined" and number:
            one, other = draw(st.permutations(tensors[1:]))[:2]
            joined = builder.add(op.Concatenation(), one[0], other[0])
            tensors.append((joined, one[1] + other[1]))
    for name in [name for name, _ in tensors[1:]]:
        builder.output(name)
    return builder.network()


@st.composite
def chains(draw):
    kinds = {
        "conv": lambda: convolution(draw(st.integers(1, 6)), draw(st.sampled_from((1, 3)))),
        "half": lambda: convolution(draw(st.integers(1, 6)), 3, 2),
        "pool": lambda: op.Pooling(function="max", window=window(3, 2)),
        "relu": lambda: op.Activation(function="relu"),
    }
    names = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=2, max_size=5))
    return chain(*(kinds[name]() for name in names))


def every_cut(stages, buffer, longest):
    """Total bytes of all ways to cut a run of stages into groups, each at its best."""
    for ends in product((False, True), repeat=len(stages) - 1):
        cuts = [0, *(place + 1 for place, is_cut in enumerate(ends) if is_cut), len(stages)]
        total = 0
        for first, end in pairwise(cuts):
            if end - first == 1:
                total += stage_alone(stages[first], buffer).total_bytes
                continue
            found = [GroupSearch(group).best(buffer) for group in groups_of(stages, first, end)]
            fitting = [one.total for one in found if one is not None]
            if not fitting or (longest is not None and end - first > longest):
                break
            total += min(fitting)
        else:
            yield total


@pytest.mark.slow
@given(chains(), st.integers(150, 900), st.sampled_from((1, 2, None)))
@settings(max_examples=40, deadline=None)
def test_no_cut_into_groups_moves_less(network, buffer, longest):
    found = NetworkSearch(network, 1).best(buffer, longest)
    stages = stages_of(network)
    assert found.total_bytes == min(every_cut(stages, buffer, longest))
    assert found.total_bytes >= found.bound_bytes
    assert found.status == Status.OPTIMAL


@pytest.mark.slow
@given(branched(), st.integers(150, 900), st.sampled_from((1, 2, None)))
@settings(max_examples=30, deadline=None)
def test_no_cut_of_branches_into_groups_moves_less_and_all_run(network, buffer, longest):
    found = NetworkSearch(network, 1).best(buffer, longest)
    stages = stages_of(network)
    assert found.total_bytes == min(every_cut(stages, buffer, longest))
    assert found.total_bytes >= found.bound_bytes
    for one in found.groups:
        if one.fused is not None:
            run = run_schedule(one.fused.schedule, buffer)
            moved = run.input, run.weights, run.output, run.halo_written, run.halo_read
            assert moved == tuple(one.fused.moved)


@pytest.mark.slow
@pytest.mark.parametrize("buffer", [2**12, 2**14, 2**16, 2**18])
def test_fusing_more_never_moves_more_and_nothing_passes_the_bound(buffer):
    network = simplified(Model(network=resnet8()), tuple(REWRITES)).network
    search = NetworkSearch(network, 1)
    alone, pairs, chained = (search.best(buffer, longest) for longest in (1, 2, None))
    assert alone.total_bytes >= pairs.total_bytes >= chained.total_bytes >= chained.bound_bytes
    assert all(one.held_bytes <= buffer for one in chained.groups)
    names = [name for one in chained.groups for stage in one.stages for name in stage.layers]
    assert len(names) == len(set(names))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "buffer"),
    [
        ("resnet8", 2**14),
        ("resnet8", 2**15),
        ("keyword_spotting", 2**15),
        ("keyword_spotting", 2**13),
        ("squeezenet1_1:resolution=64", 2**17),
    ],
)
def test_the_groups_of_a_network_run_as_planned(name, buffer):
    network = simplified(Model(network=from_catalogue(name)), tuple(REWRITES)).network
    groups = [
        one.fused for one in NetworkSearch(network, 1).best(buffer).groups if one.fused is not None
    ]
    assert groups
    for one in groups:
        run = run_schedule(one.schedule, buffer)
        moved = run.input, run.weights, run.output, run.halo_written, run.halo_read
        assert moved == tuple(one.moved)


def test_an_addition_works_on_the_output_of_the_layer_before_it():
    stages = stages_of(residual_block())
    assert [stage.layers for stage in stages] == [("x",), ("a",), ("b", "sum"), ("c",)]
    assert stages[2].operands == ("x",)
    assert stages[0].readers == (1, 2)


def test_a_map_that_is_added_later_waits_in_the_buffer_or_is_written():
    stages = stages_of(residual_block())
    (together,) = groups_of(stages, 0, 3)  # x, a, b and the sum: x is map 1
    assert together.skips == ((1, 3),)
    assert together.written == frozenset()
    (first_two,) = groups_of(stages, 0, 2)  # the sum is outside, so x goes to DRAM as well
    assert first_two.written == frozenset({1})
    read_again, waits = groups_of(stages, 1, 3)  # x is the input
    assert (read_again.skips, read_again.layers[-1].dram_operands) == ((), 1)
    assert (waits.skips, waits.layers[-1].dram_operands) == (((0, 2),), 0)


def test_in_one_group_a_residual_block_moves_its_ends_and_weights_only():
    found = NetworkSearch(residual_block(), 1).best(10_000)
    # Frame 4*36, result 2*36, three kernels of 4*4*9 and one of 2*4; x never leaves the buffer.
    assert found.total_bytes == found.bound_bytes == 144 + 72 + 3 * 144 + 8
    assert len(found.groups) == 1


def test_layer_by_layer_a_residual_block_reads_the_shortcut_once_more():
    found = NetworkSearch(residual_block(), 1).best(10_000, 1)
    # x: 144 in, 144 out; a: the same; b and sum: two in, one out; c: 144 in, 72 out; weights 440.
    assert found.total_bytes == 2 * 144 + 2 * 144 + 3 * 144 + 144 + 72 + 440


def test_pools_and_activations_take_part_in_groups():
    network = chain(
        convolution(4),
        op.Activation(function="relu"),
        op.Pooling(function="max", window=window(2, 2)),
    )
    found = NetworkSearch(network, 1).best(1000)
    assert [stage.layers for stage in found.groups[0].stages] == [
        ("convolution", "activation"),
        ("pooling",),
    ]
    assert found.total_bytes == found.bound_bytes


def test_concatenations_cause_no_traffic():
    builder = NetworkBuilder("branches")
    frame = builder.input((2, 5, 5))
    left = builder.add(convolution(3, 1), frame, name="left")
    right = builder.add(convolution(2, 1), frame, name="right")
    joined = builder.add(op.Concatenation(), left, right)
    builder.output(builder.add(convolution(1, 1), joined, name="last"))
    search = NetworkSearch(builder.network(), 1)
    # Both branches read the frame, 50; they write 75 and 50, which the last layer reads; it writes
    # 25; kernels of 6, 4 and 5. In one group nothing is between them.
    assert search.best(1000, 1).total_bytes == 2 * 50 + 2 * 125 + 25 + 15
    found = search.best(1000)
    assert found.total_bytes == found.bound_bytes == 50 + 25 + 15


def test_a_projection_runs_beside_the_layers_it_is_added_to():
    stages = stages_of(projected_block())
    assert [stage.layers for stage in stages] == [("p",), ("a",), ("b", "sum"), ("c",)]
    (block,) = groups_of(stages, 0, 3)  # p is map 1, a is map 2, and p is added to b
    assert (block.sources, block.skips) == (((0,), (0,), (2,)), ((1, 3),))
    siblings, *others = groups_of(stages, 0, 2)  # both read the input, and both go out
    assert (siblings.ends, others) == ((1, 2), [])
    found = NetworkSearch(projected_block(), 1).best(10_000)
    # Frame 4*36, result 2*9; kernels of 4*3, 4*3*9, 3*3*9 and 3*2.
    assert found.total_bytes == found.bound_bytes == 144 + 18 + 12 + 108 + 81 + 6
    # Alone: p reads 9 places of 4 maps, a the frame; each writes 27; b reads both and writes 27,
    # which c reads.
    alone = NetworkSearch(projected_block(), 1).best(10_000, 1)
    assert alone.total_bytes == 36 + 144 + 2 * 27 + 2 * 27 + 2 * 27 + 18 + 207


def test_branches_that_are_joined_are_read_side_by_side():
    stages = stages_of(fire_module())
    names = [stage.name for stage in stages]
    (fire,) = groups_of(stages, 0, 4)
    both = tuple(names.index(name) + 1 for name in ("one", "three"))
    assert fire.sources == ((0,), (1,), (1,), both)
    (without_reader,) = groups_of(stages, 0, 3)
    assert (without_reader.ends, without_reader.written) == ((2, 3), frozenset())
    found = NetworkSearch(fire_module(), 1).best(10_000)
    # Frame 100, result 50; kernels of 4*2, 2*3, 2*5*9 and 8*2.
    assert found.total_bytes == found.bound_bytes == 100 + 50 + 8 + 6 + 90 + 16


def test_a_view_read_by_another_kind_of_layer_goes_to_dram():
    found = NetworkSearch(fire_module(op.Softmax(axis=0)), 1).best(10_000)
    # Joined are 8 maps of 25 places: written, read, written, and read by the last layer.
    assert found.total_bytes == 100 + 50 + 8 + 6 + 90 + 16 + 4 * 200


def test_a_result_that_shows_another_is_bounded_once():
    builder = NetworkBuilder("shown")
    frame = builder.input((2, 5, 5))
    left = builder.add(convolution(3, 1), frame, name="left")
    right = builder.add(convolution(2, 1), frame, name="right")
    builder.output(builder.add(op.Concatenation(), left, right))
    builder.output(left)
    found = NetworkSearch(builder.network(), 1).best(1000)
    # Frame 50, maps of 75 and 50, each in its place of what is joined; kernels of 6 and 4.
    assert found.total_bytes == found.bound_bytes == 50 + 75 + 50 + 6 + 4


def test_no_group_adds_a_view_of_its_own_result():
    builder = NetworkBuilder("view")
    frame = builder.input((2, 5, 5))
    left = builder.add(convolution(1, 1), frame, name="left")
    right = builder.add(convolution(1, 1), frame, name="right")
    joined = builder.add(op.Concatenation(), left, right, name="joined")
    wide = builder.add(convolution(2, 3), left, name="wide")
    builder.output(builder.add(op.Elementwise(function="add"), wide, joined, name="sum"))
    stages = stages_of(builder.network())
    assert stages[-1].viewed_operands == ("left", "right")
    assert not list(groups_of(stages, 0, 3))
    assert not list(groups_of(stages, 1, 3))


def test_rows_skipped_by_a_later_stride_are_not_in_the_bound():
    # Every other row and column of the first layer's output is read, so a quarter of the frame.
    network = chain(convolution(2, 1), convolution(2, 1, 2), dims=(2, 6, 6))
    found = NetworkSearch(network, 1).best(1000)
    assert found.total_bytes == found.bound_bytes == 2 * 9 + 4 + 4 + 2 * 9


def test_fully_connected_and_global_layers_are_windows_over_all():
    network = chain(
        convolution(4), op.GlobalPooling(function="average"), op.FullyConnected(units=3)
    )
    found = NetworkSearch(network, 1).best(2000)
    assert len(found.groups) == 1
    assert found.total_bytes == 3 * 64 + 4 * 27 + 4 * 3 + 3


def test_a_search_that_ends_early_still_answers():
    def ended(_):
        raise GaveUp("the budget is used up")

    found = NetworkSearch(residual_block(), 1).best(10_000, None, Stop(report=ended))
    assert found.status == Status.FEASIBLE
    assert str(found.reason) == "the budget is used up"
    assert all(len(one.stages) == 1 for one in found.groups)


@pytest.mark.parametrize("pressed", [1, 2])
def test_ctrl_c_before_the_first_answer_leaves_each_layer_on_its_own(monkeypatch, pressed):
    search = NetworkSearch(residual_block(), 1)
    simplest = search.best(10_000, None, Stop(steps=0))
    alone, calls = search._alone, []

    def interrupted(*given):
        calls.append(given)
        if 2 <= len(calls) < 2 + pressed:
            raise KeyboardInterrupt
        return alone(*given)

    monkeypatch.setattr(search, "_alone", interrupted)
    if pressed == 2:  # who presses it twice wants no answer
        with pytest.raises(KeyboardInterrupt):
            search.best(10_000)
        return
    found = search.best(10_000)
    assert (found.status, str(found.reason)) == (Status.FEASIBLE, "interrupted")
    assert found.total_bytes == simplest.total_bytes


def test_the_budget_is_looked_at_inside_the_search_of_a_group():
    calls = []
    network = chain(convolution(4), convolution(4), dims=(3, 6, 6))
    NetworkSearch(network, 1).best(
        300, None, Stop(report=lambda progress: calls.append(progress.done))
    )
    # Two layers are one group, whose 6x6 places are cut in many ways; one layer is done before.
    assert len(calls) > 6
    assert set(calls) == {1}


@given(branched())
@settings(max_examples=40, deadline=None)
def test_a_group_with_more_stages_in_front_needs_no_less(network):
    stages = stages_of(network)
    for end in range(2, len(stages) + 1):
        needed = [
            min(minimum_working_bytes((6, 6), CutTables(group)) for group in groups)
            for first in range(end - 2, -1, -1)
            if (groups := list(groups_of(stages, first, end)))
        ]
        assert needed == sorted(needed)


def test_a_buffer_that_is_too_small_names_the_layer():
    network = chain(op.Pooling(function="max", window=window(3)))
    with pytest.raises(InvalidPlan, match="layer 'pooling' holds"):
        NetworkSearch(network, 4).best(16)
    with pytest.raises(InvalidPlan, match="layer 'convolution'"):
        NetworkSearch(chain(convolution(2)), 4).best(8)


def quantised_chain():
    """A frame in single precision, a convolution of int8, and its result in single precision."""
    builder = NetworkBuilder("quantised")
    frame = builder.input((4, 6, 6))
    whole = builder.add(op.Conversion(), frame, name="quantise")
    made = builder.add(convolution(4), whole, name="convolution")
    builder.output(builder.add(op.Conversion(), made, name="result"))
    network, stored = builder.network(), (Stored(role="kernel", element=Element.INT8),)
    changed = {
        "quantise": {"element": Element.INT8},
        "convolution": {"element": Element.INT8, "stored": stored},
    }
    layers = (replace(layer, **changed.get(layer.name, {})) for layer in network.layers)
    return replace(network, layers=tuple(layers))


def test_each_tensor_counts_with_its_own_elements():
    search = NetworkSearch(quantised_chain(), None)
    # 144 elements of four bytes in and out, and 4 x 4 x 3 x 3 weights of one byte; between them
    # 144 bytes that are written and read where the layers run one by one.
    together = search.best(10_000)
    assert together.total_bytes == together.bound_bytes == 576 + 144 + 576
    assert (together.element_bytes, together.element_sizes) == (None, (1, 4))
    alone = search.best(10_000, 1)
    found = [(one.input_bytes, one.weight_bytes, one.output_bytes) for one in alone.groups]
    assert found == [(576, 0, 144), (144, 144, 576)]
    # With elements of four bytes everywhere the weights and what lies between are four times that.
    assert NetworkSearch(quantised_chain(), 4).best(10_000).total_bytes == 3 * 576


def test_a_fused_group_of_mixed_elements_runs_in_its_bytes():
    for buffer in (250, 400, 700):
        for one in NetworkSearch(quantised_chain(), None).best(buffer).groups:
            if one.fused is not None:
                run = run_schedule(one.fused.schedule, buffer)
                assert run.peak == one.held_bytes <= buffer
                assert run.input + run.weights + run.output <= one.total_bytes


def test_a_final_dequantisation_does_not_hide_the_inputs_of_a_network():
    # A conversion to single precision is the last layer: frames and weights are read all the same.
    found = NetworkSearch(quantised_chain(), 1).best(10_000)
    assert found.bound_bytes == 144 + 144 + 144
