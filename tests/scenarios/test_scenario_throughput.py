"""The guaranteed throughput of scenarios: hand-made cases, other methods, and known answers."""

import json
import random
import re
from dataclasses import replace
from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import limit_concurrency
from csdf.analysis.consistency import cycle_vector
from csdf.analysis.throughput import throughput
from csdf.errors import GaveUp, InvalidGraph, NotRead
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.scenarios.files import read_scenarios
from csdf.scenarios.model import Scenario, ScenarioGraph, State
from csdf.scenarios.throughput import (
    StuckScenario,
    WeightedEdge,
    maximum_cycle_ratio,
    scenario_matrix,
    scenario_throughput,
)
from tests.analysis.graph_shapes import with_silent_phases
from tests.reference import slow_simulation
from tests.reference.karp import largest_mean
from tests.research_data import graph_of
from tests.shared_data import SHARED, each

SADF = SHARED / "research" / "sadf"


def known(name):
    path = SADF / name
    return json.loads(path.read_text()) if path.exists() else []


def ring(name, first, second, tokens=1):
    """Two actors on a cycle: an iteration takes first + second, shared by the tokens."""
    return (
        GraphBuilder(name)
        .actor("a", first)
        .actor("b", second)
        .channel("a", 1, "b", 1, name="ab")
        .channel("b", 1, "a", 1, initial_tokens=tokens, name="ba")
        .graph()
    )


def automaton(scenarios, states, transitions):
    return ScenarioGraph(
        name="g",
        scenarios=tuple(scenarios),
        states=tuple(State(name=name, scenario=scenario) for name, scenario in states),
        transitions=tuple(transitions),
        initial=states[0][0],
    )


def two_rings(transitions, **rewards):
    scenarios = [
        Scenario(name="slow", graph=ring("slow", 7, 3), reward=rewards.get("slow", Fraction(1))),
        Scenario(name="fast", graph=ring("fast", 1, 1), reward=rewards.get("fast", Fraction(1))),
    ]
    return automaton(scenarios, [("q", "slow"), ("r", "fast")], transitions)


def test_the_slowest_run_decides():
    found = scenario_throughput(two_rings([("q", "q"), ("q", "r"), ("r", "q"), ("r", "r")]))
    assert (found.period, found.critical_states) == (10, ("q",))
    assert found.throughput == Fraction(1, 10)
    assert found.alone == {"slow": 10, "fast": 2}


def test_a_slow_scenario_that_cannot_repeat_itself_is_shared_with_the_next():
    found = scenario_throughput(two_rings([("q", "r"), ("r", "q")]))
    assert (found.period, sorted(found.critical_scenarios)) == (6, ["fast", "slow"])


def test_a_state_that_no_run_reaches_does_not_count():
    found = scenario_throughput(two_rings([("q", "r"), ("r", "r")]))
    assert (found.period, found.critical_states) == (2, ("r",))


def test_time_is_counted_by_reward():
    # 12 time units for a reward of 1 + 2.
    graph = two_rings([("q", "r"), ("r", "q")], fast=Fraction(2))
    assert scenario_throughput(graph).period == 4


def test_a_run_without_reward_for_ever_is_refused():
    graph = two_rings([("q", "r"), ("r", "q"), ("r", "r")], fast=Fraction(0))
    with pytest.raises(InvalidGraph, match="can stay in the states 'r' for ever"):
        scenario_throughput(graph)


def test_a_scenario_that_cannot_end_is_named_with_what_it_waits_for():
    scenario = Scenario(name="stuck", graph=ring("stuck", 1, 1, tokens=0))
    graph = automaton([scenario], [("q", "stuck")], [("q", "q")])
    with pytest.raises(
        StuckScenario, match=r"'stuck' deadlocks.*waits for 1 token on channel 'ba'"
    ):
        scenario_throughput(graph)


def test_a_scenario_has_to_take_the_tokens_that_the_last_one_left():
    one = Scenario(
        name="one", graph=ring("one", 1, 1), produced={"ba": ("x",)}, consumed={"ba": ("y",)}
    )
    graph = automaton([one], [("q", "one")], [("q", "q")])
    with pytest.raises(InvalidGraph, match="takes the token 'y', which scenario 'one'"):
        scenario_throughput(graph)


@pytest.mark.parametrize("name", ["x", "ab[0]", "a (order)"])
def test_two_tokens_of_one_name_are_refused(name):
    """The times of one of them would be lost: of `ab` and `ba`, or of the latest start of a."""
    graph = ring("one", 1, 1)
    channels = tuple(
        replace(channel, initial_tokens=1) if channel.name == "ab" else channel
        for channel in graph.channels
    )
    names = {"ba": (name,)} | ({"ab": (name,)} if name == "x" else {})
    one = Scenario(
        name="one", graph=replace(graph, channels=channels), consumed=names, produced=names
    )
    with pytest.raises(InvalidGraph, match=re.escape(f"two tokens are named {name!r}")):
        scenario_throughput(automaton([one], [("q", "one")], [("q", "q")]))


def test_a_token_without_a_name_is_forgotten():
    """Without memory between two executions nothing limits how fast they follow one another."""
    free = Scenario(
        name="free", graph=ring("free", 5, 5), consumed={"ba": ("",)}, produced={"ba": ("",)}
    )
    found = scenario_throughput(automaton([free], [("q", "free")], [("q", "q")]))
    assert found.period == 0
    assert found.throughput is None
    assert found.to_json()["throughput"] is None


def test_tokens_come_and_go_by_name():
    """The second scenario consumes what the first one made: no iteration of the graph by itself."""
    make = (
        GraphBuilder("make").actor("a", 3, overlap=False).actor("b", 5, overlap=False)
        .channel("a", 1, "b", 1, name="c").graph()
    )  # fmt: skip
    take = replace(
        make,
        channels=tuple(
            replace(one, initial_tokens=1) if one.name == "c" else one for one in make.channels
        ),
    )
    scenarios = [
        Scenario(name="make", graph=make, firings={"a": 1, "b": 0}),
        Scenario(name="take", graph=take, firings={"a": 0, "b": 1}),
    ]
    graph = automaton(scenarios, [("q", "make"), ("r", "take")], [("q", "r"), ("r", "q")])
    assert scenario_throughput(graph).period == Fraction(5, 2)  # b: 5 every two scenarios


def test_one_scenario_is_its_graph():
    for seed in range(60):
        graph = limited(
            random_graph(seed, GraphShape(actors=2 + seed % 3, max_phases=1 + seed % 2))
        )
        scenario = Scenario(name="s", graph=graph)
        found = scenario_throughput(automaton([scenario], [("q", "s")], [("q", "q")]))
        assert found.period == throughput(graph).period, seed


def overlapping_scenarios(seed):
    """A sequence of scenarios without limits, and the graph whose phases are those of all of them."""
    draw = random.Random(seed)
    first = with_silent_phases(seed)
    graphs = [first]
    for _ in range(seed % 3):
        ends = draw.choice((0, 5)), draw.choice((1, 9))
        durations = {
            actor.name: (draw.randint(*sorted(ends)),) * actor.phases for actor in first.actors
        }
        graphs.append(with_durations(first, durations))
    cycles = cycle_vector(first)
    actors = tuple(
        replace(
            actor,
            durations=sum((g.actor(actor.name).durations * cycles[actor.name] for g in graphs), ()),
        )
        for actor in first.actors
    )
    channels = tuple(
        replace(
            one,
            production=one.production * cycles[one.producer] * len(graphs),
            consumption=one.consumption * cycles[one.consumer] * len(graphs),
            release=one.release and one.release * cycles[one.consumer] * len(graphs),
        )
        for one in first.channels
    )
    scenarios = [Scenario(name=f"s{at}", graph=one) for at, one in enumerate(graphs)]
    states = [(f"q{at}", one.name) for at, one in enumerate(scenarios)]
    steps = [(f"q{at}", f"q{(at + 1) % len(states)}") for at in range(len(states))]
    return automaton(scenarios, states, steps), replace(first, actors=actors, channels=channels)


def with_durations(graph, durations):
    actors = tuple(replace(one, durations=durations[one.name]) for one in graph.actors)
    return replace(graph, actors=actors)


@pytest.mark.parametrize("some", [range(80), pytest.param(range(80, 1500), marks=pytest.mark.slow)])
def test_firings_do_not_overtake_within_a_scenario_nor_into_the_next(some):
    """Against simulation: phases that take nothing, faster phases, and faster scenarios."""
    live = 0
    for seed in some:
        scenarios, phases_of_all = overlapping_scenarios(seed)
        period = slow_simulation.period_of(phases_of_all)
        if period is None:
            with pytest.raises(StuckScenario):
                scenario_throughput(scenarios)
            continue
        assert scenario_throughput(scenarios).period == period / len(scenarios.scenarios), seed
        live += 1
    assert live > len(some) / 4


def test_a_second_phase_that_takes_nothing_starts_no_earlier_than_the_first():
    # The second phase of a gives the token 3 after its start, which is no earlier than that of the
    # first one; b gives it back after 2 more.
    graph = (
        GraphBuilder("silent")
        .actor("a", [3, 3])
        .actor("b", 2)
        .channel("a", [0, 1], "b", 1, name="ab")
        .channel("b", 1, "a", [1, 0], name="ba", initial_tokens=1)
        .graph()
    )
    scenario = Scenario(name="s", graph=graph)
    assert scenario_throughput(automaton([scenario], [("q", "s")], [("q", "q")])).period == 5


def test_a_slow_run_through_several_tokens_names_its_state_once():
    # Two tokens share the 10 time units of the ring: the slowest run passes the state twice.
    scenario = Scenario(name="s", graph=ring("two", 7, 3, tokens=2))
    found = scenario_throughput(automaton([scenario], [("q", "s")], [("q", "q")]))
    assert (found.period, found.critical_states) == (5, ("q",))


def test_a_path_as_scenarios_is_refused_with_the_function_that_reads_it():
    with pytest.raises(NotRead, match="read_scenarios"):
        scenario_throughput("scenarios.json")


def limited(graph):
    return limit_concurrency(graph, {actor.name: 1 for actor in graph.actors})


def with_other_durations(graph, draw):
    actors = tuple(
        replace(actor, durations=tuple(draw.randint(0, 20) for _ in actor.durations))
        for actor in graph.actors
    )
    return replace(graph, actors=actors)


def random_scenarios(seed):
    draw = random.Random(seed)
    graph = limited(
        random_graph(
            seed, GraphShape(actors=2 + seed % 2, max_phases=1 + seed % 2, max_repetitions=3)
        )
    )
    scenarios = [Scenario(name=f"s{i}", graph=with_other_durations(graph, draw)) for i in range(3)]
    states = [(f"q{i}", f"s{draw.randrange(3)}") for i in range(draw.randint(1, 4))]
    names = [name for name, _ in states]
    transitions = [(a, b) for a in names for b in names if draw.random() < 0.5]
    return automaton(scenarios, states, transitions)


def product_edges(graph):
    """The edges of the max-plus automaton over the reachable states, for Karp's method."""
    number = {}
    edges = []
    for before, followers in graph.reachable.items():
        for after in followers:
            scenario = next(one.scenario for one in graph.states if one.name == after)
            for new, stamp in scenario_matrix(graph.scenario(scenario)).rows.items():
                for old, time in stamp.items():
                    source = number.setdefault((before, old), len(number))
                    target = number.setdefault((after, new), len(number))
                    edges.append((source, target, time))
    return len(number), edges


@pytest.mark.parametrize("seed", range(40))
def test_agrees_with_karps_method(seed):
    graph = random_scenarios(seed)
    assert scenario_throughput(graph).period == (largest_mean(*product_edges(graph)) or 0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_agrees_with_karps_method_on_many_scenarios(block):
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        graph = random_scenarios(seed)
        assert scenario_throughput(graph).period == (largest_mean(*product_edges(graph)) or 0)


@pytest.mark.parametrize("seed", range(100))
def test_the_largest_cycle_ratio_is_karps_where_every_edge_is_a_step(seed):
    draw = random.Random(seed)
    nodes = draw.randint(1, 7)
    edges = [
        (draw.randrange(nodes), draw.randrange(nodes), draw.randint(-9, 9))
        for _ in range(draw.randint(0, 14))
    ]
    found = maximum_cycle_ratio(nodes, [WeightedEdge(*edge, 1) for edge in edges])
    assert (None if found is None else found.ratio) == largest_mean(nodes, edges)


def oracle_scenarios(case):
    states = [(str(i), one["scenario"]) for i, one in enumerate(case["fsm"]["states"])]
    transitions = [(str(a), str(b)) for a, b in case["fsm"]["transitions"]]
    scenarios = [
        Scenario(name=name, graph=graph_of(one)) for name, one in case["scenarios"].items()
    ]
    found = automaton(scenarios, states, transitions)
    return replace(found, initial=str(case["fsm"]["initial"]))


@each("case", known("fsmsadf_oracles.json"))
def test_known_scenarios_have_their_known_period_and_matrices(case):
    graph = oracle_scenarios(case)
    found = scenario_throughput(graph)
    assert str(found.period) == case["worst_case_period_per_scenario"]
    for one in graph.scenarios:
        rows = scenario_matrix(one).rows
        matrix = [[rows[new].get(old) for new in case["tokens"]] for old in case["tokens"]]
        assert matrix == case["matrices"][one.name]
    for name, period in found.alone.items():
        assert str(period) == case["period_of_each_scenario_alone"][name]


@each("case", known("sdf3_fsmsadf/answers.json"))
def test_files_of_sdf3_have_their_known_period(case):
    graph = read_scenarios(SADF / "sdf3_fsmsadf" / case["file"])
    assert str(scenario_throughput(graph).period) == case["own_period"]


def test_scenarios_that_would_fire_for_years_end_with_the_time_limit():
    years = (
        GraphBuilder("years")
        .actor("a", 1)
        .actor("b", 1)
        .channel("a", 10**15, "b", 1)
        .channel("a", 1, "a", 1, initial_tokens=1)
        .graph()
    )
    graph = automaton([Scenario(name="years", graph=years)], [("s", "years")], [("s", "s")])
    with pytest.raises(GaveUp, match="time limit"):
        scenario_throughput(graph, budget=0.05)


def test_scenarios_of_more_initial_tokens_than_are_named_are_unknown():
    huge = GraphBuilder("huge").actor("a", 1).channel("a", 1, "a", 1, initial_tokens=10**30).graph()
    graph = automaton([Scenario(name="huge", graph=huge)], [("s", "huge")], [("s", "s")])
    with pytest.raises(GaveUp, match=f"{10**30} initial tokens; at most 1000000"):
        scenario_throughput(graph)
