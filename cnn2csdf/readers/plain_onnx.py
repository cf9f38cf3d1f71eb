"""ONNX files where the package onnx, an extra, is installed: graphs as plain values, and readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from csdf.errors import CsdfError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainNode:
    """A node as it stands in the file; texts among the attributes are str."""

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainGraph:
    """Nodes in the order of the file. parameters: names of the tensors that the file has values of."""

    nodes: tuple[PlainNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: frozenset[str]


def read_plain_onnx(path: str) -> PlainGraph:
    """Return the graph of an ONNX file, which may be packed by gzip.

    Raises UnreadableFile, and CsdfError where the package onnx is not installed.
    """
    reader = with_onnx("cnn2csdf.onnx_files.plain_graph", path)
    graph: PlainGraph = reader.read_plain_graph(path)
    return graph


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
