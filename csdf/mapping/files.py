"""Platforms and mappings from JSON files, and into them.

    {"format": "csdf-platform", "version": 1, "name": "two",
     "processors": [{"name": "p0", "type": "arm", "wheel": 10, "slice": 5}, {"name": "p1"}],
     "connections": [{"source": "p0", "target": "p1", "latency": 3, "bandwidth": 4, "pipelined": true}]}

    {"format": "csdf-mapping", "version": 1, "binding": {"a": "p0", "b": "p0"},
     "orders": {"p0": {"prefix": ["a"], "periodic": ["a", "b"]}},
     "buffers": {"c": {"memory": 3}}, "delays": {"c": 2}}

What may be left out: a processor's type, wheel, slice and offset, the connections and all of a
connection but its ends; orders, prefixes, buffers and delays of a mapping. csdf.mapping.model says
what each means.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TypeVar

from csdf.errors import UnreadableFile
from csdf.io import files
from csdf.io.json_value import JsonValue
from csdf.mapping.model import (
    Buffer,
    Connection,
    Core,
    InvalidMapping,
    Mapping,
    Platform,
    StaticOrder,
)

PLATFORM = "csdf-platform"
MAPPING = "csdf-mapping"
VERSION = 1

Value = TypeVar("Value")


def holds_mapping(path: str | os.PathLike[str], most: int = files.LARGEST_FILE_BYTES) -> bool:
    """Whether a file is SDF3 XML with a platform and a mapping. Raises UnreadableFile.

    most: bytes that the file may have. Standard input, which can be read once, is a graph.
    """
    if path == files.STANDARD_INPUT:
        return False
    content = files.read_bytes(path, most)
    return b"<architectureGraph" in content and b"<mapping" in content


def read_platform(path: str | os.PathLike[str]) -> Platform:
    """Return the platform of a JSON file. Raises UnreadableFile, which names the place."""
    root = _document(path, PLATFORM)
    root.require_keys(("format", "version", "name", "processors"), ("connections",))
    return _valid(root, _platform)


def read_mapping(path: str | os.PathLike[str]) -> Mapping:
    """Return the mapping of a JSON file. Raises UnreadableFile, which names the place."""
    root = _document(path, MAPPING)
    root.require_keys(("format", "version", "binding"), ("orders", "buffers", "delays"))
    return _valid(root, _mapping)


def write_platform(path: str | os.PathLike[str], platform: Platform) -> None:
    """Write the platform as JSON. Raises UnwritableFile and leaves nothing half-written."""
    files.write_text(path, f"{json.dumps(platform.to_json(), indent=1)}\n")


def write_mapping(path: str | os.PathLike[str], mapping: Mapping) -> None:
    """Write the mapping as JSON. Raises UnwritableFile and leaves nothing half-written."""
    files.write_text(path, f"{json.dumps(mapping.to_json(), indent=1)}\n")


def _document(path: str | os.PathLike[str], kind: str) -> JsonValue:
    name = os.fspath(path)
    root = JsonValue.parse(files.decoded(files.read_bytes(path), name), name)
    root.require_object()
    if root.value.get("format") != kind:
        found = root.value.get("format")
        raise UnreadableFile(f'{name}: found "format": {found!r}; expected {kind!r}')
    if root.value.get("version") != VERSION:
        found = root.value.get("version")
        raise UnreadableFile(f'{name}: found "version": {found!r}; expected {VERSION}')
    return root


def _valid(value: JsonValue, build: Callable[[JsonValue], Value]) -> Value:
    try:
        return build(value)
    except InvalidMapping as error:
        raise UnreadableFile(f"{value.where}: {error}") from None


def _platform(root: JsonValue) -> Platform:
    connections = root["connections"].items() if "connections" in root.value else ()
    return Platform(
        name=root["name"].text(),
        cores=tuple(_valid(one, _core) for one in root["processors"].items()),
        connections=tuple(_valid(one, _connection) for one in connections),
    )


def _core(value: JsonValue) -> Core:
    value.require_keys(("name",), ("type", "wheel", "slice", "offset"))
    return Core(
        name=value["name"].text(),
        type=value["type"].text() if "type" in value.value else "",
        wheel=_natural(value, "wheel"),
        slice=_natural(value, "slice"),
        offset=_natural(value, "offset") or 0,
    )


def _connection(value: JsonValue) -> Connection:
    value.require_keys(("source", "target"), ("latency", "bandwidth", "pipelined", "wait"))
    return Connection(
        source=value["source"].text(),
        target=value["target"].text(),
        latency=_natural(value, "latency") or 0,
        bandwidth=_natural(value, "bandwidth"),
        wait=_natural(value, "wait") or 0,
        is_pipelined=value["pipelined"].truth() if "pipelined" in value.value else True,
    )


def _mapping(root: JsonValue) -> Mapping:
    return Mapping(
        binding={name: one.text() for name, one in _members(root, "binding")},
        orders={name: _valid(one, _order) for name, one in _members(root, "orders")},
        buffers={name: _valid(one, _buffer) for name, one in _members(root, "buffers")},
        delays={name: one.natural() for name, one in _members(root, "delays")},
    )


def _members(root: JsonValue, key: str) -> list[tuple[str, JsonValue]]:
    if key not in root.value:
        return []
    table = root[key]
    table.require_object()
    return [(name, table[name]) for name in table.value]


def _order(value: JsonValue) -> StaticOrder:
    value.require_keys(("periodic",), ("prefix",))
    return StaticOrder(
        periodic=tuple(one.text() for one in value["periodic"].items()),
        prefix=tuple(one.text() for one in value["prefix"].items())
        if "prefix" in value.value
        else (),
    )


def _buffer(value: JsonValue) -> Buffer:
    value.require_keys((), ("memory", "source", "target"))
    return Buffer(
        memory=_natural(value, "memory"),
        source=_natural(value, "source"),
        target=_natural(value, "target"),
    )


def _natural(value: JsonValue, key: str) -> int | None:
    return value[key].natural() if key in value.value else None
