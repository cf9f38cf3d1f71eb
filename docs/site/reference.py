"""The reference of the packages: every public name, by the room that it lives in."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from csdf.public_names import homes

ABOUT = {
    "csdf": "The engine: graphs, their analyses, searches over storage, and formats.",
    "cnn2csdf": "Networks: readers, the catalogue, graphs of them, and runs row by row.",
    "planners": "Memory plans for networks on small devices.",
}


def pages() -> Iterator[tuple[str, str]]:
    """Give the name and the text of each page."""
    for package, about in ABOUT.items():
        yield package, f"# `{package}`\n\n{about}\n" + "".join(_rooms(package))


def _rooms(package: str) -> Iterator[str]:
    modules = homes(package)
    rooms: dict[str, list[str]] = {}
    for name in sorted(modules, key=str.lower):
        parts = modules[name].split(".")[1:]
        rooms.setdefault(parts[0], []).append(name)
    for room in sorted(rooms):
        module = f"{package}.{room}"
        yield f"\n## `{module}`\n\n{_purpose(module)}\n"
        for name in rooms[room]:
            yield f"\n::: {package}.{name}\n"


def _purpose(module: str) -> str:
    text = import_module(module).__doc__ or ""
    return text.partition("\n\n")[0]
