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
from collections.abc import Mapping as Map
from typing import Any

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
SIDES = ("memory", "source", "target")

Reader = Callable[[JsonValue], Any]
Readers = Map[str, Reader]


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
    readers = {
        "name": JsonValue.text,
        "processors": _listed(_object(Core, CORE, "name")),
        "connections": _listed(_object(Connection, CONNECTION, "source", "target")),
    }
    found: Platform = _document(path, PLATFORM, Platform, readers, "name", "processors")
    return found


def read_mapping(path: str | os.PathLike[str]) -> Mapping:
    """Return the mapping of a JSON file. Raises UnreadableFile, which names the place."""
    readers = {
        "binding": _members(JsonValue.text),
        "orders": _members(_object(StaticOrder, ORDER, "periodic")),
        "buffers": _members(_object(Buffer, dict.fromkeys(SIDES, JsonValue.natural))),
        "delays": _members(JsonValue.natural),
    }
    found: Mapping = _document(path, MAPPING, Mapping, readers, "binding")
    return found


def write_platform(path: str | os.PathLike[str], platform: Platform) -> None:
    """Write the platform as JSON. Raises UnwritableFile and leaves nothing half-written."""
    files.write_text(path, f"{json.dumps(platform.to_json(), indent=1)}\n")


def write_mapping(path: str | os.PathLike[str], mapping: Mapping) -> None:
    """Write the mapping as JSON. Raises UnwritableFile and leaves nothing half-written."""
    files.write_text(path, f"{json.dumps(mapping.to_json(), indent=1)}\n")


def _document(
    path: str | os.PathLike[str],
    kind: str,
    make: Callable[..., Any],
    readers: Readers,
    *required: str,
) -> Any:
    name = os.fspath(path)
    root = JsonValue.parse(files.decoded(files.read_bytes(path), name), name)
    root.require_object()
    for key, expected in (("format", kind), ("version", VERSION)):
        if root.value.get(key) != expected:
            found = root.value.get(key)
            raise UnreadableFile(f'{name}: found "{key}": {found!r}; expected {expected!r}')
    return _object(make, readers, "format", "version", *required)(root)


def _object(make: Callable[..., Any], readers: Readers, *required: str) -> Reader:
    """Return a reader of objects whose keys are, but for ARGUMENTS, the arguments of `make`."""
    optional = tuple(key for key in readers if key not in required)

    def read(value: JsonValue) -> Any:
        value.require_keys(required, optional)
        given = {
            ARGUMENTS.get(key, key): reader(value[key])
            for key, reader in readers.items()
            if key in value.value
        }
        try:
            return make(**given)
        except InvalidMapping as error:
            raise UnreadableFile(f"{value.where}: {error}") from None

    return read


def _listed(read: Reader) -> Reader:
    return lambda value: tuple(map(read, value.items()))


def _members(read: Reader) -> Reader:
    def members(value: JsonValue) -> dict[str, Any]:
        value.require_object()
        return {name: read(value[name]) for name in value.value}

    return members


CORE: Readers = {
    "name": JsonValue.text,
    "type": JsonValue.text,
    **dict.fromkeys(("wheel", "slice", "offset"), JsonValue.natural),
}
CONNECTION: Readers = {
    **dict.fromkeys(("source", "target"), JsonValue.text),
    **dict.fromkeys(("latency", "bandwidth", "wait"), JsonValue.natural),
    "pipelined": JsonValue.truth,
}
ORDER: Readers = dict.fromkeys(("periodic", "prefix"), _listed(JsonValue.text))
ARGUMENTS = {"pipelined": "is_pipelined", "processors": "cores"}
