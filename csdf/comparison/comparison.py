"""Comparison of our answers with those of another tool: whether they agree, and why not.

`ours` are our answers, `theirs` those of the tool. A difference is explained by an experiment. Either
the tool is asked again about a graph without the suspected cause, and both answers agree. Or, for
fronts, the tool's own throughput analysis computes our throughput for a storage distribution of one of
the fronts. A difference that no experiment explains is open.

Tools print about six digits; numbers agree if they are equal to within 1/100,000 (`DIGITS`). A tool may
count several iterations as one: its `factor` of a graph is this number of iterations.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from csdf.analysis.bound_channels import unlimited_actors, with_capacities, without_auto_concurrency
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import throughput
from csdf.comparison.tools import (
    FRONT,
    MCM,
    QUESTIONS,
    REPETITIONS,
    THROUGHPUT,
    UNREAD,
    Clock,
    Inconsistent,
    NoAnswer,
    Program,
    ReportedPoint,
    Speed,
)
from csdf.errors import CsdfError, GaveUp, InconsistentGraph, InvalidGraph, counted
from csdf.io.graph_files import write_graph
from csdf.model.graph import Graph
from csdf.model.shown import Shown
from csdf.search.pareto import ParetoFront
from csdf.search.trade_off import pareto_front
from csdf.time_limit import Stop

DIGITS = Fraction(1, 100_000)  # relative difference at which numbers of six digits agree
AGREES, DIFFERS, NO_ANSWER, NOT_ASKED = "agrees", "differs", "no answer", "not asked"
VERDICTS = (AGREES, DIFFERS, NO_ANSWER, NOT_ASKED)
TRIED = 4  # points of a front whose throughput the tool computes in an experiment
SHOWN = 3  # points of a front, or actors of a vector, in a verdict
SHORT = 5.0  # maximum seconds of an experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict(Shown):
    """The answers of a tool and ours to a question. reason: of a difference, or a note.

    A difference without a reason is open. seconds: of the tool, its start included; own_seconds: ours.
    """

    graph: str
    tool: str
    question: str
    verdict: str
    ours: str = ""
    theirs: str = ""
    reason: str = ""
    seconds: float = 0.0
    own_seconds: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether it is a difference without a known reason."""
        return self.verdict == DIFFERS and not self.reason


class Ours:
    """Our own answers about a graph, each computed when it is first asked for."""

    def __init__(self, graph: Graph, stop: Stop, seconds: float) -> None:
        self.graph = graph
        self._stop, self._seconds = stop, seconds
        self.seconds: dict[str, float] = {}  # by questions
        begin = time.perf_counter()
        try:
            self.repetitions: dict[str, int] | None = repetition_vector(graph)
        except InconsistentGraph:
            self.repetitions = None
        self.seconds[REPETITIONS] = time.perf_counter() - begin

    @cached_property
    def speed(self) -> Fraction | None:
        """The throughput: 0 for a deadlock, None for no limit. Raises GaveUp."""
        begin = time.perf_counter()
        speed = throughput(self.graph, budget=self._limited()).throughput
        self.seconds[THROUGHPUT] = self.seconds[MCM] = time.perf_counter() - begin
        return speed

    @cached_property
    def front(self) -> ParetoFront:
        """The Pareto front; incomplete if the time limit ended its search."""
        begin = time.perf_counter()
        front = pareto_front(self.graph, budget=self._limited())
        self.seconds[FRONT] = time.perf_counter() - begin
        return front

    def _limited(self) -> Stop:
        self._stop.look()
        return Stop(self._seconds)


def compare(
    graph: Graph,
    path: str | None,
    programs: Sequence[Program],
    *,
    questions: Sequence[str] = QUESTIONS,
    seconds: float = 20.0,
    stop: Stop | None = None,
) -> Iterator[Verdict]:
    """Yield the answers of each program to each question, compared with ours.

    path: the file that the programs read; None where the graph has to be written for them, with
    capacities as channels of free space. seconds: for each answer, theirs and ours.
    """
    ours = Ours(graph, stop or Stop(), seconds)
    with tempfile.TemporaryDirectory() as folder:
        for program in programs:
            for question in questions:
                if question == MCM and program.mcm is None:
                    continue
                comparison = _Comparison(program, question, ours, folder, seconds)
                yield comparison.verdict(path)


class _Comparison:
    """The comparison of one program in one question about one graph."""

    def __init__(
        self, program: Program, question: str, ours: Ours, folder: str, seconds: float
    ) -> None:
        self.program, self.question, self.ours = program, question, ours
        self.graph = ours.graph
        self._folder, self._seconds = folder, seconds
        self._clock = Clock()
        self._kind = ours.graph.kind

    def verdict(self, path: str | None) -> Verdict:
        """Return the verdict, with the reason of a difference where it can be found.

        The graph is written anew where there is no file, or the tool does not read the file.
        """
        if path is not None:
            self._kind = _kind_of(self.graph)
            verdict = self._verdict(path, is_plain=False)
            if verdict.verdict != NO_ANSWER or UNREAD not in verdict.reason:
                return verdict
            self._kind = self.graph.kind
            verdict = self._verdict(self._written(), is_plain=True)
            remark = "it does not read the file, only the graph written anew"
            return replace(
                verdict, reason=f"{verdict.reason}; {remark}" if verdict.reason else remark
            )
        return self._verdict(self._written(), is_plain=True)

    def _written(self) -> str:
        """The file of the graph as it is written anew, once for all programs and questions."""
        path = os.path.join(self._folder, "graph.xml")
        if not os.path.exists(path):
            write_graph(path, replace(self.graph, origin=None), capacities="reverse")
        return path

    def _verdict(self, path: str, *, is_plain: bool) -> Verdict:
        """Return the verdict on a file. is_plain: whether the graph was written anew for the tools."""
        refusal = self._refusal()
        if refusal is not None:
            return self._with_verdict(NOT_ASKED, reason=refusal)
        try:
            answer = {
                REPETITIONS: self._repetitions, THROUGHPUT: self._throughput,
                MCM: self._mcm, FRONT: self._front,
            }[self.question]  # fmt: skip
            answered = answer(path)
        except GaveUp as end:
            return self._with_verdict(NOT_ASKED, reason=f"no answer of ours: {end.reason}")
        except Inconsistent as error:
            agrees = self.ours.repetitions is None
            ours = "inconsistent" if agrees else self._own_words()
            answered = self._with_verdict(
                AGREES if agrees else DIFFERS, ours, "inconsistent", str(error) * agrees
            )
        except NoAnswer as error:
            answered = self._with_verdict(NO_ANSWER, reason=str(error))
        if answered.verdict == DIFFERS and not answered.reason:
            answered = replace(answered, reason=self._reason(answered, is_plain=is_plain))
        own_seconds = self.ours.seconds.get(self.question, 0.0)
        spent = self._clock.seconds or 0.0
        return replace(answered, seconds=round(spent, 6), own_seconds=round(own_seconds, 6))

    def _refusal(self) -> str | None:
        """Return why the question is not asked; None if it is."""
        repetitions = self.ours.repetitions
        if repetitions is None:
            return None if self.question == REPETITIONS else "the graph is inconsistent"
        refusal = self.program.asks(self.question, self.graph, repetitions)
        if refusal is None and self.question == FRONT:
            if any(channel.capacity is not None for channel in self.graph.channels):
                return "its channels have capacities"
        return refusal

    def _with_verdict(
        self, verdict: str, ours: str = "", theirs: str = "", reason: str = ""
    ) -> Verdict:
        return Verdict(
            graph=self.graph.name, tool=self.program.name, question=self.question, verdict=verdict,
            ours=ours, theirs=theirs, reason=reason,
        )  # fmt: skip

    def _own_words(self) -> str:
        repetitions = self.ours.repetitions
        return "" if repetitions is None else f"consistent, {sum(repetitions.values())} firings"

    def _ask(
        self, question: str, path: str, kind: str | None = None, seconds: float | None = None
    ) -> str:
        limit = self._seconds if seconds is None else seconds
        return self._clock.timed(self.program, question, kind or self._kind, path, limit)

    def _factor(self, graph: Graph) -> Fraction:
        return self.program.factor(graph, repetition_vector(graph))

    def _repetitions(self, path: str) -> Verdict:
        repetitions = self.ours.repetitions
        factor = Fraction(1) if repetitions is None else self._factor(self.graph)
        theirs = self.program.repetitions(self._ask(REPETITIONS, path), self.graph, factor)
        if repetitions is None:
            return self._with_verdict(DIFFERS, "inconsistent", _vector(theirs))
        if theirs == repetitions:
            note = f"its vector is {factor} times the least one" if factor != 1 else ""
            return self._with_verdict(AGREES, self._own_words(), reason=note)
        wrong = {name: count for name, count in repetitions.items() if theirs.get(name) != count}
        shown = {name: theirs.get(name, 0) for name in wrong}
        return self._with_verdict(DIFFERS, _vector(wrong), _vector(shown))

    def _throughput(self, path: str) -> Verdict:
        ours = self.ours.speed
        factor = self._factor(self.graph)
        theirs = self.program.throughput(self._ask(THROUGHPUT, path), factor)
        is_equal = _equal_speeds(ours, theirs.value)
        note = ""
        if is_equal and factor != 1 and ours:
            note = f"it prints {theirs.printed}, {factor} times less"
        return self._with_verdict(
            AGREES if is_equal else DIFFERS, _speed(ours), _speed(theirs.value, theirs), note
        )

    def _mcm(self, path: str) -> Verdict:
        speed = self.ours.speed
        if not speed:
            state = "deadlocks" if speed == 0 else "has no limit"
            return self._with_verdict(NOT_ASKED, reason=f"the graph {state}")
        if self.program.mcm is None:
            raise AssertionError("a program without maximum cycle mean is not asked")
        theirs = self.program.mcm(self._ask(MCM, path))
        is_equal = _equal(1 / speed, theirs)
        return self._with_verdict(AGREES if is_equal else DIFFERS, str(1 / speed), _decimal(theirs))

    def _front(self, path: str) -> Verdict:
        if self.ours.speed is None:
            return self._with_verdict(
                NOT_ASKED, reason="nothing limits the graph, so its front has no end"
            )
        if self.ours.speed == 0:
            return self._with_verdict(
                NOT_ASKED, reason="the graph deadlocks, whatever its capacities are"
            )
        front = self.ours.front
        if not front.is_complete and not front.points:
            return self._with_verdict(
                NOT_ASKED, reason=f"our front has no point yet: {front.reason}"
            )
        ours = [
            ReportedPoint(point.size, point.throughput or Fraction(0), point.capacities)
            for point in front.points
        ]
        theirs = self.program.front(self._ask(FRONT, path), self.graph, self._factor(self.graph))
        theirs = [their_point for their_point in theirs if their_point.speed > 0]
        note = ""
        if not front.is_complete:
            theirs = [their_point for their_point in theirs if their_point.size < front.lower_bound]
            note = f"as far as size {front.lower_bound - 1}, where our front ends"
        missed, better = _gaps(ours, theirs), _gaps(theirs, ours)
        points = counted(len(ours), "point")
        if not missed and not better:
            extra = len(theirs) - len(_dominant(theirs))
            if extra:
                more = f"it lists {counted(extra, 'point')} more that are dominated, to six digits"
                note = f"{note}; {more}" if note else more
            return self._with_verdict(AGREES, points, reason=note)
        shown_ours = [
            point for point in ours if point in missed or point.size in {b.size for b in better}
        ]
        return self._with_verdict(
            DIFFERS,
            _points(missed or shown_ours),
            _points(better or _as_fast(theirs, missed)),
            self._front_reason(missed, better),
        )

    def _front_reason(
        self, missed: Sequence[ReportedPoint], better: Sequence[ReportedPoint]
    ) -> str:
        """Return why fronts differ, by the tool's own throughput of single distributions; or "".

        missed: our points that the tool lacks; better: its points that our front excludes.
        """
        if better:
            for point in better[:TRIED]:
                own_speed = self._own_speed_of(point)
                if own_speed is None or _equal_speeds(own_speed, point.speed):
                    return ""
                their_speed = self._their_speed_at(point.capacities or {})
                if their_speed is not None and _equal_speeds(their_speed.value, own_speed):
                    return (
                        f"its own throughput analysis gives {_speed(own_speed)} for its distribution "
                        f"of size {point.size}, as ours"
                    )
            return ""
        confirmed = []
        for point in missed[:TRIED]:
            their_speed = self._their_speed_at(point.capacities or {})
            if their_speed is None or not _equal_speeds(their_speed.value, point.speed):
                return ""
            confirmed.append(str(point.size))
        sizes = " and ".join(confirmed[:2])
        return (
            f"it misses {counted(len(missed), 'point')}: its own throughput analysis confirms our "
            f"distributions, such as of size {sizes}"
        )

    def _own_speed_of(self, point: ReportedPoint) -> Fraction | None:
        if point.capacities is None:
            return None
        names = {channel.name for channel in self.graph.channels if not channel.is_self_loop}
        capacities = {name: size for name, size in point.capacities.items() if name in names}
        try:
            return throughput(with_capacities(self.graph, capacities), budget=SHORT).throughput
        except (GaveUp, InvalidGraph):
            return None

    def _their_speed_at(self, capacities: Mapping[str, int]) -> Speed | None:
        """Return the throughput that the tool's own analysis computes for these capacities."""
        names = {channel.name for channel in self.graph.channels if not channel.is_self_loop}
        within = {name: size for name, size in capacities.items() if name in names}
        return self._their_speed(with_capacities(self.graph, within))

    def _their_speed(self, graph: Graph) -> Speed | None:
        path = os.path.join(self._folder, "experiment.xml")
        try:
            write_graph(path, replace(graph, origin=None), capacities="reverse")
            answer = self._ask(THROUGHPUT, path, graph.kind, min(SHORT, self._seconds))
            return self.program.throughput(answer, self._factor(graph))
        except (NoAnswer, Inconsistent):
            return None

    def _reason(self, verdict: Verdict, *, is_plain: bool) -> str:
        """Return why answers differ, by the size of numbers or an experiment; "" if unknown."""
        largest = self._largest()
        if largest > self.program.limit:
            bits = self.program.limit.bit_length() + 1
            return f"its numbers have {bits} bits, and this graph needs {_shortened(largest)}"
        if self.question == REPETITIONS:
            return ""
        if verdict.theirs.endswith("(inf)") and self.question == THROUGHPUT:
            if self.ours.speed == 0:
                return "it prints inf for a deadlock"
            without = _without_self_loops(self.graph)
            with suppress(CsdfError):
                if throughput(without, budget=SHORT).throughput is None:
                    return "it prints inf where only self-loops limit the graph"
        for words, changed in self._experiments(is_plain=is_plain):
            with suppress(CsdfError):
                if self._agree_on(changed):
                    return words
        return ""

    def _largest(self) -> int:
        """Return the largest number of firings or tokens that an analysis has to store."""
        repetitions = self.ours.repetitions or {}
        factor = self.program.factor(self.graph, repetitions) if repetitions else Fraction(1)
        numbers = [int(count * factor) for count in repetitions.values()]
        for channel in self.graph.channels:
            firings = repetitions.get(channel.producer, 1) // len(channel.production)
            numbers.append(int(firings * sum(channel.production) * factor))
            numbers.append(channel.initial_tokens)
        return max(numbers, default=0)

    def _experiments(self, *, is_plain: bool) -> Iterator[tuple[str, Graph]]:
        """Yield graphs without a suspected cause, each with the reason if both agree on the graph."""
        graph = self.graph
        if not is_plain:
            yield "it reads the file otherwise: about the graph written anew both agree", graph
        if graph.time_unit != 1:
            finer = replace(graph, time_unit=Fraction(1), origin=None)
            yield "it cuts times to integers: in a finer unit both agree", finer
        if unlimited_actors(graph):
            yield (
                "firings of one actor that overlap: one at a time both agree",
                without_auto_concurrency(graph),
            )
        if any(0 in actor.durations for actor in graph.actors):
            timed = tuple(
                replace(
                    actor, durations=tuple(max(1, time) for time in actor.durations), processors=()
                )
                for actor in graph.actors
            )
            yield (
                "firings that take no time: with one time unit each both agree",
                replace(graph, actors=timed, origin=None),
            )

    def _agree_on(self, graph: Graph) -> bool:
        """Whether both agree about another graph in the same question."""
        ours = Ours(graph, Stop(), min(SHORT, self._seconds))
        path = os.path.join(self._folder, "changed.xml")
        write_graph(path, replace(graph, origin=None), capacities="reverse")
        seconds = min(SHORT, self._seconds)
        trial = _Comparison(self.program, self.question, ours, self._folder, seconds)
        trial._clock = self._clock
        question: dict[str, Callable[[str], Verdict]] = {
            THROUGHPUT: trial._throughput, MCM: trial._mcm, FRONT: trial._front,
        }  # fmt: skip
        return question[self.question](path).verdict == AGREES


def _kind_of(graph: Graph) -> str:
    """Return the type in the file of a graph: a file of type csdf may have one phase per actor."""
    match = re.search(r"""<sdf3\b[^>]*\btype\s*=\s*["'](\w+)""", graph.origin or "")
    return graph.kind if match is None else match[1]


def _without_self_loops(graph: Graph) -> Graph:
    channels = tuple(channel for channel in graph.channels if not channel.is_self_loop)
    return replace(graph, channels=channels, origin=None)


def _equal(ours: Fraction, theirs: Fraction) -> bool:
    return abs(ours - theirs) <= abs(ours) * DIGITS


def _equal_speeds(ours: Fraction | None, theirs: Fraction | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return _equal(ours, theirs)


def _dominant(points: Sequence[ReportedPoint]) -> list[ReportedPoint]:
    """Return the Pareto-optimal points, by size; a point equal to six digits is no improvement."""
    dominant: list[ReportedPoint] = []
    for point in sorted(points, key=lambda point: (point.size, -point.speed)):
        if not dominant or point.speed > dominant[-1].speed * (1 + DIGITS):
            dominant.append(point)
    return dominant


def _gaps(points: Sequence[ReportedPoint], others: Sequence[ReportedPoint]) -> list[ReportedPoint]:
    """Return the points whose throughput the other front reaches only with a larger size."""
    best = sorted(others, key=lambda point: point.size)
    missed, at, fastest = [], 0, Fraction(0)
    for point in sorted(points, key=lambda point: point.size):
        while at < len(best) and best[at].size <= point.size:
            fastest = max(fastest, best[at].speed)
            at += 1
        if point.speed > fastest and not _equal(point.speed, fastest):
            missed.append(point)
    return missed


def _as_fast(
    points: Sequence[ReportedPoint], missed: Sequence[ReportedPoint]
) -> list[ReportedPoint]:
    """Return the smallest points that are as fast as each of the missed points."""
    smallest = {}
    for point in missed[:SHOWN]:
        enough = [p for p in points if p.speed > point.speed or _equal(point.speed, p.speed)]
        if enough:
            counterpart = min(enough, key=lambda p: p.size)
            smallest[counterpart.size, counterpart.speed] = counterpart
    return list(smallest.values())


def _points(points: Sequence[ReportedPoint]) -> str:
    listed = [f"{point.size} at {_decimal(point.speed)}" for point in points[:SHOWN]]
    more = f" and {len(points) - SHOWN} more" if len(points) > SHOWN else ""
    return (", ".join(listed) + more) or "no point"


def _decimal(value: Fraction) -> str:
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return str(value)


def _speed(value: Fraction | None, text: Speed | None = None) -> str:
    printed = f" ({text.printed})" if text is not None and text.is_vague else ""
    if value is None:
        return f"no limit{printed}"
    return "deadlock" if value == 0 else _decimal(value)


def _vector(counts: Mapping[str, Any]) -> str:
    listed = [f"{name} {count}" for name, count in list(counts.items())[:SHOWN]]
    return ", ".join(listed) + (" .." if len(counts) > SHOWN else "")


def _shortened(number: int) -> str:
    return str(number) if number < 10**12 else f"about 10^{len(str(number)) - 1}"
