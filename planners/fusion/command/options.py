"""Options of `csdf plan fusion` that take the place of its own search."""

from __future__ import annotations

import argparse

EXACT = "exact"
PUBLISHED = "published"
FITTED = "fitted"


def add_chosen_options(parser: argparse.ArgumentParser) -> None:
    """Add what takes the place of the search."""
    parser.add_argument(
        "--configuration",
        metavar="TILES[/CUT/TILES..]",
        help="plan this one instead of searching, as MAFAT writes it: 2x2/NoCut, or 5x5/8/2x2 for 5x5 "
        "tiles up to layer 8 and 2x2 from there; overlaps are computed again",
    )
    parser.add_argument(
        "--method",
        choices=(EXACT, PUBLISHED, FITTED),
        default=EXACT,
        help="exact (default): the search; published: Algorithm 3 of MAFAT with its predictor as "
        "printed, of which --memory is then the limit; fitted: with a predictor that is fitted to "
        "its Table 4.1",
    )


def require_question(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse options that ask for nothing, or for two things at once."""
    has_limit = (options.memory, options.ram) != (None, None)
    if not is_chosen(options):
        if not has_limit and not options.front:
            parser.error("give --ram, --memory, --front or --configuration")
        return
    if options.front or options.plot:
        parser.error("--front and --plot show a search; --configuration and --method make none")
    if options.configuration is not None and options.method != EXACT:
        parser.error("--configuration is a choice, and --method makes one; give one of them")
    if options.configuration is None and not has_limit:
        parser.error("--method needs a limit: give --memory or --ram")


def is_chosen(options: argparse.Namespace) -> bool:
    """Whether a configuration is given, or MAFAT's search asked for."""
    return options.configuration is not None or options.method != EXACT
