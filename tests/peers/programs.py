"""SDF3 (release of 2009) and Kiter, where they are installed.

    SDF3_BIN    the folder of sdf3analysis-sdf and sdf3analysis-csdf
    KITER_BIN   the program kiter, or its folder

Without these variables the programs are looked for on the path; tests that miss them are skipped.
What a program reads is what csdf writes.
"""

import os
import re
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from csdf.io.sdf3.writer import format_sdf3
from csdf.model.graph import Graph

PRINTED = Fraction(1, 100_000)  # a number of six digits is known to within this part of itself
SECONDS = 20  # for one answer


class NoAnswer(Exception):
    """The program crashed, hung, or printed something else."""


def _program(variable: str, name: str) -> str | None:
    """The path of a program; None where it is not installed."""
    place = os.environ.get(variable)
    if place is None:
        return shutil.which(name)
    is_itself = Path(place).name == name and not Path(place).is_dir()
    return shutil.which(place if is_itself else str(Path(place) / name))


SDF3 = {kind: _program("SDF3_BIN", f"sdf3analysis-{kind}") for kind in ("sdf", "csdf")}
KITER = _program("KITER_BIN", "kiter")
needs_sdf3 = pytest.mark.skipif(
    None in SDF3.values(),
    reason="sdf3analysis-sdf and -csdf are neither on the path nor at SDF3_BIN",
)
needs_kiter = pytest.mark.skipif(
    KITER is None, reason="kiter is neither on the path nor at KITER_BIN"
)


def _printed(words: list[str], seconds: float) -> str:
    try:
        ran = subprocess.run(
            words, capture_output=True, text=True, timeout=seconds, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"no answer within {seconds} s") from None
    if ran.returncode < 0:
        raise NoAnswer(f"killed by signal {-ran.returncode}")
    return ran.stdout


def sdf3(graph: Graph, folder: Path, algorithm: str, *, seconds: float = SECONDS) -> str:
    """The output of SDF3 about a graph."""
    path = folder / "graph.xml"
    path.write_text(format_sdf3(graph, capacities="reverse"))
    return _printed([SDF3[graph.kind] or "", "--graph", str(path), "--algo", algorithm], seconds)


def kiter(graph: Graph, folder: Path, algorithm: str, *, seconds: float = SECONDS) -> str:
    """The output of Kiter about a graph."""
    path = folder / "graph.xml"
    path.write_text(format_sdf3(graph, capacities="reverse"))
    return _printed([KITER or "", "-f", str(path), "-a", algorithm], seconds)


def found(pattern: str, text: str) -> str:
    """The first group of a pattern in what was printed. Raises NoAnswer where it is not there."""
    match = re.search(pattern, text)
    if match is None:
        raise NoAnswer(f"no {pattern!r} in {text[:200]!r}")
    return match[1]


def is_printed_as(printed: str, exact: Fraction) -> bool:
    """Whether a number of six digits is this one."""
    if printed in ("inf", "nan", "-nan"):
        return False
    return abs(Fraction(printed) - exact) <= exact * PRINTED


def dominant(points: list[tuple[int, Fraction]]) -> list[tuple[int, Fraction]]:
    """The points of size and throughput that no other improves on, by size."""
    kept: list[tuple[int, Fraction]] = []
    for size, speed in sorted(points, key=lambda point: (point[0], -point[1])):
        if speed > 0 and (not kept or speed > kept[-1][1] * (1 + PRINTED)):
            kept.append((size, speed))
    return kept
