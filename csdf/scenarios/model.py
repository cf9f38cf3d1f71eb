"""Scenario-aware dataflow: graphs executed in sequence, and the automaton of their orders.

A scenario is one iteration of its graph. The tokens on the channels between two scenarios have names:
a scenario consumes the named tokens that it declares and produces others, and the next scenario has to
consume exactly these. Scenarios are pipelined: the next scenario uses each token as soon as the token
is available.

Source: Geilen, Stuijk, Worst-case performance analysis of synchronous dataflow scenarios, CODES+ISSS
2010; Geilen et al., Performance analysis of weakly-consistent scenario-aware dataflow graphs, J.
Signal Process. Syst. 87, 2017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from csdf.errors import InvalidGraph, counted
from csdf.model.graph import Graph

# Names of the tokens on each channel, in the order of the queue.
TokenNames = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A mode of the application for an iteration.

    graph: its capacities count. consumed, produced: names of the tokens on each channel before and
    after; a channel that is not listed holds `channel[0]`, `channel[1]` and so on, before and after.
    Tokens have different names. A token whose name is empty does not persist: it exists from the start
    and is discarded at the end.
    firings: how often each actor fires; an actor that is not listed fires as the repetition vector
    says. reward: the progress that the scenario makes.
    """

    name: str
    graph: Graph
    consumed: TokenNames = field(default_factory=dict)
    produced: TokenNames = field(default_factory=dict)
    firings: Mapping[str, int] = field(default_factory=dict)
    reward: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        where = f"scenario {self.name!r}"
        if self.reward < 0:
            raise InvalidGraph(f"{where}: reward {self.reward} is negative")
        for actor, count in self.firings.items():
            self.graph.actor(actor)
            if count < 0:
                raise InvalidGraph(f"{where}: actor {actor!r} fires {counted(count, 'time')}")
        for names in (self.consumed, self.produced):
            for channel in names:
                self.graph.channel(channel)
        for channel, names_there in self.consumed.items():
            tokens = self.graph.channel(channel).initial_tokens
            if len(names_there) != tokens:
                raise InvalidGraph(
                    f"{where}: channel {channel!r} has {tokens} initial tokens, "
                    f"but {counted(len(names_there), 'name')} for them"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state of the automaton: a run that enters it executes its scenario once."""

    name: str
    scenario: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioGraph:
    """Scenarios and the finite automaton whose runs are the allowed sequences of scenarios.

    transitions: pairs of a state and a successor. initial: the first state. probabilities: of the
    transitions, in their order, with sum 1 for each state; empty for an automaton without
    probabilities.

    Source: FSM-SADF of Geilen and Stuijk, CODES+ISSS 2010, section 3; probabilities: Theelen et al.,
    MEMOCODE 2006.
    """

    name: str
    scenarios: tuple[Scenario, ...]
    states: tuple[State, ...]
    transitions: tuple[tuple[str, str], ...]
    initial: str
    probabilities: tuple[Fraction, ...] = ()

    def __post_init__(self) -> None:
        where = f"scenario graph {self.name!r}"
        scenarios = _distinct(
            [scenario.name for scenario in self.scenarios], f"{where}: two scenarios"
        )
        states = _distinct([state.name for state in self.states], f"{where}: two states")
        for state in self.states:
            if state.scenario not in scenarios:
                raise InvalidGraph(
                    f"{where}: state {state.name!r} executes {state.scenario!r}, "
                    "which is no scenario"
                )
        for name in (self.initial, *(end for pair in self.transitions for end in pair)):
            if name not in states:
                raise InvalidGraph(f"{where}: there is no state {name!r}")
        if self.probabilities:
            self._require_distributions(where)

    def _require_distributions(self, where: str) -> None:
        if len(self.probabilities) != len(self.transitions):
            raise InvalidGraph(
                f"{where}: probabilities of length {len(self.probabilities)} for "
                f"{counted(len(self.transitions), 'transition')}; give one for each, or none"
            )
        sums: dict[str, Fraction] = {}
        for (before, after), probability in zip(self.transitions, self.probabilities, strict=True):
            if probability <= 0:
                raise InvalidGraph(
                    f"{where}: the transition from {before!r} to {after!r} has the probability "
                    f"{probability}; expected above 0"
                )
            sums[before] = sums.get(before, Fraction(0)) + probability
        for name, total in sums.items():
            if total != 1:
                raise InvalidGraph(
                    f"{where}: the probabilities of the transitions from {name!r} sum up to {total}; "
                    "expected 1"
                )

    def scenario(self, name: str) -> Scenario:
        """Return the scenario of that name; raise InvalidGraph if there is none."""
        for scenario in self.scenarios:
            if scenario.name == name:
                return scenario
        raise InvalidGraph(f"scenario graph {self.name!r}: there is no scenario {name!r}")

    @property
    def reachable(self) -> dict[str, tuple[str, ...]]:
        """The reachable states, each with its successors."""
        followers: dict[str, list[str]] = {state.name: [] for state in self.states}
        for before, after in self.transitions:
            if after not in followers[before]:
                followers[before].append(after)
        followers_of = {self.initial: tuple(followers[self.initial])}
        waiting = list(followers_of[self.initial])
        for name in waiting:
            if name not in followers_of:
                followers_of[name] = tuple(followers[name])
                waiting.extend(followers_of[name])
        return followers_of


def _distinct(names: list[str], what: str) -> set[str]:
    for name in names:
        if names.count(name) > 1:
            raise InvalidGraph(f"{what} are named {name!r}")
    return set(names)
