"""Platforms and mappings from JSON files, and into them.

    {"format": "csdf-platform", "version": 1, "name": "two",
     "processors": [{"name": "p0", "type": "arm", "wheel": 10, "slice": 5}, {"name": "p1"}],
     "connections": [{"source": "p0", "target": "p1", "latency": 3, "bandwidth": 4, "pipelined": true}]}

    {"format": "csdf-mapping", "version": 1, "binding": {"a": "p0", "b": "p0"},
     "orders": {"p0": {"prefix": ["a"], "periodic": ["a", "b"]}},
     "buffers": {"c": {"memory": 3}}, "delays": {"c": 2}}

What may be left out: a processor's type, wheel, slice and offset, the connections and all of a
connection but its ends; orders, prefixes, buffers and delays of a mapping. See csdf.mapping.model.
"""

from __future__ import annotations

import json
import os

from csdf.arguments import public
from csdf.io import files
from csdf.io.json_value import JsonForm, JsonValue
from csdf.mapping.model import Connection, Mapping, Platform

FORMS = {
    Platform: JsonForm("csdf-platform", names=(("cores", "processors"),)),
    Mapping: JsonForm("csdf-mapping"),
    Connection: JsonForm(names=(("is_pipelined", "pipelined"),)),
}


def holds_mapping(path: str | os.PathLike[str], maximum: int = files.LARGEST_FILE_BYTES) -> bool:
    """Whether a file is SDF3 XML with a platform and a mapping. Raises UnreadableFile.

    maximum: bytes that the file may have. Standard input, which can be read once, is a graph.
    """
    if path == files.STANDARD_INPUT:
        return False
    content = files.read_bytes(path, maximum)
    return b"<architectureGraph" in content and b"<mapping" in content


@public
def read_platform(path: str | os.PathLike[str]) -> Platform:
    """Return the platform of a JSON file. Raises UnreadableFile, which names the place."""
    return _document(path).built(Platform, FORMS)


@public
def read_mapping(path: str | os.PathLike[str]) -> Mapping:
    """Return the mapping of a JSON file. Raises UnreadableFile, which names the place."""
    return _document(path).built(Mapping, FORMS)


@public
def write_platform(path: str | os.PathLike[str], platform: Platform) -> None:
    """Write the platform as JSON. Raises UnwritableFile and leaves nothing half-written."""
    files.write_text(path, f"{json.dumps(platform.to_json(), indent=1)}\n")


@public
def write_mapping(path: str | os.PathLike[str], mapping: Mapping) -> None:
    """Write the mapping as JSON. Raises UnwritableFile and leaves nothing half-written."""
    files.write_text(path, f"{json.dumps(mapping.to_json(), indent=1)}\n")


def _document(path: str | os.PathLike[str]) -> JsonValue:
    name = os.fspath(path)
    return JsonValue.parse(files.decoded(files.read_bytes(path), name), name)
