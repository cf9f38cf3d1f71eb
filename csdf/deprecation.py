"""Deprecated names of the Python interface: they answer, and warn at the line that uses them.

A renamed parameter has `renamed_parameter`; an attribute stays as a property that calls
`warn_renamed`. `last` is the last minor release that has the old name: a test fails where a release
after that one still has it. Python shows a DeprecationWarning once for each line.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def warn_renamed(old: str, successor: str, *, last: str) -> None:
    """Warn at the line that called the caller of this function."""
    message = f"{old} is now {successor}; csdf {last} is the last release with the old name"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def renamed_parameter(
    old: str, new: str, *, last: str
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator: the function takes the old name of a parameter too, with a warning."""

    def with_old_name(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(function)
        def called(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
            # With both names, the function refuses the old name as one that it does not know.
            if old in named and new not in named:
                name = function.__qualname__
                warn_renamed(f"{name}({old}=...)", f"{name}({new}=...)", last=last)
                values: dict[str, Any] = named
                values[new] = values.pop(old)
            return function(*arguments, **named)

        return called

    return with_old_name
