"""C text in general: names in its comments, and the numbers it can hold."""

from __future__ import annotations

import re

from csdf.errors import InvalidPlan
from csdf.names import quoted

NUMBERS = 2**63  # of C: from here on a constant needs a suffix, or there is no type for it
MEANINGFUL = re.compile(r"\*(?=/)|/(?=\*)|\?(?=\?)")


def in_comment(text: str) -> str:
    r"""Return the text for a comment between `/*` and `*/`, on one line.

    A compiler finds in it no end and no begin of a comment, no trigraph (`??/` is a backslash) and no
    mark of direction; it warns of each.
    """
    return MEANINGFUL.sub(r"\g<0> ", quoted(text))


def require_number(name: str, value: int) -> int:
    """Return the value. Raises InvalidPlan, with the name, where no number of C holds it."""
    if value >= NUMBERS:
        raise InvalidPlan(f"{name!r} is {value}; numbers in C end at {NUMBERS - 1}")
    return value
