"""Modules that need the package onnx, which is an extra: imported when a file asks for them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from csdf.errors import CsdfError


def with_onnx(module: str, name: str) -> ModuleType:
    """Return a module that needs onnx. name: of the file that asks for it.

    Raises CsdfError where onnx is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "onnx":
            raise
        raise CsdfError(f"{name}: ONNX files need onnx: pip install onnx") from None
