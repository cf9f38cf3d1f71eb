"""Graphs whose rates, tokens, sizes and durations are expressions in parameters, and their instances.

An instance is read by the reader of graphs without parameters, with its checks and messages. An XML
file becomes a template: a gap `@0@`, `@1@`, ... replaces each expression, and an instance fills the
gaps with numbers, in the same lines. For example rate="2*n,1" becomes rate="@0@,1", and rate="6,1" at
n = 3. A JSON document is copied with numbers instead of expressions.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from itertools import islice, product
from math import lcm
from typing import Any

from csdf.arguments import public
from csdf.errors import CsdfError, UnreadableFile, counted
from csdf.io import files, json_graph
from csdf.io.json_value import JsonValue
from csdf.model.exact import Exact, MalformedText, exact, natural, rational
from csdf.model.expression import Expression, has_names
from csdf.model.graph import FORMAT, Graph
from csdf.names import meant

Term = Fraction | Expression  # a number, or an expression in parameters
Terms = tuple[Term, ...]
Values = Mapping[str, Fraction]  # of the parameters

PROBES = (1, 2, 3, 4, 5, 6, 8, 12)  # values of each parameter, tried until a graph is valid
MOST_PROBES = 40  # combinations of values
MOST_PHASES = 100_000  # phases of an actor: each has a Term of its own
RATE_KEYS = ("production", "consumption", "release")
NO_EXPRESSIONS = (".csv", ".pi", ".scenario")  # suffixes of other formats of graphs
SCALAR_KEYS = ("initial_tokens", "capacity", "token_size")

_ATTRIBUTE = re.compile(
    r"""<!--.*?-->|\b(?:rate|time|initialTokens|sz|size|capacity|release)\s*=\s*("[^"<]*"|'[^'<]*')""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametricChannel:
    """The rates of a channel of a graph with parameters."""

    name: str
    producer: str
    consumer: str
    production: Terms
    consumption: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametricGraph:
    """Actors and channels whose numbers may be expressions in parameters.

    actors: the durations of each actor, in units of the user. further_expressions: the expressions of
    initial tokens, capacities, token sizes and release rates. `at` returns the graph at values of the
    parameters.
    """

    name: str
    actors: Mapping[str, Terms]
    channels: tuple[ParametricChannel, ...]
    further_expressions: tuple[Expression, ...]
    _filled: Callable[[Values], Graph]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters, sorted."""
        return tuple(
            sorted({name for expression in self._expressions for name in expression.names})
        )

    def is_only_in_durations(self, parameter: str) -> bool:
        """Whether only durations depend on a parameter."""
        elsewhere = [*self.further_expressions, *_expressions_of(self._rates)]
        return not any(parameter in expression.names for expression in elsewhere)

    def at(self, values: Mapping[str, Exact] | None = None, **more: Exact) -> Graph:
        """Return the graph at exact values, one for each parameter.

        Raises CsdfError for a parameter without a value and for an unknown parameter; UnreadableFile
        where the value of an expression is invalid, such as a negative rate.
        """
        arguments = {
            name: exact(value, f"parameter {name!r}:")
            for name, value in {**(values or {}), **more}.items()
        }
        names = self.parameters
        for name in arguments:
            if name not in names:
                listed = ", ".join(names) or "none"
                raise CsdfError(
                    f"graph {self.name!r} has no parameter {name!r}{meant(name, names)}; "
                    f"it has {listed}"
                )
        missing = [name for name in names if name not in arguments]
        if missing:
            raise CsdfError(
                f"graph {self.name!r} has the {counted(len(names), 'parameter')} {', '.join(names)}; "
                f"{', '.join(missing)} without a value"
            )
        return self._filled(arguments)

    def sample(self) -> tuple[dict[str, Fraction], Graph]:
        """Return small values of the parameters at which the graph is valid, and that graph.

        Raises UnreadableFile, with the error at the first values, if no tried values are valid.
        """
        first: CsdfError | None = None
        for numbers in probe_order(len(self.parameters)):
            values = {
                name: Fraction(value) for name, value in zip(self.parameters, numbers, strict=True)
            }
            try:
                return values, self.at(values)
            except CsdfError as error:
                first = first or error
        raise first or CsdfError(f"graph {self.name!r} has no values to be tried with")

    @property
    def _rates(self) -> Iterator[Terms]:
        return (
            rates
            for channel in self.channels
            for rates in (channel.production, channel.consumption)
        )

    @property
    def _expressions(self) -> list[Expression]:
        return [*self.further_expressions, *_expressions_of([*self._rates, *self.actors.values()])]


def probe_order(count: int) -> list[tuple[int, ...]]:
    """Return MOST_PROBES combinations of `count` values.

    They are sorted by the number of distinct values, then by sum: (1, 1), (2, 2), ..., (1, 2), (2, 1).
    """
    equal = [(value,) * count for value in PROBES]
    combinations = dict.fromkeys([*equal, *islice(product(PROBES, repeat=count), MOST_PROBES)])
    order = sorted(combinations, key=lambda values: (len(set(values)), sum(values)))
    return order[:MOST_PROBES]


@public
def read_parametric_graph(
    path: str | os.PathLike[str],
    *,
    assume_zero_times: bool = False,
    buffer_sizes: bool | None = None,
    most: int = files.LARGEST_FILE_BYTES,
) -> ParametricGraph:
    """Return the graph of an SDF3 (.xml) or JSON (.json) file with expressions for numbers.

    In XML the attributes rate, time, initialTokens, sz, size, capacity and release may contain
    expressions; in JSON a string instead of a number is an expression. In XML `2*n` is two times n,
    while `2*3` is SDF3's abbreviation of 3,3. The options are those of `read_graph`. Raises
    UnreadableFile.
    """
    name = os.fspath(path)
    if files.suffix_of(name) in NO_EXPRESSIONS:
        raise UnreadableFile(f"{name}: expressions are read in SDF3 XML (.xml) and JSON (.json)")
    content = files.read_bytes(path, most)
    if files.suffix_of(name) == ".json" or content.lstrip()[:1] == b"{":
        return from_json(files.decoded(content, name), name)
    options = {"assume_zero_times": assume_zero_times, "buffer_sizes": buffer_sizes, "most": most}
    return _from_xml(content, name, options)


def parameters_of_file(path: str | os.PathLike[str], maximum: int) -> tuple[str, ...]:
    """Return the parameters of a file that `read_graph` refuses; () if it has other errors."""
    try:
        return read_parametric_graph(path, most=maximum).parameters
    except CsdfError:
        return ()


class _Gaps:
    """The distinct expressions of a file; the gap `@i@` is in the place of `listed[i]`.

    If the file itself contains such a text, for example in a name, gaps have more signs: `@@i@@`.
    """

    def __init__(self, text: str = "") -> None:
        self.listed: list[Expression] = []
        self._numbers: dict[str, int] = {}
        self._sign = "@"
        while self._pattern.search(text):
            self._sign += "@"

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(f"{self._sign}([0-9]+){self._sign}")

    def mark(self, text: str) -> str:
        """Return the gap for an expression. Raises MalformedText."""
        expression = Expression(text)
        number = self._numbers.setdefault(expression.text, len(self.listed))
        if number == len(self.listed):
            self.listed.append(expression)
        return f"{self._sign}{number}{self._sign}"

    def term(self, text: str) -> Term:
        """Return the expression of a gap, or the number of another text. Raises MalformedText."""
        gap = self._pattern.fullmatch(text.strip())
        return rational(text) if gap is None else self.listed[int(gap[1])]

    def fill(self, template: str, values: Values, name: str) -> str:
        """Return the template with the gaps filled. Raises UnreadableFile with the line of a gap."""
        texts: dict[int, str] = {}

        def number(gap: re.Match[str]) -> str:
            index = int(gap[1])
            if index not in texts:
                try:
                    texts[index] = str(self.listed[index].value(values))
                except MalformedText as error:
                    line = template.count("\n", 0, gap.start()) + 1
                    raise UnreadableFile(f"{name}:{line}: {error}") from None
            return texts[index]

        return self._pattern.sub(number, template)


def _from_xml(content: bytes, name: str, options: Mapping[str, Any]) -> ParametricGraph:
    # Imported here, so that JSON files with parameters do not load the XML reader.
    source = import_module("csdf.io.sdf3.source")
    actor_texts = import_module("csdf.io.sdf3.actors")
    reader = import_module("csdf.io.sdf3.reader")
    text = source.open_document(content, name, options["most"]).text
    text = re.sub(r"\A\s*<\?xml[^>]*\?>", lambda match: "\n" * match[0].count("\n"), text)
    gaps = _Gaps(text)
    template = _ATTRIBUTE.sub(lambda match: _with_gaps(match, gaps, text, name), text)
    document = source.open_document(template.encode(), name, options["most"])
    zero = bool(options["assume_zero_times"])
    texts = actor_texts.read_actor_texts(document, assume_zero_times=zero)
    channels = reader.read_channel_texts(document, texts)

    def terms(element: Any, what: str, sequence: str, phases: int) -> Terms:
        if phases > MOST_PHASES:
            limit = f"a graph with parameters has at most {MOST_PHASES} of an actor"
            raise document.refusal(element, f"{what}: {phases} phases; {limit}")
        try:
            return _sequence(sequence, phases, gaps)
        except MalformedText as error:
            raise document.refusal(element, f"{what} {error}") from None

    times = {}
    for actor, actor_text in texts.items():
        marked = [processor.is_default for processor in actor_text.processors]
        chosen = actor_texts.chosen_processor(marked)
        sequence = "0" if chosen is None else actor_text.processors[chosen].sequence
        times[actor] = terms(
            actor_text.element, f"actor {actor!r}: time", sequence, actor_text.phases
        )
    parametric_channels = []
    for channel in channels.values():
        production, consumption = (
            terms(channel.element, f"channel {channel.name!r}: rate", port.sequence, end.phases)
            for port, end in (
                (channel.source, channel.producer),
                (channel.destination, channel.consumer),
            )
        )
        parametric_channels.append(
            ParametricChannel(
                name=channel.name, producer=channel.producer.name, consumer=channel.consumer.name,
                production=production, consumption=consumption,
            )
        )  # fmt: skip
    rates_and_durations = set(_expressions_of(times.values()))
    for parametric in parametric_channels:
        rates_and_durations.update(_expressions_of((parametric.production, parametric.consumption)))

    def filled(values: Values) -> Graph:
        document = gaps.fill(template, values, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return reader.parse_sdf3(document.encode(), name, **options)  # type: ignore[no-any-return]

    return ParametricGraph(
        name=import_module("csdf.io.sdf3.document").graph_name(document),
        actors=times, channels=tuple(parametric_channels), _filled=filled,
        further_expressions=tuple(term for term in gaps.listed if term not in rates_and_durations),
    )  # fmt: skip


def _with_gaps(attribute: re.Match[str], gaps: _Gaps, text: str, name: str) -> str:
    """Return an attribute, or a comment, of a file with a gap instead of each expression."""
    quoted = attribute[1]
    if quoted is None or not has_names(quoted):
        return attribute[0]
    quote, value = quoted[0], quoted[1:-1]
    head = attribute[0][: -len(quoted)]
    try:
        parts = [gaps.mark(entry) if has_names(entry) else entry for entry in _entries(value)]
    except MalformedText as error:
        line = text.count("\n", 0, attribute.start()) + 1
        raise UnreadableFile(f"{name}:{line}: {head.strip(' =')} {error}") from None
    return f"{head}{quote}{''.join(parts)}{quote}"


def _entries(value: str) -> list[str]:
    """Split a list at its commas and semicolons, except within brackets; separators are entries."""
    words, depth = [""], 0
    for character in value:
        depth += (character == "(") - (character == ")")
        if character in ",;" and depth == 0:
            words += [character, ""]
        else:
            words[-1] += character
    return words


def _sequence(text: str, phases: int, gaps: _Gaps) -> Terms:
    """Return the terms of all phases. In SDF3 `2*3` abbreviates 3,3; expressions are gaps here."""
    terms: list[Term] = []
    for entry in text.split(","):
        count, star, value = entry.partition("*")
        terms += [gaps.term(value if star else entry)] * (natural(count) if star else 1)
    return tuple(terms) * (phases // len(terms))


def _expressions_of(lists: Iterable[Terms]) -> list[Expression]:
    return [term for terms in lists for term in terms if isinstance(term, Expression)]


def from_json(text: str, name: str) -> ParametricGraph:
    """Return the graph with parameters of a JSON text. Raises UnreadableFile."""
    document = JsonValue.parse(text, name)
    if document["format"].text() != FORMAT:
        raise document["format"].refusal(f"expected {FORMAT!r}")
    unit = document["time_unit"].fraction()
    gaps = _Gaps()
    actors = {
        actor["name"].text(): tuple(
            _scaled(_term(entry, gaps), unit, gaps) for entry in actor["durations"].items()
        )
        for actor in document["actors"].items()
    }
    scalars: list[Term] = []
    channels = []
    for channel in document["channels"].items():
        production, consumption = (
            tuple(_term(entry, gaps) for entry in channel[key].items()) for key in RATE_KEYS[:2]
        )
        scalars += [_term(channel[key], gaps) for key in SCALAR_KEYS if not channel[key].is_null]
        if not channel["release"].is_null:
            scalars += [_term(entry, gaps) for entry in channel["release"].items()]
        channels.append(
            ParametricChannel(
                name=channel["name"].text(), producer=channel["producer"].text(),
                consumer=channel["consumer"].text(), production=production, consumption=consumption,
            )
        )  # fmt: skip
    return ParametricGraph(
        name=document["name"].text(), actors=actors, channels=tuple(channels),
        further_expressions=tuple(_expressions_of([tuple(scalars)])),
        _filled=lambda values: _filled_json(document, values),
    )  # fmt: skip


def _term(entry: JsonValue, gaps: _Gaps) -> Term:
    if not isinstance(entry.value, str):
        return Fraction(entry.natural())
    try:
        term = gaps.term(gaps.mark(entry.value))
        return term if isinstance(term, Fraction) or term.names else term.value({})
    except MalformedText as error:
        raise entry.refusal(f"expected a number or an expression: {error}") from None


def _scaled(term: Term, unit: Fraction, gaps: _Gaps) -> Term:
    """Return a duration in units of the user."""
    if isinstance(term, Fraction):
        return term * unit
    return (
        term
        if unit == 1
        else gaps.term(gaps.mark(f"({term.text}) * {unit.numerator} / {unit.denominator}"))
    )


def _filled_json(document: JsonValue, values: Values) -> Graph:
    """Return the graph of a JSON document at values of its parameters."""
    actors = []
    times: list[list[Fraction]] = []
    for actor in document["actors"].items():
        times.append([_number(entry, values) for entry in actor["durations"].items()])
        actors.append(actor)
    scale = lcm(*(time.denominator for row in times for time in row))
    whole = dict(document.value)
    whole["time_unit"] = str(document["time_unit"].fraction() / scale)
    whole["actors"] = [
        actor.value
        | {"durations": [int(time * scale) for time in row]}
        | ({"processors": _finer(actor["processors"], scale)} if scale > 1 else {})
        for actor, row in zip(actors, times, strict=True)
    ]
    whole["channels"] = []
    for channel in document["channels"].items():
        computed = dict(channel.value)
        for key in RATE_KEYS:
            if not channel[key].is_null:
                computed[key] = [_whole(entry, values) for entry in channel[key].items()]
        for key in SCALAR_KEYS:
            if not channel[key].is_null:
                computed[key] = _whole(channel[key], values)
        whole["channels"].append(computed)
    return JsonValue(whole, document.file, "").built(Graph, json_graph.FORMS)


def _finer(processors: JsonValue, scale: int) -> list[Any]:
    return [
        processor.value
        | {"durations": [time * scale for time in processor["durations"].naturals()]}
        for processor in processors.items()
    ]


def _number(entry: JsonValue, values: Values) -> Fraction:
    if not isinstance(entry.value, str):
        return Fraction(entry.natural())
    try:
        value = Expression(entry.value).value(values)
    except MalformedText as error:
        raise entry.refusal(f"expected an expression with a value: {error}") from None
    if value < 0:
        raise entry.refusal(f"its value is {value}; expected 0 or more")
    return value


def _whole(entry: JsonValue, values: Values) -> int:
    number = _number(entry, values)
    if number.denominator != 1:
        raise entry.refusal(f"its value is {number}; expected an integer")
    return int(number)
