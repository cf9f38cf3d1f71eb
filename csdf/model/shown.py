"""Values that a notebook shows; what they look like is said above them, not here.

The package of such a value has a module `views`, which registers a function for its type with `html`.
It is imported when the first value is shown.
"""

from __future__ import annotations

from functools import singledispatch
from importlib import import_module


@singledispatch
def html(value: object) -> str:
    """Return a value as a piece of HTML: its text, unless a function is registered for its type."""
    escaped: str = import_module("html").escape(repr(value))  # slow to import, for notebooks alone
    return f"<pre>{escaped}</pre>"


@singledispatch
def drawn(value: object) -> str:
    """Return a value as SVG; a function is registered for each type that can be drawn."""
    raise TypeError(f"a {type(value).__name__} cannot be drawn")


def picture(value: object) -> Picture:
    """Return the picture of a value."""
    _load_views(value)
    return Picture(drawn(value))


def _load_views(value: object) -> None:
    package, _, _ = type(value).__module__.partition(".")
    import_module(f"{package}.views")


class Shown:
    """A value with a view: notebooks ask it how it looks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        _load_views(self)
        return html(self)


class Picture(str):
    """SVG that a notebook shows."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)
