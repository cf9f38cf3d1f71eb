"""C++ as tokens: conditions of the preprocessor, pragmas of HLS, brackets, declarations."""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+|\\\r?\n|//(?:\\\r?\n|[^\n])*|/\*.*?\*/)
  | (?P<newline>\n)
  | (?P<directive>\#(?:\\\r?\n|/\*.*?\*/|[^\n])*)
  | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
  | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
  | (?P<word>[A-Za-z_$][\w$]*)
  | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<sign>::|->|\+\+|--|<<=|>>=|[-+*/%&|^=!<>]=|&&|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
HLS = re.compile(r"(?:#\s*pragma\s+)?HLS\s+(\w+)(.*)", re.DOTALL | re.IGNORECASE)
OPEN = {"(": ")", "[": "]", "{": "}"}
ASSIGNMENTS = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
# Words that begin a statement which declares no variable.
NOT_DECLARED = frozenset(
    (
        "return", "delete", "goto", "using", "typedef", "break", "continue", "throw", "static_assert",
        "case", "default", "new", "else", "if", "for", "while", "do", "switch", "try", "catch",
        "sizeof", "template", "friend", "operator", "this", "namespace",
    )
)  # fmt: skip
BUILT_IN = frozenset(("unsigned", "signed", "long", "short", "int", "char", "double", "const"))
BEFORE_TYPES = frozenset(
    (
        "static", "const", "constexpr", "hls_thread_local", "thread_local", "volatile", "register",
        "inline", "extern", "mutable",
    )
)  # fmt: skip
AFTER_TYPES = frozenset(("*", "&", "&&", "const", "__restrict__", "__restrict"))


class Token(NamedTuple):
    """A token: its kind, text, and where it begins in the file."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset after its last character."""
        return self.start + len(self.text)


class Pragma(NamedTuple):
    """`#pragma HLS name key=value flag ...`, all in lower case but the values."""

    name: str
    settings: Mapping[str, str]
    flags: frozenset[str]
    line: int


class TokenisedFile:
    """A file with its tokens and the insertions that were decided."""

    def __init__(self, path: Path, text: str, number: int, *, is_bench: bool) -> None:
        self.path, self.text, self.number, self.is_bench = path, text, number, is_bench
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]
        self.insertions: list[tuple[int, int, str]] = []
        self.tokens: list[Token] = []

    def line(self, at: int) -> int:
        """Return the line of an offset, from 1."""
        return bisect_right(self._lines, at)

    def insert(self, at: int, text: str, rank: int = 0) -> None:
        """Insert text before the character `at`; at equal offsets by rank, then by order of calls."""
        self.insertions.append((at, rank, text))

    def instrumented(self) -> str:
        """The text with its insertions."""
        pieces, last = [], 0
        for at, _, text in sorted(self.insertions, key=lambda insertion: insertion[:2]):
            pieces += [self.text[last:at], text]
            last = at
        return "".join([*pieces, self.text[last:]])


class Conditions:
    """Decides `#if` from known macros: the given ones and those of the sources."""

    def __init__(self, defines: Iterable[str]) -> None:
        self.macros = {}
        for define in defines:
            name, _, value = define.partition("=")
            self.macros[name] = value or "1"

    def define(self, directive: str) -> None:
        """Note a #define or #undef."""
        directive = _without_comments(directive)
        if match := re.match(r"#\s*define\s+(\w+)(\([^)]*\))?\s*(.*)", directive, re.DOTALL):
            self.macros[match[1]] = "" if match[2] else match[3].strip()
        elif match := re.match(r"#\s*undef\s+(\w+)", directive):
            self.macros.pop(match[1], None)

    def holds(self, condition: str) -> bool:
        """Whether a condition holds; unknown names count as 0.

        Macros are expanded 8 levels deep. A condition that is no expression of integers does not hold.
        """
        text = re.sub(
            r"defined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
            lambda m: str(int((m[1] or m[2]) in self.macros)),
            _without_comments(condition),
        )
        for _ in range(8):
            text, changed = re.subn(
                r"\b[A-Za-z_]\w*",
                lambda m: f"({self.macros.get(m[0]) or int(m[0] == 'true')})",
                text,
            )
            if not changed:
                break
        tokens = deque([*re.findall(r"[\w']+|\|\||&&|<<|>>|[=!<>]=|\S", text), ""])
        try:
            return len(tokens) < 1000 and bool(_value(tokens)) and len(tokens) == 1
        except (ValueError, IndexError, RecursionError):
            return False


def _quotient(dividend: int, divisor: int) -> int:
    """Return the quotient, rounded towards zero; 0 for a division by zero in a skipped operand."""
    return int(Fraction(dividend, divisor)) if divisor else 0


# Binary operators of the preprocessor with their precedence: a smaller number binds less. Shifts by
# less than 0 bits give 0: they may be in a skipped operand, as divisions by zero.
BINARY: Mapping[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda left, right: left != 0 or right != 0),
    "&&": (2, lambda left, right: left != 0 and right != 0),
    "|": (3, operator.or_), "^": (4, operator.xor), "&": (5, operator.and_),
    "==": (6, operator.eq), "!=": (6, operator.ne),
    "<": (7, operator.lt), "<=": (7, operator.le), ">": (7, operator.gt), ">=": (7, operator.ge),
    "<<": (8, lambda left, right: left << min(right, 63) if right >= 0 else 0),
    ">>": (8, lambda left, right: left >> right if right >= 0 else 0),
    "+": (9, operator.add), "-": (9, operator.sub),
    "*": (10, operator.mul), "/": (10, _quotient),
    "%": (10, lambda left, right: left - right * _quotient(left, right)),
}  # fmt: skip
UNARY: Mapping[str, Callable[[int], int]] = {
    "!": operator.not_, "~": operator.invert, "-": operator.neg, "+": operator.pos,
}  # fmt: skip


def _value(tokens: deque[str]) -> int:
    """Return the value of the expression that the tokens begin with, and remove its tokens."""
    condition = _binary(tokens, 0)
    if tokens[0] != "?":
        return condition
    tokens.popleft()
    first = _value(tokens)
    if tokens.popleft() != ":":
        raise ValueError("no colon")
    second = _value(tokens)
    return first if condition else second


def _binary(tokens: deque[str], least: int) -> int:
    """Return the value of an expression of binary operators of at least this precedence."""
    value = _unary(tokens)
    while (operation := BINARY.get(tokens[0], (-1, operator.add)))[0] >= least:
        tokens.popleft()
        precedence, function = operation
        value = int(function(value, _binary(tokens, precedence + 1)))
    return value


def _unary(tokens: deque[str]) -> int:
    """Return the value of a number, an expression in parentheses, or a unary operator before it."""
    token = tokens.popleft()
    if token == "(":
        value = _value(tokens)
        if tokens.popleft() != ")":
            raise ValueError("no closing parenthesis")
        return value
    if token in UNARY:
        return int(UNARY[token](_unary(tokens)))
    return c_integer(token.rstrip("uUlL").replace("'", ""))


def _without_comments(directive: str) -> str:
    return re.sub(r"/\*.*?\*/|//.*", " ", directive.replace("\\\n", " "), flags=re.DOTALL)


def c_integer(text: str) -> int:
    """The value of an integer as C writes it: decimal, octal, hexadecimal or binary.

    Raises ValueError for any other text.
    """
    if "_" in text:  # a separator of Python
        raise ValueError(f"{text!r} is no integer of C")
    if text[:2] in ("0x", "0X", "0b", "0B"):
        return int(text, 0)
    return int(text, 8) if re.fullmatch("0[0-7]+", text) else int(text)


def pragma_of(text: str, line: int) -> Pragma | None:
    """Return `#pragma HLS ...`, or the argument of _Pragma, as a pragma; None for other pragmas."""
    match = HLS.match(_without_comments(text).strip())
    if not match:
        return None
    settings: dict[str, str] = {}
    flags = set()
    last = ""
    for word in re.sub(r"\s*=\s*", "=", match[2]).split():
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"\w+", name):
            last = name.lower()
            settings[last] = value
        elif last and (re.match(r"[-+*/%)]", word) or re.search(r"[-+*/%(]$", settings[last])):
            settings[last] += word
        else:
            flags.add(word.lower())
    return Pragma(match[1].lower(), settings, frozenset(flags), line)


def after(tokens: Sequence[Token], i: int) -> int:
    """Return the index after the bracket that closes the bracket at i; i + 1 without a bracket at i."""
    if i >= len(tokens) or tokens[i].text not in OPEN:
        return i + 1
    depth = 0
    for k in range(i, len(tokens)):
        if tokens[k].text in OPEN and tokens[k].kind == "sign":
            depth += 1
        elif tokens[k].text in (")", "]", "}") and tokens[k].kind == "sign":
            depth -= 1
            if depth == 0:
                return k + 1
    return len(tokens)


def split(tokens: Sequence[Token], first: int, end: int) -> tuple[tuple[Token, ...], ...]:
    """Split at the commas outside brackets, those of templates included."""
    parts: list[tuple[Token, ...]] = []
    start = i = first
    angles = 0
    while i < end:
        text = tokens[i].text
        if text in OPEN:
            i = after(tokens, i)
            continue
        if text == "<" and tokens[i - 1].kind == "word":
            angles += 1
        elif text == ">" and angles:
            angles -= 1
        elif text == ">>" and angles:
            angles = max(0, angles - 2)
        elif text == "," and not angles:
            parts.append(tuple(tokens[start:i]))
            start = i + 1
        i += 1
    if start < end:
        parts.append(tuple(tokens[start:end]))
    return tuple(parts)


def qualified(tokens: Sequence[Token], i: int) -> int:
    """Return the index after a name at i, with its scopes and template arguments; i without a name."""
    while i < len(tokens) and (tokens[i].kind == "word" or tokens[i].text == "::"):
        if tokens[i].text == "::":
            i += 1
            continue
        i += 1
        if i < len(tokens) and tokens[i].text == "<":
            depth, k = 0, i
            while k < len(tokens):
                text = tokens[k].text
                if text in OPEN:
                    k = after(tokens, k)
                    continue
                depth += (text == "<") - (text == ">") - 2 * (text == ">>")
                k += 1
                if depth <= 0 or text in (";", "}"):
                    break
            if depth > 0 or tokens[k - 1].text not in (">", ">>"):
                return i
            i = k
        if i >= len(tokens) or tokens[i].text != "::":
            return i
    return i


def declared(tokens: Sequence[Token]) -> Iterator[tuple[Token, Sequence[Token]]]:
    """Yield the variables that a statement declares, each with the tokens after its name."""
    i = 0
    while i < len(tokens) and tokens[i].text in BEFORE_TYPES:
        i += 1
    if i >= len(tokens) or tokens[i].kind != "word" or tokens[i].text in NOT_DECLARED:
        return
    if tokens[i].text in ("struct", "class", "typename", "enum"):
        i += 1
    end = qualified(tokens, i)
    while end < len(tokens) - 1 and (
        tokens[end].text in BUILT_IN
        or (tokens[end].kind == "word" and tokens[end + 1].kind == "word")
    ):
        end += 1  # unsigned long x; unsigned int* x; T const x
    for part in split(tokens, end, len(tokens)):
        k = 0
        while k < len(part) and part[k].text in AFTER_TYPES:
            k += 1
        if k >= len(part) or part[k].kind != "word" or part[k].text in NOT_DECLARED:
            return
        suffix = part[k + 1 :]
        if suffix and suffix[0].text not in ("[", "(", "{", "=", ":"):
            return
        yield part[k], suffix
