"""The answer of `csdf fifo hls` in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from csdf.cli import answers
from csdf.cli.frame import terminal
from csdf.status import Status
from csdf.units import nanoseconds_in_words, percent
from planners.fifo.command.answer import FEWEST, HEADS, others_in_words
from planners.fifo.hls.call import ProcessWait, cost, is_memory
from planners.fifo.hls.call_study import CallStudy, Question, Tried
from planners.fifo.hls.critical import wait_in_words
from planners.fifo.hls.depths import CallSizing
from planners.fifo.hls.reduction import total_cost
from planners.fifo.hls.synthesis_report import SynthesisReport
from planners.fifo.hls.trace import Trace
from planners.fifo.sizing import SizingWhy

SHOWN = 4  # maximum number of processes and names in a line
Fact = tuple[str, str]  # a label and its text
# Assumptions about every run, from simulations.
INFERRED = (
    "stages of reads (1, or 2 under a condition in a nest), of writes (the last), 2 stages between "
    "loops, shift registers up to 1024 bits: inferred from RTL simulations of Vitis HLS 2023.2",
    "the top function is called once; pipelines stall as a whole (stp); ports never stall, memory "
    "behind AXI included",
)


class CallAnswer:
    """The answer in words and as JSON."""

    def __init__(
        self,
        call_study: CallStudy,
        question: Question,
        report: SynthesisReport | None,
        trace: Trace | None,
        file: str,
    ) -> None:
        self.study, self.question, self._trace, self._file = call_study, question, trace, file
        self.model = call_study.model
        self.unit = HEADS.get(question.objective, question.objective)
        self._clock = None if report is None else report.clock_ns
        self._inferred = () if trace is None else INFERRED

    def assumptions(self) -> list[str]:
        """Assumptions of the answer besides source and report."""
        call_study = self.study
        sentences = []
        if call_study.largest_skew:
            largest = call_study.largest_skew
            assumed = largest if call_study.skew is None else min(call_study.skew, largest)
            lanes = "all lanes of an array of streams are read in the same stage (skew 0)"
            if assumed:
                when = f"up to {assumed} stages later than in the model (skew)"
                lanes = f"lanes of an array of streams are read {when}"
            sentences.append(f"{lanes}; the report does not say it")
        sentences += self.model.design.assumptions
        if self._trace is not None:
            sentences += self._trace.remarks
            sentences.append(
                "loop counts and branches come from this run; if they depend on data, add test "
                "benches with --runs"
            )
        return list(dict.fromkeys(sentences))

    def _names(self, groups: Sequence[int]) -> list[str]:
        return [self.model.names[group] for group in groups]

    def step(self, step: ProcessWait, run: Tried, *, is_skewed: bool = False) -> str:
        """Say which process of a deadlock or of a longest path waits for which FIFO."""
        file = Path(self._file).name
        return wait_in_words(self.model, run.depths, step, file, is_skewed=is_skewed)

    def _tried_json(self, run: Tried) -> dict[str, Any]:
        return {
            "cycles": run.outcome.cycles,
            "cycles_with_skew": run.assumed.cycles,
            "deadlocks_from_skew": run.deadlocks_from,
            "bits": total_cost(self.model, run.depths, "bits"),
            "bram_18k": total_cost(self.model, run.depths, "bram"),
            "deadlock": self._deadlock_json(run),
        }

    def _deadlock_json(self, run: Tried) -> dict[str, Any] | None:
        """The deadlock without skew, or else the one with the skew that is assumed."""
        outcome = run.outcome if run.outcome.cycles is None else run.assumed
        if outcome.cycles is not None:
            return None
        cycle = []
        for step in outcome.blocked:
            process = self.model.design.processes[step.process]
            fifo = None if step.fifo is None else self.model.design.fifos[step.fifo]
            access = "write" if step.is_writing else "read"
            cycle.append(
                {
                    "process": process.name,
                    "line": process.line,
                    "waits_to": "begin" if fifo is None else access,
                    "fifo": None if fifo is None else fifo.name,
                    "fifo_line": None if fifo is None else fifo.line,
                    "says": self.step(step, run, is_skewed=outcome is run.assumed),
                }
            )
        return {"skew": run.deadlocks_from or 0, "cycle": cycle}

    def _limit_json(self) -> dict[str, Any] | None:
        limit, outcome = self.study.limit, self.study.as_given.outcome
        if limit is None:
            return None
        path = [(self.model.design.processes[number], cycles) for number, cycles in limit.shares]
        slowest, _ = path[0]
        return {
            "process": slowest.name,
            "line": slowest.line,
            "loops": list(slowest.loops),
            "fifos": self._names(outcome.holding),
            "memories": self._names(outcome.slowed),
            "path": [
                {"process": process.name, "line": process.line, "cycles": cycles}
                for process, cycles in path
            ],
            "cycle": [self.step(step, self.study.as_given) for step in limit.repeated],
            "cycle_takes": limit.repeats_after,
            "is_whole": limit.is_whole,
        }

    def _cost_json(self, depths: Sequence[int]) -> dict[str, int]:
        return {
            "bits": total_cost(self.model, depths, "bits"),
            "bram_18k": total_cost(self.model, depths, "bram"),
            "luts": total_cost(self.model, depths, "lut"),
        }

    def _sizing_json(self, sizing: CallSizing) -> dict[str, Any]:
        return {
            "goal": sizing.goal,
            "status": sizing.status.value,
            "reason": str(sizing.reason),
            "cycles": sizing.cycles,
            "depths": dict(zip(self.model.names, sizing.depths, strict=False)),
            "cost": self._cost_json(sizing.depths) if sizing.depths else None,
            "size": sizing.cost if sizing.depths else None,
            "bound": sizing.lower_bound,
        }

    def as_json(self) -> dict[str, Any]:
        """Return the whole answer."""
        call_study, model = self.study, self.model
        chosen = call_study.sizing or (call_study.points[-1] if call_study.points else None)
        depths = chosen.depths if chosen is not None and chosen.depths else ()
        rows = []
        for index, name in enumerate(model.names):
            fifos = model.fifos[index]
            rows.append(
                {
                    "name": name,
                    "line": fifos[0].line,
                    "lanes": len(fifos),
                    "width": max(fifo.bits for fifo in fifos),
                    "words": model.words[index],
                    "given": model.source_depths[index],
                    "depth": depths[index] if depths else None,
                    "producer": model.design.processes[fifos[0].writer].name,
                    "consumer": model.design.processes[fifos[0].reader].name,
                    "is_ever_full": index not in call_study.idle,
                    "is_needed": index not in call_study.unneeded,
                }
            )
        is_dead = call_study.as_given.outcome.cycles is None
        deadlock = self._deadlock_json(call_study.as_given) if is_dead else None
        sizing, plain = call_study.sizing, call_study.sizing_without_skew
        return {
            "design": model.design.name,
            "file": self._file,
            "clock_ns": None if self._clock is None else str(self._clock),
            "cycles": call_study.as_given.outcome.cycles,
            "deadlock": deadlock,
            "limited_by": self._limit_json(),
            "fewest_cycles": call_study.unbounded.cycles,
            "given": self._tried_json(call_study.as_given),
            "depth_2": self._tried_json(call_study.at_depth_2),
            "objective": self.question.objective,
            "skew": {"assumed": call_study.skew, "largest": call_study.largest_skew},
            "depths": dict(zip(model.names, depths, strict=False)),
            "cost": self._cost_json(depths) if depths else None,
            "bound": None if chosen is None else chosen.lower_bound,
            "status": Status.UNKNOWN.value if chosen is None else chosen.status.value,
            "sizing": None if sizing is None else self._sizing_json(sizing),
            "without_skew": None if plain is None else self._sizing_json(plain),
            "points": [self._sizing_json(point) for point in call_study.points],
            "is_complete": call_study.is_complete,
            "uncalibrated": list(call_study.uncalibrated),
            "fifos": rows,
            "processes": [
                {
                    "name": process.name, "line": process.line, "module": process.module,
                    "loops": list(process.loops),
                }
                for process in model.design.processes
            ],
            "assumptions": [*self.assumptions(), *self._inferred],
        }  # fmt: skip

    def verdict(self) -> str:
        """Return the answer in a sentence."""
        call_study = self.study
        verdict = f"as given {self.compared(call_study.as_given)}"
        if call_study.sizing is not None:
            stuck = "; as given it deadlocks" if call_study.as_given.outcome.cycles is None else ""
            kind = "FIFOs of " if call_study.sizing.depths else ""
            verdict = f"{kind}{self.in_words(call_study.sizing)}{stuck}"
        if self.question.has_front and call_study.points:
            ends = [call_study.points[index] for index in (0, -1)]
            shown = dict.fromkeys(f"{end.cost} {self.unit} at {end.cycles} cycles" for end in ends)
            points = answers.counted(len(call_study.points), "Pareto point")
            verdict = f"{points}; {' to '.join(shown)}"
        elif self.question.has_front and not call_study.is_complete:
            verdict = f"no Pareto point found in time; {verdict}"
        if call_study.is_cut_short:
            verdict = f"{answers.CUT_SHORT}: {verdict}"
        return verdict

    def waits(self, run: Tried) -> Iterator[str]:
        """Yield who waits for whom in a deadlock without skew, or else with the assumed skew."""
        is_nominal = run.outcome.cycles is None
        for step in (run.outcome if is_nominal else run.assumed).blocked:
            yield self.step(step, run, is_skewed=not is_nominal)

    def counted_processes(self) -> str:
        """Return the numbers of processes, FIFOs and arrays of them."""
        model, fifos = self.model, len(self.model.design.fifos)
        arrays = "" if len(model.members) == fifos else f" in {len(model.members)} arrays"
        return f"{len(model.design.processes)} processes, {answers.counted(fifos, 'FIFO')}{arrays}"

    def lines(self) -> Iterator[str]:
        """Yield the answer as text."""
        yield f"{self.model.design.name}: {self.verdict()}"
        facts = [
            *self._compared_depths(),
            *self._limits(),
            *self._deadlocks(),
            ("fewest", self._fewest_cycles()),
            *self._spare_depths(),
        ]
        width = max(len(name) for name, _ in facts)
        yield from (f"  {name:<{width}} {text}" for name, text in facts)
        design = f"{self.counted_processes()}, {self.model.events} stages with accesses"
        yield answers.Detail(f"  {'design':<{width}} {design}")
        if self.study.sizing is not None and self.study.sizing.depths:
            yield ""
            yield from self._table(self.study.sizing)
        if self.study.points:
            yield ""
            yield from self._front_table()
        yield ""
        yield "assumed:"
        yield from (f"  {assumption}" for assumption in self.assumptions())
        yield from (answers.Detail(f"  {assumption}") for assumption in self._inferred)

    def _compared_depths(self) -> Iterator[Fact]:
        """Yield the cycles at the depths of the source, and at depth 2."""
        as_given, at_depth_2 = self.study.as_given, self.study.at_depth_2
        yield "as given", self.compared(as_given)
        is_faster = 0 < (at_depth_2.outcome.cycles or 0) < (as_given.outcome.cycles or 0)
        why = " (a shift register is read one cycle earlier than a memory)" if is_faster else ""
        yield "depth 2", self.compared(at_depth_2, why)

    def _limits(self) -> Iterator[Fact]:
        """Yield the processes and the full FIFOs on the longest path at the depths of the source."""
        if (limit := self.study.limit) is None:
            return
        outcome, processes = self.study.as_given.outcome, self.model.design.processes
        cycles = outcome.cycles or 0
        shares = [
            f"{processes[process].name} (line {processes[process].line}) "
            f"{percent(Fraction(share, max(1, cycles)))}"
            for process, share in limit.shares
            # Shares below 2% are left out.
            if share * 50 > cycles
        ]
        yield "limited by", answers.listed_up_to(shares, SHOWN)
        if outcome.holding:
            yield (
                "",
                f"lack of space in {answers.listed_up_to(self._names(outcome.holding), SHOWN)}",
            )

    def _deadlocks(self) -> Iterator[Fact]:
        """Yield the cycle of waits of each deadlock, at the depths of the source and at depth 2."""
        deadlocks = [("deadlock", self.study.as_given)]
        if self.study.as_given.outcome.cycles is not None:
            deadlocks.append(("at depth 2", self.study.at_depth_2))
        for name, run in deadlocks:
            for number, step in enumerate(self.waits(run)):
                yield "" if number else name, step

    def _fewest_cycles(self) -> str:
        """Return the lower bound on the cycles over all depths."""
        fewest = self.study.unbounded.cycles
        if fewest is None:
            return "none: it deadlocks in any depths"
        timing = " by timing that is not calibrated" if self.study.uncalibrated else ""
        return f"{self.cycles(fewest)}: no depths are faster{timing}"

    def _spare_depths(self) -> Iterator[Fact]:
        """Yield the FIFOs that are never full or need depth 2 only, and the depths at skew 0."""
        study = self.study
        if study.as_given.outcome.cycles is not None and study.idle:
            yield "never full", answers.listed_up_to(self._names(study.idle), SHOWN)
        if study.unneeded:
            names = answers.listed_up_to(self._names(study.unneeded), SHOWN)
            yield "too deep", f"depth 2 is enough, one at a time: {names}"
        if study.sizing_without_skew is not None and study.sizing_without_skew.depths:
            yield "skew 0", self.in_words(study.sizing_without_skew)

    def cycles(self, cycles: int) -> str:
        """Return cycles in words, with their time at the clock of the report."""
        text = answers.counted(cycles, "cycle")
        if self._clock is None:
            return text
        return f"{text} ({nanoseconds_in_words(cycles * self._clock)})"

    def compared(self, run: Tried, why: str = "") -> str:
        """Return size and cycles of depths to compare with."""
        bits = total_cost(self.model, run.depths, "bits")
        blocks = total_cost(self.model, run.depths, "bram")
        size = f"{bits} bits, {blocks} BRAM_18K: "
        if run.outcome.cycles is None:
            return f"{size}DEADLOCK"
        text = size + self.cycles(run.outcome.cycles) + why
        if run.deadlocks_from is not None:
            return f"{text}; DEADLOCK from skew {run.deadlocks_from} on"
        if run.assumed.cycles != run.outcome.cycles:
            text += f"; {run.assumed.cycles} with the skew assumed"
        return text

    def in_words(self, sizing: CallSizing) -> str:
        """Return size, goal and proof of depths that were searched for, or why there are none."""
        goal = "freedom from deadlock" if sizing.goal is None else self.cycles(sizing.goal)
        if not self.model.members and sizing.cycles is not None:
            return f"no FIFOs; {self.cycles(sizing.cycles)}"
        if not sizing.depths:
            if sizing.status is Status.INFEASIBLE:
                minimum = self.study.unbounded.cycles
                why = "it deadlocks in any depths"
                if minimum is not None and sizing.goal is not None:
                    why = f"no depths are faster than {self.cycles(max(minimum, sizing.goal + 1))}"
                    # Without skew some depths reach the goal; with the assumed skew none do.
                    if sizing.goal >= minimum and self.study.skew != 0 and self.study.largest_skew:
                        why += " with the skew assumed"
                return f"no depths for {goal}: {why}"
            return f"no depths found for {goal}: {sizing.reason}"
        objective = self.question.objective
        if sizing.status is Status.OPTIMAL:
            proof = f"proved the {FEWEST.get(objective, 'fewest bits')}"
        elif sizing.reason.has(SizingWhy.UNCALIBRATED):
            proof = str(sizing.reason)
        else:
            above = answers.gap_above(sizing.cost, sizing.lower_bound)
            proof = f"{above} ({sizing.reason})"
        if objective == "bits":
            more = f", {total_cost(self.model, sizing.depths, 'bram')} BRAM_18K"
        else:
            more = f" ({total_cost(self.model, sizing.depths, 'bits')} bits)"
        reached = "" if sizing.cycles == sizing.goal else f", {sizing.cycles} reached"
        if sizing.goal is None:
            reached = f", {sizing.cycles} cycles"
        return f"{sizing.cost} {self.unit}{more} for {goal}{reached}: {proof}"

    def _table(self, sizing: CallSizing) -> list[str]:
        rows = [("FIFO", "lanes", "given", "depth", "width", "BRAM_18K", "memory")]
        for index, name in enumerate(self.model.names):
            fifos = self.model.fifos[index]
            depth = sizing.depths[index]
            if depth == self.model.source_depths[index] == 2:
                continue
            kinds = dict.fromkeys(
                fifo.kind or ("memory" if is_memory(depth, fifo.bits, "") else "shift register")
                for fifo in fifos
            )
            blocks = sum(cost(depth, fifo.bits, fifo.kind, "bram") for fifo in fifos)
            rows.append(
                (
                    name, str(len(fifos)), str(self.model.source_depths[index]), str(depth),
                    f"{max(fifo.bits for fifo in fifos)} bits", str(blocks), ", ".join(kinds),
                )
            )  # fmt: skip
        lines = terminal.aligned(rows, texts=(0, 6), indent="  ") if len(rows) > 1 else []
        if unlisted := len(sizing.depths) + 1 - len(rows):
            who = others_in_words(unlisted, len(sizing.depths))
            lines.append(f"  {who}: depth 2, as given")
        return lines

    def _front_table(self) -> list[str]:
        bits = () if self.question.objective == "bits" else ("bits",)
        rows = [(self.unit, "cycles", *bits, "proved")]
        for point in self.study.points:
            is_proved = point.status is Status.OPTIMAL
            rows.append(
                (
                    str(point.cost), str(point.cycles),
                    *(str(total_cost(self.model, point.depths, objective)) for objective in bits),
                    "yes" if is_proved
                    else "not calibrated" if self.study.uncalibrated
                    else f"at least {point.lower_bound}",
                )
            )  # fmt: skip
        lines = terminal.aligned(rows, texts=(len(rows[0]) - 1,), indent="  ")
        if self.study.is_complete:
            lines.append("  complete: no other depths are cheaper or faster")
        lines += (f"  timing is not calibrated: {access}" for access in self.study.uncalibrated)
        return lines
