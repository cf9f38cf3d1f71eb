"""SDF3 (release of 2009) and Kiter as programs: questions to them, and their answers in our terms.

Their conventions are undone here. An iteration of a cyclo-static graph in SDF3 is several of ours (the
factor), so its printed throughput is multiplied by the factor and its repetitions are divided by it.
Its sizes of storage distributions include self-loops; ours do not. It prints 2.14748e+09 for no limit.
Kiter prints `inf` for no limit, for a deadlock, and where its analysis failed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from math import gcd, lcm
from typing import NamedTuple

from csdf.analysis.bound_channels import is_single_firing_loop
from csdf.errors import CsdfError
from csdf.model.exact import MalformedText, rational
from csdf.model.graph import Graph

REPETITIONS, THROUGHPUT, MCM, FRONT = "repetitions", "throughput", "mcm", "front"
QUESTIONS = (REPETITIONS, THROUGHPUT, MCM, FRONT)
MOST_BYTES = 8 * 2**30  # memory limit of a program
MOST_EXPANDED = 3_000  # firings of an iteration, for algorithms that expand a node for each firing
UNREAD = "it prints no answer"
NO_LIMIT = "2.14748e+09"  # the largest integer of 32 bits, as SDF3 prints it


class NoAnswer(CsdfError):
    """A program crashed, took too long, or printed something else."""


class Inconsistent(CsdfError):
    """A program says that a graph is inconsistent."""


class Speed(NamedTuple):
    """A throughput, in iterations per time unit; None for no limit.

    printed: as the program prints it. is_vague: whether the printed word has several meanings.
    """

    value: Fraction | None
    printed: str
    is_vague: bool = False


class ReportedPoint(NamedTuple):
    """A point of a front: size without self-loops, throughput, and capacities where they are known."""

    size: int
    speed: Fraction
    capacities: Mapping[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that analyses graph files, and functions that parse its output.

    limit: the largest integer that it represents. command: (question, type of graph, path) to its
    arguments. factor: its firings in an iteration, divided by ours.
    """

    name: str
    limit: int
    command: Callable[[str, str, str], Sequence[str] | None]
    repetitions: Callable[[str, Graph, Fraction], dict[str, int]]
    throughput: Callable[[str, Fraction], Speed]
    mcm: Callable[[str], Fraction] | None
    front: Callable[[str, Graph, Fraction], list[ReportedPoint]]
    factor: Callable[[Graph, Mapping[str, int]], Fraction]

    def asks(self, question: str, graph: Graph, repetitions: Mapping[str, int]) -> str | None:
        """Return the reason for not asking a question; None if it is asked."""
        if question != MCM:
            return None
        if self.mcm is None or graph.kind != "sdf":
            return "it has no maximum cycle mean of cyclo-static graphs"
        firings = sum(repetitions.values())
        return None if firings <= MOST_EXPANDED else f"it makes a node of each of {firings} firings"

    def answer(self, question: str, kind: str, path: str, seconds: float) -> str:
        """Return what the program prints. Raises NoAnswer, Inconsistent."""
        words = self.command(question, kind, path)
        if words is None:
            raise NoAnswer(f"there is no program for graphs of type {kind}")
        return printed(words, seconds)


def printed(words: Sequence[str], seconds: float) -> str:
    """Return the standard output of a program. Raises NoAnswer, Inconsistent."""
    try:
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace",
        ) as process:  # fmt: skip
            try:
                _limit_memory(process.pid)
                output, errors = process.communicate(timeout=seconds)
            finally:
                process.kill()  # after a timeout or Ctrl-C; else it has ended
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"no answer within {seconds:g} s") from None
    except OSError as error:
        raise NoAnswer(f"{words[0]} cannot be run: {error.strerror}") from None
    printed_text = re.sub(r"\x1b\[[0-9;]*m", "", errors)
    if "inconsistent graph" in printed_text:
        raise Inconsistent("it says that the graph is inconsistent")
    if process.returncode < 0:
        raise NoAnswer(f"killed by signal {-process.returncode}")
    if not output.strip():
        last = next(
            (line.strip() for line in reversed(printed_text.splitlines()) if line.strip()),
            "nothing",
        )
        raise NoAnswer(f"{UNREAD}; it says: {last[:80]}")
    return output


def _limit_memory(process: int) -> None:
    """Limit the memory of a program that has just begun, on Linux.

    A limit that Python sets before the program begins needs a copy of this process: 6 ms a program.
    """
    if find_spec("resource") is not None:
        resource = import_module("resource")
        # A program that has ended already is no error.
        with suppress(ProcessLookupError, AttributeError):
            _, hard = resource.prlimit(process, resource.RLIMIT_AS)
            # A lower inherited limit stays: to raise it takes a privilege.
            if hard == resource.RLIM_INFINITY or hard > MOST_BYTES:
                resource.prlimit(process, resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def sdf3(folder: str | None) -> Program | None:
    """Return SDF3 in a folder, or on the path; None if the path does not contain it.

    The programs sdf3analysis-sdf and sdf3analysis-csdf are in the folder, or in its subfolder
    build/release/Linux/bin. Raises CsdfError for a folder without them.
    """
    names = ("sdf3analysis-sdf", "sdf3analysis-csdf")
    places = [""] if folder is None else [folder, os.path.join(folder, "build/release/Linux/bin")]
    for place in places:
        programs = {
            name: shutil.which(os.path.join(place, name) if place else name) for name in names
        }
        if any(programs.values()):
            break
    else:
        if folder is None:
            return None
        raise CsdfError(f"--sdf3 {folder}: neither {names[0]} nor {names[1]} is there")

    def command(question: str, kind: str, path: str) -> Sequence[str] | None:
        program = programs[f"sdf3analysis-{kind}"]
        algorithms = {REPETITIONS: "repetition_vector", FRONT: "buffersize"}
        algorithm = algorithms.get(question, question)
        return None if program is None else [program, "--graph", path, "--algo", algorithm]

    return Program(
        name="SDF3", limit=2**31 - 1, command=command, factor=_sdf3_factor,
        repetitions=_sdf3_repetitions, throughput=_sdf3_throughput, front=_sdf3_front,
        mcm=lambda text: _number(_first(r"MCM\(.*\) = (\S+)", text)),
    )  # fmt: skip


def _sdf3_factor(graph: Graph, repetitions: Mapping[str, int]) -> Fraction:
    """Return the repetition vector that SDF3 uses for a cyclo-static graph, divided by ours.

    SDF3 multiplies the smallest solution of the balance equations of single firings by the least common
    multiple of the numbers of phases. Our vector is the smallest one of whole phase cycles, a multiple
    of that solution by the gcd of its entries.
    """
    if graph.kind == "sdf":
        return Fraction(1)
    return Fraction(lcm(*(actor.phases for actor in graph.actors)), gcd(*repetitions.values()))


def _sdf3_repetitions(text: str, _graph: Graph, factor: Fraction) -> dict[str, int]:
    counts = {name: int(count) for name, count in re.findall(r"\[(.*)\] = (-?\d+)", text)}
    if not counts:
        raise NoAnswer(f"no vector in {text[:60]!r}")
    if not any(counts.values()):
        raise Inconsistent("all its repetitions are 0: the graph is inconsistent")
    whole = {name: Fraction(count) / factor for name, count in counts.items()}
    # A count that the factor does not divide is reported as printed, and counts as a difference.
    return {
        name: int(count) if count.denominator == 1 else counts[name]
        for name, count in whole.items()
    }


def _sdf3_throughput(text: str, factor: Fraction) -> Speed:
    output = _first(r"thr\(.*\) = (\S+)", text)
    if output == NO_LIMIT:
        return Speed(None, output)
    return Speed(_number(output) * factor, output)


_POINT = re.compile(r"thr='([^']*)' sz='(-?\d+)'>\s*<distribution>(.*?)</distribution>", re.DOTALL)


def _sdf3_front(text: str, graph: Graph, factor: Fraction) -> list[ReportedPoint]:
    loops = {channel.name for channel in graph.channels if channel.is_self_loop}
    points = []
    for speed, _, stored in _POINT.findall(text):
        sizes = {
            name: int(size) for name, size in re.findall(r"<ch name='([^']*)' sz='(-?\d+)'", stored)
        }
        size = sum(space for name, space in sizes.items() if name not in loops)
        points.append(ReportedPoint(size, _number(speed) * factor, sizes))
    if not points:
        raise NoAnswer(f"no distribution in {text[:60]!r}")
    return points


def kiter(program: str | None) -> Program | None:
    """Return Kiter: the given program, or the program on the path; None if the path lacks it.

    Raises CsdfError for a program that does not exist.
    """
    path = shutil.which("kiter" if program is None else program)
    if path is None and program is not None:
        path = shutil.which(os.path.join(program, "kiter"))
        if path is None:
            raise CsdfError(f"--kiter {program}: there is no such program")
    if path is None:
        return None
    kiter_path = path

    def command(question: str, _kind: str, path: str) -> Sequence[str]:
        algorithms = {
            REPETITIONS: "PrintInfos", THROUGHPUT: "KPeriodicThroughput",
            FRONT: "ThroughputBufferingDSE",
        }  # fmt: skip
        return [kiter_path, "-f", path, "-a", algorithms[question]]

    return Program(
        name="Kiter", limit=2**63 - 1, command=command, factor=lambda *_: Fraction(1),
        repetitions=_kiter_repetitions, throughput=_kiter_throughput, mcm=None, front=_kiter_front,
    )  # fmt: skip


_TASK = re.compile(r"^ +(\S+) \( +\d+\) +\d+ +\d+ +\S+ +(\d+) +\d+ +-?\d+ *$", re.MULTILINE)


def _kiter_repetitions(text: str, _graph: Graph, _factor: Fraction) -> dict[str, int]:
    counts = {name: int(count) for name, count in _TASK.findall(text)}
    if not counts:
        raise Inconsistent("it lists no tasks: its analysis calls the graph inconsistent")
    return counts


def _kiter_throughput(text: str, _factor: Fraction) -> Speed:
    output = _first(r"Throughput is\s+(\S+)", text)
    return Speed(None, output, is_vague=True) if output == "inf" else Speed(_number(output), output)


def _kiter_front(text: str, graph: Graph, _factor: Fraction) -> list[ReportedPoint]:
    # Kiter lists no capacities of self-loops that only forbid auto-concurrency.
    loops = {channel.name for channel in graph.channels if channel.is_self_loop}
    plain = {channel.name for channel in graph.channels if is_single_firing_loop(channel)}
    counted = [channel.name for channel in graph.channels if channel.name not in plain]
    points = []
    for size, speed, listed in re.findall(r'^(\d+);([^;]+);"([^"]*)"', text, re.MULTILINE):
        sizes = [int(size) for size in listed.split(",") if size]
        capacities = dict(zip(counted, sizes, strict=True)) if len(sizes) == len(counted) else None
        if speed == "inf":
            raise NoAnswer("its front has the throughput inf")
        extra = sum(capacity for name, capacity in (capacities or {}).items() if name in loops)
        points.append(ReportedPoint(int(size) - extra, _number(speed), capacities))
    if not points:
        raise NoAnswer("it lists no distribution")
    return points


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise NoAnswer(f"nothing like {pattern!r} in {text[:60]!r}")
    return match[1]


def _number(text: str) -> Fraction:
    try:
        return rational(text)
    except MalformedText:
        raise NoAnswer(f"it prints {text!r} for a number") from None


class Clock:
    """Seconds until a program's first answer; later runs of the program do not count."""

    def __init__(self) -> None:
        self.seconds: float | None = None

    def timed(self, program: Program, question: str, kind: str, path: str, limit: float) -> str:
        """Return what a program prints."""
        begin = time.perf_counter()
        try:
            return program.answer(question, kind, path, limit)
        finally:
            self.seconds = self.seconds or time.perf_counter() - begin
