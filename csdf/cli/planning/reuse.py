"""`csdf plan reuse`: joint memory of several networks, against their throughput."""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

from cnn2csdf.durations import PLATFORMS
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import difference, random_frames
from cnn2csdf.execution.whole import run_whole
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.pictures import suffix_of
from csdf.cli.planning.reuse_answer import Answer, as_json, as_text, plot
from csdf.cli.planning.reuse_search import searched
from csdf.errors import CsdfError, GaveUp, UnwritableFile
from csdf.io.files import write_text
from planners.reuse.applications.application import Application, undivided
from planners.reuse.applications.application_files import read_application
from planners.reuse.applications.published_applications import read_published_application
from planners.reuse.bounds import memory_bound
from planners.reuse.comparison import comparison
from planners.reuse.deployment.c_tables import format_tables
from planners.reuse.deployment.deployment import Deployment
from planners.reuse.deployment.execution import run_deployment
from planners.reuse.deployment.json_text import format_deployment
from planners.reuse.deployment.making import deployment
from planners.reuse.deployment.placement import free_offsets, whole_buffers
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.evolution.problem import Point
from planners.reuse.selection import Demands, selected
from planners.reuse.sharing import best_shared, shared_buffers

FORMATS = {"json": format_deployment, "h": format_tables}
TOLERANCE = 1e-4  # of the largest output: single precision, sums in another order
MOST_ARENAS = 20  # of the smallest points, to look for one that fits with offsets
PATIENCE = 2000  # looks at the search for offsets, after which the best by then is taken


def main(argv: Sequence[str]) -> int:
    """Search, choose, print; return the exit code: 1 if no plan meets the demands."""
    options = _parser().parse_args(argv)
    demands = Demands(memory=options.memory, throughput=dict(options.throughput))
    _require_possible(options)
    application = _application(options)
    demands.check_names(application)
    answer = _answer(application, options, demands)
    if options.plot:
        plot(options.plot, answer)
    if options.output and answer.deployment is not None:
        write_text(options.output, FORMATS[suffix_of(options.output)](answer.deployment))
    print(json.dumps(as_json(answer), indent=2) if options.json else as_text(answer))
    if answer.chosen is None:
        return answers.NO if answer.front.is_proved else answers.GAVE_UP
    is_equal = answer.difference is None or answer.difference <= TOLERANCE
    return answers.ANSWERED if is_equal else answers.NO


def _require_possible(options: argparse.Namespace) -> None:
    """Refuse before the work what cannot be done after it."""
    if options.output and suffix_of(options.output) not in FORMATS:
        raise UnwritableFile(f"{options.output}: expected .json, or .h for C")
    if options.verify and options.element_bytes != 4:
        raise CsdfError("--verify runs in single precision: --element-bytes 4")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="csdf plan reuse",
        description="Memory of several networks that share one device: which layers work by parts, "
        "and which buffers share their bytes (Minakova and Stefanov, TODAES 2022). The front of "
        "memory against the throughput of every network, and the plan that meets your demands: the "
        "fastest within --memory, else the smallest that is fast enough.",
        epilog="example: csdf plan reuse mobilenet_v2+keyword_spotting --memory 18MB --seed 1",
    )
    parser.add_argument(
        "application",
        help="a JSON or YAML file, or networks of the catalogue with + between them (fused)",
    )
    parser.add_argument("--entry", metavar="NAME", help="one of a table of published applications")
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
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    parser.add_argument("--element-bytes", type=answers.positive, metavar="N", default=4)
    parser.add_argument("--parameter-bytes", type=answers.positive, metavar="N", default=4)
    parser.add_argument("--platform", choices=PLATFORMS, default="jetson-tx2")
    parser.add_argument("--workers", type=answers.positive, metavar="N", default=1)
    parser.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="of Dask (extra: cluster)")
    parser.add_argument(
        "--checkpoint", metavar="FILE", help="kept after each generation; resumed if it is there"
    )
    parser.add_argument(
        "--budget", type=answers.seconds, metavar="TIME", default=60.0, help="default 60s"
    )


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add what becomes of the plan."""
    parser.add_argument(
        "--whole-buffers",
        action="store_true",
        help="the published plan; by default every buffer has an offset of its own",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the chosen plan: .json, or tables for C (.h)"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="run all networks in one array of the planned size, and compare",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--plot", metavar="FILE", help=".png, .svg, .pdf or .html (extra: plot)")


def _application(options: argparse.Namespace) -> Application:
    name = options.application
    if options.entry is not None:
        return read_published_application(name, options.entry)
    if os.path.exists(name) or name.lower().endswith((".json", ".yaml", ".yml")):
        return read_application(name)
    networks = [simplified(read_model(one)).network for one in name.split("+")]
    return Application(name=name, members=tuple(undivided(network) for network in networks))


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
