"""Entry points of this project and of other packages: commands, sections, methods, operators.

An entry point is a line in a project's pyproject.toml: a name and the module that it stands for.
The lines of this project are read from the pyproject.toml of a checkout, or else from the metadata
that an installer wrote next to the packages: both belong to the code that runs, whatever else is
installed. Modules are imported on first use. Entries of other packages are read only if this project
has no entry of that name, or if all entries are requested.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

from csdf.errors import CsdfError

PROJECT = "csdf"  # the name of the distribution
HOME = os.path.abspath(os.path.join(__file__, *[os.pardir] * 2))  # the folder of the packages
COMMANDS = "csdf.commands"
REPORT_SUBJECTS = "csdf.report_subjects"
REPORT_SECTIONS = "csdf.report_sections"
METHODS = "csdf.methods"
OPERATORS = "csdf.operators"


class Entry(NamedTuple):
    """A name, the module that it stands for, and the distribution that says so."""

    name: str
    module: str
    distribution: str


def own_entries(group: str) -> dict[str, Entry]:
    """Return the entries of this project by their names."""
    return {name: Entry(name, module, PROJECT) for name, module in _own_lines(group).items()}


def all_entries(group: str) -> dict[str, Entry]:
    """Return all entries by their names: those of this project, then those of others by name.

    An entry of this project cannot be replaced by another package. Raises CsdfError where two other
    packages offer one name.
    """
    project_entries = own_entries(group)
    foreign: dict[str, Entry] = {}
    for entry in _others(group, tuple(sys.path)):
        before = foreign.setdefault(entry.name, entry)
        if before.module != entry.module:
            raise CsdfError(
                f"{group}: {before.distribution} and {entry.distribution} both offer "
                f"{entry.name!r}; uninstall one of them"
            )
    return project_entries | {
        name: entry for name, entry in foreign.items() if name not in project_entries
    }


def loaded(entry: Entry) -> ModuleType:
    """Return the module of an entry. Raises CsdfError where what it needs cannot be imported."""
    try:
        return import_module(entry.module)
    except ModuleNotFoundError as error:
        raise CsdfError(
            f"{entry.module} of {entry.distribution} cannot be imported: {error}; "
            f"pip install {entry.distribution} installs what it needs"
        ) from None
    except ImportError as error:
        raise CsdfError(
            f"{entry.module} of {entry.distribution} cannot be imported: {error}"
        ) from None


def method(name: str) -> ModuleType:
    """Return the module of a method of another package. Raises CsdfError, naming those there are."""
    methods = all_entries(METHODS)
    if name not in methods:
        listed = ", ".join(methods) or "none installed"
        raise CsdfError(f"there is no method {name!r}; methods of other packages: {listed}")
    return loaded(methods[name])


def purpose(entry: Entry) -> str:
    """Return what an entry is for: the first line of its module's docstring, behind the colon.

    The text is read without running the module. It is empty where there is no such text.
    """
    line = _docstring(entry.module).partition("\n")[0]
    return line.partition(": ")[2].removesuffix(".")


def _docstring(module: str) -> str:
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return ""
    source = getattr(spec.loader, "get_source", None) if spec is not None else None
    text = source(module) if source is not None else None
    import ast  # slow to import, and seldom needed

    return (ast.get_docstring(ast.parse(text)) or "") if text else ""


@cache
def _own_lines(group: str) -> dict[str, str]:
    """Names and modules, from the checkout's pyproject.toml, else from the installed metadata."""
    for source in (_from_checkout, _from_installer):
        lines = source(group)
        if lines is not None:
            return lines
    raise CsdfError(
        f"no list of {group} beside {HOME}: neither pyproject.toml nor the metadata of an "
        "installation; install it with pip"
    )


def _from_checkout(group: str) -> dict[str, str] | None:
    path = os.path.join(HOME, "pyproject.toml")
    if not os.path.isfile(path):
        return None
    import tomllib  # slow to import, and needed in a checkout alone

    project = tomllib.loads(_text(path)).get("project", {})
    if project.get("name") != PROJECT:
        return None
    return dict(project.get("entry-points", {}).get(group, {}))


def _from_installer(group: str) -> dict[str, str] | None:
    for path in _metadata():
        # Installers write `[group]` and `name = module` alone; ConfigParser takes 3 ms more.
        names: dict[str, str] = {}
        header = ""
        for line in _text(path).splitlines():
            name, equals, module = (part.strip() for part in line.partition("="))
            if name.startswith("["):
                header = name.strip("[]")
            elif equals and header == group:
                names[name] = module
        return names
    return None


def _metadata() -> list[str]:
    """The lists of entry points that installers wrote for this project."""
    folders = [
        name
        for name in sorted(os.listdir(HOME))
        if name.startswith(f"{PROJECT}-") and name.endswith(".dist-info")
    ]
    paths = [os.path.join(HOME, name, "entry_points.txt") for name in folders]
    return [path for path in paths if os.path.isfile(path)]


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


@cache
def _others(group: str, _places: tuple[str, ...]) -> tuple[Entry, ...]:
    """The entries of other packages, by name; looked for once in the folders of a `sys.path`."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    entries = []
    for point in entry_points(group=group):
        distribution = point.dist.name if point.dist is not None else "a package"
        if distribution != PROJECT:
            entries.append(Entry(point.name, point.value, distribution))
    return tuple(sorted(entries))
