"""Graphs with parameters: instances, symbolic consistency, and formulas of what is computed."""

import json
import random
from fractions import Fraction
from importlib import import_module
from math import gcd
from pathlib import Path

import pytest

from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError, InconsistentGraph, UnreadableFile
from csdf.io.graph_files import read_graph
from csdf.parameters.builder import ParametricBuilder
from csdf.parameters.formula import piecewise
from csdf.parameters.graph import read_parametric_graph
from csdf.parameters.sweep import sweep

FRAMES = Path(__file__).parents[2] / "models" / "parametric" / "frames.xml"


def numbers(first, last):
    return [Fraction(one) for one in range(first, last + 1)]


def symbolic_repetitions(graph):
    """The vector as expressions; the test skips in an environment that lacks SymPy."""
    pytest.importorskip("sympy", reason="SymPy is missing: pip install .")
    return import_module("csdf.parameters.consistency").symbolic_repetitions(graph)


@pytest.fixture
def analyze(run):
    """Run `csdf analyze` on a graph with parameters; return its exit code, output and remarks."""
    pytest.importorskip("sympy", reason="SymPy is missing: pip install .")
    return lambda *words: run("analyze", *words)


def written(tmp_path, graph_text, name="g.xml"):
    path = tmp_path / name
    path.write_text(graph_text)
    return path


def test_an_instance_is_the_graph_of_the_file_with_numbers_in_it(tmp_path):
    by_hand = FRAMES.read_text().replace('"n"', '"4"').replace('"2*n + 5"', '"13"')
    graph = read_parametric_graph(FRAMES).at(n=4)
    assert graph == read_graph(written(tmp_path, by_hand))


def test_a_star_before_a_name_multiplies_and_before_a_number_repeats(tmp_path):
    text = (
        FRAMES.read_text()
        .replace('rate="1,0"', 'rate="2*1,0*n,n-n"')
        .replace('"3,1"', '"3,1,1,2*n"')
    )
    graph = read_parametric_graph(written(tmp_path, text)).at(n=3)
    assert graph.channel("kept").production == (1, 1, 0, 0)
    assert graph.actor("filter").durations == (3, 1, 1, 6)


def test_names_and_comments_may_look_like_the_gaps_of_a_template(tmp_path):
    text = FRAMES.read_text().replace('"filter"', '"filter@0@"')
    text = text.replace("<applicationGraph", "<!-- @7@ and @@1@@ --><applicationGraph", 1)
    graph = read_parametric_graph(written(tmp_path, text)).at(n=4)
    assert graph.actor("filter@0@").durations == read_parametric_graph(FRAMES).at(n=4).actor(
        "filter"
    ).durations  # fmt: skip


def test_json_and_the_builder_take_expressions_as_texts(tmp_path):
    built = (
        ParametricBuilder("g")
        .actor("a", "n/2", overlap=False)
        .actor("b", [1, "n"])
        .channel("a", "n", "b", ["n - 1", 1], initial_tokens="2*n", name="c")
        .graph()
    )
    document = {
        "format": "csdf-graph", "version": 1, "name": "g", "time_unit": "1/2", "origin": None,
        "throughput_constraint": None,
        "actors": [
            {"name": "a", "durations": ["n"], "processors": []},
            {"name": "b", "durations": [2, "2*n"], "processors": []},
        ],
        "channels": [
            {"name": "a self-loop", "producer": "a", "consumer": "a", "production": [1],
             "consumption": [1], "initial_tokens": 1, "capacity": None, "release": None,
             "token_size": None},
            {"name": "c", "producer": "a", "consumer": "b", "production": ["n"],
             "consumption": ["n - 1", 1], "initial_tokens": "2*n", "capacity": None, "release": None,
             "token_size": None},
        ],
    }  # fmt: skip
    read = read_parametric_graph(written(tmp_path, json.dumps(document), "g.json"))
    assert read.parameters == built.parameters == ("n",)
    assert read.at(n=3) == built.at(n=3)
    assert built.at(n=3).time_unit == Fraction(1, 2)


@pytest.mark.parametrize(
    ("old", "new", "line", "complaint"),
    [
        ('"n"', '"n -"', 7, "expression 'n -': it ends too early"),
        ('"n"', '"n/2"', 7, "'3/2' is not an integer"),
        ('"n"', '"1-n"', 7, "'-2' is negative"),
        ('"2*n + 5"', '"1/(n-3)"', 30, "divides by zero"),
    ],
)
def test_a_refusal_names_the_line_of_the_expression(tmp_path, old, new, line, complaint):
    path = written(tmp_path, FRAMES.read_text().replace(old, new))
    with pytest.raises(UnreadableFile, match=f"g.xml:{line}: ") as refused:
        read_parametric_graph(path).at(n=3)
    assert complaint in str(refused.value)


def test_every_parameter_needs_a_value_and_no_other_has_one():
    graph = read_parametric_graph(FRAMES)
    for values in ({}, {"n": 1, "m": 2}, {"n": 1.5}):
        with pytest.raises(CsdfError, match="parameter"):
            graph.at(values)


def test_the_repetition_vector_is_an_expression_and_closing_channels_are_conditions():
    graph = (
        ParametricBuilder().actor("a", 1).actor("b", 1)
        .channel("a", "n", "b", "m").channel("b", 3, "a", 2, name="back")
        .channel("b", "2*n*m", "a", "2*n*n", name="same").graph()
    )  # fmt: skip
    found = symbolic_repetitions(graph)
    # a n = b m, so a : b = m : n; back asks 3 n = 2 m; same asks n 2nm = m 2nn, which always holds.
    assert found.repetition_vector == {"a": "m", "b": "n"}
    assert found.divisors == ["gcd(m, n)"]
    assert [(one.channel, one.text) for one in found.conditions] == [("back", "2*m = 3*n")]
    assert found.at({"n": Fraction(4), "m": Fraction(6)}) == {"a": 3, "b": 2}
    assert found.at({"n": Fraction(4), "m": Fraction(5)}) is None


def test_conditions_that_contradict_each_other_are_said_to_hold_never():
    builder = ParametricBuilder().actor("a", 1).actor("b", 1).channel("a", "n", "b", 1)
    builder.channel("a", "n + 1", "b", 1)
    assert symbolic_repetitions(builder.graph()).is_never
    others = ParametricBuilder().actor("a", 1).actor("b", 1).channel("a", 1, "b", 1)
    others.channel("a", "n", "b", 2).channel("a", "n", "b", 3)
    assert symbolic_repetitions(others.graph()).is_never


def test_a_formula_of_remainders_is_found_and_one_of_noise_is_not():
    # p + c - gcd(p, c) for p = n, c = 6.
    sizes = [Fraction(n + 6 - gcd(n, 6)) for n in range(1, 61)]
    formula = piecewise("n", range(1, 61), sizes)
    assert [formula.value(n) for n in range(1, 61)] == sizes
    assert {one.step for one in formula.pieces} == {6}
    noise = random.Random(1)
    assert piecewise("n", range(60), [Fraction(noise.randrange(99)) for _ in range(60)]) is None


@pytest.mark.parametrize(
    ("of", "pieces"),
    [
        (lambda n: Fraction(max(3 * n, n + 20)), ["n + 20", "3*n"]),
        (lambda n: Fraction(n * n + 1, 2), ["(n**2 + 1)/2"]),
        (lambda n: Fraction(7, n), ["7/n"]),
        (lambda n: Fraction(5 * n, n + 2), ["5*n/(n + 2)"]),
    ],
)
def test_a_formula_is_the_one_that_made_the_numbers(of, pieces):
    values = [of(n) for n in range(1, 41)]
    formula = piecewise("n", range(1, 41), values)
    assert [one.text for one in formula.pieces] == pieces
    assert [formula.value(n) for n in range(1, 41)] == values


def test_the_period_of_frames_is_a_formula_over_the_divisor():
    graph = read_parametric_graph(FRAMES)
    found = sweep(graph, {"n": numbers(1, 24)}, repetitions=symbolic_repetitions(graph))
    # The sink takes 6 of what the filter keeps of 12 samples: 12 / gcd(12, n) frames of n, each of
    # which keeps the source busy for 2 n + 5.
    assert found.formulas["period"].text == "24*n + 60 for 1 <= n <= 24, divided by gcd(12, n)"
    # p + c - gcd(p, c) with c = 1 for the samples, and with p = 1, c = 6 behind the filter.
    assert found.formulas["storage"].text == "n + 6 for 1 <= n <= 24"
    assert found.is_complete


def test_a_parameter_of_durations_alone_is_solved_for_all_values():
    graph = (
        ParametricBuilder().actor("a", "2*n + 1", overlap=False).actor("b", 9, overlap=False)
        .channel("a", 1, "b", 1).channel("b", 1, "a", 1, initial_tokens=1).graph()
    )  # fmt: skip
    found = sweep(graph, {"n": numbers(0, 9)}, with_storage=False)
    # One token in the circle: a and b take turns, 2 n + 1 + 9 for ever.
    (segment,) = found.segments
    assert (segment.slope, segment.period(0), segment.end) == (2, 10, None)
    assert [one.period for one in found.instances] == [2 * n + 10 for n in range(10)]


def test_deadlock_inconsistency_and_invalid_values_are_answers_of_their_own():
    graph = (
        ParametricBuilder().actor("a", 1, overlap=False).actor("b", 1, overlap=False)
        .channel("a", "n", "b", 2).channel("b", 2, "a", 2, initial_tokens="n - 1").graph()
    )  # fmt: skip
    found = sweep(graph, {"n": numbers(0, 3)})
    answers = [one.answer for one in found.instances]
    # n = 0: no token can pass; 1 and 3: 1 or 3 for 2 and 2 for 2; 2: one token where a needs two.
    assert answers == ["invalid", "inconsistent", "deadlock", "inconsistent"]


def test_names_with_underscores_are_formulas_of_latex():
    formula = piecewise("rows_in_a", range(1, 12), [Fraction(3 * n) for n in range(1, 12)])
    name = "rows_{in a}"
    assert formula.latex.splitlines()[1] == rf"3 {name} & \text{{for }} 1 \le {name} \le 11"


def test_a_formula_is_an_expression_of_sympy():
    pytest.importorskip("sympy", reason="SymPy is missing: pip install .")
    formula = piecewise("n", range(1, 21), [Fraction(max(3 * n, n + 8)) for n in range(1, 21)])
    symbolic = formula.to_sympy()
    (n,) = symbolic.free_symbols
    assert [symbolic.subs(n, one) for one in (1, 4, 20)] == [9, 12, 60]


RATES = ("n", "n + 1", "2*n", "3", "max(n, 3)", "ceil(n/2)", "4", "n*(n + 1)//2")


def random_parametric(seed):
    """Two to four actors in a tree, most channels with one back, and sometimes a chord."""
    drawn = random.Random(seed)
    builder = ParametricBuilder(f"random {seed}")
    phases = [drawn.choice((1, 1, 2)) for _ in range(drawn.randint(2, 4))]
    for actor, count in enumerate(phases):
        times = [drawn.choice(("n", "3", "2*n + 1", "5", "max(n, 6)")) for _ in range(count)]
        builder.actor(f"a{actor}", times, overlap=drawn.random() < 0.1)

    def rates(actor):
        return [drawn.choice(RATES) for _ in range(phases[actor])]

    for actor in range(1, len(phases)):
        other = drawn.randrange(actor)
        made, taken = rates(other), rates(actor)
        builder.channel(f"a{other}", made, f"a{actor}", taken)
        if drawn.random() < 0.8:
            tokens = drawn.choice(("9*n + 12", "n*n + 20", "40"))
            builder.channel(f"a{actor}", taken, f"a{other}", made, initial_tokens=tokens)
    if drawn.random() < 0.2:
        builder.channel("a0", rates(0), f"a{len(phases) - 1}", rates(-1))
    return builder.graph()


@pytest.mark.parametrize("seed", range(6))
def test_formulas_and_evaluation_agree_on_random_graphs(seed):
    graph = random_parametric(seed)
    if not graph.parameters:
        return
    symbolic = symbolic_repetitions(graph)
    found = sweep(graph, {"n": numbers(1, 12)}, with_storage=False, repetitions=symbolic)
    for one in found.instances:
        instance = graph.at(one.values)
        try:
            repetitions = repetition_vector(instance)
        except InconsistentGraph:
            repetitions = None
        assert symbolic.at(one.values) == repetitions
        if repetitions is None or sum(repetitions.values()) > 2000:
            continue
        assert throughput(instance, method="execution").period == one.period
        if one.period is not None and "period" in found.formulas:
            assert found.formulas["period"].value(int(one.values["n"])) == one.period


def test_the_command_prints_formulas_and_where_there_is_no_period(analyze, tmp_path):
    code, output, _ = analyze(FRAMES, "--symbolic", "--set", "n=1..8")
    assert code == 0
    assert "divided by      gcd(12, n)" in output
    assert (
        "period * gcd(12, n), a formula that holds at each of these values:\n  24*n + 60" in output
    )
    text = FRAMES.read_text().replace(
        'dstPort="last" initialTokens="1"', 'dstPort="last" initialTokens="max(n - 3, 0)"', 1
    )
    path = written(tmp_path, text)
    code, output, _ = analyze(path, "--set", "n=1..6")
    assert (code, "deadlock at n = 1..3\n" in output) == (0, True)
    assert analyze(path, "--set", "n=1,2")[0] == 1
    assert analyze(path, "--set", "n=0..1")[0] == 1  # a rate of zero is invalid, then a deadlock


def test_values_are_written_as_csv_json_latex_and_pictures(analyze, tmp_path):
    table, picture = tmp_path / "t.tex", tmp_path / "p.svg"
    words = (FRAMES, "--symbolic", "--set", "n=1..4", "--table", table, "--plot", picture)
    code, output, _ = analyze(*words, "--json")
    assert (code, json.loads(output)["symbolic"]["divisors"]) == (0, ["gcd(12, n)"])
    assert r"$4$ & $39$ & 10 \\" in table.read_text().splitlines()
    assert picture.read_text().startswith("<?xml")
    assert analyze(FRAMES, "--set", "n=1..2", "--csv")[1].splitlines() == [
        "n,answer,firings,period,storage,reason", "1,period,25,84,7,", "2,period,19,54,8,",
    ]  # fmt: skip


def test_a_picture_of_no_curve_is_refused_before_the_work(run, tmp_path):
    picture = tmp_path / "p.svg"
    for values in ([], ["--set", "n=3"], ["--set", "n=1..3", "--set", "m=1..3"]):
        code, output, remarks = run("analyze", FRAMES, "--symbolic", *values, "--plot", picture)
        assert (code, output, picture.exists()) == (2, "", False)
        assert "several values of one parameter" in remarks


@pytest.mark.parametrize(
    "values", ["n", "n=", "n=4..1", "n=1..2..0", "n=1..99999999", "1=2", "n=x"]
)
def test_values_that_are_none_are_refused_with_their_form(run, values):
    code, _, remarks = run("analyze", FRAMES, "--set", values)
    assert code == 2
    assert "argument --set" in remarks


def test_other_commands_take_one_value(run, tmp_path):
    out = tmp_path / "four.json"
    assert run("convert", FRAMES, out, "--set", "n=4")[0] == 0
    assert read_graph(out) == read_parametric_graph(FRAMES).at(n=4)
    code, _, remarks = run("pareto", FRAMES, "--set", "n=1..4")
    assert (code, "has 4 values; expected one" in remarks) == (2, True)
    code, _, remarks = run("buffers", FRAMES)
    assert (code, "give values, such as --set n=4" in remarks) == (2, True)


def test_values_are_found_where_all_of_three_parameters_are_at_least_2():
    builder = ParametricBuilder().actor("a", 1).actor("b", 1)
    for name in ("k", "m", "n"):
        builder.channel("a", f"{name} - 1", "b", f"{name} - 1", name=f"rate of {name}")
    values, _ = builder.graph().sample()
    assert values == {"k": 2, "m": 2, "n": 2}


@pytest.mark.parametrize("rate", ["(0 - n)**(1/2)", "(0 - 4)**(1/2)*n", "n**(0 - 1)"])
def test_an_exponent_that_no_instance_may_have_is_refused(rate):
    builder = ParametricBuilder("g").actor("a", 1).actor("b", 1).channel("a", rate, "b", "n")
    with pytest.raises(CsdfError, match=r"exponent (1/2|-1); expected an integer from 0 to 1000"):
        symbolic_repetitions(builder.graph())
