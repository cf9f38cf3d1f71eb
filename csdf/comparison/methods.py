"""Methods of other packages, judged: schedules by the checker, storage and mappings by exact analysis.

A method is a module that an entry point of the group csdf.methods names. It has at least one of:

    throughput(graph) -> PeriodicSchedule, or a period, or None for a deadlock
    storage(graph) -> capacities by the names of channels, or None for a deadlock
    mapping(graph, platform) -> csdf.Mapping

No answer is taken on trust: a schedule is checked firing by firing, capacities and mappings are
analysed exactly, and a bare period is compared with ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from types import ModuleType
from typing import Any

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.schedule_checker import check_periodic_schedule
from csdf.analysis.throughput import throughput
from csdf.comparison.comparison import AGREES, DIFFERS, NO_ANSWER, NOT_ASKED, Verdict
from csdf.errors import CsdfError, GaveUp, InconsistentGraph, InvalidSchedule, counted
from csdf.mapping import model
from csdf.mapping.search import best_mapping, equal_processors
from csdf.mapping.throughput import mapped_throughput
from csdf.model.exact import exact
from csdf.model.graph import Graph
from csdf.model.schedule import PeriodicSchedule
from csdf.model.shown import Shown
from csdf.search.trade_off import smallest_storage
from csdf.status import Status
from csdf.time_limit import Stop

QUESTIONS = ("throughput", "storage", "mapping")
ABOVE = "valid"  # verdict: right, but not the best there is
PROCESSORS = 2  # equal ones, that a mapping is asked for
MOST_CYCLES = 200  # of each actor that the checker looks at; its work grows with their square


class Refused(CsdfError):
    """An answer of a method that breaks a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Shown):
    """The proved part of an answer of a method. value: a period or a size; words: the proof."""

    question: str
    value: Fraction | None
    words: str
    seconds: float
    period: Fraction | None = None  # of a storage distribution


def offered(method: ModuleType) -> tuple[str, ...]:
    """Return the questions that a method answers. Raises CsdfError where there are none."""
    answered = tuple(
        question for question in QUESTIONS if callable(getattr(method, question, None))
    )
    if not answered:
        raise CsdfError(
            f"{method.__name__} is no method: it has none of the functions {', '.join(QUESTIONS)}"
        )
    return answered


def judged(method: ModuleType, question: str, graph: Graph, stop: Stop) -> Judged:
    """Return what is proved of an answer. Raises Refused, and whatever the method raises."""
    ask: Callable[..., Any] = getattr(method, question)
    platform = equal_processors(PROCESSORS)
    begin = time.perf_counter()
    answer = ask(graph, platform) if question == "mapping" else ask(graph)
    seconds = time.perf_counter() - begin
    judge = {"throughput": _speed, "storage": _storage, "mapping": _mapping}[question]
    value, period, words = judge(graph, answer, stop)
    return Judged(question=question, value=value, period=period, words=words, seconds=seconds)


Proved = tuple[Fraction | None, Fraction | None, str]


def _speed(graph: Graph, answer: Any, _stop: Stop) -> Proved:
    if answer is None:
        return None, None, "says deadlock"
    if not isinstance(answer, PeriodicSchedule):
        return exact(answer, "period", Refused), None, "a bare number, without a schedule"
    _require_rates(graph, answer)
    cycles, is_all = _cycles_to_check(graph, answer)
    try:
        check_periodic_schedule(graph, answer, firings=cycles)
    except InvalidSchedule as error:
        raise Refused(f"its schedule is invalid: {error}") from None
    extent = "for ever" if is_all else f"as far as {counted(cycles, 'cycle')} of each actor"
    return answer.period, None, f"its schedule is valid, {extent}"


def _require_rates(graph: Graph, schedule: PeriodicSchedule) -> None:
    """Every actor recurs as the period says; else tokens would pile up or run out."""
    for name, cycles in cycle_vector(graph).items():
        phases = graph.actor(name).phases
        starts = schedule.starts.get(name)
        if not starts or len(starts) % phases or name not in schedule.recurrence:
            raise Refused(f"its schedule has no whole cycles of {name!r}")
        expected = Fraction(len(starts) // phases) * schedule.period / cycles
        if schedule.recurrence[name] != expected:
            raise Refused(
                f"its schedule repeats {name!r} after {schedule.recurrence[name]}; "
                f"its period asks for {expected}"
            )


def _cycles_to_check(graph: Graph, schedule: PeriodicSchedule) -> tuple[int, bool]:
    """After how many cycles everything between the actors has recurred, and whether that is all."""
    cycles = cycle_vector(graph)
    rounds = lcm(
        *(
            (copies := len(schedule.starts[name]) // graph.actor(name).phases) // gcd(copies, count)
            for name, count in cycles.items()
        )
    )
    maximum = 0
    for channel in graph.channels:
        tokens = max(channel.initial_tokens, (channel.capacity or 0) - channel.initial_tokens)
        first = tokens // sum(channel.consumption) + tokens // sum(channel.production) + 2
        maximum = max(
            maximum, first + rounds * max(cycles[channel.producer], cycles[channel.consumer])
        )
    maximum = max(maximum, rounds * max(cycles.values()))
    return min(maximum, MOST_CYCLES), maximum <= MOST_CYCLES


def _storage(graph: Graph, answer: Any, stop: Stop) -> Proved:
    if answer is None:
        return None, None, "says deadlock"
    if not isinstance(answer, Mapping):
        raise Refused(f"its storage is a {type(answer).__name__}; expected capacities by channel")
    searched = [channel.name for channel in graph.channels if not channel.is_self_loop]
    missing = [name for name in searched if name not in answer]
    if missing:
        raise Refused(f"its storage leaves channel {missing[0]!r} unbounded")
    bounded = with_capacities(graph, {name: answer[name] for name in searched})
    with_storage = throughput(bounded, budget=stop)
    if with_storage.period is None and throughput(graph, budget=stop).period is None:
        return Fraction(sum(answer[name] for name in searched)), None, "the graph deadlocks anyhow"
    if with_storage.period is None:
        raise Refused(f"with its storage the graph deadlocks: {with_storage.deadlock}")
    size = sum(answer[name] for name in searched)
    return Fraction(size), with_storage.period, f"runs with period {with_storage.period}"


def _mapping(graph: Graph, answer: Any, stop: Stop) -> Proved:
    if not isinstance(answer, model.Mapping):
        raise Refused(f"its mapping is a {type(answer).__name__}; expected a csdf.Mapping")
    mapped = mapped_throughput(graph, equal_processors(PROCESSORS), answer, budget=stop)
    if mapped.period is None:
        raise Refused(f"its mapping deadlocks: {mapped.deadlock}")
    return mapped.period, None, f"runs on {counted(PROCESSORS, 'processor')}"


def compare_method(
    name: str, method: ModuleType, graph: Graph, *, seconds: float, stop: Stop
) -> Iterator[Verdict]:
    """Yield what a method says about each of its questions, judged, beside our answer.

    The verdict is that it agrees with ours, that it is valid but not as good, or that it differs: it
    is refused by its judge, or better than what was proved to be the best.
    """
    for question in offered(method):
        stop.look()
        yield _verdict(name, method, question, graph, seconds)


def _verdict(name: str, method: ModuleType, question: str, graph: Graph, seconds: float) -> Verdict:
    spent = own_seconds = 0.0

    def told(verdict: str, ours: str = "", theirs: str = "", reason: str = "") -> Verdict:
        return Verdict(
            graph=graph.name, tool=name, question=question, verdict=verdict, ours=ours,
            theirs=theirs, reason=reason, seconds=round(spent, 6), own_seconds=round(own_seconds, 6),
        )  # fmt: skip

    try:
        judgement = judged(method, question, graph, Stop(seconds))
    except InconsistentGraph:
        return told(NOT_ASKED, reason="the graph is inconsistent")
    except GaveUp as end:
        return told(NO_ANSWER, reason=f"its answer could not be judged: {end.reason}")
    except CsdfError as error:
        return told(DIFFERS, theirs="refused", reason=str(error))
    except Exception as error:  # noqa: BLE001 - the code of others may fail in any way; that is its answer
        return told(NO_ANSWER, reason=f"{type(error).__name__}: {error}")
    spent, begin = judgement.seconds, time.perf_counter()
    try:
        best, is_proved = _best(question, graph, judgement, Stop(seconds))
    except GaveUp as end:
        return told(NOT_ASKED, reason=f"no answer of ours: {end.reason}")
    except CsdfError as error:
        return told(NOT_ASKED, reason=str(error))
    own_seconds = time.perf_counter() - begin
    ours, theirs = _told(best), _told(judgement.value)
    if judgement.value == best:
        return told(AGREES, ours, theirs, judgement.words)
    if best is None or judgement.value is None:
        return told(DIFFERS, ours, theirs, judgement.words)
    if judgement.value > best and "bare number" not in judgement.words:
        share = float((judgement.value - best) / best) if best else 0.0
        return told(ABOVE, ours, theirs, f"{share:.1%} above ours; {judgement.words}")
    if judgement.value < best and not is_proved:
        return told(
            ABOVE, ours, theirs, f"better than ours, which is not proved; {judgement.words}"
        )
    return told(DIFFERS, ours, theirs, judgement.words)


def _best(question: str, graph: Graph, found: Judged, stop: Stop) -> tuple[Fraction | None, bool]:
    """Our answer to the same question, and whether it is proved that nothing is better."""
    if question == "throughput":
        return throughput(graph, budget=stop).period, True
    if question == "storage":
        storage = smallest_storage(graph, period=found.period or None, budget=stop)
        if storage.status is Status.INFEASIBLE and found.value is None:
            return None, True
        if storage.point is None:
            raise GaveUp(str(storage.reason))
        return Fraction(storage.point.size), storage.status is Status.OPTIMAL
    answer = best_mapping(graph, equal_processors(PROCESSORS), budget=stop)
    return answer.period, answer.status is Status.OPTIMAL


def _told(value: Fraction | None) -> str:
    return "deadlock" if value is None else str(value)
