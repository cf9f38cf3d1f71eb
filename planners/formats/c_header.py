"""Plans as C headers: the bytes of the arena, and an offset for each buffer.

It also writes names in C comments, and numbers within the range of their type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from csdf.errors import InvalidPlan
from csdf.names import quoted
from planners.arena.problem import MemoryPlan


def format_header(plans: Sequence[MemoryPlan]) -> str:
    """Return a header that defines for each plan its bytes, its alignment and its offsets.

    Names become identifiers in capitals, and the first one a guard, so that one program may take the
    headers of several networks. Raises InvalidPlan for two that would become the same, and
    for a number that C has not.
    """
    first = plans[0].problem.name if plans else "NO"
    guard = f"{_identifier(first)}_MEMORY_PLAN_H"
    lines = [f"#ifndef {guard}", f"#define {guard}"]
    definitions = {guard: first}
    for plan in plans:
        lines += ["", f"/* {in_comment(plan.problem.name)}: {plan.status} */"]
        for identifier, value, name in _definitions(plan):
            if identifier in definitions:
                raise InvalidPlan(
                    f"{name!r} and {definitions[identifier]!r} would both be {identifier} in C"
                )
            definitions[identifier] = name
            lines.append(f"#define {identifier} {require_number(identifier, value)}")
    return "\n".join([*lines, "", "#endif", ""])


def _definitions(plan: MemoryPlan) -> list[tuple[str, int, str]]:
    arena = _identifier(plan.problem.name)
    alignment = max((buffer.alignment for buffer in plan.problem.buffers), default=1)
    return [
        (f"{arena}_ARENA_BYTES", plan.peak, plan.problem.name),
        (f"{arena}_ARENA_ALIGNMENT", alignment, plan.problem.name),
        *(
            (f"{arena}_OFFSET_{_suffix(name)}", offset, name)
            for name, offset in plan.offsets.items()
        ),
    ]


def _identifier(name: str) -> str:
    """Return the name with nothing but what C allows, beginning with a letter."""
    text = _suffix(name)
    return text if text[:1].isalpha() else f"N{text}"


def _suffix(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


NUMBERS = 2**63  # of C: from here on a constant needs a suffix, or there is no type for it
MEANINGFUL = re.compile(r"\*(?=/)|/(?=\*)|\?(?=\?)")


def in_comment(text: str) -> str:
    r"""Return the text for a comment between `/*` and `*/`, on one line.

    A compiler finds in it no end and no begin of a comment, no trigraph (`??/` is a backslash) and no
    mark of direction; it warns of each.
    """
    return MEANINGFUL.sub(r"\g<0> ", quoted(text))


def require_number(name: str, value: int) -> int:
    """Return the value. Raises InvalidPlan, with the name, where no number of C holds it."""
    if value >= NUMBERS:
        raise InvalidPlan(f"{name!r} is {value}; numbers in C end at {NUMBERS - 1}")
    return value
