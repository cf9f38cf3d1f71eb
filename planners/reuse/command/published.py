"""`csdf plan reuse` as published: Algorithm 9's choice, the rates, measured phase times."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cnn2csdf.commands.cnn.chosen import durations_table
from csdf.errors import CsdfError
from csdf.outcome import because
from planners.limits import Limits
from planners.reuse.application.application import Application
from planners.reuse.command.options import PUBLISHED
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.front.candidates import uniform_points
from planners.reuse.front.problem import Front, FrontWhy, Point
from planners.reuse.front.selection import Demands, selected_as_published
from planners.reuse.partition.evaluated_partition import PhaseTimes


def measured_times(
    application: Application, files: Sequence[tuple[str, str]]
) -> dict[str, PhaseTimes]:
    """Return what the phases of each network take that has files.

    Raises CsdfError for a network that is not there, and what reading raises.
    """
    names = [member.name for member in application.members]
    found: dict[str, dict[str, dict[int, int]]] = {}
    for name, path in files:
        if name not in names:
            raise CsdfError(
                f"--durations {name}={path}: the application has no network {name!r}; it has "
                f"{', '.join(names)}"
            )
        for layer, times in durations_table(path).items():
            found.setdefault(name, {}).setdefault(layer, {})[len(times)] = sum(times)
    return dict(found)


def front_at_once(evaluator: Evaluator, options: argparse.Namespace) -> Front | None:
    """Return the one point of all layers whole where Algorithm 9 takes it; None where it searches."""
    limits = Limits(ram=options.ram, flash=options.flash, memory=options.memory)
    room = limits.room(evaluator.weights, evaluator.flash_bytes)
    (whole,) = uniform_points(evaluator, ())
    if options.selection != PUBLISHED or room is None:
        return None
    if whole.score.objectives[0] > evaluator.weights + room:
        return None
    return Front(
        points=(whole,),
        is_finished=True,
        is_proved=False,
        reason=because(FrontWhy.AT_ONCE),
        generations=0,
        evaluations=1,
        least_violation=0,
    )


def chosen_as_published(
    evaluator: Evaluator, points: Sequence[Point], demands: Demands
) -> Point | None:
    """Return the point of Algorithm 9, and say on standard error by which step it was taken."""
    (whole,) = uniform_points(evaluator, ())
    point, step = selected_as_published(evaluator.application, whole, points, demands)
    print(f"csdf plan reuse: Algorithm 9: {step.value}", file=sys.stderr)
    return point
