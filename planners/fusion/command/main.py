"""`csdf plan fusion`: groups of layers and tiles under a memory limit."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.durations import PLATFORMS
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.whole import run_layers
from cnn2csdf.parameters import layer_parameters
from cnn2csdf.weights import Model
from csdf.cli import answers, parsers, pictures
from csdf.errors import UnwritableFile
from csdf.io.files import write_text
from planners.formats.c_header import format_header
from planners.fusion.chains import chain_of, layer_range
from planners.fusion.choices import Terms
from planners.fusion.command.answer import Check, as_json, as_text
from planners.fusion.configurations import Way
from planners.fusion.execution import run_fused
from planners.fusion.memory import Scratch
from planners.fusion.plan_text import format_fusion_plan
from planners.fusion.planning import best_plan
from planners.fusion.plans import FusionAnswer, FusionPlan
from planners.plan import FEASIBLE, GAVE_UP


def _header(plan: FusionPlan) -> str:
    return format_header([plan.arena])


FORMATS = {"json": format_fusion_plan, "h": _header}


def main(argv: Sequence[str]) -> int:
    """Print the plan; return the exit code: 1 if none fits or a run differs, 3 if it gave up."""
    parser = command_parser()
    options = parser.parse_args(argv)
    if options.memory is None and not options.front:
        parser.error("give --memory, --front or both")
    pictures.require_drawing(options.plot)
    if options.output and pictures.suffix_of(options.output) not in FORMATS:
        raise UnwritableFile(f"{options.output}: expected .json, or .h for C")
    begin = time.perf_counter()
    model = _model(options)
    chain = chain_of(model.network)
    terms = _terms(options)
    weights = sum(layer_parameters(model.network).values())
    limit = options.memory if options.memory is not None else sys.maxsize
    limit -= weights * options.element_bytes if options.with_weights else 0
    answer = best_plan(chain, terms, limit, answers.watch("groups", options.budget))
    check = None
    if options.verify and answer.plan is not None:
        check = _verified(model, answer.plan, options.seed)
    seconds = time.perf_counter() - begin
    if options.json:
        print(json.dumps(as_json(answer, check, seconds, options), indent=2))
    else:
        print(as_text(model, answer, check, seconds, options))
    if options.plot:
        _plot(options.plot, answer, options)
    if options.output:
        _write(options.output, answer.plan)
    return _exit_code(answer, check)


def _write(path: str, plan: FusionPlan | None) -> None:
    if plan is None:
        print(f"csdf plan fusion: {path} is not written: there is no plan", file=sys.stderr)
    else:
        write_text(path, FORMATS[pictures.suffix_of(path)](plan))


def _exit_code(answer: FusionAnswer, check: Check | None) -> int:
    if check is not None and not check.is_equal:
        return answers.NO
    if answer.plan is None:
        print(f"csdf plan fusion: {answer.status}: {answer.reason}", file=sys.stderr)
        return answers.GAVE_UP if answer.status == GAVE_UP else answers.NO
    if answer.status == FEASIBLE:
        print(f"csdf plan fusion: {answer.status}: {answer.reason}", file=sys.stderr)
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf plan fusion",
        "Cut a network into groups of layers, and each group into tiles or rows, such "
        "that all maps, tiles and scratch fit a memory; of what fits, the fastest by the platform's "
        "figures. Exact over all cuts, even grids, recomputed or kept overlaps, and row streaming.",
        "csdf plan fusion resnet8 --memory 150kB --verify",
        "csdf plan fusion resnet8 --front --plot front.svg",
        notes="Sizes: MB is 1,000,000 bytes and MiB 2^20 (what MAFAT calls MB); kB, KiB, GB, GiB "
        "and plain bytes too.",
    )
    shared.add_model_options(parser, simplify=shared.ALL_STEPS)
    parser.add_argument(
        "--memory", type=answers.size, metavar="SIZE", help="of the arena, e.g. 64MB, 16MiB"
    )
    parser.add_argument(
        "--with-weights", action="store_true", help="the limit holds for arena and weights together"
    )
    parser.add_argument(
        "--layers", type=_layers, metavar="FIRST:END", default=(0, None), help="only these, from 0"
    )
    parser.add_argument("--front", action="store_true", help="all pairs of memory and time")
    parser.add_argument(
        "--verify", action="store_true", help="run the plan in its arena, compare with the whole"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", default=0, help="of frame and random weights"
    )
    parser.add_argument(
        "--tiles",
        type=answers.positive,
        metavar="N",
        default=5,
        help="most along a side; default 5",
    )
    parser.add_argument(
        "--ways",
        type=_ways,
        metavar="WAY,..",
        default=frozenset(Way),
        help=f"what groups may do, of {','.join(way.value for way in Way)}; default all",
    )
    parser.add_argument(
        "--scratch",
        choices=[one.value for one in Scratch],
        default=Scratch.IM2COL.value,
        help="of convolutions; default im2col, as in Darknet",
    )
    parser.add_argument(
        "--platform", choices=PLATFORMS, default="jetson-tx2", help="default: jetson-tx2"
    )
    shared.add_element_bytes_option(parser)
    parsers.add_budget_option(parser, "for the search; then the fastest plan by then")
    parsers.add_output_option(
        parser, "the plan: .json, or its offsets as constants for C (.h)", required=False
    )
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the front")
    return parser


def _layers(text: str) -> tuple[int, int | None]:
    first, colon, upto = text.partition(":")
    if not colon or not (first or "0").isdigit() or not (upto or "0").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 0:16")
    return int(first or "0"), int(upto) if upto else None


def _ways(text: str) -> frozenset[Way]:
    known = {way.value: way for way in Way}
    unknown = [name for name in text.split(",") if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no way {unknown[0]!r}; {','.join(known)}")
    return frozenset(known[name] for name in text.split(","))


def _model(options: argparse.Namespace) -> Model:
    model = shared.read(options, with_weights=options.verify)
    if options.layers != (0, None):
        model = layer_range(model, *options.layers)
    if options.verify and model.weights is None:
        print(f"csdf plan fusion: random weights with seed {options.seed}", file=sys.stderr)
        weights = calibrated_weights(model.network, options.seed)
        model = Model(network=model.network, weights=weights)
    return model


def _terms(options: argparse.Namespace) -> Terms:
    sides = range(1, options.tiles + 1)
    return Terms(
        platform=PLATFORMS[options.platform],
        scratch=Scratch(options.scratch),
        element_bytes=options.element_bytes,
        tilings=tuple((down, across) for down in sides for across in sides),
        ways=options.ways,
    )


def _verified(model: Model, plan: FusionPlan, seed: int) -> Check:
    (frame,) = random_frames(model.network, 1, seed)
    begin = time.perf_counter()
    with answers.working("running the plan in its arena, and the whole network"):
        run = run_fused(model, plan, frame)
        seconds = time.perf_counter() - begin
        reference = run_layers(model, frame)[plan.chain.result]
    return Check(difference(run.output, reference), run.touched, seconds)


def _plot(path: str, answer: FusionAnswer, options: argparse.Namespace) -> None:
    draw = pictures.drawing("planners.fusion.command.picture")
    line = draw.Line(
        "fastest that fits",
        [point.memory for point in answer.front],
        [point.cost.nanoseconds / 1e6 for point in answer.front],
        "steps",
    )
    chosen = None if answer.plan is None else answer.plan.memory
    largest = max((point.memory for point in answer.front), default=0)
    unit, size = ("MB", 10**6) if largest >= 10**6 else ("kB", 1000)
    picture = draw.lines_picture(
        f"{options.model}: time over memory",
        [line],
        across=f"arena ({unit} = {size:,} bytes)",
        up="predicted time (ms)",
        scale=size,
        marks={"limit": options.memory, "plan": chosen},
        is_front=True,
        suffix=pictures.suffix_of(path),
    )
    write_text(path, picture)
