"""Figure 6.3 of TODAES 2022: four applications in four precisions, as bars; Tables 6.7 and 6.8.

Minakova and Stefanov, Memory-Throughput Trade-off for CNN-based Applications at the Edge, ACM TODAES
28(1), 2022 (section 6.6.2 of Minakova's thesis). Run `python -m figures.todaes2022_fig_6_3`: writes
the .md and the .svg beside it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from cnn2csdf.catalogue.embedded import mobilenet_v2
from cnn2csdf.catalogue.resnet import resnet50
from cnn2csdf.network import Network
from cnn2csdf.platforms import PLATFORMS, Platform
from figures.bars import Bars, bars_picture
from figures.published.fitted_speeds import fitted_platform
from figures.published.todaes import NEEDS, PRECISIONS, TABLE_6_6
from figures.todaes2022_table_6_6 import fused
from planners.published.todaes import Chosen, as_published, comparison, selected_as_published
from planners.reuse.application import Application, ApplicationNetwork, Partition, single_partition
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.local_search import local_search
from planners.reuse.selection import Constraints, uniform_points

HERE = Path(__file__)
APPLICATIONS = tuple(name for name, *_ in NEEDS)
EVALUATIONS = 1500
SEED = 1
MB = 10**6
BASELINE_BYTES = 4
TX2 = PLATFORMS["jetson-tx2"]
WITHOUT, WITH = "without the methodology", "with it"


class Bar(NamedTuple):
    """An application in one precision: bytes and frames a second, without and with the method."""

    application: str
    precision: str
    none: int
    memory: int
    speed: tuple[float, ...]
    whole_speed: tuple[float, ...]
    step: Chosen


@cache
def network(name: str) -> Network:
    """Return a network of the applications, with normalisations folded."""
    return fused({"MobileNetV2": mobilenet_v2, "ResNet-50": resnet50}[name]())


def member(name: str, *, is_pipelined: bool) -> ApplicationNetwork:
    """Return a network whole, or cut into two partitions with half of the layers each."""
    one = network(name)
    if not is_pipelined:
        return single_partition(one)
    names = tuple(layer.name for layer in one.layers)
    outside = frozenset(layer.name for layer in one.layers if layer.is_end)
    working = tuple(name for name in names if name not in outside)
    half = len(working) // 2
    parts = (
        Partition(name=f"{one.name}/1", layers=working[:half]),
        Partition(name=f"{one.name}/2", layers=working[half:]),
    )
    return ApplicationNetwork(network=one, partitions=parts, outside=outside)


def application(name: str, networks: tuple[str, ...]) -> Application:
    """Return an application of Table 6.7."""
    is_pipelined = name.endswith("pipelined")
    members = tuple(member(one, is_pipelined=is_pipelined) for one in networks)
    names = frozenset(part.name for one in members for part in one.partitions)
    return Application(name=name, members=members, parallel=(names,) if is_pipelined else ())


def costs(element_bytes: int, parameter_bytes: int, platform: Platform = TX2) -> Costs:
    """Return a precision on a Jetson TX2, which computes twice as fast in half of the bits."""
    faster = BASELINE_BYTES // max(2, element_bytes)
    operations = platform.operations_per_second * faster
    return Costs(
        element_bytes=element_bytes,
        parameter_bytes=parameter_bytes,
        platform=replace(platform, operations_per_second=operations),
    )


@cache
def bars(name: str) -> tuple[Bar, ...]:
    """Return the bars of an application of Table 6.7, one for each precision."""
    networks, frames, limit = next(rest for one, *rest in NEEDS if one == name)
    found = as_published(application(name, networks))
    rates = {one.name: Fraction(frames) for one in found.members}
    demands = Constraints(memory=limit * MB, throughput=rates)
    return tuple(_bar(found, costs(*sizes), demands, precision) for precision, *sizes in PRECISIONS)


def _bar(found: Application, worked: Costs, demands: Constraints, precision: str) -> Bar:
    evaluator = Evaluator(found, worked)
    front = local_search(evaluator, random=Random(SEED), evaluations=EVALUATIONS)
    (whole,) = uniform_points(evaluator, ())
    point, step = selected_as_published(found, whole, front.points, demands)
    methods = comparison(found, evaluator.costs, known=evaluator)
    memory, *periods = point.score
    return Bar(
        found.name,
        precision,
        methods.weights + methods.no_reduction,
        int(memory),
        _speeds(periods),
        _speeds(whole.score[1:]),
        step,
    )


@cache
def mobilenet_fit() -> Platform:
    """Return the device on which MobileNetV2 has its two printed speeds of Table 6.6."""
    (one,) = as_published(application("MobileNet-sequential", ("MobileNetV2",))).members
    speeds = TABLE_6_6["application 1"].speeds
    return fitted_platform(one, speeds["none"][0], speeds["[65]"][0])


@cache
def fitted_bars() -> tuple[Bar, ...]:
    """Return MobileNet-sequential, baseline and half, at the fitted speeds."""
    name, networks, frames, limit = NEEDS[0]
    found = as_published(application(name, networks))
    demands = Constraints(memory=limit * MB, throughput={found.members[0].name: Fraction(frames)})
    return tuple(
        _bar(found, costs(*sizes, platform=mobilenet_fit()), demands, precision)
        for precision, *sizes in PRECISIONS
        if precision in ("baseline", "half")
    )


def fitted() -> str:
    """Return the text's speeds beside those of the fit, and what becomes of its conclusion."""
    platform = mobilenet_fit()
    baseline, half = fitted_bars()
    data_sheet = bars("MobileNet-sequential")[:2]
    rows = (
        ("baseline, without", 46, data_sheet[0].whole_speed, baseline.whole_speed),
        ("half, without", 79, data_sheet[1].whole_speed, half.whole_speed),
        ("half, with", 71, data_sheet[1].speed, half.speed),
    )
    lines = "\n".join(
        f"| {name} | {printed} | {sheet[0]:.0f} | {fit[0]:.0f} | {fit[0] / printed - 1:+.0%} |"
        for name, printed, sheet, fit in rows
    )
    operations, start = float(platform.operations_per_second) / 1e9, float(platform.launch) * 1e6
    holds = "holds" if half.speed[0] > baseline.whole_speed[0] else "does not hold"
    met = "meets" if half.speed[0] >= NEEDS[0][2] else "misses"
    return f"""The data sheet's speeds reverse the paper's conclusion: half precision with the
methodology is faster than the baseline without it in the paper, and slower there. So the speeds
were fitted as well. The fit has two unknowns and two rows, MobileNetV2 of Table 6.6 whole and all
by rows (46 and 40 frames/s): {operations:.1f} G operations/s and {start:.2f} us to start a phase, and
bytes cost nothing. It is a fit, of one network; half precision, which it has not seen, computes twice
as fast.

| MobileNet-sequential | printed | data sheet | fit | fit against printed |
|---|---|---|---|---|
{lines}

With the fit the conclusion {holds}. Of its plans, that taken in half precision {met} the
{NEEDS[0][2]} frames/s that are needed; the printed 71 misses them."""


@cache
def stride_memory(name: str) -> int:
    """Return the bytes that Algorithm 9 takes in single precision where windows keep their stride."""
    networks, frames, limit = next(rest for one, *rest in NEEDS if one == name)
    found = as_published(application(name, networks), keeps_stride=True)
    rates = {one.name: Fraction(frames) for one in found.members}
    demands = Constraints(memory=limit * MB, throughput=rates)
    return _bar(found, costs(BASELINE_BYTES, BASELINE_BYTES), demands, "baseline").memory


def stride_table(names: Sequence[str] = APPLICATIONS) -> str:
    """Return the memory of both readings of a stride, in single and in half precision."""
    lines = [
        "| application | by the kernel, MB | by the stride | in half: by the kernel | stride |"
    ]
    lines.append("|---|---|---|---|---|")
    for name in names:
        sizes = (bars(name)[0].memory, stride_memory(name))
        halves = (size / 2 for size in sizes)
        cells = " | ".join(f"{size / MB:.2f}" for size in (*sizes, *halves))
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def _speeds(periods: Iterable[Fraction]) -> tuple[float, ...]:
    return tuple(float(1 / Fraction(period)) for period in periods)


def has_speed(bar: Bar) -> bool:
    """Whether the device computes in that precision: it has no integer arithmetic."""
    return bar.precision in ("baseline", "half")


def table(names: Sequence[str] = APPLICATIONS) -> str:
    """Return what the bars of applications show, all four if not said otherwise."""
    lines = [
        "| application | needs | precision | MB without | MB with | times less | "
        "frames/s without | with | memory met | frames met | taken |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    ]
    needs = {name: (frames, limit) for name, _, frames, limit in NEEDS}
    for bar in (bar for name in names for bar in bars(name)):
        frames, limit = needs[bar.application]
        speeds = [", ".join(f"{one:.0f}" for one in each) for each in (bar.whole_speed, bar.speed)]
        cells = [
            bar.application,
            f"{frames} frames/s, {limit} MB",
            bar.precision,
            f"{bar.none / MB:.2f}",
            f"{bar.memory / MB:.2f}",
            f"{bar.none / bar.memory:.1f}",
            *(speeds if has_speed(bar) else ("", "")),
            "yes" if bar.memory <= limit * MB else "no",
            ("yes" if min(bar.speed) >= frames else "no") if has_speed(bar) else "",
            {Chosen.AT_ONCE: "at once", Chosen.LEAST_FEASIBLE: "least"}.get(bar.step, "none fits"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page() -> str:
    """Return the page."""
    return f"""# Figure 6.3 of TODAES 2022: four applications in four precisions

Made by `python -m figures.todaes2022_fig_6_3`. The figure is a matrix of bars: a row for each
application of Table 6.7, columns accuracy, throughput and memory; without the methodology and with it.
Ours are in the published accounting with Algorithm 9's choice ({EVALUATIONS} evaluations, seed {SEED}),
and the frame rates of a Jetson TX2's data sheet, twice as many operations in fp16; there are none for
mixed and int, as the device has no integer arithmetic. Networks are those of our catalogue, fused, at
224x224; the pipelined one is cut in the middle of its layers. Accuracy is not ours to measure: the same
numbers are computed.

![bars](todaes2022_fig_6_3.svg)

{table()}

What the text says of the printed bars: MobileNet-sequential in half precision 79 frames/s without the
methodology and 71 with it, baseline 46, and 3.7 times less memory; pipelined in half precision 2.1
times less. From these, 58.63 / 2 / 3.7 = 7.9 MB, which meets 8 MB, and 61.69 / 2 / 2.1 = 14.7 MB.
Accuracy is said to be unchanged. The other heights are in the picture only.

## The other reading of strides

The printed rates do not say how a window moves that skips rows: by its kernel, as above, or by its
stride. What Algorithm 9 takes by both; in half precision it is half of it:

{stride_table()}

Both readings give the same where layers without skipped rows decide, so both give 7.45 MB where the
text's 3.7 times less means 7.9; neither gives its 2.1 times less of the pipelined one, which is taken
with all layers whole here. ResNet-50 and both together need less by the stride.

## Fitted speeds

{fitted()}

Table 6.8: bytes of an element and of a parameter are {precisions()}.
"""


def precisions() -> str:
    """Return Table 6.8 in words."""
    return ", ".join(
        f"{elements} and {parameters} ({name})" for name, elements, parameters in PRECISIONS
    )


def picture() -> str:
    """Return the bars."""
    names = [name for name, *_ in PRECISIONS]
    rows = []
    for application_name, *_ in NEEDS:
        own = bars(application_name)
        speeds = {
            WITHOUT: [min(bar.whole_speed) if has_speed(bar) else None for bar in own],
            WITH: [min(bar.speed) if has_speed(bar) else None for bar in own],
        }
        sizes = {
            WITHOUT: [bar.none / MB for bar in own],
            WITH: [bar.memory / MB for bar in own],
        }
        rows += [
            Bars(
                f"{application_name}: throughput",
                "frames/s, the slowest",
                names,
                speeds,
                "no figure",
            ),
            Bars(f"{application_name}: memory", "MB", names, sizes),
        ]
    return bars_picture("Four applications in four precisions", rows)


if __name__ == "__main__":
    HERE.with_suffix(".md").write_text(page())
    HERE.with_suffix(".svg").write_text(picture())
