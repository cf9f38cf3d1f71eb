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

    def of(self, tokens: Sequence[Token], name: str) -> str:
        """Return the usage of a variable, by iteration to a fixed point over the parameters.

        The usage of a parameter is "" at first and only grows, so the iteration ends.
        """
        settled = len(self._parameters)
        while True:
            before = dict(self._parameters)
            usage = self._in_tokens(tokens, name)
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
                is_by_value = {"*", "&", "&&", "["}.isdisjoint(token.text for token in parameter)
                if is_by_value or not names:
                    usage.add("r")
                else:
                    first, last = function.body
                    usage.update(self._in_tokens(function.tokens[first : last + 1], names[0]))
        return "".join(sorted(usage))

    def _in_tokens(self, tokens: Sequence[Token], name: str) -> str:
        """Return the usage of a variable with the usage of parameters that is known so far."""
        usage = set[str]()
        opened: list[_OpenBracket] = []
        target_end = 0  # the end of a bracket with the address that is written, as in *(x + i) = 1
        for position, token in enumerate(tokens):
            before = tokens[position - 1].text if position else ""
            if token.text in OPEN and token.kind == "sign":
                callee = _callee(tokens, position) if token.text == "(" else ""
                opened.append(_OpenBracket(callee, 0))
                close = after(tokens, position)
                if before == "*" and close < len(tokens) and tokens[close].text == "=":
                    target_end = close
            elif token.text in (")", "]", "}") and opened:
                opened.pop()
            elif token.text == "," and opened:
                opened[-1] = _OpenBracket(opened[-1].callee, opened[-1].argument + 1)
            elif token.text == name and token.kind == "word" and before not in (".", "->"):
                bracket = opened[-1] if opened else _OpenBracket("", 0)
                is_target = position < target_end
                usage.update(self._access(tokens, position, bracket, is_target=is_target))
        return "".join(sorted(usage))

    def _access(
        self, tokens: Sequence[Token], position: int, bracket: _OpenBracket, *, is_target: bool
    ) -> str:
        """Return how the variable at a position is used there; bracket: the innermost around it.

        is_target: whether the variable is part of an address that is written. For a variable x:

            w    x[i].re = 1;   *(x + i) = 1;   *x++ = 1;   memcpy(x, y, 8);   in.read(x);   in >> x;
            rw   x += 1;   ++x;
            r    y = x[i];   print(x);   y = a >> x;
            as the parameter of f, if f is defined in the sources:   f(y, x);
        """
        end = position + 1  # after the subscripts, members and calls that follow the variable
        while end < len(tokens) and tokens[end].text in ("[", ".", "->"):
            end = after(tokens, end) if tokens[end].text == "[" else end + 2
            if end < len(tokens) and tokens[end].text == "(":
                end = after(tokens, end)
        before = tokens[position - 1].text if position else ""
        following, second = ([token.text for token in tokens[end : end + 2]] + ["", ""])[:2]
        is_stepped = before == "*" and following in ("++", "--") and second == "="
        if following == "=" or is_target or is_stepped:
            return "w"
        if following in ("++", "--") or before in ("++", "--") or following in ASSIGNMENTS:
            return "rw"
        callee, argument = bracket
        if callee in self._functions:
            return self._parameters.setdefault((callee, argument), "")
        is_read_into = callee.startswith(("read", "try_read")) and argument == 0
        is_written = argument == WRITTEN_ARGUMENT.get(callee) or is_read_into
        return "w" if is_written or _is_extracted(tokens, position) else "r"


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
