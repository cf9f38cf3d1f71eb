"""Options and output that `csdf buffers` and `csdf pareto` share."""

from __future__ import annotations

import argparse

from csdf.cli import answers, graph_input, option_values, parsers
from csdf.cli.options import concurrency
from csdf.io.files import read_bytes, require_plain
from csdf.model.graph import Graph
from csdf.search.memory_cost import OBJECTIVES
from csdf.search.variables import UNITS, SearchSpace
from csdf.time_limit import Progress


def add_choice_options(parser: argparse.ArgumentParser) -> None:
    """Add the graph and the options of a search over capacities: channels, cost, method and time limit.

    The graph is added by `concurrency.add_graph`, after the time limit, with options on concurrency.
    """
    parser.add_argument(
        "--unit", choices=UNITS, default="tokens", help="what the size counts; default: tokens"
    )
    parser.add_argument(
        "--fixed",
        action="append",
        type=option_values.named_integers,
        metavar="CHANNEL=N",
        default=[],
        help="fix the capacity of this channel; it counts in the size",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        metavar="CHANNEL",
        default=[],
        help="leave this channel as it is in the graph, and do not count it",
    )
    parser.add_argument(
        "--share",
        action="append",
        type=lambda text: text.split(","),
        metavar="A,B,..",
        default=[],
        help="channels with one common capacity",
    )
    parser.add_argument(
        "--count-self-loops", action="store_true", help="bound self-loops and count them too"
    )
    parser.add_argument(
        "--method",
        type=parsers.one_of(("exact",)),
        metavar="METHOD",
        default="exact",
        help=f"exact (default) or {parsers.BOUND}",
    )
    parsers.add_time_limit(parser, "stop after this time and print the bounds proved so far")
    concurrency.add_graph(parser)
    parser.add_argument(
        "--objective",
        choices=("bits", *OBJECTIVES),
        help="cost to minimise for an FPGA: bits, block RAMs of 18 kbit (none up to 256 "
        "tokens), or LUTs of shift registers; widths as for --unit bits",
    )


def take_objective(options: argparse.Namespace) -> None:
    """Set `options.unit` to the objective if there is an objective; refuse both options together.

    The unit may then be a name of OBJECTIVES, which `choice_of` replaces by bits.
    """
    if options.objective and options.unit != "tokens":
        options.refuse("--objective says what the size counts; leave out --unit")
    options.unit = options.objective or options.unit


def read(path: str, options: argparse.Namespace) -> Graph:
    """Return the graph of a file, with the self-loops that an option on concurrency adds.

    The added self-loops limit firings and are no storage, so they are excluded from the search.
    """
    graph = graph_input.read(path, options)
    limited = concurrency.limited(graph, options)
    options.exclude = [*options.exclude, *concurrency.added_loops(graph, limited)]
    return limited


def choice_of(options: argparse.Namespace) -> SearchSpace:
    """Return the search space of the options."""
    return SearchSpace(
        fixed=dict(options.fixed),
        excluded=options.exclude,
        shared=options.share,
        unit="bits" if options.unit in OBJECTIVES else options.unit,
        # For bits, an empty table of widths takes the token sizes of the graph.
        widths=None if options.unit in ("tokens", "bytes") else _widths(options),
        with_self_loops=options.count_self_loops,
        copies=parsers.copies_of(options.method),  # the K of method periodic-K, else None
    )


def _widths(options: argparse.Namespace) -> dict[str, int]:
    """The bits of a token by channel, from a table of layers; empty for other files."""
    if not options.file.lower().endswith(".csv"):
        return {}
    from csdf.io.layer_table import layer_widths  # slow to import, for tables alone

    require_plain(options.file)  # the graph was read from it already
    text = read_bytes(options.file, options.file_limit).decode("utf-8", "replace")
    return layer_widths(text, options.file)


def in_words(progress: Progress) -> str:
    """Return how far a search over storage distributions has come."""
    return (
        f"{answers.counted(progress.found, 'point')}, "
        f"nothing missing below size {progress.lower_bound}, "
        f"{answers.counted(progress.done or 0, 'distribution')} evaluated"
    )
