"""`csdf scenarios`: guaranteed and expected throughput of scenario-aware dataflow (FSM-SADF)."""

from __future__ import annotations

import argparse

from csdf.cli import answers, parsers
from csdf.cli.frame.long_work import limited, telling
from csdf.cli.frame.output import remark
from csdf.cli.options import concurrency
from csdf.errors import CsdfError, GaveUp, InvalidGraph
from csdf.scenarios.expected import ExpectedThroughput, expected_throughput
from csdf.scenarios.files import read_scenarios
from csdf.scenarios.model import ScenarioGraph
from csdf.scenarios.throughput import ScenarioThroughput, StuckScenario, scenario_throughput
from csdf.status import Reason, told
from csdf.time_limit import ENDS, Stop, reason_of

SHOWN = 24  # most scenarios of the critical sequence that are listed


def work(options: argparse.Namespace) -> int:
    """Analyse the scenarios; return the exit code."""
    with limited(options.time_limit) as stop:
        graph = concurrency.limited_scenarios(read_scenarios(options.file), options)
        try:
            throughput = scenario_throughput(graph, budget=telling(stop, f"analysing {graph.name}"))
            expected, reason = _expected(graph, stop)
        except StuckScenario as error:
            if options.json:
                print(answers.json_text({"graph": graph.name, "deadlock": str(error)}))
            remark("csdf scenarios", str(error))
            return answers.NO
        except GaveUp:  # an error as well; the frame of commands reports the end of a stop
            raise
        except CsdfError as error:
            remark("csdf scenarios", f"{options.file}: {error}")
            return answers.UNUSABLE
    answer = {"graph": graph.name, "deadlock": None, **throughput.to_json()}
    if graph.probabilities:
        answer["expected"] = None if expected is None else expected.to_json()
    answers.show(answer, _lines(graph, throughput, expected), options)
    if reason is None:
        return answers.ANSWERED
    remark("csdf scenarios", f"no expected period: {reason}")
    return answers.UNKNOWN


def _expected(graph: ScenarioGraph, stop: Stop) -> tuple[ExpectedThroughput | None, Reason | None]:
    """Return the expected throughput where transitions have probabilities, or why it is unknown."""
    if not graph.probabilities:
        return None, None
    try:
        return expected_throughput(graph, budget=stop), None
    except ENDS as end:
        return None, reason_of(end)
    except InvalidGraph as error:  # runs that end, of which the worst case is known all the same
        return None, told(str(error))


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = parsers.new_parser(
        "csdf scenarios",
        "The throughput that every run of a scenario graph (FSM-SADF) reaches in the long run, "
        "exactly, and the critical scenario sequence; where transitions have probabilities, the "
        "expected throughput, too.",
        "csdf scenarios models/scenarios/video_decoder.json",
        "csdf scenarios --json models/scenarios/video_decoder.json",
        work=work,
        notes="The period is time per unit of reward; a scenario has the reward 1 unless its file "
        "says otherwise. Scenarios overlap in time: a firing of the next scenario starts as soon "
        "as its tokens arrive.",
    )
    concurrency.add_files(parser, "scenarios and automaton: JSON (.json) or SDF3 fsmsadf (.xml)")
    parsers.add_json_option(parser)
    parsers.add_time_limit(parser, "end after this time", None)
    concurrency.add_concurrency(parser)
    return parser


def _lines(
    graph: ScenarioGraph, found: ScenarioThroughput, expected: ExpectedThroughput | None
) -> list[str]:
    verdict, rows = "throughput unbounded: every infinite run takes no time", []
    if found.period:
        speed, period = answers.number(1 / found.period), answers.number(found.period)
        verdict = (
            f"throughput at least {speed} per time unit in every run; worst-case period {period}"
        )
        scenarios, states = found.critical_scenarios, found.critical_states
        rows = [
            ("critical scenario sequence", f"{answers.listed_up_to(scenarios, SHOWN)}, repeated"),
            ("", f"in the states {answers.listed_up_to(states, SHOWN)}"),
        ]
    if expected is not None:
        rows += _expected_rows(expected)
    # The period of each scenario, repeated without the others.
    alone = [f"{name} {answers.number(period)}" for name, period in found.alone.items()]
    rows.append(("period of each alone", answers.listed_up_to(alone, SHOWN)))
    reached = (
        f"{len(graph.reachable)} of {answers.counted(len(graph.states), 'state')} can be reached"
    )
    sizes = f"{answers.counted(len(graph.scenarios), 'scenario')}; {reached} from {graph.initial}"
    unit = "time per unit of reward; 1 for each scenario unless the file says otherwise"
    return answers.table(f"{graph.name}: {verdict}", rows, [("scenarios", sizes), ("period", unit)])


def _expected_rows(expected: ExpectedThroughput) -> list[tuple[str, str]]:
    speed = "unbounded" if expected.throughput is None else answers.number(expected.throughput)
    text = f"{answers.number(expected.period)}; expected throughput {speed}"
    rows = [("expected period", text)]
    if len(expected.classes) > 1:
        ends = [
            f"{answers.number(final.period)} with probability {answers.number(final.probability)}"
            for final in expected.classes
        ]
        rows.append(("in the long run", answers.listed_up_to(ends, SHOWN)))
    return rows
