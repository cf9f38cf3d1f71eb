"""Extremes of two tensors and along axes, and sums along axes, of integers in fixed point as C."""

import pytest

from cnn2csdf.readers.tflite.reader import parse_tflite
from cnn2csdf.simplify import simplified
from planners.code.library import library
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.cnn2csdf.readers.test_tflite_operators import frames_of, ours
from tests.cnn2csdf.readers.tflite_cases import case
from tests.planners.code.compiling import needs_compiler, run_all

CASES = (
    *(("MAXIMUM", "int8"), ("MINIMUM", "int8"), ("REDUCE_MAX", "int8")),
    *(("SUM", "int8"), ("SUM", "int16"), ("MAXIMUM", "uint8"), ("REDUCE_MAX", "uint8")),
)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("streams", INPUTS)
def test_extremes_and_sums_of_integers_give_the_bytes_of_the_whole_network(streams, tmp_path):
    made = []
    for kind, dtype in CASES:
        for seed in range(3):
            content = case(kind, dtype, seed)
            model = simplified(parse_tflite(content, "one.tflite", with_weights=True))
            frames = [ours(model.network, frames_of(model.network, draw)) for draw in range(2)]
            plan = fit(model.network, input=streams, budget=1).least.plan
            made.append(library(model, plan, name=f"net{len(made)}", frames=frames))
    assert run_all(made, tmp_path) == []
