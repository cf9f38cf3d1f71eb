"""`csdf map`: binds actors to processors in static orders for the minimum period, as text and JSON."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

from csdf.analysis.consistency import repetition_vector
from csdf.cli import answers, graph_input, loading, option_values, parsers
from csdf.cli.frame.long_work import limited, telling, working
from csdf.cli.frame.output import remark
from csdf.cli.options import concurrency
from csdf.errors import CsdfError, GaveUp
from csdf.mapping.buffers import LeastBuffers, min_buffers
from csdf.mapping.execution import MappedExecution, mapped_execution
from csdf.mapping.files import (
    holds_mapping,
    read_mapping,
    read_platform,
    write_mapping,
    write_platform,
)
from csdf.mapping.model import Mapping, Platform
from csdf.mapping.search import (
    BestMapping,
    FewestProcessors,
    best_mapping,
    equal_processors,
    fewest_processors,
    prover,
)
from csdf.mapping.throughput import MappedThroughput, mapped_throughput
from csdf.model.graph import Graph
from csdf.search.variables import UNITS
from csdf.status import Status
from csdf.time_limit import Stop

PROGRAM = "csdf map"
# Share of the time for the search of a mapping that is executed or whose buffers are searched next.
SEARCH = 0.5
DRAWN = 4  # iterations in a picture beyond those of the prefixes


def work(options: argparse.Namespace) -> int:
    """Analyse or search a mapping; return the exit code."""
    if options.minimize == "processors" and options.mapping is not None:
        options.refuse("--minimize processors searches a mapping; --mapping gives one")
    if options.minimize == "processors" and parsers.period_of(options) is None:
        options.refuse("--minimize processors needs --period or --throughput")
    if options.unit != "tokens" and options.minimize != "buffers":
        options.refuse("--unit is for --minimize buffers")
    with limited(options.time_limit) as stop:
        answer = _answer(options, stop)
        is_live = answer.throughput is not None and answer.throughput.deadlock is None
        is_aligned = is_live and options.tdma_start == "aligned"
        aligned = _aligned_execution(answer, stop) if is_aligned else None
    answers.show(as_json(answer, aligned), _lines(answer, aligned), options)
    if options.platform_output:
        write_platform(options.platform_output, answer.platform)
        remark(PROGRAM, f"wrote {options.platform_output}: the platform")
    if options.output and answer.mapping is not None:
        if loading.suffix_of(options.output) == "xml":
            from csdf.mapping.nsoc import write_nsoc  # slow to import, and seldom needed

            write_nsoc(options.output, answer.graph, answer.platform, answer.mapping)
        else:
            write_mapping(options.output, answer.mapping)
        remark(PROGRAM, f"wrote {options.output}: the mapping")
    if options.plot and is_live and answer.throughput is not None:
        with limited(options.time_limit) as stop:
            execution = _executed(answer, stop, _drawn_iterations(answer))
        about = (f"{answer.graph.name}: period {answer.throughput.period}", execution)
        loading.plot(options, "csdf.draw.charts", "gantt_picture", *about)
    is_unknown = is_aligned and aligned is None
    return answers.UNKNOWN if is_unknown else answer.exit_code


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf map",
        "Bind actors to processors and order their firings, for the smallest period, or the "
        "fewest processors for a required period; or compute the exact period of a given "
        "mapping. Buffers are minimised too.",
        "csdf map models/graphs/mp3decoder.xml --processors 4",
        "csdf map models/graphs/csdf_example.xml --platform models/platforms/two_with_a_bus.json",
        "csdf map models/graphs/mp3decoder.xml --period 3000000",
        "csdf map models/graphs/csdf_example.xml --processors 2 --period 14 --minimize buffers",
        work=work,
        notes="Each processor repeats a list of firings, after a prefix that fills the "
        "pipeline, and waits where the next one cannot start. Smallest means: of all bindings and all "
        "lists with the firings of one iteration, whatever their prefixes.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--platform", metavar="FILE", help="processors and connections, as JSON (docs/mapping.md)"
    )
    where.add_argument(
        "--processors",
        type=option_values.positive,
        metavar="N",
        help="this number of equal processors, with communication in zero time; a search uses at "
        "most as many as there are actors",
    )
    parser.add_argument(
        "--mapping", metavar="FILE", help="analyse this mapping instead of a search"
    )
    parsers.add_period(
        parser,
        "maximum period, such as 7, 3/2 or 1.5: search for the fewest processors, unless --mapping "
        "or --minimize is used",
    )
    parser.add_argument(
        "--minimize",
        choices=("processors", "buffers"),
        help="minimise processors, or the buffers of a mapping (without --mapping: of the "
        "mapping with the smallest period; without --period: no deadlock is enough)",
    )
    parser.add_argument(
        "--unit", choices=UNITS, default="tokens", help="unit of buffer sizes; default: tokens"
    )
    parsers.add_output_option(
        parser,
        "write the mapping: .json, or with graph and platform as SDF3 has them: .xml",
        "json",
        "xml",
    )
    parser.add_argument(
        "--platform-output",
        type=parsers.output_file("json"),
        metavar="FILE",
        help="write the platform as JSON",
    )
    parser.add_argument(
        "--tdma-start",
        choices=("any", "aligned"),
        default="any",
        help="TDMA wheels start at any time (an upper bound, the default), or all at 0 (exact)",
    )
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the firings by processor over time")
    parsers.add_time_limit(parser, "stop the search after this time with the best mapping so far")
    what = f"{parsers.GRAPH_HELP}; or SDF3 XML with architectureGraph and mapping"
    concurrency.add_graph(parser, what)
    return parser


def _answer(options: argparse.Namespace, stop: Stop) -> MapAnswer:
    required = parsers.period_of(options)
    if (
        options.platform is None
        and options.processors is None
        and holds_mapping(options.file, options.file_limit)
    ):
        from csdf.mapping.nsoc import read_nsoc  # slow to import, and seldom needed

        graph, platform, mapping = read_nsoc(options.file, options.file_limit)
        graph_input.tell_sizes(options.file, options, 0, buffers=len(mapping.buffers))
        graph = concurrency.limited(graph, options)
    else:
        graph = concurrency.read(options.file, options)
        if options.mapping is None:
            return _searched(graph, options, required, stop)
        platform, mapping = _platform(options, graph, required), read_mapping(options.mapping)
    if options.minimize == "buffers":
        return _with_least_buffers(graph, platform, mapping, options, stop)
    with working(f"analysing the mapping of {graph.name}"):
        throughput = mapped_throughput(graph, platform, mapping, budget=stop)
    return MapAnswer(graph, platform, mapping, throughput, required=required)


def _platform(options: argparse.Namespace, graph: Graph, required: Fraction | None) -> Platform:
    """Return the platform; by default a processor for each actor, to search the fewest."""
    if options.platform is not None:
        return read_platform(options.platform)
    is_search = required is not None and not options.mapping and options.minimize != "buffers"
    if options.processors is None and not is_search:
        raise CsdfError(
            f"{options.file}: no platform in it; give --platform FILE or --processors N"
        )
    count = options.processors or len(graph.actors)
    # A search leaves further equal processors idle, so they are left out.
    return equal_processors(count if options.mapping else min(count, len(graph.actors)))


def _searched(
    graph: Graph, options: argparse.Namespace, required: Fraction | None, stop: Stop
) -> MapAnswer:
    platform = _platform(options, graph, required)
    stop = telling(stop, lambda progress: f"mapping {graph.name}: {progress.at}")
    if required is not None and options.minimize != "buffers":
        fewest = fewest_processors(graph, platform, period=required, budget=stop)
        _remark_on_proofs(fewest.status)
        if options.platform is None and fewest.mapping is not None:
            orders = fewest.mapping.orders
            used = tuple(core for core in platform.cores if core.name in orders)
            platform = replace(platform, cores=used)
        return MapAnswer(
            graph, platform, fewest.mapping, fewest.found, least=fewest, required=required
        )
    is_last = options.minimize is None and options.tdma_start == "any"
    best = best_mapping(graph, platform, budget=stop if is_last else stop.part(share=SEARCH))
    _remark_on_proofs(best.status)
    if options.minimize == "buffers":
        return _with_least_buffers(graph, platform, best.mapping, options, stop, best)
    return MapAnswer(graph, platform, best.mapping, best.found, best=best)


def _remark_on_proofs(status: Status) -> None:
    if status in (Status.FEASIBLE, Status.UNKNOWN) and prover() is None:
        remark(PROGRAM, "OR-Tools proves more of small graphs: pip install ortools")


def _with_least_buffers(
    graph: Graph,
    platform: Platform,
    mapping: Mapping,
    options: argparse.Namespace,
    stop: Stop,
    best: BestMapping | None = None,
) -> MapAnswer:
    required = parsers.period_of(options)
    stop = telling(stop, lambda progress: f"sizing the buffers of {graph.name}: {progress.done}")
    sized = min_buffers(graph, platform, mapping, period=required, unit=options.unit, budget=stop)
    return MapAnswer(graph, platform, sized.mapping, sized.found, best, sized, required)


def _aligned_execution(answer: MapAnswer, stop: Stop) -> MappedExecution | None:
    """Return the execution with TDMA wheels from time 0 on; None, with a remark, where it gave up."""
    try:
        return _executed(answer, stop)
    except GaveUp as error:
        remark(PROGRAM, f"unknown with all TDMA wheels from time 0 on: {error}")
        return None


def _executed(answer: MapAnswer, stop: Stop, iterations: int | None = None) -> MappedExecution:
    if answer.mapping is None:
        raise AssertionError("only a mapping is executed")
    stop = telling(stop, f"executing {answer.graph.name}")
    return mapped_execution(
        answer.graph, answer.platform, answer.mapping, iterations=iterations, budget=stop
    )


def _drawn_iterations(answer: MapAnswer) -> int:
    """Return how many iterations a picture shows: the prefixes and some more."""
    repetitions = repetition_vector(answer.graph)
    orders = () if answer.mapping is None else answer.mapping.orders.values()
    begun = [
        Fraction(count, repetitions[actor])
        for order in orders
        for actor, count in Counter(order.prefix).items()
    ]
    return ceil(max(begun, default=Fraction(0))) + DRAWN


RUNS = 16  # most runs of equal actors of an order that are listed

Least = FewestProcessors | LeastBuffers


class MapAnswer(NamedTuple):
    """The answer of `csdf map` and what it rests on.

    mapping, throughput: None where no mapping is known that is fast enough. best: what a search for the
    least period says; least: what one for the fewest processors or the least buffers says, in
    which `required` is the period asked for.
    """

    graph: Graph
    platform: Platform
    mapping: Mapping | None
    throughput: MappedThroughput | None
    best: BestMapping | None = None
    least: Least | None = None
    required: Fraction | None = None

    @property
    def is_slow(self) -> bool:
        """Whether the period is longer than the required one."""
        period = None if self.throughput is None else self.throughput.period
        return self.required is not None and period is not None and period > self.required

    @property
    def exit_code(self) -> int:
        """0 for a mapping that is as asked, 1 for none, 3 for a search that ended without an answer."""
        if self.least is not None and self.least.status == Status.UNKNOWN:
            return answers.UNKNOWN
        if self.throughput is None or self.throughput.deadlock is not None or self.is_slow:
            return answers.NO
        return answers.ANSWERED


def as_json(answer: MapAnswer, execution: MappedExecution | None) -> dict[str, Any]:
    """Return the answer as a JSON value; fractions as texts."""
    nothing: dict[str, Any] = {"period": None, "critical_cycle": None, "deadlock": None}
    row: dict[str, Any] = {
        "graph": answer.graph.name,
        "processors": [core.name for core in answer.platform.cores],
        "utilization": {},
        **(nothing if answer.throughput is None else answer.throughput.to_json()),
        "mapping": None if answer.mapping is None else answer.mapping.to_json(),
    }
    if answer.best is not None:
        row |= {
            "lower_bound": str(answer.best.lower_bound),
            "gap": None if answer.best.gap is None else str(answer.best.gap),
            "status": answer.best.status,
        }
    if answer.required is not None:
        row["required_period"] = str(answer.required)
    if answer.least is not None:
        row["minimum"] = answer.least.to_json()
    if execution is not None:
        row["period_aligned"] = str(execution.period)
    return row


def _lines(answer: MapAnswer, execution: MappedExecution | None) -> list[str]:
    count = answers.counted(len(answer.platform.cores), "processor")
    verdict, rows = "; ".join(_verdicts(answer)), list(_rows(answer, execution))
    cycle = None if answer.throughput is None else answer.throughput.critical_cycle
    over = [] if cycle is None else [("critical over", answers.listed_up_to(cycle.channels, 6))]
    lines = answers.table(f"{answer.graph.name} on {count}: {verdict}", rows, over)
    if answer.mapping is None or answer.throughput is None:
        return lines
    orders = [("processor", "busy", "static order: once; (repeated)*")]
    for core in answer.platform.cores:
        order = answer.mapping.orders.get(core.name)
        shown = "nothing"
        if order is not None:
            first = f"{_runs(order.prefix)}; " if order.prefix else ""
            shown = f"{first}({_runs(order.periodic)})*"
        orders.append(
            (core.name, f"{float(answer.throughput.utilization.get(core.name, 0)):.1%}", shown)
        )
    width = max(len(row[0]) for row in orders)
    return [*lines, *(f"  {name:<{width}} {use:>7}  {shown}" for name, use, shown in orders)]


def _verdicts(answer: MapAnswer) -> Iterator[str]:
    """Yield the parts of the answer in one line: the minimum that was asked for, and the period."""
    minimum, best, result = answer.least, answer.best, answer.throughput
    if minimum is not None:
        proved = "minimum (proved)"
        size: str | None = None
        if isinstance(minimum, LeastBuffers):
            proved = "minimum of this mapping (proved)"
            size = None if minimum.size is None else f"{minimum.size} {minimum.unit} of buffers"
        elif minimum.count is not None:
            size = answers.counted(minimum.count, "processor")
        if size is None:
            yield f"{minimum.status}: {minimum.reason}"
        elif minimum.status == Status.OPTIMAL:
            yield f"{size}, {proved}"
        else:
            yield f"{size}, lower bound {minimum.lower_bound}: {minimum.reason}"
    if result is None:
        return
    if result.period is None:
        yield f"deadlock: {result.deadlock}"
        return
    verdict = f"period {answers.number(result.period)}"
    if best is not None and not minimum:
        bound = answers.number(best.lower_bound)
        gap = f"at most {float(best.gap or 0):.1%} above the lower bound {bound}"
        verdict += ", optimal" if best.status == Status.OPTIMAL else f", {gap}"
    if answer.required is not None:
        comparison = "more than" if answer.is_slow else "at most"
        verdict += f", {comparison} the required {answers.number(answer.required)}"
    yield verdict


def _rows(answer: MapAnswer, execution: MappedExecution | None) -> Iterator[tuple[str, str]]:
    minimum, result = answer.least, answer.throughput
    if result is not None and result.period is not None:
        if any(core.wheel for core in answer.platform.cores):
            yield "TDMA", "the period is an upper bound, for TDMA wheels that start at any time"
            if execution is not None and execution.period is not None:
                yield (
                    "aligned",
                    f"{answers.number(execution.period)}, all TDMA wheels from time 0 on",
                )
        if (cycle := result.critical_cycle) is not None:
            yield "critical cycle", answers.listed_up_to(cycle.actors, 12)
    if isinstance(minimum, LeastBuffers) and minimum.mapping is not None:
        buffers = minimum.mapping.buffers
        width = max((len(name) for name in buffers), default=0)
        for index, (name, buffer) in enumerate(buffers.items()):
            capacity = str(buffer.memory)
            if buffer.memory is None:
                capacity = f"{buffer.source} at its source, {buffer.target} at its target"
            yield "" if index else "buffer capacities", f"{name:<{width}} {capacity}"


def _runs(actors: Sequence[str]) -> str:
    """Return a list of actors; runs of one actor with their number."""
    runs = [(actor, len(list(same))) for actor, same in groupby(actors)]
    shown = [actor if count == 1 else f"{count} {actor}" for actor, count in runs[:RUNS]]
    return ", ".join(shown) + (f" and {len(runs) - RUNS} more" if len(runs) > RUNS else "")
