"""An ONNX file as a protobuf message, and what it says about itself as a whole."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import defs

from cnn2csdf.onnx_files.inner_graphs import captured
from cnn2csdf.readers.between_tensors import TensorCut, cuts_around, needed_nodes, tensor_named
from csdf.errors import MissingFile, UnreadableFile

OLDEST_OPSET = 7
LARGEST_MESSAGE_BYTES = 2**31 - 1
LARGEST_VERSION = 2**31
DEFAULT_DOMAIN = ""


def read_model_file(path: str) -> onnx.ModelProto:
    """Return the message in the file; external data stays where it is.

    Raises UnreadableFile where there is no file, no ONNX model, or one that cannot be read whole.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except IsADirectoryError:
        raise UnreadableFile("is a folder; expected an ONNX file") from None
    except OSError as error:
        refusal = MissingFile if isinstance(error, FileNotFoundError) else UnreadableFile
        raise refusal(f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise UnreadableFile("cannot be read: no file has such a name") from None
    return model_of(content)


def model_of(content: bytes) -> onnx.ModelProto:
    """Return the message in these bytes. Raises UnreadableFile as `read_model_file` does."""
    if not content:
        raise UnreadableFile("is empty; expected an ONNX model")
    if len(content) > LARGEST_MESSAGE_BYTES:
        raise UnreadableFile("is larger than 2 GiB, the most that a protobuf message may have")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise UnreadableFile("is not an ONNX model, or a corrupt one") from None
    if not model.HasField("graph") or not model.opset_import:
        raise UnreadableFile("is not an ONNX model: there is no graph with an opset in it")
    if not model.graph.output:
        raise UnreadableFile("the graph has no output")
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise UnreadableFile(f"initializer {name!r} is sparse; store it dense")
    if model.functions:
        function = model.functions[0]
        raise UnreadableFile(
            f"the model defines functions of its own ({function.name!r}); "
            "put their nodes in their place first, with onnx.inliner"
        )
    # Raise UnreadableFile for a name that is not UTF-8: protobuf gives its bytes instead.
    names = [entry.domain for entry in model.opset_import]
    waiting = [model.graph]
    while waiting:
        graph = waiting.pop()
        named = [*graph.node, *graph.input, *graph.output, *graph.initializer]
        names += [part.name for part in named]
        for node in graph.node:
            names += [node.op_type, node.domain, *node.input, *node.output]
            for attribute in node.attribute:
                names.append(attribute.name)
                waiting += [attribute.g] if attribute.HasField("g") else []
                waiting += attribute.graphs
    for name in names:
        if not isinstance(name, str):
            raise UnreadableFile(f"{name!r} is not text; the file is corrupt")
    return model


def opset_versions(model: onnx.ModelProto) -> dict[str, int]:
    """Return the version of each domain; raise UnreadableFile for one that cannot be read."""
    versions = {
        DEFAULT_DOMAIN if entry.domain == "ai.onnx" else entry.domain: entry.version
        for entry in model.opset_import
    }
    for domain, version in versions.items():
        if not 0 < version < LARGEST_VERSION:
            raise UnreadableFile(f"domain {domain!r} has opset {version}; the file is corrupt")
    newest = defs.onnx_opset_version()
    opset = versions.setdefault(DEFAULT_DOMAIN, newest)
    if opset < OLDEST_OPSET:
        raise UnreadableFile(f"opset {opset} is too old; expected {OLDEST_OPSET} to {newest}")
    if opset > newest:
        raise UnreadableFile(
            f"opset {opset} is newer than the onnx package, which knows {newest}; update it"
        )
    return versions


@dataclass(frozen=True, slots=True)
class _Links:
    """The tensors of a node, including the tensors that its inner graphs read."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def _links(proto: onnx.NodeProto) -> _Links:
    read = [*proto.input, *captured(proto)]
    return _Links(tuple(filter(None, read)), tuple(filter(None, proto.output)))


def between(
    model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.ModelProto:
    """Return the part of a model between tensors of these names; by default the whole model.

    Types and dims of inputs are the stored ones, or floating point of open
    dims. Raises UnreadableFile for a name that no tensor has.
    """
    if not inputs and not outputs:
        return model
    graph = model.graph
    value_infos = {
        value_info.name: value_info
        for value_info in (*graph.input, *graph.value_info, *graph.output)
    }
    written = {name: name for proto in graph.node for name in proto.output if name}
    names = {name: name for name in (*(value_info.name for value_info in graph.input), *written)}
    for name in (*inputs, *outputs):
        tensor_named(name, names)
    kept = onnx.ModelProto()
    kept.CopyFrom(model)
    nodes = list(graph.node)
    until = list(outputs) or [value_info.name for value_info in graph.output]
    places = needed_nodes([_links(proto) for proto in nodes], set(inputs), until)
    del kept.graph.node[:], kept.graph.input[:], kept.graph.output[:]
    kept.graph.node.extend(nodes[place] for place in places)
    for name in inputs:
        kept.graph.input.append(value_infos.get(name) or _unknown_tensor(name))
    kept.graph.input.extend(
        value_info for value_info in graph.input if value_info.name not in inputs
    )
    kept.graph.output.extend(value_infos.get(name) or _unknown_tensor(name) for name in until)
    return kept


def _unknown_tensor(name: str) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)


def cuts_around_nodes(model: onnx.ModelProto, names: Set[str]) -> list[TensorCut[str]]:
    """Return the parts before and after the nodes of these names, or that write these tensors."""
    links = [_links(proto) for proto in model.graph.node]
    refused = {
        place
        for place, proto in enumerate(model.graph.node)
        if (proto.name or next(iter(links[place].outputs), "")) in names
    }
    if not refused:
        return []
    return cuts_around(links, refused, [value_info.name for value_info in model.graph.output])
