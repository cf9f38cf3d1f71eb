"""ONNX Runtime as a second opinion: the outputs of a file as it is, not of what was read from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from cnn2csdf.network import Network
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError


def has_runtime() -> bool:
    """Whether ONNX Runtime is installed; no extra asks for it."""
    return find_spec("onnxruntime") is not None


def runtime_outputs(
    path: str, network: Network, frames: Sequence[Mapping[str, Array]]
) -> list[dict[str, Array]]:
    """Return what ONNX Runtime gives for the frames, by output layer of the network.

    network: as read from the file; inputs that it left out are zeros. Raises ExecutionError where
    the runtime cannot run the file.
    """
    try:
        session = _session(path)
        found = [session.run(None, _given(session, frame)) for frame in frames]
    except Exception as error:  # noqa: BLE001 (the runtime has no base class of its own)
        line = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ExecutionError(f"ONNX Runtime cannot run {path}: {line}") from None
    return [
        {
            layer.name: np.asarray(array, np.float32).reshape(layer.shape.dims)
            for layer, array in zip(network.outputs, outputs, strict=True)
        }
        for outputs in found
    ]


def _session(path: str) -> Any:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _given(session: Any, frame: Mapping[str, Array]) -> dict[str, Array]:
    given = {}
    for one in session.get_inputs():
        name = one.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
        dims = [size if isinstance(size, int) else 1 for size in one.shape]
        given[one.name] = (
            frame[one.name][None].astype(dtype) if one.name in frame else np.zeros(dims, dtype)
        )
    return given
