"""Widths of columns of journals and proceedings, for pictures that go into a paper as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

WIDTHS = {  # inches; of one column and of both
    "ieee": 3.5,  # IEEEtran
    "ieee-wide": 7.16,
    "acm": 3.33,  # acmart, sigconf
    "acm-wide": 7.0,
}

_CHOSEN: ContextVar[float | None] = ContextVar("column", default=None)


@contextmanager
def in_column(name: str | None) -> Iterator[None]:
    """Draw all pictures within the block as wide as a column, with texts of 7 points."""
    token = _CHOSEN.set(None if name is None else WIDTHS[name])
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def chosen_width() -> float | None:
    """Return the width of pictures in inches; None where they have the size they were drawn in."""
    return _CHOSEN.get()
