"""`csdf convert`: SDF3 XML, JSON and Graphviz, and graphs with fewer phases or actors."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import PurePath

from csdf.analysis.abstraction import faster_graph, merge_actors, slower_graph
from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.expansion import hsdf, merge_parallel_channels, unfold
from csdf.analysis.liveness import deadlock
from csdf.analysis.throughput import throughput
from csdf.cli import answers, graph_input, option_values, parsers
from csdf.cli.frame.long_work import limited
from csdf.cli.frame.output import remark
from csdf.cli.options import concurrency
from csdf.errors import CsdfError, GaveUp
from csdf.io.files import is_same_file
from csdf.io.graph_files import require_format
from csdf.model.graph import Graph
from csdf.time_limit import Stop


def work(options: argparse.Namespace) -> int:
    """Read, transform, write; return the exit code."""
    if (options.target is None) == (options.output is None):
        options.refuse("give one file to write: as the second argument or with -o")
    options.output = options.output or options.target
    if is_same_file(options.input, options.output) and not options.overwrite:
        options.refuse(f"{options.output} is the input; name another file, or add --overwrite")
    require_format(options.output)
    with limited(options.time_limit) as stop:
        graph = graph_input.read(options.input, options)
        with answers.working(f"transforming {graph.name}"):
            graph, code = _transformed(graph, options, stop)
            form = _format_options(graph, options)
        graph_input.write("csdf convert", options.output, graph, **form)
    return code


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf convert",
        "Convert a graph; the suffixes .xml (SDF3), .json and .dot (Graphviz, output only) "
        "choose the formats. Elements of an SDF3 file that csdf does not read are copied.",
        "csdf convert models/graphs/csdf_example.xml bounded.json --capacity alpha=8",
        "csdf convert models/graphs/csdf_example.xml -o highlighted.dot --highlight",
        "csdf convert models/graphs/csdf_example.xml sdf.xml --abstract 1",
        work=work,
    )
    parser.add_argument("input", metavar="FILE", help=parsers.GRAPH_HELP)
    parser.add_argument(
        "target", nargs="?", type=parsers.output_file(), metavar="FILE", help="as -o"
    )
    parsers.add_output_option(parser, "the new file: .xml, .json or .dot")
    parser.add_argument(
        "--overwrite", action="store_true", help="the new file may replace the input file"
    )
    parser.add_argument(
        "--kind", choices=("sdf", "csdf"), help="type of an SDF3 file; default: as it was"
    )
    parser.add_argument(
        "--capacities",
        choices=("property", "reverse"),
        default="property",
        help="write capacities to SDF3 XML as bufferSize properties (default) or as reverse "
        "channels, which other programs respect; csdf reads both as capacities",
    )
    change = parser.add_argument_group("transformations, in this order")
    change.add_argument(
        "--capacity",
        action="append",
        type=option_values.named_integers,
        metavar="CHANNEL=N",
        default=[],
        help="maximum number of tokens that the channel may hold",
    )
    concurrency.add_concurrency(change)
    change.add_argument(
        "--merge-parallel", action="store_true", help="drop channels that never delay a firing"
    )
    change.add_argument(
        "--unfold", type=option_values.positive, metavar="N", help="N cycles as one"
    )
    add_abstraction(change)
    change.add_argument("--hsdf", action="store_true", help="one actor for each firing")
    parser.add_argument(
        "--highlight", action="store_true", help="mark the critical cycle in a .dot file"
    )
    parsers.add_time_limit(parser, "end after this time", None)
    graph_input.add_reading_options(parser)
    return parser


def _transformed(graph: Graph, options: argparse.Namespace, stop: Stop) -> tuple[Graph, int]:
    """The graph that the options ask for, and the exit code."""
    if options.capacity:
        graph = with_capacities(graph, dict(options.capacity))
    graph = concurrency.limited(graph, options)
    if options.merge_parallel:
        graph = merge_parallel_channels(graph)
    if options.unfold:
        graph = unfold(graph, options.unfold)
    graph, code = abstracted(graph, options, stop)
    return (hsdf(graph) if options.hsdf else graph), code


def _format_options(graph: Graph, options: argparse.Namespace) -> dict[str, object]:
    suffix = PurePath(options.output).suffix.lower()
    if suffix == ".xml":
        return {"kind": options.kind, "capacities": options.capacities}
    if suffix != ".dot" or not options.highlight:
        return {}
    cycle = throughput(graph).critical_cycle
    if cycle is None:
        return {}
    channel_names = {channel.name for channel in graph.channels}
    return {
        "highlighted_actors": cycle.actors,
        "highlighted_channels": [name for name in cycle.channels if name in channel_names],
    }


SLOWER, FASTER = "slower", "faster"
NEVER_BELOW = (
    "its period is at least that of the graph; capacities that suffice for its channels suffice for "
    "the graph"
)
NEVER_ABOVE = "its period is never above that of the graph; where it deadlocks, so does the graph"

Phases = int | tuple[str, int]  # of each actor, or of one


def add_abstraction(parser: argparse._ActionsContainer) -> None:
    """Add the options that merge actors and phases."""
    parser.add_argument(
        "--abstract-actors",
        action="append",
        type=_names,
        metavar="A,B",
        default=[],
        help="merge these actors into one that executes their firings sequentially: never faster",
    )
    parser.add_argument(
        "--abstract",
        action="append",
        type=_phases,
        metavar="N | ACTOR=N",
        default=[],
        help="at most N phases of each actor, or of that one: successive phases become one",
    )
    parser.add_argument(
        "--abstract-error",
        choices=(SLOWER, FASTER),
        default=SLOWER,
        help="result of --abstract: a graph that is never faster than the given one (slower, the "
        "default), or one that is never slower (faster)",
    )


def abstracted(graph: Graph, options: argparse.Namespace, stop: Stop) -> tuple[Graph, int]:
    """Return the graph that the options ask for, and the exit code: 1 for a deadlock that it brings.

    The direction in which its periods err is printed on standard error.
    """
    if options.abstract_actors and options.abstract_error == FASTER:
        raise CsdfError("--abstract-actors makes a graph slower; leave out --abstract-error faster")
    changed = graph
    for names in options.abstract_actors:
        changed = merge_actors(changed, names, budget=stop)
    if options.abstract:
        merge = _faster if options.abstract_error == FASTER else slower_graph
        changed = merge(changed, _by_actor(changed, options.abstract))
    if changed is graph:
        return graph, answers.ANSWERED
    _say(NEVER_ABOVE if options.abstract_error == FASTER else NEVER_BELOW)
    return changed, _with_deadlock_told(graph, changed, stop)


def _with_deadlock_told(graph: Graph, abstract: Graph, stop: Stop) -> int:
    """Say where a deadlock comes from; return the exit code."""
    try:
        blocked = deadlock(abstract, budget=stop)
        is_own = blocked is not None and deadlock(graph, budget=stop) is not None
    except GaveUp as end:
        _say(f"whether it deadlocks is not known: {end}")
        return answers.UNKNOWN
    if blocked is None:
        return answers.ANSWERED
    if is_own:
        _say("it deadlocks, as the graph itself does")
    else:
        _say(f"it deadlocks, but the graph does not; keep more phases of these actors: {blocked}")
    return answers.NO


def _faster(graph: Graph, phases: dict[str, int]) -> Graph:
    faster = faster_graph(graph, phases)
    extra = sum(faster.extra.values())
    if extra:
        _say(
            f"in csdf buffers and csdf pareto its channels count "
            f"{answers.counted(extra, 'token')} more than the graph needs"
        )
    return faster.graph


def _by_actor(graph: Graph, requests: list[Phases]) -> dict[str, int]:
    """The most phases of each actor; what is said of one actor goes before what is said of all."""
    general = [count for count in requests if isinstance(count, int)]
    single = dict(pair for pair in requests if not isinstance(pair, int))
    if not general:
        return single
    return {actor.name: general[-1] for actor in graph.actors} | single


def _phases(text: str) -> Phases:
    """Parse `3` or `ACTOR=3`; for argparse."""
    parse: Callable[[str], int] = option_values.positive
    name, _, number = text.rpartition("=")
    return (name, parse(number)) if name else parse(text)


def _names(text: str) -> tuple[str, ...]:
    """Parse `A,B`; for argparse."""
    names = tuple(text.split(","))
    if len(names) < 2 or not all(names):
        raise option_values.unfit(text, "two or more actors, such as a,b")
    return names


def _say(text: str) -> None:
    remark("csdf convert", f"abstraction: {text}")
