"""Proofs of answers of other packages: schedules are checked, storage and mappings are analysed.

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
from typing import Any, NamedTuple

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.schedule_checker import check_periodic_schedule
from csdf.analysis.throughput import throughput
from csdf.comparison.comparison import AGREES, DIFFERS, NO_ANSWER, NOT_ASKED, Verdict
from csdf.errors import (
    CsdfError,
    GaveUp,
    InconsistentGraph,
    InvalidArgument,
    InvalidGraph,
    InvalidSchedule,
    counted,
)
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
PROCESSORS = 2  # equal processors for a mapping
BARE = "a bare number, without a schedule"
MOST_CYCLES = 200  # of each actor in a check, whose work grows with their square


class Refused(CsdfError):
    """An answer of a method that breaks a rule."""


class Failed(CsdfError):
    """An error in the code of a method, or in its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Shown):
    """The proved part of an answer of a method. value: a period or a size, None: a deadlock.

    words: the proof. period: of a storage distribution, whose value is a size.
    """

    question: str
    value: Fraction | None
    words: str
    seconds: float
    period: Fraction | None = None


class _Proof(NamedTuple):
    """The fields of `Judged` that follow from an answer."""

    value: Fraction | None
    words: str
    period: Fraction | None = None


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
    """Return what is proved of an answer.

    Raises Refused for an answer that breaks a rule, Failed for an exception in the code of the method
    or its answer, InconsistentGraph and GaveUp as the method does, and CsdfError as the analyses do.
    """
    ask: Callable[..., Any] = getattr(method, question)
    platform = equal_processors(PROCESSORS)
    proof_of = {
        "throughput": _proof_of_schedule, "storage": _proof_of_storage, "mapping": _proof_of_mapping,
    }[question]  # fmt: skip
    begin = time.perf_counter()
    try:
        answer = ask(graph, platform) if question == "mapping" else ask(graph)
    except (InconsistentGraph, GaveUp):
        raise
    except Exception as error:  # noqa: BLE001 - code of another package may raise any exception
        raise Failed(f"{type(error).__name__}: {error}") from None
    seconds = time.perf_counter() - begin
    try:
        proof = proof_of(graph, answer, stop)
    except (InvalidArgument, InvalidGraph, model.InvalidMapping) as error:
        raise Refused(str(error)) from None
    except CsdfError:
        raise
    except Exception as error:  # noqa: BLE001 - an answer may be of any type
        raise Failed(f"{type(error).__name__}: {error}") from None
    return Judged(question=question, seconds=seconds, **proof._asdict())


def _proof_of_schedule(graph: Graph, answer: Any, _stop: Stop) -> _Proof:
    """Return the period of a schedule, which is checked, or a bare period as it is."""
    if answer is None:
        return _Proof(None, "says deadlock")
    if not isinstance(answer, PeriodicSchedule):
        return _Proof(exact(answer, "period", Refused), BARE)
    _require_rates(graph, answer)
    cycles, is_all = _cycles_to_check(graph, answer)
    try:
        check_periodic_schedule(graph, answer, firings=cycles)
    except InvalidSchedule as error:
        raise Refused(f"its schedule is invalid: {error}") from None
    extent = "for ever" if is_all else f"for {counted(cycles, 'cycle')} of each actor"
    return _Proof(answer.period, f"its schedule is valid, {extent}")


def _require_rates(graph: Graph, schedule: PeriodicSchedule) -> None:
    """Refuse a schedule whose actors do not recur with its period: tokens would accumulate."""
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
    """Return the cycles of each actor to check, and whether no later cycle can differ from them.

    A schedule of K cycles of an actor recurs after K / gcd(K, cycles in an iteration) iterations. Later
    cycles are the same as earlier ones after all actors recur, and the initial tokens and spaces are
    used up.
    """
    cycles = cycle_vector(graph)
    scheduled = {name: len(schedule.starts[name]) // graph.actor(name).phases for name in cycles}
    iterations = lcm(*(k // gcd(k, cycles[name]) for name, k in scheduled.items()))
    needed = iterations * max(cycles.values())
    for channel in graph.channels:
        tokens = max(channel.initial_tokens, (channel.capacity or 0) - channel.initial_tokens)
        transient = tokens // sum(channel.consumption) + tokens // sum(channel.production) + 2
        recurring = iterations * max(cycles[channel.producer], cycles[channel.consumer])
        needed = max(needed, transient + recurring)
    return min(needed, MOST_CYCLES), needed <= MOST_CYCLES


def _proof_of_storage(graph: Graph, answer: Any, stop: Stop) -> _Proof:
    """Return the size of capacities, and the period of the graph with them."""
    if answer is None:
        return _Proof(None, "says deadlock")
    if not isinstance(answer, Mapping):
        raise Refused(f"its storage is a {type(answer).__name__}; expected capacities by channel")
    searched = [channel.name for channel in graph.channels if not channel.is_self_loop]
    missing = [name for name in searched if name not in answer]
    if missing:
        raise Refused(f"its storage leaves channel {missing[0]!r} unbounded")
    bounded = with_capacities(graph, {name: answer[name] for name in searched})
    size = Fraction(sum(answer[name] for name in searched))
    with_storage = throughput(bounded, budget=stop)
    if with_storage.period is not None:
        return _Proof(size, f"runs with period {with_storage.period}", with_storage.period)
    if throughput(graph, budget=stop).period is None:
        return _Proof(size, "the graph deadlocks anyhow")
    raise Refused(f"with its storage the graph deadlocks: {with_storage.deadlock}")


def _proof_of_mapping(graph: Graph, answer: Any, stop: Stop) -> _Proof:
    """Return the period of the graph on equal processors."""
    if not isinstance(answer, model.Mapping):
        raise Refused(f"its mapping is a {type(answer).__name__}; expected a csdf.Mapping")
    mapped = mapped_throughput(graph, equal_processors(PROCESSORS), answer, budget=stop)
    if mapped.period is None:
        raise Refused(f"its mapping deadlocks: {mapped.deadlock}")
    return _Proof(mapped.period, f"runs on {counted(PROCESSORS, 'processor')}")


def compare_method(
    name: str, method: ModuleType, graph: Graph, *, seconds: float, stop: Stop
) -> Iterator[Verdict]:
    """Yield the answers of a method to each of its questions, judged and compared with ours.

    An answer agrees with ours, is valid but not as good, or differs: it breaks a rule, or is better
    than an answer that is proved to be the best.
    """
    for question in offered(method):
        stop.look()
        yield _verdict(name, method, question, graph, seconds)


def _verdict(name: str, method: ModuleType, question: str, graph: Graph, seconds: float) -> Verdict:
    spent = own_seconds = 0.0

    def verdict_of(verdict: str, ours: str = "", theirs: str = "", reason: str = "") -> Verdict:
        return Verdict(
            graph=graph.name, tool=name, question=question, verdict=verdict, ours=ours,
            theirs=theirs, reason=reason, seconds=round(spent, 6), own_seconds=round(own_seconds, 6),
        )  # fmt: skip

    try:
        judgement = judged(method, question, graph, Stop(seconds))
    except InconsistentGraph:
        return verdict_of(NOT_ASKED, reason="the graph is inconsistent")
    except GaveUp as end:
        return verdict_of(NO_ANSWER, reason=f"its answer could not be judged: {end.reason}")
    except Failed as error:
        return verdict_of(NO_ANSWER, reason=str(error))
    except Refused as error:
        return verdict_of(DIFFERS, theirs="refused", reason=str(error))
    except CsdfError as error:
        return verdict_of(NO_ANSWER, reason=f"its answer could not be judged: {error}")
    spent, begin = judgement.seconds, time.perf_counter()
    try:
        best, is_proved = _best(question, graph, judgement, Stop(seconds))
    except GaveUp as end:
        return verdict_of(NOT_ASKED, reason=f"no answer of ours: {end.reason}")
    except CsdfError as error:
        return verdict_of(NOT_ASKED, reason=str(error))
    own_seconds = time.perf_counter() - begin
    ours, theirs = _text_of(best), _text_of(judgement.value)
    if judgement.value == best:
        return verdict_of(AGREES, ours, theirs, judgement.words)
    if best is None or judgement.value is None:
        return verdict_of(DIFFERS, ours, theirs, judgement.words)
    if judgement.value > best and judgement.words != BARE:
        share = f"{float((judgement.value - best) / best):.1%} " if best else ""
        return verdict_of(ABOVE, ours, theirs, f"{share}above ours; {judgement.words}")
    if judgement.value < best and not is_proved:
        return verdict_of(
            ABOVE, ours, theirs, f"better than ours, which is not proved; {judgement.words}"
        )
    return verdict_of(DIFFERS, ours, theirs, judgement.words)


def _best(
    question: str, graph: Graph, judgement: Judged, stop: Stop
) -> tuple[Fraction | None, bool]:
    """Return our answer to the same question, and whether it is proved that nothing is better."""
    if question == "throughput":
        return throughput(graph, budget=stop).period, True
    if question == "storage":
        storage = smallest_storage(graph, period=judgement.period or None, budget=stop)
        if storage.status is Status.INFEASIBLE and judgement.value is None:
            return None, True
        if storage.point is None:
            raise GaveUp(str(storage.reason))
        return Fraction(storage.point.size), storage.status is Status.OPTIMAL
    answer = best_mapping(graph, equal_processors(PROCESSORS), budget=stop)
    return answer.period, answer.status is Status.OPTIMAL


def _text_of(value: Fraction | None) -> str:
    return "deadlock" if value is None else str(value)
