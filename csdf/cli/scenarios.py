"""`csdf scenarios`: guaranteed throughput of scenario-aware dataflow (FSM-SADF)."""

from __future__ import annotations

import argparse

from csdf.cli import answers, parsers
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.frame.output import remark
from csdf.cli.options import concurrency
from csdf.errors import CsdfError, GaveUp
from csdf.scenarios.files import read_scenarios
from csdf.scenarios.model import ScenarioGraph
from csdf.scenarios.throughput import ScenarioThroughput, StuckScenario, scenario_throughput

SHOWN = 24  # most scenarios of the critical sequence that are listed


def work(options: argparse.Namespace) -> int:
    """Analyse the scenarios; return the exit code."""
    graph = concurrency.limited_scenarios(read_scenarios(options.file), options)
    try:
        with limited(options.time_limit) as stop:
            throughput = scenario_throughput(graph, budget=telling(stop, f"analysing {graph.name}"))
    except StuckScenario as error:
        if options.json:
            print(answers.json_text({"graph": graph.name, "deadlock": str(error)}))
        remark("csdf scenarios", str(error))
        return answers.NO
    except GaveUp:
        raise
    except CsdfError as error:
        remark("csdf scenarios", f"{options.file}: {error}")
        return answers.UNUSABLE
    answer = {"graph": graph.name, "deadlock": None, **throughput.to_json()}
    answers.show(answer, _lines(graph, throughput), options)
    return answers.ANSWERED


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf scenarios",
        "The throughput that every run of a scenario graph (FSM-SADF) reaches in the long run, "
        "exactly, and the critical scenario sequence.",
        "csdf scenarios models/scenarios/video_decoder.json",
        "csdf scenarios --json models/scenarios/video_decoder.json",
        work=work,
        notes="The period is time per unit of reward; a scenario has the reward 1 unless its file says "
        "otherwise. Scenarios overlap in time: the next one starts with each token as it comes.",
    )
    concurrency.add_files(parser, "scenarios and automaton: JSON (.json) or SDF3 fsmsadf (.xml)")
    parsers.add_json_option(parser)
    parsers.add_time_limit(parser, "end after this time", None)
    concurrency.add_concurrency(parser)
    return parser


def _lines(graph: ScenarioGraph, found: ScenarioThroughput) -> list[str]:
    verdict, rows = "throughput unbounded: no run goes on and takes time", []
    if found.period:
        speed, period = answers.number(1 / found.period), answers.number(found.period)
        verdict = (
            f"throughput at least {speed} per time unit in every run; worst-case period {period}"
        )
        scenarios, states = found.critical_scenarios, found.critical_states
        rows = [
            ("critical scenario sequence", f"{answers.some(scenarios, SHOWN)}, repeated"),
            ("", f"in the states {answers.some(states, SHOWN)}"),
        ]
    alone = [f"{name} {answers.number(period_alone)}" for name, period_alone in found.alone.items()]
    rows.append(("period of each alone", answers.some(alone, SHOWN)))
    reached = (
        f"{len(graph.reachable)} of {answers.counted(len(graph.states), 'state')} can be reached"
    )
    sizes = f"{answers.counted(len(graph.scenarios), 'scenario')}; {reached} from {graph.initial}"
    unit = "time per unit of reward; 1 for each scenario unless the file says otherwise"
    return answers.table(f"{graph.name}: {verdict}", rows, [("scenarios", sizes), ("period", unit)])
