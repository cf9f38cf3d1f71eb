"""HTML from values: every text and every attribute is escaped here, and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from csdf.names import quoted_lines

VOID = ("input", "link", "meta")
FORBIDDEN = re.compile("[^\t\n -~\u00a0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


class Html(str):
    """Text that is HTML already; any other text is escaped when it becomes part of an element."""

    __slots__ = ()


def element(tag: str, *content: str | int, **attributes: object) -> Html:
    """Return an element with its content.

    An underscore in the name of an attribute is a hyphen; one behind it keeps it off Python's words.
    An attribute that is True has no value, one that is None is left out.
    """
    written = "".join(
        f" {name.removesuffix('_').replace('_', '-')}"
        + ("" if value is True else f'="{_clean(str(value))}"')
        for name, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{joined(content)}</{tag}>")


def joined(parts: Iterable[str | int]) -> Html:
    """Return the parts one after another, escaped where they are not HTML."""
    return Html("".join(part if isinstance(part, Html) else _clean(str(part)) for part in parts))


def json_element(identifier: str, value: Any) -> Html:
    """Return data for scripts; no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{identifier}">{text}</script>')


def quoted_data(value: Any) -> Any:
    """Return data for scripts with every text as elements show it; keys of objects stay."""
    if isinstance(value, str):
        return quoted_lines(value)
    if isinstance(value, dict):
        return {key: quoted_data(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [quoted_data(one) for one in value]
    return value


def _clean(text: str) -> str:
    """Quote what acts, escape, and show as a box what else HTML may not contain at all."""
    return escape(FORBIDDEN.sub("\ufffd", quoted_lines(text)))
