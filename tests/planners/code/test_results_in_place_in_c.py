"""Layers whose result lies over one of two inputs, as C."""

from dataclasses import replace

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from csdf.errors import InvalidPlan
from planners.plan.carried_out import require_carried_out
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import FLAGS, libraries, needs_compiler, run_all
from tests.planners.memory.plain import whole_plan


def over(make, function, operand, inputs=2):
    """A model, and its plan in which a function of convolutions lies over one of them."""
    builder = NetworkBuilder("over")
    source = builder.input((2, 4, 3))
    window = op.Window(kernel=(1, 1))
    names = [builder.add(op.Convolution(filters=2, window=window), source) for _ in range(inputs)]
    result = builder.add(op.Elementwise(function=function), *names)
    builder.output(result)
    model = make(builder.network())
    plan = whole_plan(model.network)
    size = plan.buffers[0].size
    places = {"input": 0, **{name: size * (n + 1) for n, name in enumerate(names)}}
    places[result] = places[names[operand]]
    buffers = tuple(
        replace(one, offset=places[one.tensor]) if one.size else one for one in plan.buffers
    )
    return model, replace(plan, buffers=buffers, arena_bytes=size * (inputs + 1))


@needs_compiler
def test_a_result_over_either_of_two_inputs_is_that_of_the_network(tmp_path):
    # The C code of real numbers once copied the first input to the result, and lost the second.
    cases = [over(real_model, "subtract", operand) for operand in range(2)]
    cases += [over(integer_model, "add", operand) for operand in range(2)]
    for model, plan in cases:
        require_carried_out(model.network, plan)
    assert run_all(libraries(cases), tmp_path, FLAGS) == []


@pytest.mark.parametrize("operand", range(3))
def test_a_result_over_the_third_input_is_refused(operand):
    # C combines the first two, then the third with what they gave.
    model, plan = over(real_model, "maximum", operand, inputs=3)
    if operand < 2:
        require_carried_out(model.network, plan)
        return
    with pytest.raises(InvalidPlan, match="of 'convolution 3'"):
        require_carried_out(model.network, plan)
