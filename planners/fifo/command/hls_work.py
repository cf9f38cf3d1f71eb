"""The work of `csdf fifo hls`: a design is traced and timed, its FIFOs sized, the answer told."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from csdf.cli import answers
from csdf.cli.frame import terminal
from csdf.cli.frame.long_work import stops_of_searches
from csdf.cli.frame.output import remark
from csdf.errors import CsdfError
from csdf.io.files import read_text, write_text
from csdf.io.graph_files import write_graph
from csdf.status import Status
from csdf.units import nanoseconds_in_words, percent
from planners.fifo.command.answer import FEWEST, HEADS, others_in_words
from planners.fifo.hls.accesses import read_accesses
from planners.fifo.hls.call import cost, is_memory
from planners.fifo.hls.call_graph import call_graph
from planners.fifo.hls.call_study import CallStudy, Question, Staging, Tried, study
from planners.fifo.hls.critical import ProcessWait, in_words
from planners.fifo.hls.depths import CallSizing
from planners.fifo.hls.pipelines import Skew, StagedDesign, staged
from planners.fifo.hls.reduction import total_cost
from planners.fifo.hls.synthesis_report import SynthesisReport, read_report, read_skews
from planners.fifo.hls.trace import Trace, record
from planners.fifo.hls.writing import tcl_directives, with_pragmas
from planners.fifo.sizing import SizingWhy

SHOWN = 4  # processes and names in a line
INFERRED = (
    "stages of reads (1, or 2 under a condition in a nest), of writes (the last), 2 stages between "
    "loops, shift registers up to 1024 bits: inferred from RTL simulations of Vitis HLS 2023.2",
    "the top function is called once; pipelines stall as a whole (stp); ports never stall, memory "
    "behind AXI included",
)


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
            read_text(source)  # what is missing is said before the report is read
        report = _report(options)
        traces = _traces(sources, report, options)
        skews = read_skews(Path(options.schedule)) if options.schedule else {}
        runs = [_staging(trace, report, skews) for trace in traces]
    cycles = options.cycles if options.fps is None else _cycles(options.fps, report)
    question = Question(
        cycles=cycles, only_live=options.deadlock_free, has_front=options.front,
        objective=options.objective, skew=options.skew, is_grouped=not options.separate,
        storage=options.storage or "",
    )  # fmt: skip
    call_study = study(
        runs,
        question,
        stops_of_searches(
            options.time_limit, f"{sources[0].name}: sizing its FIFOs", effort=options.effort
        ),
    )
    told = _Told(call_study, question, report, traces[0] if traces else None, str(sources[0]))
    answers.show(told.as_json(), told.lines(), options)
    _write(call_study, traces, options)
    return _exit_code(call_study, is_best_effort=options.best_effort)


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


def _exit_code(found: CallStudy, *, is_best_effort: bool) -> int:
    sizing = found.sizing
    if sizing is None:
        return answers.ANSWERED if found.points else answers.NO
    if sizing.status is Status.INFEASIBLE:
        return answers.NO
    is_open = sizing.is_cut_short and not is_best_effort
    is_unknown = sizing.status is Status.UNKNOWN or is_open
    return answers.UNKNOWN if is_unknown else answers.ANSWERED


def _require_writable(options: argparse.Namespace, *, is_table: bool) -> None:
    """Raise CsdfError, before the work, where there are no pragmas to write depths into."""
    is_source = options.in_place or (
        options.output and not options.output.lower().endswith(".json")
    )
    if is_source and is_table:
        raise CsdfError("a table of accesses has no pragmas; -o takes a file .json for its depths")
    if is_source and options.separate:
        raise CsdfError(
            "an array of streams has one depth in the source: --separate has no pragmas; take -o with "
            "a file .json"
        )


def _write(found: CallStudy, traces: Sequence[Trace], options: argparse.Namespace) -> None:
    """Write what was asked for, if there are depths."""
    model = found.model
    chosen = found.sizing or (found.points[-1] if found.points else None)
    depths = chosen.depths if chosen is not None else ()
    if options.csdf:
        write_graph(options.csdf, call_graph(model, depths or model.given))
        remark(
            options.program,
            f"wrote {options.csdf}: the design as a CSDF graph; its period is the interval between "
            "calls that overlap",
        )
    if not depths:
        return
    named = dict(zip(model.names, depths, strict=True))
    storage = options.storage or ""
    if options.output and options.output.lower().endswith(".json"):
        write_text(options.output, answers.json_text(named) + "\n")
        remark(options.program, f"wrote {options.output}: the depth of each FIFO")
    elif options.output or options.in_place:
        file = traces[0].file
        pairs = [
            (traces[0].fifos[row[0]], depth)
            for row, depth in zip(model.members, depths, strict=True)
        ]
        target = options.output or str(file)
        write_text(target, with_pragmas(read_text(file), str(file), pairs, storage))
        remark(options.program, f"wrote {target}: with these depths")
    if options.tcl:
        write_text(options.tcl, tcl_directives(model.design.name, named, storage))
        remark(options.program, f"wrote {options.tcl}: directives with these depths")


class _Told:
    """The answer in words and as JSON."""

    def __init__(
        self,
        found: CallStudy,
        question: Question,
        report: SynthesisReport | None,
        trace: Trace | None,
        file: str,
    ) -> None:
        self._found, self._question, self._report, self._trace = found, question, report, trace
        self._file = file
        self._model = found.model
        self._unit = HEADS.get(question.objective, question.objective)

    @property
    def _inferred(self) -> tuple[str, ...]:
        """Assumptions about every run, from simulations."""
        return () if self._trace is None else INFERRED

    def _assumptions(self) -> list[str]:
        """Assumptions of the answer besides source and report."""
        call_study = self._found
        said = []
        if call_study.largest_skew:
            most = (
                call_study.largest_skew
                if call_study.skew is None
                else min(call_study.skew, call_study.largest_skew)
            )
            what = (
                f"lanes of an array of streams are read up to {most} stages later than in the model "
                "(skew); the report does not say it"
                if most
                else "all lanes of an array of streams are read in the same stage (skew 0); the report "
                "does not say it"
            )
            said.append(what)
        said += self._model.design.assumptions
        if self._trace is not None:
            said += self._trace.remarks
            said.append(
                "loop counts and branches come from this run; if they depend on data, add test "
                "benches with --runs"
            )
        return list(dict.fromkeys(said))

    def _places(self, places: Sequence[int]) -> list[str]:
        return [self._model.names[place] for place in places]

    def _step(self, step: Any, tried: Tried, *, is_skewed: bool = False) -> str:
        step_in_words = ProcessWait(
            process=step.process, fifo=step.fifo, is_writing=step.is_writing
        )
        file = Path(self._file).name
        return in_words(self._model, tried.depths, step_in_words, file, is_skewed=is_skewed)

    def _tried_json(self, tried: Tried) -> dict[str, Any]:
        return {
            "cycles": tried.outcome.cycles,
            "cycles_with_skew": tried.assumed.cycles,
            "deadlocks_from_skew": tried.deadlocks_from,
            "bits": total_cost(self._model, tried.depths, "bits"),
            "bram_18k": total_cost(self._model, tried.depths, "bram"),
            "deadlock": self._deadlock_json(tried),
        }

    def _deadlock_json(self, tried: Tried) -> dict[str, Any] | None:
        """The deadlock without skew, or else the one with the skew that is assumed."""
        outcome = tried.outcome if tried.outcome.cycles is None else tried.assumed
        if outcome.cycles is not None:
            return None
        processes, fifos = self._model.design.processes, self._model.design.fifos
        return {
            "skew": tried.deadlocks_from or 0,
            "cycle": [
                {
                    "process": processes[step.process].name,
                    "line": processes[step.process].line,
                    "waits_to": "begin"
                    if step.fifo is None
                    else "write"
                    if step.is_writing
                    else "read",
                    "fifo": None if step.fifo is None else fifos[step.fifo].name,
                    "fifo_line": None if step.fifo is None else fifos[step.fifo].line,
                    "says": self._step(step, tried, is_skewed=outcome is tried.assumed),
                }
                for step in outcome.blocked
            ],
        }

    def _limit_json(self) -> dict[str, Any] | None:
        limit, outcome = self._found.limit, self._found.given.outcome
        if limit is None:
            return None
        processes = self._model.design.processes
        return {
            "process": processes[limit.shares[0][0]].name,
            "line": processes[limit.shares[0][0]].line,
            "loops": list(processes[limit.shares[0][0]].loops),
            "fifos": self._places(outcome.holding),
            "memories": self._places(outcome.slowed),
            "path": [
                {
                    "process": processes[process].name,
                    "line": processes[process].line,
                    "cycles": cycles,
                }
                for process, cycles in limit.shares
            ],
            "cycle": [self._step(step, self._found.given) for step in limit.repeated],
            "cycle_takes": limit.repeats_after,
            "is_whole": limit.is_whole,
        }

    def _cost_json(self, depths: Sequence[int]) -> dict[str, int]:
        return {
            "bits": total_cost(self._model, depths, "bits"),
            "bram_18k": total_cost(self._model, depths, "bram"),
            "luts": total_cost(self._model, depths, "lut"),
        }

    def _sizing_json(self, sizing: CallSizing) -> dict[str, Any]:
        return {
            "goal": sizing.goal,
            "status": sizing.status.value,
            "reason": str(sizing.reason),
            "cycles": sizing.cycles,
            "depths": dict(zip(self._model.names, sizing.depths, strict=False)),
            "cost": self._cost_json(sizing.depths) if sizing.depths else None,
            "size": sizing.cost if sizing.depths else None,
            "bound": sizing.lower_bound,
        }

    def as_json(self) -> dict[str, Any]:
        """Return the whole answer."""
        call_study, model = self._found, self._model
        clock = None if self._report is None else self._report.clock_ns
        chosen = call_study.sizing or (call_study.points[-1] if call_study.points else None)
        depths = chosen.depths if chosen is not None and chosen.depths else ()
        rows = []
        for place, name in enumerate(model.names):
            fifos = [model.design.fifos[number] for number in model.members[place]]
            rows.append(
                {
                    "name": name,
                    "line": fifos[0].line,
                    "lanes": len(fifos),
                    "width": max(fifo.bits for fifo in fifos),
                    "words": model.words[place],
                    "given": model.given[place],
                    "depth": depths[place] if depths else None,
                    "producer": model.design.processes[fifos[0].writer].name,
                    "consumer": model.design.processes[fifos[0].reader].name,
                    "is_ever_full": place not in call_study.idle,
                    "is_needed": place not in call_study.unneeded,
                }
            )
        answer: dict[str, Any] = {
            "design": model.design.name,
            "file": self._file,
            "clock_ns": None if clock is None else str(clock),
            "cycles": call_study.given.outcome.cycles,
            "deadlock": None
            if call_study.given.outcome.cycles is not None
            else self._deadlock_json(call_study.given),
            "limited_by": self._limit_json(),
            "fewest_cycles": call_study.least.cycles,
            "given": self._tried_json(call_study.given),
            "depth_2": self._tried_json(call_study.shallow),
            "objective": self._question.objective,
            "skew": {"assumed": call_study.skew, "largest": call_study.largest_skew},
            "depths": dict(zip(model.names, depths, strict=False)),
            "cost": self._cost_json(depths) if depths else None,
            "bound": None if chosen is None else chosen.lower_bound,
            "status": Status.UNKNOWN.value if chosen is None else chosen.status.value,
            "sizing": None if call_study.sizing is None else self._sizing_json(call_study.sizing),
            "without_skew": None
            if call_study.plain is None
            else self._sizing_json(call_study.plain),
            "points": [self._sizing_json(point) for point in call_study.points],
            "is_complete": call_study.is_complete,
            "uncalibrated": list(call_study.uncalibrated),
            "fifos": rows,
            "processes": [
                {
                    "name": process.name,
                    "line": process.line,
                    "module": process.module,
                    "loops": list(process.loops),
                }
                for process in model.design.processes
            ],
            "assumptions": [*self._assumptions(), *self._inferred],
        }
        return answer

    def lines(self) -> Iterator[str]:
        """Yield the answer for people."""
        call_study, model = self._found, self._model
        fifos = len(model.design.fifos)
        arrays = "" if len(model.members) == fifos else f" in {len(model.members)} arrays"
        verdict = f"as given {self._compared(call_study.given)}"
        if call_study.sizing is not None:
            stuck = "" if call_study.given.outcome.cycles is not None else "; as given it deadlocks"
            kind = "FIFOs of " if call_study.sizing.depths else ""
            verdict = f"{kind}{self._in_words(call_study.sizing)}{stuck}"
        if self._question.has_front and call_study.points:
            ends = [call_study.points[place] for place in (0, -1)]
            shown = dict.fromkeys(f"{end.cost} {self._unit} at {end.cycles} cycles" for end in ends)
            points = answers.counted(len(call_study.points), "Pareto point")
            verdict = f"{points}; {' to '.join(shown)}"
        if call_study.sizing is not None and call_study.sizing.is_cut_short:
            verdict = f"{answers.CUT_SHORT}: {verdict}"
        yield f"{model.design.name}: {verdict}"
        least, usual = (
            tried_at.outcome.cycles or 0 for tried_at in (call_study.shallow, call_study.given)
        )
        faster = ""
        if 0 < least < usual:
            faster = " (a shift register is read one cycle earlier than a memory)"
        facts = [
            ("as given", self._compared(call_study.given)),
            ("depth 2", self._compared(call_study.shallow, faster)),
        ]
        if (limit := call_study.limit) is not None:
            cycles = call_study.given.outcome.cycles or 0
            shares = [
                f"{model.design.processes[process].name} (line {model.design.processes[process].line}) "
                f"{percent(Fraction(share, max(1, cycles)))}"
                for process, share in limit.shares
                if share * 50 > cycles
            ]
            facts.append(("limited by", answers.some(shares, SHOWN)))
            if call_study.given.outcome.holding:
                full = answers.some(self._places(call_study.given.outcome.holding), SHOWN)
                facts.append(("", f"lack of space in {full}"))
        dead = [("deadlock", call_study.given)]
        if call_study.given.outcome.cycles is not None:
            dead.append(("at depth 2", call_study.shallow))
        for name, tried in dead:
            is_nominal = tried.outcome.cycles is None
            facts += [
                (
                    name if not number else "",
                    self._step(step, tried, is_skewed=not is_nominal),
                )
                for number, step in enumerate(
                    (tried.outcome if is_nominal else tried.assumed).blocked
                )
            ]
        fewest = "none: it deadlocks in any depths" if call_study.least.cycles is None else (
            f"{self._cycles(call_study.least.cycles)}: no depths are faster"
            + " by timing that is not calibrated" * bool(call_study.uncalibrated)
        )  # fmt: skip
        facts.append(("fewest", fewest))
        if call_study.given.outcome.cycles is not None and call_study.idle:
            facts.append(("never full", answers.some(self._places(call_study.idle), SHOWN)))
        if call_study.unneeded:
            facts.append(
                (
                    "too deep",
                    "depth 2 is enough, one at a time: "
                    f"{answers.some(self._places(call_study.unneeded), SHOWN)}",
                )
            )
        if call_study.plain is not None and call_study.plain.depths:
            facts.append(("skew 0", self._in_words(call_study.plain)))
        width = max(len(name) for name, _ in facts)
        yield from (f"  {name:<{width}} {text}" for name, text in facts)
        yield answers.Detail(
            f"  {'design':<{width}} {len(model.design.processes)} processes, "
            f"{answers.counted(fifos, 'FIFO')}{arrays}, {model.events} stages with accesses"
        )
        if call_study.sizing is not None and call_study.sizing.depths:
            yield ""
            yield from self._table(call_study.sizing)
        if self._question.has_front:
            yield ""
            yield from self._front_table()
        yield ""
        yield "assumed:"
        yield from (f"  {assumption}" for assumption in self._assumptions())
        yield from (answers.Detail(f"  {assumption}") for assumption in self._inferred)

    def _cycles(self, cycles: int) -> str:
        text = f"{answers.counted(cycles, 'cycle')}"
        clock = None if self._report is None else self._report.clock_ns
        return text if clock is None else f"{text} ({nanoseconds_in_words(cycles * clock)})"

    def _compared(self, tried: Tried, why: str = "") -> str:
        bits = total_cost(self._model, tried.depths, "bits")
        blocks = total_cost(self._model, tried.depths, "bram")
        size = f"{bits} bits, {blocks} BRAM_18K: "
        if tried.outcome.cycles is None:
            return f"{size}DEADLOCK"
        text = size + self._cycles(tried.outcome.cycles) + why
        if tried.deadlocks_from is not None:
            return f"{text}; DEADLOCK from skew {tried.deadlocks_from} on"
        if tried.assumed.cycles != tried.outcome.cycles:
            text += f"; {tried.assumed.cycles} with the skew assumed"
        return text

    def _in_words(self, sizing: CallSizing) -> str:
        goal = "no deadlock" if sizing.goal is None else self._cycles(sizing.goal)
        if not sizing.depths:
            if sizing.status is Status.INFEASIBLE:
                least = self._found.least.cycles
                why = "it deadlocks in any depths"
                if least is not None and sizing.goal is not None:
                    why = f"no depths are faster than {self._cycles(max(least, sizing.goal + 1))}"
                    # Memories, or the skew, keep depths from `fewest`: the goal itself is too few.
                    if sizing.goal >= least and self._found.skew != 0 and self._found.largest_skew:
                        why += " with the skew assumed"
                return f"no depths for {goal}: {why}"
            return f"no depths found for {goal}: {sizing.reason}"
        objective = self._question.objective
        if sizing.status is Status.OPTIMAL:
            proof = f"proved the {FEWEST.get(objective, 'fewest bits')}"
        elif sizing.reason.has(SizingWhy.UNCALIBRATED):
            proof = str(sizing.reason)
        else:
            bound = sizing.lower_bound
            above = answers.gap_above(sizing.cost, bound) if bound else "lower bound 0"
            proof = f"{above} ({sizing.reason})"
        if objective == "bits":
            more = f", {total_cost(self._model, sizing.depths, 'bram')} BRAM_18K"
        else:
            more = f" ({total_cost(self._model, sizing.depths, 'bits')} bits)"
        reached = "" if sizing.cycles == sizing.goal else f", {sizing.cycles} reached"
        if sizing.goal is None:
            reached = f", {sizing.cycles} cycles"
        return f"{sizing.cost} {self._unit}{more} for {goal}{reached}: {proof}"

    def _table(self, sizing: CallSizing) -> list[str]:
        rows = [("FIFO", "lanes", "given", "depth", "width", "BRAM_18K", "memory")]
        for place, name in enumerate(self._model.names):
            fifos = [self._model.design.fifos[number] for number in self._model.members[place]]
            depth = sizing.depths[place]
            if depth == self._model.given[place] == 2:
                continue
            kinds = dict.fromkeys(
                fifo.kind or ("memory" if is_memory(depth, fifo.bits, "") else "shift register")
                for fifo in fifos
            )
            blocks = sum(cost(depth, fifo.bits, fifo.kind, "bram") for fifo in fifos)
            rows.append(
                (
                    name, str(len(fifos)), str(self._model.given[place]), str(depth),
                    f"{max(fifo.bits for fifo in fifos)} bits", str(blocks), ", ".join(kinds),
                )
            )  # fmt: skip
        lines = terminal.aligned(rows, texts=(0, 6), indent="  ") if len(rows) > 1 else []
        if unlisted := len(sizing.depths) + 1 - len(rows):
            who = others_in_words(unlisted, len(sizing.depths))
            lines.append(f"  {who}: depth 2, as given")
        return lines

    def _front_table(self) -> list[str]:
        bits = () if self._question.objective == "bits" else ("bits",)
        rows = [(self._unit, "cycles", *bits, "proved")]
        for point in self._found.points:
            is_proved = point.status is Status.OPTIMAL
            rows.append(
                (
                    str(point.cost), str(point.cycles),
                    *(str(total_cost(self._model, point.depths, objective)) for objective in bits),
                    "yes" if is_proved
                    else "not calibrated" if self._found.uncalibrated
                    else f"at least {point.lower_bound}",
                )
            )  # fmt: skip
        lines = terminal.aligned(rows, texts=(len(rows[0]) - 1,), indent="  ")
        if self._found.is_complete:
            lines.append("  complete: no other depths are cheaper or faster")
        lines += (f"  timing is not calibrated: {access}" for access in self._found.uncalibrated)
        return lines
