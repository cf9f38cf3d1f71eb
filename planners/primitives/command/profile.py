"""Profiles of primitives for `csdf plan primitives`: read or measured; and the run of a plan."""

from __future__ import annotations

import argparse
import sys

from cnn2csdf.commands.cnn.trained import with_weights
from cnn2csdf.execution.whole import run_layers
from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.frame.long_work import stop_after
from csdf.stopping import Progress
from planners.primitives.command.answer import MeasuredRun
from planners.primitives.execution.as_plan import streaming_plan, ways_of_selection
from planners.primitives.execution.planned import run_planned
from planners.primitives.execution.selected import largest_difference
from planners.primitives.profile import Profile
from planners.primitives.profiling.effort import Effort
from planners.primitives.profiling.profiler import profile_network, random_frame, run_measured
from planners.primitives.profiling.table import read_profile, write_profile
from planners.primitives.selection.problem import Selection

TOLERANCE = 1e-3  # of the largest output: single precision, Winograd and Fourier transforms


def profile_of(network: Network, options: argparse.Namespace) -> Profile:
    """Return the profile of a table, or what is measured now, written where the options say.

    Raises GaveUp or KeyboardInterrupt where measuring does not come to its end.
    """
    if options.profile:
        return read_profile(options.profile)
    print("csdf plan primitives: measuring, one thread; --profile reads a table", file=sys.stderr)
    stop = stop_after(options.budget, _in_words)
    effort = Effort(repetitions=options.repeats, seed=options.seed)
    profile = profile_network(network, effort=effort, budget=stop)
    if options.save_profile:
        write_profile(options.save_profile, profile)
        print(
            f"csdf plan primitives: wrote {options.save_profile}: {len(profile.layers)} ways to run "
            f"{len(network.layers)} layers; read it with --profile",
            file=sys.stderr,
        )
    return profile


def _in_words(progress: Progress) -> str:
    return f"layer {(progress.done or 0) + 1} of {progress.total}: {progress.at}"


def measured_run(model: Model, selection: Selection, options: argparse.Namespace) -> MeasuredRun:
    """Return what running the selection shows, and how far its output is from the usual one."""
    network = model.network
    model = with_weights("csdf plan primitives", model, options.seed)
    ways = ways_of_selection(selection)
    plan = streaming_plan(network, selection) if options.output else None
    frame = random_frame(network, options.seed)
    with answers.working("running the plan, and the whole network"):
        found = run_measured(model, ways, frame, repeats=options.repeats)
        maps = run_layers(model, frame)
        written = None if plan is None else run_planned(model, plan, frame)
    expected = {layer.name: maps[layer.name] for layer in network.outputs}
    difference = largest_difference(found.outputs, expected)
    if written is not None:
        difference = max(difference, largest_difference(written, expected))
    return MeasuredRun(
        nanoseconds=found.nanoseconds,
        is_equal=difference <= TOLERANCE,
        relative_difference=difference,
        map_bytes=found.arena_bytes,
        workspace_bytes=found.workspace_bytes,
        weight_bytes=found.parameter_bytes,
        arena_bytes=None if plan is None else plan.arena_bytes,
    )
