"""`csdf plan traffic`: searches schedules with little DRAM traffic and prints them as text or JSON.

--fusion none, pairs, groups allow more and more layers in a group. The requested value is answered, and
each value before it. A point is the size of a buffer with these answers; --sweep prints several points.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.network import Network
from csdf.cli import answers, loading
from csdf.cli.frame import output, terminal
from csdf.cli.frame.long_work import stop_after
from csdf.errors import InvalidPlan
from csdf.status import Ended, Reason, Status
from csdf.time_limit import Progress, Stop
from csdf.units import bytes_in_words, size_as_given, time_in_words
from planners.published.liao import PublishedSearch, PublishedWhy
from planners.traffic.command.main import LONGEST, PUBLISHED, TITLES
from planners.traffic.layer_text import is_layer_text, layers_from_text, single_layer
from planners.traffic.network_traffic import GroupTraffic, NetworkSearch, NetworkTraffic

PROGRAM = "csdf plan traffic"
COLUMNS = ("input", "weights", "output", "halo", "total", "bound", "ratio")
PARTS = {"input": "input", "weight": "weights", "output": "output", "halo": "halo"}  # in words

ByFusion = Mapping[str, NetworkTraffic]
Points = Mapping[int, ByFusion]  # by the bytes of the buffer, in ascending order


def work(options: argparse.Namespace) -> int:
    """Print the traffic; return the exit code: 1 if a layer does not fit the buffer."""
    begin = time.perf_counter()
    kind = PublishedSearch if options.accounting == PUBLISHED else NetworkSearch
    search = kind(_network(options), options.element_bytes)
    stop = stop_after(options.time_limit, _in_words, effort=options.effort)
    try:
        points = dict(_points(search, options, stop))
    except InvalidPlan as error:
        output.refusal(PROGRAM, f"infeasible: {error}")
        return answers.NO
    seconds = time.perf_counter() - begin
    _print(points, seconds, options)
    if options.plot:
        _plot(options.plot, points, options)
    _remark(points)
    is_unknown = _is_cut_short(points) and not options.best_effort
    return answers.UNKNOWN if is_unknown else answers.ANSWERED


def _is_cut_short(points: Points) -> bool:
    """Whether the clock ended a search; the answer depends on the load then."""
    return any(
        traffic.reason.has(Ended.TIME_LIMIT)
        for by_fusion in points.values()
        for traffic in by_fusion.values()
    )


def _points(
    search: NetworkSearch, options: argparse.Namespace, stop: Stop
) -> Iterator[tuple[int, ByFusion]]:
    """Yield the answers for each buffer.

    After an early end wider fusions repeat the answer of the same buffer, and larger buffers are
    answered layer by layer, without a search. A sweep omits buffers that are too small, with a remark.
    Raises InvalidPlan if --buffer, or the largest buffer, is too small.
    """
    ended: Reason | None = None  # of the search for this buffer, or for a smaller one
    sizes = _buffers(options)
    for size in sizes:
        by_fusion: dict[str, NetworkTraffic] = {}
        try:
            for fusion in _fusions(options.fusion):
                if ended is None:
                    traffic = search.best(size, LONGEST[fusion], stop)
                    ended = traffic.reason if traffic.status is Status.FEASIBLE else None
                elif not by_fusion:
                    quick = search.best(size, 1, Stop(steps=0, reason=ended))
                    traffic = replace(quick, status=Status.FEASIBLE, reason=ended)
                by_fusion[fusion] = traffic
        except InvalidPlan as error:
            if size in (options.buffer, sizes[-1]):
                raise
            output.refusal(PROGRAM, f"{size} bytes: infeasible: {error}")
        else:
            yield size, by_fusion


def _in_words(progress: Progress) -> str:
    return f"{progress.done} of {progress.total} layers"


def _print(points: Points, seconds: float, options: argparse.Namespace) -> None:
    by_fusion = points.get(options.buffer, {})
    traffic = by_fusion.get(options.fusion)
    if options.json:
        answer = {} if traffic is None else as_json(traffic, shows_nest=options.nest)
        if options.sweep:
            answer["sweep"] = sweep_as_json(points)
        print(json.dumps({**answer, "seconds": round(seconds, 6)}, indent=2))
        return
    lines = []
    if traffic is not None:
        alone = None if options.fusion == "none" else by_fusion["none"]
        lines += as_text(traffic, alone, shows_nest=options.nest)
    if options.sweep:
        lines += sweep_as_text(points)
    if _is_cut_short(points):
        if traffic is None:
            lines = [f"{options.model}: the points found by then", *lines]
        lines[0] = answers.cut_short(lines[0])
    lines.append(answers.Detail(f"  time                {time_in_words(seconds)}"))
    print(answers.in_words(lines, options))


def _remark(points: Points) -> None:
    """Say where the search ended early."""
    remarks = dict.fromkeys(
        f"{buffer_bytes} bytes: {traffic.status}: {traffic.reason}"
        for buffer_bytes, by_fusion in points.items()
        for traffic in by_fusion.values()
        if traffic.status == Status.FEASIBLE
    )
    for remark in remarks:
        output.refusal(PROGRAM, remark)


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


def _fusions(last: str) -> list[str]:
    """Return the values of --fusion up to the one that is requested."""
    names = list(LONGEST)
    return names[: names.index(last) + 1]


def _network(options: argparse.Namespace) -> Network:
    if is_layer_text(options.model):
        network = layers_from_text(options.model)
    else:
        network = chosen.read(options).network
    return network if options.layer is None else single_layer(network, options.layer)


def _plot(path: str, points: Points, options: argparse.Namespace) -> None:
    draw = loading.drawing("planners.traffic.command.picture")
    suffix = loading.suffix_of(path)
    requested = points.get(options.buffer)
    if options.sweep or requested is None:
        picture = draw.sweep_picture(
            f"{options.model}: DRAM traffic over buffer",
            list(points),
            {
                fusion: [by_fusion[fusion].total_bytes for by_fusion in points.values()]
                for fusion in _fusions(options.fusion)
            },
            _bound(points),
            suffix,
        )
    else:
        picture = draw.bars_picture(
            f"{options.model}: DRAM traffic with a buffer of {options.buffer} bytes",
            [
                draw.TrafficBar(
                    group_name(group),
                    group.input_bytes,
                    group.weight_bytes,
                    group.output_bytes,
                    group.halo_bytes,
                    group.bound_bytes,
                )
                for group in requested[options.fusion].groups
            ],
            suffix,
        )
    output.write(PROGRAM, path, picture)


def _bound(points: Points) -> int:
    """Bytes that no schedule moves less than, with any buffer and any fusion."""
    first_buffer = next(iter(points.values()))
    return first_buffer["none"].bound_bytes


def as_text(
    traffic: NetworkTraffic, alone: NetworkTraffic | None, *, shows_nest: bool
) -> list[str]:
    """Return a line for each group and for the network.

    alone: the traffic layer by layer, where `traffic` is with fusion.
    """
    names = [group_name(group) for group in traffic.groups]
    rows = [
        [name, *_row(group), group.in_short()]
        for name, group in zip(names, traffic.groups, strict=True)
    ]
    table = [["kB", *COLUMNS, "tiling"], *rows]
    fused = sum(len(group.stages) > 1 for group in traffic.groups)
    lines = [
        f"{traffic.name}: {bytes_in_words(traffic.total_bytes)} of DRAM traffic, "
        f"{_ratio(traffic.total_bytes, traffic.bound_bytes)} the lower bound, in a buffer of "
        f"{size_as_given(traffic.buffer_bytes)}; {_status(traffic)}",
        *terminal.aligned(table, texts=(0, len(COLUMNS) + 1), indent="  "),
    ]
    for name, group in zip(names, traffic.groups, strict=True) if shows_nest else ():
        lines += [f"  {name}", *(f"      {line}" for line in group.listing().splitlines())]
    lines += [
        f"  traffic             {bytes_in_words(traffic.total_bytes)} ({traffic.total_bytes} bytes): "
        + ", ".join(
            f"{bytes_in_words(traffic.parts[part])} {word}" for part, word in PARTS.items()
        ),
        f"  lower bound         {bytes_in_words(traffic.bound_bytes)}: inputs, weights and outputs "
        "of the network once, in any schedule",
        answers.Detail(f"  groups              {len(traffic.groups)}, {fused} of several layers"),
        answers.Detail(
            f"  buffer              {traffic.buffer_bytes} bytes, {_element_bytes(traffic)}"
        ),
    ]
    if alone is not None:
        lines.append(
            f"  layer by layer      {bytes_in_words(alone.total_bytes)}, "
            f"{_ratio(alone.total_bytes, traffic.total_bytes)} the traffic with fusion"
        )
    return lines


def _element_bytes(traffic: NetworkTraffic) -> str:
    """How large elements are."""
    if traffic.element_bytes is not None:
        return f"{answers.counted(traffic.element_bytes, 'byte')} an element"
    return f"{' or '.join(map(str, traffic.element_sizes))} bytes an element, as in the file"


def _status(traffic: NetworkTraffic) -> str:
    """Return what is proved, with the schedules that were searched."""
    if traffic.reason.has(PublishedWhy.LEAST):
        return "optimal as published, among loop nests with halos reloaded and uniform tilings of pairs"
    if traffic.status == Status.OPTIMAL:
        return "optimal among loop nests with up to two levels of tiles, and uniform tilings"
    return traffic.status


def group_name(group: GroupTraffic) -> str:
    """Return the first and the last layer of a group."""
    layers = [name for stage in group.stages for name in stage.layers]
    return layers[0] if len(layers) == 1 else f"{layers[0]} .. {layers[-1]}"


def _row(group: GroupTraffic) -> list[str]:
    sizes = (
        group.input_bytes,
        group.weight_bytes,
        group.output_bytes,
        group.halo_bytes,
        group.total_bytes,
        group.bound_bytes,
    )
    return [*(f"{size / 1000:.1f}" for size in sizes), _ratio(group.total_bytes, group.bound_bytes)]


def _ratio(number: int, divisor: int) -> str:
    return f"{number / divisor:.3f}x" if divisor else "-"


def sweep_as_text(points: Points) -> list[str]:
    """Return a line a buffer, with the traffic of each --fusion and how far that is above the bound."""
    head = "  ".join(f"{TITLES[fusion]:>24}" for fusion in next(iter(points.values())))
    lines = [f"  {'buffer':>12}  {head}"]
    for buffer_bytes, by_fusion in points.items():
        cells = [
            f"{traffic.total_bytes} ({_ratio(traffic.total_bytes, traffic.bound_bytes)})"
            for traffic in by_fusion.values()
        ]
        lines.append(f"  {buffer_bytes:>12}  " + "  ".join(f"{cell:>24}" for cell in cells))
    return [*lines, f"  bytes, and ratio to the lower bound of {_bound(points)} bytes"]


def as_json(traffic: NetworkTraffic, *, shows_nest: bool) -> dict[str, Any]:
    """Return all of the answer."""
    groups = [
        group.to_json()
        | {"schedule": group.in_short()}
        | ({"nest": group.listing().splitlines()} if shows_nest else {})
        for group in traffic.groups
    ]
    return {**traffic.to_json(), "groups": groups}


def sweep_as_json(points: Points) -> list[dict[str, Any]]:
    """Return the traffic of each --fusion with each buffer."""
    bound = _bound(points)
    return [
        {
            "buffer_bytes": buffer_bytes,
            "bound_bytes": bound,
            **{f"{fusion}_bytes": traffic.total_bytes for fusion, traffic in by_fusion.items()},
        }
        for buffer_bytes, by_fusion in points.items()
    ]
