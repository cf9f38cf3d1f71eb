"""C++ sources of a dataflow design, read as tokens, and the insertions that make their run a trace.

Only what is inserted into a text can be wrong, never what is there: no token is changed, moved or
taken away, and every line keeps its number. Both branches of an `#if` that cannot be decided here are
left as they are; the tokens of the one taken by the compiler of C simulation are followed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
INCLUDE = re.compile(r'#\s*include\s*(["<])([^">]+)[">]')
OPEN = {"(": ")", "[": "]", "{": "}"}
LOOPS = ("for", "while", "do", "TAPA_WHILE_NOT_EOT", "TAPA_WHILE_NEITHER_EOT", "TAPA_WHILE_NONE_EOT")
NOT_DECLARED = frozenset(
    "return delete goto using typedef break continue throw static_assert case default new else if for "
    "while do switch try catch sizeof template friend operator this namespace".split()
)
BEFORE_TYPES = frozenset(
    "static const constexpr hls_thread_local thread_local volatile register inline extern mutable".split()
)


class Token(NamedTuple):
    """A token: its kind, text, and where it begins in the file."""

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where the text after it begins."""
        return self.start + len(self.text)


class Pragma(NamedTuple):
    """`#pragma HLS name key=value flag ...`, all in lower case but the values."""

    name: str
    settings: Mapping[str, str]
    flags: frozenset[str]
    line: int


@dataclass(slots=True, kw_only=True)
class LoopText:
    """A loop statement; number counts the loops of its function that have no label, from 1."""

    label: str
    line: int
    file: int
    function: str
    number: int
    pragmas: list[Pragma] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Site:
    """A statement that starts a process: a call, or a loop in the region."""

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
class Variable:
    """A variable of a region that is no stream: an array, or a scalar."""

    name: str
    line: int
    region: int
    is_array: bool
    at: int


class Source:
    """A file with its tokens and the insertions that were decided."""

    def __init__(self, path: Path, text: str, number: int, *, is_bench: bool) -> None:
        self.path, self.text, self.number, self.is_bench = path, text, number, is_bench
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]
        self.insertions: list[tuple[int, int, str]] = []
        self.tokens: list[Token] = []

    def line(self, at: int) -> int:
        """The line of a place, from 1."""
        return bisect_right(self._lines, at)

    def insert(self, at: int, text: str, rank: int = 0) -> None:
        """Insert before the character `at`; at the same place in the order of rank, then of calls."""
        self.insertions.append((at, rank, text))

    def instrumented(self) -> str:
        """The text with its insertions."""
        pieces, last = [], 0
        for at, _, text in sorted(self.insertions, key=lambda one: one[:2]):
            pieces += [self.text[last:at], text]
            last = at
        return "".join([*pieces, self.text[last:]])


class Conditions:
    """Decides `#if` as far as the macros are known: those given, and those the sources define."""

    def __init__(self, defines: Iterable[str]) -> None:
        self.macros = {}
        for one in defines:
            name, _, value = one.partition("=")
            self.macros[name] = value or "1"

    def define(self, directive: str) -> None:
        """Note a #define or #undef."""
        if found := re.match(r"#\s*define\s+(\w+)(\([^)]*\))?\s*(.*)", directive, re.DOTALL):
            self.macros[found[1]] = "" if found[2] else found[3].strip()
        elif found := re.match(r"#\s*undef\s+(\w+)", directive):
            self.macros.pop(found[1], None)

    def holds(self, condition: str) -> bool:
        """Whether a condition holds; what is not known counts as 0."""
        text = re.sub(r"/\*.*?\*/|//.*", " ", condition, flags=re.DOTALL).replace("\\\n", " ")
        text = re.sub(
            r"defined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
            lambda m: str(int((m[1] or m[2]) in self.macros)),
            text,
        )
        for _ in range(8):
            text, changed = re.subn(
                r"[A-Za-z_]\w*", lambda m: f"({self.macros.get(m[0]) or 0})", text
            )
            if not changed:
                break
        text = re.sub(r"\b(0[xX][\da-fA-F]+|\d+)[uUlL]*\b", lambda m: str(c_integer(m[1])), text)
        text = text.replace("&&", " and ").replace("||", " or ")
        text = re.sub(r"!(?!=)", " not ", text).replace("/", "//")
        if not re.fullmatch(r"(?:[\d\s()+*%<>=!-]|//|and|or|not)*", text) or len(text) > 2000 or "**" in text or "<<" in text:
            return False
        try:
            return bool(eval(text, {"__builtins__": {}}))  # noqa: S307 -- digits and signs only
        except (SyntaxError, TypeError, ValueError, ArithmeticError, MemoryError, RecursionError):
            return False


def c_integer(text: str) -> int:
    """The value of an integer as C writes it: decimal, octal or hexadecimal."""
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    return int(text, 8) if re.fullmatch("0[0-7]+", text) else int(text)


def pragma_of(text: str, line: int) -> Pragma | None:
    """Read `#pragma HLS ...`, or what stands in _Pragma; None for other pragmas."""
    text = re.sub(r"/\*.*?\*/|//.*", " ", text.replace("\\\n", " "), flags=re.DOTALL)
    found = HLS.match(text.strip())
    if not found:
        return None
    settings: dict[str, str] = {}
    flags = set()
    last = ""
    for word in re.sub(r"\s*=\s*", "=", found[2]).split():
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"\w+", name):
            last = name.lower()
            settings[last] = value
        elif last and (re.match(r"[-+*/%)]", word) or re.search(r"[-+*/%(]$", settings[last])):
            settings[last] += word
        else:
            flags.add(word.lower())
    return Pragma(found[1].lower(), settings, frozenset(flags), line)


class Design:
    """All sources of a design: functions, regions, processes, loops; and the insertions for a trace."""

    def __init__(self, *, folders: Sequence[Path], shipped: frozenset[str], defines: Iterable[str]) -> None:
        self.top: Function | None = None
        self.sources: dict[Path, Source] = {}
        self.functions: dict[str, list[Function]] = {}
        self.loops: list[LoopText] = [LoopText(label="", line=0, file=0, function="", number=0)]
        self.sites: list[Site] = []
        self.regions: list[tuple[Function, int]] = []
        self.variables: list[Variable] = []
        self.stream_types = {"stream", "streams", "stream_of_blocks", "round_robin", "load_balance"}
        self.global_streams: list[tuple[str, int, int]] = []
        self.included: set[Path] = set()
        self.task_names: set[str] = set()
        self.unbalanced: list[tuple[int, int, str]] = []  # source, line, bracket
        self._folders, self._shipped = folders, shipped
        self._conditions = Conditions(defines)
        self._directions: dict[tuple[str, int], str] = {}
        self._users: dict[int, dict[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {}

    # -- reading --------------------------------------------------------------------------------------

    def read(self, path: Path, text: str, *, is_bench: bool = False) -> Source:
        """Take in a source and the headers of the user that it includes; a test bench stays as it is."""
        source = Source(path, text, len(self.sources), is_bench=is_bench)
        self.sources[path] = source
        open_conditions: list[tuple[bool, bool, bool]] = []  # active before, active now, taken
        is_active = True
        for found in TOKEN.finditer(text):
            kind = found.lastgroup or ""
            if kind in ("space", "newline", "mark"):
                if kind != "mark":
                    continue
                kind = "string"
            if kind == "directive":
                is_active = self._direct(source, found, open_conditions, is_active=is_active)
            elif is_active:
                source.tokens.append(Token(kind, found[0], found.start()))
        return source

    def _direct(self, source: Source, found: re.Match[str], opened: list[tuple[bool, bool, bool]], *, is_active: bool) -> bool:
        """Follow a directive; return whether what comes after it is compiled."""
        text = found[0].replace("\\\n", " ")
        name, _, rest = text[1:].strip().partition(" ")
        word = re.match(r"\w*", text[1:].strip())
        name = word[0] if word else ""
        rest = text[1:].strip()[len(name) :]
        if name in ("if", "ifdef", "ifndef"):
            holds = self._conditions.holds(rest) if name == "if" else (rest.split() or [""])[0] in self._conditions.macros
            holds = holds != (name == "ifndef")
            opened.append((is_active, is_active and holds, holds))
            return is_active and holds
        if name in ("elif", "else") and opened:
            before, _, taken = opened[-1]
            holds = not taken and (name == "else" or self._conditions.holds(rest))
            opened[-1] = (before, before and holds, taken or holds)
            return before and holds
        if name == "endif" and opened:
            return opened.pop()[0]
        if not is_active:
            return False
        if name in ("define", "undef"):
            self._conditions.define(found[0])
        elif name == "include":
            self._include(source, text)
        elif name == "pragma":
            source.tokens.append(Token("pragma", found[0], found.start()))
        return True

    def _include(self, source: Source, text: str) -> None:
        found = INCLUDE.match(text)
        if not found or found[2] in self._shipped:
            return
        folders = ([source.path.parent] if found[1] == '"' else []) + list(self._folders)
        for folder in folders:
            path = (folder / found[2]).resolve()
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

    def _is_balanced(self, source: Source) -> bool:
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

    def _scope(self, source: Source, i: int, scope: str) -> int:
        """Read a namespace, a class or a file from its first token; return the place after it."""
        tokens = source.tokens
        head = i
        while i < len(tokens):
            text = tokens[i].text
            if text == "}":
                return i + 1
            if text in "([":
                i = after(tokens, i)
                continue
            if text == ";":
                self._global(source, head, i, scope)
                head = i + 1
            elif text == ":" and tokens[i - 1].text in ("public", "private", "protected"):
                head = i + 1
            elif text == "{":
                i = self._braces(source, head, i, scope)
                if i < len(tokens) and tokens[i - 1].text == "}" and self._ends_head:
                    head = i
                continue
            i += 1
        return i

    _ends_head = True

    def _braces(self, source: Source, head: int, i: int, scope: str) -> int:
        """Classify a brace by what stands before it; return the place after its end."""
        tokens = source.tokens
        words = [t for t in tokens[head:i] if t.kind != "pragma"]
        texts = [t.text for t in words]
        self._ends_head = True
        has_call = "(" in texts
        if "namespace" in texts[:2] or (texts[:1] == ["extern"] and len(texts) == 2):
            return self._scope(source, i + 1, "" if "extern" in texts else "::".join([scope, texts[-1]]))
        is_value = "=" in texts and "operator" not in texts
        opening = next((k for k in range(head, i) if tokens[k].text == "(" and not (k and tokens[k - 1].text in ("__attribute__", "alignas"))), None)
        if has_call and opening is not None and not is_value:
            close = after(tokens, opening)
            name = tokens[opening - 1]
            end = after(tokens, i)
            if name.kind == "word":
                function = Function(
                    name=name.text,
                    parameters=split(tokens, opening + 1, close - 1),
                    body=(i, end - 1),
                    tokens=tokens,
                    file=source.number,
                    line=source.line(name.start),
                    is_constant="constexpr" in texts or "consteval" in texts,
                    is_template=texts[:1] == ["template"],
                    scope=scope,
                )
                self.functions.setdefault(name.text, []).append(function)
            return end
        if {"class", "struct", "union"}.intersection(texts) and not is_value and "enum" not in texts:
            self._ends_head = False
            return self._scope(source, i + 1, scope + "::class")
        self._ends_head = False
        return after(tokens, i)

    def _global(self, source: Source, head: int, i: int, scope: str) -> None:
        tokens = source.tokens[head:i]
        if scope.endswith("class") or not self.stream_types.intersection(t.text for t in tokens):
            return
        for name, _ in declared(tokens):
            self.global_streams.append((scope + "::" + name.text, source.number, source.line(name.start)))

    # -- insertions -----------------------------------------------------------------------------------

    def tops(self) -> list[Function]:
        """The functions with a region, or tasks, that no other function of the sources calls."""
        called = set()
        found = []
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
                    found.append(function)
        return [one for one in found if one.name not in called] or found

    def instrument(self, top: Function) -> None:
        """Decide all insertions."""
        self.top = top
        for functions in self.functions.values():
            for function in functions:
                Body(self, function).walk()
        sources = list(self.sources.values())
        for number, site in enumerate(self.sites, 2):
            if site.start < 0:
                continue
            after_sites = sorted(
                {
                    writer
                    for variable in self.variables
                    if variable.region == site.region
                    for writer in self.users(variable)[0]
                    if writer < number and number in self.users(variable)[1]
                }
            )
            deps = ",".join(map(str, after_sites))
            copies = "".join(f",{name}={name}" for name in site.indices)
            call = "run_inline" if site.is_inline else "run"
            source = sources[site.file]
            source.insert(
                site.start,
                f"::csdf_trace::{call}({number},{{{deps}}},{str(site.is_replicated).lower()},[&{copies}]{{",
                0,
            )
            source.insert(site.end, "});", -7)

    def users(self, variable: Variable) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The numbers of the sites that write a variable of a region, and of those that read it."""
        if variable.name not in self._users.setdefault(variable.region, {}):
            writers, readers = [], []
            for number, site in enumerate(self.sites, 2):
                if site.region == variable.region:
                    how = self._usage(site.tokens, variable.name, 0)
                    writers += [number] if "w" in how else []
                    readers += [number] if "r" in how else []
            self._users[variable.region][variable.name] = tuple(writers), tuple(readers)
        return self._users[variable.region][variable.name]

    def _usage(self, tokens: Sequence[Token], name: str, depth: int) -> str:
        """How tokens use a variable: some of r and w."""
        found = set()
        calls: list[tuple[str, int]] = []
        for i, token in enumerate(tokens):
            text = token.text
            before = tokens[i - 1].text if i else ""
            if text in OPEN and token.kind == "sign":
                calls.append((self._callee(tokens, i) if text == "(" else "", 0))
            elif text in (")", "]", "}") and calls:
                calls.pop()
            elif text == "," and calls:
                calls[-1] = calls[-1][0], calls[-1][1] + 1
            elif text == name and token.kind == "word" and before not in (".", "->"):
                k = i + 1
                while k < len(tokens) and tokens[k].text in ("[", ".", "->"):
                    k = after(tokens, k) if tokens[k].text == "[" else k + 2
                    if k < len(tokens) and tokens[k].text == "(":
                        k = after(tokens, k)
                following = tokens[k].text if k < len(tokens) else ""
                callee, place = calls[-1] if calls else ("", 0)
                if following == "=":
                    found.add("w")
                elif following in ("++", "--") or before in ("++", "--") or re.fullmatch(r"(?:[-+*/%&|^]|<<|>>)=", following):
                    found.update("rw")
                elif callee in self.functions:
                    found.update(self._direction(callee, place, depth))
                elif callee in ("memcpy", "memset", "memmove", "copy") and place == (2 if callee == "copy" else 0):
                    found.add("w")
                elif (callee.startswith(("read", "try_read")) and place == 0) or (before == ">" and i > 1 and tokens[i - 2].text == ">"):
                    found.add("w")
                else:
                    found.add("r")
        return "".join(sorted(found))

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

    def _direction(self, name: str, place: int, depth: int) -> str:
        """How a function uses its parameter at `place`."""
        key = name, place
        if key not in self._directions:
            self._directions[key] = ""  # where it calls itself
            how: set[str] = set()
            for function in self.functions[name]:
                if place < len(function.parameters) and depth < 32:
                    parameter = function.parameters[place]
                    texts = {t.text for t in parameter}
                    names = [t.text for t, _ in declared(parameter)]
                    if texts.isdisjoint("*&[") or not names:
                        how.add("r")
                    else:
                        first, last = function.body
                        how.update(self._usage(function.tokens[first : last + 1], names[0], depth + 1))
            self._directions[key] = "".join(sorted(how))
        return self._directions[key]


def after(tokens: Sequence[Token], i: int) -> int:
    """The place after the bracket that closes the one at i; after i, if none opens there."""
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
    """The place after a name with its scopes and template arguments, from i; i if there is none."""
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
    """The variables that a statement declares, each with what follows its name; nothing if it is none."""
    i = 0
    while i < len(tokens) and tokens[i].text in BEFORE_TYPES:
        i += 1
    if i >= len(tokens) or tokens[i].kind != "word" or tokens[i].text in NOT_DECLARED:
        return
    if tokens[i].text in ("struct", "class", "typename", "enum"):
        i += 1
    end = qualified(tokens, i)
    while end < len(tokens) and tokens[end].kind == "word" and end + 1 < len(tokens) and tokens[end + 1].kind == "word":
        end += 1  # unsigned long x; T const x
    for part in split(tokens, end, len(tokens)):
        k = 0
        while k < len(part) and part[k].text in ("*", "&", "&&", "const", "__restrict__", "__restrict"):
            k += 1
        if k >= len(part) or part[k].kind != "word" or part[k].text in NOT_DECLARED:
            return
        rest = part[k + 1 :]
        if rest and rest[0].text not in ("[", "(", "{", "=", ":"):
            return
        yield part[k], rest


class Body:
    """Walks the statements of one function and decides the insertions."""

    def __init__(self, design: Design, function: Function) -> None:
        self.design, self.function = design, function
        self.source = list(design.sources.values())[function.file]
        self.tokens = function.tokens
        self.unlabelled = 0
        self.ends: list[str] = []  # what a return has to do first
        self.region: int | None = None  # whose statements are processes
        self.indices: list[str] = []  # counters of the unrolled loops of the region around
        self.scopes: list[LoopText] = []

    def walk(self) -> None:
        """Walk the body."""
        first, last = self.function.body
        is_top = self.function is self.design.top
        if is_top:
            self.ends.append("csdf_top.end()")
            self.source.insert(self.tokens[first].end, "::csdf_trace::Top csdf_top;" + self._ports(), -9)
        self._compound(first, last)
        if is_top:
            self.source.insert(self.tokens[last].start, "csdf_top.end();", 9)

    def _ports(self) -> str:
        """Name the streams among the parameters of the top function, and those outside of it."""
        file, line = self.function.file, self.function.line
        text = ""
        for parameter in self.function.parameters:
            if self.design.stream_types.isdisjoint(t.text for t in parameter):
                continue
            for name, rest in declared(parameter):
                if rest and rest[0].text == "[":
                    count = self.source.text[rest[1].start : rest[after(rest, 0) - 1].start]
                    text += f'::csdf_trace::ports({name.text},{count},"{name.text}",{file},{line});'
                else:
                    text += f'::csdf_trace::port({name.text},"{name.text}",{file},{line});'
        for name, file, line in self.design.global_streams:
            if file == self.function.file and line < self.function.line:
                text += f'::csdf_trace::declared({name},"{name.rpartition("::")[2]}",{file},{line});'
        return text

    def _text(self, i: int) -> str:
        return self.tokens[i].text if i < len(self.tokens) else ""

    def _line(self, i: int) -> int:
        return self.source.line(self.tokens[i].start)

    def _compound(self, first: int, last: int) -> None:
        """Walk the statements between two braces; they are a region if they hold its pragma."""
        outer, indices, self.region = self.region, self.indices, None
        is_region = False
        i = first + 1
        while i < last:
            if (pragma := self._pragma(i)) and pragma[0].name == "dataflow":
                is_region = True
                break
            if self._text(i) in OPEN and self.tokens[i].kind == "sign":
                i = after(self.tokens, i)
            else:
                i += 1
        if is_region and "off" not in pragma[0].flags:
            self.region = len(self.design.regions)
            self.design.regions.append((self.function, self._line(first)))
            self.indices = []
            self.ends.append("csdf_region.join()")
            self.source.insert(self.tokens[first].end, "::csdf_trace::Region csdf_region;", -8)
        else:
            is_region = False
        i = first + 1
        while i < last:
            i = max(self._statement(i, last), i + 1)
        if is_region:
            self.ends.pop()
            self.source.insert(self.tokens[last].start, "csdf_region.join();", 8)
        self.region, self.indices = outer, indices

    def _pragma(self, i: int) -> tuple[Pragma, int] | None:
        """The HLS pragma at a place and the place after it: a directive, _Pragma, or a macro for it."""
        tokens = self.tokens
        if i >= len(tokens):
            return None
        if tokens[i].kind == "pragma":
            pragma = pragma_of(tokens[i].text, self._line(i))
            return pragma and (pragma, i + 1)
        if tokens[i].kind == "word" and self._text(i + 1) == "(":
            inner = self._text(i + 2)
            if inner == "HLS" or (tokens[i].text == "_Pragma" and inner[:5].lstrip('"').startswith("HLS")):
                end = after(tokens, i + 1)
                text = self.source.text[tokens[i + 2].start : tokens[end - 1].start].strip().strip('"')
                pragma = pragma_of(text, self._line(i))
                return pragma and (pragma, end + (self._text(end) == ";"))
        return None

    def _statement(self, i: int, last: int) -> int:
        """Walk the statement at i; return the place after it."""
        tokens = self.tokens
        token = tokens[i]
        text = token.text
        if pragma := self._pragma(i):
            self._obey(pragma[0], pragma[1])
            return pragma[1]
        if token.kind == "pragma" or text == ";":
            return i + 1
        if text == "[" and self._text(i + 1) == "[":  # attributes
            return self._statement(min(after(tokens, i), last - 1), last)
        if text == "{":
            end = after(tokens, i)
            self._compound_in_region(i, end - 1)
            return end
        if token.kind == "word":
            if text in LOOPS:
                return self._loop(i, i, last)
            if text in ("if", "switch"):
                k = i + 1
                while self._text(k) in ("constexpr", "consteval"):
                    k += 1
                k = self._statement(after(tokens, k), last)
                if text == "if" and self._text(k) == "else":
                    k = self._statement(k + 1, last)
                return k
            if text == "try":
                k = self._statement(i + 1, last)
                while self._text(k) == "catch":
                    k = self._statement(after(tokens, k + 1), last)
                return k
            if text in ("case", "default"):
                k = i
                while k < last and self._text(k) != ":":
                    k += 1
                return k + 1
            if self._text(i + 1) == ":" and text not in ("public", "private", "protected"):
                k = i + 2
                while self._text(k) == "[" and self._text(k + 1) == "[":
                    k = after(tokens, k)
                return self._loop(i, k, last) if self._text(k) in LOOPS else self._statement(min(k, last - 1), last)
        return self._simple(i, last)

    def _compound_in_region(self, first: int, last: int) -> None:
        region = self.region
        if region is None:
            self._compound(first, last)
            return
        i = first + 1
        while i < last:
            i = max(self._statement(i, last), i + 1)

    # -- loops ----------------------------------------------------------------------------------------

    def _loop(self, start: int, i: int, last: int) -> int:
        """Walk a loop at i, whose label, if any, is at start."""
        tokens, design = self.tokens, self.design
        label = tokens[start].text if start != i else ""
        loop = LoopText(label=label, line=self._line(i), file=self.function.file, function=self.function.name, number=0)
        if not label:
            self.unlabelled += 1
            loop.number = self.unlabelled
        body = i + 1 if tokens[i].text == "do" else after(tokens, i + 1)
        while (pragma := self._pragma(body)) is not None:
            loop.pragmas.append(pragma[0])
            body = pragma[1]
        region, indices = self.region, self.indices
        site = None
        if region is not None:
            unrolled = self._unrolled_calls(body)
            if unrolled:
                self.indices = [*indices, *([tokens[i + 2 + k].text for k in range(3) if self._text(i + 3 + k) in ("=", ":")][:1])]
                end = self._statement(body, last)
                self.indices = indices
                return end
            site = self._site(label or f"VITIS_LOOP_{loop.line}_{loop.number}", "loop", start)
            self.region = None
        design.loops.append(loop)
        number = len(design.loops) - 1
        is_recorded = not self.function.is_constant
        if is_recorded:
            self.source.insert(tokens[i].start, f"for(::csdf_trace::Loop csdf_{number}({number});csdf_{number}.once();csdf_{number}.end())", 1)
        if is_recorded and tokens[i].text in ("for", "while") and (test := self._test(i)):
            self.source.insert(test, f"(void)csdf_{number}.test(),", 0)
        if self._text(body) == "{":
            if is_recorded:
                self.source.insert(tokens[body].end, f"csdf_{number}.iteration();", -9)
            self.scopes.append(loop)
            end = after(tokens, body)
            self._compound(body, end - 1)
            self.scopes.pop()
        else:
            if is_recorded:
                self.source.insert(tokens[body].start, f"if(csdf_{number}.iteration()){{}}else ", 0)
            end = self._statement(body, last)
        if tokens[i].text == "do":
            end = after(tokens, end + 1) + 1
        self.region = region
        if site:
            site.end = tokens[end - 1].end
            site.tokens = tokens[start:end]
        return end

    def _test(self, i: int) -> int:
        """Where the condition of a loop begins, if it calls something, which may read a FIFO; else 0."""
        tokens = self.tokens
        end = after(tokens, i + 1) - 1
        parts: list[int] = [i + 2]
        k = i + 2
        while k < end:
            if tokens[k].text == ";":
                parts.append(k + 1)
            k = after(tokens, k) if tokens[k].text in OPEN and tokens[k].kind == "sign" else k + 1
        first = parts[0] if tokens[i].text == "while" else parts[1] if len(parts) == 3 else end
        last = end if tokens[i].text == "while" else parts[2] - 1 if len(parts) == 3 else end
        condition = tokens[first:last]
        if not any(t.text == "(" for t in condition) or list(declared(condition)):
            return 0
        return condition[0].start

    def _unrolled_calls(self, body: int) -> bool:
        """Whether a loop of the region is unrolled and only calls functions: each turn is a process."""
        tokens = self.tokens
        if self._text(body) != "{":
            return False
        end = after(tokens, body)
        is_unrolled = has_call = False
        i = body + 1
        while i < end - 1:
            if pragma := self._pragma(i):
                is_unrolled |= pragma[0].name == "unroll"
                i = pragma[1]
                continue
            if self._text(i) in LOOPS:
                k = after(tokens, i + 1)
                return is_unrolled and self._unrolled_calls(k)
            k = qualified(tokens, i)
            if k > i and self._text(k) == "(" and self._called(i, k):
                has_call = True
            while i < end - 1 and tokens[i].text != ";":
                i = after(tokens, i) if tokens[i].text in OPEN else i + 1
            i += 1
        return is_unrolled and has_call

    # -- pragmas --------------------------------------------------------------------------------------

    def _obey(self, pragma: Pragma, following: int) -> None:
        """Note a pragma inside the body of a loop; let the run know depths and kinds of storage."""
        if self.scopes:
            self.scopes[-1].pragmas.append(pragma)
        name = pragma.settings.get("variable", "").lstrip("&")
        if pragma.name not in ("stream", "bind_storage", "resource") or not re.fullmatch(r"[\w:.\[\]]+", name):
            return
        while following < len(self.tokens) and (self.tokens[following].kind == "pragma"):
            following += 1
        at = self.tokens[following].start
        if pragma.name == "stream" and "depth" in pragma.settings:
            self.source.insert(at, f"::csdf_trace::depth({name},({pragma.settings['depth']}),{self.function.file},{pragma.line});", -1)
        elif kind := pragma.settings.get("impl") or pragma.settings.get("core"):
            self.source.insert(at, f'::csdf_trace::storage({name},"{kind.lower()}");', -1)

    # -- simple statements ----------------------------------------------------------------------------

    def _called(self, i: int, k: int) -> str:
        """The name of the function of the sources that tokens i to k call, or nothing."""
        name = ""
        for token in self.tokens[i:k]:
            if token.text == "<":
                break
            if token.kind == "word":
                name = token.text
        return name if name in self.design.functions else ""

    def _simple(self, i: int, last: int) -> int:
        """Walk an expression, a declaration or a jump up to its semicolon."""
        tokens = self.tokens
        end = i
        while end < last and tokens[end].text != ";":
            if tokens[end].text == "{" and self._is_lambda(end):
                close = after(tokens, end)
                inner = Body(self.design, self.function)
                inner.unlabelled = self.unlabelled
                inner._compound(end, close - 1)
                end = close
            elif tokens[end].text == "{" or (tokens[end].text == "[" and self._text(end - 1) not in ("]",) and tokens[end - 1].kind != "word"):
                end = after(tokens, end)
            else:
                end += 1
        end = min(end + 1, last)
        if tokens[i].text == "return":
            for action in reversed(self.ends):
                self.source.insert(tokens[i].start, f"if({action}){{}}else ", 3)
            return end
        statement = tokens[i : end - 1]
        names = list(declared(statement))
        if names:
            self._declaration(i, end, names)
            return end
        self._tasks(i, end)
        if self.region is not None:
            k = qualified(tokens, i)
            name = self._called(i, k) if k > i and self._text(k) == "(" else ""
            method = self._method(i, end)
            if name or method:
                spelled = name or method
                if "<" in [t.text for t in tokens[i:k]]:
                    spelled = "".join(t.text for t in tokens[i:k])
                self._close(self._site(spelled, "call", i), i, end)
            elif assigned := self._assigned_call(i, end):
                self._close(self._site(assigned, "call", i, is_inline=True), i, end)
        return end

    def _is_lambda(self, k: int) -> bool:
        before = self._text(k - 1)
        if before == "]":
            return True
        while before in ("mutable", "noexcept"):
            k -= 1
            before = self._text(k - 1)
        return before == ")"

    def _method(self, i: int, end: int) -> str:
        """The method that a statement `object.method(...)` calls, if it is defined in the sources."""
        texts = [t.text for t in self.tokens[i:end]]
        if len(texts) > 3 and texts[1] in (".", "->") and texts[3] in ("(", "<"):
            return texts[2] if texts[2] in self.design.functions else ""
        return ""

    def _assigned_call(self, i: int, end: int) -> str:
        """The function that `x = f(...)` calls."""
        for k in range(i, end):
            if self._text(k) == "=":
                q = qualified(self.tokens, k + 1)
                return self._called(k + 1, q) if q > k + 1 and self._text(q) == "(" else ""
            if self._text(k) == "(":
                return ""
        return ""

    def _declaration(self, i: int, end: int, names: list[tuple[Token, Sequence[Token]]]) -> None:
        tokens = self.tokens
        head = {t.text for t in tokens[i : tokens.index(names[0][0], i)]}
        file, stop = self.function.file, tokens[end - 1].end
        if "task" in head and "hls" in head:
            for name, rest in names:
                self.design.task_names.add(name.text)
                arguments = split(rest, 1, after(rest, 0) - 1) if rest and rest[0].text == "(" else ()
                if arguments:
                    site = self._site("".join(t.text for t in arguments[0]), "task", i)
                    site.start = -1
                    site.tokens = tokens[i:end]
                    self.source.insert(rest[0].end, f"::csdf_trace::At{{{len(self.design.sites) + 1}}},", 0)
            return
        if self.design.stream_types.intersection(head):
            if "&" in head or any(rest[:1] and rest[0].text == "=" for _, rest in names):
                return
            self.source.insert(stop, "".join(f'::csdf_trace::declared({n.text},"{n.text}",{file},{self.source.line(n.start)});' for n, _ in names), -5)
            return
        if self.region is None:
            return
        for name, rest in names:
            self.design.variables.append(
                Variable(name=name.text, line=self.source.line(name.start), region=self.region, is_array=bool(rest) and rest[0].text == "[", at=name.start)
            )
        if len(names) == 1 and names[0][1] and names[0][1][0].text == "=":
            rest = names[0][1]
            q = qualified(rest, 1)
            if q > 1 and q < len(rest) and rest[q].text == "(" and (called := next((t.text for t in reversed(rest[1:q]) if t.text in self.design.functions), "")):
                site = self._site(called, "call", i, is_inline=True)
                site.start, site.end = -2, tokens[end - 1].end
                site.tokens = tokens[i:end]
                number = len(self.design.sites) + 1
                self.source.insert(tokens[i].start, f"::csdf_trace::begin({number});", 0)
                self.source.insert(tokens[end - 1].end, f"::csdf_trace::end({number});", -6)

    def _tasks(self, i: int, end: int) -> None:
        """Number the invocations of TAPA tasks, and those of arrays of hls::task."""
        tokens = self.tokens
        if tokens[i].text in self.design.task_names:
            k = i + 1
            while self._text(k) == "[":
                k = after(tokens, k)
            arguments = split(tokens, k + 1, after(tokens, k) - 1) if self._text(k) == "(" else ()
            if arguments:
                site = self._site("".join(t.text for t in arguments[0]), "task", i)
                site.start = -1
                site.tokens = tokens[i:end]
                self.source.insert(tokens[k].end, f"::csdf_trace::At{{{len(self.design.sites) + 1}}},", 0)
        for k in range(i, end):
            if tokens[k].text == "invoke" and k and tokens[k - 1].text == ".":
                opening = k + 1
                if self._text(opening) == "<":
                    opening = qualified(tokens, k)
                if self._text(opening) == "(":
                    first = split(tokens, opening + 1, after(tokens, opening) - 1)
                    site = self._site("".join(t.text for t in first[0]) if first else "task", "task", k)
                    site.start = -1
                    site.tokens = tokens[k : after(tokens, opening)]
                    self.source.insert(tokens[k - 1].start, f".at({len(self.design.sites) + 1})", 0)

    def _site(self, name: str, kind: str, i: int, *, is_inline: bool = False) -> Site:
        site = Site(
            name=name,
            kind=kind,
            line=self._line(i),
            file=self.function.file,
            region=-1 if self.region is None else self.region,
            start=self.tokens[i].start,
            is_replicated=bool(self.indices),
            indices=tuple(self.indices),
            is_inline=is_inline,
        )
        self.design.sites.append(site)
        return site

    def _close(self, site: Site, i: int, end: int) -> None:
        site.end = self.tokens[end - 1].end
        site.tokens = self.tokens[i:end]
