"""How many firings of an actor may go on at once, as options, and the hint where they are missing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from csdf.analysis.bound_channels import (
    limit_concurrency,
    overlapping_actor,
    unlimited_actors,
    without_auto_concurrency,
)
from csdf.cli import graph_input, option_values, parsers
from csdf.errors import CsdfError, counted
from csdf.model.graph import Graph

if TYPE_CHECKING:
    from csdf.scenarios.model import ScenarioGraph

SWITCH = "--no-auto-concurrency"
HINT = f"try {SWITCH}: one firing of an actor at a time"


def add_concurrency(parser: argparse._ActionsContainer) -> None:
    """Add the options that limit how many firings of an actor go on at once."""
    parser.add_argument(
        SWITCH,
        action="store_true",
        help="at most one firing of an actor at a time, even without a self-loop",
    )
    parser.add_argument(
        "--limit",
        action="append",
        type=option_values.named_integers,
        metavar="ACTOR=N",
        default=[],
        help="at most N firings of the actor at once",
    )


def add_files(parser: argparse.ArgumentParser, what: str = parsers.GRAPH_HELP) -> None:
    """Add several files, each with an answer, and how these answers are printed and computed."""
    parser.add_argument(
        "file", nargs="+", metavar="FILE", help=f"{what}; several, or a folder: one answer each"
    )
    parser.add_argument(
        "--json-lines",
        action="store_true",
        help="print one JSON object a line for each file, with the file's name",
    )
    add_workers(parser)
    parser.set_defaults(takes_batches=True)


def add_workers(parser: argparse._ActionsContainer) -> None:
    """Add the number of processes that analyse several files."""
    parser.add_argument(
        "--workers",
        type=option_values.positive,
        metavar="N",
        default=1,
        help="analyse N files at a time, in processes; default: 1",
    )


def add_graph(parser: argparse.ArgumentParser, what: str = parsers.GRAPH_HELP) -> None:
    """Add the files of graphs, and the options that say how they are read and answered about."""
    add_files(parser, what)
    add_concurrency(parser)
    graph_input.add_reading_options(parser)


def read(path: str, options: argparse.Namespace) -> Graph:
    """Return the graph of a file, with the limits that the options ask for."""
    return limited(graph_input.read(path, options), options)


def limited(graph: Graph, options: argparse.Namespace) -> Graph:
    """Return the graph with the limits that the options ask for."""
    limits = dict(options.limit)
    if options.no_auto_concurrency:
        return without_auto_concurrency(graph, limits)
    return limit_concurrency(graph, limits) if limits else graph


def limited_scenarios(graph: ScenarioGraph, options: argparse.Namespace) -> ScenarioGraph:
    """Return the scenarios with the limits that the options ask for.

    A limit holds from one scenario to the next where each of them has the actor without a loop of its
    own; else within each scenario. Raises CsdfError for an actor that no scenario has.
    """
    actor_names = {actor.name for scenario in graph.scenarios for actor in scenario.graph.actors}
    for name, _ in options.limit:
        if name not in actor_names:
            raise CsdfError(f"--limit {name}: no scenario of {graph.name!r} has such an actor")
    limited_ones = [_limited_part(scenario.graph, options) for scenario in graph.scenarios]
    added = [
        set(added_loops(scenario.graph, part))
        for scenario, part in zip(graph.scenarios, limited_ones, strict=True)
    ]
    everywhere = set.intersection(*added)
    scenarios = []
    for scenario, part, loops in zip(graph.scenarios, limited_ones, added, strict=True):
        moves = {
            name: ("",) * part.channel(name).initial_tokens for name in sorted(loops - everywhere)
        }
        scenarios.append(
            replace(
                scenario,
                graph=part,
                consumed={**scenario.consumed, **moves},
                produced={**scenario.produced, **moves},
            )
        )
    return replace(graph, scenarios=tuple(scenarios))


def _limited_part(graph: Graph, options: argparse.Namespace) -> Graph:
    names = {actor.name for actor in graph.actors}
    limits = {name: count for name, count in options.limit if name in names}
    if options.no_auto_concurrency:
        return without_auto_concurrency(graph, limits)
    return limit_concurrency(graph, limits)


def added_loops(before: Graph, after: Graph) -> list[str]:
    """Return the self-loops that limits have added: they are no storage."""
    channel_names = {channel.name for channel in before.channels}
    return [channel.name for channel in after.channels if channel.name not in channel_names]


def hint(graph: Graph) -> str | None:
    """Return what to try where nothing limits the graph; None where that would change nothing."""
    return HINT if unlimited_actors(graph) else None


def overlap_rows(
    graph: Graph, repetitions: Mapping[str, int], period: Fraction | None
) -> list[tuple[str, str]]:
    """Return the lines that say that a period rests on firings of one actor at once, where it must."""
    actor = overlapping_actor(graph, repetitions, period) if period else None
    if actor is None:
        return []
    free = counted(len(unlimited_actors(graph)), "actor")
    return [("overlap", f"{free} without a self-loop: firings of {actor} overlap"), ("next", HINT)]


def refuse(options: argparse.Namespace) -> None:
    """Raise CsdfError where one of the options is given for something that is no graph."""
    if options.no_auto_concurrency or options.limit:
        name = SWITCH if options.no_auto_concurrency else "--limit"
        raise CsdfError(f"{name} is for graphs: a layer of a network has one firing at a time")
