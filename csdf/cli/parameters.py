"""Answers of `csdf analyze` about graphs with parameters: formulas, and all values of a range."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from csdf.cli import answers, graph_input, loading, parsers
from csdf.cli.frame import output, terminal
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.options import concurrency
from csdf.errors import CsdfError, UnreadableFile
from csdf.io.latex import booktabs, escaped
from csdf.model.graph import Graph
from csdf.parameters.consistency import SymbolicRepetitions, symbolic_repetitions
from csdf.parameters.formula import latex_name
from csdf.parameters.graph import ParametricGraph
from csdf.parameters.sweep import Instance, Sweep, sweep
from csdf.status import Status

SHOWN = 64  # most values listed; JSON and CSV have all
NAMES = 12  # most actors on a line
FUNCTIONS = {"Min": "min", "Max": "max", "ceiling": "ceil"}  # of SymPy, as they are written here


def work(options: argparse.Namespace) -> int:
    """Print facts for all values of the parameters, and for the values that are set."""
    if len(options.file) > 1:
        options.refuse("--symbolic and ranges of --set are for one file")
    if options.method != "auto":
        options.refuse("--method is for one value of each parameter")
    (path,) = options.file
    values = graph_input.set_values(options)
    if options.plot and sum(len(listed) > 1 for listed in values.values()) != 1:
        options.refuse("--plot needs several values of one parameter, such as --set n=1..64")
    graph = graph_input.read_parametric(path, options)
    if not graph.parameters:
        raise CsdfError(f"{path}: has no parameters; every number in it is given")
    try:
        repetitions = symbolic_repetitions(graph)
    except CsdfError as error:
        raise UnreadableFile(f"{path}: {error}") from None
    formulas = repetitions if options.symbolic else None
    swept = None
    if values or _has_line(graph):
        swept = _swept(graph, values, repetitions, options)
    shown = {} if formulas is None else {"symbolic": formulas.to_json()}
    if swept is not None and values:
        shown |= swept.to_json()
    elif swept is not None and swept.segments:
        shown["segments"] = [segment.to_json() for segment in swept.segments]
    head = {"graph": graph.name, "parameters": list(graph.parameters)}
    if options.csv:
        print(_as_csv(swept) if swept is not None and values else "", end="")
    else:
        answers.show(head | shown, _lines(graph, formulas, swept, has_values=bool(values)), options)
    about = swept if values else None
    loading.plot(options, "csdf.draw.charts", "sweep_picture", about)
    if options.table:
        text = _value_table(about) if about is not None else _vector_table(graph, formulas)
        output.write(options.program, options.table, text)
    return _exit_code(formulas, about)


def _has_line(graph: ParametricGraph) -> bool:
    """Whether the period is known as a function of the only parameter without any value."""
    return len(graph.parameters) == 1 and graph.is_only_in_durations(graph.parameters[0])


def _swept(
    graph: ParametricGraph,
    values: Mapping[str, Sequence[Fraction]],
    repetitions: SymbolicRepetitions,
    options: argparse.Namespace,
) -> Sweep:
    seconds = options.time_limit
    with limited(parsers.SEARCH_SECONDS if seconds is None else seconds) as stop:
        requested = values
        if not values:
            sample, _ = graph.sample()
            requested = {name: (value, value + 1) for name, value in sample.items()}
        missing = [name for name in graph.parameters if name not in requested]
        unknown = [name for name in requested if name not in graph.parameters]
        if missing or unknown:
            graph.at({name: listed[0] for name, listed in requested.items()})

        def changed(instance: Graph) -> tuple[Graph, Sequence[str]]:
            limited_one = concurrency.limited(instance, options)
            return limited_one, concurrency.added_loops(instance, limited_one)

        rest = telling(stop, f"analysing {graph.name}")
        return sweep(
            graph, requested, change=changed, with_storage=bool(values), repetitions=repetitions,
            budget=rest,
        )  # fmt: skip


def _exit_code(found: SymbolicRepetitions | None, swept: Sweep | None) -> int:
    """0 for an answer; 1 where no value has a period; 2 where none is valid; 3 where it is unknown."""
    if swept is None:
        return answers.NO if found is not None and found.is_never else answers.ANSWERED
    kinds = {instance.answer for instance in swept.instances}
    if "period" in kinds or not kinds:
        return answers.ANSWERED if swept.is_complete else answers.UNKNOWN
    if "unknown" in kinds:
        return answers.UNKNOWN
    return answers.UNUSABLE if kinds == {"invalid"} else answers.NO


def _varied(swept: Sweep) -> list[str]:
    return [
        name
        for name in swept.parameters
        if len({instance.values[name] for instance in swept.instances}) > 1
    ]


def written(expression: object) -> str:
    """Return an expression of SymPy as it would be written in a graph."""
    return re.sub("|".join(FUNCTIONS), lambda match: FUNCTIONS[match[0]], str(expression))


def _lines(
    graph: ParametricGraph,
    found: SymbolicRepetitions | None,
    swept: Sweep | None,
    *,
    has_values: bool,
) -> Iterator[str]:
    names = f"{answers.counted(len(graph.parameters), 'parameter')} {', '.join(graph.parameters)}"
    rows: list[tuple[str, str]] = []
    if found is not None:
        rows += _symbolic_rows(found)
    if swept is not None and swept.segments:
        rows += _segment_rows(swept)
    verdict = names
    if found is not None and found.is_never:
        verdict = f"inconsistent at all values; {names}"
    elif found is not None:
        terms = "if the conditions hold" if found.conditions else "at all values"
        verdict = f"consistent {terms}; {names}"
    yield from answers.table(f"{graph.name}: {verdict}", rows)
    if swept is not None and has_values:
        yield from _value_lines(swept)


def _symbolic_rows(found: SymbolicRepetitions) -> list[tuple[str, str]]:
    firings = [f"{name} {written(value)}" for name, value in found.repetition_vector.items()]
    rows = [("repetitions", answers.listed_up_to(firings, NAMES))]
    divisors = [written(divisor) for divisor in found.divisors if divisor != "1"]
    rows += [("divided by" if not index else "", divisor) for index, divisor in enumerate(divisors)]
    if found.is_never:
        closing = found.conditions[-1]
        produced, consumed = written(closing.produced), written(closing.consumed)
        rows.append(("channel", closing.channel))
        rows.append(("", f"gets {produced} tokens in an iteration, and loses {consumed}"))
    for index, condition in enumerate(() if found.is_never else found.conditions):
        text = f"if {written(condition.text)} (channel {condition.channel})"
        rows.append(("" if index else "conditions", text))
    return rows


def _segment_rows(swept: Sweep) -> list[tuple[str, str]]:
    """The period as a function of a parameter of durations, for all of its values."""
    (name,) = _varied(swept)
    rows: list[tuple[str, str]] = []
    for segment in swept.segments:
        slope, base = segment.slope, segment.period(0)
        terms = [f"{slope}*{name}"] if slope else []
        terms += [str(base)] if base or not slope else []
        line = " + ".join(terms).replace("+ -", "- ")
        end = "" if segment.end is None else f" <= {segment.end}"
        rows.append(("" if rows else "period", f"{line} for {segment.start} <= {name}{end}"))
    return rows


def _value_lines(swept: Sweep) -> Iterator[str]:
    reason = "reason" if any(instance.reason for instance in swept.instances[:SHOWN]) else ""
    table = [[*swept.parameters, "firings", "period", "least storage", reason]]
    table += [
        [
            *(str(instance.values[name]) for name in swept.parameters),
            "" if instance.firings is None else str(instance.firings),
            answers.number(instance.period) if instance.period is not None else instance.answer,
            _storage(instance), instance.reason,
        ]
        for instance in swept.instances[:SHOWN]
    ]  # fmt: skip
    numbers = len(swept.parameters)
    yield from terminal.aligned(table, texts=(numbers + 1, numbers + 3), indent="  ")
    if len(swept.instances) > SHOWN:
        remaining = answers.counted(len(swept.instances) - SHOWN, "value")
        yield f"  and {remaining} more; --json and --csv have all"
    yield from _other_answers(swept)
    formulas = {"period": "period", "storage": "least storage"}
    for key, what in formulas.items():
        formula = swept.formulas.get(key)
        if formula is None or (key == "period" and swept.segments):
            continue
        times = f" * {written(formula.divisor[0])}" if formula.divisor else ""
        yield f"{what}{times}, a formula that holds at each of these values:"
        for piece in formula.pieces:
            yield f"  {piece.text} for {piece.where}"
    if not swept.is_complete:
        yield "INCOMPLETE: the time limit, or Ctrl-C, came before the last answer"


def _other_answers(swept: Sweep) -> Iterator[str]:
    """Lines that say where there is no period, as ranges of the parameter that varies."""
    varied = _varied(swept)
    if len(varied) != 1:
        return
    (name,) = varied
    ranges: dict[str, list[list[str]]] = {}
    before = ""
    for instance in swept.instances:
        value = str(instance.values[name])
        if instance.answer != before and instance.answer != "period":
            ranges.setdefault(instance.answer, []).append([value, value])
        elif instance.answer != "period":
            ranges[instance.answer][-1][1] = value
        before = instance.answer
    for answer, ranges_of_answer in ranges.items():
        listed = [
            first if first == last else f"{first}..{last}" for first, last in ranges_of_answer
        ]
        yield f"{answer} at {name} = {answers.listed_up_to(listed, NAMES)}"


def _storage(one: Instance) -> str:
    storage = one.storage
    if storage is None:
        return ""
    if storage.status is Status.OPTIMAL:
        return str(one.size)
    return f"{storage.lower_bound}..{one.size if one.size is not None else ''}"


def _as_csv(swept: Sweep) -> str:
    from csdf.io.csv_text import csv_text  # for tables alone

    heads: list[object] = [*swept.parameters, "answer", "firings", "period", "storage", "reason"]
    fields = ("answer", "firings", "period", "size", "reason")
    rows = [
        [*instance.values.values(), *(getattr(instance, field) for field in fields)]
        for instance in swept.instances
    ]
    return csv_text([heads, *rows])


def _value_table(swept: Sweep) -> str:
    heads = [*(f"${latex_name(name)}$" for name in swept.parameters), "period", "least storage"]
    rows = [
        [
            *(f"${instance.values[name]}$" for name in swept.parameters),
            f"${instance.period}$" if instance.period is not None else escaped(instance.answer),
            escaped(_storage(instance).replace("..", "--")),
        ]
        for instance in swept.instances
    ]
    remarks = [
        f"{swept.name}: {name} = {' '.join(formula.latex.split())}"
        for name, formula in swept.formulas.items()
    ]
    return booktabs(heads, rows, texts=(), remarks=remarks)


def _vector_table(graph: ParametricGraph, found: SymbolicRepetitions | None) -> str:
    if found is None:
        raise CsdfError("--table needs --symbolic, or several values of --set")
    latex: dict[str, Any] = found.latex
    rows = [[escaped(name), f"${value}$"] for name, value in latex["repetition_vector"].items()]
    remarks = [
        graph.name,
        *(f"divided by {divisor}" for divisor in latex["divisors"] if divisor != "1"),
    ]
    remarks += [f"if {condition}" for condition in latex["conditions"]]
    return booktabs(["actor", "firings in an iteration"], rows, texts=(0, 1), remarks=remarks)
