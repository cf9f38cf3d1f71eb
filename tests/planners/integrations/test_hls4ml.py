"""The pass inside hls4ml: less in the streams, and the same predictions of the compiled project."""

import re
import shutil

import numpy as np
import pytest

NEEDED = "needs hls4ml and torch (pip install hls4ml torch)"
hls4ml = pytest.importorskip("hls4ml", reason=NEEDED)
torch = pytest.importorskip("torch", reason=NEEDED)

from csdf.errors import UnreadableFile  # noqa: E402
from csdf.status import Status  # noqa: E402
from planners.fifo.event_graph import EventGraph  # noqa: E402
from planners.fifo.hls4ml_project import project_design, read_source  # noqa: E402
from planners.fifo.study import max_rate, period_of  # noqa: E402
from planners.fifo.timing.cluster import TimingOptions  # noqa: E402
from planners.integrations.hls4ml import register  # noqa: E402

pytestmark = pytest.mark.slow


class Residual(torch.nn.Module):
    """A fork, a convolution on one side, and a sum."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(2, 3, 3, padding=1)
        self.second = torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return torch.relu(self.second(x) + x)


def converted(folder, flows, io_type="io_stream"):
    torch.manual_seed(0)
    net = Residual().eval()
    config = hls4ml.utils.config_from_pytorch_model(
        net, (2, 6, 6), granularity="name", backend="Vitis", default_reuse_factor=1,
        channels_last_conversion="full", transpose_outputs=False,
    )  # fmt: skip
    config["Flows"] = flows
    return hls4ml.converters.convert_from_pytorch_model(
        net, output_dir=str(folder), io_type=io_type, backend="Vitis", hls_config=config
    )


def depths_in(folder):
    (text,) = (one.read_text() for one in folder.glob("firmware/myproject.cpp"))
    return {name: int(depth) for name, depth in re.findall(r"variable=(\w+) depth=(\d+)", text)}


def test_a_project_with_the_pass_has_less_in_its_streams_and_keeps_the_rate(tmp_path):
    usual, ours = converted(tmp_path / "usual", []), converted(tmp_path / "ours", [register()])
    usual.write()
    ours.write()
    before, after = depths_in(tmp_path / "usual"), depths_in(tmp_path / "ours")
    assert before.keys() == after.keys()
    assert all(after[name] <= before[name] for name in before)
    assert sum(after.values()) < sum(before.values()) / 4
    design = project_design(read_source(str(tmp_path / "ours")), TimingOptions())
    graph = EventGraph(design)
    assert period_of(graph, [fifo.given for fifo in design.fifos]).period == max_rate(graph)[0]
    found = hls4ml.model.optimizer.get_optimizer(register()).study
    assert found.sizing.status is Status.OPTIMAL
    assert dict(found.design.named(found.sizing.depths)) == after


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_a_compiled_project_with_the_pass_predicts_the_same(tmp_path):
    frames = np.random.default_rng(0).random((4, 6, 6, 2)).astype(np.float32)
    found = []
    for name, flows in (("usual", []), ("ours", [register()])):
        model = converted(tmp_path / name, flows)
        model.compile()
        found.append(model.predict(frames))
    assert found[0].any()
    assert np.array_equal(*found)


def test_a_model_without_streams_is_refused(tmp_path):
    with pytest.raises(UnreadableFile, match="io_type='io_stream'"):
        converted(tmp_path / "prj", [register()], io_type="io_parallel")
