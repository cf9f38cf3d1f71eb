"""The answer of `csdf plan fusion` in words and as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

from cnn2csdf.execution.compare import Difference
from cnn2csdf.fixed_point.flash import and_in_flash, flash_bytes
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.words import bytes_in_words, nanoseconds_in_words, time_in_words
from planners.fusion.configurations import Group
from planners.fusion.plans import FusionAnswer, FusionPlan, necessary_work
from planners.fusion.search import merged
from planners.fusion.ways import Scratch
from planners.memory.several import Together
from planners.streaming.command.beside import as_json as fit_as_json
from planners.streaming.command.beside import in_words

TOLERANCE = 1e-4  # relative to the largest output: single precision, sums in another order


class Check(NamedTuple):
    """The findings of a run of the plan."""

    difference: Difference
    touched: int
    seconds: float

    @property
    def is_equal(self) -> bool:
        """Whether the output is that of the network as a whole."""
        return self.difference.relative <= TOLERANCE


def as_text(
    model: Model,
    answer: FusionAnswer,
    beside: Together | None,
    check: Check | None,
    seconds: float,
    options: argparse.Namespace,
    *,
    shows_plan: bool,
) -> str:
    """Return the front and the plan, as they were asked for, and what a run showed.

    beside: what csdf fit finds.
    """
    lines = _front_lines(answer) if options.front else []
    if answer.plan is not None and shows_plan:
        lines += _plan_lines(answer.plan, answer.status)
    if beside is not None:
        lines += [f"  csdf fit            {in_words(beside)}"]
    if check is not None:
        verdict = "equal" if check.is_equal else "DIFFERENT"
        lines += [
            f"{model.network.name}: {verdict}: the whole network and the plan in its arena",
            f"  largest difference  {check.difference.largest:.3g}, "
            f"{check.difference.relative:.3g} of the largest output",
            f"  arena touched       {bytes_in_words(check.touched)}; each access inside its buffer",
            f"  time of the run     {time_in_words(check.seconds)}",
        ]
    return answers.one_text([*lines, f"  time                {time_in_words(seconds)}"])


def _in_flash(plan: FusionPlan) -> str:
    stored = flash_bytes(plan.chain.network, plan.terms.element_bytes)
    return and_in_flash(plan.parameter_bytes, stored)


def _plan_lines(plan: FusionPlan, status: str) -> list[str]:
    layers = [plan.chain.layers(group.first, group.upto) for group in plan.groups]  # of each group
    names = [f"{one[0].name} to {one[-1].name}" if len(one) > 1 else one[0].name for one in layers]
    width = max(map(len, names))
    necessary = necessary_work(plan.chain.network)
    return [
        *(
            f"  {name:<{width}}  {answers.counted(len(one), 'layer'):>10}  {group}"
            for name, one, group in zip(names, layers, plan.groups, strict=True)
        ),
        f"{plan.chain.network.name}: {status}: {answers.counted(len(plan.groups), 'group')}",
        f"  arena               {bytes_in_words(plan.memory)} ({plan.memory} bytes)",
        f"  weights             {bytes_in_words(plan.parameter_bytes)}, outside the arena"
        f"{_in_flash(plan)}",
        f"  predicted time      {nanoseconds_in_words(plan.cost.nanoseconds, 4)}",
        f"  redundant work      {plan.redundant / max(1, necessary):.2%} of {necessary} "
        "multiply-accumulates",
        f"  counted             input and tensors between groups whole{_scratch(plan.terms.scratch)}",
    ]


def _scratch(scratch: Scratch) -> str:
    return "" if scratch is Scratch.NONE else f", scratch of convolutions: {scratch.value}"


def _front_lines(answer: FusionAnswer) -> list[str]:
    return [
        f"  {point.memory:>12} bytes  {nanoseconds_in_words(point.cost.nanoseconds, 4):>9}  "
        f"{_groups_in_words(merged(point.groups))}"
        for point in answer.front
    ]


def _groups_in_words(groups: Sequence[Group]) -> str:
    return ", ".join(f"{group.first}:{group.upto} {group}" for group in groups)


def as_json(
    answer: FusionAnswer,
    beside: Together | None,
    check: Check | None,
    seconds: float,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Return all of the answer."""
    found = answer.to_json()
    if not options.front:
        del found["front"]
    if check is not None:
        found["verified"] = {
            "equal": check.is_equal,
            "relative_difference": check.difference.relative,
            "touched_bytes": check.touched,
            "seconds": round(check.seconds, 6),
        }
    return {**found, "fit": fit_as_json(beside), "seconds": round(seconds, 6)}
