"""The work of `csdf cnn measure`: phases are timed and the table is written."""

from __future__ import annotations

import argparse

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.durations import format_durations
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.measure import measure_phases
from cnn2csdf.lowering import lower
from cnn2csdf.weights import Model
from csdf.cli import answers
from csdf.cli.frame.output import remark
from csdf.io.files import write_text


def work(options: argparse.Namespace) -> int:
    """Measure and write the table; return the exit code."""
    network = chosen.read(options).network
    model = Model(network=network, weights=calibrated_weights(network, options.seed))
    graph = lower(network, chosen.granularity_of(options), element_bytes=options.element_bytes)
    with answers.working(f"timing the phases of {network.name}"):
        durations = measure_phases(model, graph, repeats=options.repeats, seed=options.seed)
    write_text(options.output, format_durations(durations))
    total = sum(sum(times) for times in durations.values())
    phases = answers.counted(sum(map(len, durations.values())), "phase")
    said = f"wrote {options.output}: {phases}, {total / 1e6:.4g} ms/frame"
    remark("csdf cnn measure", said)
    return answers.ANSWERED
