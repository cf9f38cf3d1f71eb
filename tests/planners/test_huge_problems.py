"""Plans and bounds with numbers beyond 64 bits: exact, or refused by name."""

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from csdf.errors import GaveUp, InvalidGraph, UnreadableFile
from csdf.kernels.compile import INT64_SUM_LIMIT
from planners.arena.allocation import plan_arena
from planners.arena.problem import Buffer, Problem
from planners.fifo.event_graph import EventGraph
from planners.fifo.timing.cluster import Cluster, EventSequence, TimingOptions, Wait, WordPort
from planners.kernels import ranges
from planners.memory.placement import ChainGroup, chain_offsets
from planners.primitives.selection.problem import Objective
from planners.primitives.selection.trade_off import added, front_of
from planners.traffic.convolution import ConvolutionLoops
from planners.traffic.footprints import tile_sizes
from planners.traffic.one_layer import minimum_traffic
from tests.both_kernels import needs_compiled
from tests.planners.fifo.designs import chain, cluster
from tests.sanitized import plans

UNIT = 2**60  # a few of them need more than 64 bits


@needs_compiled
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("kind", plans.KINDS)
def test_compiled_kernels_find_what_plain_ones_find_at_any_size(kind, number):
    assert not plans.differs(kind, number)


@needs_compiled
@pytest.mark.parametrize("kind", plans.KINDS)
def test_cases_reach_both_sides_of_the_range(kind, monkeypatch):
    seen = set()
    true = plans.compiler.backend
    monkeypatch.setattr(
        plans.compiler, "backend", lambda *, fits: (seen.add(fits), true(fits=fits))[1]
    )
    for number in range(40):
        plans.KINDS[kind](Random(f"{kind} {number}"))
        if seen == {True, False}:
            break
    assert seen == {True, False}


def test_an_arena_of_huge_buffers_is_as_large_as_its_bytes():
    # Alive together: all of both; one after the other: the larger.
    sizes = {"a": 2**70 + 1, "b": 2**63, "c": 2**64}
    buffers = tuple(
        Buffer(name=name, size=size, start=0 if name != "c" else 2**80, end=2**80 + (name == "c"))
        for name, size in sizes.items()
    )
    assert plan_arena(Problem(name="huge", buffers=buffers)).peak == 2**70 + 1 + 2**63


def test_blocks_within_64_bits_whose_alignment_is_not_are_placed_exactly():
    # One byte each, both from a multiple of 2^62: the second ends at 2^62 + 1.
    buffers = tuple(Buffer(name=n, size=1, start=0, end=1, alignment=2**62) for n in "ab")
    plan = plan_arena(Problem(name="aligned", buffers=buffers))
    assert plan.peak == 2**62 + 1


def layer(gap):
    """A layer that reads two words and writes each one cycle later; `gap` cycles between reads."""
    words = np.arange(2, dtype=np.int64)
    return Cluster(
        sequences=(
            EventSequence(name="read", events=2, gap=gap),
            EventSequence(name="write", events=2),
        ),
        waits=(Wait(waiter=1, source=0, events=words),),
        inputs=(WordPort(sequence=0, words=2, bits=8),),
        outputs=(WordPort(sequence=1, words=2, bits=8),),
    )


@pytest.mark.parametrize("gap", [5, 2**40, INT64_SUM_LIMIT // 6000 - 1, 2**61, 2**63, 2**70])
def test_a_frame_takes_as_long_as_its_slowest_port(gap):
    # Two reads, `gap` cycles apart, also across frames.
    part = EventGraph(chain(layer(1), layer(gap))).restricted([0, 1], [2])
    found = part.cycle_above(Fraction(gap))
    assert found is not None
    assert found.period == 2 * gap
    assert part.cycle_above(Fraction(2 * gap)) is None


@pytest.mark.parametrize("depth", [10**4, 2**62, 2**70])
def test_a_fifo_deeper_than_all_frames_blocks_no_layer(depth):
    part = EventGraph(chain(layer(1), layer(3))).restricted([0, 1], [depth])
    assert part.cycle_above(Fraction(6)) is None


@pytest.mark.parametrize("objective", list(Objective))
def test_the_front_of_two_layers_scales_with_its_numbers(objective):
    random = Random(1)
    small = [
        [(random.randrange(1, 99), random.randrange(1, 99)) for _ in range(6)] for _ in range(2)
    ]

    def front(unit):
        fronts = [
            front_of([time * unit for time, _ in one], [size * unit for _, size in one])
            for one in small
        ]
        return [
            [number // unit for number in column.tolist()] for column in added(*fronts, objective)
        ]

    assert front(UNIT) == front(1)
    assert front(2**70) == front(1)


def test_a_chain_of_huge_tensors_is_placed_as_a_small_one():
    def offsets(unit):
        groups = [
            ChainGroup("a", "b", 2 * unit, (("x", unit), ("y", 3 * unit))),
            ChainGroup("b", "c", unit, (("z", 2 * unit),)),
        ]
        sizes = {"a": 4 * unit, "b": 5 * unit, "c": 2 * unit}
        found = chain_offsets(groups, sizes, 13 * unit, unit)
        return {name: offset / unit for name, offset in found.items()}

    assert offsets(2**64) == offsets(1)


def test_the_tiles_of_a_loop_are_the_smallest_for_their_number():
    for length in range(1, 60):
        trips = {-(-length // tile): tile for tile in range(length, 0, -1)}
        assert tile_sizes(length) == tuple(trips.values())


def test_a_layer_with_too_many_rows_is_named():
    layer = ConvolutionLoops(name="long", filters=1, channels=1, input_rows=10**12, input_columns=1)
    with pytest.raises(GaveUp, match="layer 'long' is too large"):
        minimum_traffic(layer, buffer_bytes=1024, element_bytes=1)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("FMPadding", {"ImgDim": (8, 2**38), "NumChannels": 1}),
        ("FMPadding", {"ImgDim": (8, 8), "NumChannels": 1, "Padding": (0, 0, 2**38, 0)}),
        ("Thresholding", {"NumChannels": 2**38}),
        ("DuplicateStreams", {"NumChannels": 2**38}),
        ("StreamingMaxPool", {"ImgDim": (2**31, 2**31), "PoolDim": (2, 2), "NumChannels": 1}),
        ("Pool", {"Channels": 1, "OutImgDims": (2**38, 1), "KernelSize": (1, 1)}),
    ],
)
def test_a_node_with_too_many_steps_is_named(operator, attributes):
    with pytest.raises(UnreadableFile, match=r"node 'one' .*; at most 50000000 are simulated"):
        cluster(operator, "hls", InputDataType="INT8", OutputDataType="INT8", **attributes)


def test_a_latency_of_too_many_cycles_is_refused():
    with pytest.raises(InvalidGraph, match="9223372036854775808 cycles"):
        TimingOptions(latencies={"Pool": 2**63})


def test_one_window_along_an_axis_may_have_any_stride_and_dilation():
    def window(stride, dilation):
        return cluster(
            "ConvolutionInputGenerator", IFMDim=(4, 4), OFMDim=(1, 1), ConvKernelDim=(1, 1),
            Stride=stride, Dilation=dilation, IFMChannels=1,
        )  # fmt: skip

    huge, small = window((2**38, 2**38), (2**38, 2**38)), window((4, 4), (1, 1))
    assert [one.events for one in huge.sequences] == [one.events for one in small.sequences]


def test_numbers_are_python_integers_beyond_the_range():
    assert np.dtype(ranges.number_type(INT64_SUM_LIMIT)) == np.int64
    assert ranges.number_type(INT64_SUM_LIMIT + 1) is object
