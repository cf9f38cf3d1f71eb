"""Depths that one cycle shows to be too small, and the cheapest depths outside of these."""

from itertools import product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import EventGraph, total_depth
from planners.fifo.region_covering import RegionCovering
from planners.fifo.study import max_rate
from planners.fifo.timing import rtl
from planners.fifo.timing.cluster import is_word_by_word
from tests.planners.fifo.designs import chain, cluster, design, fork


def long_fork(size=12):
    """A fork whose short way, and what is before it and behind it, are chains of FIFOs."""
    inner = fork(size)
    layers = {one.name: one.cluster for one in inner.layers}
    words = size * size
    for name in ("before", "aside", "beside", "behind"):
        layers[name] = rtl.pipeline(words, 1, 2, bits=(2, 2))
    names = [one.name for one in inner.layers]
    ends = [
        ((names[one.producer], one.output), (names[one.consumer], one.input)) for one in inner.fifos
    ]
    ends.remove((("fork", 1), ("sum", 0)))
    aside = [
        (("fork", 1), ("aside", 0)),
        (("aside", 0), ("beside", 0)),
        (("beside", 0), ("sum", 0)),
    ]
    last = cluster(
        "ConvolutionInputGenerator", IFMDim=(size, size), OFMDim=(size - 1, size - 1),
        ConvKernelDim=(2, 2), IFMChannels=1, inputDataType="UINT3",
    )  # fmt: skip
    layers["last"] = last
    return design(
        layers,
        [(("before", 0), ("fork", 0)), *ends, *aside, (("sum", 0), ("behind", 0)),
         (("behind", 0), ("last", 0))],
    )  # fmt: skip


def test_thresholds_and_sums_pass_on_word_by_word_and_windows_do_not():
    made = long_fork()
    found = {one.name for one in made.layers if is_word_by_word(one.cluster)}
    assert found == {"before", "fork", "aside", "beside", "sum", "behind"}


def shared_out(cycle, depths):
    """These depths, made shorter until the cycle says of them that they are too small."""
    found = list(depths)
    for own, limit in cycle.infeasible.limits.items():
        while total_depth(own, found) > limit:
            longest = max((fifo for fifo, _ in own), key=lambda one: found[one])
            assume(found[longest] > 2)
            found[longest] -= 1
    return found


@settings(max_examples=25, deadline=None)
@given(st.booleans(), st.lists(st.integers(2, 4), min_size=10, max_size=10), st.data())
def test_all_depths_that_a_cycle_calls_infeasible_are_too_small(is_rate, depths, data):
    graph = EventGraph(long_fork())
    full, _ = max_rate(graph)
    asked = full if is_rate else None
    cycle = DesignEvaluator(graph, required=asked, only_live=not is_rate).critical_cycle(depths)
    assume(cycle is not None)
    assert cycle.infeasible.holds(depths)
    others = shared_out(cycle, [data.draw(st.integers(2, 14)) for _ in depths])
    again = DesignEvaluator(graph, required=asked, only_live=not is_rate)
    assert again.critical_cycle(others) is not None


def convolution(size, channels, pipelines):
    """The layers of a convolution of 3 by 3, and layers behind it that pass words on one by one."""
    outer, words = size + 2, size * size * channels
    layers = [
        cluster("FMPadding", ImgDim=(size, size), Padding=(1, 1, 1, 1), NumChannels=channels,
                inputDataType="UINT2"),
        cluster("ConvolutionInputGenerator", IFMDim=(outer, outer), OFMDim=(size, size),
                ConvKernelDim=(3, 3), IFMChannels=channels, inputDataType="UINT2"),
        cluster("MVAU", "hls", MW=9 * channels, MH=channels, SIMD=channels,
                numInputVectors=(1, size, size), inputDataType="UINT2", weightDataType="INT2",
                outputDataType="UINT2"),
        *[rtl.pipeline(words, 1, 2, bits=(2, 2)) for _ in range(pipelines)],
    ]  # fmt: skip
    if channels > 1:
        layers.insert(2, rtl.widening(9 * words, channels, bits=2))
    return layers


@settings(max_examples=25, deadline=None)
@given(
    st.integers(3, 5), st.integers(2, 3), st.lists(st.integers(1, 2), min_size=2, max_size=2),
    st.data(),
)  # fmt: skip
def test_nor_are_the_depths_faster_that_the_slowest_cycle_of_a_chain_covers(
    size, channels, pipelines, data
):
    layers = [one for number in pipelines for one in convolution(size, channels, number)]
    graph = EventGraph(chain(*layers))
    depths = [data.draw(st.integers(2, 4)) for _ in graph.design.fifos]
    cycle = DesignEvaluator(graph).critical_cycle(depths)
    others = shared_out(cycle, [data.draw(st.integers(2, 9)) for _ in depths])
    found = DesignEvaluator(graph).critical_cycle(others)
    assert found.period is None or found.period >= cycle.period


def test_fifos_with_a_threshold_between_them_are_a_chain():
    # The short way of the fork holds what the long way is behind: 2 + 2 + 2 words deadlock, however
    # they are shared out among its three FIFOs.
    graph = EventGraph(long_fork())
    depths = [2] * len(graph.design.fifos)
    names = [one.name for one in graph.design.fifos]
    cycle = DesignEvaluator(graph, only_live=True).critical_cycle(depths)
    short = [names.index(one) for one in ("fork to aside", "aside to beside", "beside to sum")]
    assert tuple((one, 1) for one in sorted(short)) in cycle.infeasible.limits


@st.composite
def coverings(draw):
    count = draw(st.integers(1, 4))
    weights = [draw(st.integers(1, 5)) for _ in range(count)]
    most = [draw(st.sampled_from([None, 4, 6])) for _ in range(count)]
    chains = st.lists(
        st.tuples(st.integers(0, count - 1), st.integers(1, 2)),
        min_size=1, max_size=count, unique_by=lambda one: one[0],
    ).map(lambda one: tuple(sorted(one)))  # fmt: skip
    regions = draw(st.lists(st.dictionaries(chains, st.integers(3, 12), min_size=1, max_size=3)))
    return weights, most, regions


@settings(max_examples=60, deadline=None)
@given(coverings(), st.data())
def test_the_cheapest_allowed_depths_equal_brute_force(drawn, data):
    weights, most, regions = drawn
    top = [7 if one is None else one for one in most]  # a chain of limit 12 is left by 7 + 7
    hidden = data.draw(st.integers(0, len(regions)))
    covering = RegionCovering(
        range(len(weights)),
        [2] * len(weights),
        [7 if one is None else one for one in most],
        weights,
    )
    for region in regions[:hidden]:
        covering.add(region)

    def too_small(depths, regions):
        return any(all(total_depth(r, depths) <= n for r, n in one.items()) for one in regions)

    allowed = [
        one for one in product(*(range(2, end + 1) for end in top)) if not too_small(one, regions)
    ]
    sufficient = set()
    while (found := covering.proposal(lambda: None, sufficient)) is not None:
        assert not too_small(found, regions[:hidden])
        missed = [one for one in regions if too_small(found, [one])]
        if missed:
            covering.add(missed[0])
        else:
            sufficient.add(found)
    assert bool(sufficient) == bool(allowed)
    if allowed:
        assert min(map(covering.cost, sufficient)) == min(map(covering.cost, allowed))
        assert covering.lower_bound <= min(map(covering.cost, allowed))
