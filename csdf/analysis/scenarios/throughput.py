"""The worst-case throughput of scenarios, and the sequence of scenarios that sets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

from csdf.analysis.scenarios.cycle_ratio import Edge, maximum_cycle_ratio
from csdf.analysis.scenarios.matrices import Matrix, scenario_matrix
from csdf.errors import InvalidGraph, NotRead
from csdf.model.scenarios import Scenario, ScenarioGraph
from csdf.model.shown import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioThroughput(Shown):
    """How fast the slowest run of a scenario graph is.

    period: time per reward in the long run, in the units of the user: no run is slower for ever, and
    the run that repeats `critical_states` is as slow. 0 if nothing limits the runs, or if no run
    goes on for ever. critical_states, critical_scenarios: a cycle of the automaton; empty where the
    period is 0. alone: the period of each scenario that takes what it leaves, if repeated for ever.
    """

    period: Fraction
    critical_states: tuple[str, ...]
    critical_scenarios: tuple[str, ...]
    alone: dict[str, Fraction]

    @property
    def throughput(self) -> Fraction | None:
        """Reward per time unit that every run gets in the long run; None if unbounded."""
        return 1 / self.period if self.period else None

    def to_json(self) -> dict[str, Any]:
        """Return the answer as a JSON value; fractions as texts."""
        speed = self.throughput
        return {
            "period": str(self.period),
            "throughput": None if speed is None else str(speed),
            "critical_states": list(self.critical_states),
            "critical_scenarios": list(self.critical_scenarios),
            "alone": {name: str(period) for name, period in self.alone.items()},
        }


def scenario_throughput(graph: ScenarioGraph) -> ScenarioThroughput:
    """Return the exact worst-case throughput over all runs of the automaton.

    It is the maximum cycle ratio of the max-plus automaton, whose nodes are the states with each
    of their tokens. Only states that the initial state reaches count.
    Raises StuckScenario for a scenario whose iteration cannot end, InconsistentGraph for a graph
    without repetition vector, InvalidGraph where a scenario leaves other tokens than the next
    one takes, and for a cycle of the automaton without reward.
    Source: Geilen, Stuijk, CODES+ISSS 2010, section 5.
    """
    if not isinstance(graph, ScenarioGraph):
        raise NotRead(graph, expected="ScenarioGraph", reader="read_scenarios")
    states = {one.name: graph.scenario(one.scenario) for one in graph.states}
    reachable = graph.reachable
    used = {states[name].name: states[name] for name in reachable}
    time_scale = lcm(*(one.graph.time_unit.denominator for one in used.values()))
    matrices = {name: scenario_matrix(one, time_scale) for name, one in used.items()}
    _require_rewards(graph, reachable, states)
    for before, followers in reachable.items():
        for after in followers:
            _require_match(states[before], states[after], matrices)
    named = {name: one.name for name, one in states.items()}
    period, cycle = _worst(reachable, named, used, matrices, time_scale)
    alone = {
        name: _worst({name: (name,)}, {name: name}, used, matrices, time_scale)[0]
        for name, matrix in matrices.items()
        if used[name].reward and matrix.rows.keys() >= matrix.taken
    }
    return ScenarioThroughput(
        period=period,
        critical_states=cycle,
        critical_scenarios=tuple(named[name] for name in cycle),
        alone=alone,
    )


def _worst(
    reachable: Mapping[str, tuple[str, ...]],
    scenario_of: Mapping[str, str],
    scenarios: Mapping[str, Scenario],
    matrices: Mapping[str, Matrix],
    time_scale: int,
) -> tuple[Fraction, tuple[str, ...]]:
    """Return the period of the slowest cycle and its states."""
    number: dict[tuple[str, str], int] = {}
    for state in reachable:
        for token in matrices[scenario_of[state]].rows:
            number[state, token] = len(number)
    reward_scale = lcm(*(one.reward.denominator for one in scenarios.values()))
    edges = []
    for before, followers in reachable.items():
        for after in followers:
            steps = scenarios[scenario_of[after]].reward * reward_scale
            for token, stamp in matrices[scenario_of[after]].rows.items():
                target = number[after, token]
                edges += [
                    Edge(number[before, old], target, time, int(steps))
                    for old, time in stamp.items()
                    if (before, old) in number
                ]
    found = maximum_cycle_ratio(len(number), edges)
    if found is None or not found.ratio:
        return Fraction(0), ()
    owner = {place: state for (state, _), place in number.items()}
    cycle = tuple(owner[edge.target] for edge in found.edges)
    return found.ratio * reward_scale / time_scale, _primitive(cycle)


def _primitive(cycle: tuple[str, ...]) -> tuple[str, ...]:
    """Return the shortest sequence whose repetition is the cycle."""
    for length in range(1, len(cycle) + 1):
        if len(cycle) % length == 0 and cycle[:length] * (len(cycle) // length) == cycle:
            return cycle[:length]
    return cycle


def _require_match(before: Scenario, after: Scenario, matrices: Mapping[str, Matrix]) -> None:
    left = matrices[before.name].rows.keys() - matrices[before.name].optional
    taken = matrices[after.name].taken - matrices[after.name].optional
    for name in sorted(taken - left):
        raise InvalidGraph(
            f"scenario {after.name!r} takes the token {name!r}, "
            f"which scenario {before.name!r}, executed before it, does not leave"
        )
    for name in sorted(left - taken):
        raise InvalidGraph(
            f"scenario {before.name!r} leaves the token {name!r}, "
            f"which scenario {after.name!r}, executed after it, does not take"
        )


def _require_rewards(
    graph: ScenarioGraph,
    reachable: Mapping[str, tuple[str, ...]],
    scenarios: Mapping[str, Scenario],
) -> None:
    """Refuse a cycle of states that all have no reward: its time per reward has no end."""
    idle = {name for name in reachable if not scenarios[name].reward}
    while idle:
        going_on = {name for name in idle if not idle.isdisjoint(reachable[name])}
        if going_on == idle:
            names = ", ".join(repr(name) for name in sorted(idle))
            raise InvalidGraph(
                f"scenario graph {graph.name!r}: a run can stay in the states {names} for ever, "
                "whose scenarios have no reward"
            )
        idle = going_on
