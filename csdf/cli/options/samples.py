"""Random graphs by means and variances, as options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from fractions import Fraction

from csdf.cli import answers
from csdf.errors import InvalidGraph
from csdf.generation.sampled_graphs import DEFAULT, SampledShape
from csdf.generation.spread import Spread

SHARED = ("actors", "is_strongly_connected", "has_self_loops")  # with graphs drawn within limits
SPREADS = {
    "degree": ("channels at an actor, in and out", 1),
    "rate": ("tokens of a firing, the mean of both ends of a channel", 1),
    "duration": ("of a firing, in time units", 1),
    "tokens": ("initial ones of a channel, before those it takes to be live", 0),
}


def add_samples(parser: argparse.ArgumentParser) -> None:
    """Add the options that ask for means and variances."""
    group = parser.add_argument_group(
        "means and variances instead of limits, one phase for each actor; of the options above only "
        "--actors, --is-strongly-connected and --has-self-loops go with them"
    )
    for name, (purpose, least) in SPREADS.items():
        default: Spread = getattr(DEFAULT, name)
        group.add_argument(
            f"--{name}",
            type=_spread(least),
            metavar="MEAN[,VARIANCE[,LEAST[,MOST]]]",
            help=f"{purpose}; beside others by default {default.mean},{default.variance},{least}",
        )
    group.add_argument(
        "--repetition-sum",
        type=answers.positive,
        metavar="N",
        help="firings of all actors in one iteration; beside others by default two for each actor",
    )
    group.add_argument(
        "--is-acyclic", action="store_true", help="no cycle but self-loops; not strongly connected"
    )


def is_asked(options: argparse.Namespace) -> bool:
    """Whether one of the options is given."""
    given = [getattr(options, name) is not None for name in (*SPREADS, "repetition_sum")]
    return any(given) or bool(options.is_acyclic)


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


def _spread(least: int) -> Callable[[str], Spread]:
    """Return the parser of `MEAN,VARIANCE,LEAST,MOST`; for argparse."""

    def parse(text: str) -> Spread:
        parts = text.split(",")
        if len(parts) > 4:
            raise answers.unfit(text, "MEAN, MEAN,VARIANCE, MEAN,VARIANCE,LEAST or with MOST")
        numbers = [answers.fraction(part) for part in parts[:2]]
        limits = [answers.from_zero(part) for part in parts[2:]]
        try:
            return Spread(
                mean=numbers[0],
                variance=numbers[1] if len(numbers) > 1 else Fraction(0),
                least=limits[0] if limits else least,
                most=limits[1] if len(limits) > 1 else None,
            )
        except InvalidGraph as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse
