"""`csdf plan traffic`: least DRAM traffic of layers that share a buffer on the chip."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.network import Network
from csdf.cli import answers, parsers, pictures
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.errors import InvalidPlan
from csdf.outcome import Reason, Status
from csdf.stopping import Progress, Stop
from csdf.words import time_in_words
from planners.traffic.command.answer import Point, as_json, as_text, sweep_as_json, sweep_as_text
from planners.traffic.layer_text import is_layer_text, layers_from_text, single_layer
from planners.traffic.network_traffic import NetworkSearch, NetworkTraffic
from planners.traffic.published.network import PublishedSearch

PUBLISHED = "published"
LONGEST: dict[str, int | None] = {"1": 1, "2": 2, "chain": None}  # stages of a group, by --fuse


def main(argv: Sequence[str]) -> int:
    """Print the traffic; return the exit code: 1 if a layer does not fit the buffer."""
    parser = command_parser()
    options = parser.parse_args(argv)
    if options.buffer is None and options.sweep is None:
        parser.error("give --buffer, --sweep or both")
    if options.accounting == PUBLISHED and options.fuse == "chain":
        parser.error("--accounting published knows pairs of layers at most; give --fuse 1 or 2")
    options.fuse = options.fuse or ("2" if options.accounting == PUBLISHED else "chain")
    pictures.require_drawing(options.plot)
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


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf plan traffic",
        "The least that layers read from and write to DRAM, with a buffer on the chip "
        "of a given size: each layer alone, pairs of layers that keep what is between them in the "
        "buffer, or groups of any length. Of a layer it finds the best of the loop nests with one or "
        "two levels of tiles; of a group the best of the even cuts, with borders kept, sent to DRAM "
        "or computed again, and weights that stay. Other schedules may move less, but none moves "
        "less than the lower bound that stands beside every answer.",
        "csdf plan traffic resnet8 --buffer 64KiB --fuse 2",
        notes="Sizes: KiB is 1024 bytes, as for memories on chips; kB is 1000, MB "
        "1,000,000, MiB 2^20. MODEL may also be layers in words: "
        "conv:56x56x64,64,3x3,stride=1,pad=1 is a convolution of 56 rows x 56 columns x 64 maps "
        "with 64 filters of 3x3; dilation=2 and groups=64 too; more layers follow behind a "
        "plus: +conv:64,3x3,pad=1+pool:2x2,stride=2.",
        conflict_handler="resolve",  # --fuse is about layers here, not about simplifying them
    )
    shared.add_model_options(parser)
    parser.add_argument("--buffer", type=answers.size, metavar="SIZE", help="e.g. 512KiB, 65536")
    parser.add_argument(
        "--sweep",
        type=_range,
        metavar="FROM:TO",
        help="buffers from one size, doubled, to another, e.g. 32KiB:4MiB",
    )
    parser.add_argument(
        "--fuse",
        choices=tuple(LONGEST),
        help="layers that may share the buffer: 1, each alone; 2, pairs; chain, groups of any length, "
        "with branches that part and join; default chain, and 2 as published",
    )
    parser.add_argument(
        "--accounting",
        choices=("own", PUBLISHED),
        default="own",
        help="own (default): each byte that crosses; published: by the formulas of Liao et al., "
        "T = T_I + T_W + 2 T_O for a layer, T_I + T_W and T_W + 2 T_O for a pair of convolutions, "
        "with input that tiles share read again, borders between parts sent to DRAM and all "
        "weights once for each part",
    )
    parser.add_argument("--layer", metavar="NAME", help="this layer of the model alone")
    shared.add_element_bytes_option(parser, is_by_tensor=True)
    parser.add_argument("--nest", action="store_true", help="the loops of every layer and group")
    parsers.add_budget_option(parser, "for the search; then the best plan by then")
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "each group as bars, or with --sweep traffic over buffers,")
    return parser


def _range(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of sizes such as 32KiB:4MiB")
    found = answers.size(first), answers.size(last)
    if not 0 < found[0] <= found[1]:
        raise argparse.ArgumentTypeError(f"{text!r} does not rise from above zero")
    return found


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
