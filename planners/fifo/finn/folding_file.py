"""Folding files of FINN: attributes by the names of nodes, FIFO depths among them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from csdf.errors import UnreadableFile
from csdf.io.files import read_bytes
from csdf.io.json_value import JsonValue
from planners.fifo.cores import Core
from planners.fifo.design import Design

Folding = Mapping[str, Mapping[str, Any]]
CONVERTER = "(converter)"  # how layers end that no file has


def read_folding(path: str) -> dict[str, dict[str, Any]]:
    """Return the attributes of each node. Raises UnreadableFile."""
    found = JsonValue.parse(read_bytes(path).decode("utf-8", "replace"), path)
    if type(found.value) is not dict:
        raise found.refusal("expected an object with an object for each node")
    for name in found.value:
        if type(found[name].value) is not dict:
            raise found[name].refusal("expected an object with the attributes of a node")
    return dict(found.value)


def folding_text(
    design: Design, cores: Sequence[Sequence[Core]], folding: Folding | None = None
) -> str:
    """Return a folding file with these cores: for FIFO nodes that are there, and for InsertFIFO.

    The depth of a stream stands at both its ends, FINN takes the larger one. Where the model has as
    many FIFO nodes on a stream as cores, each is told its depth and style; where it has fewer, the
    last one holds the rest.
    """
    found: dict[str, dict[str, Any]] = {
        name: dict(entry) for name, entry in (folding or {}).items()
    }
    found.setdefault("Defaults", {})
    for number, layer in enumerate(design.layers):
        if layer.name.endswith(CONVERTER):
            continue
        entry = found.setdefault(layer.name, {})
        inputs = _depths(design, cores, len(layer.cluster.inputs), consumer=number)
        outputs = _depths(design, cores, len(layer.cluster.outputs), producer=number)
        entry["inFIFODepths"], entry["outFIFODepths"] = inputs, outputs
    for fifo, row in zip(design.fifos, cores, strict=True):
        for name, core in zip(fifo.nodes, _shared(row, len(fifo.nodes)), strict=False):
            entry = found.setdefault(name, {})
            entry.update(depth=core.depth, impl_style=core.style, ram_style=core.ram)
    return json.dumps(found, indent=2) + "\n"


def _shared(row: Sequence[Core], nodes: int) -> list[Core]:
    """The cores for so many FIFO nodes in a row."""
    if not nodes or len(row) <= nodes:
        least = Core(style="rtl", depth=2)
        return [*row, *[least] * (nodes - len(row))]
    rest = sum(core.depth for core in row[nodes - 1 :])
    last = row[nodes - 1]
    return [
        *row[: nodes - 1],
        Core(style="vivado", depth=1 << (rest - 1).bit_length(), ram=last.ram),
    ]


def _depths(
    design: Design,
    cores: Sequence[Sequence[Core]],
    ports: int,
    *,
    producer: int | None = None,
    consumer: int | None = None,
) -> list[int]:
    """The depth at each port of a layer; 2 where the port is one of the whole design."""
    found = [2] * ports
    for fifo, row in zip(design.fifos, cores, strict=True):
        if fifo.producer == producer:
            found[fifo.output] = sum(core.depth for core in row)
        if fifo.consumer == consumer:
            found[fifo.input] = sum(core.depth for core in row)
    return found


def fifo_depths(folding: Folding) -> dict[str, int]:
    """Return the depth of each FIFO node that a folding file names. Raises UnreadableFile."""
    found = {}
    for name, entry in folding.items():
        if name.startswith("StreamingFIFO") and "depth" in entry:
            depth = entry["depth"]
            if type(depth) is not int or depth < 0:
                raise UnreadableFile(f"{name}: depth {depth!r}; expected an integer >= 0")
            found[name] = depth
    return found
