"""The period as a function of durations and capacities, against periods computed one by one."""

from fractions import Fraction

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.capacity_steps import capacity_steps
from csdf.analysis.cycle_lines import added_time, added_to_phase, time_scale
from csdf.analysis.parametric import parametric_period
from csdf.analysis.parametric_regions import _has_area, parametric_regions
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, NotRead
from csdf.io.graph_files import read_graph
from csdf.model.builder import GraphBuilder
from csdf.time_limit import Stop
from tests.analysis.changed_graphs import all_phases, drawn, longer, period_of
from tests.cli.running import GRAPHS
from tests.research_data import graph_of, parametric_oracles
from tests.shared_data import each


def turns():
    """a and b take turns, 3 + 5; c works beside them for 6."""
    builder = GraphBuilder().actor("a", 3).actor("b", 5).actor("c", 6, overlap=False)
    builder.channel("a", 1, "b", 1).channel("b", 1, "a", 1, initial_tokens=1)
    return builder.channel("b", 1, "c", 1).graph()


def test_the_period_bends_where_another_cycle_becomes_critical():
    found = parametric_period(turns(), added_time(turns(), {"a": 1}))
    # max(6, 3 + x + 5) from x = -3 on.
    assert [(one.start, one.slope) for one in found.segments] == [(-3, 0), (-2, 1)]
    assert [found.period(x) for x in (-3, -2, 0, "1/2")] == [6, 6, 8, Fraction(17, 2)]
    assert found.segments[1].cycle.actors == ("a", "b")
    assert found.slack == 0


def test_the_nominal_scale_of_a_parameter_is_1():
    found = parametric_period(turns(), time_scale(turns(), ["a", "b"]))
    # max(6, 8 s): the two pieces meet at 3/4.
    assert [(one.start, one.slope) for one in found.segments] == [(0, 0), (Fraction(3, 4), 8)]
    assert found.parameter.nominal == 1


def test_weights_say_how_much_of_a_parameter_each_actor_takes():
    parameter = added_time(turns(), {"a": 1, "b": "1/2", "c": 2})
    # max(8 + 3/2 x, 6 + 2 x) from x = -3 on: c takes over at 4.
    found = parametric_period(turns(), parameter)
    assert [(one.start, one.slope) for one in found.segments] == [(-3, Fraction(3, 2)), (4, 2)]


def test_what_is_below_the_least_value_is_refused():
    found = parametric_period(turns(), added_time(turns(), {"a": 1}))
    with pytest.raises(CsdfError, match="below -3"):
        found.period(-4)


@pytest.mark.parametrize(
    ("weights", "said"),
    [({"a": -1}, "negative"), ({"a": 0}, "no duration depends"), ({"a": [1, 2]}, "2 weights"),
     ({"x": 1}, "no actor 'x'"), ({"a": 0.5}, "write a float as a text")],
)  # fmt: skip
def test_a_parameter_that_cannot_be_is_refused(weights, said):
    with pytest.raises(CsdfError, match=said):
        added_time(turns(), weights)


def test_a_deadlock_has_no_function():
    graph = read_graph(GRAPHS / "deadlocked.xml")
    with pytest.raises(CsdfError, match="deadlocks"):
        parametric_period(graph, added_time(graph, {"a": 1}))


def test_regions_have_the_plane_of_their_cycle():
    graph = turns()
    found = parametric_regions(
        graph, added_time(graph, {"a": 1}), added_time(graph, {"c": 1}), high=(10, 10)
    )
    # max(8 + x, 6 + y): two regions, that meet at y = x + 2.
    assert sorted((one.time, one.counts) for one in found.regions) == [(6, (0, 1)), (8, (1, 0))]
    assert found.period(0, 0) == 8
    assert found.period(0, 5) == 11
    with pytest.raises(CsdfError, match="not between"):
        found.period(0, 11)


def test_an_empty_box_is_refused():
    graph = turns()
    one = added_time(graph, {"a": 1})
    with pytest.raises(CsdfError, match="expected more than -3"):
        parametric_regions(graph, one, one, high=(-3, 1))


def test_expressions_of_sympy_have_the_same_values():
    sympy = pytest.importorskip("sympy", reason="SymPy is not installed; it is an extra")
    graph = turns()
    found = parametric_period(graph, added_time(graph, {"a": 1}))
    x = sympy.Symbol("a", real=True)
    assert [found.to_sympy().subs(x, value) for value in (-3, 0, 7)] == [6, 8, 15]


@pytest.mark.parametrize("seed", range(12))
def test_expressions_of_sympy_are_the_periods_everywhere(seed):
    sympy = pytest.importorskip("sympy", reason="SymPy is not installed; it is an extra")
    graph = drawn(seed)
    first, second = graph.actors[0].name, graph.actors[-1].name
    one, other = added_time(graph, {first: 1}, name="x"), added_time(graph, {second: 1}, name="y")
    x, y = sympy.Symbol("x", real=True), sympy.Symbol("y", real=True)
    line = parametric_period(graph, one).to_sympy()
    plane = parametric_regions(graph, one, other, high=(9, 9)).to_sympy()
    for value in (0, Fraction(1, 3), 2, 9):
        number = sympy.Rational(value)
        alone = throughput(all_phases(graph, first, value)).period
        assert Fraction(str(line.subs(x, number))) == alone
        assert Fraction(str(plane.subs({x: number, y: 0}))) == alone
        both = throughput(all_phases(all_phases(graph, first, value), second, value)).period
        assert Fraction(str(plane.subs({x: number, y: number}))) == both


@each("oracle", parametric_oracles())
def test_pieces_and_slack_are_those_of_the_oracle(oracle):
    graph = graph_of(oracle["graph"])
    assert throughput(graph).period == Fraction(oracle["period"])
    for actor, known in oracle["actors"].items():
        assert_same(parametric_period(graph, added_time(graph, {actor: 1})), known)
        for phase, of_phase in known.get("phases", {}).items():
            parameter = added_to_phase(graph, actor, int(phase))
            assert_same(parametric_period(graph, parameter), of_phase)


def assert_same(found, known):
    assert found.slack == (None if known["slack"] is None else Fraction(known["slack"]))
    assert [(one.start, one.time / one.tokens, one.slope) for one in found.segments] == [
        (Fraction(one["from"]), Fraction(one["time"]) / one["tokens"],
         Fraction(one["count"], one["tokens"]))
        for one in known["pieces"]
    ]  # fmt: skip


@each("oracle", [one for one in parametric_oracles() if "two_parameters" in one])
def test_regions_have_the_periods_of_the_oracle(oracle):
    graph, known = graph_of(oracle["graph"]), oracle["two_parameters"]
    points = [tuple(map(Fraction, one)) for one in known["points"]]
    parameters = [added_time(graph, {name: 1}) for name in known["actors"]]
    high = tuple(max(max(one[axis] for one in points), 1) for axis in (0, 1))
    found = parametric_regions(graph, *parameters, high=high)
    assert [found.period(x, y) for x, y, _ in points] == [period for _, _, period in points]


def test_a_few_functions_agree_with_simulations():
    for seed in range(8):
        assert_pieces_hold(drawn(seed))
        assert_regions_hold(drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_pieces_agree_with_simulations_at_their_ends_and_middles(first):
    for seed in range(first, first + 100):
        assert_pieces_hold(drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_regions_agree_with_simulations_at_their_corners_and_middles(first):
    for seed in range(first, first + 100):
        assert_regions_hold(drawn(seed))


def assert_pieces_hold(graph):
    actor = graph.actors[len(graph.name) % len(graph.actors)]
    phase = actor.phases - 1
    for parameter, change in (
        (added_time(graph, {actor.name: 1}), lambda x: all_phases(graph, actor.name, x)),
        (
            added_to_phase(graph, actor.name, phase),
            lambda x: longer(graph, {(actor.name, phase): x}),
        ),
    ):
        found = parametric_period(graph, parameter)
        slopes = [one.slope for one in found.segments]
        assert slopes == sorted(set(slopes))  # convex
        for one in found.segments:
            end = one.start + 50 if one.end is None else one.end
            for value in (one.start, (one.start + end) / 2, end):
                changed = change(value)
                assert period_of(changed) * changed.time_unit == found.period(value), graph.name


def assert_regions_hold(graph):
    first, second = (added_time(graph, {one.name: 1}) for one in graph.actors[:2])
    found = parametric_regions(graph, first, second, high=(9, 7))
    for region in found.regions:
        middle = tuple(
            sum(corner[axis] for corner in region.corners) / len(region.corners) for axis in (0, 1)
        )
        for x, y in (*region.corners, middle):
            changed = longer(graph, {
                (actor.name, phase): time
                for actor, time in zip(graph.actors[:2], (x, y), strict=True)
                for phase in range(actor.phases)
            })  # fmt: skip
            assert (
                period_of(changed) * changed.time_unit == region.period(x, y) == found.period(x, y)
            )


def test_capacity_steps_are_the_periods_of_all_capacities():
    graph = read_graph(GRAPHS / "csdf_example.xml")
    found = capacity_steps(graph, "alpha")
    assert found.is_complete
    for capacity in range(12):
        expected = throughput(with_capacities(graph, {"alpha": capacity})).period
        assert found.period(capacity) == expected


def test_a_capacity_that_always_helps_has_no_last_step():
    graph = GraphBuilder().actor("a", 1).actor("b", 1).channel("a", 1, "b", 1, name="ab").graph()
    found = capacity_steps(graph, "ab", most=5)
    assert [(one.capacity, one.period) for one in found.steps] == [
        (n, Fraction(2, n)) for n in range(1, 6)
    ]
    assert not found.is_complete
    with pytest.raises(CsdfError, match="beyond"):
        found.period(100)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_capacity_steps_agree_with_simulations(first):
    for seed in range(first, first + 100):
        graph = drawn(seed)
        channel = next(one for one in graph.channels if not one.is_self_loop)
        found = capacity_steps(graph, channel.name, most=4)
        last = found.steps[-1].capacity
        for capacity in range(channel.initial_tokens, last + 2 * found.is_complete):
            bounded = with_capacities(graph, {channel.name: capacity})
            if capacity < last or found.is_complete:
                assert found.period(capacity) == period_of(bounded), (graph.name, capacity)


def test_the_number_of_evaluated_periods_is_told():
    # Two pieces need a line each, and one at the point where they meet.
    assert parametric_period(turns(), added_time(turns(), {"a": 1})).evaluations >= 2


def test_three_corners_on_a_line_leave_an_area_if_another_is_off_it():
    assert _has_area([(0, 0), (1, 0), (2, 0), (2, 2)])
    assert not _has_area([(0, 0), (1, 1), (3, 3)])


def test_a_path_as_a_parameter_is_refused_with_the_function_that_reads_it():
    with pytest.raises(NotRead, match="read_graph"):
        added_time("graph.xml", {"a": 1})


class CtrlC:
    """A stop that presses Ctrl-C at one of its looks."""

    def __init__(self, look):
        self.left = look
        self.stop = Stop(report=self.count)

    def count(self, _progress):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


def functions_after_ctrl_c(compute):
    """Return what is known by Ctrl-C at each look, until the computation ends by itself."""
    known = []
    for look in range(10_000):
        pressed = CtrlC(look)
        try:
            found = compute(pressed.stop)
        except KeyboardInterrupt:
            continue
        known.append(found)
        if found.reason is None:
            return known
    raise AssertionError("the computation never ends")


def spokes(count):
    """Cycles through the actor `hub`, each of which is the critical one for some duration of `hub`."""
    builder = GraphBuilder().actor("hub", 1)
    for number in range(1, count + 1):
        time = Fraction(60 * number**2 - 60, number)
        builder.actor(f"spoke{number}", time).channel("hub", 1, f"spoke{number}", 1)
        builder.channel(f"spoke{number}", 1, "hub", 1, initial_tokens=number)
    return builder.graph()


def test_after_ctrl_c_the_first_segments_of_the_function_are_kept():
    graph = spokes(6)
    parameter = added_time(graph, {"hub": 1})
    *ended, whole = functions_after_ctrl_c(
        lambda stop: parametric_period(graph, parameter, budget=stop)
    )
    assert (whole.is_complete, len(ended) > 2) == (True, True)
    for found in ended:
        assert str(found.reason) == "interrupted"
        end = found.segments[-1].end
        assert [one.start for one in found.segments] == sorted({o.start for o in found.segments})
        for value in (found.segments[0].start, (found.segments[0].start + end) / 2, end):
            assert found.period(value) == whole.period(value)
        with pytest.raises(CsdfError, match="the last value computed"):
            found.period(end + 1)


def test_a_function_that_ends_at_the_nominal_value_has_no_slack_yet():
    builder = GraphBuilder()
    for name, time in (("a", 6), ("b", 5), ("c", 5)):
        builder.actor(name, time).channel(name, 1, name, 1, initial_tokens=1)
    graph = builder.graph()
    parameter = added_time(graph, {"a": 1, "c": 4})
    ends = []
    for found in functions_after_ctrl_c(
        lambda stop: parametric_period(graph, parameter, budget=stop)
    ):
        ends.append(found.segments[-1].end)
        if ends[-1] == parameter.nominal:
            with pytest.raises(CsdfError, match="is known up to 0 only"):
                _ = found.slack
    assert parameter.nominal in ends


def test_after_ctrl_c_the_first_steps_of_a_capacity_are_kept():
    graph = read_graph(GRAPHS / "csdf_example.xml")
    *ended, whole = functions_after_ctrl_c(lambda stop: capacity_steps(graph, "alpha", budget=stop))
    assert whole.is_complete
    assert all(found.steps == whole.steps[: len(found.steps)] for found in ended)
    assert not any(found.is_complete for found in ended)
