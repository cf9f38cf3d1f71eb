"""The work of `csdf cnn verify`: a run row by row, compared with a run layer by layer."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from cnn2csdf.commands.cnn import chosen
from cnn2csdf.commands.cnn.chosen import with_weights
from cnn2csdf.dtypes import Element
from cnn2csdf.execution.compare import (
    Difference,
    Verification,
    differences,
    random_frames,
    verify,
    worst_of,
)
from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.execution.streaming_executor import Frame
from cnn2csdf.granularity import require_few_parts
from cnn2csdf.network import Network
from cnn2csdf.onnx_files.runtime import cropped_windows, has_runtime, runtime_outputs
from cnn2csdf.weights import Model
from csdf.analysis.self_timed import self_timed_execution
from csdf.cli import answers
from csdf.cli.frame import output
from csdf.cli.frame.long_work import stop_after
from csdf.cli.options import storage
from csdf.errors import ExecutionError
from csdf.status import Status
from csdf.units import bytes_in_words, time_in_words
from planners.memory.plan_runs import run_frames
from planners.memory.stateful import stateful_plan
from planners.published.samos import NetworkMemory, network_memory

PROGRAM = "csdf cnn verify"
STEPS = 3  # that integers may be off
COARSE = {Element.FLOAT16: 0.02, Element.BFLOAT16: 0.16}  # about 20 steps of the type


def work(options: argparse.Namespace) -> int:
    """Run, compare, print; return the exit code: 0 equal within tolerance, 1 not."""
    begin = time.perf_counter()
    model = chosen.read(options, with_weights=not options.random_weights, knows_state=True)
    run = _stateful if model.network.keeps_state else _row_by_row
    is_equal, document, lines = run(model, options)
    seconds = time.perf_counter() - begin
    document["seconds"] = round(seconds, 6)
    lines.append(answers.Detail(f"  time                {time_in_words(seconds)}"))
    answers.show(document, lines, options)
    return answers.ANSWERED if is_equal else answers.NO


Outcome = tuple[bool, dict[str, Any], list[str]]  # whether outputs are equal; as JSON; in words


def _row_by_row(model: Model, options: argparse.Namespace) -> Outcome:
    """Run a network row by row in its smallest buffers, several frames pipelined, and compare."""
    network = model.network
    require_few_parts(network, chosen.granularity_of(options))
    remark = "; the buffers do not depend on them"
    model = with_weights(PROGRAM, model, options.seed, remark=remark)
    memory = _memory(network, options)
    counted = answers.counted(options.frames, "frame")
    frames = random_frames(network, options.frames, options.seed)
    with answers.working(f"running {counted} row by row and layer by layer"):
        firings = self_timed_execution(memory.graph, iterations=options.frames).firings
        result = verify(model, memory.graph, firings, frames)
    runtime = _runtime(network, options, result, frames)
    is_equal = result.worst.relative <= options.tolerance and (
        runtime is None or _is_near(runtime, network, options)
    )
    buffers: list[dict[str, Any]] = [
        {
            "channel": channel.name,
            "peak_bytes": result.run.peaks[channel.name] * (channel.token_size or 1),
            "capacity_bytes": channel.capacity * (channel.token_size or 1),
        }
        for channel in memory.graph.channels
        if channel.capacity is not None
    ]
    document = {
        "network": network.name,
        "equal": is_equal,
        **result.to_json(),
        "runtime_relative_difference": None if runtime is None else runtime.relative,
        "buffer_bytes": memory.buffers,
        "status": memory.status,
        "buffers": buffers,
    }
    firing_count = answers.counted(result.run.firings, "firing")
    lines = [
        f"{network.name}: {_verdict(is_equal)}: {counted} row by row, {firing_count}",
        _largest(result.worst),
    ]
    if runtime is not None:
        lines.append(
            f"  from ONNX Runtime   {runtime.largest:.3g} "
            f"({runtime.relative:.3g} of the largest output)"
        )
    lines.append(
        f"  buffers             {len(buffers)}, {bytes_in_words(memory.buffers)} in all, "
        f"{memory.status}; each access inside its buffer; bytes used of each:"
    )
    width = max(len(buffer["channel"]) for buffer in buffers)
    lines += [
        f"  {buffer['channel']:<{width}}  {bytes_in_words(buffer['peak_bytes']):>9} of "
        f"{bytes_in_words(buffer['capacity_bytes'])}"
        for buffer in buffers
    ]
    return is_equal, document, lines


def _stateful(model: Model, options: argparse.Namespace) -> Outcome:
    """Run a network that keeps a state in the bytes of its plan, frame after frame, and compare."""
    model = with_weights(PROGRAM, model, options.seed)
    network = model.network
    element_bytes = options.element_bytes if options.is_element_given else None
    plan = stateful_plan(network, element_bytes=element_bytes).plan
    frames = random_frames(network, options.frames, options.seed)
    counted = answers.counted(options.frames, "frame")
    with answers.working(f"running {counted} in {plan.arena_bytes} bytes and layer by layer"):
        runs, states = run_frames(model, plan, frames), first_states(model)
        expected = [run_layer_by_layer(model, frame, states) for frame in frames]
    worst = worst_of(differences([run.outputs for run in runs], expected))
    is_equal = worst.relative <= options.tolerance
    document = {
        "network": network.name,
        "equal": is_equal,
        "frames": len(frames),
        "firings": len(frames) * sum(len(group.stages) for group in plan.groups),
        "largest_difference": worst.largest,
        "relative_difference": worst.relative,
        "runtime_relative_difference": None,
        "buffer_bytes": plan.arena_bytes,
        "status": str(Status.FEASIBLE),
        "buffers": [
            {"channel": buffer.name, "peak_bytes": buffer.size, "capacity_bytes": buffer.size}
            for buffer in plan.buffers
            if buffer.size
        ],
    }
    lines = [
        f"{network.name}: {_verdict(is_equal)}: {counted}, one after the other, in "
        f"{plan.arena_bytes} bytes, of which {plan.kept_bytes} stay",
        _largest(worst),
    ]
    return is_equal, document, lines


def _verdict(is_equal: bool) -> str:  # noqa: FBT001
    return "equal" if is_equal else "DIFFERENT"


def _largest(worst: Difference) -> str:
    return f"  largest difference  {worst.largest:.3g} ({worst.relative:.3g} of the largest output)"


def _runtime(
    network: Network, options: argparse.Namespace, result: Verification, frames: Sequence[Frame]
) -> Difference | None:
    """How far the run is from ONNX Runtime on the file itself; None where that cannot be had."""
    is_file = PurePath(options.model).suffix.lower() == ".onnx"
    if not is_file or options.random_weights or not has_runtime():
        return None
    try:
        cropped = cropped_windows(options.model)
        if cropped:
            output.refusal(
                PROGRAM,
                f"{', '.join(cropped)}: SAME padding with a stride beyond the window, where ONNX "
                "Runtime crops the input (microsoft/onnxruntime#10086); compared with ONNX Runtime "
                "with the padding of 0 written out",
            )
        with answers.working("running ONNX Runtime"):
            references = runtime_outputs(options.model, network, frames)
    except ExecutionError as error:
        output.refusal(PROGRAM, f"not compared with ONNX Runtime: {error}")
        return None
    return worst_of(differences(result.run.outputs, references))


def _is_near(runtime: Difference, network: Network, options: argparse.Namespace) -> bool:
    """Whether the run is near ONNX Runtime.

    The runtime rounds to half precision where the file says so; we compute in single. Integers may
    be a few steps off, since it computes some operators between them in single precision.
    """
    coarse = [COARSE.get(layer.element, 0.0) for layer in network.layers]
    sources = [network.layer(source) for output in network.outputs for source in output.inputs]
    sources += [network.layer(name) for source in sources for name in source.inputs]
    steps = [source.quantization.scale for source in sources if source.quantization is not None]
    return runtime.relative <= max(options.tolerance, *coarse) or (
        bool(steps) and runtime.largest <= STEPS * max(steps)
    )


def _memory(network: Network, options: argparse.Namespace) -> NetworkMemory:
    granularity = chosen.granularity_of(options)
    return network_memory(
        network,
        granularity,
        chosen.durations_of(network, options)(granularity),
        element_bytes=options.element_bytes,
        budget=stop_after(options.time_limit, storage.in_words),
    )
