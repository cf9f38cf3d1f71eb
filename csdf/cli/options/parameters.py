"""Parameters of `csdf sensitivity`, as users write them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from fractions import Fraction

from csdf.analysis.whatif.parameter import Parameter, added_time, added_to_phase, time_scale
from csdf.cli import answers
from csdf.errors import CsdfError
from csdf.model.exact import MalformedText, rational, shown
from csdf.model.graph import Graph

ONE = Fraction(1)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add the options that make the answer a function."""
    parser.add_argument(
        "--parameter",
        action="append",
        metavar="WHAT",
        default=[],
        help="the period as a function of the time that is added to ACTOR, ACTOR:PHASE, or several "
        "at once (A,B or A=2,B=1/2), or of the capacity of CHANNEL; twice: regions",
    )
    parser.add_argument(
        "--scale",
        action="append",
        metavar="A,B,..",
        default=[],
        help="as a function of the factor by which all durations of these actors are multiplied",
    )
    parser.add_argument(
        "--up-to",
        type=answers.above_zero,
        metavar="NUMBER",
        help="with two parameters: the largest value of both",
    )


def capacity_of(graph: Graph, options: argparse.Namespace) -> str | None:
    """Return the channel whose capacity is the parameter; None where it is no channel."""
    actors = {actor.name for actor in graph.actors}
    channels = {channel.name for channel in graph.channels}
    found = [one for one in options.parameter if one in channels and one not in actors]
    if found and len(options.parameter) + len(options.scale) > 1:
        raise CsdfError(f"the capacity of channel {found[0]!r} is a parameter of its own only")
    return found[0] if found else None


def parameters_of(graph: Graph, options: argparse.Namespace) -> list[Parameter]:
    """Return the parameters in the order of their kinds. Raises CsdfError for what is none."""
    added = [_added(graph, text) for text in options.parameter]
    return [
        *added,
        *(time_scale(graph, text.split(","), name=f"scale of {text}") for text in options.scale),
    ]


def _added(graph: Graph, text: str) -> Parameter:
    actors = {actor.name for actor in graph.actors}
    if text in actors:
        return added_time(graph, {text: ONE})
    name, _, phase = text.rpartition(":")
    if name in actors and phase.isdecimal():
        return added_to_phase(graph, name, int(phase))
    return added_time(graph, _weights(text.split(","), actors), name=text)


def _weights(terms: list[str], actors: set[str]) -> Mapping[str, Fraction]:
    found: dict[str, Fraction] = {}
    for term in terms:
        name, equals, weight = term.rpartition("=")
        if term in actors:
            name, equals, weight = term, "=", "1"
        if not equals or name not in actors:
            raise CsdfError(
                f"--parameter {shown(term)}: expected ACTOR, ACTOR:PHASE, ACTOR=WEIGHT or CHANNEL"
            )
        try:
            found[name] = rational(weight)
        except MalformedText as error:
            raise CsdfError(f"--parameter {shown(term)}: the weight {error}") from None
    return found
