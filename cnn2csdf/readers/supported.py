"""The operators that each reader takes, what becomes of them, and with which restrictions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from cnn2csdf.readers.darknet_layers import KINDS
from cnn2csdf.readers.tflite.conversion import CONVERTERS
from cnn2csdf.readers.tflite.types import IN_INTEGERS, RESTRICTIONS

GENERAL = {  # what holds for all operators of a reader
    "ONNX": "opset 7 or newer; a batch of one; quantised: 8 and 16 bits",
    "TensorFlow Lite": "one graph; a batch of one; at most four axes",
    "Darknet": "sections of a .cfg file with the options that are read; no weights",
}


class Supported(NamedTuple):
    """An operator that a reader takes, and what a user has to know of it."""

    reader: str
    operator: str
    note: str


def supported() -> list[Supported]:
    """Return all operators that can be read; those of ONNX where its package is installed."""
    return [*_of_onnx(), *_of_tflite(), *_of_darknet()]


def _of_onnx() -> Iterator[Supported]:
    try:
        converters: Mapping[str, Any] = import_module(
            "cnn2csdf.onnx_files.conversion.converters"
        ).CONVERTERS
        runtime = import_module("cnn2csdf.onnx_files.quantized_nodes").kinds()
    except ModuleNotFoundError:
        yield Supported("ONNX", "(none)", "needs onnx: pip install 'csdf[cnn]'")
        return
    for name in sorted(converters):
        yield Supported("ONNX", name, _in_words(converters[name]))
    for name in runtime:
        yield Supported("ONNX", name, "between integers, as the steps that it stands for")


def _of_tflite() -> Iterator[Supported]:
    for name in sorted(CONVERTERS):
        types = ", ".join(("float32", *IN_INTEGERS.get(name, ())))
        said = [types, *filter(None, [RESTRICTIONS.get(name)])]
        yield Supported("TensorFlow Lite", name, "; ".join(said))


def _of_darknet() -> Iterator[Supported]:
    for name in sorted(KINDS):
        options = KINDS[name].options
        said = "nothing that changes a shape" if options is None else ", ".join(options)
        yield Supported("Darknet", f"[{name}]", said or "no options")


def _in_words(convert: Callable[..., Any]) -> str:
    """The first sentence of what a converter says it does."""
    while isinstance(convert, partial):
        convert = convert.func
    said = (inspect.getdoc(inspect.unwrap(convert)) or "").partition("\n\n")[0]
    return " ".join(said.split()).removeprefix("Add ").rstrip(".")
