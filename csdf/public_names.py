"""Public names of the packages, loaded when they are first used, by what type checkers read."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from csdf.names import meant


def named(package: str, name: str) -> Any:
    """Return what a public name of a package stands for, loaded when it is first asked for.

    The names are the package's imports for type checkers. Raises AttributeError.
    """
    homes_of_names = homes(package)
    if name == "__all__":
        return sorted(homes_of_names)
    if name not in homes_of_names:
        # Python asks for names of its own, and for a submodule before it imports that.
        is_python = name.startswith("_") or find_spec(f"{package}.{name}") is not None
        # A function such as pareto_front is nearer to `pareto` than the class ParetoPoint.
        functions = [public for public in homes_of_names if public.islower() and name.islower()]
        near = "" if is_python else meant(name, functions) or meant(name, homes_of_names)
        raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")
    return getattr(import_module(homes_of_names[name]), name)


@cache
def homes(package: str) -> dict[str, str]:
    """Return the module of each public name: the imports in a package's block `if TYPE_CHECKING`."""
    spec: Any = find_spec(package)
    return {
        alias.name: statement.module or ""
        for block in ast.parse(spec.loader.get_source(package)).body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
        if alias.asname is not None
    }
