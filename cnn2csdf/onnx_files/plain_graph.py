"""An ONNX graph as plain values, for readers of operators that are not ONNX's own."""

from __future__ import annotations

import gzip
import io
import zlib

from cnn2csdf.onnx_files.model_file import model_of
from cnn2csdf.onnx_files.nodes import attribute_value
from cnn2csdf.readers.plain_onnx import PlainGraph, PlainNode
from csdf.errors import UnreadableFile
from csdf.io.files import read_bytes

LARGEST_BYTES = 2**31 - 1
PACKED = b"\x1f\x8b"  # how a file packed by gzip begins


def read_plain_graph(path: str) -> PlainGraph:
    """Return the graph of an ONNX file, which may be packed by gzip. Raises UnreadableFile."""
    content = read_bytes(path, LARGEST_BYTES)
    if content.startswith(PACKED):
        try:
            with gzip.open(io.BytesIO(content)) as unpacked:
                content = unpacked.read(LARGEST_BYTES + 1)
        except (OSError, EOFError, zlib.error):
            raise UnreadableFile(f"{path}: is not a whole gzip file") from None
        if len(content) > LARGEST_BYTES:
            raise UnreadableFile(f"{path}: is a gzip file of more than 2 GiB")
    try:
        graph = model_of(content).graph
        parameters = frozenset(initializer.name for initializer in graph.initializer)
        return PlainGraph(
            nodes=tuple(
                PlainNode(
                    name=node.name,
                    op_type=node.op_type,
                    domain=node.domain,
                    inputs=tuple(node.input),
                    outputs=tuple(node.output),
                    attributes={
                        attribute.name: attribute_value(attribute) for attribute in node.attribute
                    },
                )
                for node in graph.node
            ),
            inputs=tuple(value.name for value in graph.input if value.name not in parameters),
            outputs=tuple(output.name for output in graph.output),
            parameters=parameters,
        )
    except UnreadableFile as error:
        raise UnreadableFile(f"{path}: {error}") from None
