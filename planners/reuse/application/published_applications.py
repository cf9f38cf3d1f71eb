"""The applications of the published evaluation, from a table of network files and layer numbers.

    {"application 3": {"networks": ["mobilenetv2"],
                       "partitions": {"mobilenetv2": [[0, 5], [6, 63]]},
                       "parallel": [["mobilenetv2"]]}}

Networks are files "json/NAME.json" beside the table. Partitions are ranges of layers, first and last,
numbered in order; those of the networks of one entry of "parallel" run at the same time. Layers that a
file does not state, where frames come in and results go out, are outside of the accounting.

The network as the published tool counts it; for comparison with its tables only.

A graph with these rates need not be able to run: its rates are those printed in Algorithm 1 of SAMOS
2020, clipped to the input. Three things differ from the row rule of `cnn2csdf.rows`:

    padding      is ignored: the first phase of a window takes as many rows as the kernel has
    stride       a window that skips rows moves by its kernel; what is left comes with the last phase
    parameters   normalisations have none

Source: Minakova and Stefanov, SAMOS 2020, Algorithm 1, and TODAES 28(1), 2022, Table 6.6 of the
thesis.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network
from cnn2csdf.readers.json_networks import parse_description, parse_json_network
from csdf.errors import InvalidNetwork, UnreadableFile
from csdf.io.files import decoded, read_found, read_text
from csdf.io.json_value import JsonValue
from planners.reuse.application.application import Application, Member, Partition

OPTIONAL = ("partitions", "parallel", "note")


def published_applications(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the names of the applications in a table."""
    return tuple(key for key in _table(path).value if not key.startswith("_"))


def read_published_application(path: str | os.PathLike[str], name: str) -> Application:
    """Return one application of a table; contradictions in network files are repaired.

    Raises UnreadableFile or InvalidNetwork, with the place.
    """
    table = _table(path)
    if name not in published_applications(path):
        raise UnreadableFile(f"{path}: there is no application {name!r}")
    found = table[name]
    found.require_keys(("networks",), OPTIONAL)
    members = tuple(_member(one, found, Path(path).parent) for one in found["networks"].items())
    partitions = {member.name: [one.name for one in member.partitions] for member in members}
    try:
        return Application(name=name, members=members, parallel=tuple(_parallel(found, partitions)))
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{found.where}: {error}") from None


def _table(path: str | os.PathLike[str]) -> JsonValue:
    table = JsonValue.parse(read_text(path), os.fspath(path))
    if type(table.value) is not dict:
        raise table.refusal("expected an object")
    return table


def _member(found: JsonValue, application: JsonValue, folder: Path) -> Member:
    file = folder / "json" / f"{found.text()}.json"
    text = decoded(read_found(file), str(file))
    network = parse_json_network(text, str(file), repair=True)
    stated = [layer.name for layer in parse_description(text, str(file)).layers]
    outside = frozenset(layer.name for layer in network.layers).difference(stated)
    partitions = tuple(_partitions(application, found.text(), network.name, stated))
    try:
        return Member(network=network, partitions=partitions, outside=outside)
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{application.where}: {error}") from None


def _partitions(
    application: JsonValue, key: str, name: str, layers: list[str]
) -> Iterator[Partition]:
    ranges = application["partitions"] if "partitions" in application.value else None
    if ranges is None or key not in ranges.value:
        yield Partition(name=name, layers=tuple(layers))
        return
    for number, one in enumerate(ranges[key].items(), start=1):
        ends = one.naturals()
        if len(ends) != 2 or not ends[0] <= ends[1] < len(layers):
            raise one.refusal(f"expected the first and the last of {len(layers)} layers, from 0")
        yield Partition(name=f"{name}/{number}", layers=tuple(layers[ends[0] : ends[1] + 1]))


def _parallel(application: JsonValue, partitions: dict[str, list[str]]) -> Iterator[frozenset[str]]:
    if "parallel" not in application.value:
        return
    for group in application["parallel"].items():
        names = [one.text() for one in group.items()]
        for name in names:
            if name not in partitions:
                raise group.refusal(f"expected networks of the application, not {name!r}")
        yield frozenset(one for name in names for one in partitions[name])


def as_published(application: Application) -> Application:
    """Return the application with the rates and parameters of the published accounting."""
    members = tuple(
        replace(member, network=published_rates(member.network)) for member in application.members
    )
    return replace(application, members=members)


def published_rates(network: Network) -> Network:
    """Return the network whose layers read as printed; shapes stay as they are."""
    return Network(name=network.name, layers=tuple(_layer(layer) for layer in network.layers))


def _layer(layer: Layer) -> Layer:
    epilogue = tuple(one for one in layer.epilogue if not isinstance(one, op.BatchNormalization))
    return replace(layer, operator=_operator(layer.operator), epilogue=epilogue)


def _operator(operator: op.Operator) -> op.Operator:
    match operator:
        case op.BatchNormalization():
            return op.Identity(kind="batch normalization")
        case op.Convolution(window=window) | op.Pooling(window=window):
            return replace(operator, window=_window(window))
    return operator


def _window(window: op.Window) -> op.Window:
    rows, columns = window.extent
    down, across = window.stride
    return replace(window, padding=(0, 0, 0, 0), stride=(min(rows, down), min(columns, across)))
