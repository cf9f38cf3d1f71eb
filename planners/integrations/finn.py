"""FIFO depths in a build of FINN: a step for its list of steps.

    from planners.integrations.finn import step_csdf_fifo_depths

    steps.insert(steps.index("step_set_fifo_depths"), step_csdf_fifo_depths)
    DataflowBuildConfig(steps=steps, auto_fifo_depths=False, ...)

The step reads the layers of the model, and writes the smallest depths for its max. rate into
`inFIFODepths` and `outFIFODepths`, from which InsertFIFO takes them, and into existing FIFO nodes.
Neither FINN nor an FPGA tool is needed. Depths are proved for the timing of csdf fifo finn.

Source: FINN, builder/build_dataflow_steps.py: a step takes the model and the configuration, and
returns the model.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from csdf.errors import GaveUp, UnreadableFile
from csdf.time_limit import Stop
from planners.fifo.design import Design
from planners.fifo.finn.reading import folding_text, read_design
from planners.fifo.study import Study, study
from planners.fifo.timing.cluster import TimingOptions

if TYPE_CHECKING:
    from qonnx.core.modelwrapper import ModelWrapper

EFFORT = 10  # seconds of a usual machine for each search; csdf fifo finn takes 3.8
CLOCK_NS = 10.0  # where the configuration has none
WITH_DSP58 = ("xcvc", "xcve", "xcvp", "xcvm", "xqvc", "xqvm", "xqrvc", "xcv80")  # parts of Versal
METADATA = "csdf_fifo_depths"
INT, STRING, INTS = 2, 3, 7  # types of attributes, onnx.proto


def step_csdf_fifo_depths(model: ModelWrapper, cfg: Any) -> ModelWrapper:
    """Return the model with the smallest FIFO depths for its max. rate, where they were proved.

    cfg: a DataflowBuildConfig; `synth_clk_period_ns`, `fpga_part` and `split_large_fifos` are used.
    What was found and assumed is in the metadata `csdf_fifo_depths` of the model, in JSON. Raises
    UnreadableFile for a model with layers of unknown timing, GaveUp where no depths were found.
    """
    timing = TimingOptions(
        clock_ns=float(getattr(cfg, "synth_clk_period_ns", None) or CLOCK_NS),
        dsp=58 if str(getattr(cfg, "fpga_part", "") or "").startswith(WITH_DSP58) else 48,
    )
    design = _design(model, timing)
    is_split = bool(getattr(cfg, "split_large_fifos", False))
    sized = study(design, is_split=is_split, stops=lambda: Stop(effort=EFFORT))
    if not sized.cores:
        raise GaveUp(sized.sizing.reason)
    made = deepcopy(model)
    written = json.loads(folding_text(design, sized.cores))
    for node in made.graph.node:
        for name, value in written.get(node.name, {}).items():
            _set_attribute(node, name, value)
    made.set_metadata_prop(METADATA, json.dumps(_summary(sized)))
    return made


def _design(model: ModelWrapper, timing: TimingOptions) -> Design:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.model.SerializeToString())
        try:
            return read_design(str(path), timing)
        except UnreadableFile as error:
            raise UnreadableFile(str(error).replace(str(path), "the model")) from None


def _set_attribute(node: Any, name: str, value: str | int | list[int]) -> None:
    """Give a node of ONNX an attribute, instead of one of that name."""
    for number, old in enumerate(node.attribute):
        if old.name == name:
            del node.attribute[number]
            break
    if isinstance(value, str):
        node.attribute.add(name=name, type=STRING, s=value.encode())
    elif isinstance(value, int):
        node.attribute.add(name=name, type=INT, i=value)
    else:
        node.attribute.add(name=name, type=INTS, ints=value)


def _summary(found: Study) -> dict[str, Any]:
    return {
        "period_cycles": str(found.sizing.period),
        "bits": found.design.bits(found.sizing.depths),
        "status": str(found.sizing.status),
        "reason": str(found.sizing.reason),
        "depths": dict(found.design.named(found.sizing.depths)),
        "assumed": {layer.name: list(layer.cluster.assumed) for layer in found.design.layers},
    }
