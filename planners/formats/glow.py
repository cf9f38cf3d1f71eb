"""Allocation traces in the format of the Glow compiler's allocator test.

    MODEL <name>          a new problem
    ALIGN <bytes>         alignment of all its buffers
    ALLOC <id> <bytes>    the buffer lives from this instruction
    FREE <id>             to this one
    MEM <bytes>           what the trace expects to need; EFF <ratio> its efficiency

Time is counted in ALLOC and FREE instructions. Text from `#` to the end of a line is a comment.
"""

from __future__ import annotations

from csdf.errors import counted
from planners.formats.text import Line, lines_of
from planners.plan import Buffer, Problem

WORDS = {"MODEL": 2, "ALIGN": 2, "ALLOC": 3, "FREE": 2, "MEM": 2, "EFF": 2}


def parse_traces(text: str, name: str) -> list[Problem]:
    """Return a problem for each model. Raises UnreadableFile with the line.

    A buffer that is never freed, or freed twice, is refused.
    """
    traces: list[_Trace] = []
    for line in lines_of(text, name, comment="#"):
        words = line.text.split()
        if words[0] not in WORDS:
            raise line.refusal(f"found {words[0]!r}; expected one of {', '.join(WORDS)}")
        if words[0] == "MODEL":
            traces.append(_Trace(line.text.split(maxsplit=1)[-1] if len(words) > 1 else "", line))
            continue
        if len(words) != WORDS[words[0]]:
            raise line.refusal(f"found {counted(len(words) - 1, 'value')} after {words[0]}")
        if not traces:
            raise line.refusal(f"{words[0]} stands before the first MODEL")
        traces[-1].take(words, line)
    return [trace.problem() for trace in traces]


class _Trace:
    """A model while it is read."""

    def __init__(self, name: str, line: Line) -> None:
        if not name:
            raise line.refusal("MODEL without a name")
        self._name = name
        self._line = line
        self._alignment = 1
        self._sizes: dict[str, int] = {}
        self._starts: dict[str, int] = {}
        self._ends: dict[str, int] = {}

    def take(self, words: list[str], line: Line) -> None:
        time = len(self._starts) + len(self._ends)
        if words[0] == "ALIGN":
            self._alignment = line.natural(words[1], "ALIGN", least=1)
        elif words[0] == "ALLOC":
            if words[1] in self._starts:
                raise line.refusal(f"buffer {words[1]!r} is allocated twice")
            self._sizes[words[1]] = line.natural(words[2], f"buffer {words[1]!r}")
            self._starts[words[1]] = time
        elif words[0] == "FREE":
            if words[1] not in self._starts:
                raise line.refusal(f"buffer {words[1]!r} is freed, but was not allocated")
            if words[1] in self._ends:
                raise line.refusal(f"buffer {words[1]!r} is freed twice")
            self._ends[words[1]] = time

    def problem(self) -> Problem:
        for name in self._starts:
            if name not in self._ends:
                raise self._line.refusal(f"MODEL {self._name!r}: buffer {name!r} is never freed")
        buffers = (
            Buffer(
                name=name,
                size=self._sizes[name],
                start=start,
                end=self._ends[name],
                alignment=self._alignment,
            )
            for name, start in self._starts.items()
        )
        return Problem(name=self._name, buffers=tuple(buffers))
