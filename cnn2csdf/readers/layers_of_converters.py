"""The kinds of layers that the function that converts an operator can add, from its code."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

from cnn2csdf.operators.operator import Operator

HOME = "cnn2csdf."  # functions elsewhere add no layers


def layer_kinds(convert: Callable[..., Any]) -> tuple[type[Operator], ...]:
    """Return the classes of layers that a converter names, or a function that it calls, by name.

    Methods are not followed: a graph that is being read adds only layers that move elements itself.
    """
    kinds: set[type[Operator]] = set()
    seen: set[Callable[..., Any]] = set()
    pending = [plain(convert)]
    while pending:
        function = pending.pop()
        if function in seen or not isinstance(function, FunctionType):
            continue
        seen.add(function)
        for value in _named(function):
            if isinstance(value, type) and issubclass(value, Operator):
                kinds.add(value)
            elif (
                callable(value) and str(getattr(value, "__module__", "")).startswith(HOME)
            ) or isinstance(value, partial):
                pending.append(plain(value))
    concrete = [kind for kind in kinds if not inspect.isabstract(kind)]
    return tuple(sorted(concrete, key=lambda kind: kind.__name__))


def plain(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside decorators and partial calls."""
    while True:
        inside = inspect.unwrap(convert)
        inside = inside.func if isinstance(inside, partial) else inside
        if inside is convert:
            return convert
        convert = inside


def _named(function: FunctionType) -> Iterator[Any]:
    """The values that the global names in a function stand for, and the values it encloses."""
    codes = [function.__code__]
    for code in codes:
        codes += [co_const for co_const in code.co_consts if isinstance(co_const, CodeType)]
        module: ModuleType | None = None
        for step in dis.get_instructions(code):
            value = None
            if step.opname == "LOAD_GLOBAL":
                value = function.__globals__.get(step.argval)
            elif module is not None and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                value = getattr(module, step.argval, None)
            module = value if isinstance(value, ModuleType) else None
            yield value
    for cell in function.__closure__ or ():
        yield cell.cell_contents
