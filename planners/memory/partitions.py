"""Partitions of a run of layers into stages, with candidate rows of a firing and channel blocks.

The layers are between two separators of an execution order. A stage computes consecutive layers of the
run. If a run has too many partitions, only a few coarse ones are candidates.

Example: layers (conv, relu) have the partitions ((conv), (relu)) and, if both can form a stage,
((conv, relu)).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from planners.memory.stages import StageTable
from planners.plan.accumulators import sums_over_rows, takes_rows
from planners.plan.plan import Mode, Stage

ROWS_AT_A_TIME = (1, 2, 4, 8, 16)  # of stages of several layers
PARTS = (2, 4, 8, 16)  # channel blocks of a stage
MOST_ROWS_IN_PARTS = 2  # a firing
MOST_PARTITIONS = 128  # of a run into stages: all of them, or a few coarse ones

Names = tuple[str, ...]
Stages = tuple[Stage, ...]


def stages_of_one_run(table: StageTable, layers: Names, parts: Sequence[int]) -> Iterator[Stage]:
    """Yield the stages that compute all layers of a run, with candidate rows and channel blocks.

    parts: numbers of channel blocks, in addition to 1.
    """
    accumulating_layer = table.accumulating_layer(layers) if parts else None
    for rows in candidate_rows(layers, table):
        stage = Stage(layers=layers, rows=rows)
        yield stage
        if accumulating_layer is not None and rows <= MOST_ROWS_IN_PARTS:
            for count in parts:
                if count <= _channels(table, stage):
                    yield replace(
                        stage, channel_blocks=count, accumulating_layer=accumulating_layer
                    )


def stage_partitions(
    table: StageTable, layers: Names, *, parts: Sequence[int], most: int
) -> Iterator[Stages]:
    """Yield partitions of a run of layers into several stages.

    parts: numbers of channel blocks, in addition to 1. most: limit on the partitions into runs, above
    which only coarse partitions and single layers are yielded.
    """
    partitions = list(islice(_partitions_into_runs(table, layers), most + 1))
    if len(partitions) > most:
        yield single_layers(table, layers)
        yield from coarse_partitions(table, layers)
        return
    for runs in sorted(partitions, key=len):
        if len(runs) > 1:
            yield from _with_rows(table, layers, runs, parts)


def single_layers(table: StageTable, layers: Names) -> Stages:
    """Return the partition in which each layer is a stage, row by row."""
    return tuple(_stage(table, layers, (name,), 1) for name in layers)


def coarse_partitions(table: StageTable, layers: Names) -> Iterator[Stages]:
    """Yield a few partitions of a run of layers, with stages as long as possible.

    Of four variants, two retain attention scores inside a stage, column by column: only stages
    that begin with scores; stages that end with a product with weights or before scores. Two are
    for all layers: fanout-free stages, in which each inner tensor has one reader, so that no two
    readers recompute rows of a tensor; all stages.
    """
    variants = ("scores", "products", "fanout-free", "all")
    for runs in dict.fromkeys(_longest_runs(table, layers, variant) for variant in variants):
        if len(runs) < len(layers):
            yield tuple(_stage(table, layers, run, 1) for run in runs)


def candidate_rows(layers: Sequence[str], table: StageTable) -> Sequence[int]:
    """Return the candidate rows of a firing of a stage.

    A single layer recomputes no row, so its only candidate is 1. For several layers, more rows a
    firing mean fewer recomputed rows and larger strips.
    """
    height = table.height(layers[-1])
    if len(layers) == 1 or height == 1:
        return (1,)
    return [rows for rows in ROWS_AT_A_TIME if rows < height] + [height]


def _stage(table: StageTable, layers: Names, run: Names, rows: int) -> Stage:
    """Return the stage of some of the layers; a reduction of rows of the layers accumulates.

    rows: result rows of each firing.
    """
    network = table.network
    layer = network.layer(run[0])
    is_inside = len(run) == 1 and layer.inputs[0] in layers
    is_last = run[-1] == layers[-1]
    if is_inside and (sums_over_rows if not is_last else takes_rows)(network, layer):
        return Stage(layers=run, mode=Mode.ACCUMULATING)
    return Stage(layers=run, rows=rows)


def _channels(table: StageTable, stage: Stage) -> int:
    """Return the channels of the first layer of a stage, the number that channel blocks divide."""
    return table.network.layer(stage.layers[0]).shape.channels


def _partitions_into_runs(
    table: StageTable, layers: Names, begin: int = 0
) -> Iterator[tuple[Names, ...]]:
    """Yield all partitions of the layers from index `begin` on into runs that can be stages."""
    if begin == len(layers):
        yield ()
        return
    for end in table.stage_ends(layers)[begin]:
        for rest in _partitions_into_runs(table, layers, end):
            yield (layers[begin:end], *rest)


def _with_rows(
    table: StageTable, layers: Names, runs: Sequence[Names], parts: Sequence[int]
) -> Iterator[Stages]:
    """Yield partitions whose stages of several layers compute the same number of rows in a firing."""
    counts = {run: candidate_rows(run, table) for run in runs}
    for rows in sorted({rows for count in counts.values() for rows in count}):
        stages = tuple(
            _stage(table, layers, run, rows if rows in counts[run] else 1) for run in runs
        )
        if max(stage.rows for stage in stages) == rows:
            yield stages
            if rows <= MOST_ROWS_IN_PARTS:
                yield from _in_parts(table, stages, parts)


def _in_parts(table: StageTable, stages: Stages, parts: Sequence[int]) -> Iterator[Stages]:
    """Yield the stages with the same number of channel blocks in all stages that support them."""
    accumulating_layers = [table.accumulating_layer(stage.layers) for stage in stages]
    for count in parts:
        in_blocks = tuple(
            replace(stage, channel_blocks=count, accumulating_layer=layer)
            if layer is not None and _channels(table, stage) >= count
            else stage
            for stage, layer in zip(stages, accumulating_layers, strict=True)
        )
        if in_blocks != stages:
            yield in_blocks


def _longest_runs(table: StageTable, layers: Names, variant: str) -> tuple[Names, ...]:
    """Return the partition of a run into the longest stages of a variant of coarse partitions."""
    network = table.network
    operators = [network.layer(name).operator for name in layers]
    is_score = [
        operator.attention is not None and operator.attention.gives == "scores"
        for operator in operators
    ]
    is_end = [operator.filter_bank is not None for operator in operators]
    readers = network.consumers
    is_shared = [len(readers[name]) > 1 for name in layers]
    stage_ends = table.stage_ends(layers)
    runs: list[Names] = []
    begin = 0
    while begin < len(layers):
        last = len(layers) if variant != "scores" or is_score[begin] else begin + 1
        inner = range(begin + 1, len(layers))
        if variant == "products":
            last = next((n for n in inner if is_end[n - 1] or is_score[n]), last)
        elif variant == "fanout-free":
            last = next((n for n in inner if is_shared[n - 1]), last)
        end = max(end for end in stage_ends[begin] if end <= last)
        runs.append(layers[begin:end])
        begin = end
    return tuple(runs)
