"""`csdf deploy`: a network as a C library that runs in the planned memory."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from cnn2csdf.commands.cnn import options as shared
from cnn2csdf.commands.cnn.trained import with_weights
from cnn2csdf.describe import bytes_in_words
from cnn2csdf.weights import Model
from csdf.cli import answers, parsers
from csdf.cli.frame.long_work import stop_after
from csdf.errors import CsdfError
from csdf.outcome import Status
from planners.code.library import Library, write_library
from planners.streaming.command.options import add_plan_options
from planners.streaming.fit import Fit, FitWay, fit


def main(argv: Sequence[str]) -> int:
    """Write the library; return the exit code: 1 where no plan fits, 3 where the search gave up."""
    options = command_parser().parse_args(argv)
    model = _model(options)
    found = fit(
        model.network,
        ram=options.ram,
        flash=options.flash,
        input=options.input,
        budget=stop_after(options.budget, "lines and strips"),
    )
    if found.best is None or found.status != Status.FEASIBLE:
        print(f"csdf deploy: {found.network}: {found.status}: {found.reason}", file=sys.stderr)
        return answers.GAVE_UP if found.status == Status.GAVE_UP else answers.NO
    with answers.working(f"writing {options.output}"):
        library = write_library(model, found.best.plan, options.output, name=options.name)
    if options.json:
        print(json.dumps(_as_json(found, found.best, library), indent=2))
    else:
        print(_as_text(found, found.best, library, options.output))
    return answers.ANSWERED


def _model(options: argparse.Namespace) -> Model:
    model = shared.read_source(options.model, options, with_weights=True)
    if model.weights is None and any(
        layer.quantization is not None for layer in model.network.layers
    ):
        raise CsdfError(f"{options.model}: a quantised network without weights cannot be deployed")
    return with_weights("csdf deploy", model, options.seed)


def _as_text(found: Fit, way: FitWay, library: Library, folder: str) -> str:
    return answers.one_text(
        [
            f"{found.network}: {way.name}: {bytes_in_words(way.ram_bytes)} of RAM "
            f"({way.ram_bytes} bytes), {float(way.work):.4g} times the work, "
            f"{bytes_in_words(library.written.weight_bytes)} of flash for trained numbers",
            f"  state    at most {library.written.state_bytes} B beside the arena",
            f"  kernels  {', '.join(library.written.kernels)}",
            f"  wrote    {', '.join(library.files)} in {folder}",
            f"  next     make -C {folder} test",
        ]
    )


def _as_json(found: Fit, way: FitWay, library: Library) -> dict[str, Any]:
    return {
        **found.to_json(),
        "way": way.name,
        "library": library.name,
        "state_bytes": library.written.state_bytes,
        "weight_bytes": library.written.weight_bytes,
        "files": list(library.files),
    }


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf deploy",
        "Write a network as a C99 library that runs in exactly the bytes that csdf fit plans: one "
        "arena, tables for flash, the kernels that are used, test vectors, and a Makefile whose "
        "targets test, qemu and size run it here, on an emulated Cortex-M4, and tell its size.",
        "csdf deploy keyword_spotting --ram 16kB -o firmware",
        "csdf deploy resnet8 --input rows -o library --name classifier",
        notes="Trained numbers of a network that has none are random. Tensors lie row by row, in a "
        "row column by column, the feature maps of a place side by side.",
    )
    shared.add_model_options(parser, simplify=shared.ALL_STEPS)
    add_plan_options(parser)
    parser.add_argument("--name", help="of functions and files; default: the network's")
    parser.add_argument(
        "--seed", type=answers.from_zero, default=0, metavar="N", help="of random weights"
    )
    parsers.add_budget_option(parser, "for the plan; then the best by then", 10.0)
    parsers.add_json_option(parser)
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", required=True, help="a new folder, or one of its own"
    )
    return parser
