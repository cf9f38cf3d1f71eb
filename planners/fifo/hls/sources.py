"""C++ sources of a dataflow design: the files with their headers, and the functions in them.

`SourceDesign.read` tokenises a file and the headers that it includes, and `find_functions` finds the
functions. The text of both branches of an `#if` is stored; only the compiled branch is tokenised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from planners.fifo.hls.cpp_tokens import (
    OPEN,
    TOKEN,
    Conditions,
    Token,
    TokenisedFile,
    after,
    declared,
    qualified,
    split,
)

INCLUDE = re.compile(r'#\s*include\s*(["<])([^">]+)[">]')
DIRECTIVE = re.compile(r"#\s*(\w*)(.*)", re.DOTALL)
ALIAS_TOKENS = 40  # most tokens of a declaration of an alias
STREAM_TYPES = frozenset(("stream", "streams", "stream_of_blocks", "round_robin", "load_balance"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function that is defined in the sources: its parameters and body as tokens.

    body: the positions of its braces in `tokens`. file: number of the source. scope: such as
    "::namespace::class"; "" outside of namespaces and classes.
    """

    name: str
    parameters: tuple[tuple[Token, ...], ...]
    body: tuple[int, int]
    tokens: Sequence[Token]
    file: int
    line: int
    is_constant: bool
    is_template: bool
    scope: str


class GlobalStream(NamedTuple):
    """A stream that is declared outside of functions and classes; name: with its namespaces."""

    name: str
    file: int
    line: int


class Unbalanced(NamedTuple):
    """The first bracket of a source without a counterpart."""

    file: int
    line: int
    bracket: str


class _OpenCondition(NamedTuple):
    """An `#if` before its `#endif`.

    is_compiled: whether the code around the `#if` is compiled. was_taken: whether a branch was
    taken; then no later branch is compiled.
    """

    is_compiled: bool
    was_taken: bool


class SourceDesign:
    """The sources of a design: files by path, functions by name, and the names of stream types.

    folders: of headers. shipped: names of headers that are not the user's; they are not read.
    """

    def __init__(
        self, *, folders: Sequence[Path], shipped: frozenset[str], defines: Iterable[str]
    ) -> None:
        self.sources: dict[Path, TokenisedFile] = {}
        self.functions: dict[str, list[Function]] = {}
        self.stream_types = set(STREAM_TYPES)
        self.global_streams: list[GlobalStream] = []
        self.included: set[Path] = set()
        self.unbalanced: list[Unbalanced] = []
        self._folders, self._shipped = folders, shipped
        self._conditions = Conditions(defines)

    def source(self, number: int) -> TokenisedFile:
        """Return a source by its number, the order in which the sources were read."""
        return list(self.sources.values())[number]

    # -- preprocessor ---------------------------------------------------------------------------------

    def read(self, path: Path, text: str, *, is_bench: bool = False) -> TokenisedFile:
        """Add a source and the user's headers that it includes; a test bench is only copied."""
        source = TokenisedFile(path, text, len(self.sources), is_bench=is_bench)
        self.sources[path] = source
        conditions: list[_OpenCondition] = []
        is_active = True
        for match in TOKEN.finditer(text):
            kind = match.lastgroup or ""
            if kind == "directive":
                is_active = self._follow(source, match, conditions, is_active=is_active)
            elif is_active and kind not in ("space", "newline"):
                source.tokens.append(Token(kind, match[0], match.start()))
        return source

    def _follow(
        self,
        source: TokenisedFile,
        match: re.Match[str],
        conditions: list[_OpenCondition],
        *,
        is_active: bool,
    ) -> bool:
        """Follow a directive; return whether the code after it is compiled."""
        text = match[0].replace("\\\n", " ")
        directive = DIRECTIVE.match(text)
        name, argument = directive.groups() if directive else ("", "")
        if name in ("if", "ifdef", "ifndef"):
            holds = self._holds(name, argument)
            conditions.append(_OpenCondition(is_active, holds))
            return is_active and holds
        if name in ("elif", "else") and conditions:
            is_compiled, was_taken = conditions[-1]
            holds = not was_taken and (name == "else" or self._conditions.holds(argument))
            conditions[-1] = _OpenCondition(is_compiled, was_taken or holds)
            return is_compiled and holds
        if name == "endif" and conditions:
            return conditions.pop().is_compiled
        if is_active and name in ("define", "undef"):
            self._conditions.define(match[0])
        elif is_active and name == "include":
            self._include(source, text)
        elif is_active and name == "pragma":
            source.tokens.append(Token("pragma", match[0], match.start()))
        return is_active

    def _holds(self, name: str, argument: str) -> bool:
        """Whether the condition of an `#if`, `#ifdef` or `#ifndef` holds."""
        if name == "if":
            return self._conditions.holds(argument)
        is_defined = "".join(argument.split()[:1]) in self._conditions.macros
        return is_defined == (name == "ifdef")

    def _include(self, source: TokenisedFile, text: str) -> None:
        """Read the user's header that a directive names, if it was not read before."""
        match = INCLUDE.match(text)
        if not match or match[2] in self._shipped:
            return
        folders = ([source.path.parent] if match[1] == '"' else []) + list(self._folders)
        for folder in folders:
            path = (folder / match[2]).resolve()
            if path.is_file():
                self.included.add(path)
                if path not in self.sources:
                    self.read(path, path.read_text(encoding="utf-8", errors="surrogateescape"))
                return

    # -- scopes ---------------------------------------------------------------------------------------

    def find_functions(self) -> None:
        """Find the names of types that are streams, then all functions that are defined."""
        self._find_stream_types()
        for source in self.sources.values():
            if not source.is_bench and self._is_balanced(source):
                self._scope(source, 0, "")

    def _find_stream_types(self) -> None:
        """Add the names of streams: `typedef hls::stream<int> fifo;`, `using lane = fifo;`.

        An alias may name an alias that is read later, so the search ends when no name is added.
        """
        aliases = [alias for source in self.sources.values() for alias in _aliases(source.tokens)]
        known = 0
        while known < len(self.stream_types):
            known = len(self.stream_types)
            for name, meaning in aliases:
                if not self.stream_types.isdisjoint(meaning):
                    self.stream_types.add(name)

    def _is_balanced(self, source: TokenisedFile) -> bool:
        """Whether all brackets of a source are closed; the first that is not is noted."""
        opened: list[Token] = []
        for token in source.tokens:
            if token.kind == "sign" and token.text in OPEN:
                opened.append(token)
            elif token.kind == "sign" and token.text in (")", "]", "}"):
                if not opened or OPEN[opened[-1].text] != token.text:
                    opened.append(token)
                    break
                opened.pop()
        if opened:
            bracket = opened[-1]
            line = source.line(bracket.start)
            self.unbalanced.append(Unbalanced(source.number, line, bracket.text))
        return not opened

    def _scope(self, source: TokenisedFile, first: int, scope: str) -> int:
        """Read the declarations of a file, a namespace or a class; return the position after it.

        A declaration begins at `head` and ends with `;` or with the block of a function. The block of
        a class or a value does not end it: `struct pair { int a, b; } x;` still declares x.
        """
        tokens = source.tokens
        head = i = first
        while i < len(tokens):
            text = tokens[i].text
            if text == "}":
                return i + 1
            if text in "([":
                i = after(tokens, i)
            elif text == "{":
                i, ends_declaration = self._braces(source, head, i, scope)
                head = i if ends_declaration else head
            else:
                if text == ";":
                    self._global(source, head, i, scope)
                    head = i + 1
                elif text == ":" and tokens[i - 1].text in ("public", "private", "protected"):
                    head = i + 1
                i += 1
        return i

    def _braces(self, source: TokenisedFile, head: int, brace: int, scope: str) -> tuple[int, bool]:
        """Read a block in braces; return the position after it, and whether it ends the declaration.

        The tokens from `head` to the brace decide whose block it is, tested in this order:

            namespace n {                 extern "C" {          namespace
            template <int N> int f(int x[N]) {                  function: "(" without "=" before it
            struct s {                                          class
            int table[] = {                                     value; enums and initialisers too
        """
        tokens = source.tokens
        texts = [token.text for token in tokens[head:brace] if token.kind != "pragma"]
        if "namespace" in texts[:2] or (texts[:1] == ["extern"] and len(texts) == 2):
            inner = "" if "extern" in texts else "::".join([scope, texts[-1]])
            return self._scope(source, brace + 1, inner), True
        start = head
        while start < brace and tokens[start].text == "template":
            start = max(qualified(tokens, start), start + 1)
        end = after(tokens, brace)
        before = [token.text for token in tokens[start:brace]]
        before = before[: before.index("(")] if "(" in before else before
        if "=" in before and "operator" not in before:
            return end, False
        opening = _parameter_list(tokens, start, brace)
        if opening is not None:
            self._add_function(source, texts, opening, brace, scope)
            return end, True
        if "enum" not in texts and not {"class", "struct", "union"}.isdisjoint(texts):
            return self._scope(source, brace + 1, f"{scope}::class"), False
        return end, False

    def _add_function(
        self, source: TokenisedFile, head: Sequence[str], opening: int, brace: int, scope: str
    ) -> None:
        """Record a function. head: texts before its body; opening: of its parameter list."""
        tokens, name = source.tokens, source.tokens[opening - 1]
        if name.kind == "word":
            function = Function(
                name=name.text,
                parameters=split(tokens, opening + 1, after(tokens, opening) - 1),
                body=(brace, after(tokens, brace) - 1),
                tokens=tokens,
                file=source.number,
                line=source.line(name.start),
                is_constant="constexpr" in head or "consteval" in head,
                is_template=head[:1] == ["template"],
                scope=scope,
            )
            self.functions.setdefault(name.text, []).append(function)

    def _global(self, source: TokenisedFile, head: int, end: int, scope: str) -> None:
        """Record the streams that a statement outside of functions and classes declares."""
        tokens = source.tokens[head:end]
        if scope.endswith("class") or not self.stream_types.intersection(t.text for t in tokens):
            return
        for name, _ in declared(tokens):
            line = source.line(name.start)
            self.global_streams.append(GlobalStream(f"{scope}::{name.text}", source.number, line))

    # -- top functions --------------------------------------------------------------------------------

    def tops(self) -> list[Function]:
        """Return the functions with a region, or tasks, that no other function of the sources calls."""
        called: set[str] = set()
        candidates = []
        for functions in self.functions.values():
            for function in functions:
                first, last = function.body
                body = function.tokens[first:last]
                texts = {token.text for token in body}
                called |= texts - {function.name}
                is_region = any(
                    token.kind == "pragma"
                    and re.search(r"HLS\s+DATAFLOW", token.text, re.IGNORECASE)
                    for token in body
                )
                if is_region or "invoke" in texts or "hls_thread_local" in texts:
                    candidates.append(function)
        return [function for function in candidates if function.name not in called] or candidates


def _parameter_list(tokens: Sequence[Token], start: int, end: int) -> int | None:
    """Return the position of the first parenthesis that does not belong to an attribute, if any."""
    for position in range(start, end):
        is_attribute = position and tokens[position - 1].text in ("__attribute__", "alignas")
        if tokens[position].text == "(" and not is_attribute:
            return position
    return None


def _aliases(tokens: Sequence[Token]) -> Iterator[tuple[str, list[str]]]:
    """Yield each name that a `typedef` or `using` declares, with the tokens of the declaration."""
    for position, token in enumerate(tokens):
        if token.text in ("typedef", "using"):
            statement = [token.text for token in tokens[position : position + ALIAS_TOKENS]]
            texts = statement[1 : statement.index(";")] if ";" in statement else []
            if texts and token.text == "typedef":
                yield texts[-1], texts[:-1]
            elif "=" in texts:
                yield texts[0], texts[1:]
