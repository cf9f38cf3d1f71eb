"""Names out of files as they may be shown: nothing in them moves a cursor, hides or reorders text."""

from __future__ import annotations

import unicodedata

ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")  # categories: controls, marks, halves, breaks of lines
NO_CHARACTER = 0xFFFE  # the last two numbers of each plane, which XML cannot hold


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


def _shown(character: str) -> str:
    is_none = ord(character) & NO_CHARACTER == NO_CHARACTER
    if is_none or unicodedata.category(character) in ACTING:
        return character.encode("unicode_escape").decode()
    return character
