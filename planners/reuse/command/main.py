"""`csdf plan reuse`: memory of several networks against throughput."""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.durations import PLATFORMS
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.weights import Model
from csdf.cli import answers, parsers
from csdf.cli.pictures import require_drawing, suffix_of
from csdf.errors import CsdfError, GaveUp, UnwritableFile
from csdf.io.files import write_text
from planners.reuse.applications.application import Application
from planners.reuse.bounds import memory_bound
from planners.reuse.command.answer import Answer, as_json, as_text, plot
from planners.reuse.command.application import add_application_options, application_of
from planners.reuse.command.search import searched
from planners.reuse.comparison import comparison
from planners.reuse.deployment.c_tables import format_tables
from planners.reuse.deployment.deployment import Deployment
from planners.reuse.deployment.execution import run_deployment
from planners.reuse.deployment.json_text import format_deployment
from planners.reuse.deployment.making import deployment
from planners.reuse.deployment.placement import free_offsets, whole_buffers
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.evolution.problem import Front, Point
from planners.reuse.selection import Demands, selected
from planners.reuse.sharing import best_shared, shared_buffers

FORMATS = {"json": format_deployment, "h": format_tables}
MOST_ARENAS = 20  # of the smallest points, to look for one that fits with offsets
PATIENCE = 2000  # looks at the search for offsets, after which the best by then is taken


def main(argv: Sequence[str]) -> int:
    """Search, choose, print; return the exit code: 1 if no plan meets the demands."""
    options = command_parser().parse_args(argv)
    demands = Demands(memory=options.memory, throughput=dict(options.throughput))
    _require_possible(options)
    application = application_of(options)
    demands.check_names(application)
    answer = _answer(application, options, demands)
    if options.plot:
        plot(options.plot, answer)
    if options.output and answer.deployment is not None:
        write_text(options.output, FORMATS[suffix_of(options.output)](answer.deployment))
    elif options.output:
        print(
            f"csdf plan reuse: {options.output} is not written: there is no plan", file=sys.stderr
        )
    print(json.dumps(as_json(answer), indent=2) if options.json else as_text(answer))
    if answer.chosen is None:
        is_proved = answer.front.is_proved or answer.is_below_bound
        return answers.NO if is_proved else answers.GAVE_UP
    return answers.ANSWERED if answer.is_equal else answers.NO


def _require_possible(options: argparse.Namespace) -> None:
    """Refuse before the work what cannot be done after it."""
    require_drawing(options.plot)
    if options.output and suffix_of(options.output) not in FORMATS:
        raise UnwritableFile(f"{options.output}: expected .json, or .h for C")
    if options.verify and options.element_bytes != 4:
        raise CsdfError("--verify runs in single precision: --element-bytes 4")


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf plan reuse",
        "Memory of several networks that share one device: which layers work by parts, "
        "and which buffers share their bytes (Minakova and Stefanov, TODAES 2022). The front of "
        "memory against the throughput of every network, and the plan that meets your demands: the "
        "fastest within --memory, else the smallest that is fast enough.",
        "csdf plan reuse resnet8+keyword_spotting --generations 5",
        "csdf plan reuse resnet8+keyword_spotting --generations 5 --memory 520kB -o plan.h",
    )
    add_application_options(parser)
    parser.add_argument(
        "--memory", type=answers.size, metavar="SIZE", help="at most, e.g. 15MB, 256KiB"
    )
    parser.add_argument(
        "--throughput",
        action="append",
        type=_named_rate,
        metavar="NET=FPS",
        default=[],
        help="frames a second that a network must reach",
    )
    _add_search_options(parser)
    _add_output_options(parser)
    return parser


def _add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add what is searched, what things cost, where and how long."""
    parser.add_argument(
        "--rows",
        type=_alleles,
        metavar="N,N,..",
        default=(0, 1),
        help="rows of a part that a layer may choose; 0 is the whole; default 0,1 as published",
    )
    parser.add_argument(
        "--method",
        choices=("beyond", "evolution"),
        default="beyond",
        help="evolution: NSGA-II as published; beyond: exact seeds, a descent and walks",
    )
    parser.add_argument(
        "--generations",
        type=answers.positive,
        metavar="N",
        default=100,
        help="times --population: the number of evaluations; default 100",
    )
    parser.add_argument(
        "--population", type=answers.positive, metavar="N", default=100, help="default 100"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", default=0, help="of the search and of --verify; default 0"
    )
    shared.add_element_bytes_option(parser)
    parser.add_argument(
        "--parameter-bytes",
        type=answers.positive,
        metavar="N",
        default=4,
        help="of one parameter; default 4",
    )
    parser.add_argument(
        "--platform", choices=PLATFORMS, default="jetson-tx2", help="default: jetson-tx2"
    )
    parser.add_argument(
        "--workers", type=answers.positive, metavar="N", default=1, help="processes; default 1"
    )
    parser.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="of Dask (extra: cluster)")
    parser.add_argument(
        "--checkpoint",
        type=parsers.output_file,
        metavar="FILE",
        help="kept after each generation; resumed if it is there",
    )
    parsers.add_budget_option(parser, "for the search; then the front found by then")


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add what becomes of the plan."""
    parser.add_argument(
        "--whole-buffers",
        action="store_true",
        help="the published plan; by default every buffer has an offset of its own",
    )
    parsers.add_output_option(
        parser, "the chosen plan: .json, or tables for C (.h)", required=False
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="run all networks in one array of the planned size, and compare",
    )
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "memory against time")


def _answer(application: Application, options: argparse.Namespace, demands: Demands) -> Answer:
    begin = time.perf_counter()
    costs = Costs(
        element_bytes=options.element_bytes,
        parameter_bytes=options.parameter_bytes,
        platform=PLATFORMS[options.platform],
    )
    share = best_shared if options.method == "beyond" else shared_buffers
    evaluator = Evaluator(application, costs, share=share)
    front = searched(evaluator, options)
    if not front.points:
        raise GaveUp(f"no plan was evaluated: {front.reason}")
    with answers.working("placing buffers, proving bounds"):
        return _concluded(evaluator, front, options, demands, begin=begin)


def _concluded(
    evaluator: Evaluator,
    front: Front,
    options: argparse.Namespace,
    demands: Demands,
    *,
    begin: float,
) -> Answer:
    """Choose from the front, place the buffers, run the plan if asked to."""
    application, costs = evaluator.application, evaluator.costs
    deployed = functools.cache(functools.partial(_deployed, evaluator, options=options))
    chosen = selected(application, front.points, demands)
    if chosen is None and demands.memory is not None:
        chosen = _selected_by_offsets(evaluator, front.points, demands, deployed)
    plan = None if chosen is None else deployed(chosen)
    run = plan is not None and options.verify
    return Answer(
        application=application,
        evaluator=evaluator,
        methods=comparison(application, costs),
        front=front,
        smallest=deployed(front.points[0]),
        memory=demands.memory,
        chosen=chosen,
        deployment=plan,
        bound=memory_bound(evaluator, [allele or None for allele in options.rows]),
        difference=_largest_difference(application, plan, options) if plan and run else None,
        seconds=time.perf_counter() - begin,
    )


def _selected_by_offsets(
    evaluator: Evaluator,
    points: Sequence[Point],
    demands: Demands,
    deployed: Callable[[Point], Deployment],
) -> Point | None:
    """The point to take where no whole buffers fit, but offsets in one arena may."""
    fast = Demands(throughput=demands.throughput)
    fitting = [
        point
        for point in points[:MOST_ARENAS]
        if selected(evaluator.application, [point], fast) is not None
        and evaluator.weights + deployed(point).arena_bytes <= (demands.memory or 0)
    ]
    return min(fitting, key=lambda point: sum(point.score.objectives[1:]), default=None)


def _deployed(evaluator: Evaluator, point: Point, *, options: argparse.Namespace) -> Deployment:
    """The final plan of a point; the search for offsets ends after some patience."""
    plan = evaluator.plan(tuple(gene or None for gene in point.chromosome))
    if options.whole_buffers:
        return deployment(evaluator, plan, whole_buffers(evaluator, plan))
    left = PATIENCE

    def look(_: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise GaveUp(f"{PATIENCE} looks found no smaller arena")

    return deployment(evaluator, plan, free_offsets(evaluator, plan, watch=look))


def _largest_difference(
    application: Application, plan: Deployment, options: argparse.Namespace
) -> float:
    """Run all networks in the arena, two frames each, and compare with each network alone."""
    weights = {}
    frames = {}
    for member in application.members:
        weights[member.name] = calibrated_weights(member.network, options.seed)
        frames[member.name] = random_frames(member.network, 2, options.seed)
    found = run_deployment(application, plan, weights=weights, frames=frames)
    worst = 0.0
    for member in application.members:
        model = Model(network=member.network, weights=weights[member.name])
        for frame, outputs in zip(frames[member.name], found[member.name], strict=True):
            for name, expected in run_whole(model, frame).items():
                worst = max(worst, difference(outputs[name], expected).relative)
    return worst


def _named_rate(text: str) -> tuple[str, Fraction]:
    name, _, value = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NETWORK=FRAMES_PER_SECOND")
    return name, answers.above_zero(value)


def _alleles(text: str) -> tuple[int, ...]:
    values = text.split(",")
    if not all(value.isdigit() for value in values) or len(set(values)) != len(values):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list such as 0,1,2,4")
    return tuple(int(value) for value in values)
