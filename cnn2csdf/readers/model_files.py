"""Models from files, by the suffix of the name, and from the catalogue."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import PurePath

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.dtypes import USUAL_RUNTIME, Runtime
from cnn2csdf.readers.plain_onnx import with_onnx
from cnn2csdf.weights import Model
from csdf.arguments import public
from csdf.errors import CsdfError, UnreadableFile
from csdf.io.files import is_file_or_stream, read_bytes, read_text
from csdf.names import meant

SUFFIXES = (".onnx", ".tflite", ".cfg", ".json")
HINTS = {
    ".xml": "csdf analyze reads graphs",
    **dict.fromkeys((".h5", ".keras", ".pb"), "tf.lite.TFLiteConverter makes a .tflite file of it"),
    **dict.fromkeys((".pt", ".pth"), "torch.onnx.export makes an .onnx file of it"),
}


@public
def read_model(
    source: str | os.PathLike[str],
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, float] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    with_weights: bool = True,
    repair: bool = False,
    runtime: str = USUAL_RUNTIME.value,
) -> Model:
    """Return the model of a file (.onnx, .tflite, .cfg, .json), or one of the catalogue by name.

    shapes: of inputs of an ONNX or TensorFlow Lite file, with the batch, where the file leaves them
    open. constants: ONNX inputs that have the same number in every frame, such as a sample rate.
    inputs, outputs: tensors of an ONNX or TensorFlow Lite file by name, to read the network between
    these tensors. with_weights: read the parameters of an ONNX or TensorFlow Lite file too; a model of
    another file, or of the catalogue, has none, and its text says so. repair: recompute shapes in a
    JSON network that do not fit their inputs.
    runtime: of a TensorFlow Lite file, "litert" or "tflite-micro", whose kernels the results equal.

    Raises UnreadableFile, UnsupportedOperator or InvalidNetwork, with the file and the layer.
    """
    name = os.fspath(source)
    suffix = PurePath(name).suffix.lower()
    model: Model
    if suffix == ".onnx":
        reader = with_onnx("cnn2csdf.onnx_files.reader", name)
        model = reader.read_onnx(
            name,
            shapes=shapes,
            constants=constants,
            inputs=inputs,
            outputs=outputs,
            with_weights=with_weights,
        )
        return model
    if constants:
        listed = ", ".join(constants)
        raise UnreadableFile(
            f"{name}: constants ({listed}) are given for inputs of ONNX files only"
        )
    if shapes and suffix != ".tflite":
        instead = (
            f"a {suffix} file fixes its shapes; convert the network again with others"
            if suffix in SUFFIXES
            else "a network of the catalogue takes arguments in its name, as in "
            "mobilenet_v2:resolution=96"
        )
        raise UnreadableFile(
            f"{name}: shapes ({', '.join(shapes)}) are given for inputs of ONNX and .tflite files "
            f"only; {instead}"
        )
    if suffix == ".tflite":
        reader = import_module("cnn2csdf.readers.tflite.reader")  # slow to import
        model = reader.parse_tflite(
            read_bytes(name),
            name,
            shapes=shapes,
            inputs=inputs,
            outputs=outputs,
            with_weights=with_weights,
            runtime=_runtime(runtime),
        )
        return model
    if inputs or outputs:
        listed = ", ".join((*inputs, *outputs))
        raise UnreadableFile(f"{name}: tensors ({listed}) are named in ONNX and .tflite files only")
    if suffix not in (".cfg", ".json"):
        if is_file_or_stream(name) or set(name.partition(":")[0]) & {".", "/", os.sep}:
            expected = f"expected {', '.join(SUFFIXES)}{meant(suffix, SUFFIXES)}"
            hint = f"; {HINTS[suffix]}" if suffix in HINTS else ""
            raise UnreadableFile(f"{name}: suffix {suffix!r}; {expected}{hint}")
        return Model(network=from_catalogue(name))
    text = read_text(name)
    if suffix == ".cfg":
        return Model(network=import_module("cnn2csdf.readers.darknet").parse_darknet(text, name))
    reader = import_module("cnn2csdf.readers.json_networks")
    return Model(network=reader.parse_json_network(text, name, repair=repair))


def _runtime(name: str) -> Runtime:
    """Return the runtime of that name. Raises CsdfError for another name."""
    names = [runtime.value for runtime in Runtime]
    if name not in names:
        raise CsdfError(f"runtime {name!r}; expected {' or '.join(names)}{meant(name, names)}")
    return Runtime(name)
