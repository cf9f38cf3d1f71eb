"""Graphs with fewer phases or actors, as options, and what their periods say about the graph."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from csdf.analysis.abstraction.actors import merge_actors
from csdf.analysis.abstraction.phases import faster_graph, slower_graph
from csdf.analysis.liveness import deadlock
from csdf.cli import answers
from csdf.errors import CsdfError, GaveUp
from csdf.model.graph import Graph
from csdf.names import quoted
from csdf.stopping import Stop

SLOWER, FASTER = "slower", "faster"
NEVER_BELOW = (
    "its period is never below that of the graph, and capacities that are enough for its channels are "
    "enough for these channels of the graph"
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
        help="these actors as one that does their firings one after the other: never faster",
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
        help="what --abstract makes: a graph that is never faster than the given one (slower, the "
        "default), or one that is never slower (faster)",
    )


def abstracted(graph: Graph, options: argparse.Namespace, stop: Stop) -> tuple[Graph, int]:
    """Return the graph that the options ask for, and the exit code: 1 for a deadlock that it brings.

    Which way its periods err is said on standard error.
    """
    if options.abstract_actors and options.abstract_error == FASTER:
        raise CsdfError("--abstract-actors makes a graph slower; leave out --abstract-error faster")
    found = graph
    for names in options.abstract_actors:
        found = merge_actors(found, names, budget=stop)
    if options.abstract:
        merge = _faster if options.abstract_error == FASTER else slower_graph
        found = merge(found, _by_actor(found, options.abstract))
    if found is graph:
        return graph, answers.ANSWERED
    _say(NEVER_ABOVE if options.abstract_error == FASTER else NEVER_BELOW)
    return found, _with_deadlock_told(graph, found, stop)


def _with_deadlock_told(graph: Graph, abstract: Graph, stop: Stop) -> int:
    """Say where a deadlock comes from; return the exit code."""
    try:
        blocked = deadlock(abstract, budget=stop)
        is_own = blocked is not None and deadlock(graph, budget=stop) is not None
    except GaveUp as end:
        _say(f"whether it deadlocks is not known: {end}")
        return answers.GAVE_UP
    if blocked is None:
        return answers.ANSWERED
    if is_own:
        _say("it deadlocks, as the graph itself does")
    else:
        _say(f"it deadlocks, but the graph does not; keep more phases of these actors: {blocked}")
    return answers.NO


def _faster(graph: Graph, phases: dict[str, int]) -> Graph:
    found = faster_graph(graph, phases)
    extra = sum(found.extra.values())
    if extra:
        _say(
            f"in csdf buffers and csdf pareto its channels count "
            f"{answers.counted(extra, 'token')} more than the graph needs"
        )
    return found.graph


def _by_actor(graph: Graph, asked: list[Phases]) -> dict[str, int]:
    """The most phases of each actor; what is said of one actor goes before what is said of all."""
    general = [one for one in asked if isinstance(one, int)]
    single = dict(one for one in asked if not isinstance(one, int))
    if not general:
        return single
    return {actor.name: general[-1] for actor in graph.actors} | single


def _phases(text: str) -> Phases:
    """Parse `3` or `ACTOR=3`; for argparse."""
    parse: Callable[[str], int] = answers.positive
    name, _, number = text.rpartition("=")
    return (name, parse(number)) if name else parse(text)


def _names(text: str) -> tuple[str, ...]:
    """Parse `A,B`; for argparse."""
    names = tuple(text.split(","))
    if len(names) < 2 or not all(names):
        raise answers.unfit(text, "two or more actors, such as a,b")
    return names


def _say(remark: str) -> None:
    print(f"csdf convert: abstraction: {quoted(remark)}", file=sys.stderr)
