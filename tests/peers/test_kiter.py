"""Kiter reads what we write, and answers alike."""

import re
from fractions import Fraction

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.throughput import throughput
from tests.peers.programs import dominant, found, is_printed_as, kiter, needs_kiter
from tests.peers.subjects import asked
from tests.peers.test_sdf3 import FRONTS, bounded_points, consistent

pytestmark = needs_kiter

TASK = re.compile(r"^ +(\S+) \( +\d+\) +\d+ +\d+ +\S+ +(\d+) +\d+ +-?\d+ *$", re.MULTILINE)
POINT = re.compile(r"^(\d+);([\d.e+-]+);", re.MULTILINE)


@asked("kiter", "repetitions")
def test_the_repetition_vector_is_the_same(name, tmp_path):
    graph, repetitions = consistent(name)
    said = kiter(graph, tmp_path, "PrintInfos")
    assert {actor: int(count) for actor, count in TASK.findall(said)} == repetitions


@asked("kiter", "throughput")
def test_the_throughput_is_the_same(name, tmp_path):
    graph, _ = consistent(name)
    speed = throughput(graph).throughput
    said = found(r"Throughput is\s+(\S+)", kiter(graph, tmp_path, "KPeriodicThroughput"))
    assert (said == "inf") if speed is None else is_printed_as(said, speed)


@asked("kiter", "front", lambda name: name.startswith(FRONTS))
def test_the_front_is_the_same(name, tmp_path):
    graph, _ = consistent(name)
    points = bounded_points(graph)
    said = kiter(graph, tmp_path, "ThroughputBufferingDSE")
    theirs = dominant([(int(size), Fraction(speed)) for size, speed in POINT.findall(said)])
    assert [size for size, _ in theirs] == [point.size for point in points]
    for (_, speed), point in zip(theirs, points, strict=True):
        assert is_printed_as(str(speed), point.throughput)


@asked("kiter", "points", lambda name: name.startswith(FRONTS))
def test_every_point_of_our_front_has_its_throughput(name, tmp_path):
    # Also where its own search misses the point: it agrees that these capacities are enough.
    graph, _ = consistent(name)
    for point in bounded_points(graph):
        bounded = with_capacities(graph, point.capacities)
        said = found(r"Throughput is\s+(\S+)", kiter(bounded, tmp_path, "KPeriodicThroughput"))
        assert is_printed_as(said, point.throughput)
