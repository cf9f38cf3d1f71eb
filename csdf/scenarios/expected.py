"""Expected throughput of random sequences of scenarios: Markov chain of max-plus vectors.

A node of the chain is a state of the automaton with the times of the tokens after its scenario,
relative to the latest token. The duration of a step is the increase of the latest time. If the chain
is finite, its long-run time per reward is exact.

Source: Theelen, Geilen, Basten, Voeten, Gheorghita, Stuijk, A scenario-aware data flow model for
combined long-run average and worst-case performance analysis, MEMOCODE 2006; Baccelli, Cohen, Olsder,
Quadrat, Synchronization and linearity, Wiley 1992, chapter 7 (Lyapunov exponents).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple

from csdf.analysis.components import strong_components
from csdf.arguments import public
from csdf.errors import GaveUp, InvalidGraph
from csdf.model.shown import Shown
from csdf.scenarios.model import ScenarioGraph
from csdf.scenarios.throughput import AutomatonMatrices, automaton_matrices
from csdf.status import Why, because
from csdf.time_limit import Budget, Stop, stop_of

# Nodes of one chain. Five actors in a pipeline with three scenarios have 1,000 to 3,500, which takes
# 0.3 to 1.5 s. An infinite chain reaches 20,000 after two seconds.
MOST_NODES = 20_000


class ExpectedWhy(Why):
    """Why no expected throughput was computed."""

    TOO_MANY = "the chain of states and times has more than {nodes} nodes, and may have no end"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentClass(Shown):
    """A recurrent class of states: the probability to reach it, and its time per reward."""

    JSON: ClassVar[tuple[str, ...]] = ("probability", "period", "states")

    probability: Fraction
    period: Fraction  # time per reward, in the units of the user
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedThroughput(Shown):
    """The expected throughput of a random run of a scenario graph.

    period: expected long-run time per reward, in units of the user. throughput: expected reward per
    time unit; None if some runs are unlimited. classes: with probability 1, a run ends in a recurrent
    class and has its period.
    """

    JSON: ClassVar[tuple[str, ...]] = ("period", "throughput", "classes")

    period: Fraction
    throughput: Fraction | None
    classes: tuple[RecurrentClass, ...]


Times = tuple[tuple[str, int], ...]  # of tokens, by name; the latest is at 0


class Node(NamedTuple):
    """A node of a chain: the state that was executed, and the times of its tokens."""

    state: str
    times: Times


@public
def expected_throughput(graph: ScenarioGraph, *, budget: Budget = None) -> ExpectedThroughput:
    """Return the exact long-run average of the throughput over random runs of the automaton.

    Raises InvalidGraph if a reachable state has no probabilities, and as `scenario_throughput` does;
    GaveUp if the budget, a stop or seconds, ends, or a chain has more than 20,000 nodes.
    """
    stop = stop_of(budget)
    chances = _chances(graph)
    automaton = automaton_matrices(graph, stop)
    names = list(chances)
    rows = [
        {names.index(after): chance for after, chance in chances[name].items()} for name in names
    ]
    component = strong_components(len(names), [list(row) for row in rows])
    bottom = _bottom_components(component, rows)
    classes = []
    for number_of_class, probability in _absorption(rows, component, bottom).items():
        states = [
            name for name, number in zip(names, component, strict=True) if number == number_of_class
        ]
        period = _period(automaton, {name: chances[name] for name in states}, stop)
        classes.append(RecurrentClass(probability=probability, period=period, states=tuple(states)))
    is_limited = all(recurrent.period for recurrent in classes)
    return ExpectedThroughput(
        period=sum((final.probability * final.period for final in classes), Fraction(0)),
        throughput=(
            sum((final.probability / final.period for final in classes), Fraction(0))
            if is_limited
            else None
        ),
        classes=tuple(classes),
    )


def _chances(graph: ScenarioGraph) -> dict[str, dict[str, Fraction]]:
    """Return for each reachable state the probabilities of the states that follow it."""
    if not graph.probabilities:
        raise InvalidGraph(
            f"scenario graph {graph.name!r}: its transitions have no probabilities; give one for each"
        )
    chances: dict[str, dict[str, Fraction]] = {name: {} for name in graph.reachable}
    for (before, after), chance in zip(graph.transitions, graph.probabilities, strict=True):
        if before in chances:
            chances[before][after] = chances[before].get(after, Fraction(0)) + chance
    for name, row in chances.items():
        if not row:
            raise InvalidGraph(
                f"scenario graph {graph.name!r}: no state follows {name!r}, so that runs end there"
            )
    return chances


def _bottom_components(
    component: Sequence[int], rows: Sequence[Mapping[int, Fraction]]
) -> set[int]:
    """Return the components of a chain without a step to another component."""
    left = {
        component[node]
        for node, row in enumerate(rows)
        for after in row
        if component[after] != component[node]
    }
    return set(component) - left


def _absorption(
    rows: Sequence[Mapping[int, Fraction]], component: Sequence[int], ends: set[int]
) -> dict[int, Fraction]:
    """Return for each bottom component the probability that a run from node 0 ends in it."""
    if component[0] in ends:
        return {component[0]: Fraction(1)}
    chain = _Chain()
    for node, row in enumerate(rows):
        if component[node] not in ends:
            for after, chance in row.items():
                # All states of a bottom component are one node of the chain. Component 0 has the number
                # -1, component 1 the number -2: no state has a negative number.
                target = -1 - component[after] if component[after] in ends else after
                chain.add(node, target, chance)
    for node in range(1, len(rows)):
        if component[node] not in ends:
            chain.eliminate(node)
    row = chain.rows[0]
    stay = row.pop(0, Fraction(0))
    return {-1 - target: chance / (1 - stay) for target, chance in row.items()}


def _period(
    automaton: AutomatonMatrices, chances: Mapping[str, Mapping[str, Fraction]], stop: Stop
) -> Fraction:
    """Return the expected time per reward of runs within these states.

    It is the maximum over the strongly connected blocks of tokens: the Lyapunov exponent of a reducible
    product of random max-plus matrices is the largest exponent of its irreducible blocks (Baccelli and
    others, chapter 7). The chain of a single block may be finite where the chain of all tokens is
    infinite: the differences between blocks of different periods grow without bound.
    """
    periods = [
        _period_of_block(automaton, chances, block, stop)
        for block in _blocks(automaton, chances, stop)
    ]
    return max((period for period in periods if period is not None), default=Fraction(0))


def _blocks(
    automaton: AutomatonMatrices, chances: Mapping[str, Mapping[str, Fraction]], stop: Stop
) -> list[dict[str, frozenset[str]]]:
    """Return the strongly connected blocks of tokens, by state, that have a token in each state.

    Almost every run visits all states again and again. A block without a token in a state passes no
    time through that visit, so that it sets no period.
    """
    number = {
        (state, token): index
        for index, (state, token) in enumerate(
            (state, token) for state in chances for token in automaton.rows(state)
        )
    }
    followers: list[list[int]] = [[] for _ in number]
    for before, row in chances.items():
        stop.look()
        for after in row:
            for token, stamp in automaton.rows(after).items():
                for old in stamp:
                    if (before, old) in number:
                        followers[number[before, old]].append(number[after, token])
    component = strong_components(len(number), followers)
    blocks: dict[int, dict[str, set[str]]] = {}
    for (state, token), index in number.items():
        blocks.setdefault(component[index], {}).setdefault(state, set()).add(token)
    return [
        {state: frozenset(tokens) for state, tokens in block.items()}
        for block in blocks.values()
        if block.keys() == chances.keys()
    ]


def _period_of_block(
    automaton: AutomatonMatrices,
    chances: Mapping[str, Mapping[str, Fraction]],
    block: Mapping[str, frozenset[str]],
    stop: Stop,
) -> Fraction | None:
    """Return the expected time per reward of a block of tokens; None if a step passes no times."""
    first = next(iter(chances))
    numbers = {Node(first, tuple((token, 0) for token in sorted(block[first]))): 0}
    rows: list[dict[int, Fraction]] = []
    worths: list[tuple[Fraction, Fraction]] = []
    nodes = list(numbers)
    for node in nodes:  # breadth first: the loop appends new nodes
        stop.look()
        row: dict[int, Fraction] = {}
        time = reward = Fraction(0)
        for after, chance in chances[node.state].items():
            moved = _moved(automaton.rows(after), block[after], dict(node.times))
            if not moved:
                return None
            latest = max(moved.values())
            target = Node(after, tuple((token, moved[token] - latest) for token in sorted(moved)))
            if target not in numbers:
                numbers[target] = len(numbers)
                nodes.append(target)
                if len(nodes) > MOST_NODES:
                    raise GaveUp(because(ExpectedWhy.TOO_MANY, nodes=MOST_NODES))
            index = numbers[target]
            row[index] = row.get(index, Fraction(0)) + chance
            time += chance * latest
            reward += chance * automaton.scenarios[after].reward
        rows.append(row)
        worths.append((time, reward))
    return _mean_ratio(rows, worths, stop) / automaton.time_scale


def _moved(
    rows: Mapping[str, Mapping[str, int]], tokens: frozenset[str], times: Mapping[str, int]
) -> dict[str, int]:
    """Return the times of these tokens after a scenario, if they depend on a token before it."""
    moved = {}
    for token in tokens:
        sums = [times[old] + time for old, time in rows[token].items() if old in times]
        if sums:
            moved[token] = max(sums)
    return moved


def _mean_ratio(
    rows: Sequence[Mapping[int, Fraction]], worths: Sequence[tuple[Fraction, Fraction]], stop: Stop
) -> Fraction:
    """Return the long-run time per reward of a chain; worths: time and reward of a step from each node.

    All bottom components have equal ratios: max-plus matrices are non-expansive, so the distance of two
    runs of one sequence of scenarios stays bounded. Nodes are eliminated until a single node remains.
    The ratio is the expected time between two visits of this node, divided by the expected reward.
    """
    component = strong_components(len(rows), [list(row) for row in rows])
    end = min(_bottom_components(component, rows))
    chain = _Chain()
    for node, row in enumerate(rows):
        if component[node] == end:
            chain.worth[node] = worths[node]
            for after, chance in row.items():
                chain.add(node, after, chance)
    while len(chain.rows) > 1:
        stop.look()
        chain.eliminate(min(chain.rows, key=chain.fill))
    ((time, reward),) = (chain.worth[node] for node in chain.rows)
    return time / reward


class _Chain:
    """A Markov chain whose nodes are eliminated one by one.

    worth: for each node the expected time and reward from a visit until the next visit of a node that
    is not eliminated; at first, of a single step.
    Elimination of a node combines the steps to it with the steps from it, after any number of steps to
    itself. Source: Grassmann, Taksar, Heyman, Regenerative analysis and steady state
    distributions for Markov chains, Operations Research 33(5), 1985.
    """

    def __init__(self) -> None:
        self.rows: dict[int, dict[int, Fraction]] = {}
        self.worth: dict[int, tuple[Fraction, Fraction]] = {}
        self._into: dict[int, set[int]] = defaultdict(set)

    def add(self, node: int, after: int, chance: Fraction) -> None:
        row = self.rows.setdefault(node, {})
        row[after] = row.get(after, Fraction(0)) + chance
        self._into[after].add(node)

    def fill(self, node: int) -> int:
        """Return the maximum number of steps that an elimination adds: the Markowitz count."""
        return len(self.rows[node]) * len(self._into[node])

    def eliminate(self, node: int) -> None:
        row = self.rows.pop(node)
        visits = 1 / (1 - row.pop(node, Fraction(0)))
        for after in row:
            self._into[after].discard(node)
        time, reward = self.worth.get(node, (Fraction(0), Fraction(0)))
        for before in self._into.pop(node, set()) - {node}:
            weight = self.rows[before].pop(node) * visits
            for after, chance in row.items():
                self.add(before, after, weight * chance)
            time_before, reward_before = self.worth.get(before, (Fraction(0), Fraction(0)))
            self.worth[before] = (time_before + weight * time, reward_before + weight * reward)
