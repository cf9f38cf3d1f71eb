"""Whether tokens of C++ read or write a variable, also through the functions that they call.

For example, with

    void fill(int* x) { x[0] = 1; }
    void copy(int* x, int* y) { fill(x); y[0] = x[0]; }

the statement `copy(a, b);` uses a as "rw" and b as "w". The usage of a parameter is the usage
of its variable in the bodies of all functions of the name; functions may call each other in a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from planners.fifo.hls.cpp_tokens import ASSIGNMENTS, OPEN, Token, after, declared
from planners.fifo.hls.sources import Function

# The argument that functions of the standard library write.
WRITTEN_ARGUMENT = {"memcpy": 0, "memset": 0, "memmove": 0, "copy": 2}
# Texts before a brace that opens a block of statements, not an initialiser.
BEFORE_BLOCK = (")", "]", "{", "}", ";", ":", "else", "do")


class _OpenBracket(NamedTuple):
    """An open bracket: the function that it calls, or "", and the index of the current argument."""

    callee: str
    argument: int


class VariableUsage:
    """How tokens use a variable: "r" if they read it, "w" if they write it, "rw", or ""."""

    def __init__(self, functions: Mapping[str, Sequence[Function]]) -> None:
        self._functions = functions
        self._parameters: dict[tuple[str, int], str] = {}  # usage, by function and argument

    def of(self, tokens: Sequence[Token], name: str, *, is_array: bool = False) -> str:
        """Return the usage of a variable, by iteration to a fixed point over the parameters.

        is_array: whether it is declared as an array, so that it is the pointer of any sum with it.
        The usage of a parameter is "" at first and only grows, so the iteration ends.
        """
        settled = len(self._parameters)
        while True:
            before = dict(self._parameters)
            usage = self._in_tokens(tokens, name, is_array=is_array)
            # The functions that were met last first: the usage of a parameter depends on callees.
            for parameter in reversed(list(self._parameters)[settled:]):
                self._parameters[parameter] = self._of_parameter(*parameter)
            if self._parameters == before:
                return usage

    def _of_parameter(self, name: str, argument: int) -> str:
        """Return how the functions of a name use their parameter at the index `argument`."""
        usage: set[str] = set()
        for function in self._functions[name]:
            for parameter in function.parameters[argument : argument + 1]:
                names = [token.text for token, _ in declared(parameter)]
                signs = {"*", "&", "&&", "["}.intersection(token.text for token in parameter)
                if not signs or not names:
                    usage.add("r")
                else:
                    first, last = function.body
                    body = function.tokens[first : last + 1]
                    is_array = not signs.isdisjoint(("*", "["))
                    usage.update(self._in_tokens(body, names[0], is_array=is_array))
        return "".join(sorted(usage))

    def _in_tokens(self, tokens: Sequence[Token], name: str, *, is_array: bool) -> str:
        """Return the usage of a variable with the usage of parameters that is known so far."""
        usage = set[str]()
        opened: list[_OpenBracket] = []
        for position, token in enumerate(tokens):
            before = tokens[position - 1].text if position else ""
            if token.text in OPEN and token.kind == "sign":
                callee = _callee(tokens, position) if token.text == "(" else ""
                opened.append(_OpenBracket(callee, 0))
            elif token.text in (")", "]", "}") and opened:
                opened.pop()
            elif token.text == "," and opened:
                opened[-1] = _OpenBracket(opened[-1].callee, opened[-1].argument + 1)
            elif token.text == name and token.kind == "word" and before not in (".", "->"):
                bracket = opened[-1] if opened else _OpenBracket("", 0)
                usage.update(self._access(tokens, position, bracket, is_array=is_array))
        return "".join(sorted(usage))

    def _access(
        self, tokens: Sequence[Token], position: int, bracket: _OpenBracket, *, is_array: bool
    ) -> str:
        """Return how the variable at a position is used there; bracket: the innermost around it.

        For a variable x:

            w    x[i].re = 1;   *(x + i) = 1;   *x++ = 1;   memcpy(x, y, 8);   in.read(x);   in >> x;
            rw   x += 1;   ++x;   (*x)++;
            r    y = x[i];   print(x);   y = a >> x;   *(y + x) = 1;
            as the parameter of f, if f is defined in the sources:   f(y, x);
        """
        end, is_stepped = _operand(tokens, position, is_array=is_array)
        following = _text(tokens, end)
        if following == "=":
            return "w"
        if is_stepped or following in ASSIGNMENTS:
            return "rw"
        callee, argument = bracket
        if callee in self._functions:
            return self._parameters.setdefault((callee, argument), "")
        is_read_into = callee.startswith(("read", "try_read")) and argument == 0
        is_written = argument == WRITTEN_ARGUMENT.get(callee) or is_read_into
        return "w" if is_written or _is_extracted(tokens, position) else "r"


def _text(tokens: Sequence[Token], position: int) -> str:
    """Return the text of a token; "" before the first token and after the last token."""
    return tokens[position].text if 0 <= position < len(tokens) else ""


def _operand(tokens: Sequence[Token], position: int, *, is_array: bool) -> tuple[int, bool]:
    """Return the end of the operand that contains the data of a variable, and whether `++` steps it.

    The operand is extended over subscripts, members, casts, dereferences and brackets, as far as
    `(*(x + i)).re` for x. The pointer of a sum is the array, or else the first term.
    """
    start, end, is_stepped = position, position + 1, False
    if is_array and _text(tokens, start - 1) == "+" and _text(tokens, end) in ("+", "-", ")"):
        # A later term of the sum: its brackets enclose the pointer, as in `*(2 * i + x)`.
        while start > 0 and _text(tokens, start - 1) not in OPEN:
            start = _opening(tokens, start - 1) if _text(tokens, start - 1) == ")" else start - 1
    while True:
        while (sign := _text(tokens, end)) in ("[", ".", "->", "++", "--"):
            is_stepped |= sign in ("++", "--")
            end = end + 2 if sign in (".", "->") else after(tokens, end)
            if sign in (".", "->") and _text(tokens, end) == "(":
                end = after(tokens, end)
        while (sign := _text(tokens, start - 1)) in ("*", "&", "++", "--", ")"):
            if sign in ("++", "--"):
                if start < position and _ends_operand(tokens, start - 2):
                    break  # the step of another operand, as in `i++ * x`
                is_stepped = True
            start = _opening(tokens, start - 1) if sign == ")" else start - 1
        if _text(tokens, start - 1) != "(":
            return end, is_stepped
        close = after(tokens, start - 1)
        is_address = _text(tokens, start - 2) == "*" or _text(tokens, close) in ("[", "->")
        is_sum = _text(tokens, end) in ("+", "-") and is_address
        callee = _callee(tokens, start - 1)
        if (close != end + 1 and not is_sum) or (callee and not callee.endswith("_cast")):
            return end, is_stepped
        start, end = start - 1, close
        while callee and _text(tokens, start) != callee:
            start -= 1


def _opening(tokens: Sequence[Token], close: int) -> int:
    """Return the position of the bracket that the bracket at `close` closes; 0 if it is not there."""
    depth = 0
    for position in range(close, -1, -1):
        depth += (tokens[position].text in OPEN.values()) - (tokens[position].text in OPEN)
        if not depth:
            return position
    return 0


def _ends_operand(tokens: Sequence[Token], position: int) -> bool:
    return position >= 0 and (
        tokens[position].kind != "sign" or tokens[position].text in (")", "]")
    )


def _callee(tokens: Sequence[Token], parenthesis: int) -> str:
    """Return the name before an opening parenthesis, template arguments passed over; or ""."""
    position = parenthesis - 1
    if position >= 0 and tokens[position].text == ">":
        depth = 0
        while position >= 0:
            depth += (tokens[position].text == ">") - (tokens[position].text == "<")
            position -= 1
            if depth == 0:
                break
    return tokens[position].text if position >= 0 and tokens[position].kind == "word" else ""


def _is_extracted(tokens: Sequence[Token], position: int) -> bool:
    """Whether a stream writes the variable at a position, as x in `in >> x;`.

    `>>` shifts where its value is used: `y = a >> x;`, `return a >> x;`, `f(a >> x);`, `T y{a >> x};`.
    """
    if [token.text for token in tokens[max(position - 2, 0) : position]] != [">", ">"]:
        return False
    depth = 0  # of brackets between the variable and the token before it
    for earlier in range(position - 1, -1, -1):
        text = tokens[earlier].text
        if not depth and text in (";", "}"):
            return True
        if text in OPEN:
            if not depth:
                return text == "{" and (not earlier or tokens[earlier - 1].text in BEFORE_BLOCK)
            depth -= 1
        elif text in OPEN.values():
            depth += 1
        elif not depth and (text in ("return", "?") or text in ASSIGNMENTS):
            return False
    return True
