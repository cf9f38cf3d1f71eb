"""Problems, and costs of selections, on a network small enough to do by hand."""

from dataclasses import replace

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from csdf.errors import InvalidPlan
from planners.primitives.profile import CHW, HWC, LAYER, LayerProfile, Profile, TransformProfile
from planners.primitives.selection.problem import (
    Objective,
    Selection,
    alive_map_bytes,
    selection_problem,
)
from tests.planners.primitives.selection.synthetic import MACHINE


def network():
    """A map of 2x3x3, two convolutions that read it, and their sum."""
    builder = NetworkBuilder("fork")
    maps = builder.input((2, 3, 3))
    window = op.Window(kernel=(1, 1))
    left = builder.add(op.Convolution(filters=4, window=window), maps, name="left")
    right = builder.add(op.Convolution(filters=4, window=window), maps, name="right")
    builder.output(builder.add(op.Elementwise(function="add"), left, right, name="sum"))
    return builder.network()


def entry(layer, primitive, source, target, nanoseconds, workspace=0, weights=0):
    return LayerProfile(
        layer=layer,
        primitive=primitive,
        input_layout=source,
        output_layout=target,
        nanoseconds=nanoseconds,
        spread_nanoseconds=0,
        workspace_bytes=workspace,
        parameter_bytes=weights,
    )


def transform(producer, consumer, index, source, nanoseconds, workspace=0):
    return TransformProfile(
        producer=producer,
        consumer=consumer,
        index=index,
        source_layout=source,
        target_layout=HWC if source == CHW else CHW,
        nanoseconds=nanoseconds,
        spread_nanoseconds=0,
        workspace_bytes=workspace,
    )


def profile():
    return Profile(
        network="fork",
        machine=MACHINE,
        layers=(
            entry("input", LAYER, CHW, CHW, 0),
            entry("left", "a", CHW, CHW, 100, workspace=7, weights=40),
            entry("left", "b", HWC, HWC, 10, workspace=90, weights=50),
            entry("right", "a", CHW, CHW, 100, workspace=7, weights=40),
            entry("right", "b", HWC, HWC, 10, workspace=90, weights=50),
            entry("sum", LAYER, CHW, CHW, 3),
            entry("sum", LAYER, HWC, HWC, 2),
            entry("output", LAYER, CHW, CHW, 0),
        ),
        transforms=tuple(
            transform(*ends, source, time, workspace=11)
            for ends in (
                ("input", "left", 0),
                ("input", "right", 0),
                ("left", "sum", 0),
                ("right", "sum", 1),
                ("sum", "output", 0),
            )
            for source, time in ((CHW, 5), (HWC, 6))
        ),
    )


def chosen(*places):
    problem = selection_problem(network(), profile())
    candidates = (found[place] for found, place in zip(problem.candidates, places, strict=True))
    return Selection(problem=problem, chosen=tuple(candidates))


def test_a_map_is_changed_once_for_each_consumer_that_wants_it():
    both = chosen(0, 1, 1, 1, 0)  # both convolutions and the sum in HWC, between input and output
    # 10 + 10 + 2 of layers, 5 for each convolution's input, 6 for the output's.
    assert both.nanoseconds == 38
    assert both.changing_nanoseconds == 16
    assert [change.consumer for _, change in both.changes] == ["left", "right", "output"]
    # Maps of 2x3x3 elements of 4 bytes, twice, and one of 4x3x3.
    assert both.transformed_tensor_bytes == 72 + 72 + 144


def test_memory_of_the_network_is_the_sum_and_a_workspace_is_the_largest():
    both = chosen(0, 1, 1, 1, 0)
    # Workspaces 90 + 90 and 3 * 11, weights 50 + 50, transformed tensors 288.
    assert both.memory(Objective.NETWORK) == 601
    assert both.memory(Objective.WORKSPACE) == 90
    # No changes: workspaces 7 + 7, weights 40 + 40.
    plain = chosen(0, 0, 0, 0, 0)
    assert (plain.nanoseconds, plain.memory(Objective.NETWORK)) == (203, 94)
    assert plain.memory(Objective.WORKSPACE) == 7


def test_memory_is_the_largest_sum_of_live_maps():
    # While right runs: the input (18 elements), left (36) and right (36) itself; while the sum
    # does: left, right and the sum, 36 each.
    assert alive_map_bytes(network()) == 108 * 4


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda one: replace(one, layers=one.layers[1:]), "layer 'input' has no entry"),
        (
            lambda one: replace(one, layers=(*one.layers, entry("other", "a", CHW, CHW, 1))),
            "has a layer 'other', which network 'fork' has not",
        ),
        (
            lambda one: replace(one, transforms=one.transforms[1:]),
            "input 0 of 'left', from 'input': no entry for CHW to HWC",
        ),
        (
            lambda one: replace(
                one, transforms=(*one.transforms, transform("left", "output", 0, CHW, 1))
            ),
            "from 'left' to input 0 of 'output', which network 'fork' has not",
        ),
        (
            lambda one: replace(one, layers=(*one.layers, entry("sum", "x", CHW, CHW, 2**53))),
            "add up to 2\\^53 or more",
        ),
    ],
)
def test_a_profile_of_something_else_is_refused(change, complaint):
    with pytest.raises(InvalidPlan, match=complaint):
        selection_problem(network(), change(profile()))
