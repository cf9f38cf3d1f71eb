"""`csdf generate`: random consistent live graphs from a seed, by limits or by means and variances."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction

from csdf.cli import answers, graph_input, option_values, parsers
from csdf.errors import CsdfError, InvalidGraph
from csdf.generation import (
    DEFAULT,
    GraphShape,
    MeanVariance,
    SampledShape,
    random_graph,
    sampled_graph,
)
from csdf.io.graph_files import require_format
from csdf.model.graph import Graph

LIMITS = {  # fields of GraphShape, for those who ask for help
    "actors": "number of actors",
    "extra_channels": "channels beyond those that connect the actors",
    "max_phases": "maximum number of phases of an actor",
    "max_repetitions": "maximum number of firings of an actor in one iteration",
    "max_rate": "maximum number of tokens of one firing on one channel",
    "min_duration": "minimum duration of a phase, in time units",
    "max_duration": "maximum duration of a phase, in time units",
    "max_extra_initial_tokens": "maximum number of initial tokens of a channel beyond liveness",
    "max_concurrency": "maximum number of concurrent firings of an actor",
    "is_strongly_connected": "every actor is reachable from every other actor",
    "is_bounded": "every channel between two actors has a capacity",
    "has_late_release": "bounded channels release space later than they consume tokens",
    "has_self_loops": "self-loops limit how many firings of an actor may overlap",
    "has_parallel_channels": "extra channels may connect actors that share a channel",
}


def work(options: argparse.Namespace) -> int:
    """Write the graph of a seed; return the exit code."""
    if options.output is not None:
        require_format(options.output)
    graph = _drawn(options)
    if options.output is None:
        from csdf.io.sdf3.writer import format_sdf3  # slow to import, and help does without

        print(format_sdf3(graph), end="")
        return answers.ANSWERED
    graph_input.write("csdf generate", options.output, graph)
    return answers.ANSWERED


def _drawn(options: argparse.Namespace) -> Graph:
    """Draw by limits, or by means and variances where one is given."""
    if not is_asked(options):
        limits = {field.name: getattr(options, field.name) for field in fields(GraphShape)}
        shape = GraphShape(**limits)
        with answers.working("drawing the graph"):
            return random_graph(options.seed, shape)
    for field in fields(GraphShape):
        if field.name not in SHARED and getattr(options, field.name) != field.default:
            option = option_of(field.name)
            raise CsdfError(f"{option} is a limit; it does not go with means and variances")
    sampled = shape_of(options)
    with answers.working("drawing the graph"):
        return sampled_graph(options.seed, sampled)


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf generate",
        "A random graph, consistent and live; the same seed and limits give the same "
        "graph everywhere. Without -o it is printed as SDF3 XML.",
        "csdf generate 7 --actors 12 --max-phases 3 -o random.xml",
        "csdf generate 7 --actors 12 --degree 3,1 --rate 4,2 --duration 20,30,5,60 -o random.xml",
        work=work,
    )
    parser.add_argument(
        "seed", type=option_values.integer, metavar="SEED", help="seed of the generator"
    )
    parsers.add_output_option(parser, ".xml, .json or .dot; by default SDF3 XML is printed")
    for field in fields(GraphShape):
        option = option_of(field.name)
        purpose = LIMITS[field.name]
        if isinstance(field.default, bool):
            end = "yes" if field.default else "no"
            parser.add_argument(
                option,
                dest=field.name,
                action=argparse.BooleanOptionalAction,
                default=field.default,
                help=f"{purpose}; default: {end}",
            )
        else:
            parser.add_argument(
                option,
                type=option_values.integer,
                default=field.default,
                metavar="N",
                help=f"{purpose}; default: {field.default}",
            )
    add_samples(parser)
    return parser


SHARED = ("actors", "is_strongly_connected", "has_self_loops")  # with graphs drawn within limits
SPREADS = {
    "degree": ("inputs plus outputs of an actor", 1),
    "rate": ("tokens per firing, averaged over both ends of a channel", 1),
    "duration": ("duration of a firing, in time units", 1),
    "tokens": ("initial tokens of a channel, before the tokens that liveness needs", 0),
}


def add_samples(parser: argparse.ArgumentParser) -> None:
    """Add the options that ask for means and variances."""
    group = parser.add_argument_group(
        "means and variances instead of limits",
        "one phase for each actor; --actors, --strongly-connected, --self-loops apply",
    )
    for name, (purpose, minimum) in SPREADS.items():
        default: MeanVariance = getattr(DEFAULT, name)
        group.add_argument(
            f"--{name}",
            type=_spread(minimum),
            metavar="MEAN[,VARIANCE[,MIN[,MAX]]]",
            help=f"{purpose}; with other means by default {default.mean},{default.variance},{minimum}",
        )
    group.add_argument(
        "--repetition-sum",
        type=option_values.positive,
        metavar="N",
        help="firings of all actors in one iteration; with other means by default two for each actor",
    )
    group.add_argument(
        "--acyclic",
        dest="is_acyclic",
        action="store_true",
        help="no cycle but self-loops; not strongly connected",
    )


def option_of(name: str) -> str:
    """Return the option of a field of GraphShape; tests of truth lose their verb."""
    return "--" + name.removeprefix("is_").removeprefix("has_").replace("_", "-")


def is_asked(options: argparse.Namespace) -> bool:
    """Whether one of the options is given."""
    is_stated = [getattr(options, name) is not None for name in (*SPREADS, "repetition_sum")]
    return any(is_stated) or bool(options.is_acyclic)


def shape_of(options: argparse.Namespace) -> SampledShape:
    """Return what the options ask for. Raises InvalidGraph for what cannot be."""
    spreads = {name: getattr(options, name) or getattr(DEFAULT, name) for name in SPREADS}
    return SampledShape(
        actors=options.actors,
        repetition_sum=options.repetition_sum,
        is_strongly_connected=options.is_strongly_connected and not options.is_acyclic,
        is_acyclic=options.is_acyclic,
        has_self_loops=options.has_self_loops,
        **spreads,
    )


def _spread(minimum: int) -> Callable[[str], MeanVariance]:
    """Return the parser of `MEAN,VARIANCE,MIN,MAX`; for argparse."""

    def parse(text: str) -> MeanVariance:
        parts = text.split(",")
        if len(parts) > 4:
            raise option_values.unfit(text, "MEAN, MEAN,VARIANCE, MEAN,VARIANCE,MIN or with MAX")
        numbers = [option_values.fraction(part) for part in parts[:2]]
        limits = [option_values.from_zero(part) for part in parts[2:]]
        try:
            return MeanVariance(
                mean=numbers[0],
                variance=numbers[1] if len(numbers) > 1 else Fraction(0),
                minimum=limits[0] if limits else minimum,
                maximum=limits[1] if len(limits) > 1 else None,
            )
        except InvalidGraph as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse
