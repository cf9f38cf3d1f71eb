"""A limit near the bytes of a plan: what fits is found however little room is left above it."""

import pytest

from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners.memory.fit import fit
from tests.shared_data import SHARED

MODEL = SHARED / "networks" / "tflite" / "person_detect_int8.tflite"


@pytest.mark.slow
@pytest.mark.skipif(not MODEL.exists(), reason=f"the model is not at {MODEL}")
def test_with_less_ram_no_plan_is_missed_that_more_ram_finds_and_that_fits():
    # Strips of 11,308 bytes were found within 12,000 bytes, and strips of 11,334 of the same count
    # within 11,310: the search keeps one of equal counts, and which one changed with the limit.
    network = simplified(read_model(MODEL)).network
    listed = [
        way
        for way in fit(network, ram=12_000).methods
        if way.name.startswith(("line buffers", "strips")) and way.ram_bytes <= 12_000
    ]
    assert len(listed) > 2
    for way in listed[1:]:
        found = fit(network, ram=way.ram_bytes).best
        assert found is not None
        assert found.mac_ratio <= way.mac_ratio
