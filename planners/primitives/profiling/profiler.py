"""The profile of a network on this machine, and the time of a selection under the same conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cnn2csdf.network import Network
from cnn2csdf.weights import Array, Model, random_weights
from csdf.stopping import Budget, Stop, stop_of
from planners.primitives.execution.arena import Selection
from planners.primitives.execution.selected import SelectedRun, run_selected
from planners.primitives.profile import Profile
from planners.primitives.profiling.effort import Effort
from planners.primitives.profiling.jobs import THREADS, Job, run_in_worker
from planners.primitives.profiling.machine import this_machine
from planners.primitives.profiling.measuring import measured_layers, measured_transforms

SEED = 0  # of weights and frames that only times are taken of


def profile_network(
    network: Network, *, effort: Effort | None = None, budget: Budget = None
) -> Profile:
    """Return times and memory of every way to run every layer, measured in a process of its own.

    Weights and maps are random: no time depends on them. budget: a stop, or seconds; it ends the
    measurement before the next run by GaveUp.
    """
    job = Job(function=measure, values=(network, effort or Effort()))
    found: Profile = run_in_worker(job, stop_of(budget))
    return found


def measure(network: Network, effort: Effort, stop: Stop) -> Profile:
    """Return the same, measured in this process with the threads that it has."""
    model = Model(network=network, weights=random_weights(network, effort.seed))
    layers = measured_layers(model, effort, stop)
    return Profile(
        network=network.name,
        machine=this_machine(THREADS),
        layers=layers,
        transforms=measured_transforms(network, layers, effort, stop),
    )


def run_measured(
    model: Model,
    selection: Selection,
    frame: Mapping[str, Array],
    *,
    repeats: int = 9,
    budget: Budget = None,
) -> SelectedRun:
    """Return a run of the selection: outputs from here, times from a process as for a profile.

    Times are of random weights and frames made in that process, as those of a profile are. With
    weights sent through a pipe, some products were seen to take half as long again; why is not known.
    """
    found = run_selected(model, selection, frame)
    values = (model.network, dict(selection), repeats)
    timed: SelectedRun = run_in_worker(Job(function=_timed, values=values), stop_of(budget))
    return replace(found, nanoseconds=timed.nanoseconds, layers=timed.layers, changes=timed.changes)


def _timed(network: Network, selection: Selection, repeats: int, _: Stop) -> SelectedRun:
    model = Model(network=network, weights=random_weights(network, SEED))
    return run_selected(model, selection, random_frame(network, SEED), repeats=repeats)


def random_frame(network: Network, seed: int) -> dict[str, Array]:
    """Return a frame of random numbers."""
    generator = np.random.default_rng(seed)
    return {
        layer.name: generator.standard_normal(layer.shape.dims, np.float32)
        for layer in network.inputs
    }
