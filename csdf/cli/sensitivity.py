"""`csdf sensitivity`: slack of actors, gain of faster actors, the period as a function."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from csdf.analysis.bound_channels import why_unlimited
from csdf.analysis.capacity_steps import CapacitySteps, capacity_steps
from csdf.analysis.cycle_lines import Parameter, added_time, added_to_phase, time_scale
from csdf.analysis.parametric import ParametricPeriod, parametric_period
from csdf.analysis.parametric_regions import ParametricRegions, parametric_regions
from csdf.analysis.sensitivity import ActorSensitivity, Sensitivity, sensitivity
from csdf.cli import answers, loading, option_values, parsers
from csdf.cli.frame import terminal
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.frame.output import remark
from csdf.cli.options import concurrency
from csdf.errors import CsdfError, GaveUp
from csdf.model.exact import MalformedText, rational, shown
from csdf.model.graph import Graph
from csdf.time_limit import Stop
from csdf.units import time_in_words

SHOWN = 40  # maximum rows of a table; JSON has all
NAMES = 3  # maximum actors named in a row

Function = ParametricPeriod | ParametricRegions | CapacitySteps


def work(options: argparse.Namespace) -> int:
    """Print the sensitivity; return the exit code: 0 answered, 1 a deadlock, 3 incomplete."""
    parameters = len(options.parameter) + len(options.scale)
    if options.up_to is not None and parameters != 2:
        options.refuse("--up-to is for two parameters: of --parameter, --scale or both")
    is_function = parameters > 0
    if options.plot and not is_function:
        options.refuse("--plot draws the period over a parameter; give --parameter or --scale")
    with limited(options.time_limit) as stop:
        graph = concurrency.read(options.file, options)
        begin = time.perf_counter()
        stop = telling(stop, f"studying {graph.name}")
        function = _function(graph, options, stop) if is_function else None
        result = function if function is not None else sensitivity(graph, budget=stop)
        seconds = time.perf_counter() - begin
    answer = {"graph": graph.name, **result.to_json(), "seconds": round(seconds, 6)}
    if isinstance(result, Sensitivity):
        lines = _table_lines(graph, result, seconds)
    else:
        lines = _function_lines(graph, result, seconds)
    answers.show(answer, lines, options)
    is_complete = isinstance(result, ParametricRegions) or result.is_complete
    if not is_complete and options.plot:
        remark(options.program, f"{options.plot} is not drawn: the function is incomplete")
        return answers.UNKNOWN
    loading.plot(options, "csdf.draw.charts", "parametric_picture", graph.name, result)
    if isinstance(result, Sensitivity) and result.deadlock is not None:
        return answers.NO
    return answers.ANSWERED if is_complete else answers.UNKNOWN


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf sensitivity",
        "Slack of each actor and phase before the period grows, the reduction of the period by "
        "faster actors, and by one more token or unit of capacity. With a parameter: the period "
        "as an exact function of it.",
        "csdf sensitivity models/graphs/h263decoder.xml",
        "csdf sensitivity models/graphs/h263decoder.xml --parameter vld",
        "csdf sensitivity models/graphs/modem.xml --parameter filt --parameter eq --json",
        work=work,
        notes="Each row assumes one change to the graph.",
    )
    add_parameters(parser)
    parsers.add_json_option(parser)
    parsers.add_plot_option(parser, "the period over the parameter")
    parsers.add_time_limit(parser, "stop after this time with the results so far")
    concurrency.add_graph(parser)
    return parser


def _function(graph: Graph, options: argparse.Namespace, stop: Stop) -> Function:
    channel = capacity_of(graph, options)
    if channel is not None:
        return capacity_steps(graph, channel, budget=stop)
    parameters = parameters_of(graph, options)
    if len(parameters) == 1:
        return parametric_period(graph, parameters[0], budget=stop)
    if len(parameters) > 2:
        raise CsdfError(f"{len(parameters)} parameters; expected one or two")
    first, second = parameters
    high = (_high(graph, first, options, stop), _high(graph, second, options, stop))
    return parametric_regions(graph, first, second, high=high, budget=stop)


def _high(graph: Graph, parameter: Parameter, options: argparse.Namespace, stop: Stop) -> Fraction:
    """Return the largest value of the regions: by default beyond the last change along the axis."""
    if options.up_to is not None:
        return Fraction(options.up_to)
    along = parametric_period(graph, parameter, budget=stop)
    if along.reason is not None:
        raise GaveUp(along.reason)
    last = along.segments[-1].start
    return max(parameter.nominal + 1, last + (last - parameter.minimum) / 2)


def _function_lines(graph: Graph, function: Function, seconds: float) -> Iterator[str]:
    if isinstance(function, CapacitySteps):
        rows = _capacity_lines(function)
    elif isinstance(function, ParametricPeriod):
        rows = _piece_lines(function)
    else:
        rows = _region_lines(function)
    yield f"{graph.name}: {next(rows)}"
    yield from rows
    yield answers.Detail(f"  time         {time_in_words(seconds)}")


def _piece_lines(function: ParametricPeriod) -> Iterator[str]:
    name = function.parameter.name
    pieces = answers.counted(len(function.segments), "segment")
    if not function.is_complete:
        slack = f"INCOMPLETE: {function.reason}"
    elif function.slack is None:
        slack = "the period never grows"
    else:
        slack = f"slack {answers.number(function.slack)}"
    nominal = f"{name} (x), nominal {function.parameter.nominal}"
    yield f"{slack}; period as a function of {nominal}, exact in {pieces}"
    yield f"  {'from':>14} {'to':>14}  {'period':<34} critical cycle"
    for segment in function.segments:
        end = "" if segment.end is None else str(segment.end)
        actors = _names(() if segment.cycle is None else segment.cycle.actors)
        period = _linear(segment.time, [segment.count], segment.tokens)
        yield f"  {segment.start!s:>14} {end:>14}  {period:<34} {actors}".rstrip()


def _region_lines(function: ParametricRegions) -> Iterator[str]:
    first, second = function.parameters
    regions = answers.counted(len(function.regions), "region")
    yield f"period as a function of {first.name} (x) and {second.name} (y), exact in {regions}"
    for name, parameter, low, high in zip(
        "xy", function.parameters, function.low, function.high, strict=True
    ):
        yield f"  {name}: {parameter.name} from {low} to {high}, nominal {parameter.nominal}"
    for region in function.regions:
        actors = _names(() if region.cycle is None else region.cycle.actors)
        yield f"  {_linear(region.time, region.counts, region.tokens):<40} {actors}"
        corners = " ".join(f"({x}, {y})" for x, y in region.corners)
        yield f"      within {corners}"


def _linear(time: Fraction, counts: Sequence[Fraction], tokens: int) -> str:
    terms = [
        f"{'' if count == 1 else f'{count} '}{name}"
        for count, name in zip(counts, "xy", strict=False)
        if count
    ]
    total = " + ".join([*([str(time)] if time or not terms else []), *terms])
    return f"({total}) / {tokens}" if tokens > 1 else total


def _capacity_lines(function: CapacitySteps) -> Iterator[str]:
    steps = answers.counted(len(function.steps), "step")
    end = "" if function.is_complete else f", INCOMPLETE: {function.reason}"
    yield f"period as a function of the capacity of {function.channel}, exact in {steps}{end}"
    yield f"  {'from':>10}  {'period':<28} critical cycle"
    for step in function.steps:
        actors = _names(() if step.cycle is None else step.cycle.actors)
        yield f"  {step.capacity:>10}  {answers.number(step.period):<28} {actors}"


def _table_lines(graph: Graph, answer: Sensitivity, seconds: float) -> Iterator[str]:
    if answer.deadlock is not None:
        title = f"{graph.name}: {answers.DEADLOCK}"
        yield from answers.table(title, answers.blocked_rows(answer.deadlock))
        return
    cycle = answer.critical_cycle
    limit = f"; critical cycle {_names(cycle.actors)}" if cycle is not None else ""
    yield f"{graph.name}: period {answers.number(answer.period or 0)}{limit}"
    if not answer.period:
        yield f"  reason: {why_unlimited(graph)}"
        if hint := concurrency.hint(graph):
            yield f"  next: {hint}"
    if not answer.is_complete:
        yield f"  INCOMPLETE: {answer.reason}"
    if answer.actors:
        yield from terminal.aligned(list(_actor_rows(answer.actors)), texts=range(6), indent="  ")
    if len(answer.actors) > SHOWN:
        more = answers.counted(len(answer.actors) - SHOWN, "row")
        yield f"  and {more} more, with larger slack; --json has all"
    useful = [channel for channel in answer.channels if channel.period != answer.period]
    if not useful and answer.channels:
        yield "  no channel alone makes the period shorter, with more tokens or more capacity"
    for step in useful[:SHOWN]:
        kind = step.kind if step.added_tokens > 1 else step.kind.removesuffix("s")
        yield (
            f"  {step.added_tokens} more {kind} on {step.channel}: period "
            f"{answers.number(step.period)}"
        )
    if len(useful) > SHOWN:
        yield f"  and {answers.counted(len(useful) - SHOWN, 'channel')} more; --json has all"
    yield answers.Detail(f"  time         {time_in_words(seconds)}")


def _actor_rows(rows: Sequence[ActorSensitivity]) -> Iterator[list[str]]:
    yield [
        "actor", "slack", "critical if slower", "reduction per unit", "valid up to", "min. period",
    ]  # fmt: skip
    for row in sorted(rows, key=_worth)[:SHOWN] if len(rows) > SHOWN else rows:
        title = row.actor if row.phase is None else f"{row.actor}:{row.phase}"
        bound = "" if row.is_exact else " (lower bound)"
        slack = "unlimited" if row.slack is None else f"{row.slack}{bound}"
        gain = ["-"] * 3
        if row.reduction:
            gain = [str(row.reduction), str(row.valid_up_to), str(row.min_period)]
        yield [title, slack, _names(row.next_critical), *gain]


def _worth(row: ActorSensitivity) -> tuple[bool, Fraction, Fraction]:
    """Return the order of rows: by slack, unlimited slack last, then by the largest reduction."""
    return row.slack is None, row.slack or Fraction(0), -row.reduction


def _names(names: Sequence[str]) -> str:
    return answers.listed_up_to(names, NAMES)


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add the options that make the answer a function."""
    parser.add_argument(
        "--parameter",
        action="append",
        metavar="WHAT",
        default=[],
        help="the period as a function of the time added to ACTOR, ACTOR:PHASE, or several at "
        "once (A,B or A=2,B=1/2), or of the capacity of CHANNEL; with two parameters: regions of "
        "equal formula",
    )
    parser.add_argument(
        "--scale",
        action="append",
        metavar="A,B,..",
        default=[],
        help="the period as a function of the factor by which all durations of these actors are "
        "multiplied",
    )
    parser.add_argument(
        "--up-to",
        type=option_values.above_zero,
        metavar="NUMBER",
        help="with two parameters: the largest value of both",
    )


def capacity_of(graph: Graph, options: argparse.Namespace) -> str | None:
    """Return the channel whose capacity is the parameter; None where it is no channel."""
    actors = {actor.name for actor in graph.actors}
    channels = {channel.name for channel in graph.channels}
    channels_named = [name for name in options.parameter if name in channels - actors]
    if channels_named and len(options.parameter) + len(options.scale) > 1:
        raise CsdfError(
            f"the capacity of channel {channels_named[0]!r} is a parameter of its own only"
        )
    return channels_named[0] if channels_named else None


def parameters_of(graph: Graph, options: argparse.Namespace) -> list[Parameter]:
    """Return the parameters in the order of their kinds. Raises CsdfError for what is none."""
    added = [_added(graph, text) for text in options.parameter]
    return [
        *added,
        *(time_scale(graph, text.split(","), name=f"scale of {text}") for text in options.scale),
    ]


def _added(graph: Graph, text: str) -> Parameter:
    actors = {actor.name for actor in graph.actors}
    if text in actors:
        return added_time(graph, {text: Fraction(1)})
    name, _, phase = text.rpartition(":")
    if name in actors and phase.isdecimal():
        return added_to_phase(graph, name, int(phase))
    return added_time(graph, _weights(text.split(","), actors), name=text)


def _weights(terms: list[str], actors: set[str]) -> Mapping[str, Fraction]:
    weights: dict[str, Fraction] = {}
    for term in terms:
        name, equals, weight = term.rpartition("=")
        if term in actors:
            name, equals, weight = term, "=", "1"
        if not equals or name not in actors:
            raise CsdfError(
                f"--parameter {shown(term)}: no actor or channel of that name; expected ACTOR, "
                "ACTOR:PHASE, ACTOR=WEIGHT or CHANNEL"
            )
        try:
            weights[name] = rational(weight)
        except MalformedText as error:
            raise CsdfError(f"--parameter {shown(term)}: the weight {error}") from None
    return weights
