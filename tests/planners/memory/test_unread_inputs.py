"""Inputs that no layer reads, as exporters leave them: they have bytes of their own, and no more."""

from dataclasses import replace

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from csdf.errors import InvalidPlan
from planners.memory.fit import fit
from planners.memory.plan_runs import run_plan
from planners.plan.carried_out import require_carried_out
from tests.planners.code.calibrated import real_model
from tests.planners.memory.streamed import random_frame
from tests.planners.memory.test_streamed_runs import require_equal

UNREAD = (2, 6, 6)


def with_unread(*, is_first, layers=3):
    """Convolutions of one input; another is not read."""
    builder = NetworkBuilder("unread")
    if is_first:
        builder.input(UNREAD, "unread")
    source = builder.input(UNREAD, "read")
    if not is_first:
        builder.input(UNREAD, "unread")
    for _ in range(layers):
        window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
        source = builder.add(op.Convolution(filters=2, window=window), source)
    builder.output(source)
    return builder.network()


@pytest.mark.parametrize(
    "ends", [("resident", "resident"), ("rows", "external"), ("external", "external")]
)
def test_all_ways_are_those_of_the_other_order_of_inputs(ends):
    answers = [
        fit(with_unread(is_first=first), element_bytes=4, input=ends[0], output=ends[1])
        for first in (True, False)
    ]
    first, other = ([(one.name, one.ram_bytes) for one in each.methods] for each in answers)
    assert first == other
    model = real_model(with_unread(is_first=True))
    frame = random_frame(model.network, 0)
    for way in answers[0].methods:
        assert way.ram_bytes >= answers[0].lower_bound
        run = run_plan(model, way.plan, frame)
        require_equal(run.outputs, run_layer_by_layer(model, frame))


def test_an_input_over_another_is_refused_though_no_layer_reads_it():
    network = with_unread(is_first=True)
    plan = fit(network, element_bytes=4).best.plan
    places = {one.tensor: one.offset for one in plan.buffers}
    over = tuple(
        replace(one, offset=places["read"]) if one.tensor == "unread" else one
        for one in plan.buffers
    )
    with pytest.raises(InvalidPlan, match=r"do not hold .* of .unread."):
        require_carried_out(network, replace(plan, buffers=over))


def test_external_inputs_of_parts_that_read_one_input_each_have_plans():
    # A group of layers that reads the second input only begins where the first one is known.
    builder = NetworkBuilder("apart")
    first, second = builder.input((2, 1, 1)), builder.input((2, 6, 5))
    padded = builder.add(op.Pad(padding=(1, 1, 1, 1)), first)
    builder.output(builder.add(op.Activation(function="relu"), padded))
    squares = builder.add(op.Elementwise(function="multiply"), second, second)
    total = builder.add(op.Elementwise(function="add"), second, squares)
    builder.output(total)
    window = op.Window(kernel=(3, 3))
    builder.output(builder.add(op.Convolution(filters=1, window=window), total))
    network = builder.network()
    found = fit(network, element_bytes=4, input="external")
    for method in found.methods:
        require_carried_out(network, method.plan)
