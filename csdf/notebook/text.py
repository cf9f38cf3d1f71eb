"""Texts of results as parts of HTML."""

from __future__ import annotations

from html import escape

from csdf.names import quoted


def escaped(text: str) -> str:
    """Return the text for an element or an attribute, with what acts instead of being seen quoted."""
    return escape(quoted(text))
