"""CNN to CSDF: a network becomes a graph whose layers run row by row, and runs row by row.

    import cnn2csdf

    model = cnn2csdf.read_model("model.onnx", with_weights=True)
    graph = cnn2csdf.lower(model.network)

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from csdf import __version__ as __version__

if TYPE_CHECKING:
    from cnn2csdf.builder import NetworkBuilder as NetworkBuilder
    from cnn2csdf.catalogue.networks import CATALOGUE as CATALOGUE
    from cnn2csdf.catalogue.networks import from_catalogue as from_catalogue
    from cnn2csdf.durations import platform_durations as platform_durations
    from cnn2csdf.execution.calibration import calibrated_weights as calibrated_weights
    from cnn2csdf.execution.compare import Verification as Verification
    from cnn2csdf.execution.compare import random_frames as random_frames
    from cnn2csdf.execution.compare import verify as verify
    from cnn2csdf.execution.layer_by_layer import first_states as first_states
    from cnn2csdf.execution.layer_by_layer import run_layer_by_layer as run_layer_by_layer
    from cnn2csdf.execution.streaming_executor import run_row_by_row as run_row_by_row
    from cnn2csdf.geometry import Overlap as Overlap
    from cnn2csdf.granularity import ROWS as ROWS
    from cnn2csdf.granularity import WHOLE as WHOLE
    from cnn2csdf.granularity import Granularity as Granularity
    from cnn2csdf.lowering import lower as lower
    from cnn2csdf.network import Connection as Connection
    from cnn2csdf.network import Layer as Layer
    from cnn2csdf.network import Network as Network
    from cnn2csdf.network import Shape as Shape
    from cnn2csdf.parameters import layer_parameters as layer_parameters
    from cnn2csdf.parameters import multiply_accumulates as multiply_accumulates
    from cnn2csdf.platforms import PLATFORMS as PLATFORMS
    from cnn2csdf.platforms import BoardMemory as BoardMemory
    from cnn2csdf.platforms import Platform as Platform
    from cnn2csdf.readers.model_files import read_model as read_model
    from cnn2csdf.rings import with_states as with_states
    from cnn2csdf.simplify import simplified as simplified
    from cnn2csdf.streams import as_stream as as_stream
    from cnn2csdf.weights import Model as Model
    from cnn2csdf.weights import random_weights as random_weights

_HOMES = {
    "BoardMemory": "cnn2csdf.platforms",
    "CATALOGUE": "cnn2csdf.catalogue.networks",
    "Connection": "cnn2csdf.network",
    "Granularity": "cnn2csdf.granularity",
    "Layer": "cnn2csdf.network",
    "Model": "cnn2csdf.weights",
    "Network": "cnn2csdf.network",
    "NetworkBuilder": "cnn2csdf.builder",
    "Overlap": "cnn2csdf.geometry",
    "PLATFORMS": "cnn2csdf.platforms",
    "Platform": "cnn2csdf.platforms",
    "ROWS": "cnn2csdf.granularity",
    "Shape": "cnn2csdf.network",
    "Verification": "cnn2csdf.execution.compare",
    "WHOLE": "cnn2csdf.granularity",
    "as_stream": "cnn2csdf.streams",
    "calibrated_weights": "cnn2csdf.execution.calibration",
    "first_states": "cnn2csdf.execution.layer_by_layer",
    "from_catalogue": "cnn2csdf.catalogue.networks",
    "layer_parameters": "cnn2csdf.parameters",
    "lower": "cnn2csdf.lowering",
    "multiply_accumulates": "cnn2csdf.parameters",
    "platform_durations": "cnn2csdf.durations",
    "random_frames": "cnn2csdf.execution.compare",
    "random_weights": "cnn2csdf.weights",
    "read_model": "cnn2csdf.readers.model_files",
    "run_layer_by_layer": "cnn2csdf.execution.layer_by_layer",
    "run_row_by_row": "cnn2csdf.execution.streaming_executor",
    "simplified": "cnn2csdf.simplify",
    "verify": "cnn2csdf.execution.compare",
    "with_states": "cnn2csdf.rings",
}
__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # or type checkers would take any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise import_module("csdf.names").missing(__name__, name, __all__)
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
