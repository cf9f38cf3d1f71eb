"""SDF3 reads what we write, and answers alike."""

import re
from fractions import Fraction
from math import gcd, lcm

import pytest

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.throughput import throughput
from csdf.errors import InconsistentGraph
from csdf.search.trade_off import pareto_front
from tests.peers.programs import NoAnswer, dominant, found, is_printed_as, needs_sdf3, sdf3
from tests.peers.subjects import asked, graph_of

pytestmark = needs_sdf3

UNBOUNDED = "2.14748e+09"  # the largest integer of 32 bits stands for it
QUICK = 3  # seconds; a front that takes longer is no question for SDF3
POINT = re.compile(r"thr='([\d.e+-]+)' sz='(\d+)'>\s*<distribution>(.*?)</distribution>", re.DOTALL)
STORED = re.compile(r"<ch name='([^']*)' sz='(\d+)'")
FRONTS = ("traps/", "small ", "models/csdf_example", "models/samplerate", "models/modem")


def factor(graph, repetitions):
    """By how much SDF3 exceeds the smallest repetition vector of a CSDF graph.

    It scales by the least common multiple of the lengths of all rate lists; what the firings have
    in common with it is not divided out.
    """
    phases = (actor.phases for actor in graph.actors)
    return Fraction(lcm(*phases), gcd(*repetitions.values()))


def usable(name):
    graph = graph_of(name)
    if graph is None:
        pytest.skip("unreadable, too large for the peers, or with times that are no integers")
    return graph


def consistent(name):
    graph = usable(name)
    try:
        return graph, repetition_vector(graph)
    except InconsistentGraph:
        pytest.skip("inconsistent; asked in another test")


def bounded_points(graph):
    """The points of our front; skips the test where nothing limits the graph, or it deadlocks."""
    front = pareto_front(graph)
    if not front.points or front.points[0].throughput is None:
        pytest.skip("deadlocked, or nothing limits it")
    return front.points


@asked("sdf3", "consistency")
def test_both_say_whether_a_graph_is_consistent(name, tmp_path):
    graph = usable(name)
    try:
        repetition_vector(graph)
        is_consistent = True
    except InconsistentGraph:
        is_consistent = False
    said = sdf3(graph, tmp_path, "consistency")
    assert ("not consistent" not in said) == is_consistent


@asked("sdf3", "repetitions")
def test_the_repetition_vector_is_the_same_but_for_the_factor(name, tmp_path):
    graph, repetitions = consistent(name)
    said = sdf3(graph, tmp_path, "repetition_vector")
    theirs = {actor: int(count) for actor, count in re.findall(r"\[(.*)\] = (-?\d+)", said)}
    scale = factor(graph, repetitions) if graph.kind == "csdf" else 1
    assert theirs == {actor: scale * count for actor, count in repetitions.items()}


@asked("sdf3", "throughput")
def test_the_throughput_is_the_same_but_for_the_factor(name, tmp_path):
    graph, repetitions = consistent(name)
    speed = throughput(graph).throughput
    said = found(r"thr\(.*\) = (\S+)", sdf3(graph, tmp_path, "throughput"))
    scale = factor(graph, repetitions) if graph.kind == "csdf" else 1
    assert said == UNBOUNDED if speed is None else is_printed_as(said, speed / scale)


@asked("sdf3", "front", lambda name: name.startswith(FRONTS))
def test_the_front_is_the_same(name, tmp_path):
    graph, repetitions = consistent(name)
    points = bounded_points(graph)
    loops = {channel.name for channel in graph.channels if channel.is_self_loop}
    theirs = [
        (sum(int(size) for channel, size in STORED.findall(stored) if channel not in loops), speed)
        for speed, _, stored in POINT.findall(sdf3(graph, tmp_path, "buffersize", seconds=QUICK))
    ]
    scale = factor(graph, repetitions) if graph.kind == "csdf" else 1
    theirs = dominant([(size, Fraction(speed) * scale) for size, speed in theirs])
    assert [size for size, _ in theirs] == [point.size for point in points]
    for (_, speed), point in zip(theirs, points, strict=True):
        assert is_printed_as(str(speed), point.throughput)


@asked("sdf3", "points", lambda name: name.startswith(FRONTS))
def test_every_point_of_our_front_has_its_throughput(name, tmp_path):
    # Also where its own search misses the point: it agrees that these capacities are enough.
    graph, repetitions = consistent(name)
    scale = factor(graph, repetitions) if graph.kind == "csdf" else 1
    for point in bounded_points(graph):
        bounded = with_capacities(graph, point.capacities)
        said = found(r"thr\(.*\) = (\S+)", sdf3(bounded, tmp_path, "throughput"))
        assert is_printed_as(said, point.throughput / scale)


def test_a_program_that_does_not_answer_is_told_from_one_that_does():
    with pytest.raises(NoAnswer):
        found("thr", "Segmentation fault")
