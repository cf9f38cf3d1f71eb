"""`csdf plan reuse`: joint memory of several networks, against their throughput."""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

from cnn2csdf.describe import bytes_in_words
from cnn2csdf.durations import PLATFORMS
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from csdf.cli import answers, pictures
from csdf.errors import GaveUp
from csdf.io.files import write_text
from planners.reuse.applications.application import Application, undivided
from planners.reuse.applications.application_files import read_application
from planners.reuse.applications.published_applications import read_published_application
from planners.reuse.bounds import memory_bound
from planners.reuse.comparison import Comparison, comparison
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.evolution.checkpoint import Checkpoint
from planners.reuse.evolution.evaluation import Evaluator as EvaluationPlace
from planners.reuse.evolution.nsga2 import Limits, evolve
from planners.reuse.evolution.places import cluster_place, local_place
from planners.reuse.evolution.problem import Front, Point, Problem, Score
from planners.reuse.evolution.state import State, origin_of
from planners.reuse.evolution.variation import Settings
from planners.reuse.search_problem import score, search_problem
from planners.reuse.selection import Demands, selected

METHODS = {  # fields of Comparison, and what they are called
    "no_reduction": "no reduction",
    "reuse_only": "reuse within each network [76]",
    "pipelined_reuse": "reuse in the whole application",
    "parts_only": "parts only [65]",
    "parts_and_reuse": "all by rows, and reuse",
}


class Answer(NamedTuple):
    """All that is printed."""

    application: Application
    evaluator: Evaluator
    methods: Comparison
    front: Front
    chosen: Point | None
    bound: int
    seconds: float


def main(argv: Sequence[str]) -> int:
    """Search, choose, print; return the exit code: 1 if no plan meets the demands."""
    options = _parser().parse_args(argv)
    demands = Demands(memory=options.memory, throughput=dict(options.throughput))
    application = _application(options)
    demands.check_names(application)
    answer = _answer(application, options, demands)
    if options.plot:
        _plot(options.plot, answer)
    if options.json:
        print(json.dumps(_as_json(answer), indent=2))
    else:
        print(_as_text(answer))
    if answer.chosen is None:
        return answers.NO if answer.front.is_proved else answers.GAVE_UP
    return answers.ANSWERED


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
    parser.add_argument("--memory", type=_bytes, metavar="SIZE", help="at most, e.g. 15MB, 256kB")
    parser.add_argument(
        "--throughput",
        action="append",
        type=_named_rate,
        metavar="NET=FPS",
        default=[],
        help="frames a second that a network must reach",
    )
    parser.add_argument(
        "--rows",
        type=_alleles,
        metavar="N,N,..",
        default=(0, 1),
        help="rows of a part that a layer may choose; 0 is the whole; default 0,1 as published",
    )
    parser.add_argument("--generations", type=answers.positive, metavar="N", default=100)
    parser.add_argument("--population", type=answers.positive, metavar="N", default=100)
    parser.add_argument("--seed", type=int, default=0)
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
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--plot", metavar="FILE", help=".png, .svg, .pdf or .html (extra: plot)")
    return parser


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
    evaluator = Evaluator(application, costs)
    problem = search_problem(evaluator, options.rows)
    front = _searched(evaluator, problem, options)
    return Answer(
        application=application,
        evaluator=evaluator,
        methods=comparison(application, costs),
        front=front,
        chosen=selected(application, front.points, demands),
        bound=memory_bound(evaluator, [allele or None for allele in options.rows]),
        seconds=time.perf_counter() - begin,
    )


def _searched(evaluator: Evaluator, problem: Problem, options: argparse.Namespace) -> Front:
    """Run the evolution from the two plans that everybody has: all whole, all by rows."""
    settings = Settings(population=max(2, options.population))
    whole = tuple(alleles[0] for alleles in problem.alleles)
    parts = tuple(alleles[-1] for alleles in problem.alleles)
    seeds = [whole] if whole == parts else [whole, parts]
    random = Random(options.seed)
    state: State | None = None
    keep = _progress()
    if options.checkpoint:
        checkpoint = Checkpoint(options.checkpoint, problem)
        if os.path.exists(options.checkpoint):
            origin = origin_of(problem, random=random, settings=settings, seeds=seeds)
            state = checkpoint.read(origin)
        shown = keep

        def keep(now: State) -> None:
            shown(now)
            checkpoint.write(now)

    with _place(evaluator, options) as place:
        return evolve(
            problem,
            place,
            random=random,
            limits=Limits(generations=options.generations),
            settings=settings,
            seeds=seeds,
            watch=_deadline(options.budget),
            keep=keep,
            state=state,
        )


def _place(
    evaluator: Evaluator, options: argparse.Namespace
) -> AbstractContextManager[EvaluationPlace]:
    evaluate: Callable[[tuple[int, ...]], Score] = functools.partial(score, evaluator)
    if options.scheduler:
        return cluster_place(evaluate, options.scheduler)
    return local_place(evaluate, workers=options.workers)


def _deadline(budget: float) -> Callable[[], None]:
    begin = time.monotonic()

    def look() -> None:
        if time.monotonic() - begin > budget:
            raise GaveUp(f"the budget of {budget:g} s is used up")

    return look


def _progress() -> Callable[[State], None]:
    """Return a function that shows a generation now and then on standard error."""
    return answers.watch_progress(
        None,
        lambda state: (
            f"generation {state.generation}, {len(state.archive)} points, smallest "
            f"{bytes_in_words(min((int(one.score.objectives[0]) for one in state.archive), default=0))}"
        ),
    )


def _as_text(answer: Answer) -> str:
    weights = answer.evaluator.weights
    lines = [
        f"{answer.application.name}: {len(answer.application.members)} networks, "
        f"{len(answer.application.layers)} layers, weights {bytes_in_words(weights)}",
        "  memory with weights",
    ]
    for field, label in METHODS.items():
        total = weights + getattr(answer.methods, field)
        lines.append(f"    {label:<32} {bytes_in_words(total):>10}")
    points = answer.front.points
    smallest = f"{bytes_in_words(int(points[0].score.objectives[0])):>10}" if points else "none"
    lines += [
        f"    {'smallest of the front':<32} {smallest}",
        f"    {'no plan of this kind has less':<32} {bytes_in_words(answer.bound):>10}",
        f"  front  {len(points)} points, {answer.front.evaluations} evaluations, "
        f"{answer.front.generations} generations: {answer.front.reason}",
    ]
    return "\n".join([*lines, *_chosen_lines(answer), f"  time   {answer.seconds * 1000:.0f} ms"])


def _chosen_lines(answer: Answer) -> list[str]:
    if answer.chosen is None:
        return ["  chosen none: no point of the front meets the demands"]
    memory, *periods = answer.chosen.score.objectives
    by_parts = [
        f"{network}: {layer}"
        for (network, layer), gene in zip(
            answer.application.layers, answer.chosen.chromosome, strict=True
        )
        if gene
    ]
    speeds = ", ".join(
        f"{member.name} {float(1 / Fraction(period)):.4g} frames/s"
        for member, period in zip(answer.application.members, periods, strict=True)
    )
    return [
        f"  chosen {bytes_in_words(int(memory))}, {speeds}",
        f"         {len(by_parts)} of {len(answer.application.layers)} layers by parts",
    ]


def _point_as_json(answer: Answer, point: Point) -> dict[str, Any]:
    memory, *periods = point.score.objectives
    members = answer.application.members
    return {
        "memory_bytes": int(memory),
        "seconds_per_frame": {
            member.name: str(period) for member, period in zip(members, periods, strict=True)
        },
        "rows": [
            {"network": network, "layer": layer, "rows": gene}
            for (network, layer), gene in zip(
                answer.application.layers, point.chromosome, strict=True
            )
            if gene
        ],
    }


def _as_json(answer: Answer) -> dict[str, Any]:
    chosen = answer.chosen
    return {
        "application": answer.application.name,
        "networks": [member.name for member in answer.application.members],
        "weight_bytes": answer.evaluator.weights,
        "methods": {
            field: answer.evaluator.weights + getattr(answer.methods, field) for field in METHODS
        },
        "lower_bound": answer.bound,
        "front": [_point_as_json(answer, point) for point in answer.front.points],
        "is_finished": answer.front.is_finished,
        "reason": answer.front.reason,
        "evaluations": answer.front.evaluations,
        "chosen": None if chosen is None else _point_as_json(answer, chosen),
        "seconds": round(answer.seconds, 6),
    }


def _plot(path: str, answer: Answer) -> None:
    draw = pictures.drawing("csdf plan reuse", "csdf.draw.tradeoff")
    if draw is None:
        return
    layers = len(answer.application.layers)
    whole, rows = (answer.evaluator.evaluate((gene,) * layers) for gene in (None, 1))
    others = [
        draw.Place(whole.memory, float(sum(whole.periods)), "reuse only"),
        draw.Place(rows.memory, float(sum(rows.periods)), "all by rows"),
    ]
    front = [
        draw.Place(int(point.score.objectives[0]), float(sum(point.score.objectives[1:])))
        for point in answer.front.points
    ]
    chosen = next(
        (
            place
            for place, point in zip(front, answer.front.points, strict=True)
            if point is answer.chosen
        ),
        None,
    )
    picture = draw.tradeoff_picture(
        f"{answer.application.name}: memory against time",
        sorted(front),
        others,
        chosen=chosen,
        bound=answer.bound,
        suffix=pictures.suffix_of(path),
    )
    write_text(path, picture)


def _bytes(text: str) -> int:
    """Parse 256000, 256kB or 15MB; a kB is 1000 bytes."""
    for suffix, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("KB", 10**3), ("B", 1)):
        if text.endswith(suffix):
            return int(answers.above_zero(text.removesuffix(suffix)) * size)
    return int(answers.above_zero(text))


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
