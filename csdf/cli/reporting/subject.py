"""Subjects of pages: a graph, or an object that a graph is derived from.

An entry of csdf.report_subjects has the name of a kind of subject, such as `network`, and is a module
that reads them:

    INPUT: str                      what it takes, in words, for the help
    NAMES: Sequence[str]            names that it takes besides those of files, for completion
    add_options(parser)             options that its subjects need
    reads(name) -> bool             whether a name that is no graph's file may be one of its subjects
    refuse(options)                 raise CsdfError where one of its options is given for a graph
    subject(options, stop) -> Subject

An entry of csdf.report_sections has the name of a kind, a dot and a name of its own, such as
`network.arena` or `graph.power`. It is a module that adds a section to pages about these
subjects, whichever module has read them:

    contribution(subject, stop) -> Contribution | None     None: nothing about this subject

They share the stop of the page; `limited_part` of csdf.cli.frame.long_work gives a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from csdf.draw.report import advice
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.sections import Contribution, PageFrame
from csdf.model.graph import Graph
from csdf.search.pareto import SmallestStorage


class Subject(Protocol):
    """The subject of a page.

    value: what was read, such as a network. graph: what is analysed; unit: of its storage, time: of
    its period. smallest: its smallest storage, where that is known already. files: read beside the
    model; terms: what was assumed, each with a name.
    """

    @property
    def value(self) -> object: ...  # noqa: D102

    @property
    def graph(self) -> Graph: ...  # noqa: D102

    @property
    def unit(self) -> str: ...  # noqa: D102

    @property
    def time(self) -> str: ...  # noqa: D102

    @property
    def smallest(self) -> SmallestStorage | None: ...  # noqa: D102

    @property
    def files(self) -> Sequence[str]: ...  # noqa: D102

    @property
    def terms(self) -> Sequence[tuple[str, str]]: ...  # noqa: D102

    def surroundings(self, graph: GraphFindings, added: Sequence[Contribution]) -> PageFrame:
        """Return what the page says around the part about the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSubject:
    """A graph that was read from a file."""

    graph: Graph
    unit: str = "tokens"
    time: str = "time units"
    smallest: SmallestStorage | None = None
    files: tuple[str, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()

    @property
    def value(self) -> Graph:
        """The graph."""
        return self.graph

    def surroundings(self, graph: GraphFindings, added: Sequence[Contribution]) -> PageFrame:
        """Return what others add, behind all parts about the graph."""
        return PageFrame(
            name=self.graph.name,
            after=tuple(section for part in added for section in part.sections),
            data={name: value for part in added for name, value in part.data.items()},
            said=(f"{self.graph.name}: {advice.headline(graph)}",),
        )
