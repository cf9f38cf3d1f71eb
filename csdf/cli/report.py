"""`csdf report`: one page to look at: bottleneck, schedule, storage, memory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from types import ModuleType

from csdf.cli import answers, parsers
from csdf.cli.frame import entries
from csdf.cli.frame.long_work import stop_after
from csdf.cli.options import concurrency
from csdf.cli.pictures import suffix_of
from csdf.cli.reporting.graph_answers import graph_findings
from csdf.cli.reporting.origin import origin_of
from csdf.cli.reporting.subject import GraphSubject, Subject
from csdf.draw.report.findings import GraphFindings
from csdf.draw.report.page import Compared, report_page
from csdf.draw.report.sections import Contribution, Surroundings
from csdf.errors import UnwritableFile
from csdf.io.files import read_bytes, require_plain, write_text
from csdf.stopping import Stop

GRAPH_FORMAT = b'"csdf-graph"'  # what every graph in JSON says of itself
BUDGET = 20.0  # seconds
SUFFIXES = ("html", "htm", "")
PLAIN_QUOTES = str.maketrans("“”", "''")  # as in what other commands print, in every encoding
GRAPH = "graph"  # the kind of subject that csdf knows itself
INPUT = "a graph (SDF3 .xml, JSON, layer table .csv)"


def main(argv: Sequence[str]) -> int:
    """Write the page and print its first sentence; return the exit code."""
    options = command_parser().parse_args(argv)
    if suffix_of(options.output) not in SUFFIXES:
        raise UnwritableFile(f"{options.output}: the page is HTML; expected .html or .htm")
    stop = stop_after(options.budget)
    other = None
    if options.compare is not None:
        _, graph, around = _found(_with_model(options, options.compare), stop.part(share=0.5))
        other = Compared((options.compare, options.model), graph, around)
    subject, graph, around = _found(options, stop)
    origin = origin_of(argv, [options.model, options.compare], subject.files, subject.terms)
    write_text(options.output, report_page(graph, around, origin, other))
    print(answers.one_text(around.said).translate(PLAIN_QUOTES))
    print(f"csdf report: wrote {options.output}", file=sys.stderr)
    return _exit_code(graph, around)


def _found(options: argparse.Namespace, stop: Stop) -> tuple[Subject, GraphFindings, Surroundings]:
    """The subject of a page, and all findings on it."""
    kind, subject = _subject(options, stop)
    added = list(_added(kind, subject, stop))
    graph = graph_findings(
        subject.graph, stop, unit=subject.unit, time=subject.time, smallest=subject.smallest
    )
    return subject, graph, subject.surroundings(graph, added)


def _with_model(options: argparse.Namespace, model: str) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(options), "model": model})


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    readers = _readers()
    parser = parsers.new_parser(
        "csdf report",
        "One HTML page about a graph or a network, with nothing to load from anywhere: what limits "
        "it and what to change, a drawing, the schedule, how full channels are, storage against "
        "throughput, and for networks the memory and its arena over time.",
        "csdf report models/graphs/h263decoder.xml -o report.html",
        "csdf report person_detection --element-bytes 1 --ram 64kB -o report.html",
        "csdf report --compare models/graphs/h263encoder.xml models/graphs/h263decoder.xml",
    )
    inputs = " or ".join([INPUT, *(reader.INPUT for reader in readers.values())])
    model = parser.add_argument("model", metavar="MODEL", help=inputs)
    parsers.takes_words(model, (word for reader in readers.values() for word in reader.NAMES))
    parsers.add_output_option(parser, "the page; default: report.html", required=False)
    parser.set_defaults(output="report.html")
    other = parser.add_argument(
        "--compare",
        metavar="MODEL",
        help="another graph or network, such as an earlier version: its figures stand beside",
    )
    parsers.takes_words(other, (word for reader in readers.values() for word in reader.NAMES))
    parsers.add_budget_option(
        parser, "for all analyses; what is not finished by then is marked", BUDGET
    )
    for reader in readers.values():
        reader.add_options(parser)
    concurrency.add_concurrency(parser)
    answers.add_reading_options(parser)
    return parser


def _readers() -> dict[str, ModuleType]:
    """The modules that read what is not a graph, by the kind of it."""
    found = entries.every(entries.REPORT_SUBJECTS)
    return {kind: entries.loaded(entry) for kind, entry in found.items()}


def _subject(options: argparse.Namespace, stop: Stop) -> tuple[str, Subject]:
    """Return the subject of the page and its kind: a graph, or what the first reader finds."""
    require_plain(options.model)  # it is read more than once
    readers = _readers()
    if not _is_graph(options.model):
        for kind, reader in readers.items():
            if reader.reads(options.model):
                concurrency.refuse(options)
                return kind, reader.subject(options, stop)
    for reader in readers.values():
        reader.refuse(options)
    graph = concurrency.read(options.model, options)
    return GRAPH, GraphSubject(graph=graph, options=options, terms=answers.sizes_terms(options))


def _is_graph(name: str) -> bool:
    """Whether a file says itself that it is a graph, as only JSON can."""
    return PurePath(name).suffix.lower() == ".json" and GRAPH_FORMAT in read_bytes(name)


def _added(kind: str, subject: Subject, stop: Stop) -> Iterator[Contribution]:
    """Return the sections of other packages for subjects of this kind, in the order of their names."""
    for name, entry in sorted(entries.every(entries.REPORT_SECTIONS).items()):
        if name.startswith(f"{kind}."):
            found = entries.loaded(entry).contribution(subject, stop)
            if found is not None:
                yield found


def _exit_code(graph: GraphFindings, around: Surroundings) -> int:
    """1 for a deadlock and where the answer is "no", 3 where even the period is unknown."""
    if graph.result is None:
        return answers.GAVE_UP
    is_no = graph.result.deadlock is not None or around.is_no
    return answers.NO if is_no else answers.ANSWERED
