"""The readers, each as one function of a path, with the good files that mutants come from."""

import contextlib
import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.commands.cnn.chosen import durations_table
from cnn2csdf.durations import format_durations, platform_durations
from cnn2csdf.execution.compare import random_frames
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.granularity import Granularity
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.readers.model_files import read_model
from csdf.errors import ExecutionError, InvalidPlan
from csdf.io.fifo_depths import folding_config, parse_depths
from csdf.io.files import read_bytes
from csdf.io.graph_files import read_graph
from csdf.io.json_graph import graph_to_json
from csdf.parameters.graph import read_parametric_graph
from csdf.time_limit import Stop
from figures.published.reuse_example import worked_example
from planners.arena.command.main import read_problems
from planners.plan.carried_out import require_carried_out
from planners.plan.text import format_plans, plans_for
from planners.primitives.profile import read_profile
from planners.published.nsga2 import SearchLimits, Settings, evolve
from planners.reuse.application import read_application
from planners.reuse.deployment import streaming_plans
from planners.reuse.evaluation import Evaluator
from planners.reuse.executors import Checkpoint, Serial
from planners.reuse.problem import ReuseProblem
from tests.cnn2csdf.readers.darknet_texts import TINY
from tests.fuzz.mutations import json_mutant, mutant, word_mutant
from tests.fuzz.onnx_mutations import onnx_mutant
from tests.fuzz.onnx_seeds import onnx_seeds, quantised_seeds
from tests.planners.problems import format_problems
from tests.planners.reuse.deployment.deployed import by_offsets
from tests.shared_data import SHARED

MODELS = Path(__file__).parents[2] / "models"
GRAPHS = MODELS / "graphs"
DEPTHS_OF = "residual_block.csv"

Change = Callable[[bytes, bytes, Random], bytes]


class Reader(NamedTuple):
    """seeds: good contents; suffix: of the file that holds a mutant."""

    suffix: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[str, Random], Any]
    changes: Sequence[Change] = (mutant,)


def _files(*patterns):
    """The contents of these files of the checkout and beside it; small ones, for speed."""
    found = [
        path for pattern in patterns for root in (MODELS, SHARED) for path in root.glob(pattern)
    ]
    return [path.read_bytes() for path in sorted(found) if path.stat().st_size < 16_000]


def _graph(path, random):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_graph(
            path, assume_zero_times=random.random() < 0.2, buffer_sizes=random.random() < 0.3
        )


def _parametric(path, random):
    graph = read_parametric_graph(path, assume_zero_times=random.random() < 0.2)
    sample = graph.sample()  # first: no rate is zero whatever the parameters are
    import_module("csdf.parameters.consistency").symbolic_repetitions(graph)
    return sample


def _graph_texts():
    names = ("csdf_example", "modem", "h263encoder", "deadlocked")
    graphs = [read_graph(GRAPHS / f"{name}.xml") for name in names]
    return [graph_to_json(graph).encode() for graph in graphs] + [
        graph_to_json(read_graph(MODELS / "networks" / DEPTHS_OF)).encode()
    ]


NETWORK = {
    "name": "tiny",
    "_DNN__layers": [
        {"id": 0, "name": "first", "op": "conv", "subop": "conv", "fs": 3, "stride": 2,
         "pads": [1, 1, 1, 1], "ifm": 3, "ih": 8, "iw": 8, "ofm": 4, "oh": 4, "ow": 4,
         "fused_ops": ["relu", "batchnormalization"]},
        {"id": 1, "name": "second", "op": "pool", "subop": "maxpool", "fs": 2, "stride": 2,
         "pads": [0, 0, 0, 0], "ifm": 4, "ih": 4, "iw": 4, "ofm": 4, "oh": 2, "ow": 2,
         "fused_ops": []},
        {"id": 2, "name": "third", "op": "gemm", "subop": "gemm", "fs": 1, "stride": 1,
         "pads": [0, 0, 0, 0], "ifm": 16, "ih": 1, "iw": 1, "ofm": 10, "oh": 1, "ow": 1,
         "fused_ops": []},
    ],
    "_DNN__connections": [{"src": 0, "dst": 1}, {"src": 1, "dst": 2}],
}  # fmt: skip


def _networks():
    return [json.dumps(NETWORK).encode(), *_files("networks/json/*.json")]


def _model(path, random):
    return read_model(path, repair=random.random() < 0.5, with_weights=random.random() < 0.3)


def _tflite_seeds():
    """Imported here: the test needs flatbuffers, which others do not."""
    from tests.cnn2csdf.readers.tflite_models import small_network

    return [small_network(), *_files("networks/tflite/*.tflite")]


def _tflite_operators():
    """A file of each operator in integers."""
    from tests.cnn2csdf.readers.tflite_cases import NAMES, case

    return [case(kind, dtype, 0) for kind, dtype in NAMES]


def _ran_model(path, random):
    """Read the model; where it is small, run a frame as well."""
    model = read_model(path, with_weights=True)
    if random.random() < 0.2 and sum(layer.shape.elements for layer in model.network.layers) < 5000:
        with contextlib.suppress(ExecutionError), np.errstate(all="ignore"):
            run_layer_by_layer(model, random_frames(model.network, 1, 0)[0])
    return model


DARKNET = """[net]
width=32
height=32
channels=3
[convolutional]
batch_normalize=1
filters=8
size=3
stride=1
pad=1
groups=1
dilation=1
activation=leaky
[shortcut]
from=-1
activation=linear
[route]
layers=-1,-2
[upsample]
stride=2
[maxpool]
size=2
stride=2
padding=1
[reorg]
stride=2
[avgpool]
[dropout]
probability=.5
[connected]
output=10
activation=relu
[softmax]
groups=1
[yolo]
mask = 0,1,2
anchors = 10,14,  23,27,  37,58
classes=80
num=6
"""

APPLICATION = {
    "name": "glasses",
    "networks": [
        {"model": "samos_example", "name": "eyes", "outside": ["input", "output"]},
        {"model": "resnet8", "name": "r", "partitions": [{"name": "P1", "layers": ["input"]},
                                                        {"name": "P2"}], "simplify": True},
        {"model": "case.json", "repair": True},
    ],
    "parallel": [["P1", "P2"]],
}  # fmt: skip
YAML = b"""
name: glasses
networks:
  - model: mobilenet_v1:width=1/4,resolution=32
    name: eyes
    outside: [input, output]
    partitions:
      - {name: P1, layers: ["input"]}
      - {name: P2}
  - model: resnet8
parallel:
  - [P1, P2]
"""


def _applications():
    return [json.dumps(APPLICATION).encode(), b'{"networks": [{"model": "resnet8"}]}']


ARENA_CSV = (
    b"id,lower,upper,size,alignment,offset,hint\na,0,3,64,16,0,\nb,2,9,32,8,,64\nc,3,4,7,1,,\n"
)
ARENA_GLOW = b"""# a trace
MODEL a net
ALIGN 64
ALLOC 1 200
ALLOC 2 300   # comment
FREE 1
ALLOC 3 64
FREE 2
FREE 3
MEM 576
EFF 0.5
MODEL another
ALLOC x 5
FREE x
"""
ARENA_JSON = {
    "problems": [
        {
            "name": "net",
            "buffers": [
                {"id": "x", "size": 64, "start": 0, "end": 2, "bank": "fast"},
                {"id": "y", "size": 32, "start": 1, "end": 5, "alignment": 8, "offset": 64},
                {"id": "z", "size": 7, "start": 3, "end": 4, "hint": 0},
            ],
            "conflicts": [["x", "z"]],
            "may_overlap": [["x", "y"]],
            "in_place": [["y", "z"]],
            "banks": [{"name": "fast", "capacity": 100}, {"name": "slow", "capacity": 1000}],
        }
    ]
}


def _glow():
    return [ARENA_GLOW, *(content[:3000] for content in _files("alloc/glow/*.txt"))]


def _arena_json():
    made = [
        format_problems(read_problems(str(path))) for path in sorted(MODELS.glob("alloc/*.csv"))
    ]
    return [json.dumps(ARENA_JSON).encode(), *(text.encode() for text in made)]


def _problems(path, random):
    return read_problems(path)


def _depths(path, random):
    return parse_depths(read_bytes(path).decode("utf-8", "replace"), _BLOCK, path)


_BLOCK = read_graph(MODELS / "networks" / DEPTHS_OF)


def _depth_files():
    names = [channel.name for channel in _BLOCK.channels if not channel.is_self_loop]
    folding = folding_config(_BLOCK, dict.fromkeys(names, 3))
    return [folding.encode(), *_files("networks/*_depths.json")]


def _durations():
    network = from_catalogue("resnet8")
    times = platform_durations(network, Granularity(rows=8, layers={}), PLATFORMS["cortex-m7"])
    return [format_durations(times).encode(), b"layer,phase,nanoseconds\na,0,5\na,1,6\nb,0,7\n"]


def _plans():
    """Two networks in one arena, one of them a pipeline."""
    application = worked_example()
    evaluator = Evaluator(application)
    plan = by_offsets(evaluator, (None,) * len(application.layers))
    return [format_plans(streaming_plans(plan)).encode()]


def _checked_plans(path, random):
    networks = [member.network for member in worked_example().members]
    plans = plans_for(path, len(networks))
    try:
        for network, plan in zip(networks, plans, strict=True):
            require_carried_out(network, plan)
    except InvalidPlan as error:  # of a plan, which the commands call by its file
        raise InvalidPlan(f"{path}: {error}") from None
    return plans


PROFILE = b"""# network: tiny
# processor: made up
# threads: 1
layer,primitive,input_layout,output_layout,nanoseconds,workspace_bytes,parameter_bytes,producer,index
n1,layer,CHW,CHW,3000,0,0,,
n2,"direct, four filters",CHW,HWC,113000,0,4640,,
n2,im2col,HWC,CHW,84000,295936,4640,,
n2,,CHW,HWC,2900,0,0,n1,0
"""


def _profiles():
    return [PROFILE, PROFILE[PROFILE.index(b"layer,prim") :]]


def _preesm(folder, pattern):
    """Seeds; graphs within actors, and those of scenarios, are found in the folder of the mutants."""

    def make():
        shutil.copytree(MODELS / "preesm" / "Algo", folder / "Algo", dirs_exist_ok=True)
        return _files(pattern)

    return make


def _preesm_graph(path, random):
    return read_graph(path, assume_zero_times=random.random() < 0.8)


SEARCHED = ReuseProblem(identity="test", alleles=((0, 1, 2),) * 6, objectives=("one", "two"))


def _score(chromosome):
    return (sum(chromosome), -chromosome[0])


def _checkpoints(folder):
    def make():
        path = folder / "state.json"
        checkpoint = Checkpoint(Serial(_score), path, SEARCHED)
        checkpoint.open(Stop())
        evolve(
            SEARCHED,
            checkpoint,
            random=Random(1),
            limits=SearchLimits(evaluations=20),
            settings=Settings(population=6),
        )
        return [path.read_bytes()]

    return make


def readers(folder):
    """All readers by name; what seeds have to be written first goes into the folder."""
    either = (mutant, json_mutant)
    return {
        "sdf3": Reader(".xml", lambda: _files("graphs/*.xml", "graphs/*/*.xml"), _graph),
        "parametric": Reader(".xml", lambda: _files("parametric/*.xml"), _parametric),
        "graph json": Reader(".json", _graph_texts, _graph, either),
        "layer table": Reader(".csv", lambda: _files("networks/*.csv"), _graph),
        "preesm": Reader(".pi", _preesm(folder, "preesm/Algo/*.pi"), _preesm_graph),
        "preesm scenario": Reader(
            ".scenario", _preesm(folder, "preesm/Scenarios/*.scenario"), _preesm_graph
        ),
        "network json": Reader(".json", _networks, _model, either),
        "onnx": Reader(".onnx", onnx_seeds, _model, (onnx_mutant,)),
        "tflite operators": Reader(".tflite", _tflite_operators, _ran_model, (mutant, word_mutant)),
        "onnx quantised": Reader(".onnx", quantised_seeds, _ran_model, (onnx_mutant,)),
        "tflite": Reader(".tflite", _tflite_seeds, _ran_model, (mutant, word_mutant)),
        "darknet": Reader(".cfg", lambda: [TINY.encode(), DARKNET.encode()], _model),
        "application json": Reader(
            ".json", _applications, lambda p, r: read_application(p), either
        ),
        "application yaml": Reader(".yaml", lambda: [YAML], lambda p, r: read_application(p)),
        "arena csv": Reader(
            ".csv",
            lambda: [ARENA_CSV, *_files("alloc/*.csv", "alloc/minimalloc/*.csv")],
            _problems,
        ),
        "arena glow": Reader(".txt", _glow, _problems),
        "arena json": Reader(".json", _arena_json, _problems, either),
        "fifo depths": Reader(".json", _depth_files, _depths, either),
        "durations": Reader(".csv", _durations, lambda p, r: durations_table(p)),
        "plans": Reader(".json", _plans, _checked_plans, either),
        "profile table": Reader(".csv", _profiles, lambda p, r: read_profile(p)),
        "checkpoint": Reader(
            ".json",
            _checkpoints(folder),
            lambda p, r: Checkpoint(Serial(_score), p, SEARCHED).open(Stop()),
        ),
    }
