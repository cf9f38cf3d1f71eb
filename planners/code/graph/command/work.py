"""The work of `csdf codegen`: a graph is scheduled and written as a C program."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.liveness import Deadlock
from csdf.cli import answers, graph_input
from csdf.cli.frame.long_work import limited, shown, telling
from csdf.cli.project import command_of
from csdf.errors import CsdfError
from csdf.mapping.files import read_mapping
from csdf.model.graph import Graph
from csdf.names import quoted
from csdf.search.trade_off import smallest_storage
from csdf.search.variables import SearchSpace
from csdf.status import Status
from csdf.time_limit import Progress, Stop
from planners.code.graph.looped import in_words
from planners.code.graph.mapped_program import (
    MappedGraph,
    OrdersBlock,
    mapped_graph,
    mapped_program,
)
from planners.code.graph.planning import PlannedGraph, planned_graph
from planners.code.graph.program import WrittenProgram, write_graph_program
from planners.code.library import write_folder
from planners.code.packaging import Package, source_of

BUFFER_SEARCH_SHARE = 0.5  # part of the time for the search for the smallest buffers
SHOWN = 300  # characters of a schedule
ORDER_NOT_TRIED = "the demand-driven order, which may use less memory, was not tried"


def work(options: argparse.Namespace) -> int:
    """Write the program; return the exit code: 1 for a graph that deadlocks."""
    with limited(options.time_limit) as stop:
        if options.map is not None and options.order is not None:
            raise CsdfError("--order: the mapping has the orders; leave out --order or --map")
        graph = graph_input.read(options.file, options)
        if options.capacity:
            graph = with_capacities(graph, dict(options.capacity))
        if options.smallest:
            graph = _with_smallest(graph, stop)
        if options.map is not None:
            return _mapped(graph, options, stop)
        planned = planned_graph(
            graph,
            token_bytes=options.token_size,
            order=options.order or "min-memory",
            budget=telling(stop, f"scheduling {graph.name}"),
        )
        if isinstance(planned, Deadlock):
            print(f"csdf codegen: {quoted(f'{graph.name} deadlocks: {planned}')}", file=sys.stderr)
            return answers.NO
        written = write_graph_program(
            planned, options.output, name=options.name, package=_package(options)
        )
        lines = _lines(planned, written, options.output)
        answers.show(_document(planned, written), lines, options)
        return answers.ANSWERED if planned.reason is None else answers.UNKNOWN


def _package(options: argparse.Namespace) -> Package:
    """Return the content of banners: the graph and the command."""
    command = command_of("csdf codegen", options.words)
    return Package(sources=(source_of(options.file),), command=command)


def _mapped(graph: Graph, options: argparse.Namespace, stop: Stop) -> int:
    """A function for each processor of a mapping."""
    planned = mapped_graph(
        graph,
        read_mapping(options.map),
        token_bytes=options.token_size,
        budget=telling(stop, f"buffers of {graph.name}"),
    )
    if isinstance(planned, OrdersBlock):
        print(
            f"csdf codegen: {quoted(f'{graph.name} comes to a stand: {planned}')}", file=sys.stderr
        )
        return answers.NO
    written = mapped_program(planned, name=options.name, package=_package(options))
    write_folder(options.output, written.files)
    lines = [
        f"{graph.name}: {planned.arena_bytes} B of RAM for channels, at most {written.state_bytes} B "
        f"of state; {answers.counted(len(planned.cores), 'processor')}, "
        f"{answers.counted(planned.iterations, 'iteration')} a block",
        *(
            f"  {core.name}: {written.name}_run_{written.functions[core.name]}, "
            f"{answers.counted(core.firings, 'firing')} a block"
            for core in planned.cores
        ),
        *answers.written(list(written.files), options.output),
        f"  next     make -C {options.output} test",
    ]
    answers.show(_document(planned, written), lines, options)
    return answers.ANSWERED


def _document(planned: PlannedGraph | MappedGraph, written: WrittenProgram) -> dict[str, Any]:
    """Return the answer as a JSON value: schedule, buffers and files."""
    facts = {"program": written.name, "state_bytes": written.state_bytes}
    return {**planned.to_json(), **facts, "files": list(written.files)}


def _with_smallest(graph: Graph, stop: Stop) -> Graph:
    """Return the graph with the smallest deadlock-free capacities found within the budget."""
    storage = smallest_storage(
        graph, SearchSpace(), budget=stop.part(share=BUFFER_SEARCH_SHARE, report=shown(_so_far))
    )
    if storage.point is None:
        return graph  # it deadlocks, which the schedule will tell
    if storage.status != Status.OPTIMAL:
        print(
            f"csdf codegen: {storage.reason}: buffers of {storage.point.size} tokens, "
            f"at least {storage.lower_bound} are needed",
            file=sys.stderr,
        )
    return with_capacities(graph, storage.point.capacities)


def _so_far(progress: Progress) -> str:
    return f"smallest buffers: at least {progress.lower_bound} tokens"


def _lines(planned: PlannedGraph, written: WrittenProgram, folder: str) -> list[str]:
    words = in_words(planned.schedule)
    short = words if len(words) <= SHOWN else f"{words[:SHOWN]} ..."
    unshared_bytes = sum(ring.size for ring in planned.rings)
    way = "fixed" if planned.is_static else "partly decided at run time"
    return [
        f"{planned.graph.name}: {planned.arena_bytes} B of RAM for channels "
        f"({unshared_bytes} B without sharing and alignment), at most {written.state_bytes} B of "
        f"state; {answers.counted(planned.firings, 'firing')} per iteration",
        f"  order    {way}: {short}",
        *(() if planned.reason is None else [f"  INCOMPLETE: {planned.reason}; {ORDER_NOT_TRIED}"]),
        *answers.written(list(written.files), folder),
        f"  next     make -C {folder} test",
    ]
