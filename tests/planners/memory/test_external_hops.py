"""Hops of windows whose new rows lie in memory of the caller."""

import pytest

from cnn2csdf.streams import as_stream
from planners.memory.fit import fit
from planners.memory.loaded_plan import fit_of
from tests.cnn2csdf.test_streams import keyword_spotter


@pytest.mark.parametrize("output", ["resident", "external"])
def test_a_hop_with_an_external_input_has_a_plan_that_fit_takes_back(output):
    network = as_stream(keyword_spotter(), 2).network
    found = fit(network, input="external", output=output)
    assert fit_of(network, found.best.plan).best.ram_bytes == found.best.ram_bytes
    # The bytes of the new rows are the caller's: no more than with a resident input.
    assert found.best.ram_bytes <= fit(network, output=output).best.ram_bytes
