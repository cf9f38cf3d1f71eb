"""The expected throughput of random runs: derived cases, another solver, and the worst run."""

import json
import random
from fractions import Fraction

import pytest
import sympy

from csdf.cli.answers import UNKNOWN
from csdf.cli.main import main
from csdf.errors import GaveUp, InvalidGraph
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.scenarios import expected
from csdf.scenarios.expected import expected_throughput
from csdf.scenarios.files import scenarios_from_json
from csdf.scenarios.model import Scenario, ScenarioGraph, State
from csdf.scenarios.throughput import scenario_matrix, scenario_throughput


def alone(name, time):
    """An actor that fires one at a time."""
    return GraphBuilder(name).actor("a", time).channel("a", 1, "a", 1, initial_tokens=1).graph()


def drawn(scenarios, chances, initial=0):
    """A scenario graph with a state for each scenario; chances: by state, of the next states."""
    names = [scenario.name for scenario in scenarios]
    pairs = [(i, j, p) for i, row in enumerate(chances) for j, p in enumerate(row) if p]
    return ScenarioGraph(
        name="drawn",
        scenarios=tuple(scenarios),
        states=tuple(State(name=f"in {name}", scenario=name) for name in names),
        transitions=tuple((f"in {names[i]}", f"in {names[j]}") for i, j, _ in pairs),
        probabilities=tuple(Fraction(p) for _, _, p in pairs),
        initial=f"in {names[initial]}",
    )


def test_one_actor_takes_its_mean_time():
    slow, quick = (Scenario(name=n, graph=alone(n, t)) for n, t in (("slow", 4), ("quick", 1)))
    # A third of all scenarios is slow whatever came before: 4/3 + 2/3 * 1 = 2.
    row = (Fraction(1, 3), Fraction(2, 3))
    answer = expected_throughput(drawn([slow, quick], [row, row]))
    assert (answer.period, answer.throughput) == (2, Fraction(1, 2))


def test_time_is_counted_for_each_reward():
    slow = Scenario(name="slow", graph=alone("slow", 4), reward=Fraction(3))
    quick = Scenario(name="quick", graph=alone("quick", 1), reward=Fraction(0))
    # Slow and quick in turns from one half to one half: (4 + 1) / 3 for a reward.
    half = (Fraction(1, 2), Fraction(1, 2))
    with pytest.raises(InvalidGraph, match="no reward"):  # quick may repeat itself for ever
        expected_throughput(drawn([slow, quick], [half, half]))
    assert expected_throughput(drawn([slow, quick], [(0, 1), (1, 0)])).period == Fraction(5, 3)


def test_a_run_ends_in_one_of_the_classes_that_it_never_leaves():
    scenarios = [Scenario(name=n, graph=alone(n, t)) for n, t in (("s", 9), ("x", 4), ("y", 1))]
    # From s on a sixth each to x, y; four sixths stay. So each class has probability 1/2.
    sixth = Fraction(1, 6)
    answer = expected_throughput(
        drawn(scenarios, [(4 * sixth, sixth, sixth), (0, 1, 0), (0, 0, 1)])
    )
    half = Fraction(1, 2)
    assert {(end.probability, end.period, end.states) for end in answer.classes} == {
        (half, 4, ("in x",)), (half, 1, ("in y",)),
    }  # fmt: skip
    assert answer.period == Fraction(5, 2)
    assert answer.throughput == Fraction(1, 2) * (1 + Fraction(1, 4))


def test_parts_at_different_speeds_need_no_endless_chain():
    # Two actors without a channel between them drift apart for ever; the slower one decides.
    def pair(name, a, b):
        builder = GraphBuilder(name).actor("a", a, overlap=False).actor("b", b, overlap=False)
        return Scenario(name=name, graph=builder.channel("a", 1, "b", 1).graph())

    half = (Fraction(1, 2), Fraction(1, 2))
    answer = expected_throughput(drawn([pair("x", 1, 5), pair("y", 3, 9)], [half, half]))
    assert answer.period == 7


def whole_vectors(graph):
    """The expected period by the stationary distribution of whole vectors, without blocks.

    Raises OverflowError where the chain has over 60 nodes.
    """
    scenarios = {state.name: graph.scenario(state.scenario) for state in graph.states}
    rows = {name: scenario_matrix(scenario).rows for name, scenario in scenarios.items()}
    chances = dict(zip(graph.transitions, graph.probabilities, strict=True))
    start = (graph.initial, tuple((token, 0) for token in sorted(rows[graph.initial])))
    nodes, steps = [start], []
    for state, times in nodes:
        for (before, after), chance in chances.items():
            if before != state:
                continue
            now = {
                token: max(dict(times)[old] + time for old, time in row.items())
                for token, row in rows[after].items()
                if row
            }
            latest = max(now.values())
            node = (after, tuple((token, now[token] - latest) for token in sorted(now)))
            if node not in nodes:
                nodes.append(node)
            if len(nodes) > 60:
                raise OverflowError
            place = nodes.index((state, times)), nodes.index(node)
            steps.append((*place, chance, latest, scenarios[after].reward))
    # Poisson's equations: value + gain = step + chance * next values; the last value is 0.
    values = [*sympy.symbols(f"h:{len(nodes) - 1}"), sympy.Integer(0)]
    gain = sympy.Symbol("gain")

    def mean(kind):
        equations = [values[node] + gain for node in range(len(nodes))]
        for before, after, chance, *worth in steps:
            share = sympy.Rational(chance.numerator, chance.denominator)
            step = sympy.Rational(worth[kind].numerator, worth[kind].denominator)
            equations[before] -= share * (step + values[after])
        (solution,) = sympy.linsolve(equations, [gain, *values[:-1]])
        return Fraction(int(solution[0].p), int(solution[0].q))

    return mean(0) / mean(1)


@pytest.mark.parametrize("seed", range(12))
def test_blocks_agree_with_the_chain_of_whole_vectors(seed):
    dice = random.Random(seed)
    graph = random_graph(
        seed, GraphShape(actors=3, extra_channels=1, max_repetitions=2, max_duration=4)
    )

    def scenario(name):
        actors = tuple(
            type(actor)(
                name=actor.name, durations=tuple(dice.randint(1, 6) for _ in actor.durations)
            )
            for actor in graph.actors
        )
        changed = type(graph)(name=name, actors=actors, channels=graph.channels)
        return Scenario(name=name, graph=changed, reward=Fraction(dice.randint(1, 3)))

    weights = [[dice.randint(1, 3) for _ in range(2)] for _ in range(2)]
    chances = [[Fraction(w, sum(row)) for w in row] for row in weights]
    scenarios = drawn([scenario("x"), scenario("y")], chances)
    answer = expected_throughput(scenarios)
    assert answer.period <= scenario_throughput(scenarios).period
    try:
        assert answer.period == whole_vectors(scenarios)
    except OverflowError:
        pytest.skip("parts drift apart: whole vectors have no end")


def test_without_a_choice_the_expected_run_is_the_worst_one():
    for seed in range(5):
        graph = random_graph(seed, GraphShape(actors=4, max_phases=2))
        scenarios = drawn([Scenario(name="x", graph=graph)], [(1,)])
        assert expected_throughput(scenarios).period == scenario_throughput(scenarios).period


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        (["1/2", "1/3", "1"], "from 'p' sum up to 5/6; expected 1"),
        (["1", "0", "1"], "from 'p' to 'q' has the probability 0"),
        (["1"], "probabilities of length 1 for 3 transitions"),
    ],
)
def test_wrong_probabilities_are_refused(probabilities, message):
    document = {
        "format": "csdf-scenarios", "version": 2, "name": "g",
        "scenarios": [{"name": "s", "graph": alone("s", 1).to_json()}],
        "states": [{"name": "p", "scenario": "s"}, {"name": "q", "scenario": "s"}],
        "transitions": [["p", "p"], ["p", "q"], ["q", "q"]],
        "initial": "p", "probabilities": probabilities,
    }  # fmt: skip
    with pytest.raises(Exception, match=message):
        scenarios_from_json(json.dumps(document))


def test_the_command_prints_the_expected_period_below_the_worst_one(tmp_path, capsys):
    path = tmp_path / "dice.json"
    document = {
        "format": "csdf-scenarios", "version": 2, "name": "dice",
        "scenarios": [{"name": n, "graph": alone(n, t).to_json()} for n, t in (("p", 4), ("q", 1))],
        "states": [{"name": name, "scenario": name} for name in "pq"],
        "transitions": [[a, b] for a in "pq" for b in "pq"],
        "initial": "p", "probabilities": ["1/2"] * 4,
    }  # fmt: skip
    path.write_text(json.dumps(document))
    assert main(["scenarios", str(path)]) == 0
    output = capsys.readouterr().out
    assert "worst-case period 4" in output
    assert "expected period             5/2 (2.5); expected throughput 2/5 (0.4)" in output


def test_runs_that_end_have_no_expected_throughput():
    slow = Scenario(name="slow", graph=alone("slow", 4))
    quick = Scenario(name="quick", graph=alone("quick", 1))
    with pytest.raises(InvalidGraph, match="no state follows 'in quick'"):
        expected_throughput(drawn([slow, quick], [(0, 1), (0, 0)]))


def test_the_worst_case_of_runs_that_may_end_is_printed(tmp_path, capsys):
    path = tmp_path / "ends.json"
    document = {
        "format": "csdf-scenarios", "version": 2, "name": "ends",
        "scenarios": [{"name": "s", "graph": alone("s", 3).to_json()}],
        "states": [{"name": name, "scenario": "s"} for name in "pq"],
        "transitions": [["p", "p"], ["p", "q"]],
        "initial": "p", "probabilities": ["1/2"] * 2,
    }  # fmt: skip
    path.write_text(json.dumps(document))
    assert main(["scenarios", str(path)]) == UNKNOWN
    output, remarks = capsys.readouterr()
    assert "worst-case period 3" in output
    assert "no expected period: scenario graph 'ends': no state follows 'q'" in remarks


def test_a_chain_without_an_end_is_given_up(monkeypatch):
    # Each actor has a token; now one of them is slow, now the other, and the third scenario
    # exchanges the tokens: their distance is a random walk.
    def pair(name, a, b, produced):
        graph = (
            GraphBuilder(name)
            .actor("a", a)
            .channel("a", 1, "a", 1, name="c", initial_tokens=1)
            .actor("b", b)
            .channel("b", 1, "b", 1, name="d", initial_tokens=1)
            .graph()
        )
        return Scenario(
            name=name, graph=graph, consumed={"c": ("x",), "d": ("y",)}, produced=produced
        )

    same, swapped = {"c": ("x",), "d": ("y",)}, {"c": ("y",), "d": ("x",)}
    scenarios = [pair("p", 1, 0, same), pair("q", 0, 1, same), pair("r", 0, 0, swapped)]
    third = (Fraction(1, 3),) * 3
    monkeypatch.setattr(expected, "MOST_NODES", 500)  # for a quick test
    with pytest.raises(GaveUp, match="500 nodes"):
        expected_throughput(drawn(scenarios, [third] * 3))
