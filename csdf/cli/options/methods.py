"""How exact an answer has to be, as an option."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from csdf.cli import answers

PERIODIC = re.compile(r"periodic-([1-9][0-9]{0,5})")
BOUND = (
    "periodic-K: of schedules in which K cycles of each actor repeat, such as periodic-1: sooner "
    "known, and never too good"
)

MEANING = "the graph itself may be faster, never slower"
STORAGE = "of these schedules; with others less may do, never more"


def copies_of(method: str) -> int | None:
    """Return the K of `periodic-K`; None for another method."""
    found = PERIODIC.fullmatch(method)
    return int(found[1]) if found else None


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """Return the parser of a method: one of the names, or `periodic-K`; for argparse."""

    def parse(text: str) -> str:
        if text in names or copies_of(text) is not None:
            return text
        raise answers.unfit(text, f"one of {', '.join(names)}, or periodic-K such as periodic-1")

    return parse
