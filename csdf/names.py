"""Names in output, without characters that move a cursor or hide text; free and similar names."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterable
from importlib import import_module
from itertools import count

# Unicode categories: controls, format marks, surrogates, line and paragraph separators.
INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
NO_CHARACTER = 0xFFFE  # the last two numbers of each plane, which XML cannot hold
MOST_LISTED = 8  # names in an error


def quoted(text: str) -> str:
    r"""Return the text with invisible characters escaped as in Python; letters of any script stay.

    Invisible are controls (`\x1b`, `\n`, `\x9b`), marks of direction (`\u202e`), characters without
    width, surrogates, and numbers that stand for no character.
    """
    if text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def quoted_lines(text: str) -> str:
    """Return the text with each of its lines quoted; the line breaks stay."""
    if text.isascii() and text.isprintable():
        return text
    return "\n".join(map(quoted, text.split("\n")))


def free_name(wanted: str, taken: Container[str], *, between: str = " ") -> str:
    """Return the name; if it is taken, with the first free number from 2 on after it."""
    numbered = (f"{wanted}{between}{number}" for number in count(2))
    return wanted if wanted not in taken else next(name for name in numbered if name not in taken)


def longer_name(wanted: str, taken: Container[str], *, by: str = "_") -> str:
    """Return the name, made longer until it is not taken."""
    while wanted in taken:
        wanted += by
    return wanted


def meant(wrong: str, known: Iterable[str]) -> str:
    """Return the end of an error that suggests a similar name; empty if no known name is similar.

    A name is similar if a few letters or their case differ, or if it alone contains the wrong name, as
    cortex-m4 contains m4.
    """
    names = {name.casefold(): name for name in known}
    lower = wrong.casefold()
    near = import_module("difflib").get_close_matches(lower, list(names), 1)  # slow to import
    near = near or [name for name in names if lower and lower in name]
    return f"; did you mean {names[near[0]]!r}?" if len(near) == 1 else ""


def expected_names(wrong: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: a similar name, or the first known names."""
    names = list(known)
    if near := meant(wrong, names):
        return near
    rest = f" or {len(names) - MOST_LISTED} others" if len(names) > MOST_LISTED else ""
    return f"; expected one of {', '.join(map(repr, names[:MOST_LISTED]))}{rest}" if names else ""


def _shown(character: str) -> str:
    is_none = ord(character) & NO_CHARACTER == NO_CHARACTER
    if is_none or unicodedata.category(character) in INVISIBLE:
        return character.encode("unicode_escape").decode()
    return character
