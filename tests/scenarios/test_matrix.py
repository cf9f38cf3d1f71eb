"""Max-plus matrices: eigenvalues are periods, eigenvectors recur, products are executions."""

import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm

import pytest

import csdf
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph
from csdf.model.builder import GraphBuilder
from tests.cli.running import GRAPHS


def turns():
    """a and b take turns, 3 + 5, with two tokens."""
    builder = GraphBuilder().actor("a", 3, overlap=False).actor("b", 5, overlap=False)
    builder.channel("a", 1, "b", 1, name="ab")
    return builder.channel("b", 1, "a", 1, initial_tokens=2, name="ba").graph()


def test_the_matrix_of_two_actors_is_the_one_by_hand():
    found = csdf.matrix(turns())
    assert set(found.tokens) == {"ba[0]", "ba[1]", "a self-loop[0]", "b self-loop[0]"}
    # The second token of ba becomes the first; the first becomes the second, after a and b.
    assert found.rows["ba[0]"] == {"ba[1]": 0}
    assert found.rows["ba[1]"]["ba[0]"] == 8
    assert found.eigenvalue == 5  # b alone: 8 / 2 is less


@pytest.mark.parametrize("seed", range(40))
def test_the_eigenvalue_is_the_period_and_the_eigenvector_is_one(seed):
    shape = GraphShape(actors=5, max_phases=2, max_extra_initial_tokens=2, is_bounded=seed % 4 == 0)
    graph = random_graph(seed, shape)
    found = csdf.matrix(graph)
    assert found.eigenvalue == csdf.throughput(graph).period
    later = found.times(found.eigenvector)
    assert later == {token: time + found.eigenvalue for token, time in found.eigenvector.items()}
    cycle = [*found.critical, found.critical[0]]
    times = [found.rows[new][old] for old, new in pairwise(cycle)]
    assert sum(times) == found.eigenvalue * len(found.critical)


def test_times_are_those_of_the_user():
    graph = read_graph(GRAPHS / "csdf_example.xml")
    halves = csdf.Graph(
        name="halves", actors=graph.actors, channels=graph.channels, time_unit=Fraction(1, 2)
    )
    assert csdf.matrix(halves).eigenvalue == csdf.throughput(halves).period == 6


def test_a_deadlock_has_no_matrix_and_without_a_limit_the_eigenvalue_is_0():
    with pytest.raises(csdf.Deadlocked):
        csdf.matrix(read_graph(GRAPHS / "deadlocked.xml"))
    one_way = GraphBuilder().actor("a", 1).actor("b", 1)
    found = csdf.matrix(one_way.channel("a", 1, "b", 1, initial_tokens=1).graph())
    # a and b may overlap their own firings, and nothing limits them; b ends 1 after a.
    assert (found.eigenvalue, found.critical) == (0, ("a (order)",))
    assert found.eigenvector == {"a (order)": 0, "b (order)": 1, "a to b[0]": 1}
    with pytest.raises(csdf.CsdfError, match="no token of the matrix"):
        found.times({"c": Fraction(1)})


def test_all_public_names_are_there_without_matplotlib():
    missing = "import sys; sys.modules['matplotlib'] = None"
    code = f"{missing}\nfrom csdf import *\nprint(plot_front.__name__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("plot_front\n", "")


def test_latency_takes_source_and_sink_by_position():
    graph = read_graph(GRAPHS / "csdf_example.xml")
    assert csdf.latency(graph, "a", "c") == csdf.latency(graph, source="a", sink="c")


def product(first, second):
    """Max-plus product of two matrices by rows, by the definition."""
    return {
        new: {
            old: max(row[middle] + second[middle][old] for middle in row if old in second[middle])
            for old in second
            if any(old in second[middle] for middle in row)
        }
        for new, row in first.items()
    }


def plus(rows, time):
    return {new: {old: entry + time for old, entry in row.items()} for new, row in rows.items()}


def cyclicity(rows, mean):
    """Cyclicity of the critical graph by brute force: gcd over its components of all cycle lengths.

    Token i is on a critical cycle of length k where the k-th power of the matrix has k * mean at i, i.
    """
    power, lengths = rows, {}
    for length in range(1, 2 * len(rows) + 1):
        for token in rows:
            if power[token].get(token) == length * mean:
                lengths[token] = gcd(lengths.get(token, 0), length)
        power = product(power, rows)
    return lcm(*lengths.values())


@pytest.mark.parametrize("seed", range(30))
def test_powers_of_the_matrix_become_the_spectral_projector(seed):
    shape = GraphShape(
        actors=3, max_phases=2, max_repetitions=2, max_rate=2, extra_channels=1,
        is_strongly_connected=seed % 3 > 0,
    )  # fmt: skip
    found = csdf.matrix(random_graph(seed, shape))
    projector = found.spectral_projector()
    rows = {
        new: {old: time for old, time in row.items() if old in found.rows}
        for new, row in found.rows.items()
    }
    assert product(projector, projector) == projector
    assert product(rows, projector) == product(projector, rows) == plus(projector, found.eigenvalue)
    is_irreducible = all(len(row) == len(rows) for row in projector.values())
    if is_irreducible and cyclicity(rows, found.eigenvalue) == 1:
        power, count = rows, 1
        while power != plus(projector, count * found.eigenvalue):
            power, count = product(power, rows), count + 1
            assert count < 200
    for token in rows:
        column = {new: row[token] for new, row in projector.items() if token in row}
        assert found.times(column) == {new: time + found.eigenvalue for new, time in column.items()}


def test_a_matrix_without_a_cycle_has_no_projector():
    found = csdf.MaxPlusMatrix(
        rows={"x": {}, "y": {"x": Fraction(1)}}, eigenvalue=None, eigenvector={}, critical=()
    )
    assert found.spectral_projector() == {}
