"""An ONNX graph as plain values, for readers of operators that are not ONNX's own."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import onnx
from onnx import helper

from cnn2csdf.onnx_files.model_file import model_of
from cnn2csdf.readers.plain_onnx import PlainGraph, PlainNode
from csdf.errors import UnreadableFile
from csdf.io.files import read_bytes

LARGEST_BYTES = 2**31 - 1
PACKED = b"\x1f\x8b"  # how a file packed by gzip begins


def read_plain_graph(path: str) -> PlainGraph:
    """Return the graph of an ONNX file, which may be packed by gzip. Raises UnreadableFile."""
    content = read_bytes(path, LARGEST_BYTES)
    try:
        graph = model_of(_unpacked(content)).graph
        parameters = frozenset(one.name for one in graph.initializer)
        return PlainGraph(
            nodes=tuple(_node(one) for one in graph.node),
            inputs=tuple(one.name for one in graph.input if one.name not in parameters),
            outputs=tuple(one.name for one in graph.output),
            parameters=parameters,
        )
    except UnreadableFile as error:
        raise UnreadableFile(f"{path}: {error}") from None


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(PACKED):
        return content
    try:
        unpacker = zlib.decompressobj(wbits=31)
        found = unpacker.decompress(content, LARGEST_BYTES)
    except (zlib.error, gzip.BadGzipFile):
        raise UnreadableFile("is not a whole gzip file") from None
    if not unpacker.eof:
        raise UnreadableFile("is not a whole gzip file, or one of more than 2 GiB")
    return found


def _node(node: onnx.NodeProto) -> PlainNode:
    return PlainNode(
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        attributes={one.name: _value(one) for one in node.attribute},
    )


def _value(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
        return tuple(value)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return tuple(one.decode("utf-8", "replace") for one in value)
    return value
