"""Graphs of PREESM (.pi) and the scenarios with their times."""

import random
import shutil
from collections import deque
from fractions import Fraction
from math import lcm
from pathlib import Path

import pytest

from csdf.analysis.bound_channels import without_auto_concurrency
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import throughput
from csdf.errors import UnreadableFile
from csdf.io.graph_files import read_graph
from csdf.io.preesm import flattening
from csdf.io.preesm.expressions import value_of
from csdf.io.preesm.reader import parse_pi
from csdf.model.exact import MalformedText

PROJECT = Path(__file__).parents[2] / "models" / "preesm"
HEAD = (
    '<?xml version="1.0"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    '<graph edgedefault="directed"><data key="name">g</data>\n'
)
TAIL = "</graph></graphml>"


def node(name, kind="actor", ports="", inner="", **more):
    """A node with ports such as `out o 3, in i n*2`."""
    attributes = "".join(f' {key}="{value}"' for key, value in more.items())
    listed = "".join(
        f'<port kind="{kind}put" name="{port}" expr="{rate}"/>'
        for kind, port, rate in (one.split(maxsplit=2) for one in ports.split(",") if one)
    )
    return f'<node id="{name}" kind="{kind}"{attributes}>{inner}{listed}</node>\n'


def fifo(source, target, inner="", **more):
    """A FIFO from `a.o` to `b.i`."""
    (one, out), (other, into) = source.split("."), target.split(".")
    attributes = "".join(f' {key}="{value}"' for key, value in more.items())
    return (
        f'<edge kind="fifo" source="{one}" sourceport="{out}" target="{other}" '
        f'targetport="{into}" type="t"{attributes}>{inner}</edge>\n'
    )


def dependency(source, target, port=""):
    to_port = f' targetport="{port}"' if port else ""
    return f'<edge kind="dependency" source="{source}" target="{target}"{to_port}/>\n'


def param(name, expression):
    return f'<node id="{name}" kind="param" expr="{expression}"/>\n'


def parsed(*parts, name="g.pi"):
    return parse_pi((HEAD + "".join(parts) + TAIL).encode(), name, assume_zero_times=True)


def pair(*parts, out="3", into="2"):
    return parsed(
        *parts, node("a", ports=f"out o {out}"), node("b", ports=f"in i {into}"), fifo("a.o", "b.i")
    )


@pytest.fixture
def camera():
    return read_graph(PROJECT / "Scenarios" / "two_types.scenario")


def test_a_scenario_gives_times_sizes_and_parameters(camera):
    # 32 x 24 pixels in 6 slices, by parameter of the scenario, of 128; smooth takes them by halves.
    assert repetition_vector(camera) == {
        "sensor": 1, "copy": 1, "filter/smooth": 12, "compare": 1, "alarm": 6,
    }  # fmt: skip
    assert camera.time_unit == Fraction(1, 2)  # for the 2.5 of the alarm
    durations = {actor.name: actor.durations[0] * camera.time_unit for actor in camera.actors}
    assert durations == {
        "sensor": 40, "copy": 0, "filter/smooth": 2, "compare": 15, "alarm": Fraction(5, 2),
    }  # fmt: skip
    assert {channel.token_size for channel in camera.channels} == {1, 4}
    # One at a time, the sensor needs 40 for a frame, smooth 12 * 2, the alarm 6 * 2.5.
    assert throughput(without_auto_concurrency(camera)).period == 40


def test_types_of_processors_are_kept_and_the_first_is_the_default(camera):
    types = camera.actor("filter/smooth").processors
    assert [(one.name, one.durations, one.is_default) for one in types] == [
        ("big", (4,), True),
        ("little", (16,), False),
    ]


def test_the_graph_within_an_actor_is_flattened(camera):
    before, after = camera.channel("copy.to_filter to filter/smooth"), camera.channels[3]
    assert (before.production, before.consumption) == ((768,), (64,))
    assert (after.producer, after.consumer) == ("filter/smooth", "compare")
    assert camera.channel("copy.to_compare to compare").initial_tokens == 768


def test_a_graph_alone_has_no_times():
    with pytest.raises(
        UnreadableFile, match=r"camera.pi:8: actor 'sensor' has no time; read a .sc"
    ):
        read_graph(PROJECT / "Algo" / "camera.pi")
    graph = read_graph(PROJECT / "Algo" / "camera.pi", assume_zero_times=True)
    assert repetition_vector(graph)["filter/smooth"] == 8  # 4 slices, twice


def test_a_project_is_found_by_its_own_name_or_from_its_folder(tmp_path):
    shutil.copytree(PROJECT, tmp_path / "other")
    scenario = tmp_path / "other" / "Scenarios" / "two_types.scenario"
    assert len(read_graph(scenario).actors) == 5
    scenario.write_text(scenario.read_text().replace("/preesm/Algo", "Algo"))
    assert len(read_graph(scenario).actors) == 5
    scenario.write_text(scenario.read_text().replace("Algo/camera.pi", "../secret.pi"))
    with pytest.raises(UnreadableFile, match="is in none of the folders around it"):
        read_graph(scenario)


def test_parameter_names_are_looked_up_in_ports_then_in_the_graph():
    graph = parsed(
        param("width", "6"), param("half", "width/2"), dependency("width", "half"),
        node("a", inner='<port kind="cfg_input" name="width"/>', ports="out o width"),
        node("b", ports="in i width"), fifo("a.o", "b.i"),
        dependency("half", "a", "width"),
    )  # fmt: skip
    assert graph.channels[0].production == (3,)
    assert graph.channels[0].consumption == (6,)


def test_delays_are_initial_tokens_in_both_forms():
    old = parsed(
        param("n", "2"), node("a", ports="out o 1"), node("b", ports="in i 1"),
        fifo("a.o", "b.i", expr="2*n"), dependency("n", "a.o-b.i"),
    )  # fmt: skip
    new = parsed(
        param("n", "2"), node("d", "delay", expr="2*n", level="permanent"),
        node("a", ports="out o 1"), node("b", ports="in i 1"),
        fifo("a.o", "b.i", '<data key="delay">d</data>'), dependency("n", "d"),
    )  # fmt: skip
    assert [graph.channels[0].initial_tokens for graph in (old, new)] == [4, 4]


def test_a_fifo_that_moves_nothing_is_no_channel():
    assert pair(out="0", into="1-1").channels == ()


def test_special_actors_take_no_time():
    content = HEAD + node("f", "fork", "in i 2,out x 1,out y 1") + node("j", "join", (
        "in x 1,in y 1,out o 2")) + fifo("f.x", "j.x") + fifo("f.y", "j.y") + fifo(
        "j.o", "f.i", expr="2") + TAIL  # fmt: skip
    graph = parse_pi(content.encode(), "g.pi")
    assert [actor.durations for actor in graph.actors] == [(0,), (0,)]
    assert repetition_vector(graph) == {"f": 1, "j": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2+3*4", 14),
        ("(2+3)*4 - -1", 21),
        ("2^3^2", 512),
        ("-2^2", -4),
        ("7/2", Fraction(7, 2)),
        ("7%4 + 2.5e1", 28),
        ("if(n > 3 && !(n == 4), 1, n/4)", 1),
        ("max(n, 2, 9) + min(n,1)", 10),
        ("floor(7/2) + ceil(7/2) + round(5/2) + abs(0-3)", 13),
        ("sqrt(9/4)", Fraction(3, 2)),
        (
            "geo_sum(512000,0.25,7)",
            Fraction(512000 * (4**7 - 1), 3 * 4**6),
        ),  # a (1 - r^n) / (1 - r)
        ("pow_div_max(2, 72)", 3),  # 72 = 8 * 9
        ("(0-1)^1000001 + 1^99999999", 0),
    ],
)
def test_an_expression_has_an_exact_value(text, value):
    assert value_of(text, {"n": Fraction(4 if "==" not in text else 5)}) == value


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "it ends too early"),
        ("1 +", "it ends too early"),
        ("m", "there is no parameter 'm'"),
        ("1/0", "division by zero"),
        ("ln(2)", "the function 'ln' is not computed"),
        ("sqrt(2)", "sqrt of 2 is no number"),
        ("2^0.5", "a power of 1/2 is not rational"),
        ("9^9^9^9", "more than 4096 bits"),
        ("(" * 51 + "1" + ")" * 51, "more than 50 brackets"),
        ("!" * 60 + "1", "more than 50 brackets"),
        ("1 $ 2", "has no meaning"),
        ("1 2", "'2' is not expected"),
        ("if(1,2)", "if of 2 values"),
        ("1+" * 6000 + "1", "more than 10000 characters"),
    ],
)
def test_an_expression_without_a_value_is_refused(text, complaint):
    with pytest.raises(MalformedText, match=complaint):
        value_of(text, {})


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: pair(out="5/2"), "g.pi:3: port 'o' of 'a': '5/2' is 5/2, not an integer"),
        (lambda: pair(out="0"), "the source of this fifo moves no token"),
        (lambda: pair(param("p", "q"), param("q", "p")), "parameter 'p' depends on itself"),
        (lambda: pair(node("c", "cfg_in_iface")), "is set by the graph around this one"),
        (lambda: pair(node("s", "src", "out s 1"), node("k", ports="in i 1"), fifo("s.s", "k.i")),
         "'s' is an interface"),
        (lambda: pair(*setting("p")), "'c' sets the parameter 'p' while the graph runs; read a"),
        (lambda: pair(*setting("a")), "'c' sets 'a', which is no parameter of this graph"),
        (lambda: pair(node("c", "magic")), "has the kind 'magic'"),
        (lambda: pair(node("c", ports="in i 1")), "port 'i' of 'c' has no fifo"),
        (lambda: pair(fifo("a.o", "b.i")), "has two fifos"),
        (lambda: pair(node("a", ports="")), "node 'a' is already on line"),
        (lambda: pair(dependency("a", "b", "p")), "'a' is no parameter"),
        (lambda: anew(3, setter="out o 2"), "its setter 's' moves 6 tokens then; expected its 3"),
        (lambda: anew(2, getter="in i 3"), "its getter 'g' moves 6 tokens then; expected its 2"),
        (lambda: pair(node("d", "delay", expr="1"), node("s", ports="out o 1"),
                      fifo("s.o", "d.set")), "has a setter or getter, and no fifo"),
        (lambda: anew(2, fifo("s.o", "d.set"), setter="out o 2"), "delay 'd' has two setters"),
        (lambda: parsed(node("d", "delay", expr="1", level="local"),
                        node("a", ports="out o 2, in i 3"),
                        fifo("a.o", "a.i", '<data key="delay">d</data>')),
         "an iteration puts 2 tokens into this fifo, and takes 3; expected as many"),
        (lambda: parsed(node("p", "param", "in i 1", expr="1"), node("a", ports="out o 1"),
                        fifo("a.o", "p.i")), "'p' of the kind 'param' moves no tokens"),
        (lambda: parsed(node("p", "param", "out o 1", expr="1"), node("b", ports="in i 1"),
                        fifo("p.o", "b.i")), "'p' of the kind 'param' moves no tokens"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_refused_by_its_name(make, complaint):
    with pytest.raises(UnreadableFile, match=complaint) as refused:
        make()
    assert str(refused.value).startswith("g.pi:")
    assert len(str(refused.value).splitlines()) == 1


def setting(target):
    """An actor that sets a parameter p, and its edge to the target."""
    return (
        node("c", inner='<port kind="cfg_output" name="v"/>'),
        '<node id="p" kind="param"/>\n',
        f'<edge kind="dependency" source="c" sourceport="v" target="{target}"/>\n',
    )


def test_a_parameter_that_an_actor_sets_has_the_value_of_the_scenario(tmp_path):
    parts = (*setting("p"), node("a", ports="out o p"), node("b", ports="in i 2"),
             dependency("p", "a"), fifo("a.o", "b.i"))  # fmt: skip
    (tmp_path / "g.pi").write_text(HEAD + "".join(parts) + TAIL)
    (tmp_path / "one.scenario").write_text(
        '<scenario><files><algorithm url="g.pi"/></files><parameterValues>'
        '<parameter name="p" parent="g" type="DYNAMIC" value="6"/></parameterValues></scenario>'
    )
    graph = read_graph(tmp_path / "one.scenario", assume_zero_times=True)
    assert [channel.production for channel in graph.channels] == [(6,)]
    assert {actor.name for actor in graph.actors} == {"a", "b", "c"}


def anew(tokens, *parts, setter="", getter="", level="local", out="3", into="2"):
    """A fifo from a to b whose delay starts anew; setter, getter: ports of s and g, if any."""
    states = [
        *([node("s", ports=setter), fifo("s.o", "d.set")] if setter else []),
        *([node("g", ports=getter), fifo("d.get", "g.i")] if getter else []),
    ]
    return parsed(
        node("d", "delay", expr=str(tokens), level=level),
        node("a", ports=f"out o {out}"),
        node("b", ports=f"in i {into}"),
        fifo("a.o", "b.i", '<data key="delay">d</data>'),
        *states,
        *parts,
    )


def rates(graph):
    return {channel.name: (channel.production, channel.consumption) for channel in graph.channels}


def test_a_delay_with_setter_and_getter_is_a_queue_of_one_iteration():
    # a fires twice, b three times. b takes the two tokens of s and the first four of a; the last
    # two of a are left for g.
    assert rates(anew(2, setter="out o 2", getter="in i 2")) == {
        "s.o to b": ((2,), (2, 0, 0)),
        "a.o to b": ((3, 1), (0, 2, 2)),
        "a.o to g": ((0, 2), (2,)),
    }


def test_a_delay_that_starts_anew_without_actors_is_there_at_each_begin():
    # The first firing of b in each iteration waits for nobody, and nobody takes the last two tokens.
    graph = anew(2)
    assert rates(graph) == {"a.o to b": ((3, 1), (0, 2, 2))}
    assert [channel.initial_tokens for channel in graph.channels] == [0]


def test_more_tokens_than_an_iteration_moves_pass_on_to_the_getter():
    assert rates(anew(8, setter="out o 4", getter="in i 8")) == {
        "s.o to b": ((4, 2), (2, 2, 2)),
        "s.o to g": ((0, 2), (2,)),
        "a.o to g": ((3, 3), (6,)),
    }


@pytest.mark.parametrize("seed", range(20))
def test_firings_take_the_tokens_that_a_queue_of_one_iteration_gives_them(seed):
    dice = random.Random(seed)
    out, into, tokens = dice.randint(1, 6), dice.randint(1, 6), dice.randint(1, 9)
    graph = anew(tokens, out=out, into=into, setter=f"out o {tokens}", getter=f"in i {tokens}")
    firings = lcm(out, into) // out, lcm(out, into) // into
    queue = deque([("s", 0)] * tokens + [("a", k) for k in range(firings[0]) for _ in range(out)])
    expected = [("b", k, queue.popleft()) for k in range(firings[1]) for _ in range(into)] + [
        ("g", 0, queue.popleft()) for _ in range(tokens)
    ]
    passed = []
    for channel in graph.channels:
        made = [k for k, rate in enumerate(channel.production) for _ in range(rate)]
        taken = [k for k, rate in enumerate(channel.consumption) for _ in range(rate)]
        passed += [
            (channel.consumer, k, (channel.producer, of)) for k, of in zip(taken, made, strict=True)
        ]
    assert sorted(passed) == sorted(expected)


def many_anew(count):
    return parsed(
        *(
            part.replace("#", str(number))
            for number in range(count)
            for part in (
                node("a#", ports="out o 1"),
                node("b#", ports="in i 1"),
                node("d#", "delay", expr="1", level="local"),
                fifo("a#.o", "b#.i", '<data key="delay">d#</data>'),
            )
        )
    )


def test_rates_are_computed_in_proportion_to_the_delays_that_start_anew(monkeypatch):
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return value_of(*arguments)

    monkeypatch.setattr(flattening, "value_of", counted)
    many_anew(10)
    few = len(calls)
    many_anew(40)
    assert len(calls) - few == 4 * few


def test_delays_that_start_anew_with_many_firings_together_are_refused(monkeypatch):
    monkeypatch.setattr(flattening, "MOST_MOVES", 10)
    many_anew(5)
    with pytest.raises(UnreadableFile, match="start anew fire more than 10 times in all"):
        many_anew(6)


def test_a_delay_within_an_actor_starts_anew_with_each_of_its_firings(tmp_path):
    inner = (
        node("i", "src", "out i 4"), node("b", ports="in i 2, in l 1, out m 1"), fifo("i.i", "b.i"),
        node("d", "delay", expr="1", level="local"),
        fifo("b.m", "b.l", '<data key="delay">d</data>'),
    )  # fmt: skip
    graph = within(tmp_path, inner)
    # Of the two firings of b in one of h the first begins with the token of the delay.
    assert rates(graph)["h/b.m to h/b"] == ((1, 0), (0, 1))
    assert {actor.name: actor.phases for actor in graph.actors} == {"a": 1, "h/b": 2}


def within(tmp_path, inner, port="in i 4"):
    """A graph whose actor h stands for the inner one."""
    folder = tmp_path / "Algo"
    folder.mkdir(exist_ok=True)
    (folder / "inner.pi").write_text(HEAD + "".join(inner) + TAIL)
    described = '<data key="graph_desc">Algo/inner.pi</data>'
    outer = [node("a", ports="out o 4"), node("h", ports=port, inner=described), fifo("a.o", "h.i")]
    (tmp_path / "outer.pi").write_text(HEAD + "".join(outer) + TAIL)
    return read_graph(tmp_path / "outer.pi", assume_zero_times=True)


def sink(rate="2"):
    return node("b", ports=f"in i {rate}")


def test_tokens_wait_on_both_sides_of_an_interface(tmp_path):
    inner = (node("i", "src", "out i 4"), sink(), fifo("i.i", "b.i", expr="5"))
    graph = within(tmp_path, inner)
    assert [actor.name for actor in graph.actors] == ["a", "h/b"]
    channel = graph.channels[0]
    assert (channel.production, channel.consumption, channel.initial_tokens) == ((4,), (2,), 5)


@pytest.mark.parametrize(
    ("inner", "complaint"),
    [
        # b takes 3 tokens and 4 come in: one firing of h is no whole number of firings of b.
        ((node("i", "src", "out i 4"), sink("3"), fifo("i.i", "b.i")), "is no whole iteration"),
        ((node("i", "src", "out i 6"), sink(), fifo("i.i", "b.i")), "the interface of its graph 6"),
        ((node("j", "src", "out i 4"), sink(), fifo("j.i", "b.i")), "only one of the actor, or only"),
        ((node("i", "src", "out i 4"), sink(), fifo("i.i", "b.i"), node("c", ports="out o 1"),
          node("d", ports="in i 1"), fifo("c.o", "d.i")), "is connected with no interface"),
        ((node("i", "src", "out i 4"), node("h", inner=(
            '<data key="graph_desc">Algo/inner.pi</data>'), ports="in i 4"), fifo("i.i", "h.i")),
         "more than 20 graphs within one another"),
    ],
)  # fmt: skip
def test_graphs_that_are_not_simply_flattened_are_refused(tmp_path, inner, complaint):
    with pytest.raises(UnreadableFile, match=complaint) as refused:
        within(tmp_path, inner)
    assert len(str(refused.value).splitlines()) == 1


def test_a_graph_that_is_not_there_is_named(tmp_path):
    described = '<data key="graph_desc">Algo/none.pi</data>'
    with pytest.raises(
        UnreadableFile, match=r"'h' stands for the graph 'Algo/none.pi', which is in none"
    ):
        pair(node("h", inner=described))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('time="40"', 'time="0-1"', r"10: time of 'sensor': '0-1' is -1, which is negative"),
        ('time="40"', 'time="size"', r"10: time of 'sensor': .*there is no parameter 'size'"),
        ('value="6"', 'value="x"', r"parameter 'slices': .*there is no parameter 'x'"),
        ('size="8"', 'size="x"', r"size 'x' is not an integer"),
        ('vertexname="camera/sensor"', "", r"<timing> has no attribute 'vertexname'"),
        ("<algorithm url", "<algorithm uri", r"names no <algorithm url='...'>"),
        ("scenario>", "story>", r"the root is <story>; a PREESM scenario is <scenario>"),
    ],
)
def test_a_faulty_scenario_is_refused_with_its_line(tmp_path, old, new, complaint):
    shutil.copytree(PROJECT, tmp_path / "preesm")
    path = tmp_path / "preesm" / "Scenarios" / "two_types.scenario"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UnreadableFile, match=complaint) as refused:
        read_graph(path)
    assert str(refused.value).startswith(str(path))


def test_the_format_is_named_where_the_suffix_is_another(tmp_path):
    for name, content in (("g.xml", HEAD + TAIL), ("g.txt", HEAD + TAIL)):
        (tmp_path / name).write_text(content)
        with pytest.raises(UnreadableFile, match=r"GraphML; a PREESM graph \(PiSDF\) is read from"):
            read_graph(tmp_path / name)
    (tmp_path / "g.pi").write_text("<sdf3/>")
    with pytest.raises(
        UnreadableFile, match=r"<sdf3> with 0 <graph>; a PREESM graph \(PiSDF, .pi\)"
    ):
        read_graph(tmp_path / "g.pi")
