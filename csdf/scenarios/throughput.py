"""Worst-case throughput of scenarios: maximum cycle ratio of the max-plus automaton.

A scenario maps the times of its initial tokens to the times of the tokens that remain after it. This
map is a max-plus matrix, computed by symbolic execution of one iteration: every token carries, for
each initial token, the delay from that token. The automaton determines the sequences of scenarios.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import ClassVar, NamedTuple

from csdf.analysis.abstraction import repeated_part
from csdf.analysis.bound_channels import bound_channels, is_single_firing_loop
from csdf.analysis.consistency import repetition_vector
from csdf.arguments import public
from csdf.errors import CsdfError, GaveUp, InvalidGraph, counted
from csdf.model.graph import Channel, Graph
from csdf.model.indexed import indexed
from csdf.model.shown import Shown
from csdf.model.untimed import ValuedRun
from csdf.scenarios.model import Scenario, ScenarioGraph
from csdf.time_limit import Budget, Stop, stop_of

MOST_TOKENS = 1_000_000  # initial tokens of a scenario, each with a name and delays of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioThroughput(Shown):
    """The worst-case throughput of a scenario graph.

    period: long-run time per reward of the slowest run, in units of the user; the run that repeats
    `critical_states` has it. 0 if runs have no limit, or if no run is infinite. critical_states,
    critical_scenarios: a cycle of the automaton; empty if the period is 0. alone: the period of each
    scenario that can be repeated forever by itself.
    """

    JSON: ClassVar[tuple[str, ...]] = (
        "period", "throughput", "critical_states", "critical_scenarios", "alone",
    )  # fmt: skip

    period: Fraction
    critical_states: tuple[str, ...]
    critical_scenarios: tuple[str, ...]
    alone: dict[str, Fraction]

    @property
    def throughput(self) -> Fraction | None:
        """Guaranteed long-run reward per time unit; None if unbounded."""
        return 1 / self.period if self.period else None


@public
def scenario_throughput(graph: ScenarioGraph, *, budget: Budget = None) -> ScenarioThroughput:
    """Return the exact worst-case throughput over all runs of the automaton.

    It is the maximum cycle ratio of the max-plus automaton, whose nodes are pairs of a reachable state
    and a token after it. Raises StuckScenario for a scenario that deadlocks; InconsistentGraph for a
    graph without repetition vector; InvalidGraph if the tokens after a scenario differ from the tokens
    before its successor, and for a cycle of the automaton without reward; GaveUp if the budget, a stop
    or seconds, ends. Source: Geilen, Stuijk, CODES+ISSS 2010, section 5.
    """
    stop = stop_of(budget)
    automaton = automaton_matrices(graph, stop)
    period, cycle = _worst(automaton, automaton.followers, stop)
    alone = {}
    for name, scenario in automaton.scenarios.items():
        matrix = automaton.matrices[scenario.name]
        if scenario.name not in alone and scenario.reward and matrix.rows.keys() >= matrix.taken:
            alone[scenario.name] = _worst(automaton, {name: (name,)}, stop)[0]
    return ScenarioThroughput(
        period=period,
        critical_states=cycle,
        critical_scenarios=tuple(automaton.scenarios[name].name for name in cycle),
        alone=alone,
    )


class AutomatonMatrices(NamedTuple):
    """The max-plus automaton of the reachable states of a scenario graph.

    followers: the successors of each state. scenarios: of each state. matrices: by scenario, with times
    in units of 1 / time_scale of the user's unit.
    """

    followers: Mapping[str, tuple[str, ...]]
    scenarios: Mapping[str, Scenario]
    matrices: Mapping[str, Matrix]
    time_scale: int

    def rows(self, state: str) -> Mapping[str, Stamp]:
        """Return the rows of the matrix of a state's scenario."""
        return self.matrices[self.scenarios[state].name].rows


def automaton_matrices(graph: ScenarioGraph, stop: Stop) -> AutomatonMatrices:
    """Return the max-plus automaton; raise as `scenario_throughput` does."""
    followers = graph.reachable
    scenarios = {
        state.name: graph.scenario(state.scenario)
        for state in graph.states
        if state.name in followers
    }
    used = {scenario.name: scenario for scenario in scenarios.values()}
    time_scale = lcm(*(scenario.graph.time_unit.denominator for scenario in used.values()))
    matrices = {
        name: scenario_matrix(scenario, time_scale, stop) for name, scenario in used.items()
    }
    _require_rewards(graph, followers, scenarios)
    for before, after_it in followers.items():
        for after in after_it:
            _require_match(scenarios[before], scenarios[after], matrices)
    return AutomatonMatrices(followers, scenarios, matrices, time_scale)


def _worst(
    automaton: AutomatonMatrices, reachable: Mapping[str, tuple[str, ...]], stop: Stop
) -> tuple[Fraction, tuple[str, ...]]:
    """Return the period of the slowest cycle of these states, and its states."""
    number: dict[tuple[str, str], int] = {}
    for state in reachable:
        for token in automaton.rows(state):
            number[state, token] = len(number)
    scenarios = [automaton.scenarios[state] for state in reachable]
    reward_scale = lcm(*(scenario.reward.denominator for scenario in scenarios))
    edges = []
    for before, followers in reachable.items():
        for after in followers:
            steps = automaton.scenarios[after].reward * reward_scale
            for token, stamp in automaton.rows(after).items():
                target = number[after, token]
                edges += [
                    WeightedEdge(number[before, old], target, time, int(steps))
                    for old, time in stamp.items()
                    if (before, old) in number
                ]
    cycle_ratio = maximum_cycle_ratio(len(number), edges, stop)
    if cycle_ratio is None or not cycle_ratio.ratio:
        return Fraction(0), ()
    owner = {index: state for (state, _), index in number.items()}
    # The cycle leads over tokens; its states may repeat several times in one round.
    cycle = tuple(owner[edge.target] for edge in cycle_ratio.edges)
    return cycle_ratio.ratio * reward_scale / automaton.time_scale, repeated_part(cycle)


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
    """Refuse a cycle of states without reward: its time per reward is infinite."""
    idle = {name for name in reachable if not scenarios[name].reward}
    while idle:
        # Greatest fixed point: states from which a run can stay without reward for ever.
        going_on = {name for name in idle if not idle.isdisjoint(reachable[name])}
        if going_on == idle:
            names = ", ".join(repr(name) for name in sorted(idle))
            raise InvalidGraph(
                f"scenario graph {graph.name!r}: a run can stay in the states {names} for ever, "
                "whose scenarios have no reward"
            )
        idle = going_on


class WeightedEdge(NamedTuple):
    """An edge between two numbered nodes."""

    source: int
    target: int
    weight: int
    steps: int  # at least 0, and above 0 somewhere on every cycle


class RatioCycle(NamedTuple):
    """A cycle with the largest ratio; each edge ends where the next one begins."""

    ratio: Fraction
    edges: tuple[WeightedEdge, ...]


def maximum_cycle_ratio(
    nodes: int, edges: Sequence[WeightedEdge], budget: Budget = None
) -> RatioCycle | None:
    """Return a cycle with the largest sum of weights over sum of steps; None without a cycle.

    Every cycle needs a step. A cycle above the best ratio so far is searched until there is none, by
    Bellman-Ford on weight - ratio * steps, in integers.
    Source: Dasdan, Irani, Gupta, Efficient algorithms for optimum cycle mean and optimum cost to
    time ratio problems, DAC 1999, Lawler's and Burns's methods.
    """
    best: RatioCycle | None = None
    stop = stop_of(budget)
    while True:
        better = _better_cycle(nodes, edges, None if best is None else best.ratio, stop)
        if better is None:
            return best
        best = better


def _better_cycle(
    nodes: int, edges: Sequence[WeightedEdge], ratio: Fraction | None, stop: Stop
) -> RatioCycle | None:
    """Return a cycle above the ratio, the best of those closed in the first such round; or None."""
    if ratio is None:  # below every ratio, so that the first search accepts any cycle
        ratio = Fraction(-1 - sum(abs(edge.weight) for edge in edges))
    costs = [edge.weight * ratio.denominator - edge.steps * ratio.numerator for edge in edges]
    value = [0] * nodes
    into: list[WeightedEdge | None] = [None] * nodes
    # Bellman-Ford: without a positive cycle paths end after `nodes` rounds.
    for _ in range(nodes + 1):
        stop.look()
        if not _lengthen(edges, costs, value, into):
            return None
        # Cycles are detected after each round: most close long before the last round.
        if cycles := _cycles(into):
            return max(cycles, key=lambda cycle: cycle.ratio)
    raise AssertionError("longer paths without end and without a cycle")


def _lengthen(
    edges: Sequence[WeightedEdge],
    costs: Sequence[int],
    value: list[int],
    into: list[WeightedEdge | None],
) -> bool:
    """Relax each edge; return whether a path became longer."""
    is_longer = False
    for edge, cost in zip(edges, costs, strict=True):
        longer = value[edge.source] + cost
        if longer > value[edge.target]:
            value[edge.target] = longer
            into[edge.target] = edge
            is_longer = True
    return is_longer


def _cycles(into: Sequence[WeightedEdge | None]) -> list[RatioCycle]:
    """Return the cycles among the last edges of the paths, at most one for each node."""
    seen = [-1] * len(into)
    cycles = []
    for start in range(len(into)):
        node = start
        while seen[node] < 0:
            seen[node] = start
            edge = into[node]
            if edge is None:
                break
            node = edge.source
        else:
            if seen[node] == start:
                cycles.append(_cycle_through(node, into))
    return cycles


def _cycle_through(node: int, into: Sequence[WeightedEdge | None]) -> RatioCycle:
    backwards: list[WeightedEdge] = []
    at = node
    while not backwards or at != node:
        edge = into[at]
        if edge is None:
            raise AssertionError("a cycle has an edge into each of its nodes")
        backwards.append(edge)
        at = edge.source
    weight = sum(edge.weight for edge in backwards)
    steps = sum(edge.steps for edge in backwards)
    return RatioCycle(Fraction(weight, steps), tuple(reversed(backwards)))


Stamp = dict[str, int]  # symbolic time of a token: the maximum of (time of initial token + delay)

ORDER = " (order)"  # the name of a hidden token: the start of an actor's latest firing


class StuckScenario(CsdfError):
    """A scenario that deadlocks within its iteration."""


class Matrix(NamedTuple):
    """The max-plus matrix of a scenario: new time = max over old tokens of (old time + delay).

    taken: old tokens. rows: for each new token its delays by old token, without entries for
    independent pairs. optional: old tokens that the preceding scenario need not produce.
    """

    taken: frozenset[str]
    rows: dict[str, Stamp]
    optional: frozenset[str]


def scenario_matrix(scenario: Scenario, time_scale: int = 1, budget: Budget = None) -> Matrix:
    """Return the max-plus matrix of one execution of a scenario, by symbolic execution.

    time_scale: delays are in units of 1 / time_scale of the user's unit. Raises StuckScenario; GaveUp
    beyond a million initial tokens, or where the budget ends the execution.
    """
    graph = bound_channels(scenario.graph)
    tokens = sum(channel.initial_tokens for channel in graph.channels)
    if tokens > MOST_TOKENS:
        raise GaveUp(
            f"scenario {scenario.name!r} has {tokens} initial tokens; at most {MOST_TOKENS}"
        )
    return _SymbolicExecution(scenario, graph, int(graph.time_unit * time_scale)).matrix(
        stop_of(budget)
    )


class _SymbolicExecution:
    """An iteration in which every token carries its symbolic time."""

    def __init__(self, scenario: Scenario, graph: Graph, time: int) -> None:
        self.scenario = scenario
        self.graph = graph
        self.time = time
        self.numbers = indexed(graph)
        single = {channel.consumer for channel in graph.channels if is_single_firing_loop(channel)}
        # If firings of an actor may overlap, its latest start is a hidden token: it bounds the next
        # start. So too for equal durations: tokens may arrive out of order, a phase may consume none,
        # and another scenario may be faster.
        self.latest = {
            number: {f"{actor.name}{ORDER}": 0}
            for number, actor in enumerate(graph.actors)
            if actor.name not in single
        }
        self.optional = frozenset(name for stamp in self.latest.values() for name in stamp)
        wanted = dict(scenario.firings)  # of each actor in the scenario
        if wanted.keys() != set(self.numbers.actor_names):
            wanted = {**repetition_vector(replace(graph, origin=None)), **wanted}
        self.run: ValuedRun[Stamp] = ValuedRun(
            self.numbers,
            [wanted[name] for name in self.numbers.actor_names],
            (
                [({name: 0} if name else {}, 1) for name in _names(channel, scenario.consumed)]
                for channel in graph.channels
            ),
            self._end,
        )
        initial_names = [name for queue in self.run.queues for stamp, _ in queue for name in stamp]
        self.taken = self.optional.union(initial_names)
        self._require_distinct([*self.optional, *initial_names])

    def matrix(self, stop: Stop) -> Matrix:
        self.run.exhaust(look=stop.look)
        stuck = self.run.first_unfinished()
        if stuck is not None:
            raise StuckScenario(self._complaint(stuck))
        names_of = self.numbers.actor_names
        rows = [(f"{names_of[actor]}{ORDER}", stamp) for actor, stamp in self.latest.items()]
        channels = zip(self.graph.channels, self.run.queues, self.run.tokens, strict=True)
        for channel, queue, tokens in channels:
            names = _names(channel, self.scenario.produced, tokens)
            if len(names) != tokens:
                raise InvalidGraph(
                    f"scenario {self.scenario.name!r}: it leaves "
                    f"{counted(tokens, 'token')} on channel {channel.name!r}, "
                    f"but {counted(len(names), 'name')} for them"
                )
            stamps = (stamp for stamp, count in queue for _ in range(count))
            rows += [(name, stamp) for name, stamp in zip(names, stamps, strict=True) if name]
        self._require_distinct([name for name, _ in rows])
        return Matrix(self.taken, dict(rows), self.optional)

    def _require_distinct(self, names: Sequence[str]) -> None:
        name, count = Counter(names).most_common(1)[0] if names else ("", 1)
        if count > 1:
            raise InvalidGraph(f"scenario {self.scenario.name!r}: two tokens are named {name!r}")

    def _complaint(self, actor: int) -> str:
        run = self.run
        channel = run.lacking(actor)
        if channel is None:
            raise AssertionError("a stuck actor lacks a token")
        return (
            f"scenario {self.scenario.name!r} deadlocks: actor {self.numbers.actor_names[actor]!r} "
            f"has fired {run.firings[actor]} of {counted(run.most[actor], 'time')} and waits for "
            f"{counted(run.needed(actor, channel), 'token')} on "
            f"channel {self.numbers.channel_names[channel]!r}, which holds {run.tokens[channel]}"
        )

    def _end(self, actor: int, phase: int, taken: list[Stamp]) -> Stamp:
        """Return the end of the firing that consumes tokens of these stamps."""
        start = dict(self.latest.get(actor, {}))
        for stamp in taken:
            for old, time in stamp.items():
                if time > start.get(old, -1):
                    start[old] = time
        if actor in self.latest:
            self.latest[actor] = start
        duration = self.graph.actors[actor].durations[phase] * self.time
        return {old: time + duration for old, time in start.items()}


def _names(
    channel: Channel, given: Mapping[str, tuple[str, ...]], count: int | None = None
) -> tuple[str, ...]:
    """Return the names of the tokens on a channel; by default `channel[0]`, `channel[1]`, ..."""
    if channel.name in given:
        return given[channel.name]
    tokens = channel.initial_tokens if count is None else count
    return tuple(f"{channel.name}[{index}]" for index in range(tokens))
