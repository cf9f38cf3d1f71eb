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


class Shown:
    """A value with a view: notebooks ask it how it looks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        package, _, _ = type(self).__module__.partition(".")
        import_module(f"{package}.views")
        return html(self)
