"""Names: as they may be shown, so that nothing in them moves a cursor or hides text; and free ones."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterable
from importlib import import_module
from itertools import count

ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")  # categories: controls, marks, halves, breaks of lines
NO_CHARACTER = 0xFFFE  # the last two numbers of each plane, which XML cannot hold
MOST_LISTED = 8  # names in an error


def quoted(text: str) -> str:
    r"""Return the text with what acts instead of being seen as Python writes it.

    These are controls (`\x1b`, `\n`, `\x9b`), marks of direction (`\u202e`), characters without width,
    halves of characters and numbers that are none; letters of any script stay.
    """
    if text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def quoted_lines(text: str) -> str:
    """Return the text with every line of it quoted; the breaks between the lines stay."""
    if text.isascii() and text.isprintable():
        return text
    return "\n".join(map(quoted, text.split("\n")))


def free_name(wanted: str, taken: Container[str], *, between: str = " ") -> str:
    """Return the name, with the first number from 2 on after it where it is taken."""
    numbered = (f"{wanted}{between}{number}" for number in count(2))
    return wanted if wanted not in taken else next(name for name in numbered if name not in taken)


def longer_name(wanted: str, taken: Container[str], *, by: str = "_") -> str:
    """Return the name, made longer until it is not taken."""
    while wanted in taken:
        wanted += by
    return wanted


def meant(wrong: str, known: Iterable[str]) -> str:
    """Return a question after the name that a wrong one may have meant; empty where none is near.

    A name is near that is alike but for a few letters and their case, or the only one that contains the
    wrong one, as cortex-m4 contains m4.
    """
    names = {name.casefold(): name for name in known}
    lower = wrong.casefold()
    near = import_module("difflib").get_close_matches(lower, list(names), 1)  # slow to import
    near = near or [name for name in names if lower and lower in name]
    return f"; did you mean {names[near[0]]!r}?" if len(near) == 1 else ""


def expected_names(wrong: str, known: Iterable[str]) -> str:
    """Return the rest of an error about an unknown name: the name that is near, or the first known."""
    names = list(known)
    if near := meant(wrong, names):
        return near
    rest = f" or {len(names) - MOST_LISTED} others" if len(names) > MOST_LISTED else ""
    return f"; expected one of {', '.join(map(repr, names[:MOST_LISTED]))}{rest}" if names else ""


def _shown(character: str) -> str:
    is_none = ord(character) & NO_CHARACTER == NO_CHARACTER
    if is_none or unicodedata.category(character) in ACTING:
        return character.encode("unicode_escape").decode()
    return character
