"""Storage may be moved over fast layers: the rule by which the search leaves depths alone."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planners.fifo.dominance import DepthExchanges
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import EventGraph
from planners.fifo.sizing import smallest_depths
from planners.fifo.study import max_rate, period_of
from planners.fifo.timing import rtl
from tests.planners.fifo.designs import chain, cluster, design, fork

SIDE = 4


def kinds():
    """A layer of each kind that words can be moved over, or not, and what it makes of n words."""
    return st.sampled_from(
        ["pad", "wide", "narrow", "pipe", "copy", "window", "stride", "pool", "matrix"]
    )


def layer(kind, words):
    """A layer of that kind for so many words, and how many it passes on."""
    if kind == "wide" and words % 2 == 0:
        return rtl.widening(words, 2, bits=2), words // 2
    if kind == "narrow" and words < 30:
        return rtl.narrowing(words, 2, bits=4), words * 2
    if kind == "window" and 2 < words < 20:
        made = cluster(
            "ConvolutionInputGenerator", IFMDim=(words, 1), OFMDim=(words - 2, 1),
            ConvKernelDim=(3, 1), IFMChannels=1, inputDataType="UINT2",
        )  # fmt: skip
        return made, 3 * (words - 2)
    if kind == "stride" and words % 4 == 0:
        return strided(words // 2, 2), (words // 2 + 1) // 2 * 2
    if kind == "pool" and words % 3 == 0:
        made = cluster(
            "Pool", "hls", Channels=1, KernelSize=(3, 1), OutImgDims=(words // 3, 1),
            InputDataType="UINT2", OutputDataType="UINT4",
        )  # fmt: skip
        return made, words // 3
    if kind == "matrix" and words % 2 == 0 and words < 30:
        made = cluster(
            "MVAU", "hls", MW=2, MH=3, SIMD=1, PE=1, numInputVectors=(1, words // 2),
            inputDataType="UINT2", weightDataType="INT2", outputDataType="UINT8",
        )  # fmt: skip
        return made, words // 2 * 3
    if kind == "pad":
        made = cluster(
            "FMPadding", ImgDim=(words, 1), Padding=(1, 0, 2, 0), NumChannels=1,
            inputDataType="UINT2",
        )  # fmt: skip
        return made, words + 3
    if kind == "copy":
        made = cluster(
            "Thresholding", "hls", NumChannels=words, PE=1, numInputVectors=(1,), numSteps=3,
            inputDataType="UINT8", outputDataType="UINT2", weightDataType="UINT8",
        )  # fmt: skip
        return made, words
    return rtl.pipeline(words, 4, 5, bits=(3, 2)), words


def strided(pixels, channels, rows=1):
    """A sliding window of 1 by 1 with stride 2, which drops half of the pixels of a row."""
    return cluster(
        "ConvolutionInputGenerator", IFMDim=(rows, pixels),
        OFMDim=((rows + 1) // 2, (pixels + 1) // 2), ConvKernelDim=(1, 1), Stride=(2, 2),
        IFMChannels=channels, parallel_window=1, inputDataType="UINT2",
    )  # fmt: skip


@st.composite
def chains(draw):
    words, layers = draw(st.sampled_from([6, 8, 12])), []
    for kind in draw(st.lists(kinds(), min_size=3, max_size=5)):
        made, words = layer(kind, words)
        layers.append(made)
    return chain(*layers)


def moved(depths, move):
    found = list(depths)
    found[move.source] -= move.fewer
    for target, more in move.targets:
        found[target] += more
    return found


def moves_of(graph):
    return DepthExchanges(graph.design, DesignEvaluator(graph).alone)


def slower(graph, depths):
    """The period, where a deadlock is slower than all."""
    period = period_of(graph, depths).period
    return (period is None, period)


@settings(max_examples=25, deadline=None)
@given(chains(), st.data())
def test_storage_moved_over_a_fast_layer_is_never_slower(design, data):
    graph = EventGraph(design)
    found = moves_of(graph).all
    assume(found)
    move = data.draw(st.sampled_from(found))
    depths = [data.draw(st.integers(2, 5)) for _ in design.fifos]
    depths[move.source] = 2 + move.fewer + data.draw(st.integers(0, 3))
    assert slower(graph, moved(depths, move)) <= slower(graph, depths)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(2, 9), min_size=5, max_size=5), st.data())
def test_the_same_holds_before_a_fork_and_behind_a_sum(depths, data):
    graph = EventGraph(forked_twice())
    move = data.draw(st.sampled_from(moves_of(graph).all))
    depths = [*depths, *depths][: len(graph.design.fifos)]
    depths[move.source] += move.fewer
    assert slower(graph, moved(depths, move)) <= slower(graph, depths)


def cheaper(weights, bits):
    """All depths from 2 on that cost less than so many bits."""
    if not weights:
        yield ()
        return
    rest = 2 * sum(weights[1:])
    for depth in range(2, (bits - 1 - rest) // weights[0] + 1):
        for others in cheaper(weights[1:], bits - depth * weights[0]):
            yield (depth, *others)


@pytest.mark.slow
def test_no_smaller_depths_of_a_fork_reach_the_max_rate():
    # Brute force over all depths that cost less, those that the search leaves alone among them.
    made = forked_twice(3)
    graph = EventGraph(made)
    full, _ = max_rate(graph)
    found = smallest_depths(graph, full)
    assert found.status == "optimal"
    assert period_of(graph, found.depths).period == full
    evaluator = DesignEvaluator(graph, required=full)
    tried = 0
    for depths in cheaper([one.bits for one in made.fifos], found.cost):
        assert evaluator.critical_cycle(depths) is not None
        tried += 1
    assert tried > 100


def forked_twice(size=SIDE):
    """The fork of the other tests between two layers, so that words can be moved on both sides."""
    inner = fork(size)
    layers = {layer.name: layer.cluster for layer in inner.layers}
    words = size * size
    layers["before"] = rtl.pipeline(words, 4, 5, bits=(8, 2))
    layers["behind"] = rtl.pipeline(words, 4, 5, bits=(3, 2))
    names = [layer.name for layer in inner.layers]
    ends = [
        ((names[one.producer], one.output), (names[one.consumer], one.input)) for one in inner.fifos
    ]
    return design(layers, [(("before", 0), ("fork", 0)), *ends, (("sum", 0), ("behind", 0))])


def test_a_sliding_window_is_no_layer_to_move_words_over():
    # It accepts nothing of the next frame before the last window is written: words cannot wait
    # behind it instead of before it.
    words = 12
    inner = cluster(
        "ConvolutionInputGenerator", IFMDim=(words, 1), OFMDim=(words - 2, 1),
        ConvKernelDim=(3, 1), IFMChannels=1, inputDataType="UINT2",
    )  # fmt: skip
    made = chain(rtl.pipeline(words, 4, 5, bits=(3, 2)), inner, rtl.pipeline(30, 4, 5, bits=(2, 2)))
    assert moves_of(EventGraph(made)).all == ()


def test_wide_words_behind_a_pipeline_are_moved_before_it():
    # 32 bits become 2 bits: all that waits there waits cheaper behind; 2 words remain in front.
    made = chain(*(rtl.pipeline(12, 4, 5, bits=one) for one in [(32, 32), (32, 2), (2, 2)]))
    assert [one.bits for one in made.fifos] == [32, 2]
    assert moves_of(EventGraph(made)).depth_limits([32, 2], [2, 2]).depths == (2, None)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3), st.sampled_from([2, 4, 6]), st.integers(1, 3),
    st.lists(st.integers(2, 7), min_size=3, max_size=3), st.integers(1, 6),
)  # fmt: skip
def test_a_word_may_wait_after_a_layer_that_drops_words(rows, pixels, channels, depths, words):
    # Between a burst of words and a reader with pauses: words are moved one by one, any number.
    window = strided(pixels, channels, rows)
    read, written = window.inputs[0].words, window.outputs[0].words
    made = chain(
        cluster("FMPadding", ImgDim=(read + 3, 1), Padding=(0, 0, 0, 0), NumChannels=1,
                inputDataType="UINT2"),
        cluster("ConvolutionInputGenerator", IFMDim=(read + 3, 1), OFMDim=(read, 1),
                ConvKernelDim=(4, 1), IFMChannels=1, parallel_window=1, SIMD=1,
                inputDataType="UINT2"),
        window,
        cluster("MVAU", "hls", MW=written, MH=2, SIMD=1, PE=1, numInputVectors=(1, 1),
                inputDataType="UINT2", weightDataType="INT2", outputDataType="UINT8"),
    )  # fmt: skip
    graph = EventGraph(made)
    found = [one for one in moves_of(graph).all if one.source == 1]
    assume(found and found[0].fewer == 1)  # the last pixel is dropped, so it reads in every cycle
    assert found[0].targets == ((2, 1),)
    before, behind, last = depths
    start = [before, behind + words, last]
    assert slower(graph, [before, behind, last + words]) <= slower(graph, start)
