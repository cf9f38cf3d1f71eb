"""The work of `csdf fifo hls`: a design is traced and timed, its FIFOs sized, the answer written."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from csdf.cli import answers
from csdf.cli.frame.long_work import stops_of_searches
from csdf.cli.frame.output import remark
from csdf.cli.reporting.origin import origin_of
from csdf.errors import CsdfError
from csdf.io.files import read_text, write_text
from csdf.io.graph_files import write_graph
from planners.fifo.command.answer import exit_code
from planners.fifo.command.hls_answer import CallAnswer
from planners.fifo.command.hls_page import call_page
from planners.fifo.hls.accesses import read_accesses
from planners.fifo.hls.call_graph import call_graph
from planners.fifo.hls.call_study import CallStudy, Question, Staging, study
from planners.fifo.hls.pipelines import Skew, StagedDesign, staged
from planners.fifo.hls.recording import record
from planners.fifo.hls.synthesis_report import SynthesisReport, read_report, read_skews
from planners.fifo.hls.trace import Trace
from planners.fifo.hls.writing import tcl_directives, with_pragmas


def work(options: argparse.Namespace) -> int:
    """Print the answer; return the exit code: 0 found, 1 there are none, 3 unknown."""
    sources = [Path(path) for path in options.source]
    is_table = len(sources) == 1 and sources[0].suffix.lower() == ".csv"
    _require_writable(options, is_table=is_table)
    traces: list[Trace] = []
    report = None
    if is_table:
        design = read_accesses(sources[0])
        runs: list[Staging] = [lambda _: design]
    else:
        for source in sources:
            _require_source(source)
        report = _report(options)
        traces = _traces(sources, report, options)
        skews: dict[str, int] = {}
        if options.schedule:
            identifiers = {word for file in sources for word in re.findall(r"\w+", read_text(file))}
            skews = read_skews(Path(options.schedule), identifiers)
        runs = [_staging(trace, report, skews) for trace in traces]
    cycles = options.cycles if options.fps is None else _cycles(options.fps, report)
    question = Question(
        cycles=cycles, only_live=options.deadlock_free, has_front=options.front,
        objective=options.objective, skew=options.skew, is_grouped=not options.separate,
        storage=options.storage or "",
    )  # fmt: skip
    what = f"{sources[0].name}: sizing its FIFOs"
    stops = stops_of_searches(options.time_limit, what, effort=options.effort)
    call_study = study(runs, question, stops)
    trace = traces[0] if traces else None
    answer = CallAnswer(call_study, question, report, trace, str(sources[0]))
    answers.show(answer.as_json(), answer.lines(), options)
    _write(call_study, traces, options)
    if options.page and call_study.sizing is not None:
        has_file = options.report and Path(options.report).is_file()
        files = [options.report] if has_file else []
        origin = origin_of("fifo hls", options.words, options.source, files, ())
        write_text(options.page, call_page(answer, call_study.sizing, origin))
        remark(options.program, f"wrote {options.page}")
    if call_study.sizing is None:
        return _exit_code_of_front(call_study, is_best_effort=options.best_effort)
    return exit_code(call_study.sizing, is_best_effort=options.best_effort)


def _exit_code_of_front(call_study: CallStudy, *, is_best_effort: bool) -> int:
    """Return 0 for points, 1 if all depths deadlock, 3 if the search ended too early to know."""
    if call_study.is_complete and not call_study.points:
        return answers.NO
    is_open = call_study.is_cut_short and not is_best_effort
    return answers.ANSWERED if call_study.points and not is_open else answers.UNKNOWN


def _require_source(path: Path) -> None:
    """Raise CsdfError, before the report is read, for a file that cannot be C++."""
    expected = "expected the C++ of the design (.cpp); csdf fifo"
    if path.is_dir():
        raise CsdfError(
            f"{path}: is a folder; {expected} hls4ml reads the folder of a project of hls4ml"
        )
    if path.suffix.lower() in (".onnx", ".gz"):
        raise CsdfError(f"{path}: a model; {expected} finn reads a model of FINN")
    read_text(path)
    if path.suffix.lower() == ".xml":
        raise CsdfError(f"{path}: a report; give the C++ of the design, and this after --report")


def _cycles(calls: Fraction, report: SynthesisReport | None) -> int:
    """The maximum cycles of a call for this many calls per second."""
    if report is None or report.clock_ns is None:
        raise CsdfError("--fps: no report says the clock; give --cycles in its place")
    return int(10**9 / (calls * report.clock_ns))


def _report(options: argparse.Namespace) -> SynthesisReport:
    if not options.report:
        raise CsdfError(
            "--report is missing: csynth.xml of the C synthesis, or the folder with it; it says which "
            "loops are pipelined and how"
        )
    return read_report(Path(options.report))


def _traces(
    sources: Sequence[Path], report: SynthesisReport, options: argparse.Namespace
) -> list[Trace]:
    benches = [[Path(path) for path in options.testbench] if options.testbench else None]
    benches += [[Path(run)] for run in options.runs]
    rows = []
    for bench in benches:
        with answers.working(f"compiling and running {sources[0]}"):
            rows.append(
                record(
                    sources,
                    testbench=bench,
                    top=options.top or report.top or None,
                    include=[Path(path) for path in options.include],
                    defines=options.defines,
                    seconds=options.trace_time,
                    bytes=options.trace_memory,
                    compiler=options.compiler,
                )
            )
    return rows


def _staging(trace: Trace, report: SynthesisReport, skews: dict[str, int]) -> Staging:
    def of(skew: Skew) -> StagedDesign:
        return staged(trace, report, skew, skews)

    return of


def _require_writable(options: argparse.Namespace, *, is_table: bool) -> None:
    """Raise CsdfError, before the search, for a page of a front, or depths without pragmas."""
    if options.page and options.front:
        raise CsdfError("--front lists the trade-off: give it without --page")
    is_copy = _is_copy(options)
    is_source = options.in_place or is_copy
    if options.in_place and is_copy:
        raise CsdfError("--in-place and -o both write the source: give one of them")
    if is_source and is_table:
        raise CsdfError("a table of accesses has no pragmas; -o takes a file .json for its depths")
    if is_source and options.separate:
        raise CsdfError(
            "an array of streams has one depth in the source: --separate has no pragmas; take -o with "
            "a file .json"
        )


def _is_copy(options: argparse.Namespace) -> bool:
    """Whether -o names a copy of the source, not a file of depths."""
    return bool(options.output) and not options.output.lower().endswith(".json")


def _write(found: CallStudy, traces: Sequence[Trace], options: argparse.Namespace) -> None:
    """Write the requested files, if there are depths."""
    model = found.model
    chosen = found.sizing or (found.points[-1] if found.points else None)
    depths = chosen.depths if chosen is not None else ()
    if options.csdf:
        write_graph(options.csdf, call_graph(model, depths or model.source_depths))
        remark(
            options.program,
            f"wrote {options.csdf}: the design as a CSDF graph; its period is the interval between "
            "calls that overlap",
        )
    if not depths:
        return
    named = dict(zip(model.names, depths, strict=True))
    storage = options.storage or ""
    is_copy = _is_copy(options)
    if options.output and not is_copy:
        write_text(options.output, answers.json_text(named) + "\n")
        remark(options.program, f"wrote {options.output}: the depth of each FIFO")
    if options.in_place or is_copy:
        file = traces[0].file
        pairs = [
            (traces[0].fifos[row[0]], depth)
            for row, depth in zip(model.members, depths, strict=True)
        ]
        target = str(file) if options.in_place else options.output
        write_text(target, with_pragmas(read_text(file), str(file), pairs, storage))
        remark(options.program, f"wrote {target}, the source with these depths")
    if options.tcl:
        write_text(options.tcl, tcl_directives(model.design.name, named, storage))
        remark(options.program, f"wrote {options.tcl}, directives with these depths")
