"""`csdf scenarios`: the guaranteed throughput of graphs that take turns."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from csdf.cli import answers, parsers
from csdf.cli.frame.long_work import working
from csdf.cli.frame.output import remark
from csdf.cli.options import concurrency
from csdf.errors import CsdfError
from csdf.scenarios.files import read_scenarios
from csdf.scenarios.model import ScenarioGraph
from csdf.scenarios.throughput import ScenarioThroughput, StuckScenario, scenario_throughput

SHOWN = 24  # most states of the slowest run that are listed


def main(argv: Sequence[str]) -> int:
    """Analyse the scenarios; return the exit code."""
    options = command_parser().parse_args(argv)
    graph = concurrency.limited_scenarios(read_scenarios(options.file), options)
    try:
        with working(f"analysing {graph.name}"):
            found = scenario_throughput(graph)
    except StuckScenario as error:
        if options.json:
            print(json.dumps({"graph": graph.name, "deadlock": str(error)}, indent=2))
        remark("csdf scenarios", str(error))
        return answers.NO
    except CsdfError as error:
        remark("csdf scenarios", f"{options.file}: {error}")
        return answers.UNUSABLE
    if options.json:
        print(json.dumps({"graph": graph.name, "deadlock": None, **found.to_json()}, indent=2))
    else:
        print(_as_text(graph, found))
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf scenarios",
        "The throughput that every run of a scenario graph (FSM-SADF) reaches in the long run, "
        "exactly, and the sequence of scenarios that is slowest.",
        "csdf scenarios models/scenarios/video_decoder.json",
        "csdf scenarios --json models/scenarios/video_decoder.json",
        notes="The period is time per unit of reward; a scenario has the reward 1 unless its file says "
        "otherwise. Scenarios overlap in time: the next one starts with each token as it comes.",
    )
    parser.add_argument(
        "file", metavar="FILE", help="scenarios and automaton: JSON (.json) or SDF3 fsmsadf (.xml)"
    )
    parsers.add_json_option(parser)
    concurrency.add_concurrency(parser)
    return parser


def _as_text(graph: ScenarioGraph, found: ScenarioThroughput) -> str:
    reached = len(graph.reachable)
    rows = [
        ("states", f"{reached} of {len(graph.states)} can be reached from {graph.initial}"),
        *_period_rows(found),
        ("alone", _listed([f"{name} {answers.number(one)}" for name, one in found.alone.items()])),
    ]
    sizes = (
        f"{answers.counted(len(graph.scenarios), 'scenario')}, "
        f"{answers.counted(len(graph.states), 'state')}"
    )
    lines = [f"{graph.name}: {sizes}", *(f"  {title:<13}{text}" for title, text in rows)]
    return answers.one_text(lines)


def _period_rows(found: ScenarioThroughput) -> list[tuple[str, str]]:
    if not found.period:
        return [("period", "0"), ("throughput", "unbounded: no run goes on and takes time")]
    speed = answers.number(1 / found.period)
    return [
        ("period", f"{answers.number(found.period)} time units per reward, in the slowest run"),
        ("throughput", f"at least {speed} per time unit, in every run"),
        ("slowest run", f"{_listed(found.critical_scenarios)}; then again"),
        ("", f"in the states {_listed(found.critical_states)}"),
    ]


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(names[:SHOWN])
    return listed if len(names) <= SHOWN else f"{listed} and {len(names) - SHOWN} more"
