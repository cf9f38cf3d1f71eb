"""TODAES 2022 as printed: its applications, rates and accounting, methodologies, Algorithm 9's choice.

A table of applications names network files and layer numbers:

    {"application 3": {"networks": ["mobilenetv2"],
                       "partitions": {"mobilenetv2": [[0, 5], [6, 63]]},
                       "parallel": [["mobilenetv2"]]}}

Networks are files "json/NAME.json" beside the table. Partitions are ranges of layers, first and last,
numbered in order; the partitions of the networks in one entry of "parallel" run at the same time.
Inputs and outputs, which the file of a network does not state, do not count.

`as_published` is the application as the published tool counts it, for comparison with its tables only:
a graph with these rates may not be executable. They are the rates of Algorithm 1 of SAMOS 2020, clipped
to the input. They differ from the row rule of `cnn2csdf.rows` in three points:

    padding      is ignored: the first phase of a window reads the rows of the whole kernel
    stride       a window that skips rows moves by its kernel; the last phase reads the remaining rows
    parameters   normalisations have none

The paper does not state the second point. `keeps_stride` is the alternative: a window moves by its
stride. With moves by the kernel, [65] needs 173.38 MB for application 6 and our search 157.53; with
moves by the stride 168.45 and 154.78. The paper prints 184 and 155.

Source: Minakova and Stefanov, SAMOS 2020, Algorithm 1, and Memory-Throughput Trade-off for CNN-based
Applications at the Edge, ACM TODAES 28(1), 2022, Table 6.6 and Algorithm 9 of the thesis. Algorithm 8
is in `planners.reuse.edge_buffers`, Algorithm 10 in `planners.reuse.evaluation`, the evolution in
`nsga2`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network
from cnn2csdf.readers.json_networks import parse_description, parse_json_network
from csdf.errors import InvalidNetwork, UnreadableFile
from csdf.io.files import decoded, read_found, read_text
from csdf.io.json_value import JsonValue
from planners.reuse.application import (
    WHOLE,
    Application,
    ApplicationNetwork,
    Partition,
    without_parallelism,
)
from planners.reuse.edge_buffers import elements_of, shared_buffers
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.problem import Point
from planners.reuse.selection import Constraints

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
    table_read = table[name]
    table_read.require_keys(("networks",), OPTIONAL)
    members = tuple(
        _member(network, table_read, Path(path).parent)
        for network in table_read["networks"].items()
    )
    partitions = {
        member.name: [partition.name for partition in member.partitions] for member in members
    }
    parallel = []
    for group in table_read["parallel"].items() if "parallel" in table_read.value else ():
        names = [name.text() for name in group.items()]
        for member_name in names:
            if member_name not in partitions:
                raise group.refusal(f"expected networks of the application, not {member_name!r}")
        parallel.append(frozenset(part for name in names for part in partitions[name]))
    try:
        return Application(name=name, members=members, parallel=tuple(parallel))
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{table_read.where}: {error}") from None


def _table(path: str | os.PathLike[str]) -> JsonValue:
    table = JsonValue.parse(read_text(path), os.fspath(path))
    if type(table.value) is not dict:
        raise table.refusal("expected an object")
    return table


def _member(found: JsonValue, application: JsonValue, folder: Path) -> ApplicationNetwork:
    file = folder / "json" / f"{found.text()}.json"
    text = decoded(read_found(file), str(file))
    network = parse_json_network(text, str(file), repair=True)
    stated = [layer.name for layer in parse_description(text, str(file)).layers]
    outside = frozenset(layer.name for layer in network.layers).difference(stated)
    partitions = tuple(_partitions(application, found.text(), network.name, stated))
    try:
        return ApplicationNetwork(network=network, partitions=partitions, outside=outside)
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{application.where}: {error}") from None


def _partitions(
    application: JsonValue, key: str, name: str, layers: list[str]
) -> Iterator[Partition]:
    ranges = application["partitions"] if "partitions" in application.value else None
    if ranges is None or key not in ranges.value:
        yield Partition(name=name, layers=tuple(layers))
        return
    for number, range_read in enumerate(ranges[key].items(), start=1):
        ends = range_read.naturals()
        if len(ends) != 2 or not ends[0] <= ends[1] < len(layers):
            raise range_read.refusal(
                f"expected the first and the last of {len(layers)} layers, from 0"
            )
        yield Partition(name=f"{name}/{number}", layers=tuple(layers[ends[0] : ends[1] + 1]))


def as_published(application: Application, *, keeps_stride: bool = False) -> Application:
    """Return the application with the rates and parameters of the published accounting.

    Shapes stay as they are. keeps_stride: windows that skip rows move by their stride, not by their
    kernel.
    """
    members = []
    for member in application.members:
        layers = tuple(_layer(layer, keeps_stride=keeps_stride) for layer in member.network.layers)
        network = Network(name=member.network.name, layers=layers)
        members.append(replace(member, network=network))
    return replace(application, members=tuple(members))


def _layer(layer: Layer, *, keeps_stride: bool) -> Layer:
    operator, window = layer.operator, layer.operator.sliding_window
    epilogue = tuple(step for step in layer.epilogue if not step.scales_channels(layer.shape))
    if operator.scales_channels(layer.shape):
        operator = op.Identity(kind="batch normalization")
    elif window is not None:
        rows, columns = window.extent
        down, across = window.stride
        stride = (down, across) if keeps_stride else (min(rows, down), min(columns, across))
        operator = operator.with_window(replace(window, padding=(0, 0, 0, 0), stride=stride))
    return replace(layer, operator=operator, epilogue=epilogue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Bytes of buffers by methodology, and of weights, which are in none of them.

    no_reduction: a buffer for each edge, double where it is cut. reuse_only: whole buffers shared
    within one network, without pipelines and other networks ([76] of the thesis). pipelined_reuse: the
    same within the whole application, with its pipelines. parts_only: all layers are executed row by
    row, nothing is shared ([65]). parts_and_reuse: both, by rows everywhere, which is one chromosome of
    many.
    """

    weights: int
    no_reduction: int
    reuse_only: int
    pipelined_reuse: int
    parts_only: int
    parts_and_reuse: int


def comparison(
    application: Application, costs: Costs | None = None, *, known: Evaluator | None = None
) -> Comparison:
    """Return what each methodology needs.

    known: an evaluator of the same application and costs; what it has evaluated is used again.
    """
    evaluator = known or Evaluator(application, costs)
    unit = evaluator.costs.element_bytes
    layers = len(application.layers)
    (whole, shared_whole), (parts, shared_parts) = (
        evaluator.buffers((gene,) * layers, share=shared_buffers) for gene in (WHOLE, 1)
    )
    within = 0
    for member in without_parallelism(application).members:
        alone = Evaluator(Application(name=member.name, members=(member,)))
        within += elements_of(alone.buffers((WHOLE,) * len(member.layers))[1])
    return Comparison(
        weights=evaluator.weights,
        no_reduction=sum(whole) * unit,
        reuse_only=within * unit,
        pipelined_reuse=elements_of(shared_whole) * unit,
        parts_only=sum(parts) * unit,
        parts_and_reuse=elements_of(shared_parts) * unit,
    )


class Chosen(Enum):
    """By which step of Algorithm 9 a point was taken."""

    AT_ONCE = "all layers whole, with Algorithm 8's buffers, meet the limit: no search was needed"
    LEAST_FEASIBLE = "minimum memory of the plans that meet the constraints"
    LEAST = (
        "no plan found meets the constraints; the minimum memory of all plans, as in Algorithm 9"
    )


def selected_as_published(
    application: Application, whole: Point, points: Sequence[Point], constraints: Constraints
) -> tuple[Point, Chosen]:
    """Return the point that Algorithm 9 takes, and by which step; there always is one.

    whole: all layers whole, which is taken without a look at throughput where its memory is enough.
    Else the least memory of the points that meet the constraints, or of all points if none does. Table
    6.6 of the thesis has rows that were chosen by a different rule: see `planners.reuse.selection`.
    """
    if constraints.memory is not None and whole.memory <= constraints.memory:
        return whole, Chosen.AT_ONCE
    feasible = constraints.met_by(application, points)
    step = Chosen.LEAST_FEASIBLE if feasible else Chosen.LEAST
    return min(feasible or points, key=lambda point: (point.memory, point.time)), step
