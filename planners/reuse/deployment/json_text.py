"""Deployments as JSON.

    {"name": "glasses", "status": "feasible", "reason": "...",
     "arena_bytes": 98344, "lower_bound": 83000, "weights": 254000, "element_bytes": 4,
     "parallel": [["P1", "P2"]],
     "buffers": [
       {"name": "eyes: conv to relu", "network": "eyes", "producer": "conv", "consumer": "relu",
        "input": 0, "offset": 0, "size": 4096, "row_bytes": 128, "stays": [["P1", 0, 31]],
        "in_place": false}],
     "partitions": [
       {"name": "P1", "network": "eyes", "layers": ["conv", "relu"],
        "firings": [[0, 0, 0, 1], [1, 0, 0, 1]]}]}

Offsets and sizes are in bytes; "weights" are in no arena. A buffer keeps size // row_bytes rows;
row r of a frame lies at offset + r % rows * row_bytes. A stay is a partition with the first and
the last step, both included, in which the buffer is in use; a step is one firing of its schedule. A
firing is the number of the layer in the partition, its phase, and the output rows: the first, and the
one behind the last. `planners.reuse.deployment.deployment` says more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from csdf.errors import InvalidPlan, UnreadableFile
from csdf.io.json_value import JsonValue
from csdf.outcome import Status, told
from planners.reuse.deployment.deployment import (
    NUMBERS,
    TEXTS,
    Deployment,
    PlannedBuffer,
    PlannedFiring,
    PlannedPartition,
    PlannedStay,
)

BUFFER_TEXTS = ("name", "network", "producer", "consumer")
BUFFER_NUMBERS = ("input", "offset", "size", "row_bytes")


def format_deployment(deployment: Deployment) -> str:
    """Return a document that reads back as the same deployment; one line a buffer or partition."""
    found = deployment.to_json()
    lines = [
        f"{json.dumps(key)}: {json.dumps(found[key])}" for key in (*TEXTS, *NUMBERS, "parallel")
    ]
    lines += [_list(key, found[key]) for key in ("buffers", "partitions")]
    return "{" + ",\n ".join(lines) + "}\n"


def _list(key: str, values: Sequence[dict[str, Any]]) -> str:
    entries = ",\n  ".join(json.dumps(value) for value in values)
    return f"{json.dumps(key)}: [\n  {entries}]"


def parse_deployment(text: str, name: str) -> Deployment:
    """Return the deployment of a document. Raises UnreadableFile with the place."""
    found = JsonValue.parse(text, name)
    found.require_keys((*TEXTS, *NUMBERS, "parallel", "buffers", "partitions"))
    buffers = tuple(_buffer(one) for one in found["buffers"].items())
    partitions = tuple(_partition(one) for one in found["partitions"].items())
    try:
        return Deployment(
            **_values(found, ("name",), NUMBERS),
            status=_status(found["status"]),
            reason=told(found["reason"].text()),
            parallel=tuple(_texts(group) for group in found["parallel"].items()),
            buffers=buffers,
            partitions=partitions,
        )
    except InvalidPlan as error:
        raise UnreadableFile(f"{name}: {error}") from None


def _status(found: JsonValue) -> Status:
    try:
        return Status(found.text())
    except ValueError:
        raise found.refusal(f"expected one of {', '.join(Status)}") from None


def _buffer(found: JsonValue) -> PlannedBuffer:
    found.require_keys((*BUFFER_TEXTS, *BUFFER_NUMBERS, "in_place", "stays"))
    try:
        return PlannedBuffer(
            **_values(found, BUFFER_TEXTS, BUFFER_NUMBERS),
            in_place=found["in_place"].truth(),
            stays=tuple(_stay(one) for one in found["stays"].items()),
        )
    except InvalidPlan as error:
        raise UnreadableFile(f"{found.where}: {error}") from None


def _stay(found: JsonValue) -> PlannedStay:
    entries = list(found.items())
    if len(entries) != 3:
        raise found.refusal("expected a partition, a first step and a last step")
    partition, first, last = entries
    return PlannedStay(partition=partition.text(), first=first.natural(), last=last.natural())


def _partition(found: JsonValue) -> PlannedPartition:
    found.require_keys(("name", "network", "layers", "firings"))
    firings = tuple(_firing(one) for one in found["firings"].items())
    try:
        return PlannedPartition(
            name=found["name"].text(),
            network=found["network"].text(),
            layers=_texts(found["layers"]),
            firings=firings,
        )
    except InvalidPlan as error:
        raise UnreadableFile(f"{found.where}: {error}") from None


def _firing(found: JsonValue) -> PlannedFiring:
    numbers = found.naturals()
    if len(numbers) != 4:
        raise found.refusal("expected a layer, a phase, a first row and an end row")
    return PlannedFiring(*numbers)


def _values(found: JsonValue, texts: Sequence[str], numbers: Sequence[str]) -> dict[str, Any]:
    return {key: found[key].text() for key in texts} | {
        key: found[key].natural() for key in numbers
    }


def _texts(found: JsonValue) -> tuple[str, ...]:
    return tuple(one.text() for one in found.items())
