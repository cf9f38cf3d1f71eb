"""Targets of generated C, and C without the instructions of other machines.

Kernels have branches of the preprocessor for machines with vectors of their own: `defined(HELIUM)`,
`defined(WORDS_MEET)`, `defined(__SSE2__)`, `defined(__AVX2__)`. A target has some of these machines;
the branches of all others are taken out of the text, by partial evaluation of the conditions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from cnn2csdf.platforms import PLATFORMS
from csdf.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine with specialised kernels.

    condition: the preprocessor condition that holds when compiling for the machine. words: macros of
    the C files of this package that are defined for it. headers: the headers of its intrinsics.
    has_assembly: whether some functions are written entirely in assembly.
    """

    name: str
    instructions: str
    condition: str
    words: frozenset[str]
    headers: tuple[str, ...] = ()
    has_assembly: bool = False


HELIUM = Machine(
    name="cortex_m55",
    instructions="Helium of a Cortex-M55",
    condition="defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1) && defined(__GNUC__)",
    words=frozenset({"HELIUM"}),
    headers=("arm_mve.h",),
    has_assembly=True,
)
WORDS_MEET = Machine(
    name="cortex_m4",
    instructions="the DSP extension of a Cortex-M4",
    # Thumb-2 loads words of bytes at any address, the first byte lowest: not on a core that traps
    # unaligned accesses (-mno-unaligned-access), in ARM state, or in big-endian order.
    condition="defined(__ARM_FEATURE_SIMD32) && defined(__ARM_FEATURE_UNALIGNED) && "
    "defined(__thumb2__) && !defined(__ARM_BIG_ENDIAN) && defined(__GNUC__)",
    words=frozenset({"WORDS_MEET"}),
    has_assembly=True,
)
AVX2 = Machine(
    name="avx2",
    instructions="AVX2",
    condition="defined(__AVX2__)",
    words=frozenset({"__AVX2__", "__SSE2__"}),
    headers=("immintrin.h",),
)
SSE2 = Machine(
    name="sse2",
    instructions="SSE2",
    condition="defined(__SSE2__)",
    words=frozenset({"__SSE2__"}),
    headers=("emmintrin.h",),
)
MACHINES = (HELIUM, WORDS_MEET, AVX2, SSE2)
NEON = "__ARM_NEON"  # of hosts; no Cortex-M has it
WORDS = frozenset({NEON}).union(*(machine.words for machine in MACHINES))

CORTEX_M4, CORTEX_M55, CORTEX_M0PLUS = "cortex-m4", "cortex-m55", "cortex-m0plus"
RV32, HOST, PORTABLE = "rv32", "host", "portable"
TARGETS: Mapping[str, tuple[Machine, ...]] = {  # the machines of each, that of most first
    CORTEX_M4: (WORDS_MEET,),
    CORTEX_M55: (HELIUM,),
    CORTEX_M0PLUS: (),
    RV32: (),
    HOST: (AVX2, SSE2),
    PORTABLE: (),
}
# Macros of networks, such as SOME_WEIGHTS_ARE_HALVES, with the value that they are known to have.
Switches = frozenset[tuple[str, bool]]
NO_SWITCHES: Switches = frozenset()
Target = str | None  # of TARGETS; None: code for all machines, of which the compiler chooses
_DIRECTIVE = re.compile(r"^#(if|ifdef|ifndef|elif|else|endif)\b\s*(.*)$")
_COMMENT = re.compile(r"/\*.*?\*/")
_NAME = re.compile(r"\w+")
_DEFINED = re.compile(r"defined\((\w+)\)")


def require_target(target: Target) -> None:
    """Raise InvalidArgument for a target that is none of TARGETS."""
    if target is not None and target not in TARGETS:
        raise InvalidArgument(f"target {target!r}; expected one of {', '.join(TARGETS)}")


def target_of_platform(platform: str) -> str:
    """Return the target of the core of a platform of `cnn2csdf.platforms`; HOST without a core."""
    chosen = PLATFORMS.get(platform)
    core = None if chosen is None else chosen.core
    return HOST if core is None else core.name


def machines_of(target: Target) -> tuple[Machine, ...]:
    """Return the machines of a target; all of them for None."""
    return MACHINES if target is None else TARGETS[target]


def words_of(target: Target) -> frozenset[str]:
    """Return the macros of machines that may be defined on a target."""
    if target is None:
        return WORDS
    words = frozenset().union(*(machine.words for machine in TARGETS[target]))
    return words | {NEON} if target == HOST else words


def has_helium(target: Target) -> bool:
    """Return whether a target has the vectors of a Cortex-M55."""
    return HELIUM in machines_of(target)


def has_floating_point(target: Target) -> bool:
    """Return whether the processor of a target may have a floating-point unit."""
    return target not in (CORTEX_M0PLUS, RV32)  # rv32: RV32IMAC


def helium_macros(target: Target) -> str:
    """Return C that tells types and tables whether the compiler has Helium; empty for others."""
    if not has_helium(target):
        return ""
    return f"""/* With Helium products of stored values are added to sums less those of zero points. */
#if {HELIUM.condition}
#define HELIUM
#define FOLDED(sums) .folded = sums,
#else
#define FOLDED(sums)
#endif
"""


class _Branch(NamedTuple):
    """A branch of an `#if`. condition: simplified; "1" or "0" where that is known."""

    condition: str
    directive: str  # as it is in the text
    lines: list[str]


class _Known(NamedTuple):
    """Knowledge about macros: possible and defined macros of machines, values of switches."""

    possible: frozenset[str]
    defined: frozenset[str]
    switches: Switches


@cache
def specialised(
    text: str,
    possible: frozenset[str],
    defined: frozenset[str] = frozenset(),
    switches: Switches = NO_SWITCHES,
) -> str:
    """Return C without the branches of machines that have none of some macros.

    possible: macros of machines that stay conditions. defined: macros that are known to be defined.
    All other macros of WORDS are taken as not defined.
    """
    macros = _Known(possible - defined, defined, switches)
    return "\n".join(_specialised(iter(text.splitlines()), macros))


def _specialised(lines: Iterator[str], macros: _Known) -> Iterator[str]:
    for line in lines:
        match = _DIRECTIVE.match(line)
        if match is None:
            yield line
        else:
            branches, end = _branches(match, lines)
            yield from _without_dead(branches, end, macros)


def _branches(first: re.Match[str], lines: Iterator[str]) -> tuple[list[_Branch], str]:
    """Read an `#if` up to its `#endif`: its branches as they are, and the last line."""
    branches = [_Branch(_condition(first), first[0], [])]
    depth = 0
    for line in lines:
        match = _DIRECTIVE.match(line)
        kind = "" if match is None else match[1]
        if kind == "endif" and depth == 0:
            return branches, line
        if match is not None and kind in ("elif", "else") and depth == 0:
            branches.append(_Branch(_condition(match), line, []))
            continue
        depth += {"endif": -1}.get(kind, 0) + kind.startswith("if")
        branches[-1].lines.append(line)
    raise AssertionError(f"{first[0]!r} has no #endif")


def _condition(match: re.Match[str]) -> str:
    """Return the condition of a directive as one of `#if`."""
    kind, text = match[1], _COMMENT.sub("", match[2]).strip()
    return {"else": "1", "ifdef": f"defined({text})", "ifndef": f"!defined({text})"}.get(kind, text)


def _without_dead(branches: Sequence[_Branch], end: str, macros: _Known) -> Iterator[str]:
    """Yield an `#if` without the branches that are known to be dead."""
    word = "if"
    for branch in branches:
        condition = simplified_condition(branch.condition, *macros)
        if condition == "0":
            continue
        body = _specialised(iter(branch.lines), macros)
        if condition == "1":
            if word == "if":
                yield from body
                return
            yield "#else"
            yield from body
            break
        is_as_it_was = condition == branch.condition and branch.directive.startswith(f"#{word}")
        yield branch.directive if is_as_it_was else f"#{word} {condition}"
        yield from body
        word = "elif"
    if word == "elif":
        yield end


def simplified_condition(
    condition: str,
    possible: frozenset[str],
    defined: frozenset[str] = frozenset(),
    switches: Switches = NO_SWITCHES,
) -> str:
    """Return a condition of the preprocessor in which the macros of machines are known; "1" or "0".

    A condition that names no machine, and no switch, is returned as it is.
    """
    words = set(_DEFINED.findall(condition))
    names = {name for name, _ in switches}
    if not (words & WORDS) - possible and names.isdisjoint(_NAME.findall(condition)):
        return condition
    text = _DEFINED.sub(r"defined_\1", condition)
    text = text.replace("&&", " and ").replace("||", " or ").replace("!", " not ")
    tree = ast.parse(text.strip(), mode="eval").body
    value = _simplified(tree, _Known(possible, defined, switches))
    return str(int(value)) if isinstance(value, bool) else _in_c(value)


def _simplified(node: ast.expr, known: _Known) -> bool | ast.expr:
    match node:
        case ast.Name(id=name) if {(name, True), (name, False)} & known.switches:
            return (name, True) in known.switches
        case ast.Name(id=name) if name.removeprefix("defined_") in WORDS - known.possible:
            return name.removeprefix("defined_") in known.defined
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            value = _simplified(operand, known)
            return not value if isinstance(value, bool) else ast.UnaryOp(ast.Not(), value)
        case ast.BoolOp(op=operator, values=operands):
            decides = isinstance(operator, ast.Or)
            values = [_simplified(operand, known) for operand in operands]
            if decides in values:
                return decides
            remaining = [value for value in values if not isinstance(value, bool)]
            if not remaining:
                return not decides
            return remaining[0] if len(remaining) == 1 else ast.BoolOp(operator, remaining)
        case _:
            return node


def _in_c(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) if name.startswith("defined_"):
            return f"defined({name.removeprefix('defined_')})"
        case ast.UnaryOp(operand=operand):
            return f"!{_operand(operand)}"
        case ast.BoolOp(op=operator, values=values):
            sign = " || " if isinstance(operator, ast.Or) else " && "
            return sign.join(map(_operand, values))
        case _:
            return ast.unparse(node)


def _operand(node: ast.expr) -> str:
    return f"({_in_c(node)})" if isinstance(node, ast.BoolOp) else _in_c(node)
