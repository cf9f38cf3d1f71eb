"""Hops of windows whose new rows lie in memory of the caller."""

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.streams import as_stream
from planners.memory.fit import fit
from planners.memory.loaded_plan import fit_of
from planners.plan.plan import Kind
from tests.cnn2csdf.test_streams import keyword_spotter


@pytest.mark.parametrize("output", ["resident", "external"])
def test_a_hop_with_an_external_input_has_a_plan_that_fit_takes_back(output):
    network = as_stream(keyword_spotter(), 2).network
    found = fit(network, input="external", output=output)
    assert fit_of(network, found.best.plan).best.ram_bytes == found.best.ram_bytes
    # The bytes of the new rows are the caller's: no more than with a resident input.
    assert found.best.ram_bytes <= fit(network, output=output).best.ram_bytes


@pytest.mark.parametrize(
    ("source", "external"),
    [("resident", {"y"}), ("rows", {"y"}), ("external", {"x", "z", "y"})],
)
def test_an_input_that_is_also_a_result_has_the_memory_of_inputs(source, external):
    builder = NetworkBuilder("passing")
    image, passed = builder.input((2, 6, 6), "x"), builder.input((2, 6, 6), "z")
    builder.output(builder.add(op.Activation(function="relu"), image, name="y"))
    builder.output(passed, "z of the next")
    found = fit(builder.network(), element_bytes=1, input=source, output="external")
    for method in found.methods:
        outside = {one.tensor for one in method.plan.buffers if one.kind is Kind.EXTERNAL}
        assert outside == external
