"""Small exported models of operators at the edges: read and run, or refused by name."""

import numpy as np
import pytest

from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.execution.streaming_executor import run_row_by_row
from cnn2csdf.lowering import lower
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.onnx_files.runtime import runtime_outputs
from cnn2csdf.onnx_files.writer import onnx_bytes
from cnn2csdf.simplify import simplified
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.self_timed import self_timed_execution
from csdf.errors import UnsupportedOperator
from csdf.search.trade_off import smallest_storage
from tests.cnn2csdf.onnx_models import saved
from tests.shared_data import SHARED

pytest.importorskip("onnxruntime")

FOLDER = SHARED / "networks" / "onnx-small"
REFUSED = {
    "conv3d": "works on 1 x channels x height x width only, found 1x1x8x16x16",
    "gridsample": "operator 'GridSample' of domain 'ai.onnx', opset 17, is not supported",
}
FILES = sorted(FOLDER.glob("*.onnx"))


def near(found, expected):
    for name, theirs in expected.items():
        size = np.abs(theirs).max()
        np.testing.assert_allclose(found[name], theirs, rtol=0, atol=2e-5 * size, err_msg=name)


@pytest.mark.skipif(not FILES, reason="the small models lie beside the project, not in it")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_whole_by_rows_and_written_again_it_gives_what_the_runtime_gives(path, tmp_path):
    if path.stem in REFUSED:
        with pytest.raises(UnsupportedOperator) as refusal:
            read_onnx(str(path))
        assert REFUSED[path.stem] in str(refusal.value)
        return
    model = simplified(read_onnx(str(path), with_weights=True))
    frames = random_frames(model.network, 1, 0)
    (expected,) = runtime_outputs(str(path), model.network, frames)
    near(run_layer_by_layer(model, frames[0]), expected)
    graph = lower(model.network)
    bounded = with_capacities(graph, smallest_storage(graph).point.capacities)
    firings = self_timed_execution(bounded, iterations=1).firings
    near(run_row_by_row(model, bounded, firings, frames).outputs[0], expected)
    again = saved(onnx_bytes(model), tmp_path)
    near(runtime_outputs(again, model.network, frames)[0], expected)
