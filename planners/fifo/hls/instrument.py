"""Insertions into the C++ of a dataflow design that make its run a trace.

Only what is inserted into a text can be wrong, never the existing text: no token is changed, moved or
taken away, and every line keeps its number.
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
from planners.fifo.hls.sources import Function, LoopText, RegionVariable, Site, SourceDesign

LOOPS = (
    *("for", "while", "do"),
    *("TAPA_WHILE_NOT_EOT", "TAPA_WHILE_NEITHER_EOT", "TAPA_WHILE_NONE_EOT"),
)
# The start of a process whose statement is numbered in place, not wrapped in a lambda.
UNWRAPPED = -1


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
    sources = list(design.sources.values())
    for number, site in enumerate(design.sites, 2):
        if site.start == UNWRAPPED:
            continue
        after_sites = sorted(
            {
                writer
                for variable in design.variables
                if variable.region == site.region
                for writer in design.users(variable)[0]
                if writer < number and number in design.users(variable)[1]
            }
        )
        deps = ",".join(map(str, after_sites))
        copies = "".join(f",{name}={name}" for name in site.indices)
        call = "run_inline" if site.is_inline else "run"
        source = sources[site.file]
        source.insert(
            site.start,
            f"::csdf_trace::{call}({number},{{{deps}}},{str(site.is_replicated).lower()},[&{copies}]{{",
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
        self.region: int | None = (
            None  # number of the dataflow region, whose statements are processes
        )
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
        is_region = False
        i = first + 1
        while i < last:
            if (pragma := self._pragma(i)) and pragma[0].name == "dataflow":
                is_region = "off" not in pragma[0].flags
                break
            if self._text(i) in OPEN and self.tokens[i].kind == "sign":
                i = after(self.tokens, i)
            else:
                i += 1
        if is_region:
            self.region = len(self.design.regions)
            self.design.regions.append((self.function, self._line(first)))
            self.indices = []
            self.ends.append("csdf_region.join()")
            self.source.insert(
                self.tokens[first].end, "::csdf_trace::Region csdf_region;", Rank.OPEN_REGION
            )
        i = first + 1
        while i < last:
            i = max(self._statement(i, last), i + 1)
        if is_region:
            self.ends.pop()
            self.source.insert(self.tokens[last].start, "csdf_region.join();", Rank.JOIN_REGION)
        self.region, self.indices = outer, indices

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

    def _statement(self, i: int, last: int) -> int:
        """Walk the statement at i; return the position after it."""
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
                return (
                    self._loop(i, k, last)
                    if self._text(k) in LOOPS
                    else self._statement(min(k, last - 1), last)
                )
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
        """Walk a loop at i, whose label, if any, is at start; return the position after it."""
        tokens = self.tokens
        loop, body = self._loop_text(start, i)
        region = self.region
        site = None
        if region is not None:
            if self._unrolled_calls(body):
                return self._unrolled_loop(i, body, last)
            name = loop.label or f"VITIS_LOOP_{loop.line}_{loop.number}"
            site = self._site(name, "loop", start)
            self.region = None
        self.design.loops.append(loop)
        number = len(self.design.loops) - 1
        is_recorded = not self.function.is_constant
        if is_recorded:
            self._record_loop(i, number)
        end = self._loop_body(loop, body, last, number if is_recorded else None)
        if tokens[i].text == "do":
            end = after(tokens, end + 1) + 1
        self.region = region
        if site:
            site.end = tokens[end - 1].end
            site.tokens = tokens[start:end]
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
            elif tokens[end].text == "{" or (
                tokens[end].text == "["
                and self._text(end - 1) not in ("]",)
                and tokens[end - 1].kind != "word"
            ):
                end = after(tokens, end)
            else:
                end += 1
        end = min(end + 1, last)
        if tokens[i].text == "return":
            for action in reversed(self.ends):
                self.source.insert(tokens[i].start, f"if({action}){{}}else ", Rank.RETURN)
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
            for name, suffix in names:
                self.design.task_names.add(name.text)
                arguments = (
                    split(suffix, 1, after(suffix, 0) - 1)
                    if suffix and suffix[0].text == "("
                    else ()
                )
                if arguments:
                    site = self._site("".join(t.text for t in arguments[0]), "task", i)
                    site.start = UNWRAPPED
                    site.tokens = tokens[i:end]
                    self.source.insert(
                        suffix[0].end,
                        f"::csdf_trace::At{{{len(self.design.sites) + 1}}},",
                        Rank.STATEMENT,
                    )
            return
        if self.design.stream_types.intersection(head):
            if "&" in head or any(suffix[:1] and suffix[0].text == "=" for _, suffix in names):
                return
            self.source.insert(
                stop,
                "".join(
                    f'::csdf_trace::declared({n.text},"{n.text}",{file},{self.source.line(n.start)});'
                    for n, _ in names
                ),
                Rank.DECLARED,
            )
            return
        if self.region is None:
            return
        for name, suffix in names:
            self.design.variables.append(
                RegionVariable(
                    name=name.text,
                    line=self.source.line(name.start),
                    region=self.region,
                    is_array=bool(suffix) and suffix[0].text == "[",
                    at=name.start,
                )
            )
        if len(names) == 1 and names[0][1] and names[0][1][0].text == "=":
            suffix = names[0][1]
            q = qualified(suffix, 1)
            if (
                q > 1
                and q < len(suffix)
                and suffix[q].text == "("
                and (
                    called := next(
                        (t.text for t in reversed(suffix[1:q]) if t.text in self.design.functions),
                        "",
                    )
                )
            ):
                site = self._site(called, "call", i, is_inline=True)
                site.start, site.end = UNWRAPPED, tokens[end - 1].end
                site.tokens = tokens[i:end]
                number = len(self.design.sites) + 1
                self.source.insert(
                    tokens[i].start, f"::csdf_trace::begin({number});", Rank.STATEMENT
                )
                self.source.insert(
                    tokens[end - 1].end, f"::csdf_trace::end({number});", Rank.END_CALL
                )

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
                site.start = UNWRAPPED
                site.tokens = tokens[i:end]
                self.source.insert(
                    tokens[k].end,
                    f"::csdf_trace::At{{{len(self.design.sites) + 1}}},",
                    Rank.STATEMENT,
                )
        for k in range(i, end):
            if tokens[k].text == "invoke" and k and tokens[k - 1].text == ".":
                opening = k + 1
                if self._text(opening) == "<":
                    opening = qualified(tokens, k)
                if self._text(opening) == "(":
                    first = split(tokens, opening + 1, after(tokens, opening) - 1)
                    site = self._site(
                        "".join(t.text for t in first[0]) if first else "task", "task", k
                    )
                    site.start = UNWRAPPED
                    site.tokens = tokens[k : after(tokens, opening)]
                    self.source.insert(
                        tokens[k - 1].start, f".at({len(self.design.sites) + 1})", Rank.STATEMENT
                    )

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
