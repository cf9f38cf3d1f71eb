"""The output of `csdf plan reuse`, as text, JSON and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from cnn2csdf.fixed_point.flash import and_in_flash
from csdf.cli import answers, loading
from csdf.cli.frame import output
from csdf.units import needed_bytes_in_words, rate_in_words, time_in_words
from planners.memory.answer import MemoryLimits
from planners.memory.command.beside import as_json as fit_as_json
from planners.memory.command.beside import in_words
from planners.memory.several_networks import Together
from planners.published.todaes import Comparison
from planners.reuse.application import WHOLE, Application
from planners.reuse.deployment import Deployment
from planners.reuse.evaluation import Evaluator
from planners.reuse.problem import Front, Point, SearchEnd, scored

TOLERANCE = 1e-4  # of the largest output: single precision, sums in another order
METHODS = {  # fields of Comparison, and what they are called
    "no_reduction": "no reduction",
    "reuse_only": "reuse within each network [76]",
    "pipelined_reuse": "reuse in the whole application",
    "parts_only": "row by row only [65]",
    "parts_and_reuse": "all row by row, and reuse",
}


class ReusePlans(NamedTuple):
    """All that is printed.

    methods: memory by the methods of the paper.
    front: points of the search, with the memory of whole buffers.
    plans: the printed front, with the memory of whole buffers or of offsets, as the chosen plan.
    whole: plan with all layers whole, and offsets in one arena.
    smallest: smallest plan with offsets in one arena.
    memory: maximum bytes of buffers and weights; None without a limit.
    rows: rows that a part may have; 0 is the whole tensor.
    chosen: the chosen point, with the memory of whole buffers; None if no point meets the constraints.
    deployment: the plan of the chosen point.
    bound: lower bound on the bytes of buffers and weights.
    is_exhausted: whether no chromosome meets the constraints, by evaluation of all chromosomes.
    fit: the answer of csdf fit, with inputs row by row.
    is_fit_taken: whether its plans are the answer, as no point meets the constraints.
    difference: largest relative difference of the outputs, if the plans of the answer were run.
    """

    evaluator: Evaluator
    methods: Comparison
    front: Front
    plans: Sequence[Point]
    whole: Deployment
    smallest: Deployment
    limits: MemoryLimits
    memory: int | None
    rows: Sequence[int]
    chosen: Point | None
    deployment: Deployment | None
    bound: int
    is_exhausted: bool
    fit: Together | None
    is_fit_taken: bool
    difference: float | None

    @property
    def application(self) -> Application:
        """The networks."""
        return self.evaluator.application

    @property
    def has_plan(self) -> bool:
        """Whether a plan meets the constraints: of this kind, or of csdf fit."""
        return self.chosen is not None or self.is_fit_taken

    @property
    def is_equal(self) -> bool:
        """Whether a run, if requested, had the outputs of each network alone."""
        return self.difference is None or self.difference <= TOLERANCE

    @property
    def is_within_limit(self) -> bool:
        """Whether the chosen plan, as it is placed, fits the memory; the published choice need not."""
        if self.memory is None or self.deployment is None:
            return True
        return self.deployment.memory_bytes <= self.memory

    @property
    def kind(self) -> str:
        """The searched plans, and the commands that search other plans."""
        counts = [str(count) for count in self.rows if count]
        parts = []
        if len(counts) == 1:
            parts = [f"by {answers.counted(int(counts[0]), 'row')}"]
        elif counts:
            parts = [f"by {', '.join(counts[:-1])} or {counts[-1]} rows"]
        layers = (
            " or ".join(["whole", *parts]) if WHOLE in self.rows else f"{parts[0]}, or all whole"
        )
        return (
            f"each layer {layers}; by rows each edge has a ring buffer of its own, input "
            "streamed; csdf plan fusion (tiles) and csdf fit (line buffers, strips) may need less"
        )

    @property
    def is_below_bound(self) -> bool:
        """Whether the memory limit is below the lower bound."""
        return self.memory is not None and self.memory < self.bound


def as_lines(answer: ReusePlans, seconds: float) -> list[str]:
    """Return the chosen plan, and other methods next to it, in lines."""
    weights = answer.evaluator.weights
    first, *chosen = _chosen_lines(answer)
    lines = [f"{answer.application.name}: {first}", *chosen, "  memory with weights"]
    for field, label in METHODS.items():
        total = weights + getattr(answer.methods, field)
        lines.append(f"    {label:<32} {needed_bytes_in_words(total):>10}")
    reason = answer.front.reason
    smallest = min(point.memory for point in answer.front.points)
    after = f" after {answers.counted(answer.front.evaluations, 'evaluation')}"
    if reason.has(SearchEnd.EVALUATIONS):
        after = ""  # the reason says it
    lines += [
        _arena_line("layer by layer in one arena", answer.whole),
        f"    {'minimum, whole-buffer sharing':<32} {needed_bytes_in_words(smallest):>10}",
        _arena_line("minimum, offsets in one arena", answer.smallest),
        f"    {'lower bound of this planner':<32} {needed_bytes_in_words(answer.bound):>10}",
        f"  front  {answers.counted(len(answer.plans), 'point')}{after}; {reason}",
    ]
    if answer.fit is not None and not answer.is_fit_taken:
        lines.append(f"  fit    csdf fit, without parameters: {in_words(answer.fit)}")
    sizes = (
        f"{answers.counted(len(answer.application.members), 'network')}, "
        f"{answers.counted(len(answer.application.layers), 'layer')}, "
        f"weights {needed_bytes_in_words(weights)}{and_in_flash(weights, answer.evaluator.flash_bytes)}"
    )
    details = (f"size   {sizes}", f"kind   {answer.kind}", f"time   {time_in_words(seconds)}")
    return [*lines, *(answers.Detail(f"  {detail}") for detail in details)]


def _arena_line(label: str, plan: Deployment) -> str:
    """Bytes with weights; where the search for offsets ended early, what they cannot be below."""
    line = f"    {label:<32} {needed_bytes_in_words(plan.memory_bytes):>10}"
    if plan.memory.peak == plan.memory.lower_bound:
        return line
    least = plan.evaluator.weights + plan.memory.lower_bound
    return f"{line}, these buffers at least {needed_bytes_in_words(least)}"


def _chosen_lines(answer: ReusePlans) -> list[str]:
    weights = answer.evaluator.weights
    if answer.chosen is None and (answer.memory or 0) < weights and answer.is_below_bound:
        stored = and_in_flash(weights, answer.evaluator.flash_bytes)
        return [
            f"no plan: the parameters alone are {needed_bytes_in_words(weights)}{stored}; the limit is "
            f"{answer.limits}"
        ]
    if answer.chosen is None:
        return _lines_without_choice(answer)
    memory, *periods = answer.chosen.score
    by_parts = [gene for gene in answer.chosen.chromosome if gene]
    speeds = ", ".join(
        f"{member.name} {rate_in_words(1 / Fraction(period), 4)} frames/s"
        for member, period in zip(answer.application.members, periods, strict=True)
    )
    only = " (the limit is met by offsets only)" if memory > (answer.memory or memory) else ""
    only = only if answer.is_within_limit else " (more than the limit)"
    separate = f"{needed_bytes_in_words(int(memory))} with whole-buffer sharing{only}"
    parts = f"{len(by_parts)} of {len(answer.application.layers)} layers row by row"
    lines = [f"{separate}, {speeds}", f"  {parts}"]
    if answer.deployment is not None:
        placed = answer.deployment.memory
        whole = needed_bytes_in_words(answer.deployment.memory_bytes)
        placing = f"{needed_bytes_in_words(placed.peak)} of RAM in one arena, {placed.status}"
        number = answers.counted(len(placed.offsets), "buffer")
        fits = "fits: " if answer.limits.is_given and answer.is_within_limit else ""
        lines = [
            f"{fits}{whole} with weights, {placing}; {speeds}",
            f"  {parts}; {number}; {separate}",
        ]
    return [*lines, *_run_lines(answer)]


def _lines_without_choice(answer: ReusePlans) -> list[str]:
    """Return the plan of csdf fit, or that there is none, and the smallest plan of this kind."""
    weights, arena = answer.evaluator.weights, answer.smallest.memory.peak
    why = "none of the searched plans meets the constraints"
    if answer.is_below_bound:
        why = f"row-by-row plans and buffer sharing cannot fit {answer.limits} (proved)"
    smallest = (
        f"  the smallest found has {needed_bytes_in_words(arena)} of buffers in one arena + "
        f"{needed_bytes_in_words(weights)} of parameters = {needed_bytes_in_words(weights + arena)}"
    )
    lines = [smallest] if answer.limits.is_given else []
    if answer.fit is not None and answer.is_fit_taken:
        plan = f"{in_words(answer.fit)}: the plan of csdf fit, without parameters"
        return [plan, *_run_lines(answer), f"  {why.removesuffix(' (proved)')}", *lines]
    return [f"no plan: {why}", *lines]


def _run_lines(answer: ReusePlans) -> list[str]:
    """Return how outputs of a run in the arena compare, where there was one."""
    if answer.difference is None:
        return []
    verdict = "equal" if answer.is_equal else "DIFFERENT"
    return [
        f"  run in this arena: {verdict}, largest difference {answer.difference:.3g} of the largest "
        "output"
    ]


def _point_as_json(answer: ReusePlans, point: Point, memory: int) -> dict[str, Any]:
    """Return a plan with its memory, next to the bytes of its chromosome with whole buffers."""
    whole_buffers, *periods = answer.evaluator.evaluate(point.chromosome)
    members = answer.application.members
    return {
        "memory_bytes": memory,
        "whole_buffer_bytes": int(whole_buffers),
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


def as_json(answer: ReusePlans, seconds: float) -> dict[str, Any]:
    """Return all under keys that stay; exact seconds as texts."""
    chosen = None
    if answer.chosen is not None and answer.deployment is not None:
        chosen = _point_as_json(answer, answer.chosen, answer.deployment.memory_bytes)
    planner, arena, status = None, None, None
    if answer.deployment is not None:
        planner, arena = "reuse", answer.deployment.memory.peak
        status = str(answer.deployment.memory.status)
    elif answer.fit is not None and answer.is_fit_taken:
        planner, arena, status = "fit", answer.fit.ram_bytes, str(answer.fit.verdict[0])
    return {
        "application": answer.application.name,
        "networks": [member.name for member in answer.application.members],
        "weight_bytes": answer.evaluator.weights,
        "flash_bytes": answer.evaluator.flash_bytes,
        "methods": {
            field: answer.evaluator.weights + getattr(answer.methods, field) for field in METHODS
        },
        "lower_bound": answer.bound,
        "front": [_point_as_json(answer, point, point.memory) for point in answer.plans],
        "is_finished": answer.front.is_finished,
        "reason": str(answer.front.reason),
        "evaluations": answer.front.evaluations,
        "chosen": chosen,
        "kind": answer.kind,
        "whole_arena_bytes": answer.whole.memory.peak,
        "whole_arena_status": str(answer.whole.memory.status),
        "smallest_arena_bytes": answer.smallest.memory.peak,
        "planner": planner,
        "arena_bytes": arena,
        "arena_status": status,
        "fit": fit_as_json(answer.fit),
        "relative_difference": answer.difference,
        "seconds": round(seconds, 6),
    }


def plot(path: str, answer: ReusePlans) -> None:
    """Draw memory against the time of a frame of every network."""
    draw = loading.drawing("planners.reuse.command.picture")
    layers = len(answer.application.layers)
    whole, rows = (scored(answer.evaluator, (allele,) * layers) for allele in (WHOLE, 1))
    other_methods = {
        "reuse only": (whole.memory, float(whole.time)),
        "all by rows": (rows.memory, float(rows.time)),
        "whole tensors, one arena": (answer.whole.memory_bytes, float(whole.time)),
    }
    front = [(plan.memory, float(plan.time)) for plan in answer.plans]
    chosen = None
    if answer.chosen is not None and answer.deployment is not None:
        chosen = answer.deployment.memory_bytes, float(answer.chosen.time)
    picture = draw.tradeoff_picture(
        f"{answer.application.name}: memory against time",
        sorted(front),
        other_methods,
        chosen=chosen,
        bound=answer.bound,
        suffix=loading.suffix_of(path),
    )
    output.write("csdf plan reuse", path, picture)
