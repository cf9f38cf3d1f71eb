"""Durations of phases: from a platform, and from tables."""

from fractions import Fraction

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.samos import samos_example
from cnn2csdf.durations import format_durations, parse_durations, platform_durations
from cnn2csdf.granularity import ROWS, WHOLE
from cnn2csdf.platforms import PLATFORMS, Platform
from csdf.errors import InvalidNetwork, UnreadableFile

SLOW = Platform(
    operations_per_second=Fraction(10**9), bytes_per_second=Fraction(10**9), launch=Fraction(0)
)


def pointwise():
    builder = NetworkBuilder("pointwise")
    image = builder.input((2, 3, 4))
    operator = op.Convolution(filters=5, window=op.Window(kernel=(1, 1)), has_bias=False)
    builder.output(builder.add(operator, image, name="conv"))
    return builder.network()


def test_a_phase_takes_the_longer_of_work_and_traffic():
    # A row of the convolution: 4 * 5 * 2 = 40 multiply-accumulates are 80 operations: 80 ns.
    # Traffic of one byte an element: 8 in, 20 out, 10 weights: 38 ns; of four bytes: 152 ns.
    assert platform_durations(pointwise(), ROWS, SLOW, element_bytes=1)["conv"] == (80, 80, 80)
    assert platform_durations(pointwise(), ROWS, SLOW, element_bytes=4)["conv"] == (152, 152, 152)


def test_a_whole_layer_reads_its_parameters_once():
    # 24 + 60 + 10 elements of four bytes
    assert platform_durations(pointwise(), WHOLE, SLOW)["conv"] == (376,)


def test_every_phase_is_started():
    slow_start = Platform(
        operations_per_second=Fraction(10**9),
        bytes_per_second=Fraction(10**9),
        launch=Fraction(1, 10**6),
    )
    assert platform_durations(pointwise(), WHOLE, slow_start)["conv"] == (1376,)


def test_a_phase_takes_time_even_if_it_does_nothing():
    fast = Platform(
        operations_per_second=Fraction(10**30),
        bytes_per_second=Fraction(10**30),
        launch=Fraction(0),
    )
    assert platform_durations(pointwise(), WHOLE, fast)["input"] == (1,)


def test_a_platform_without_speed_is_refused():
    with pytest.raises(InvalidNetwork, match="0 operations"):
        Platform(
            operations_per_second=Fraction(0), bytes_per_second=Fraction(1), launch=Fraction(0)
        )


def test_a_table_reads_back():
    durations = platform_durations(samos_example(), ROWS, PLATFORMS["cortex-m7"])
    assert parse_durations(format_durations(durations), "t.csv") == durations


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"t.csv, line 1: expected layer,phase,nanoseconds, found ''"),
        ("layer,phase\n", "line 1: expected layer,phase,nanoseconds"),
        ("layer,phase,nanoseconds\na,0\n", "line 2: expected 3 values, found 2"),
        ("layer,phase,nanoseconds\na,1,5\n", "line 2: layer 'a' goes on with phase 0, found '1'"),
        ("layer,phase,nanoseconds\na,0,-5\n", "line 2: '-5' is not a whole number"),
        ("layer,phase,nanoseconds\na,0,1.5\n", "line 2: '1.5' is not a whole number"),
        ('layer,phase,nanoseconds\na,0,"1\n', "line 2: '1\\\\n' is not a whole number"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(text, message):
    with pytest.raises(UnreadableFile, match=message):
        parse_durations(text, "t.csv")
