"""Stream depths in a conversion of hls4ml: an optimizer pass, registered as its own are.

    from planners.integrations.hls4ml import register
    config["Flows"] = [register("Vitis")]  # of the hls_config of hls4ml.converters.convert_from_...

The flow runs after the flow of the back end, before the project is written: the pass sets the depth of
every stream between two layers to the smallest for the max. rate. The C++ that hls4ml would write is
read for it, in a folder that is removed again, so that csdf fifo hls4ml gives the same depths.

Source: hls4ml 1.3.0, model/optimizer/optimizer.py, model/flow/flow.py, and its own pass
backends/vitis/passes/fifo_depth_optimization.py, which sets depths at the same place.
"""

from __future__ import annotations

from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any

from hls4ml.model.flow import get_available_flows, register_flow
from hls4ml.model.graph import ModelGraph
from hls4ml.model.optimizer import register_pass
from hls4ml.model.optimizer.optimizer import ConfigurableOptimizerPass, ModelOptimizerPass

from csdf.errors import GaveUp, UnreadableFile
from csdf.time_limit import Stop
from planners.fifo.hls4ml_project import project_design, read_source
from planners.fifo.study import Study, study
from planners.fifo.timing.cluster import TimingOptions

NAME = "csdf_fifo_depths"
SECONDS = 10  # of effort for each search; csdf fifo hls4ml takes 3


def register(backend: str = "Vitis") -> str:
    """Register the pass and a flow of it for a back end; return the name of both.

    Other numbers than the usual ones: `get_optimizer(name).configure(latencies={"relu": 4})`, where
    hls4ml.model.optimizer has get_optimizer; `latencies` by function or layer, `seconds` of a search.
    """
    name = f"{backend.lower()}:{NAME}"
    if name not in get_available_flows():
        register_pass(NAME, FifoDepths, backend=backend)
        register_flow(
            NAME, ["make_stamp", name], requires=[f"{backend.lower()}:ip"], backend=backend
        )
    return name


class FifoDepths(ConfigurableOptimizerPass, ModelOptimizerPass):  # type: ignore[misc]
    """Gives the streams of a model the smallest depths for its max. rate.

    study: the results for the last model, with bounds and assumptions.
    """

    def __init__(self) -> None:
        self.latencies: Mapping[str, int] = {}
        self.seconds: float = SECONDS
        self.study: Study | None = None

    def transform(self, model: ModelGraph) -> bool:
        """Set the depths; once. Raises GaveUp where none were found.

        Raises UnreadableFile for a model without streams (io_type other than io_stream), and for
        functions of unknown timing.
        """
        if model.config.get_config_value("IOType") != "io_stream":
            raise UnreadableFile(
                f"{NAME}: the model has no streams; convert it with io_type='io_stream'"
            )
        sized = self.study = self._studied(model)
        if not sized.sizing.depths:
            raise GaveUp(sized.sizing.reason)
        depths = sized.design.named(sized.sizing.depths)
        for variable in model.output_vars.values():
            if variable.name in depths and variable.pragma:
                variable.pragma = (variable.pragma[0], depths[variable.name])
        return True

    def _studied(self, model: ModelGraph) -> Study:
        settings: dict[str, Any] = model.config.config
        place = settings["OutputDir"]
        with TemporaryDirectory() as folder:
            settings["OutputDir"] = folder
            try:
                model.config.backend.writer.write_hls(model)
                source = read_source(folder)
            finally:
                settings["OutputDir"] = place
        timing = TimingOptions(latencies=dict(self.latencies))
        return study(project_design(source, timing), stops=lambda: Stop(effort=self.seconds))
