"""Table 6.6 of TODAES 2022: memory of six applications by methodology, ours beside the paper's.

Minakova and Stefanov, Memory-Throughput Trade-off for CNN-based Applications at the Edge, ACM TODAES
28(1), 2022 (chapter 6 of Minakova's thesis). Run `python -m figures.todaes2022_table_6_6 TABLE`, where
TABLE is the file of applications that is public with the networks of the paper's tool: writes the .md
and a picture of a front beside this script. It takes some minutes.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import onnx

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.network import Network
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.time_limit import stop_of
from figures.published.offset_points import offset_point
from planners.published.todaes import (
    Comparison,
    as_published,
    comparison,
    read_published_application,
)
from planners.reuse.application import Application, single_partition
from planners.reuse.bounds import memory_bound
from planners.reuse.command.picture import tradeoff_picture
from planners.reuse.edge_buffers import best_shared
from planners.reuse.evaluation import Costs, Evaluator
from planners.reuse.local_search import local_search
from planners.reuse.problem import PUBLISHED_ALLELES, Front
from planners.reuse.selection import least_points

EVALUATIONS = 15_000
STRIDE_EVALUATIONS = 2_500  # by the other reading of strides
BOUND_STEPS = 600  # of the search for what no plan is below
SEED = 1
TX2 = Costs(platform=PLATFORMS["jetson-tx2"])  # the device of the paper, by our model
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
PAPER = {  # none, [76], [65], the smallest of theirs; MB
    "application 1": (58.63, 20.32, 16.2, 14.90),
    "application 2": (161.33, 39.14, 42.97, 27.30),
    "application 3": (61.69, 20.32, 17.38, 15.92),
    "application 4": (163.65, 39.14, 44.18, 31.34),
    "application 5": (380, 175, 226, 162),
    "application 6": (625, 291, 184, 155),
}


class Row(NamedTuple):
    """An application: in the published accounting, and with rates that can run. Bytes.

    bound_published, bound: no plan has less.
    """

    name: str
    published: Comparison
    smallest_published: int
    bound_published: int
    evaluator: Evaluator
    front: Front
    smallest: int
    offsets: int
    in_place: int
    bound: int
    stride: Comparison
    smallest_stride: int


def fused(network: Network) -> Network:
    """Return the network with normalisations folded and activations fused."""
    return simplified(Model(network=network)).network


def application_5() -> Application:
    """Return Inception V2, MobileNetV1 of a quarter and ResNet V1 50: those the paper names.

    The networks that are public under these names are others.
    """
    names = ("mobilenet_v1:width=1/4", "resnet50")
    networks = [
        read_onnx(str(LIGHT / "light_inception_v2.onnx")).network,
        *(from_catalogue(name) for name in names),
    ]
    members = tuple(single_partition(fused(network)) for network in networks)
    return Application(name="application 5", members=members)


def searched(application: Application, evaluations: int = EVALUATIONS) -> tuple[Evaluator, Front]:
    """Return the front of published genes after a fixed number of evaluations."""
    evaluator = Evaluator(application, TX2, share=best_shared)
    return evaluator, local_search(evaluator, random=Random(SEED), evaluations=evaluations)


def smallest_of(front: Front) -> int:
    """Return the least bytes of a front."""
    return min(int(point.score[0]) for point in front.points)


def row_of(table: str, name: str) -> Row:
    """Return one of the six applications."""
    is_own = name == "application 5"
    application = application_5() if is_own else read_published_application(table, name)
    evaluator, front = searched(application)
    printed, published = searched(as_published(application))
    stride = as_published(application, keeps_stride=True)
    _, by_stride = searched(stride, STRIDE_EVALUATIONS)
    least = min(front.points, key=lambda point: point.score[0])
    point = min(
        (
            offset_point(evaluator, tuple(gene or None for gene in one.chromosome))
            for one in (least, *least_points(evaluator, PUBLISHED_ALLELES, stop_of(None)))
        ),
        key=lambda one: one.memory,
    )
    return Row(
        name=name,
        published=comparison(as_published(application), TX2),
        smallest_published=smallest_of(published),
        bound_published=memory_bound(printed, steps=BOUND_STEPS),
        evaluator=evaluator,
        front=front,
        smallest=smallest_of(front),
        offsets=point.memory,
        in_place=point.memory_in_place,
        bound=memory_bound(evaluator, steps=BOUND_STEPS),
        stride=comparison(stride, TX2),
        smallest_stride=smallest_of(by_stride),
    )


def published_table(found: Sequence[Row]) -> str:
    """Return the methodologies, ours in the published accounting beside the paper's."""
    lines = [
        "| application | weights | none | paper | [76] | paper | [65] | paper "
        "| parts and reuse | paper | no plan has less |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        one, paper = row.published, PAPER[row.name]
        sizes = [one.no_reduction, one.reuse_only, one.parts_only]
        totals = [*(one.weights + size for size in sizes), row.smallest_published]
        cells = " | ".join(
            f"{total / 1e6:.2f} | {printed}" for total, printed in zip(totals, paper, strict=True)
        )
        bound = f"{row.bound_published / 1e6:.2f}"
        lines.append(f"| {row.name[12:]} | {one.weights / 1e6:.2f} | {cells} | {bound} |")
    return "\n".join(lines)


def stride_table(found: Sequence[Row]) -> str:
    """Return what the two readings of a stride give, beside the paper."""
    lines = [
        "| application | [65], by the kernel | by the stride | paper "
        "| parts and reuse, by the kernel | by the stride | paper |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in found:
        parts = [one.weights + one.parts_only for one in (row.published, row.stride)]
        least = [row.smallest_published, row.smallest_stride]
        cells = [f"{size / 1e6:.2f}" for size in (*parts, *least)]
        cells[2:2], cells[5:] = [str(PAPER[row.name][2])], [*cells[4:], str(PAPER[row.name][3])]
        lines.append(f"| {row.name[12:]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def own_table(found: Sequence[Row]) -> str:
    """Return what is beyond the paper."""
    lines = [
        "| application | paper | smallest, whole buffers | offsets in one arena | and in place "
        "| no plan has less |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        sizes = (row.smallest, row.offsets, row.in_place, row.bound)
        cells = " | ".join(f"{size / 1e6:.2f}" for size in sizes)
        lines.append(f"| {row.name[12:]} | {PAPER[row.name][3]} | {cells} |")
    return "\n".join(lines)


def page(found: Sequence[Row]) -> str:
    """Return the page."""
    return f"""# Table 6.6 of TODAES 2022

Made by `python -m figures.todaes2022_table_6_6 TABLE`. MB are 1,000,000 bytes, weights included, four
bytes a number. {EVALUATIONS} evaluations an application, seed {SEED}.

## By methodology, in the published accounting

None: a buffer for each edge. [76]: whole buffers shared within each network. [65]: all layers by rows,
nothing shared. Parts and reuse: the smallest of our search, where buffers may also be shared largest
edge first: the same accounting, another order than Algorithm 8's.

{published_table(found)}

Where we differ: the networks here are fused, as the paper's tool ships them, the "none" of the paper is
of networks whose activations and normalisations are layers of their own (application 6 unfused: 630).
The sharing of [76] depends on the order of layers and on what shares with what. Application 5 as
shipped holds Inception-ResNet V2; here it is Inception V2 of the onnx package, MobileNetV1 of width 1/4
and ResNet-50 of our catalogue.

No plan has less: proved for all layers whole or by rows, for whole buffers and for offsets, whatever
the order of firings, where each edge has a buffer of its own, the smallest that its block can run with,
and is in use from the first firing of its producer to the last of its consumer. Applications 1 to 4
have points with as much in use together: for offsets their bounds cannot be raised.

## The other reading of strides

The text does not say how a window moves that skips rows. Above it moves by its kernel, and what is left
comes with the last phase; here it moves by its stride. Padding is ignored in both, and the weights are
the same; so are none and [76]. {STRIDE_EVALUATIONS} evaluations an application.

{stride_table(found)}

{sixth(found[-1])}

## Beyond: rates that can run

{own_table(found)}

Offsets are of the smallest chromosome for whole buffers, or of that with the least in use together,
which is climbed for network by network; in-place elementwise layers are of the same chromosome. Each
arena was shown to the checker. No plan has less: as above, where no layer works in place.
"""


def sixth(row: Row) -> str:
    """Return what each reading gives of the printed memory of application 6."""
    weights = row.published.weights
    in_use = f"{(row.bound_published - weights) / 1e6:.2f} MB"
    none, reuse, parts, least = PAPER[row.name]
    sizes = (
        row.smallest_stride,
        row.bound_published,
        weights + row.published.reuse_only,
        weights + row.published.parts_only,
        weights + row.stride.parts_only,
    )
    found, bound, shared, by_kernel, by_stride = (f"{size / 1e6:.2f}" for size in sizes)
    return f"""So by the stride {found} MB are found for application 6, which prints as {least}; by the
kernel no plan has less than {bound} MB. Neither reading gives the printed {reuse} of [76]
(here {shared}) and {parts} of [65] ({by_kernel} by the kernel, {by_stride} by the stride), nor the
{none} without reduction.

By the kernel a strided 1x1 window reads all rows that are left with the last phase: 29 of the 56 rows
that both readers of the first such tensor of ResNet-50 wait for, 3.32 MB. If all layers of the next
stage work by rows, both readers of its last tensor hold 15 rows at the same time, 1.72 MB. If one does
not, a tensor of 1.6 MB beside it is whole. With the small buffers along the way this network has at
least {in_use} in use together, beside {weights / 1e6:.2f} MB of weights."""


def picture(row: Row) -> str:
    """Return memory against the time of a frame, for one application."""
    layers = len(row.evaluator.application.layers)
    (whole, *whole_periods), (parts, *part_periods) = (
        row.evaluator.evaluate((gene,) * layers) for gene in (None, 1)
    )
    front = [(point.memory, float(point.time)) for point in row.front.points]
    others = {
        "reuse only": (whole, float(sum(whole_periods))),
        "all by rows": (parts, float(sum(part_periods))),
    }
    title = f"{row.name}: memory against time"
    return str(tradeoff_picture(title, front, others, chosen=None, bound=row.bound, suffix="svg"))


def main(table: str) -> None:
    """Write the page, and the front of application 1."""
    found = [row_of(table, name) for name in PAPER]
    Path(__file__).with_suffix(".md").write_text(page(found))
    Path(__file__).with_name("todaes2022_table_6_6.svg").write_text(picture(found[0]))


if __name__ == "__main__":
    main(sys.argv[1])
