"""Test vectors of scores that are almost zero."""

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.weights import Model
from planners.code.frames import tolerances


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize(("offset", "expected"), [(-41, 2**-23), (-14, 2**-23), (0, 0)])
def test_scores_that_are_almost_zero_may_differ_by_a_rounding(offset, expected, is_fused):
    sigmoid = op.Activation(function="sigmoid")
    builder = NetworkBuilder()
    add = op.Elementwise(function="add", constant=(1,))
    epilogue = (sigmoid,) if is_fused else ()
    name = builder.add(add, builder.input((4,)), name="sum", epilogue=epilogue)
    builder.output(name if is_fused else builder.add(sigmoid, name))
    weights = {"sum": {"constant": np.array([offset], np.float32)}}
    model = Model(network=builder.network(), weights=weights)
    frame = {"input": np.array([0, 1, -1, 0.5], np.float32)}
    outputs = run_layer_by_layer(model, frame)
    assert tolerances(model, frame, outputs) == {"output": expected}
