"""`csdf cnn verify`: run it by parts in its buffers and compare."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.describe import bytes_in_words
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.execution.compare import Verification, random_frames, verify
from cnn2csdf.network import Network
from cnn2csdf.weights import Model
from csdf.analysis.self_timed import self_timed_execution
from csdf.cli import answers, parsers, storage_options
from csdf.model.graph import Graph
from planners.parts_memory import NetworkMemory, network_memory

TOLERANCE = 1e-4  # relative to the largest output: single precision, sums in another order


def main(argv: Sequence[str]) -> int:
    """Run, compare, print; return the exit code: 0 equal within tolerance, 1 not."""
    options = command_parser().parse_args(argv)
    begin = time.perf_counter()
    model = _with_weights(shared.read(options, with_weights=not options.random_weights), options)
    memory = _memory(model.network, options)
    frames = answers.counted(options.frames, "frame")
    with answers.working(f"running {frames} by parts and as a whole"):
        result = verify(
            model,
            memory.graph,
            self_timed_execution(memory.graph, iterations=options.frames).firings,
            random_frames(model.network, options.frames, options.seed),
        )
    seconds = time.perf_counter() - begin
    is_equal = result.worst.relative <= options.tolerance
    if options.json:
        print(json.dumps(_as_json(model.network, memory, result, is_equal, seconds), indent=2))
    else:
        print(_as_text(model.network, memory, result, is_equal, options, seconds))
    return answers.ANSWERED if is_equal else answers.NO


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf cnn verify",
        "Find the smallest buffers for work by parts, execute the network in arrays of "
        "exactly these sizes, firing by firing, several frames behind one another, and compare "
        "each output with that of the whole network. An access outside a buffer is an error.",
        "csdf cnn verify samos_example --frames 3",
    )
    shared.add_model_options(parser)
    shared.add_granularity_options(parser)
    shared.add_duration_options(parser)
    parser.add_argument("--frames", type=answers.positive, metavar="N", default=2, help="default 2")
    parser.add_argument(
        "--seed", type=int, metavar="N", default=0, help="of the frames and of random weights"
    )
    parser.add_argument(
        "--random-weights", action="store_true", help="also where the model has weights of its own"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        default=TOLERANCE,
        help=f"relative; default {TOLERANCE:g}",
    )
    shared.add_budget_option(parser)
    parsers.add_json_option(parser)
    return parser


def _with_weights(model: Model, options: argparse.Namespace) -> Model:
    if model.weights is not None:
        return model
    print(
        f"csdf cnn verify: random weights with seed {options.seed}; the buffers do not depend on them",
        file=sys.stderr,
    )
    weights = calibrated_weights(model.network, options.seed)
    return Model(network=model.network, weights=weights)


def _memory(network: Network, options: argparse.Namespace) -> NetworkMemory:
    granularity = shared.granularity_of(options)
    return network_memory(
        network,
        granularity,
        shared.durations_of(network, options)(granularity),
        element_bytes=options.element_bytes,
        watch=storage_options.watch(options.budget),
    )


def _buffers(graph: Graph, result: Verification) -> list[tuple[str, int, int]]:
    """Name, most bytes in use, and bytes of each buffer."""
    return [
        (
            channel.name,
            result.run.peaks[channel.name] * (channel.token_size or 1),
            channel.capacity * (channel.token_size or 1),
        )
        for channel in graph.channels
        if channel.capacity is not None
    ]


def _as_text(
    network: Network,
    memory: NetworkMemory,
    result: Verification,
    is_equal: bool,  # noqa: FBT001
    options: argparse.Namespace,
    seconds: float,
) -> str:
    buffers = _buffers(memory.graph, result)
    width = max(len(name) for name, _, _ in buffers)
    listed = [
        f"  {name:<{width}}  {bytes_in_words(peak):>9} of {bytes_in_words(size)}"
        for name, peak, size in buffers
    ]
    worst = result.worst
    verdict = "equal" if is_equal else "DIFFERENT"
    return "\n".join(
        [
            *listed,
            f"{network.name}: {verdict}: {answers.counted(options.frames, 'frame')} by parts, "
            f"{answers.counted(result.run.firings, 'firing')}",
            f"  largest difference  {worst.largest:.3g}, {worst.relative:.3g} of the largest output",
            f"  buffers             {len(buffers)}, {bytes_in_words(memory.buffers)} in all, "
            f"{memory.status}; each access inside its buffer",
            f"  time                {seconds * 1000:.0f} ms",
        ]
    )


def _as_json(
    network: Network,
    memory: NetworkMemory,
    result: Verification,
    is_equal: bool,  # noqa: FBT001
    seconds: float,
) -> dict[str, Any]:
    return {
        "network": network.name,
        "equal": is_equal,
        **result.to_json(),
        "buffer_bytes": memory.buffers,
        "status": memory.status,
        "buffers": [
            {"channel": name, "peak_bytes": peak, "capacity_bytes": size}
            for name, peak, size in _buffers(memory.graph, result)
        ],
        "seconds": round(seconds, 6),
    }
