"""Record of the deviations of a library from MISRA C:2012, as a safety team files it.

cppcheck finds the places; the record adds the category of the rule, the reason for the deviation and
the risk that remains. Places of rules without an assessment say so.
"""

from __future__ import annotations

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


_ADVISORY, _REQUIRED = "advisory", "required"
_NO_EFFECT = "None: the text has no effect on the object code."
_BOUNDS = (
    "An access out of bounds if a table is wrong. A checker executes the plan before it is written; "
    "make test runs the library, and make prove proves each access of it in bounds."
)
_RANGES = "A wrong number for values out of range. make prove proves that no signed sum overflows."
NOT_ASSESSED = Assessment("not assessed", "not assessed", "not assessed")
ASSESSMENTS = {
    "2.2": Assessment(
        _REQUIRED,
        "Constants of 0 and 1 are added and multiplied as all constants of a network are.",
        "None: the compiler leaves it out.",
    ),
    "2.3": Assessment(
        _ADVISORY,
        "Shared headers have types that other networks use; arrays of length 1 or -1 are checks.",
        _NO_EFFECT,
    ),
    "2.4": Assessment(
        _ADVISORY,
        "Enumerations name constants; structures are used by the name of their type.",
        _NO_EFFECT,
    ),
    "2.5": Assessment(
        _ADVISORY,
        "Macros of the header are for the application; others are the same set for each network.",
        _NO_EFFECT,
    ),
    "2.7": Assessment(
        _ADVISORY,
        "Kernels of one table have the same parameters; some are read by assembly only.",
        _NO_EFFECT,
    ),
    "5.6": Assessment(
        _REQUIRED,
        "Each network names its own types slot, element and instance for the shared kernels.",
        "None: no file includes two networks.",
    ),
    "5.7": Assessment(
        _REQUIRED,
        "Headers of kernels for two kinds of elements both have a constant BLOCK.",
        "None: no file includes both.",
    ),
    "5.9": Assessment(
        _ADVISORY,
        "Each network compiles the shared kernels, and has tables of the same names.",
        "None: they have internal linkage.",
    ),
    "8.7": Assessment(
        _ADVISORY, "Functions of the header are for the application.", "None: the names are unique."
    ),
    "8.9": Assessment(
        _ADVISORY, "A table of the plan stays beside the other tables.", "None: it is constant."
    ),
    "8.14": Assessment(
        _REQUIRED,
        "restrict tells the compiler that input and result of a kernel do not overlap.",
        "Wrong results if buffers overlap. The checker of plans refuses overlaps of live buffers.",
    ),
    "9.4": Assessment(
        _REQUIRED,
        "{{0}, 0}: cppcheck takes a structure that begins with an array for one that is set twice.",
        "None: no element is set twice.",
    ),
    "10.1": Assessment(
        _REQUIRED,
        "Fixed-point scaling shifts signed integers to the right, as the reference does.",
        "Another result on a compiler that does not keep the sign. An array of negative size stops it.",
    ),
    "10.3": Assessment(
        _REQUIRED,
        "A step of a pointer, which cppcheck takes for a number; a comparison stored as 0 or 1.",
        "None: the pointer is stepped by a count, and 0 and 1 fit.",
    ),
    "10.4": Assessment(
        _REQUIRED,
        "A constant or sizeof has another essential type than the value that it meets.",
        _RANGES,
    ),
    "10.8": Assessment(
        _REQUIRED,
        "The bits of a zero point or a position in a table are converted.",
        _RANGES,
    ),
    "11.4": Assessment(
        _ADVISORY,
        "NAME_init checks the alignment of the arena by its address.",
        "None: the number is not converted back.",
    ),
    "11.5": Assessment(
        _ADVISORY,
        "The parameters of a layer are behind const void *; each kernel has one type of them.",
        "A structure read as another type. Function and parameters are written together.",
    ),
    "11.8": Assessment(
        _REQUIRED, "memcpy and rows of the caller are read only.", "None: nothing is written."
    ),
    "11.9": Assessment(
        _REQUIRED, "0 is compared with the value of a pointer, not assigned.", _NO_EFFECT
    ),
    "12.1": Assessment(
        _ADVISORY, "Precedence of operators that all compilers share.", "A misreading in review."
    ),
    "12.3": Assessment(
        _ADVISORY,
        "A comma steps two pointers in the head of a loop, or a macro has two actions.",
        "A misreading in review.",
    ),
    "13.3": Assessment(
        _ADVISORY, "A pointer is read and stepped in one statement.", "A misreading in review."
    ),
    "13.4": Assessment(_ADVISORY, "Two fields are assigned one value.", "A misreading in review."),
    "14.1": Assessment(
        _REQUIRED,
        "cppcheck takes a pointer to floats for a loop counter of a floating type.",
        "None: pointers are compared exactly.",
    ),
    "14.2": Assessment(
        _REQUIRED,
        "A loop has a second counter.",
        "A misreading in review; the loop ends by a count.",
    ),
    "14.4": Assessment(_REQUIRED, "A number is a condition.", "A misreading in review."),
    "15.4": Assessment(_ADVISORY, "A search ends where it has its answer.", "None."),
    "15.5": Assessment(
        _ADVISORY,
        "A function returns one of two values, or ends where it waits for the next row.",
        "A skipped step at the end of a function. No function has a resource to release.",
    ),
    "15.7": Assessment(
        _REQUIRED,
        "After the last of several conditions there is nothing to do.",
        "A case that is left out; make test compares the results.",
    ),
    "17.7": Assessment(
        _REQUIRED, "The status of a step is read from the state.", "None: the state has it."
    ),
    "17.8": Assessment(
        _ADVISORY, "A count or pointer is stepped in place.", "A misreading in review."
    ),
    "18.4": Assessment(
        _ADVISORY,
        "A pointer is stepped along weights, or two pointers into one table are subtracted.",
        _BOUNDS,
    ),
    "19.2": Assessment(
        _ADVISORY,
        "Networks in turns use the same bytes, or copies of the parameters of one layer do.",
        "None: a member is written before it is read.",
    ),
    "20.1": Assessment(
        _ADVISORY,
        "Kernels are included after the macros that they are compiled with.",
        "None: each file includes its headers once.",
    ),
    "20.5": Assessment(_ADVISORY, "A macro is used for one table.", _NO_EFFECT),
    "20.7": Assessment(
        _REQUIRED, "The argument of the macro is a name, not an expression.", "None for names."
    ),
    "20.10": Assessment(
        _ADVISORY,
        "A macro writes the same loop for several functions, or a line of assembly.",
        "A misreading in review; the compiler sees the names after expansion.",
    ),
    "21.15": Assessment(
        _REQUIRED,
        "Words are copied to and from bytes by memcpy.",
        "A wrong size. Sizes are those of the word, by sizeof.",
    ),
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
