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
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum

from planners.fifo.hls.cpp_tokens import (
    OPEN,
    Pragma,
    Token,
    after,
    declared,
    pragma_of,
    qualified,
    split,
)
from planners.fifo.hls.sources import (
    FIRST_SITE,
    Function,
    LoopText,
    RegionVariable,
    Site,
    SourceDesign,
)

LOOPS = (
    "for",
    "while",
    "do",
    "TAPA_WHILE_NOT_EOT",
    "TAPA_WHILE_NEITHER_EOT",
    "TAPA_WHILE_NONE_EOT",
)


Declarators = Sequence[tuple[Token, Sequence[Token]]]
"""The variables of a declaration, each with the tokens after its name."""


class Rank(IntEnum):
    """The order of insertions at one position of a source: lower ranks come first.

    After a token, the wider of two scopes opens first; before a token, the narrower closes first.
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


def instrument(design: SourceDesign, top: Function) -> None:
    """Decide all insertions."""
    design.top = top
    for functions in design.functions.values():
        for function in functions:
            Body(design, function).walk()
    for site in design.sites:
        if site.is_wrapped:
            _wrap(design, site)


def _wrap(design: SourceDesign, site: Site) -> None:
    """Move the statement of a process into a lambda, after the writers of the variables it reads."""
    users = [
        design.users(variable) for variable in design.variables if variable.region == site.region
    ]
    writers = {
        writer
        for variable_writers, readers in users
        if site.number in readers
        for writer in variable_writers
        if writer < site.number
    }
    deps = ",".join(map(str, sorted(writers)))
    copies = "".join(f",{name}={name}" for name in site.indices)
    call = "run_inline" if site.is_inline else "run"
    is_replicated = str(site.is_replicated).lower()
    source = list(design.sources.values())[site.file]
    source.insert(
        site.start,
        f"::csdf_trace::{call}({site.number},{{{deps}}},{is_replicated},[&{copies}]{{",
        Rank.STATEMENT,
    )
    source.insert(site.end, "});", Rank.END_PROCESS)


class Body:
    """A walk over the statements of one function, which decides the insertions."""

    def __init__(self, design: SourceDesign, function: Function) -> None:
        self.design, self.function = design, function
        self.source = list(design.sources.values())[function.file]
        self.tokens = function.tokens
        self.unlabelled = 0
        self.ends: list[str] = []  # calls inserted before each return
        # Number of the dataflow region, whose statements are processes.
        self.region: int | None = None
        self.indices: list[str] = []  # counters of the enclosing unrolled loops of the region
        self.scopes: list[LoopText] = []

    def walk(self) -> None:
        """Walk the body."""
        first, last = self.function.body
        is_top = self.function is self.design.top
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
        file, line = self.function.file, self.function.line
        text = ""
        for parameter in self.function.parameters:
            if self.design.stream_types.isdisjoint(t.text for t in parameter):
                continue
            for name, suffix in declared(parameter):
                if suffix and suffix[0].text == "[":
                    count = self.source.text[suffix[1].start : suffix[after(suffix, 0) - 1].start]
                    text += f'::csdf_trace::ports({name.text},{count},"{name.text}",{file},{line});'
                else:
                    text += f'::csdf_trace::port({name.text},"{name.text}",{file},{line});'
        for full, file, line in self.design.global_streams:
            if file == self.function.file and line < self.function.line:
                text += (
                    f'::csdf_trace::declared({full},"{full.rpartition("::")[2]}",{file},{line});'
                )
        return text

    def _text(self, i: int) -> str:
        return self.tokens[i].text if i < len(self.tokens) else ""

    def _line(self, i: int) -> int:
        return self.source.line(self.tokens[i].start)

    def _compound(self, first: int, last: int) -> None:
        """Walk the statements between two braces: a region if they contain the dataflow pragma."""
        outer, indices, self.region = self.region, self.indices, None
        is_region = self._is_region(first, last)
        if is_region:
            self.region = len(self.design.regions)
            self.design.regions.append((self.function, self._line(first)))
            self.indices = []
            self.ends.append("csdf_region.join()")
            self.source.insert(
                self.tokens[first].end, "::csdf_trace::Region csdf_region;", Rank.OPEN_REGION
            )
        self._statements(first, last)
        if is_region:
            self.ends.pop()
            self.source.insert(self.tokens[last].start, "csdf_region.join();", Rank.JOIN_REGION)
        self.region, self.indices = outer, indices

    def _is_region(self, first: int, last: int) -> bool:
        """Whether the dataflow pragma is between two braces, outside inner brackets."""
        position = first + 1
        while position < last:
            if (pragma := self._pragma(position)) and pragma[0].name == "dataflow":
                return "off" not in pragma[0].flags
            if self._text(position) in OPEN and self.tokens[position].kind == "sign":
                position = after(self.tokens, position)
            else:
                position += 1
        return False

    def _statements(self, first: int, last: int) -> None:
        """Walk the statements between two braces."""
        position = first + 1
        while position < last:
            position = max(self._statement(position, last), position + 1)

    def _pragma(self, i: int) -> tuple[Pragma, int] | None:
        """The HLS pragma at a position, and the next position: a directive, _Pragma, or a macro."""
        tokens = self.tokens
        if i >= len(tokens):
            return None
        if tokens[i].kind == "pragma":
            pragma = pragma_of(tokens[i].text, self._line(i))
            return pragma and (pragma, i + 1)
        if tokens[i].kind == "word" and self._text(i + 1) == "(":
            inner = self._text(i + 2)
            if inner == "HLS" or (
                tokens[i].text == "_Pragma" and inner[:5].lstrip('"').startswith("HLS")
            ):
                end = after(tokens, i + 1)
                text = (
                    self.source.text[tokens[i + 2].start : tokens[end - 1].start].strip().strip('"')
                )
                pragma = pragma_of(text, self._line(i))
                return pragma and (pragma, end + (self._text(end) == ";"))
        return None

    def _statement(self, start: int, last: int) -> int:
        """Walk the statement at a position before `last`; return the position after the statement."""
        tokens = self.tokens
        text = tokens[start].text
        if pragma := self._pragma(start):
            self._obey(pragma[0], pragma[1])
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
                return self._case(start, last)
            if self._text(start + 1) == ":" and text not in ("public", "private", "protected"):
                return self._labelled(start, last)
        return self._simple(start, last)

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

    def _case(self, start: int, last: int) -> int:
        """Return the position after the colon of a `case` or `default`."""
        colon = start
        while colon < last and self._text(colon) != ":":
            colon += 1
        return colon + 1

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
            site = self._site(name, "loop", start, start + 1)
            self.region = None
        self.design.loops.append(loop)
        number = len(self.design.loops) - 1
        is_recorded = not self.function.is_constant
        if is_recorded:
            self._record_loop(keyword, number)
        end = self._loop_body(loop, body, last, number if is_recorded else None)
        if self._text(keyword) == "do":
            end = after(self.tokens, end + 1) + 1
        self.region = region
        if site:
            site.end = self.tokens[end - 1].end
            site.tokens = self.tokens[start:end]
        return end

    def _loop_text(self, start: int, i: int) -> tuple[LoopText, int]:
        """Return a loop with the pragmas before its body, and the position of the body."""
        label = self.tokens[start].text if start != i else ""
        loop = LoopText(
            label=label,
            line=self._line(i),
            file=self.function.file,
            function=self.function.name,
            number=0,
        )
        if not label:
            self.unlabelled += 1
            loop.number = self.unlabelled
        body = i + 1 if self.tokens[i].text == "do" else after(self.tokens, i + 1)
        while (pragma := self._pragma(body)) is not None:
            loop.pragmas.append(pragma[0])
            body = pragma[1]
        return loop, body

    def _unrolled_loop(self, i: int, body: int, last: int) -> int:
        """Walk the body of an unrolled loop, whose counter tells its processes apart."""
        outer = self.indices
        # The counter precedes `=`, or `:` in a loop over a range, within three tokens.
        counters = [
            self.tokens[i + 2 + k].text for k in range(3) if self._text(i + 3 + k) in ("=", ":")
        ]
        self.indices = [*outer, *counters[:1]]
        end = self._statement(body, last)
        self.indices = outer
        return end

    def _record_loop(self, i: int, number: int) -> None:
        """Insert the record of the executions of a loop, and of the tests of its condition."""
        token = self.tokens[i]
        self.source.insert(
            token.start,
            f"for(::csdf_trace::Loop csdf_{number}({number});csdf_{number}.once();csdf_{number}.end())",
            Rank.LOOP,
        )
        if token.text in ("for", "while") and (test := self._test(i)):
            self.source.insert(test, f"(void)csdf_{number}.test(),", Rank.STATEMENT)

    def _loop_body(self, loop: LoopText, body: int, last: int, number: int | None) -> int:
        """Walk the body of a loop and return the position after it; number: of a recorded loop."""
        token = self.tokens[body]
        if token.text == "{":
            if number is not None:
                self.source.insert(token.end, f"csdf_{number}.iteration();", Rank.OPEN_SCOPE)
            self.scopes.append(loop)
            end = after(self.tokens, body)
            self._compound(body, end - 1)
            self.scopes.pop()
            return end
        if number is not None:
            self.source.insert(
                token.start, f"if(csdf_{number}.iteration()){{}}else ", Rank.STATEMENT
            )
        return self._statement(body, last)

    def _test(self, i: int) -> int:
        """The position of the condition of a loop, if it has a call, which may read a FIFO; else 0."""
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
        """Whether a loop of a region is unrolled and calls functions: each iteration is a process."""
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
        """Record a pragma of a loop body; pass depths and kinds of storage to the run."""
        if self.scopes:
            self.scopes[-1].pragmas.append(pragma)
        name = pragma.settings.get("variable", "").lstrip("&")
        if pragma.name not in ("stream", "bind_storage", "resource") or not re.fullmatch(
            r"[\w:.\[\]]+", name
        ):
            return
        while following < len(self.tokens) and (self.tokens[following].kind == "pragma"):
            following += 1
        at = self.tokens[following].start
        if pragma.name == "stream" and "depth" in pragma.settings:
            self.source.insert(
                at,
                f"::csdf_trace::depth({name},({pragma.settings['depth']}),{self.function.file},{pragma.line});",
                Rank.DIRECTIVE,
            )
        elif kind := pragma.settings.get("impl") or pragma.settings.get("core"):
            self.source.insert(
                at, f'::csdf_trace::storage({name},"{kind.lower()}");', Rank.DIRECTIVE
            )

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

    def _simple(self, start: int, last: int) -> int:
        """Walk an expression, a declaration or a jump; return the position after its semicolon."""
        end = self._end_of_simple(start, last)
        if self._text(start) == "return":
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

    def _end_of_simple(self, start: int, last: int) -> int:
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
                inner = Body(self.design, self.function)
                inner.unlabelled = self.unlabelled
                inner._compound(end, close - 1)
                end = close
            elif tokens[end].text == "{" or is_capture:
                end = after(tokens, end)
            else:
                end += 1
        return min(end + 1, last)

    def _process(self, start: int, end: int) -> None:
        """Make a process of a statement of a region that calls a function of the sources."""
        name_end = qualified(self.tokens, start)
        is_call = name_end > start and self._text(name_end) == "("
        name = self._called(start, name_end) if is_call else ""
        spelled = name or self._method(start, end)
        if spelled:
            texts = [token.text for token in self.tokens[start:name_end]]
            if "<" in texts:
                spelled = "".join(texts)
            self._site(spelled, "call", start, end)
        elif assigned := self._assigned_call(start, end):
            self._site(assigned, "call", start, end, is_inline=True)

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
                name = position + 1
                name_end = qualified(self.tokens, name)
                is_call = name_end > name and self._text(name_end) == "("
                return self._called(name, name_end) if is_call else ""
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
                self._register_streams(end, names)
        elif self.region is not None:
            self._record_variables(self.region, names)
            if len(names) == 1:
                self._initialising_call(start, end, names[0][1])

    def _declared_tasks(self, start: int, end: int, names: Declarators) -> None:
        """Number the objects of hls::task: `task t(f, ...)` runs f; arrays get functions later."""
        for name, suffix in names:
            self.design.task_names.add(name.text)
            is_constructed = suffix and suffix[0].text == "("
            arguments = split(suffix, 1, after(suffix, 0) - 1) if is_constructed else ()
            if arguments:
                function = "".join(token.text for token in arguments[0])
                site = self._site(function, "task", start, end, is_wrapped=False)
                self._number_task(site, suffix[0].end)

    def _register_streams(self, end: int, names: Declarators) -> None:
        """Insert calls that register declared streams after their declaration."""
        file = self.function.file
        self.source.insert(
            self.tokens[end - 1].end,
            "".join(
                f'::csdf_trace::declared({name.text},"{name.text}",{file},{self.source.line(name.start)});'
                for name, _ in names
            ),
            Rank.DECLARED,
        )

    def _record_variables(self, region: int, names: Declarators) -> None:
        """Record variables of a region, by which its processes may depend on each other."""
        for name, suffix in names:
            self.design.variables.append(
                RegionVariable(
                    name=name.text,
                    line=self.source.line(name.start),
                    region=region,
                    is_array=bool(suffix) and suffix[0].text == "[",
                    at=name.start,
                )
            )

    def _initialising_call(self, start: int, end: int, suffix: Sequence[Token]) -> None:
        """Make a process of a call whose result initialises a variable: `type x = f(...);`."""
        if not suffix or suffix[0].text != "=":
            return
        name_end = qualified(suffix, 1)
        if not 1 < name_end < len(suffix) or suffix[name_end].text != "(":
            return
        texts = [token.text for token in suffix[1:name_end]]
        called = next((text for text in reversed(texts) if text in self.design.functions), "")
        if called:
            site = self._site(called, "call", start, end, is_inline=True, is_wrapped=False)
            # A lambda would end the scope of the variable.
            begin, finish = (
                f"::csdf_trace::begin({site.number});",
                f"::csdf_trace::end({site.number});",
            )
            self.source.insert(self.tokens[start].start, begin, Rank.STATEMENT)
            self.source.insert(self.tokens[end - 1].end, finish, Rank.END_CALL)

    # -- tasks ----------------------------------------------------------------------------------------

    def _task_element(self, start: int, end: int) -> None:
        """Number a task of an array of hls::task: `tasks[i](f, ...)`."""
        tokens = self.tokens
        if tokens[start].text not in self.design.task_names:
            return
        opening = start + 1
        while self._text(opening) == "[":
            opening = after(tokens, opening)
        is_call = self._text(opening) == "("
        arguments = split(tokens, opening + 1, after(tokens, opening) - 1) if is_call else ()
        if arguments:
            function = "".join(token.text for token in arguments[0])
            site = self._site(function, "task", start, end, is_wrapped=False)
            self._number_task(site, tokens[opening].end)

    def _number_task(self, site: Site, offset: int) -> None:
        """Insert the number of an hls::task before its arguments."""
        self.source.insert(offset, f"::csdf_trace::At{{{site.number}}},", Rank.STATEMENT)

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
            site = self._site(function, "task", position, close, is_wrapped=False)
            self.source.insert(tokens[position - 1].start, f".at({site.number})", Rank.STATEMENT)

    # -- sites ----------------------------------------------------------------------------------------

    def _site(
        self,
        name: str,
        kind: str,
        start: int,
        end: int,
        *,
        is_inline: bool = False,
        is_wrapped: bool = True,
    ) -> Site:
        """Record the tokens from `start` to before `end` as a statement that starts a process."""
        site = Site(
            number=FIRST_SITE + len(self.design.sites),
            name=name,
            kind=kind,
            line=self._line(start),
            file=self.function.file,
            region=-1 if self.region is None else self.region,
            tokens=self.tokens[start:end],
            start=self.tokens[start].start,
            end=self.tokens[end - 1].end,
            is_replicated=bool(self.indices),
            indices=tuple(self.indices),
            is_inline=is_inline,
            is_wrapped=is_wrapped,
        )
        self.design.sites.append(site)
        return site
