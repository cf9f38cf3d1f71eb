"""Local search over the stages inside the groups of a plan: their order, and their partition.

The dynamic program partitions the layers between two separators into stages in one order of layers.
This search starts from one of its plans and changes the stages of the groups with the most live bytes:
another topological order of the stages, one stage moved, two neighbours merged, or a stage split. Rows
of a firing are unchanged, and no plan has more multiply-accumulates than that at the start. A change
that raises neither the arena nor the maximum of live bytes is accepted.

Source: Hoos and Stützle, Stochastic Local Search, 2004 (iterative improvement with plateau moves, and
insertion neighbourhoods of schedules).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from cnn2csdf.network import Network
from csdf.time_limit import Stop
from planners.memory.build import smaller_plan
from planners.memory.moves import GroupMove, JoinedMoves
from planners.memory.order import TopologicalOrder
from planners.memory.stages import StageTable
from planners.order.heuristics import random_order
from planners.plan.plan import Kind, Mode, Stage, StreamingPlan

SEED = 1
# The search ends after this number of consecutive failures for each stage of the largest move. Feature
# pyramid with a move of 13 stages (115,488 bytes at the start): 113,208 bytes with 4 failures, 107,128
# with 16, the same with 32.
FAILURES_A_STAGE = 16
# A block like Inception-C: 2,264 bytes without restarts, 2,232 with 1, the same with 8.
RESTARTS = 2
ANY_BYTES = 2**62  # more than any arena has
PLAN_EFFORT = 200  # microseconds of a typical machine for each stage of a plan


Chain = tuple[JoinedMoves, ...]  # the groups of a plan


class StageOrders:
    """Local search over chains of groups of a network, with other orders of their stages."""

    def __init__(
        self, layer_order: TopologicalOrder, table: StageTable, stop: Stop, *, is_streamed: bool
    ) -> None:
        """Set the network. is_streamed: whether its input arrives row by row."""
        self._layer_order, self._table, self._is_streamed = layer_order, table, is_streamed
        self._stop, self._random = stop, Random(SEED)

    def improve(self, chain: Chain, plan: StreamingPlan) -> StreamingPlan:
        """Return the smallest plan that local search finds from a plan of a chain, or the plan itself.

        After each local optimum the search restarts from a random order of the layers of one of the
        moves with the most live bytes, each layer a stage.
        """
        best_chain, best = self._local_optimum(chain, plan)
        for _ in range(RESTARTS):
            indices = self._neediest(best_chain, best)
            if not indices or self._stop.is_over():
                break
            index = group, move = self._random.choice(indices)
            changed = _with_stages(best_chain, index, self._restarted(best_chain[group][move]))
            start = self._planned(changed, ANY_BYTES)
            if start is not None and start.multiply_accumulates <= plan.multiply_accumulates:
                optimum_chain, optimum = self._local_optimum(changed, start)
                if _bytes(optimum) < _bytes(best):
                    best_chain, best = optimum_chain, optimum
        return best

    def _local_optimum(self, chain: Chain, plan: StreamingPlan) -> tuple[Chain, StreamingPlan]:
        """Return a chain and its plan after changes that do not raise its bytes, until many fail."""
        work, failures = plan.multiply_accumulates, 0
        # By the stages of a rejected chain: the least `_bytes` that its plan can have. A plan that did
        # not get below a limit has at least that arena; a chain with more MACs is never accepted.
        rejected: dict[tuple[tuple[Stage, ...], ...], tuple[int, int]] = {}
        while (indices := self._neediest(chain, plan)) and not self._stop.is_over():
            largest = max(len(chain[group][move].stages) for group, move in indices)
            failures += 1
            if failures > FAILURES_A_STAGE * largest:
                break
            index = group, move = self._random.choice(indices)
            stages = self._changed(chain[group][move])
            if stages is None:
                continue
            changed = _with_stages(chain, index, stages)
            key = tuple(move.stages for moves in changed for move in moves)
            if rejected.get(key, _bytes(plan)) > _bytes(plan):
                continue
            below_bytes = plan.arena_bytes + 1
            candidate = self._planned(changed, below_bytes)
            if candidate is None:
                rejected[key] = below_bytes, 0
            elif candidate.multiply_accumulates > work:
                rejected[key] = ANY_BYTES, 0
            elif _bytes(candidate) > _bytes(plan):
                rejected[key] = _bytes(candidate)
            else:
                failures = 0 if _bytes(candidate) < _bytes(plan) else failures
                chain, plan = changed, candidate
        return chain, plan

    def _planned(self, chain: Chain, below_bytes: int) -> StreamingPlan | None:
        """Return the plan of a chain; None if the plan does not have less than `below_bytes`."""
        count = sum(len(move.stages) for moves in chain for move in moves)
        self._stop.spend(PLAN_EFFORT * count)
        return smaller_plan(
            self._layer_order,
            self._table,
            chain,
            is_streamed=self._is_streamed,
            below_bytes=below_bytes,
        )

    def _restarted(self, move: GroupMove) -> tuple[Stage, ...]:
        """Return the stages of a move in a random order, with stages by rows split into layers."""
        pieces = [
            replace(stage, layers=layers)
            for stage in move.stages
            for layers in (
                [(name,) for name in stage.layers] if _is_by_rows(stage) else [stage.layers]
            )
        ]
        order = random_order(_predecessors(pieces, self._table.network), self._random)
        return tuple(pieces[number] for number in order)

    def _neediest(self, chain: Chain, plan: StreamingPlan) -> list[tuple[int, int]]:
        """Return the moves of several stages in the groups with the most live bytes: group and move."""
        live = _live_bytes(plan)
        results = {
            stage.result
            for group, live_bytes in zip(plan.groups, live, strict=True)
            if live_bytes == max(live)
            for stage in group.stages
        }
        return [
            (group_number, move_number)
            for group_number, moves in enumerate(chain)
            for move_number, move in enumerate(moves)
            if len(move.stages) > 1
            and not move.is_rematerialised
            and any(stage.result in results for stage in move.stages)
        ]

    def _changed(self, move: GroupMove) -> tuple[Stage, ...] | None:
        """Return the stages of a move after a random change; None if the change is not possible."""
        stages = move.stages
        change = self._random.choice(("order", "shift", "merge", "merge", "split"))
        if change in ("order", "shift"):
            before = _predecessors(stages, self._table.network)
            order = (random_order if change == "order" else shifted)(before, self._random)
            return tuple(stages[number] for number in order)
        if move.in_turn:  # stages are groups of the plan, which have one layer each
            return None
        return self._merged(stages) if change == "merge" else self._split(stages)

    def _merged(self, stages: tuple[Stage, ...]) -> tuple[Stage, ...] | None:
        """Return the stages with two random neighbours merged; None if they cannot be one stage."""
        number = self._random.randrange(len(stages) - 1)
        first, second = stages[number : number + 2]
        layers = (*first.layers, *second.layers)
        if not (_is_by_rows(first) and _is_by_rows(second) and self._is_stage(layers)):
            return None
        return (*stages[:number], replace(second, layers=layers), *stages[number + 2 :])

    def _split(self, stages: tuple[Stage, ...]) -> tuple[Stage, ...] | None:
        """Return the stages with a random stage split in two; None if it cannot be split there."""
        number = self._random.randrange(len(stages))
        stage = stages[number]
        if len(stage.layers) == 1 or not _is_by_rows(stage):
            return None
        cut = self._random.randrange(1, len(stage.layers))
        parts = stage.layers[:cut], stage.layers[cut:]
        if not all(map(self._is_stage, parts)):
            return None
        pieces = (replace(stage, layers=layers) for layers in parts)
        return (*stages[:number], *pieces, *stages[number + 1 :])

    def _is_stage(self, layers: tuple[str, ...]) -> bool:
        return not self._layer_order.results & set(layers[:-1]) and self._table.can_be_stage(layers)


def _is_by_rows(stage: Stage) -> bool:
    """Whether a stage computes rows of all channels in a firing."""
    return stage.mode is Mode.ROWS and stage.channel_blocks == 1


def _with_stages(chain: Chain, index: tuple[int, int], stages: tuple[Stage, ...]) -> Chain:
    """Return the chain with other stages in one move."""
    group, move = index
    moves = list(chain[group])
    moves[move] = moves[move]._replace(stages=stages)
    return (*chain[:group], tuple(moves), *chain[group + 1 :])


def _bytes(plan: StreamingPlan) -> tuple[int, int]:
    """Return the bytes of the arena, and the maximum of live bytes of a group."""
    return plan.arena_bytes, max(_live_bytes(plan))


def _live_bytes(plan: StreamingPlan) -> list[int]:
    """Return the bytes of the arena that are live in each group."""
    live = [0] * len(plan.groups)
    for buffer in plan.buffers:
        if buffer.kind is not Kind.EXTERNAL:
            for group in range(buffer.begin, buffer.end):
                live[group] += buffer.size
    return live


def _predecessors(stages: Sequence[Stage], network: Network) -> list[set[int]]:
    """Return for each stage the numbers of the stages whose tensors it reads."""
    writer = {name: number for number, stage in enumerate(stages) for name in stage.layers}
    sources = (
        {source for name in stage.layers for source in network.layer(name).inputs}
        for stage in stages
    )
    return [
        {writer[source] for source in names if source in writer} - {number}
        for number, names in enumerate(sources)
    ]


def shifted(before: Sequence[set[int]], random: Random) -> list[int]:
    """Return the numbers in their order, one moved between its predecessors and its successors."""
    number = random.randrange(len(before))
    successors = [later for later, sources in enumerate(before) if number in sources]
    first = max(before[number], default=-1) + 1
    last = min(successors, default=len(before)) - 1
    order = [kept for kept in range(len(before)) if kept != number]
    order.insert(random.randint(first, last), number)
    return order
