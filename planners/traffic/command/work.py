"""The work of `csdf plan traffic`: schedules with little DRAM traffic are searched and told."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.network import Network
from csdf.cli import answers, pictures
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.errors import InvalidPlan
from csdf.outcome import Reason, Status
from csdf.stopping import Progress, Stop
from csdf.words import time_in_words
from planners.traffic.command.answer import Point, as_json, as_text, sweep_as_json, sweep_as_text
from planners.traffic.command.main import LONGEST, PUBLISHED
from planners.traffic.layer_text import is_layer_text, layers_from_text, single_layer
from planners.traffic.network_traffic import NetworkSearch, NetworkTraffic
from planners.traffic.published.network import PublishedSearch


def work(options: argparse.Namespace) -> int:
    """Print the traffic; return the exit code: 1 if a layer does not fit the buffer."""
    begin = time.perf_counter()
    kind = PublishedSearch if options.accounting == PUBLISHED else NetworkSearch
    search = kind(_network(options), options.element_bytes)
    stop = stop_after(options.budget, _in_words)
    try:
        points = list(_points(search, options, stop))
    except InvalidPlan as error:
        print(f"csdf plan traffic: infeasible: {error}", file=sys.stderr)
        return answers.NO
    asked = next((one for one in points if one.buffer_bytes == options.buffer), None)
    seconds = time.perf_counter() - begin
    _print(points, asked, seconds, options)
    if options.plot:
        _plot(options.plot, points, asked, options)
    _remark(points)
    return answers.ANSWERED


def _points(search: NetworkSearch, options: argparse.Namespace, stop: Stop) -> Iterator[Point]:
    """The answers for each buffer; after an early end what fuses more is what was found so far."""
    ended: Reason | None = None
    for size in _buffers(options):
        by_way: dict[str, NetworkTraffic] = {}
        for way in _ways(options.fuse):
            if ended is not None:
                found = next(reversed(by_way.values()), None) or search.best(
                    size, 1, Stop(steps=0, reason=ended)
                )
                by_way[way] = replace(found, status=Status.FEASIBLE, reason=ended)
                continue
            by_way[way] = search.best(size, LONGEST[way], stop)
            ended = by_way[way].reason if by_way[way].status is Status.FEASIBLE else None
        yield Point(size, by_way)


def _in_words(progress: Progress) -> str:
    return f"{progress.done} of {progress.total} layers"


def _print(
    points: Sequence[Point], asked: Point | None, seconds: float, options: argparse.Namespace
) -> None:
    found = None if asked is None else asked.by_way[options.fuse]
    if options.json:
        answer = {} if found is None else as_json(found, shows_nest=options.nest)
        if options.sweep:
            answer["sweep"] = sweep_as_json(points)
        print(json.dumps({**answer, "seconds": round(seconds, 6)}, indent=2))
        return
    lines = []
    if found is not None:
        alone = None if asked is None else asked.by_way["1"]
        lines += as_text(found, alone, shows_nest=options.nest)
    if options.sweep:
        lines += sweep_as_text(points)
    print(answers.one_text([*lines, f"  time                {time_in_words(seconds)}"]))


def _remark(points: Sequence[Point]) -> None:
    """Say where the search ended early."""
    remarks = dict.fromkeys(
        f"{point.buffer_bytes} bytes: {found.status}: {found.reason}"
        for point in points
        for found in point.by_way.values()
        if found.status == Status.FEASIBLE
    )
    for remark in remarks:
        print(f"csdf plan traffic: {remark}", file=sys.stderr)


def _buffers(options: argparse.Namespace) -> list[int]:
    """The sizes to answer for, each once, in order."""
    sizes = set() if options.buffer is None else {options.buffer}
    if options.sweep:
        size, last = options.sweep
        sizes.add(last)
        while size < last:
            sizes.add(size)
            size *= 2
    return sorted(sizes)


def _ways(fuse: str) -> list[str]:
    """Return what is answered for: what was asked for, and all that fuses less."""
    ways = list(LONGEST)
    return ways[: ways.index(fuse) + 1]


def _network(options: argparse.Namespace) -> Network:
    if is_layer_text(options.model):
        network = layers_from_text(options.model)
    else:
        network = chosen.read(options).network
    return network if options.layer is None else single_layer(network, options.layer)


def _plot(
    path: str, points: Sequence[Point], asked: Point | None, options: argparse.Namespace
) -> None:
    draw = pictures.drawing("planners.traffic.command.picture")
    suffix = pictures.suffix_of(path)
    if options.sweep or asked is None:
        picture = draw.sweep_picture(
            f"{options.model}: DRAM traffic over buffer",
            [one.buffer_bytes for one in points],
            {way: [one.by_way[way].total_bytes for one in points] for way in _ways(options.fuse)},
            points[0].by_way["1"].bound_bytes,
            suffix,
        )
    else:
        found: NetworkTraffic = asked.by_way[options.fuse]
        picture = draw.bars_picture(
            f"{options.model}: DRAM traffic with a buffer of {options.buffer} bytes",
            [
                draw.TrafficBar(
                    f"{one.stages[0].layers[0]} .. {one.stages[-1].name}"
                    if len(one.stages) > 1
                    else one.stages[0].layers[0],
                    one.input_bytes,
                    one.weight_bytes,
                    one.output_bytes,
                    one.border_bytes,
                    one.bound_bytes,
                )
                for one in found.groups
            ],
            suffix,
        )
    output.write("csdf plan traffic", path, picture)
