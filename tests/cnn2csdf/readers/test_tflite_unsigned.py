"""TensorFlow Lite files of uint8, as converters of TensorFlow 1 write them.

litert_outputs.json holds checksums of what the reference kernels of ai-edge-litert 2 gave
(OpResolverType.BUILTIN_REF) for files of tflite_cases with these seeds.
"""

import json
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.granularity import ROWS
from cnn2csdf.lowering import lower
from cnn2csdf.readers.tflite.reader import parse_tflite
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.readers.test_tflite_operators import frames_of, ours, theirs
from tests.cnn2csdf.readers.tflite_cases import UNSIGNED, case

RECORDED = json.loads((Path(__file__).parent / "litert_outputs.json").read_text())
SEEDS = range(4)


def model_of(kind, seed):
    return parse_tflite(case(kind, "uint8", seed), "one.tflite", with_weights=True)


@pytest.mark.parametrize("kind", UNSIGNED)
def test_an_operator_of_uint8_gives_the_recorded_outputs(kind):
    checksums = []
    for seed in SEEDS:
        model = model_of(kind, seed)
        outputs = run_layer_by_layer(model, ours(model.network, frames_of(model.network, seed)))
        checksums.append(crc32(b"".join(array.tobytes() for array in theirs(outputs))))
    assert checksums == RECORDED[kind]


@pytest.mark.parametrize("kind", ["CONV_2D", "AVERAGE_POOL_2D", "RESIZE_BILINEAR", "ADD"])
def test_an_operator_of_uint8_by_rows_gives_the_whole(kind):
    model = model_of(kind, 0)
    frame = ours(model.network, frames_of(model.network, 0))
    graph = lower(model.network, ROWS)
    bounded = with_capacities(graph, smallest_storage(graph).point.capacities)
    firings = self_timed_execution(bounded, iterations=1).firings
    (result,) = run_row_by_row(model, bounded, firings, [frame]).outputs
    for name, expected in run_layer_by_layer(model, frame).items():
        assert np.array_equal(result[name], expected)
