"""C++ sources of a dataflow design: functions, regions, and which processes write and read variables.

A trace is the output of one run of the instrumented design. Each statement of a region is a site, with
a number; a run of a site in a trace is a process:

    void top(...) {            site 1
    #pragma HLS dataflow
        load(x, a);            site 2 writes a
        sum(a, y);             site 3 reads a, so that its process starts after the process of site 2
    }

`SourceDesign.read` tokenises the files and `find_functions` finds the functions. The module
`instrument` then adds sites, loops and variables, and asks `users` which sites write and read an array.
The text of both branches of an `#if` is stored; only the branch that C simulation compiles is
tokenised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from planners.fifo.hls.cpp_tokens import (
    OPEN,
    TOKEN,
    Conditions,
    Pragma,
    Token,
    TokenisedFile,
    after,
    declared,
    qualified,
    split,
)

# The argument that functions of the standard library write.
WRITTEN_ARGUMENT = {"memcpy": 0, "memset": 0, "memmove": 0, "copy": 2}
ASSIGNMENT = re.compile(r"(?:[-+*/%&|^]|<<|>>)?=")
INCLUDE = re.compile(r'#\s*include\s*(["<])([^">]+)[">]')
TOP_SITE = 1  # number of the top function among the sites that start a process
FIRST_SITE = 2  # number of the first statement among the sites


@dataclass(slots=True, kw_only=True)
class LoopText:
    """A loop; number: among the loops without a label of its function, from 1."""

    label: str
    line: int
    file: int
    function: str
    number: int
    pragmas: list[Pragma] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Site:
    """A statement that starts a process: a call, or a loop in the region.

    number: of the site in a trace, from FIRST_SITE. is_wrapped: whether the instrumentation encloses
    the statement in a lambda, `run(2, {}, false, [&]{load(x, a);});`. The number of an unwrapped
    statement is inserted into the statement, or before and after it.
    """

    number: int
    name: str
    kind: str  # call, loop, task, top
    line: int
    file: int
    region: int
    tokens: Sequence[Token] = ()
    start: int = 0
    end: int = 0
    is_replicated: bool = False
    indices: tuple[str, ...] = ()  # counters of the unrolled loops around it
    is_inline: bool = False
    is_wrapped: bool = True


@dataclass(slots=True, kw_only=True)
class Function:
    """A function that is defined in the sources: its parameters and body as tokens."""

    name: str
    parameters: tuple[tuple[Token, ...], ...]
    body: tuple[int, int]  # the numbers of its braces in `tokens`
    tokens: Sequence[Token]
    file: int
    line: int
    is_constant: bool
    is_template: bool
    scope: str


@dataclass(slots=True, kw_only=True)
class RegionVariable:
    """A variable of a region that is no stream: an array, or a scalar."""

    name: str
    line: int
    region: int
    is_array: bool
    at: int


class _OpenCondition(NamedTuple):
    """An `#if` before its `#endif`."""

    is_compiled: bool  # whether the code around the `#if` is compiled
    was_taken: bool  # whether a branch was taken: later branches are not compiled


class _OpenBracket(NamedTuple):
    """An open bracket: the function that it calls, or "", and the index of the current argument."""

    callee: str
    argument: int


class SourceDesign:
    """All sources of a design: functions, regions, processes, loops; and the insertions for a trace."""

    def __init__(
        self, *, folders: Sequence[Path], shipped: frozenset[str], defines: Iterable[str]
    ) -> None:
        self.top: Function | None = None
        self.sources: dict[Path, TokenisedFile] = {}
        self.functions: dict[str, list[Function]] = {}
        self.loops: list[LoopText] = [LoopText(label="", line=0, file=0, function="", number=0)]
        self.sites: list[Site] = []
        self.regions: list[tuple[Function, int]] = []
        self.variables: list[RegionVariable] = []
        self.stream_types = {"stream", "streams", "stream_of_blocks", "round_robin", "load_balance"}
        self.global_streams: list[tuple[str, int, int]] = []
        self.included: set[Path] = set()
        self.task_names: set[str] = set()
        self.unbalanced: list[tuple[int, int, str]] = []  # source, line, bracket
        self._folders, self._shipped = folders, shipped
        self._conditions = Conditions(defines)
        self._directions: dict[tuple[str, int], str] = {}  # usage of a parameter of a function
        self._users: dict[int, dict[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {}

    # -- reading --------------------------------------------------------------------------------------

    def read(self, path: Path, text: str, *, is_bench: bool = False) -> TokenisedFile:
        """Add a source and the user's headers that it includes; a test bench is only copied."""
        source = TokenisedFile(path, text, len(self.sources), is_bench=is_bench)
        self.sources[path] = source
        open_conditions: list[_OpenCondition] = []
        is_active = True
        for match in TOKEN.finditer(text):
            kind = match.lastgroup or ""
            if kind in ("space", "newline", "mark"):
                if kind != "mark":
                    continue
                kind = "string"
            if kind == "directive":
                is_active = self._direct(source, match, open_conditions, is_active=is_active)
            elif is_active:
                source.tokens.append(Token(kind, match[0], match.start()))
        return source

    def _direct(
        self,
        source: TokenisedFile,
        directive: re.Match[str],
        opened: list[_OpenCondition],
        *,
        is_active: bool,
    ) -> bool:
        """Follow a directive; return whether the code after it is compiled."""
        text = directive[0].replace("\\\n", " ")
        word = re.match(r"\w*", text[1:].strip())
        name = word[0] if word else ""
        suffix = text[1:].strip()[len(name) :]
        if name in ("if", "ifdef", "ifndef"):
            holds = (
                self._conditions.holds(suffix)
                if name == "if"
                else (suffix.split() or [""])[0] in self._conditions.macros
            )
            holds = holds != (name == "ifndef")
            opened.append(_OpenCondition(is_active, holds))
            return is_active and holds
        if name in ("elif", "else") and opened:
            is_compiled, was_taken = opened[-1]
            holds = not was_taken and (name == "else" or self._conditions.holds(suffix))
            opened[-1] = _OpenCondition(is_compiled, was_taken or holds)
            return is_compiled and holds
        if name == "endif" and opened:
            return opened.pop().is_compiled
        if not is_active:
            return False
        if name in ("define", "undef"):
            self._conditions.define(directive[0])
        elif name == "include":
            self._include(source, text)
        elif name == "pragma":
            source.tokens.append(Token("pragma", directive[0], directive.start()))
        return True

    def _include(self, source: TokenisedFile, text: str) -> None:
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
        """Find all functions that are defined, and the names of types that are streams."""
        for source in self.sources.values():
            for i, token in enumerate(source.tokens):
                if token.text in ("typedef", "using"):
                    statement = [t.text for t in source.tokens[i : i + 40]]
                    statement = statement[: statement.index(";")] if ";" in statement else []
                    if self.stream_types.intersection(statement):
                        name = statement[1] if token.text == "using" else statement[-1]
                        if token.text == "typedef" or "=" in statement:
                            self.stream_types.add(name)
            if not source.is_bench and self._is_balanced(source):
                self._scope(source, 0, "")

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
            self.unbalanced.append((source.number, source.line(opened[-1].start), opened[-1].text))
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
        texts = [t.text for t in tokens[head:brace] if t.kind != "pragma"]
        if "namespace" in texts[:2] or (texts[:1] == ["extern"] and len(texts) == 2):
            inner = "" if "extern" in texts else "::".join([scope, texts[-1]])
            return self._scope(source, brace + 1, inner), True
        start = head
        while start < brace and tokens[start].text == "template":
            start = max(qualified(tokens, start), start + 1)
        before = [t.text for t in tokens[start:brace]]
        before = before[: before.index("(")] if "(" in before else before
        is_value = "=" in before and "operator" not in before
        opening = next(
            (
                k
                for k in range(start, brace)
                if tokens[k].text == "("
                and not (k and tokens[k - 1].text in ("__attribute__", "alignas"))
            ),
            None,
        )
        end = after(tokens, brace)
        if "(" in texts and opening is not None and not is_value:
            name = tokens[opening - 1]
            if name.kind == "word":
                function = Function(
                    name=name.text,
                    parameters=split(tokens, opening + 1, after(tokens, opening) - 1),
                    body=(brace, end - 1),
                    tokens=tokens,
                    file=source.number,
                    line=source.line(name.start),
                    is_constant="constexpr" in texts or "consteval" in texts,
                    is_template=texts[:1] == ["template"],
                    scope=scope,
                )
                self.functions.setdefault(name.text, []).append(function)
            return end, True
        is_class = not {"class", "struct", "union"}.isdisjoint(texts) and "enum" not in texts
        if is_class and not is_value:
            return self._scope(source, brace + 1, scope + "::class"), False
        return end, False

    def _global(self, source: TokenisedFile, head: int, end: int, scope: str) -> None:
        """Record the streams that a statement outside of functions and classes declares."""
        tokens = source.tokens[head:end]
        if scope.endswith("class") or not self.stream_types.intersection(t.text for t in tokens):
            return
        for name, _ in declared(tokens):
            self.global_streams.append(
                (scope + "::" + name.text, source.number, source.line(name.start))
            )

    # -- top functions, and users of variables --------------------------------------------------------

    def tops(self) -> list[Function]:
        """Return the functions with a region, or tasks, that no other function of the sources calls."""
        called: set[str] = set()
        candidates = []
        for functions in self.functions.values():
            for function in functions:
                first, last = function.body
                texts = [t.text for t in function.tokens[first:last]]
                called.update(t for t in texts if t != function.name)
                is_region = any(
                    t.kind == "pragma" and re.search(r"HLS\s+DATAFLOW", t.text, re.IGNORECASE)
                    for t in function.tokens[first:last]
                )
                if is_region or "invoke" in texts or "hls_thread_local" in texts:
                    candidates.append(function)
        return [function for function in candidates if function.name not in called] or candidates

    def users(self, variable: RegionVariable) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of the sites that write a variable of a region, and of its readers."""
        if variable.name not in self._users.setdefault(variable.region, {}):
            writers, readers = [], []
            for site in self.sites:
                if site.region == variable.region:
                    usage = self._settled_usage(site.tokens, variable.name)
                    writers += [site.number] if "w" in usage else []
                    readers += [site.number] if "r" in usage else []
            self._users[variable.region][variable.name] = tuple(writers), tuple(readers)
        return self._users[variable.region][variable.name]

    def _settled_usage(self, tokens: Sequence[Token], name: str) -> str:
        """Return `_usage` with the final directions of all parameters, by iteration to a fixed point.

        Directions start as "" and only grow, so the loop ends, also if functions call each other.
        """
        settled = len(self._directions)
        while True:
            before = dict(self._directions)
            usage = self._usage(tokens, name)
            # The functions that were met last first: a direction depends on those of its callees.
            for key in reversed(list(self._directions)[settled:]):
                self._directions[key] = self._parameter_usage(*key)
            if self._directions == before:
                return usage

    def _usage(self, tokens: Sequence[Token], name: str) -> str:
        """Return how tokens use a variable: "r" if they read it, "w" if they write it, "rw", or ""."""
        directions = set[str]()
        opened: list[_OpenBracket] = []
        target_end = 0  # the end of a bracket with the address that is written, as in *(x + i) = 1
        for i, token in enumerate(tokens):
            before = tokens[i - 1].text if i else ""
            if token.text in OPEN and token.kind == "sign":
                callee = self._callee(tokens, i) if token.text == "(" else ""
                opened.append(_OpenBracket(callee, 0))
                close = after(tokens, i)
                if before == "*" and close < len(tokens) and tokens[close].text == "=":
                    target_end = close
            elif token.text in (")", "]", "}") and opened:
                opened.pop()
            elif token.text == "," and opened:
                opened[-1] = _OpenBracket(opened[-1].callee, opened[-1].argument + 1)
            elif token.text == name and token.kind == "word" and before not in (".", "->"):
                bracket = opened[-1] if opened else _OpenBracket("", 0)
                is_target = i < target_end
                directions.update(self._access(tokens, i, bracket, is_target=is_target))
        return "".join(sorted(directions))

    def _access(
        self,
        tokens: Sequence[Token],
        i: int,
        bracket: _OpenBracket,
        *,
        is_target: bool,
    ) -> str:
        """Return how the variable at token i is used there; bracket: the innermost around it.

        is_target: whether the variable is part of an address that is written. For a variable x:

            w    x[i].re = 1;   *(x + i) = 1;   *x++ = 1;   memcpy(x, y, 8);   in.read(x);   in >> x;
            rw   x += 1;   ++x;
            r    y = x[i];   print(x);   y = a >> x;
            as the parameter of f, if f is defined in the sources:   f(y, x);
        """
        end = i + 1  # after the subscripts, members and calls that follow the variable
        while end < len(tokens) and tokens[end].text in ("[", ".", "->"):
            end = after(tokens, end) if tokens[end].text == "[" else end + 2
            if end < len(tokens) and tokens[end].text == "(":
                end = after(tokens, end)
        before = tokens[i - 1].text if i else ""
        following, second = ([t.text for t in tokens[end : end + 2]] + ["", ""])[:2]
        is_stepped = before == "*" and following in ("++", "--") and second == "="
        if following == "=" or is_target or is_stepped:
            return "w"
        is_updated = ASSIGNMENT.fullmatch(following)
        if following in ("++", "--") or before in ("++", "--") or is_updated:
            return "rw"
        callee, argument = bracket
        if callee in self.functions:
            return self._directions.setdefault((callee, argument), "")
        destination = WRITTEN_ARGUMENT.get(callee)
        is_read_into = callee.startswith(("read", "try_read")) and argument == 0
        is_written = argument == destination or is_read_into or _is_extracted(tokens, i)
        return "w" if is_written else "r"

    def _callee(self, tokens: Sequence[Token], i: int) -> str:
        """The name before an opening parenthesis, template arguments passed over."""
        k = i - 1
        if k >= 0 and tokens[k].text == ">":
            depth = 0
            while k >= 0:
                depth += (tokens[k].text == ">") - (tokens[k].text == "<")
                k -= 1
                if depth == 0:
                    break
        return tokens[k].text if k >= 0 and tokens[k].kind == "word" else ""

    def _parameter_usage(self, name: str, argument: int) -> str:
        """Return how the functions of a name use their parameter at `argument`, as `_usage`."""
        usage: set[str] = set()
        for function in self.functions[name]:
            if argument < len(function.parameters):
                parameter = function.parameters[argument]
                names = [token.text for token, _ in declared(parameter)]
                is_by_value = {"*", "&", "&&", "["}.isdisjoint(token.text for token in parameter)
                if is_by_value or not names:
                    usage.add("r")
                else:
                    first, last = function.body
                    usage.update(self._usage(function.tokens[first : last + 1], names[0]))
        return "".join(sorted(usage))


def _is_extracted(tokens: Sequence[Token], i: int) -> bool:
    """Whether a stream writes the variable at token i, as x in `in >> x;`.

    `>>` shifts where its value is used: `y = a >> x;`, `return a >> x;`, `f(a >> x);`, `T y{a >> x};`.
    """
    if [token.text for token in tokens[max(i - 2, 0) : i]] != [">", ">"]:
        return False
    depth = 0
    for k in range(i - 1, -1, -1):
        text = tokens[k].text
        if not depth and text in (";", "}"):
            return True
        if text in OPEN:
            if not depth:  # a block, an initialiser, or the arguments of a call
                return text == "{" and (
                    not k or tokens[k - 1].text in (")", "]", "{", "}", ";", ":", "else", "do")
                )
            depth -= 1
        elif text in OPEN.values():
            depth += 1
        elif not depth and (text in ("return", "?") or ASSIGNMENT.fullmatch(text)):
            return False
    return True
