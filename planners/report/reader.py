"""Networks as subjects of a report: which names are networks, and their options.

`planners.report.reading` reads the network; it is loaded for pages about networks only, since a page
about a graph needs neither operators nor NumPy.
"""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING

from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.commands.cnn import options as shared
from csdf.cli.graph_input import NETWORKS
from csdf.cli.parsers import add_limit_options
from csdf.errors import CsdfError
from csdf.io.files import decoded, is_file_or_stream, read_bytes
from csdf.io.json_value import JsonValue
from csdf.time_limit import Stop
from planners.memory.command.main import add_place_options

if TYPE_CHECKING:
    from planners.report.subject import NetworkSubject

INPUT = (
    "a network: .tflite, .onnx, Darknet .cfg, JSON, or a name of the catalogue such as mobilenet_v2"
)
NAMES = tuple(CATALOGUE)
FILES = (*NETWORKS, ".json")
GRAPHS = (".xml", ".csv")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of reading, granularity, times, memory limits and plans of a network."""
    shared.add_reading_options(parser)
    limits = parser.add_argument_group("does the network fit?")
    together = "maximum of RAM and parameters together; e.g. 256kB, 1MiB"
    add_limit_options(limits, together, has_reserve=True)
    shared.add_granularity_options(parser)
    shared.add_duration_options(parser)
    plans = parser.add_argument_group("the memory plan of a network")
    add_place_options(plans)
    plans.add_argument(
        "--plan",
        action="append",
        dest="plans",
        default=[],
        metavar="FILE",
        help="show this plan instead of searching: a file written with -o by csdf fit, csdf cnn "
        "memory, or csdf plan fusion, reuse or primitives; repeat it to compare plans",
    )


def reads(name: str) -> bool:
    """Whether a name that is no graph file names a network: a model file, or a built-in model."""
    suffix = PurePath(name).suffix.lower()
    return suffix in FILES or (suffix not in GRAPHS and not is_file_or_stream(name))


def refuse(options: argparse.Namespace) -> None:
    """Raise CsdfError for an option about networks with a graph."""
    for name, option in (("ram", "ram"), ("flash", "flash"), ("memory", "total-memory")):
        if getattr(options, name) is not None:
            raise CsdfError(f"--{option} is for networks; the buffers of a graph are on its page")
    if options.plans:
        raise CsdfError("--plan is for networks; the storage of a graph is on its page")


def _refuse_plan(path: str) -> None:
    """Raise CsdfError if the file is a plan, which is no network."""
    text = read_bytes(path)
    if b'"groups"' not in text:
        return
    document = JsonValue.parse(decoded(text, path), path).value
    first = document[0] if isinstance(document, list) and document else document
    if isinstance(first, dict) and {"network", "groups"} <= first.keys():
        raise CsdfError(f"{path}: a plan of csdf fit; give it with --plan, after its network")


def subject(options: argparse.Namespace, stop: Stop) -> NetworkSubject:
    """Return the network of the options with the answers about its memory."""
    if PurePath(options.model).suffix.lower() == ".json" and os.path.isfile(options.model):
        _refuse_plan(options.model)
    subject_read: NetworkSubject = import_module("planners.report.reading").subject(options, stop)
    return subject_read
