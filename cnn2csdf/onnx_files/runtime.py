"""ONNX Runtime as a second opinion: the outputs of a file as it is, not of what was read from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np

from cnn2csdf.network import Network
from cnn2csdf.operators import Input
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.weights import Array
from csdf.errors import ExecutionError


def has_runtime() -> bool:
    """Whether ONNX Runtime is installed; no extra asks for it."""
    return find_spec("onnxruntime") is not None


def runtime_outputs(
    path: str, network: Network, frames: Sequence[Mapping[str, Array]]
) -> list[dict[str, Array]]:
    """Return what ONNX Runtime gives for the frames, by output layer of the network.

    network: as read from the file; inputs that it left out are zeros. Nodes of `cropped_windows` run
    with their padding written out. Raises ExecutionError where the runtime cannot run the file.
    """
    try:
        padding = import_module("cnn2csdf.onnx_files.runtime_padding")
        session = exact_session(padding.with_written_padding(path) or path)
        outputs_of_frames = [session.run(None, _given(session, network, frame)) for frame in frames]
    except Exception as error:  # noqa: BLE001 (the runtime has no base class of its own)
        line = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ExecutionError(f"ONNX Runtime cannot run {path}: {line}") from None
    return [
        {
            layer.name: np.asarray(array, np.float32).reshape(layer.shape.dims)
            for layer, array in zip(network.outputs, outputs, strict=True)
        }
        for outputs in outputs_of_frames
    ]


def cropped_windows(path: str) -> tuple[str, ...]:
    """Return the nodes of a file at which ONNX Runtime crops the input instead of padding by 0."""
    padding = import_module("cnn2csdf.onnx_files.runtime_padding")
    return cast("tuple[str, ...]", padding.cropped_windows(path))


def exact_session(model: str | bytes) -> Any:
    """Open a file, or its bytes, in ONNX Runtime, with exact sums of integers where it has them.

    On processors without VNNI the runtime saturates sums of unsigned times signed 8-bit products,
    unless it is asked for precision. With precision it has no QGemm of signed activations: such a
    file is opened without.
    """
    runtime = import_module("onnxruntime")
    options, precise = runtime.SessionOptions(), runtime.SessionOptions()
    options.log_severity_level = precise.log_severity_level = 4
    precise.add_session_config_entry("session.x64quantprecision", "1")
    lacking = import_module("onnxruntime.capi.onnxruntime_pybind11_state").NotImplemented
    try:
        return runtime.InferenceSession(model, precise, providers=["CPUExecutionProvider"])
    except lacking:
        return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _given(session: Any, network: Network, frame: Mapping[str, Array]) -> dict[str, Array]:
    feeds = {}
    frame = {**frame}
    for layer in network.inputs:
        match layer.operator:
            case Input(file_dims=tuple(file_dims)):
                frame[layer.name] = to_memory_order(frame[layer.name]).reshape(file_dims)
    for argument in session.get_inputs():
        name = argument.type.removeprefix("tensor(").removesuffix(")")
        dtype = np.dtype({"float": "float32", "double": "float64"}.get(name, name))
        dims = [size if isinstance(size, int) else 1 for size in argument.shape]
        array = frame.get(argument.name, np.zeros(dims))
        if array.ndim < len(
            dims
        ):  # the layer has no batch; a tensor of one axis has none in the file
            array = array[None]
        feeds[argument.name] = array.astype(dtype)
    return feeds
