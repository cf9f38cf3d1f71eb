"""The work of `csdf cnn convert`: a network is lowered, bounded and written."""

from __future__ import annotations

import argparse
from pathlib import PurePath

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.geometry import Overlap
from cnn2csdf.lowering import lower
from cnn2csdf.readers.plain_onnx import with_onnx
from cnn2csdf.weights import Model, random_weights
from csdf.analysis.bound_channels import with_capacities
from csdf.cli import answers, graph_input
from csdf.cli.frame.long_work import stop_after
from csdf.cli.frame.output import remark
from csdf.cli.options import storage
from csdf.errors import CsdfError, GaveUp
from csdf.io.files import write_text
from csdf.model.graph import Graph
from csdf.search.trade_off import smallest_storage
from csdf.status import Status

PROGRAM = "csdf cnn convert"


def work(options: argparse.Namespace) -> int:
    """Read, lower, write; return the exit code."""
    if PurePath(options.output).suffix.lower() == ".onnx":
        return _write_onnx(options)
    network = chosen.read(options, knows_state=True).network
    overlap = _overlap(options)
    granularity = chosen.granularity_of(options)
    lowered = lower(
        network,
        granularity,
        durations=chosen.durations_of(network, options)(granularity),
        overlap=overlap,
        element_bytes=options.element_bytes,
    )
    graph = _bounded(lowered, options)
    shared.remark_on_platform(PROGRAM, options)
    graph_input.write(PROGRAM, options.output, graph)
    return answers.ANSWERED


def _overlap(options: argparse.Namespace) -> Overlap:
    """Return the overlap asked for; without release rates SDF3 XML holds windows only when bounded."""
    holds_windows = options.bounded or PurePath(options.output).suffix.lower() != ".xml"
    if options.overlap is not None and (holds_windows or options.overlap != "window"):
        return Overlap(options.overlap)
    if holds_windows:
        return Overlap.WINDOW
    if options.overlap is not None:
        raise CsdfError(
            f"{options.output}: SDF3 XML has no release rates for windows without capacities; "
            "write .json, or add --bounded, or take --overlap self-loop"
        )
    remark(
        PROGRAM,
        "SDF3 XML has no release rates: the rows that windows share are in self-loops; --bounded or "
        ".json keeps windows",
    )
    return Overlap.SELF_LOOP


def _bounded(graph: Graph, options: argparse.Namespace) -> Graph:
    if not options.bounded:
        return graph
    storage_answer = smallest_storage(
        graph, budget=stop_after(options.time_limit, storage.in_words)
    )
    if storage_answer.point is None:
        raise GaveUp(f"no capacities: {storage_answer.reason}")
    if storage_answer.status is not Status.OPTIMAL:
        above = f"{float(storage_answer.gap or 0):.2%} above the lower bound"
        remark(PROGRAM, f"capacities at most {above}: {storage_answer.reason}")
    return with_capacities(graph, storage_answer.point.capacities)


def _write_onnx(options: argparse.Namespace) -> int:
    writer = with_onnx("cnn2csdf.onnx_files.writer", options.output)
    model = chosen.read(options, with_weights=True, knows_state=True)
    if model.network.keeps_state:
        raise CsdfError(
            f"{options.output}: an ONNX file keeps no state from frame to frame, {options.model} does; "
            "write the graph, as .json or .xml"
        )
    if model.weights is None:
        weights = random_weights(model.network, options.seed)
        model = Model(network=model.network, weights=weights)
    write_text(options.output, writer.onnx_bytes(model))
    layers = answers.counted(len(model.network.layers), "layer")
    remark(PROGRAM, f"wrote {options.output}: {layers}")
    return answers.ANSWERED
