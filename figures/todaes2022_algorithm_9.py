"""Table 6.6 of TODAES 2022 by Algorithms 8, 9 and 10 as published, with constraints and frame rates.

Minakova and Stefanov, Memory-Throughput Trade-off for CNN-based Applications at the Edge, ACM TODAES
28(1), 2022 (chapter 6 of Minakova's thesis). Run `python -m figures.todaes2022_algorithm_9 TABLE`,
where TABLE is the file of applications that is public with the networks of the paper's tool: writes
the .md beside it. It takes some minutes.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import NamedTuple

from cnn2csdf.platforms import Platform
from figures.published.fitted_speeds import fitted_platform
from figures.published.todaes import CHROMOSOME, PROPERTIES, TABLE_6_6, Printed
from figures.todaes2022_table_6_6 import TX2, application_5
from planners.published.nsga2 import SearchLimits, Settings, evolve
from planners.published.todaes import (
    Chosen,
    Comparison,
    as_published,
    comparison,
    read_published_application,
    selected_as_published,
)
from planners.reuse.application import Application
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.problem import Point, search_problem
from planners.reuse.process_pool import local_executor
from planners.reuse.selection import Constraints, chosen_point, uniform_points

POPULATION = 50
GENERATIONS = 60
SEED = 1
MB = 10**6
UNPIPELINED = {"application 3": "application 1", "application 4": "application 2"}


class Result(NamedTuple):
    """An application: its methods, all layers whole, and the front of the evolution."""

    name: str
    application: Application
    methods: Comparison
    whole: Point
    points: tuple[Point, ...]


def evolved(application: Application) -> tuple[Evaluator, tuple[Point, ...]]:
    """Return the front of the published evolution, from all layers whole and all by rows."""
    evaluator = Evaluator(application, TX2)
    problem = search_problem(evaluator)
    seeds = [tuple(alleles[place] for alleles in problem.alleles) for place in (0, -1)]
    with local_executor(evaluator.evaluate, workers=1) as place:
        front = evolve(
            problem,
            place,
            random=Random(SEED),
            limits=SearchLimits(generations=GENERATIONS),
            settings=Settings(population=POPULATION),
            seeds=seeds,
        )
    return evaluator, front.points


def results(table: str, names: Sequence[str] = tuple(TABLE_6_6)) -> Iterator[Result]:
    """Yield applications, all six if not said otherwise, in the published accounting."""
    for name in names:
        is_own = name == "application 5"
        application = application_5() if is_own else read_published_application(table, name)
        published = as_published(replace(application, name=name))
        evaluator, points = evolved(published)
        yield Result(
            name=name,
            application=published,
            methods=comparison(published, TX2, known=evaluator),
            whole=uniform_points(evaluator, ())[0],
            points=points,
        )


def constraint_table(found: Sequence[Result]) -> str:
    """Return what is printed, what Algorithm 9 takes, and the fastest that fits each limit."""
    lines = [
        "| application | limit MB | paper MB | fps | Algorithm 9 MB | fps | step | fastest MB | fps |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        for limit, memory, speeds in TABLE_6_6[one.name].ours:
            demands = Constraints(memory=limit * MB if limit else 0)
            point, step = selected_as_published(one.application, one.whole, one.points, demands)
            fast = chosen_point(one.application, (one.whole, *one.points), demands)
            least = "least" if limit is None else _steps()[step]
            cells = [
                one.name[12:],
                "min" if limit is None else str(limit),
                f"{memory:g}",
                ", ".join(f"{speed:g}" for speed in speeds),
                *_cells(point),
                least,
                *(("", "") if fast is None else _cells(fast)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _steps() -> dict[Chosen, str]:
    return {
        Chosen.AT_ONCE: "at once",
        Chosen.LEAST_FEASIBLE: "least that fits",
        Chosen.LEAST: "none fits: least",
    }


def _cells(point: Point) -> tuple[str, str]:
    memory, *periods = point.score
    speeds = ", ".join(f"{float(1 / Fraction(period)):.4g}" for period in periods)
    return f"{int(memory) / MB:.2f}", speeds


def methods_table(found: Sequence[Result]) -> str:
    """Return memory and speeds of the other methods as printed, with our memory."""
    lines = [
        "| application | none | paper | fps | [76] | paper | fps | [65] | paper | fps |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        printed, methods = TABLE_6_6[one.name], one.methods
        cells = [one.name[12:]]
        sizes = (methods.no_reduction, methods.reuse_only, methods.parts_only)
        for key, size, theirs in zip(
            printed.speeds, sizes, (printed.none, printed.reuse, printed.parts), strict=True
        ):
            speeds = ", ".join(f"{speed:g}" for speed in printed.speeds[key])
            cells += [f"{(methods.weights + size) / MB:.2f}", f"{theirs:g}", speeds]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def claims_table(found: Sequence[Result]) -> str:
    """Return how many times less than without reduction, and how much less than the better other."""
    lines = [
        "| application | none / least: paper | ours | below the better of [76], [65]: paper | ours |",
        "|---|---|---|---|---|",
    ]
    for one in found:
        printed, methods = TABLE_6_6[one.name], one.methods
        weights = methods.weights
        none, reuse, parts = (
            weights + size
            for size in (methods.no_reduction, methods.reuse_only, methods.parts_only)
        )
        least = min(int(point.score[0]) for point in one.points)
        cells = (
            one.name[12:],
            f"{printed.none / _smallest(printed):.1f}",
            f"{none / least:.1f}",
            f"{1 - _smallest(printed) / min(printed.reuse, printed.parts):.0%}",
            f"{1 - least / min(reuse, parts):.0%}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _smallest(printed: Printed) -> float:
    return min(memory for _, memory, _ in printed.ours)


class Speeds(NamedTuple):
    """Frames a second of a network: printed, by the data sheet, by the fit; each whole, [65], least."""

    application: str
    network: str
    fit: Platform
    printed: tuple[float, ...]
    data_sheet: tuple[float, ...]
    fitted: tuple[float, ...]

    @property
    def losses(self) -> tuple[float, ...]:
        """The share of its speed that the plan with the least memory costs: printed, and by both."""
        return tuple(1 - one[2] / one[0] for one in (self.printed, self.data_sheet, self.fitted))


def speeds_of(one: Result) -> Iterator[Speeds]:
    """Yield the speeds of the networks of an application."""
    printed, layers = TABLE_6_6[one.name], len(one.application.layers)
    least = min(one.points, key=lambda point: point.memory)
    rows = (None,) * layers, (1,) * layers, tuple(gene or None for gene in least.chromosome)
    papers = printed.speeds["none"], printed.speeds["[65]"], printed.ours[-1][2]
    for number, member in enumerate(one.application.members):
        fit = fitted_platform(member, *fitted_rows(one.name, number))
        evaluators = [Evaluator(one.application, each) for each in (TX2, Costs(platform=fit))]
        data_sheet, fitted = (
            tuple(float(1 / each.evaluate(genes)[1 + number]) for genes in rows)
            for each in evaluators
        )
        paper = tuple(speeds[number] for speeds in papers)
        yield Speeds(one.name[12:], member.name, fit, paper, data_sheet, fitted)


def speed_table(found: Sequence[Speeds]) -> str:
    """Return the printed speeds beside those of the data sheet and of the fits."""
    lines = [
        "| application | network | fit: G operations/s | us a phase | none: paper | data sheet | fit "
        "| [65]: paper | data sheet | fit | least: paper | data sheet | fit "
        "| least to none: paper | data sheet | fit |\n" + "|---" * 16 + "|"
    ]
    for one in found:
        rate, launch = float(one.fit.operations_per_second) / 1e9, float(one.fit.launch) * 1e6
        cells = [one.application, one.network, f"{rate:.1f}", f"{launch:.2f}"]
        for paper, *others in zip(one.printed, one.data_sheet, one.fitted, strict=True):
            cells += [f"{paper:g}", *(f"{each:.4g}" for each in others)]
        lines.append(f"| {' | '.join([*cells, *(f'-{each:.0%}' for each in one.losses)])} |")
    return "\n".join(lines)


def conclusions(found: Sequence[Speeds]) -> str:
    """Return which conclusions of Table 6.6 on speeds hold by the data sheet and by the fits."""
    ways = ("printed", "by the data sheet", "by the fit")
    costs = (f"{share:.0%} ({way})" for way, share in zip(ways, found[0].losses, strict=True))
    faster = [
        f"{sum(speeds[2] >= speeds[1] for speeds in column)} of {len(found)} ({way})"
        for way, column in zip(ways, zip(*(one[3:] for one in found), strict=True), strict=True)
    ]
    return f"""Conclusions that Table 6.6 draws from its speeds:

- The least memory costs little speed. Of application 1 it costs {", ".join(costs)}: the data sheet
  reverses this conclusion, the fit keeps it.
- Theirs is at least as fast as all layers by rows, [65]: {", ".join(faster)} networks."""


def fitted_rows(application: str, network: int) -> tuple[float, float]:
    """Return the printed speeds of a network whole and by rows, where it runs without a pipeline."""
    speeds = TABLE_6_6[UNPIPELINED.get(application, application)].speeds
    return speeds["none"][network], speeds["[65]"][network]


def properties_table() -> str:
    """Return Table 6.5."""
    lines = ["| | [65] | [76] | theirs |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in PROPERTIES)])


def page(found: Sequence[Result]) -> str:
    """Return the page."""
    speeds = [speeds for one in found for speeds in speeds_of(one)]
    return f"""# Table 6.6 of TODAES 2022 by the published algorithms

Made by `python -m figures.todaes2022_algorithm_9 TABLE`. MB are 1,000,000 bytes, weights included, four
bytes a number. Algorithm 8 shares buffers, NSGA-II with genes 0 and 1 is the evolution of Algorithm 9
({POPULATION} chromosomes, {GENERATIONS} generations, seed {SEED}), Algorithm 10 evaluates with the
printed rates. The paper's frame rates are measured on a Jetson TX2; ours are those of its data sheet,
which assumes kernels that reach it: compare them with one another. Beside the paper's stand those of a
fit, in "Fitted speeds".

## The choice under constraints

Algorithm 9 takes all layers whole at once where Algorithm 8's buffers meet the limit; else the least
memory of what meets the constraints; else the least of all. The paper's own table was chosen otherwise:
application 1 with 15 MB is 14.98 MB at 41 frames, although 14.90 MB at 40.5 meets 15 MB as well. So the
fastest that fits stands beside it. The 15 MB of application 3 are met by nobody, the paper's 15.92
included.

{constraint_table(found)}

## The other methods

{methods_table(found)}

[76] on applications 3 and 4 runs without the pipeline. In application 5 the networks differ, and the
"none" of the paper counts activations and normalisations as layers: see todaes2022_table_6_6.md.

## Fitted speeds

The data sheet is 1.4 to 13 times faster than what the paper measured, and loses more by rows. So each
network has a fit of its own: two unknowns, operations a second and the start of a phase, of its two
printed speeds without a pipeline, whole ("none") and by rows ([65]); bytes cost nothing. These two
come out as printed. What the fit has not seen are the pipelines of applications 3 and 4, and the
speeds of the plan with the least memory, where ours is beside theirs. No single fit does for all: from
MobileNetV2 to ResNet-50 the operations a second differ 15 times.

{speed_table(speeds)}

{conclusions(speeds)}

## The claims

The paper: 2.3 (application 5) to 5.9 times (application 2) less than without reduction, 7% (application
5) to 30% (application 2) less than the better of the others.

{claims_table(found)}

## Table 6.4: the chromosome of the worked example

{CHROMOSOME}, one bit a layer: l3, l4 and l5 of CNN1 work by rows, in phases
{{1, 1, 32, 32, 32, 1, 1, 1, 1}}. It is dominated; see todaes2022_tables_6_1_to_6_3.md.

## Table 6.5: what the methods do

{properties_table()}
"""


def main(table: str) -> None:
    """Write the page."""
    Path(__file__).with_suffix(".md").write_text(page(list(results(table))))


if __name__ == "__main__":
    main(sys.argv[1])
