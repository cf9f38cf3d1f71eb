"""CNN to CSDF: a network becomes a graph whose layers run row by row, and runs row by row.

    import cnn2csdf

    model = cnn2csdf.read_model("model.onnx")
    graph = cnn2csdf.lower(model.network)

This package loads names when they are first used, so that its import costs next to nothing.
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
else:  # type checkers would take any name

    def __getattr__(name: str) -> Any:
        return import_module("csdf.public_names").named(__name__, name)


def __dir__() -> list[str]:
    names: list[str] = import_module("csdf.public_names").named(__name__, "__all__")
    return names
