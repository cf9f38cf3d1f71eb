"""Record of the deviations of a library from MISRA C:2012, as a safety team files it.

cppcheck finds the places; the record adds the category of the rule, the reason for the deviation and
the risk that remains. Places of rules without an assessment say so.
"""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import NamedTuple

from csdf.errors import CsdfError, UnreadableFile, counted
from csdf.io.csv_text import csv_text
from planners.code.parts import source

CPPCHECK = "cppcheck"
COLUMNS = ("rule", "category", "file", "line", "function", "code", "reason", "risk")
_FOUND = re.compile(r"^(.+?):(\d+):misra-c2012-([\d.]+)$", re.MULTILINE)
_FAILED = re.compile(r"^.*(?:Did not find addon|Bailing out).*$", re.MULTILINE)  # with exit code 0
_DEVIATING = """int sign(int number);
int sign(int number)
{
    if (number > 0) {
        return 1;
    }
    return 0;
}
"""  # from rule 15.5
_BODY_OR_END = re.compile(r"[{;]")
_HEAD = re.compile(r"^(?!typedef\b)\w[\w *]*[ *](\w+)\(")  # a macro alone has no type before


class Assessment(NamedTuple):
    """Why a library deviates from a rule. category: of the rule in MISRA C:2012."""

    category: str
    reason: str
    risk: str


NOT_ASSESSED = Assessment("not assessed", "not assessed", "not assessed")
ASSESSMENTS = {  # by rule, as c/misra.csv states them
    row.pop("rule"): Assessment(**row)
    for row in csv.DictReader(source("misra.csv").splitlines(), strict=True)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A line of a library that deviates from a rule."""

    rule: str
    file: str
    line: int
    function: str  # empty outside of functions
    code: str

    @property
    def assessment(self) -> Assessment:
        """The assessment of the rule."""
        return ASSESSMENTS.get(self.rule, NOT_ASSESSED)

    @property
    def row(self) -> tuple[object, ...]:
        """The values of COLUMNS."""
        category, reason, risk = self.assessment
        place = (self.file, self.line, self.function, self.code)
        return (self.rule, category, *place, reason, risk)


def require_cppcheck() -> None:
    """Raise CsdfError unless cppcheck and its MISRA addon find a deviation in a file that has some."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "sign.c").write_text(_DEVIATING, encoding="utf-8")
        if not deviations_in(Path(folder), ["sign.c"]):
            raise _failure("it finds no deviation in a file that has some")


def deviations_in(folder: Path, sources: Sequence[str]) -> tuple[Deviation, ...]:
    """Return the deviations that cppcheck finds in the C files of a folder, by rule and place.

    Raises CsdfError if cppcheck or its MISRA addon is not installed.
    """
    if which(CPPCHECK) is None:
        raise CsdfError("cppcheck is not installed; install it, such as Debian's package cppcheck")
    words = [CPPCHECK, "--addon=misra", "--std=c99", "--quiet", "--template={file}:{line}:{id}"]
    ran = subprocess.run(
        [*words, "-Iinclude", *sources], cwd=folder, capture_output=True, text=True, check=False
    )
    output = (ran.stdout + ran.stderr).strip()
    failed = _FAILED.search(output)
    if ran.returncode or failed:
        first = failed[0] if failed else output.partition("\n")[0]
        raise _failure(first or f"exit code {ran.returncode} without a message")
    return located(_FOUND.findall(ran.stderr), folder)


def _failure(reason: str) -> CsdfError:
    return CsdfError(f"cppcheck --addon=misra failed: {reason}; install cppcheck with its addons")


def located(places: Iterable[tuple[str, str, str]], folder: Path) -> tuple[Deviation, ...]:
    """Return deviations with their code and function. places: file, line, rule."""
    texts: dict[str, list[str]] = {}
    deviations = set()
    for file, number, rule in places:
        if file not in texts:
            texts[file] = _lines(folder / file)
        lines, line = texts[file], int(number)
        function = _function_at(lines, line)
        code = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        deviations.add(Deviation(rule=rule, file=file, line=line, function=function, code=code))
    return tuple(
        sorted(deviations, key=lambda place: (_number(place.rule), place.file, place.line))
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror}") from None


def _function_at(lines: Sequence[str], line: int) -> str:
    """Return the function with a line; empty outside of functions, and in declarations."""
    for place in range(min(line, len(lines)) - 1, -1, -1):
        if lines[place].startswith("}") and place != line - 1:
            return ""
        if match := _HEAD.match(lines[place]):
            ends = filter(None, map(_BODY_OR_END.search, islice(lines, place, None)))
            end = next(ends, None)
            return match[1] if end is not None and end[0] == "{" else ""
    return ""


def _number(rule: str) -> tuple[int, ...]:
    return tuple(map(int, rule.split(".")))


def record(deviations: Iterable[Deviation]) -> str:
    """Return the record as CSV with a head."""
    return csv_text([COLUMNS, *(deviation.row for deviation in deviations)])


def summary(deviations: Sequence[Deviation]) -> str:
    """Return the number of places and rules, and the rules without an assessment."""
    rules = {deviation.rule for deviation in deviations}
    missing = sorted(rules - set(ASSESSMENTS), key=_number)
    text = f"{counted(len(deviations), 'place')} of {counted(len(rules), 'rule')}"
    return f"{text}; not assessed: {', '.join(missing)}" if missing else text
