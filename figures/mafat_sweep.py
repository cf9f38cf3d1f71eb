"""Figures 3.1, 3.2 and 4.1 to 4.3 of MAFAT, with our measurements.

Farley and Gerstlauer, MAFAT: Memory-Aware Fusing and Tiling of Neural Networks for Accelerated Edge
Inference, 2021: the first 16 layers of YOLOv2 at 608x608. Run `python -m figures.mafat_sweep`:
writes the .md and the pictures beside it, from mafat_sweep.csv, which mafat_measure.py measures.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cnn2csdf.catalogue.yolo import yolo_v2_beginning
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.search.pareto import improving
from figures.line_pictures import PlottedPoints, lines_picture
from figures.published.mafat import SWEEP_CUTS, manual_sweep, work
from figures.tile_pictures import TiledMap, tiles_picture
from planners.memory.order import TopologicalOrder, chain_of
from planners.published.mafat import (
    MB,
    Predictor,
    paper_configuration,
    paper_name,
    predicted,
    tiles_of,
)

HERE = Path(__file__)


def yolo() -> TopologicalOrder:
    """Return the chain of the paper: convolutions with what follows them, and poolings."""
    return chain_of(simplified(Model(network=yolo_v2_beginning())).network)


class Measured(NamedTuple):
    """A row of the table of measurements."""

    arena: int
    touched: int
    process: int
    milliseconds: float


def measured() -> dict[str, Measured]:
    """Return the measurements by configuration."""
    with HERE.with_suffix(".csv").open(newline="") as file:
        return {
            row["configuration"]: Measured(
                int(row["arena"]),
                int(row["touched"]),
                int(row["process"]),
                float(row["milliseconds"]),
            )
            for row in csv.DictReader(file)
        }


def bias(rows: Mapping[str, Measured]) -> int:
    """Return what a process needs besides its arena: calibrated on one configuration, 1x1/NoCut."""
    return rows["1x1/NoCut"].process - rows["1x1/NoCut"].arena


def mb(size: int) -> str:
    """Return bytes in the paper's MB."""
    return f"{size / MB:.1f}"


def sweep_table(chain: TopologicalOrder, rows: Mapping[str, Measured]) -> str:
    """Return prediction against measurement for the manual sweep."""
    lines = [
        "| configuration | published predictor | fitted | our plan | arena touched | "
        "process predicted | process measured | off by | redundant work | ms |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n"
    ]
    whole = work(chain, paper_configuration(chain, 1, None))
    for name, groups in manual_sweep(chain).items():
        row = rows[name]
        expected = row.arena + bias(rows)
        cells = (
            name,
            mb(predicted(chain, groups)),
            mb(predicted(chain, groups, Predictor.FITTED)),
            mb(row.arena),
            mb(row.touched),
            mb(expected),
            mb(row.process),
            f"{(row.process - expected) / row.process:+.2%}",
            f"{work(chain, groups) / whole - 1:.1%}",
            f"{row.milliseconds:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


HEAD = """# Fused tiles of YOLOv2's first 16 layers: MAFAT and ours

Made by `python -m figures.mafat_sweep` from what `python -m figures.mafat_measure` measures, the
table mafat_sweep.csv. MB are 2^20 bytes on this page, as in the paper. A configuration is written
as there: tiles above the cut, the cut, tiles below.

## Prediction and measurement (figures 3.1 and 3.2)

"Our plan" is the arena that the buffers of all tiles need; "touched" are the bytes up to the last one
that a run wrote. Both are equal in every row: there is nothing to calibrate. "Process" is the peak of
the whole process, predicted as the arena and one bias, calibrated on 1x1/NoCut alone: {bias} MB of
interpreter, libraries and weights.

The published predictor (algorithms 1 and 2, read literally, with its bias of 31 MB) is for another
program, Darknet on a Raspberry Pi 3; it says nothing of the maps between groups, and counts the input
of each tile twice. The paper states 66 MB for 5x5/8/2x2; its text gives 42.8. "Fitted" counts the input
once, and 55 MB instead of 31: see mafat_table4_1.md. Against the process
measured here it is off by {lowest} to {highest}.

{sweep}
![predicted and measured memory](mafat_sweep_memory.svg)

## Time over memory (figures 4.1 to 4.3)

The paper limits the memory of a Raspberry Pi 3 and measures how swapping slows it down. Here nothing
swaps: a configuration fits or does not. The pictures show the time of each configuration over its
arena: of the processor, one thread, the least of five runs on a machine that others use too.

Our plans are the fastest by the figures of a platform, which know nothing of caches and of what a
call of numpy costs. On this machine the best of the manual sweep are faster than they are, at equal
memory, although they compute more.

![time over tiles](mafat_sweep_time.svg)

![least time over memory](mafat_sweep_limit.svg)

![what tiles hold](mafat_sweep_tiles.svg)

Table 4.1, its choices under a memory limit beside ours, is in mafat_table4_1.md. All rows streamed,
without any tile: an arena of {rows} MB, {rows_time} ms, nothing computed twice.
"""


def page() -> str:
    """Return the page."""
    chain, rows = yolo(), measured()
    off = [
        predicted(chain, groups) / rows[name].process - 1
        for name, groups in manual_sweep(chain).items()
    ]
    return HEAD.format(
        bias=mb(bias(rows)),
        lowest=f"{min(off):.0%}",
        highest=f"{max(off):+.0%}",
        sweep=sweep_table(chain, rows),
        rows=mb(rows["rows"].arena),
        rows_time=f"{rows['rows'].milliseconds:.0f}",
    )


def memory_lines(chain: TopologicalOrder, rows: Mapping[str, Measured]) -> list[PlottedPoints]:
    """Return predicted and measured memory over the tiles above the cut."""
    lines = []
    for colour, cut in enumerate((None, 8)):
        groups = [paper_configuration(chain, top, cut) for top in range(1, 6)]
        names = [paper_name(one) for one in groups]
        what = "no cut" if cut is None else f"cut {cut}, 2x2 below"
        published = [predicted(chain, one) / MB for one in groups]
        ours = [(rows[name].arena + bias(rows)) / MB for name in names]
        found = [rows[name].process / MB for name in names]
        lines += [
            PlottedPoints(f"published predictor, {what}", range(5), published, "dashed", colour),
            PlottedPoints(f"our prediction, {what}", range(5), ours, "line", colour),
            PlottedPoints(f"process measured, {what}", range(5), found, "points", colour),
        ]
    return lines


def time_lines(rows: Mapping[str, Measured]) -> list[PlottedPoints]:
    """Return the time over the tiles above the cut, for each cut."""
    names = [(f"cut {cut}, 2x2 below", f"/{cut}/2x2") for cut in SWEEP_CUTS]
    return [
        PlottedPoints(
            what, range(5), [rows[f"{top}x{top}{rest}"].milliseconds for top in range(1, 6)]
        )
        for what, rest in [("no cut", "/NoCut"), *names]
    ]


def limit_lines(rows: Mapping[str, Measured]) -> list[PlottedPoints]:
    """Return the least time of what fits an arena: the manual sweep, and our plans."""
    ours = {name for name in rows if name.startswith("ours") or name == "rows"}
    return [
        _least("manual sweep", [row for name, row in rows.items() if name not in ours]),
        _least("our plans", [rows[name] for name in ours]),
    ]


def _least(label: str, rows: Sequence[Measured]) -> PlottedPoints:
    kept = improving(rows, lambda one: (one.arena, one.milliseconds))
    return PlottedPoints(
        label, [one.arena / MB for one in kept], [one.milliseconds for one in kept], "steps"
    )


def tiled_maps(chain: TopologicalOrder) -> list[TiledMap]:
    """Return what three tiles of the upper group of 5x5/8/2x2 hold of some maps."""
    group = tiles_of(chain, paper_configuration(chain, 5, 8)[0])
    places = ((0, 0), (2, 2), (2, 3))
    return [
        TiledMap(
            name,
            chain.network.layer(name).shape.height,
            chain.network.layer(name).shape.width,
            [
                (*region.rows, *region.columns)
                for region in (group.held(name, *at) for at in places)
            ],
        )
        for name in (chain.at(0), "conv2", "conv4", "pool7")
    ]


def pictures() -> dict[str, str | bytes]:
    """Return the pictures by the end of their name."""
    chain, rows = yolo(), measured()
    ticks = [f"{top}x{top}" for top in range(1, 6)]
    return {
        "memory": lines_picture(
            "Memory of YOLOv2's first 16 layers",
            memory_lines(chain, rows),
            across="tiles above the cut",
            up="MB (2^20 bytes)",
            ticks=ticks,
            suffix="svg",
        ),
        "time": lines_picture(
            "Time of a frame, one thread",
            time_lines(rows),
            across="tiles above the cut",
            up="ms",
            ticks=ticks,
            suffix="svg",
        ),
        "limit": lines_picture(
            "Least time of what fits",
            limit_lines(rows),
            across="arena (MB, 2^20 bytes)",
            up="ms",
            suffix="svg",
        ),
        "tiles": tiles_picture("Three tiles of 5x5 above the cut at 8", tiled_maps(chain), "svg"),
    }


if __name__ == "__main__":
    HERE.with_suffix(".md").write_text(page())
    for name, picture in pictures().items():
        HERE.with_name(f"{HERE.stem}_{name}.svg").write_text(str(picture))
