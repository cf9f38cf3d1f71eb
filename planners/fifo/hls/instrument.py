"""Instrumentation of the C++ of a dataflow design: a run of the instrumented design is a trace.

No token is changed, moved or removed, and every line keeps its number. A dataflow region, for example,

    {
    #pragma HLS dataflow
        load(x, a);
        for (int i = 0; i < 3; i++) { s.write(a[i]); }
    }

becomes (with line breaks added)

    {::csdf_trace::Region csdf_region;
    #pragma HLS dataflow
        ::csdf_trace::run(2,{},false,[&]{load(x, a);});
        ::csdf_trace::run(3,{2},false,[&]{
            for(::csdf_trace::Loop csdf_1(1);csdf_1.once();csdf_1.end())
            for (int i = 0; i < 3; i++) {csdf_1.iteration(); s.write(a[i]); }});
    csdf_region.join();}

    Region, join()      the processes of the region, and the wait for their ends
    run(n,{deps},...)   process n, which starts after the processes `deps` (they write its arrays)
    Loop, iteration()   one execution of a loop, and the start of each iteration

include/csdf_trace.h defines these classes. A statement that starts a process is a *site*; the number
of the site names the process in the trace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import takewhile
from typing import NamedTuple

from planners.fifo.hls.cpp_tokens import (
    Pragma,
    Token,
    TokenisedFile,
    after,
    declared,
    pragma_of,
    qualified,
    split,
)
from planners.fifo.hls.sources import Function, SourceDesign
from planners.fifo.hls.variable_usage import VariableUsage

LOOPS = (
    "for",
    "while",
    "do",
    "TAPA_WHILE_NOT_EOT",
    "TAPA_WHILE_NEITHER_EOT",
    "TAPA_WHILE_NONE_EOT",
)
TOP_SITE = 1  # number of the top function among the sites that start a process
FIRST_SITE = 2  # number of the first statement among the sites

Declarators = Sequence[tuple[Token, Sequence[Token]]]
"""The variables of a declaration, each with the tokens after its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopText:
    """A loop of the sources; number: among the loops without a label of its function, from 1."""

    label: str
    line: int
    function: str
    number: int


@dataclass(slots=True, kw_only=True)
class Site:
    """A statement that starts a process: a call, or a loop in the region.

    number: of the site in a trace, from FIRST_SITE. region: number of the dataflow region; None
    outside of regions. start, end: offsets of the statement in the source. counters: captures of the
    counters of the unrolled loops around it, such as `i=i`, which tell its processes apart.
    is_inline: whether a wrapped statement assigns a result, so that later statements wait for it.
    is_wrapped: whether the instrumentation encloses the statement in a lambda,
    `run(2, {}, false, [&]{load(x, a);});`. The number of an unwrapped statement is inserted into the
    statement, or before and after it.
    """

    number: int
    name: str
    line: int
    file: int
    region: int | None = None
    tokens: Sequence[Token] = ()
    start: int = 0
    end: int = 0
    counters: tuple[str, ...] = ()
    is_inline: bool = False
    is_wrapped: bool = True


class RegionVariable(NamedTuple):
    """A variable of a region that is no stream: an array, or a scalar."""

    name: str
    line: int
    region: int
    is_array: bool


class Instrumented:
    """The numbered loops and sites of instrumented sources, and the variables of their regions."""

    def __init__(self, design: SourceDesign, top: Function) -> None:
        self.design, self.top = design, top
        self.loops = [LoopText(label="", line=0, function="", number=0)]
        self.sites: list[Site] = []
        self.variables: list[RegionVariable] = []
        self.regions = 0
        self.task_names: set[str] = set()
        self._usage = VariableUsage(design.functions)
        self._users: dict[RegionVariable, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def users(self, variable: RegionVariable) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of the sites that write a variable, and of the sites that read it."""
        if variable not in self._users:
            usage = {
                site.number: self._usage.of(site.tokens, variable.name, is_array=variable.is_array)
                for site in self.sites
                if site.region == variable.region
            }
            writers = tuple(number for number, directions in usage.items() if "w" in directions)
            readers = tuple(number for number, directions in usage.items() if "r" in directions)
            self._users[variable] = writers, readers
        return self._users[variable]


class Rank(IntEnum):
    """The order of insertions at one offset of a source: lower ranks come first.

    An offset is the end of a token and often the start of the next. Ranks below 0 follow the first
    token, the wider scope first; ranks from 0 on precede the second token, the narrower scope first.
    """

    OPEN_SCOPE = -9  # the top function, or an iteration of a loop
    OPEN_REGION = -8
    END_PROCESS = -7
    END_CALL = -6
    DECLARED = -5  # streams are registered after their declaration
    DIRECTIVE = -1
    STATEMENT = 0
    LOOP = 1
    RETURN = 3
    JOIN_REGION = 8
    END_TOP = 9


def instrument(design: SourceDesign, top: Function) -> Instrumented:
    """Decide all insertions into the sources; return the loops, sites and variables by number."""
    instrumented = Instrumented(design, top)
    for functions in design.functions.values():
        for function in functions:
            FunctionWalk(instrumented, function).walk()
    for site in instrumented.sites:
        if site.is_wrapped:
            _wrap(instrumented, site)
    return instrumented


def _wrap(instrumented: Instrumented, site: Site) -> None:
    """Move the statement of a process into a lambda, after the writers of the variables it reads."""
    writers = set[int]()
    for variable in instrumented.variables:
        if variable.region == site.region:
            variable_writers, readers = instrumented.users(variable)
            if site.number in readers:
                writers.update(writer for writer in variable_writers if writer < site.number)
    deps = ",".join(map(str, sorted(writers)))
    captures = ",".join(("&", *site.counters))
    call = "run_inline" if site.is_inline else "run"
    is_replicated = "true" if site.counters else "false"
    source = instrumented.design.source(site.file)
    opening = f"::csdf_trace::{call}({site.number},{{{deps}}},{is_replicated},[{captures}]{{"
    source.insert(site.start, opening, Rank.STATEMENT)
    source.insert(site.end, "});", Rank.END_PROCESS)


class FunctionWalk:
    """A walk over the statements of one function, which decides the insertions.

    Positions are indices of tokens. A method that walks a statement takes its first position and
    `last`, the position of the closing brace around it, and returns the position after the statement.
    """

    def __init__(self, instrumented: Instrumented, function: Function) -> None:
        self.instrumented, self.function = instrumented, function
        self.design = instrumented.design
        self.source: TokenisedFile = self.design.source(function.file)
        self.tokens = function.tokens
        self.unlabelled = 0  # loops without a label so far
        self.ends: list[str] = []  # calls inserted before each return
        self.region: int | None = None  # whose statements are processes
        self.counters: list[str] = []  # as in Site.counters, of the statement

    def walk(self) -> None:
        """Walk the body."""
        first, last = self.function.body
        is_top = self.function is self.instrumented.top
        if is_top:
            self.ends.append("csdf_top.end()")
            self.source.insert(
                self.tokens[first].end,
                "::csdf_trace::Top csdf_top;" + self._ports(),
                Rank.OPEN_SCOPE,
            )
        self._compound(first, last)
        if is_top:
            self.source.insert(self.tokens[last].start, "csdf_top.end();", Rank.END_TOP)

    def _ports(self) -> str:
        """Return calls that register the stream parameters of the top function, and global streams."""
        top_line = self.function.line
        text = ""
        for parameter in self.function.parameters:
            if self.design.stream_types.isdisjoint(t.text for t in parameter):
                continue
            for name, suffix in declared(parameter):
                if suffix and suffix[0].text == "[":
                    count = self.source.text[suffix[1].start : suffix[after(suffix, 0) - 1].start]
                    text += f'::csdf_trace::ports({name.text},{count},"{name.text}",{top_line});'
                else:
                    text += f'::csdf_trace::port({name.text},"{name.text}",{top_line});'
        for full, file, line in self.design.global_streams:
            if file == self.function.file and line < top_line:
                text += f'::csdf_trace::declared({full},"{full.rpartition("::")[2]}",{line});'
        return text

    def _text(self, position: int) -> str:
        return self.tokens[position].text if position < len(self.tokens) else ""

    def _line(self, position: int) -> int:
        return self.source.line(self.tokens[position].start)

    def _compound(self, first: int, last: int) -> None:
        """Walk the statements between two braces: a region if they contain the dataflow pragma."""
        outer, counters, self.region = self.region, self.counters, None
        is_region = self._is_region(first, last)
        if is_region:
            self.region = self.instrumented.regions
            self.instrumented.regions += 1
            self.counters = []
            self.ends.append("csdf_region.join()")
            self.source.insert(
                self.tokens[first].end, "::csdf_trace::Region csdf_region;", Rank.OPEN_REGION
            )
        self._statements(first, last)
        if is_region:
            self.ends.pop()
            self.source.insert(self.tokens[last].start, "csdf_region.join();", Rank.JOIN_REGION)
        self.region, self.counters = outer, counters

    def _is_region(self, first: int, last: int) -> bool:
        """Whether the dataflow pragma is between two braces, outside inner brackets."""
        position = first + 1
        while position < last:
            if (pragma := self._pragma(position)) and pragma[0].name == "dataflow":
                return "off" not in pragma[0].flags
            position = after(self.tokens, position)
        return False

    def _statements(self, first: int, last: int) -> None:
        """Walk the statements between two braces."""
        position = first + 1
        while position < last:
            position = max(self._statement(position, last), position + 1)

    def _pragma(self, position: int) -> tuple[Pragma, int] | None:
        """The HLS pragma at a position, and the next position: a directive, _Pragma, or a macro."""
        tokens = self.tokens
        if position >= len(tokens):
            return None
        line = self._line(position)
        if tokens[position].kind == "pragma":
            pragma = pragma_of(tokens[position].text, line)
            return pragma and (pragma, position + 1)
        argument = self._text(position + 2)
        is_operator = tokens[position].text == "_Pragma" and argument[:5].lstrip('"')[:3] == "HLS"
        if (
            tokens[position].kind == "word"
            and self._text(position + 1) == "("
            and (argument == "HLS" or is_operator)
        ):
            end = after(tokens, position + 1)
            text = self.source.text[tokens[position + 2].start : tokens[end - 1].start]
            pragma = pragma_of(text.strip().strip('"'), line)
            return pragma and (pragma, end + (self._text(end) == ";"))
        return None

    def _statement(self, start: int, last: int) -> int:
        """Walk the statement at a position before `last`; return the position after the statement."""
        if start >= last:  # no statement where C++ needs one: the compiler reports it
            return last
        tokens = self.tokens
        text = tokens[start].text
        if pragma := self._pragma(start):
            self._record_storage(*pragma)
            return pragma[1]
        if tokens[start].kind == "pragma" or text == ";":
            return start + 1
        if text == "[" and self._text(start + 1) == "[":  # attributes
            return self._statement(min(after(tokens, start), last - 1), last)
        if text == "{":
            end = after(tokens, start)
            # Braces in a region enclose more of its processes.
            walk = self._compound if self.region is None else self._statements
            walk(start, end - 1)
            return end
        if tokens[start].kind == "word":
            if text in LOOPS:
                return self._loop(start, start, last)
            if text in ("if", "switch"):
                return self._selection(start, last)
            if text == "try":
                return self._try(start, last)
            if text in ("case", "default"):
                while start < last and self._text(start) != ":":
                    start += 1
                return start + 1
            if self._text(start + 1) == ":" and text not in ("public", "private", "protected"):
                return self._labelled(start, last)
        return self._simple_statement(start, last)

    def _selection(self, start: int, last: int) -> int:
        """Walk the branches of an `if` or `switch`; return the position after the statement."""
        condition = start + 1
        while self._text(condition) in ("constexpr", "consteval"):
            condition += 1
        end = self._statement(after(self.tokens, condition), last)
        if self._text(start) == "if" and self._text(end) == "else":
            end = self._statement(end + 1, last)
        return end

    def _try(self, start: int, last: int) -> int:
        """Walk a `try` block and its handlers; return the position after the statement."""
        end = self._statement(start + 1, last)
        while self._text(end) == "catch":
            end = self._statement(after(self.tokens, end + 1), last)
        return end

    def _labelled(self, label: int, last: int) -> int:
        """Walk a statement with a label; return the position after the statement."""
        start = label + 2
        while self._text(start) == "[" and self._text(start + 1) == "[":
            start = after(self.tokens, start)
        if self._text(start) in LOOPS:
            return self._loop(label, start, last)
        return self._statement(min(start, last - 1), last)

    # -- loops ----------------------------------------------------------------------------------------

    def _loop(self, start: int, keyword: int, last: int) -> int:
        """Walk a loop, whose label, if any, is at `start`; return the position after the loop."""
        loop, body = self._loop_text(start, keyword)
        region = self.region
        site = None
        if region is not None:
            if self._unrolled_calls(body):
                return self._unrolled_loop(keyword, body, last)
            name = loop.label or f"VITIS_LOOP_{loop.line}_{loop.number}"
            # The site gets its tokens after the walk of the body, and its number before it.
            site = self._site(name, start, start + 1)
            self.region = None
        number = None  # a constant function is executed by the compiler, without a trace
        if not self.function.is_constant:
            number = len(self.instrumented.loops)
            self._record_loop(keyword, number)
        self.instrumented.loops.append(loop)
        end = self._loop_body(body, last, number)
        if self._text(keyword) == "do":
            end = min(after(self.tokens, end + 1) + 1, last)
        self.region = region
        if site:
            site.end = self.tokens[end - 1].end
            site.tokens = self.tokens[start:end]
        return end

    def _loop_text(self, start: int, keyword: int) -> tuple[LoopText, int]:
        """Return a loop, and the position of its body, after the pragmas before the body."""
        label = self.tokens[start].text if start != keyword else ""
        self.unlabelled += not label
        loop = LoopText(
            label=label,
            line=self._line(keyword),
            function=self.function.name,
            number=0 if label else self.unlabelled,
        )
        is_do = self.tokens[keyword].text == "do"
        body = keyword + 1 if is_do else after(self.tokens, keyword + 1)
        while (pragma := self._pragma(body)) is not None:
            _, body = pragma
        return loop, body

    def _unrolled_loop(self, keyword: int, body: int, last: int) -> int:
        """Walk the body of an unrolled loop, whose counter tells its processes apart."""
        outer = self.counters
        if self._text(keyword) == "for":
            self.counters = [*outer, *self._counters_of(keyword)]
        end = self._statement(body, last)
        self.counters = outer
        return end

    def _counters_of(self, keyword: int) -> list[str]:
        """The captures of the variables that a `for` declares or assigns before its condition."""
        header = self.tokens[keyword + 2 : after(self.tokens, keyword + 1) - 1]
        semicolons = (i for i, token in enumerate(header) if token.text == ";")
        initialiser = header[: next(semicolons, len(header))]
        names = [name for name, _ in declared(initialiser)]
        if not names:  # for (i = 0, k = 1; ...)
            parts = split(initialiser, 0, len(initialiser))
            names = [part[0] for part in parts if [token.text for token in part[1:2]] == ["="]]
        texts = [token.text for token in initialiser]
        bracket = texts.index("[") if "[" in texts else 0
        if not names and "auto" in texts[:bracket]:  # for (auto [a, b] : pairs)
            end = after(initialiser, bracket) - 1
            names = [part[0] for part in split(initialiser, bracket + 1, end)]
        types = {
            token.text for name in names[:1] for token in initialiser[: initialiser.index(name)]
        }
        reference = "" if types.isdisjoint(("&", "&&")) else "&"
        return [f"{reference}{name.text}={name.text}" for name in names]

    def _record_loop(self, keyword: int, number: int) -> None:
        """Insert the record of the executions of a loop, and of the tests of its condition."""
        loop = f"csdf_{number}"
        self.source.insert(
            self.tokens[keyword].start,
            f"for(::csdf_trace::Loop {loop}({number});{loop}.once();{loop}.end())",
            Rank.LOOP,
        )
        if self._text(keyword) in ("for", "while") and (condition := self._condition(keyword)):
            self.source.insert(condition, f"(void){loop}.test(),", Rank.STATEMENT)

    def _loop_body(self, body: int, last: int, number: int | None) -> int:
        """Walk the body of a loop and return the position after it; number: of a recorded loop."""
        if body >= last:
            return last
        token = self.tokens[body]
        if token.text == "{":
            if number is not None:
                self.source.insert(token.end, f"csdf_{number}.iteration();", Rank.OPEN_SCOPE)
            end = after(self.tokens, body)
            self._compound(body, end - 1)
            return end
        if number is not None:
            self.source.insert(
                token.start, f"if(csdf_{number}.iteration()){{}}else ", Rank.STATEMENT
            )
        return self._statement(body, last)

    def _condition(self, keyword: int) -> int:
        """Return the offset of the condition of a loop that has a call, which may read a FIFO; else 0.

        A declaration in the condition, as in `while (int x = f())`, cannot follow an operator.
        """
        tokens = self.tokens
        end = after(tokens, keyword + 1) - 1
        begins = [keyword + 2]  # of the parts of the loop that semicolons separate
        position = keyword + 2
        while position < end:
            if tokens[position].text == ";":
                begins.append(position + 1)
            position = after(tokens, position)
        if tokens[keyword].text == "while":
            condition = tokens[keyword + 2 : end]
        elif len(begins) == 3:
            condition = tokens[begins[1] : begins[2] - 1]
        else:  # a loop over a range
            return 0
        has_call = any(token.text == "(" for token in condition)
        return condition[0].start if has_call and not list(declared(condition)) else 0

    def _unrolled_calls(self, body: int) -> bool:
        """Whether a loop of a region is unrolled and calls functions: each iteration is a process."""
        tokens = self.tokens
        if self._text(body) != "{":
            return False
        last = after(tokens, body) - 1
        is_unrolled = has_call = False
        position = body + 1
        while position < last:
            if pragma := self._pragma(position):
                is_unrolled |= pragma[0].name == "unroll"
                position = pragma[1]
                continue
            if self._text(position) in LOOPS:
                return is_unrolled and self._unrolled_calls(after(tokens, position + 1))
            has_call |= self._called(position) != ""
            while position < last and tokens[position].text != ";":
                position = after(tokens, position)
            position += 1
        return is_unrolled and has_call

    # -- pragmas --------------------------------------------------------------------------------------

    def _record_storage(self, pragma: Pragma, following: int) -> None:
        """Insert a call with the depth or the storage of a stream, after all consecutive pragmas."""
        name = pragma.settings.get("variable", "").lstrip("&")
        is_of_stream = pragma.name in ("stream", "bind_storage", "resource")
        if not is_of_stream or not re.fullmatch(r"[\w:.\[\]]+", name):
            return
        while following < len(self.tokens) and self.tokens[following].kind == "pragma":
            following += 1
        call = ""
        if pragma.name == "stream" and "depth" in pragma.settings:
            depth = pragma.settings["depth"]
            call = f"::csdf_trace::depth({name},({depth}),{pragma.line});"
        elif kind := pragma.settings.get("impl") or pragma.settings.get("core"):
            call = f'::csdf_trace::storage({name},"{kind.lower()}");'
        if call:
            self.source.insert(self.tokens[following].start, call, Rank.DIRECTIVE)

    # -- simple statements ----------------------------------------------------------------------------

    def _called(self, position: int) -> str:
        """The function of the sources that a call at a position names; empty if there is none."""
        name_end = qualified(self.tokens, position)
        if self._text(name_end) != "(":
            return ""
        words = takewhile(lambda token: token.text != "<", self.tokens[position:name_end])
        names = [token.text for token in words if token.kind == "word"]
        return names[-1] if names and names[-1] in self.design.functions else ""

    def _simple_statement(self, start: int, last: int) -> int:
        """Walk an expression, a declaration or a jump; return the position after its semicolon."""
        end = self._end_of_simple_statement(start, last)
        if self._text(start) == "return":
            # Still one statement, as in `if (done) return;`: the calls return false.
            for action in reversed(self.ends):
                self.source.insert(self.tokens[start].start, f"if({action}){{}}else ", Rank.RETURN)
            return end
        names = list(declared(self.tokens[start : end - 1]))
        if names:
            self._declaration(start, end, names)
            return end
        self._task_element(start, end)
        self._invocations(start, end)
        if self.region is not None:
            self._process(start, end)
        return end

    def _end_of_simple_statement(self, start: int, last: int) -> int:
        """The position after the semicolon of a simple statement; walks the lambdas before it."""
        tokens = self.tokens
        end = start
        while end < last and tokens[end].text != ";":
            is_capture = (
                tokens[end].text == "["
                and self._text(end - 1) != "]"
                and tokens[end - 1].kind != "word"
            )
            if tokens[end].text == "{" and self._is_lambda(end):
                close = after(tokens, end)
                inner = FunctionWalk(self.instrumented, self.function)
                inner.unlabelled = self.unlabelled
                inner._compound(end, close - 1)
                self.unlabelled = inner.unlabelled
                end = close
            elif tokens[end].text == "{" or is_capture:
                end = after(tokens, end)
            else:  # into parentheses, for lambdas among the arguments
                end += 1
        return min(end + 1, last)

    def _process(self, start: int, end: int) -> None:
        """Make a process of a statement of a region that calls a function of the sources."""
        if called := self._called(start) or self._method(start, end):
            texts = [token.text for token in self.tokens[start : qualified(self.tokens, start)]]
            # A template is named with its arguments, which tell its instances apart.
            self._site("".join(texts) if "<" in texts else called, start, end)
        elif assigned := self._assigned_call(start, end):
            self._site(assigned, start, end, is_inline=True)

    def _is_lambda(self, brace: int) -> bool:
        """Whether a brace opens the body of a lambda: it follows `]` or `)`, and specifiers."""
        before = self._text(brace - 1)
        if before == "]":
            return True
        while before in ("mutable", "noexcept"):
            brace -= 1
            before = self._text(brace - 1)
        return before == ")"

    def _method(self, start: int, end: int) -> str:
        """The method that a statement `object.method(...)` calls, if it is defined in the sources."""
        texts = [token.text for token in self.tokens[start:end]]
        if len(texts) > 3 and texts[1] in (".", "->") and texts[3] in ("(", "<"):
            return texts[2] if texts[2] in self.design.functions else ""
        return ""

    def _assigned_call(self, start: int, end: int) -> str:
        """The function that `x = f(...)` calls."""
        for position in range(start, end):
            if self._text(position) == "=":
                return self._called(position + 1)
            if self._text(position) == "(":
                return ""
        return ""

    # -- declarations ---------------------------------------------------------------------------------

    def _declaration(self, start: int, end: int, names: Declarators) -> None:
        """Number the tasks, register the streams, or record the variables that a statement declares."""
        head = {token.text for token in self.tokens[start : self.tokens.index(names[0][0], start)]}
        if "task" in head and "hls" in head:
            self._declared_tasks(start, end, names)
        elif self.design.stream_types.intersection(head):
            is_alias = any(suffix[:1] and suffix[0].text == "=" for _, suffix in names)
            if "&" not in head and not is_alias:
                registers = "".join(
                    f'::csdf_trace::declared({name.text},"{name.text}",'
                    f"{self.source.line(name.start)});"
                    for name, _ in names
                )
                self.source.insert(self.tokens[end - 1].end, registers, Rank.DECLARED)
        elif self.region is not None:
            # By these variables processes may depend on each other.
            self.instrumented.variables += (
                RegionVariable(
                    name.text,
                    self.source.line(name.start),
                    self.region,
                    is_array=any(token.text == "[" for token in suffix[:1]),
                )
                for name, suffix in names
            )
            if len(names) == 1:
                self._initialising_call(start, end, names[0][0])

    def _declared_tasks(self, start: int, end: int, names: Declarators) -> None:
        """Number the objects of hls::task: `task t(f, ...)` runs f; arrays get functions later."""
        for name, suffix in names:
            self.instrumented.task_names.add(name.text)
            self._task(start, end, suffix, 0)

    def _initialising_call(self, start: int, end: int, name: Token) -> None:
        """Make a process of a call whose result initialises a variable: `type x = f(...);`."""
        following = self.tokens.index(name, start) + 1
        called = self._called(following + 1) if self._text(following) == "=" else ""
        if called:
            # A lambda would end the scope of the variable.
            number = self._site(called, start, end, is_wrapped=False).number
            begin, finish = f"::csdf_trace::begin({number});", f"::csdf_trace::end({number});"
            self.source.insert(self.tokens[start].start, begin, Rank.STATEMENT)
            self.source.insert(self.tokens[end - 1].end, finish, Rank.END_CALL)

    # -- tasks ----------------------------------------------------------------------------------------

    def _task_element(self, start: int, end: int) -> None:
        """Number a task of an array of hls::task: `tasks[i](f, ...)`."""
        if self.tokens[start].text in self.instrumented.task_names:
            opening = start + 1
            while self._text(opening) == "[":
                opening = after(self.tokens, opening)
            self._task(start, end, self.tokens, opening)

    def _task(self, start: int, end: int, tokens: Sequence[Token], opening: int) -> None:
        """Insert the number of an hls::task before its arguments, which the token `opening` begins."""
        if opening < len(tokens) and tokens[opening].text == "(":
            arguments = split(tokens, opening + 1, after(tokens, opening) - 1)
            if arguments:
                function = "".join(token.text for token in arguments[0])
                number = self._site(function, start, end, is_wrapped=False).number
                at = f"::csdf_trace::At{{{number}}},"
                self.source.insert(tokens[opening].end, at, Rank.STATEMENT)

    def _invocations(self, start: int, end: int) -> None:
        """Number the invocations of TAPA tasks: `.invoke(f, ...)` or `.invoke<mode>(f, ...)`."""
        tokens = self.tokens
        for position in range(start, end):
            if (
                tokens[position].text != "invoke"
                or not position
                or tokens[position - 1].text != "."
            ):
                continue
            opening = position + 1
            if self._text(opening) == "<":
                opening = qualified(tokens, position)
            if self._text(opening) != "(":
                continue
            close = after(tokens, opening)
            arguments = split(tokens, opening + 1, close - 1)
            function = "".join(token.text for token in arguments[0]) if arguments else "task"
            site = self._site(function, position, close, is_wrapped=False)
            self.source.insert(tokens[position - 1].start, f".at({site.number})", Rank.STATEMENT)

    # -- sites ----------------------------------------------------------------------------------------

    def _site(
        self, name: str, start: int, end: int, *, is_inline: bool = False, is_wrapped: bool = True
    ) -> Site:
        """Record the tokens from `start` to before `end` as a statement that starts a process."""
        site = Site(
            number=FIRST_SITE + len(self.instrumented.sites),
            name=name,
            line=self._line(start),
            file=self.function.file,
            region=self.region,
            tokens=self.tokens[start:end],
            start=self.tokens[start].start,
            end=self.tokens[end - 1].end,
            counters=tuple(self.counters),
            is_inline=is_inline,
            is_wrapped=is_wrapped,
        )
        self.instrumented.sites.append(site)
        return site
