import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners.fifo.finn.layers import layer_cluster
from planners.fifo.finn.nodes import FinnNode
from planners.fifo.timing import rtl
from planners.fifo.timing.cluster import TimingOptions
from planners.fifo.timing.loops import loop_cluster
from tests.planners.fifo import cycle_by_cycle, recurrences
from tests.planners.fifo.handshakes import ALWAYS, Times, cluster_rules

FRAMES = 3
MOST = 400  # words of a frame, for the time that drawing takes
small = st.integers(1, 3)
refusing = st.tuples(
    st.sampled_from([0, 0, 30, 70]), st.sampled_from([0, 0, 30, 70]), st.integers(0, 99)
)
instances = settings(max_examples=25, deadline=None)


def node(operator, **attributes):
    return FinnNode(
        name="one", operator=operator, style="rtl", written=f"{operator}_rtl",
        attributes=attributes, inputs=("in",), outputs=("out",),
    )  # fmt: skip


def refusals(rates):
    """Cycles in which the input and the output do nothing, so many percent of them."""
    drawn = random.Random(rates[2])
    cycles = range(60 * MOST)
    busy = drawn.randrange(50)  # besides, the output is held for a while
    taken = {cycle for cycle in cycles if drawn.random() * 100 < rates[0]}
    given_ = {cycle for cycle in cycles if drawn.random() * 100 < rates[1]}
    given_.add(0)  # every output is a register, empty in the first cycle
    if rates[1]:
        given_ |= set(range(busy, busy + 50))
    return taken, given_


def ports(cluster, rules, rates):
    """Handshakes of three frames: those of the cluster, and those of the recurrences."""
    taken, given_ = refusals(rates)
    ours = Times(cluster_rules(cluster), {0: taken, 1: given_})
    theirs = Times(rules, {"R": taken, "W": given_})
    reads, writes = (FRAMES * one.events for one in cluster.sequences[:2])
    return (
        (ours.all(0, reads), ours.all(1, writes)),
        (theirs.all("R", reads), theirs.all("W", writes)),
    )


@instances
@given(st.tuples(small, small), st.tuples(*[st.integers(0, 2)] * 4), small, refusing)
def test_padding_is_that_of_the_verilog(size, edges, folds, rates):
    cluster = layer_cluster(
        node("FMPadding", ImgDim=size, Padding=edges, NumChannels=folds), TimingOptions()
    )
    top, left, bottom, right = edges
    inner = [
        top <= y < top + size[0] and left <= x < left + size[1]
        for y in range(size[0] + top + bottom)
        for x in range(size[1] + left + right)
        for _ in range(folds)
    ]
    ours, theirs = ports(cluster, recurrences.padding(inner), rates)
    assert ours == theirs


windows = st.tuples(
    st.tuples(st.integers(1, 7), st.integers(1, 7)),  # image
    st.tuples(small, small),  # kernel
    st.tuples(small, small),  # stride
    st.tuples(st.integers(1, 2), st.integers(1, 2)),  # dilation
    small,  # folds
).filter(
    lambda one: all(
        (kernel - 1) * far + 1 <= size
        for size, kernel, far in zip(one[0], one[1], one[3], strict=True)
    )
)


def window_node(window, made, **more):
    image, kernel, stride, dilation, folds = window
    return node(
        "ConvolutionInputGenerator", IFMDim=image, OFMDim=tuple(made), ConvKernelDim=kernel,
        Stride=stride, Dilation=dilation, IFMChannels=folds, SIMD=1, **more,
    )  # fmt: skip


@instances
@given(windows, st.booleans(), refusing)
def test_a_sliding_window_is_that_of_the_verilog(window, depthwise, rates):
    image, kernel, stride, dilation, folds = window
    cur, first, room, read, made = recurrences.fetched_words(
        image, kernel, stride, dilation, folds, depthwise=depthwise
    )
    if len(cur) > MOST or kernel == (1, 1):  # one pixel alone is of the parallel style
        return
    cluster = layer_cluster(window_node(window, made, depthwise=int(depthwise)), TimingOptions())
    ours, theirs = ports(cluster, recurrences.sliding_window(cur, first, room, read), rates)
    assert ours == theirs


@instances
@given(windows, refusing)
def test_a_parallel_window_is_that_of_the_verilog(window, rates):
    image, kernel, stride, dilation, folds = window
    made = [
        (size - (one - 1) * far - 1) // step + 1
        for size, one, step, far in zip(image, kernel, stride, dilation, strict=True)
    ]
    cur = [
        ((y * stride[0] + (kernel[0] - 1) * dilation[0]) * image[1]
         + x * stride[1] + (kernel[1] - 1) * dilation[1]) * folds + fold
        for y in range(made[0]) for x in range(made[1]) for fold in range(folds)
    ]  # fmt: skip
    cluster = layer_cluster(window_node(window, made, parallel_window=1), TimingOptions())
    rules = recurrences.parallel_window(cur, image[0] * image[1] * folds)
    ours, theirs = ports(cluster, rules, rates)
    assert ours == theirs


@instances
@given(st.integers(2, 6), st.integers(1, 20), refusing)
def test_widening_is_that_of_the_verilog(ratio, made, rates):
    cluster = rtl.widening(made * ratio, ratio, bits=8)
    ours, theirs = ports(cluster, recurrences.widening(ratio), rates)
    assert ours == theirs


@instances
@given(st.integers(2, 6), st.integers(1, 20), refusing)
def test_narrowing_equals_the_verilog_except_one_clause(ratio, words, rates):
    cluster = rtl.narrowing(words, ratio, bits=8 * ratio)
    ours, theirs = ports(cluster, recurrences.narrowing(ratio, with_clause=False), rates)
    assert ours == theirs


@instances
@given(st.integers(2, 6), st.integers(1, 20), st.integers(0, 99))
def test_narrowing_is_exact_while_its_output_is_not_refused(ratio, words, seed):
    cluster = rtl.narrowing(words, ratio, bits=8 * ratio)
    ours, theirs = ports(cluster, recurrences.narrowing(ratio, with_clause=True), (0, 0, seed))
    assert ours == theirs


@instances
@given(st.integers(2, 6), st.integers(1, 20), refusing)
def test_narrowing_is_never_later_than_the_verilog(ratio, words, rates):
    # The clause that is left out can only delay.
    cluster = rtl.narrowing(words, ratio, bits=8 * ratio)
    ours, theirs = ports(cluster, recurrences.narrowing(ratio, with_clause=True), rates)
    assert all(
        one <= two
        for mine, other in zip(ours, theirs, strict=True)
        for one, two in zip(mine, other, strict=True)
    )


@instances
@given(st.integers(1, 300), st.integers(0, 1), st.integers(1, 60), refusing)
def test_thresholding_is_that_of_the_verilog(steps, deep, words, rates):
    cluster = layer_cluster(
        node("Thresholding", NumChannels=words, numSteps=steps, deep_pipeline=deep), TimingOptions()
    )
    # M = ceil(log2(N + 1)), twice that in a deep pipeline.
    stages = int(np.ceil(np.log2(steps + 1))) * (1 + deep)
    ours, theirs = ports(cluster, recurrences.thresholding(stages), rates)
    assert ours == theirs


@instances
@given(st.integers(1, 24), st.integers(2, 4), st.integers(1, 3), st.integers(4, 10), refusing)
def test_a_matrix_unit_is_timed_as_in_the_verilog(synapse, neuron, vectors, core, rates):
    cluster = rtl.matrix_vector(vectors, (synapse, neuron), core, bits=(8, 8))
    ours, theirs = ports(cluster, recurrences.matrix_vector(synapse, neuron, core), rates)
    assert ours == theirs


def with_fifo(cluster, depth):
    """The rules of a layer, of a FIFO behind it, and "out", the words that leave the FIFO."""
    lock, rules = cluster.outputs[0].lock, cluster_rules(cluster)
    begun = dict(zip(lock.events.tolist(), lock.words.tolist(), strict=True))
    write, begin, steps = rules[1], rules[lock.sequence], cluster.sequences[lock.sequence].events

    def written(k, t):
        yield from write(k, t)
        yield t("out", k - depth) + 1

    def begins(k, t):
        yield from begin(k, t)
        frame, step = divmod(k, steps)
        if step in begun:
            word = frame * cluster.outputs[0].words + begun[step]
            yield t("out", word - depth - lock.held) + lock.delay

    def leaves(k, t):
        yield t("out", k - 1) + 1
        yield t(1, k) + 1

    return rules | {1: written, lock.sequence: begins, "out": leaves}


@instances
@given(
    st.integers(1, 12), st.integers(1, 3), st.integers(1, 4), st.integers(3, 9), st.integers(2, 9),
    refusing,
)  # fmt: skip
def test_a_matrix_unit_is_never_later_in_the_verilog(synapse, neuron, vectors, core, depth, rates):
    # And as fast where nothing is refused and the FIFO is as deep as the pipeline is long.
    taken, given_ = refusals(rates)
    cluster = rtl.matrix_vector(vectors, (synapse, neuron), core, bits=(8, 8))
    theirs = cycle_by_cycle.matrix_unit(
        (synapse, neuron), core, depth, FRAMES * vectors, (taken, given_ if rates[1] else ALWAYS)
    )
    ours = Times(with_fifo(cluster, depth), {0: taken, "out": given_ if rates[1] else ALWAYS})
    found = [ours.all(name, len(one)) for name, one in zip((0, 1, "out"), theirs, strict=True)]
    assert all(
        one <= two
        for his, mine in zip(theirs, found, strict=True)
        for one, two in zip(his, mine, strict=True)
    )
    if not rates[1] and (depth + 1) * synapse >= core + 6:
        assert list(theirs) == found


@instances
@given(st.integers(2, 6), st.integers(1, 20), st.integers(2, 6), refusing)
def test_narrowing_before_a_fifo_is_never_earlier_than_the_verilog(ratio, words, depth, rates):
    # With the clause, which is no maximum. The lock is why: without it a word came a cycle too early.
    taken, given_ = refusals(rates)
    rules = recurrences.narrowing(ratio, with_clause=True)
    write = rules["W"]
    rules["W"] = lambda k, t: [*write(k, t), t("out", k - depth) + 1]
    rules["out"] = lambda k, t: [t("out", k - 1) + 1, t("W", k) + 1]
    theirs = Times(rules, {"R": taken, "out": given_})
    cluster = rtl.narrowing(words, ratio, bits=8 * ratio)
    ours = Times(with_fifo(cluster, depth), {0: taken, "out": given_})
    for port, name, events in ((0, "R", words), (1, "W", words * ratio)):
        found, expected = ours.all(port, FRAMES * events), theirs.all(name, FRAMES * events)
        assert all(one >= two for one, two in zip(found, expected, strict=True))


@instances
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12), st.integers(1, 6), refusing)
def test_a_loop_has_an_iteration_in_each_stage_of_its_pipeline(steps, latency, rates):
    # Behind a refused write the others leave one by one: a word does not overtake the steps between.
    steps = [(True, False), *steps, (False, True)]
    reads, writes = zip(*steps, strict=True)
    streams = [[(np.flatnonzero(one).astype(np.int64), 8)] for one in (reads, writes)]
    cluster = loop_cluster(len(steps), *streams, latency=latency)
    refused = refusals(rates)
    ours = Times(cluster_rules(cluster), dict(enumerate(refused)))
    theirs = cycle_by_cycle.pipelined_loop(reads, writes, latency, FRAMES, refused)
    assert [ours.all(port, len(one)) for port, one in enumerate(theirs)] == list(theirs)


@pytest.mark.parametrize(
    ("synapse", "neuron"), [(1, 1), (3, 1), (9, 1), (1, 4), (8, 4), (9, 2), (32, 2)]
)
def test_the_lock_of_a_matrix_unit_costs_nothing_while_its_output_is_taken(synapse, neuron):
    # A vector takes SF * NF cycles, whatever the pipeline: FINN's estimate, which its RTL keeps.
    cluster = rtl.matrix_vector(6, (synapse, neuron), 6, bits=(8, 8))
    times = Times(cluster_rules(cluster), {})
    writes = cluster.sequences[1].events
    assert times(1, 4 * writes - 1) - times(1, 3 * writes - 1) == 6 * synapse * neuron
