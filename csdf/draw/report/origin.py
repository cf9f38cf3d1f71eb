"""The origin of a page: all that somebody needs to make it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from csdf.draw.report.markup import element, joined
from csdf.draw.report.sections import Section
from csdf.errors import counted


class Source(NamedTuple):
    """A file that was read, with the SHA-256 of its bytes."""

    name: str
    size: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a page. terms: further names and values, such as the size of an element."""

    command: str
    version: str
    sources: tuple[Source, ...]
    terms: tuple[tuple[str, str], ...] = ()


def origin_section(origin: Origin) -> Section:
    """Command, version, files and terms: what it takes to make the page again."""
    rows = [
        ("command", element("code", origin.command)),
        ("version", f"csdf {origin.version}"),
        *(
            (
                "input file",
                joined(
                    [
                        f"{one.name}, {counted(one.size, 'byte')}, SHA-256 ",
                        element("code", one.digest),
                    ]
                ),
            )
            for one in origin.sources
        ),
        *origin.terms,
    ]
    cells = [part for name, text in rows for part in (element("dt", name), element("dd", text))]
    return Section("origin", "Made from", element("dl", *cells, class_="origin"))
