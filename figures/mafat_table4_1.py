"""Table 4.1 of MAFAT: configurations under a memory limit, the paper's beside ours; and its claims.

Farley and Gerstlauer, MAFAT: Memory-Aware Fusing and Tiling of Neural Networks for Accelerated Edge
Inference, 2021. Run `python -m figures.mafat_table4_1`: writes the .md beside it, from
mafat_sweep.csv, which mafat_measure.py measures.
"""

from collections.abc import Mapping
from pathlib import Path

from figures.mafat_measure import TERMS
from figures.mafat_sweep import Measured, mb, measured, yolo
from figures.published.mafat import BIAS, DARKNET, TABLE_4_1, layer_table, memory_to_beat, work
from planners.fusion.planning import FusionPlan, best_plan
from planners.memory.order import TopologicalOrder
from planners.published.mafat import (
    MB,
    Predictor,
    named_configuration,
    paper_configuration,
    paper_name,
    paper_search,
    predicted,
)

SMALLEST = "5x5/8/2x2"
WHOLE = "1x1/NoCut"

HEAD = """# Table 4.1 of MAFAT: choices under a memory limit

Made by `python -m figures.mafat_table4_1`. MB are 2^20 bytes on this page, as in the paper; its
milliseconds are those of one core of a Raspberry Pi 3, whose memory a control group limits, ours those
of one thread here, from mafat_sweep.csv.

## The choices

"Best" is the best of the paper's manual sweep, "Algorithm 3" what its search chose. "As printed" is
Algorithm 3 with the predictor of Algorithms 1 and 2 as printed (scratch + output + twice the input, and
31 MB); "fitted" is Algorithm 3 with scratch + output + the input once, and 55 MB. The search is the
printed one in both: cuts 16 (none), 12 and 8 outside, tiles 1x1 to 5x5 inside, at most 2x2 where the
cut is 12 or later, strictly below the limit, else the last, {smallest}.

{choices}
No constant makes the printed predictor agree with the table. Each row bounds what was predicted:
1x1/NoCut is below 192 MB, and {smallest} is 66 MB, so that they are less than 126 MB apart; the printed
sums are {apart} MB apart. The fit is one constant, found from this table and not in the text; every
constant from 54.6 to 55.6 MB gives these nine choices and 66 MB. What the {more} MB beyond 31 are,
the text does not say; the kernels of all layers are {kernels} MB.

## Ours

The exact search over all groups, even grids up to 5x5, recomputed or kept overlaps and row streaming;
its memory is the arena and the bias of 31 MB, so that all maps count that the published predictor
leaves out. It is given the limit, or what the predictor as printed says of Algorithm 3's choice where
that is less, and takes the fastest that fits by the figures of a Cortex-M7. "Redundant" is work beyond
that of the network as a whole; "ms" of Algorithm 3 are of the choice with the printed predictor.

{ours}
The smallest arena of all: {least} MB, with the bias {floor}.

## The claims

| claim of the paper | printed | from its table | here, published accounting | here, ours |
|---|---|---|---|---|
{claims}
"""
NO_SWAP = """
Why the speed-ups are not measured here: the paper's come from swapping. Darknet, which works layer by
layer, is slower the more its {whole} MB exceed the limit (over 6.5 times at 16 MB). The machine of this
page has no swap, and its control groups are not for processes to change: `ulimit -v` makes an
allocation fail, `ulimit -m` does nothing on Linux, and a map of a file stays in the memory that is
free. So a limit divides configurations into those that run and those that do not, at the same speed;
the smallest limit of each is the memory of its process in mafat_sweep.md.

What is predicted instead: Darknet's time is the paper's, its speed-up times Algorithm 3's time in
Table 4.1. A choice of Algorithm 3 here that is not that of the paper was measured there, too: its
sweep has all tops of 1x1 to 5x5 over 2x2. It takes at least as long as the best of that limit. Our
plan, which the paper has not, takes as much longer than {whole_name} as it does here, from the
15.0 s of {whole_name} there.
"""


def our_plan(chain: TopologicalOrder, limit_mb: int) -> FusionPlan | None:
    """Return our plan where the arena and the bias of the paper fit; None if none does."""
    return best_plan(chain, TERMS, max(0, memory_to_beat(chain, limit_mb * MB) - BIAS)).plan


def choices_table(chain: TopologicalOrder) -> str:
    """Return what the paper chose and what its search chooses here."""
    lines = [
        "| limit MB | best | ms | Algorithm 3 | ms | slower | as printed | predicted | fitted | "
        "predicted |\n|---|---|---|---|---|---|---|---|---|---|\n"
    ]
    for limit, row in TABLE_4_1.items():
        cells = [str(limit), row.best, str(row.best_ms), row.chosen, str(row.chosen_ms)]
        cells.append(f"{row.chosen_ms / row.best_ms - 1:.1%}")
        for predictor in Predictor:
            groups = paper_search(chain, limit * MB, predictor)
            size = predicted(chain, groups, predictor)
            cells += [paper_name(groups), mb(size) + ("" if size < limit * MB else " (too large)")]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def ours_table(chain: TopologicalOrder, rows: Mapping[str, Measured]) -> str:
    """Return Algorithm 3 with the printed predictor beside our search."""
    lines = [
        "| limit MB | Algorithm 3 | predicted | redundant | ms | ours | predicted | redundant | ms |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    ]
    whole = work(chain, paper_configuration(chain, 1, None))
    for limit in TABLE_4_1:
        theirs = paper_search(chain, limit * MB)
        name = paper_name(theirs)
        cells = [str(limit), name, mb(predicted(chain, theirs))]
        cells += [f"{work(chain, theirs) / whole - 1:.1%}", f"{rows[name].milliseconds:.0f}"]
        plan = our_plan(chain, limit)
        if plan is None:
            cells += ["none fits", "", "", ""]
        else:
            cells += [
                _sections_in_words(chain, plan),
                mb(plan.memory + BIAS),
                f"{plan.redundant / whole:.1%}",
                f"{rows[f'ours {limit}'].milliseconds:.0f}",
            ]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def _sections_in_words(chain: TopologicalOrder, plan: FusionPlan) -> str:
    """Return the sections and the mode of each group of a plan."""
    ends = {chain.at(section): section for section in range(chain.sections + 1)}
    words, first = [], 0
    for row in plan.to_records():
        words.append(f"{first}:{ends[row['last']]} {row['mode']}")
        first = ends[row["last"]]
    return ", ".join(words)


def claims(chain: TopologicalOrder, rows: Mapping[str, Measured], least: int) -> str:
    """Return each claim with what there is of it here."""
    worst = max(row.chosen_ms / row.best_ms - 1 for row in TABLE_4_1.values())
    small, whole = named_configuration(chain, SMALLEST), named_configuration(chain, WHOLE)
    printed, fitted = (predicted(chain, small, one) for one in Predictor)
    process = rows[SMALLEST].process / rows[WHOLE].process
    planned = (least + BIAS) / (rows[WHOLE].arena + BIAS)
    shares = (predicted(chain, small, one) / predicted(chain, whole, one) for one in Predictor)
    published = " or ".join(f"{share:.0%}" for share in shares)
    lines = [
        f"smallest memory, {SMALLEST} | 66 MB | | {mb(printed)} as printed, {mb(fitted)} fitted "
        f"| {mb(rows[SMALLEST].arena + BIAS)} for this one, {mb(least + BIAS)} for the smallest",
        f"Algorithm 3 within of the best | 6% | {worst:.1%} (64 MB) | the same choices with the fit "
        f"| {behind_best(rows)}, of those measured here; the fastest by proof for a Cortex-M7",
        *(speed_up(chain, rows, limit, least) for limit in DARKNET),
        f"memory of Darknet's | less than half | | {published} | {process:.0%} of the process "
        f"measured, {planned:.0%} planned with the bias",
    ]
    return "\n".join(f"| {line} |" for line in lines)


def behind_best(rows: Mapping[str, Measured]) -> str:
    """Return how much slower our plan is here than the fastest row that fits as well, at most."""
    shares = []
    for limit in TABLE_4_1:
        own = rows.get(f"ours {limit}")
        if own is not None:
            fitting = [one for one in rows.values() if one.arena + BIAS <= limit * MB]
            best = min(one.milliseconds for one in fitting)
            shares.append((own.milliseconds / best - 1, limit))
    share, limit = max(shares)
    return f"{share:.0%} at most ({limit} MB)"


def speed_up(chain: TopologicalOrder, rows: Mapping[str, Measured], limit: int, least: int) -> str:
    """Return the line of the speed over Darknet: Table 4.1's times where what is chosen fits.

    Another choice of the paper's sweep takes no less than the best measured at the limit.
    """
    darknet = DARKNET[limit] * TABLE_4_1[limit].chosen_ms
    fastest = min(row.chosen_ms for row in TABLE_4_1.values())
    choice = paper_search(chain, limit * MB)
    whole = work(chain, paper_configuration(chain, 1, None))
    best = TABLE_4_1[limit]
    if paper_name(choice) == TABLE_4_1[limit].chosen:
        published = f"{DARKNET[limit]}: the choice of Table 4.1, {paper_name(choice)}, at its time"
    else:
        published = (
            f"{darknet / best.best_ms:.2f} at most: the paper measured {paper_name(choice)}, too, and "
            f"{best.best} as the best"
        )
    plan = our_plan(chain, limit)
    if plan is None:
        own = (
            f"none fits with the bias ({mb(least + BIAS)} MB); the arena alone ({mb(least)} MB) does: "
            f"{darknet / fastest:.2f} at most"
        )
    else:
        slower = rows[f"ours {limit}"].milliseconds / rows[WHOLE].milliseconds
        own = (
            f"{darknet / (fastest * slower):.2f} predicted, without swapping and "
            f"{slower - 1:.0%} slower than {WHOLE}; {plan.redundant / whole:.1%} more work"
        )
    return (
        f"faster than Darknet at {limit} MB | {DARKNET[limit]} | Darknet {darknet / 1000:.1f} s "
        f"| {published} | {own}"
    )


def page() -> str:
    """Return the page."""
    chain, rows = yolo(), measured()
    least = best_plan(chain, TERMS, 0).front[0].memory
    ends = (named_configuration(chain, name) for name in (WHOLE, SMALLEST))
    sums = [predicted(chain, groups) for groups in ends]
    text = HEAD + NO_SWAP
    return text.format(
        smallest=SMALLEST,
        choices=choices_table(chain),
        apart=mb(sums[0] - sums[1]),
        more=(Predictor.FITTED.bias - Predictor.PRINTED.bias) // MB,
        kernels=f"{kernel_bytes(chain) / MB:.2f}",
        ours=ours_table(chain, rows),
        least=mb(least),
        floor=mb(least + BIAS),
        claims=claims(chain, rows, least),
        whole=mb(rows[WHOLE].arena),
        whole_name=WHOLE,
    )


def kernel_bytes(chain: TopologicalOrder) -> int:
    """Return the bytes of all kernels."""
    return sum(row.weights for row in layer_table(chain))


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
