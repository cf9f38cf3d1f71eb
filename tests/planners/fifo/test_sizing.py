from fractions import Fraction
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from csdf.analysis.throughput import throughput
from csdf.errors import GaveUp
from csdf.search.memory_cost import StepSearch
from csdf.time_limit import Stop
from planners.fifo.cheapest_memories import cheapest_depths
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import EventGraph
from planners.fifo.finn.reading import read_design
from planners.fifo.proving import DepthProof
from planners.fifo.sizing import exchanged, grown, least_depths, smallest_depths
from planners.fifo.study import automatic_depths, max_rate, period_of
from planners.fifo.timing import rtl
from planners.fifo.timing.cluster import TimingOptions
from tests.both_kernels import BOTH, use
from tests.planners.fifo import recurrences
from tests.planners.fifo.designs import RESIDUAL, chain, cluster, documented_chain, fork
from tests.planners.fifo.handshakes import Times
from tests.reference.design_graph import design_graph

FRAMES = 3


def fifo(read, written, depth):
    """The two rules of a FIFO, for the reader of one layer and the writer of another."""
    return (
        lambda i, t: [t(written, i) + 1],
        lambda i, t: [t(read, i - depth) + 1],
    )


@pytest.mark.parametrize("depth", [2, 64])
def test_a_chain_of_layers_and_fifos_is_the_composition_of_their_recurrences(depth):
    # The chain that was compared with FINN's RTL at depths 2 and 64.
    inner = [1 <= y < 6 and 1 <= x < 6 for y in range(7) for x in range(7) for _ in range(2)]
    cur, first, room, read, _ = recurrences.fetched_words(
        (7, 7), (3, 3), (1, 1), (1, 1), 1, depthwise=False
    )
    parts = [
        recurrences.padding(inner),
        recurrences.widening(2),
        recurrences.sliding_window(cur, first, room, read),
    ]
    rules = {}
    for number, part in enumerate(parts):
        for name, rule in part.items():
            rules[f"{name}{number}"] = _renamed(rule, number)
    for number in range(2):
        reading, writing = fifo(f"R{number + 1}", f"W{number}", depth)
        rules[f"R{number + 1}"] = _both(rules[f"R{number + 1}"], reading)
        rules[f"W{number}"] = _both(rules[f"W{number}"], writing)
    theirs = Times(rules, {"W0": {0}})  # the output register is empty in the first cycle
    design = documented_chain()
    graph = EventGraph(design)
    ours = graph.restricted(range(3), [depth] * 2).times(Fraction(0), FRAMES)
    # Without that cycle at the start, all our times are one less where they follow from it.
    for number in range(3):
        for port, name in enumerate("RW"):
            times = ours[2 * number + port].ravel().tolist()
            expected = theirs.all(f"{name}{number}", len(times))
            assert _steps(times) == _steps(expected)


def _steps(times):
    """Distances between events of the last frame: the start is another by the reset."""
    last = times[-len(times) // FRAMES :]
    return [two - one for one, two in pairwise(last)]


def _renamed(rule, number):
    return lambda k, t: rule(k, lambda name, event: t(f"{name}{number}", event))


def _both(one, two):
    return lambda k, t: [*one(k, t), *two(k, t)]


sizes = st.integers(1, 3)
links = st.sampled_from(["wide", "narrow", "pipe", "window", "pool", "matrix"])


def drawn_chain(kinds, words=12):
    """Layers in a row that pass on so many words, each of a kind."""
    layers = []
    for kind in kinds:
        if kind == "wide" and words % 3 == 0:
            layers.append(rtl.widening(words, 3, bits=2))
            words //= 3
        elif kind == "narrow" and words < 20:
            layers.append(rtl.narrowing(words, 2, bits=4))
            words *= 2
        elif kind == "matrix" and words % 2 == 0:
            layers.append(rtl.matrix_vector(words // 2, (2, 2), 4, bits=(2, 3)))
        elif kind == "window" and words > 2:
            layers.append(
                cluster("ConvolutionInputGenerator", IFMDim=(words, 1), OFMDim=(words - 2, 1),
                        ConvKernelDim=(3, 1), IFMChannels=1, inputDataType="UINT2")
            )  # fmt: skip
            words = 3 * (words - 2)
        elif kind == "pool" and words % 3 == 0:
            layers.append(
                cluster("Pool", "hls", Channels=1, KernelSize=(3, 1), OutImgDims=(words // 3, 1),
                        InputDataType="UINT2", OutputDataType="UINT4")
            )  # fmt: skip
            words //= 3
        else:
            layers.append(rtl.pipeline(words, 4, 5, bits=(3, 2)))
    return chain(*layers)


@settings(max_examples=25, deadline=None)
@given(st.lists(links, min_size=2, max_size=4), st.lists(st.integers(2, 6), min_size=3, max_size=3))
def test_the_period_is_that_of_the_csdf_graph(kinds, depths):
    design = drawn_chain(kinds)
    depths = depths[: len(design.fifos)]
    found = period_of(EventGraph(design), depths)
    assert throughput(design_graph(design, depths)).period == found.period


@pytest.mark.parametrize("depth", [2, 3, 4, 6, 9])
def test_a_fork_is_timed_as_its_csdf_graph_is(depth):
    design = fork()
    depths = [2, 2, 2, depth, 2]
    found = period_of(EventGraph(design), depths)
    known = throughput(design_graph(design, depths))
    assert (known.deadlock is not None) == (found.period is None)
    if found.period is not None:
        assert known.period == found.period


def every(design, most):
    return product(range(2, most + 1), repeat=len(design.fifos))


@settings(max_examples=15, deadline=None)
@given(st.lists(links, min_size=3, max_size=4))
def test_no_smaller_depths_reach_the_max_rate(kinds):
    design = drawn_chain(kinds)
    graph = EventGraph(design)
    full, _ = max_rate(graph)
    found = smallest_depths(graph, full)
    assert found.status == "optimal"
    assert period_of(graph, found.depths).period == full
    for depths in every(design, 6):  # brute force over all smaller ones
        if design.bits(depths) < found.cost:
            assert period_of(graph, depths).period > full


@settings(max_examples=15, deadline=None)
@given(st.lists(links, min_size=3, max_size=4), st.data())
def test_exchanged_depths_cost_less_and_still_suffice(kinds, data):
    design = drawn_chain(kinds)
    graph = EventGraph(design)
    full, _ = max_rate(graph)
    evaluator = DesignEvaluator(graph, required=full)
    weights = [one.bits for one in design.fifos]
    *_, (depths, _) = grown(evaluator, [2] * len(weights), [None] * len(weights))
    depths = tuple(one + data.draw(st.integers(0, 4)) for one in depths)
    bits = design.bits(depths)
    for found in exchanged(evaluator, depths, [2] * len(weights), [None] * len(weights), weights):
        assert design.bits(found) <= bits
        assert period_of(graph, found).period == full
        bits = design.bits(found)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=5, max_size=5), st.integers(0, 20))
def test_no_cheaper_depths_of_a_fork_reach_a_rate(costs, more):
    design = fork()
    graph = EventGraph(design)
    asked = max_rate(graph)[0] + more
    found = smallest_depths(graph, asked, weights=costs)
    assert found.status == "optimal"
    evaluator = DesignEvaluator(graph, required=asked)
    assert evaluator.critical_cycle(found.depths) is None
    for depths in every(design, 9):  # brute force over all cheaper ones
        if sum(map(int.__mul__, depths, costs)) < found.cost:
            assert evaluator.critical_cycle(depths) is not None


@settings(max_examples=8, deadline=None)
@given(st.integers(2, 5), st.integers(0, 9), st.integers(0, 20))
def test_no_depths_of_a_fork_have_cheaper_memories(words, fixed, more):
    # A memory has so many words; the first costs nothing, as shift registers have no block RAMs.
    def cost(depth, bits):
        memories = -(-depth // words) - 1
        return memories * bits + (fixed if memories else 0)

    design = fork()
    graph = EventGraph(design)
    asked = max_rate(graph)[0] + more
    found = cheapest_depths(graph, asked, cost)
    evaluator = DesignEvaluator(graph, required=asked)

    def price(depths):
        return sum(cost(depth, one.bits) for depth, one in zip(depths, design.fifos, strict=True))

    assert (found.status, found.cost) == ("optimal", price(found.depths))
    assert evaluator.critical_cycle(found.depths) is None
    for depths in every(design, 9):  # brute force over all cheaper ones
        if price(depths) < found.cost:
            assert evaluator.critical_cycle(depths) is not None
    ended = cheapest_depths(graph, asked, cost, stop=Stop(steps=3))
    assert ended.lower_bound <= found.cost <= ended.cost


def without_proof(*_):
    raise GaveUp("no time for a proof")


@settings(max_examples=8, deadline=None)
@given(st.integers(2, 5), st.integers(0, 20))
def test_memories_cost_no_more_than_under_another_objective(words, more):
    def cost(depth, bits):
        return -(-depth // words) * (bits + 1)

    graph = EventGraph(fork())
    fifos = graph.design.fifos
    asked = max_rate(graph)[0] + more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StepSearch, "cheapest", without_proof)
        found = cheapest_depths(graph, asked, cost)
    for weights in (None, [1] * len(fifos)):
        other = smallest_depths(graph, asked, weights=weights)
        price = sum(cost(depth, one.bits) for depth, one in zip(other.depths, fifos, strict=True))
        assert found.cost <= price
    assert DesignEvaluator(graph, required=asked).critical_cycle(found.depths) is None


def test_of_equally_expensive_memories_the_fewest_bits_win():
    graph = EventGraph(fork())
    full, _ = max_rate(graph)
    found = cheapest_depths(graph, full, lambda depth, bits: depth // 100)
    assert graph.design.bits(found.depths) == smallest_depths(graph, full).cost
    assert (found.status, found.cost) == ("optimal", 0)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=5, max_size=5), st.integers(0, 20))
def test_more_time_never_gives_a_worse_answer(costs, more):
    graph = EventGraph(fork())
    asked = max_rate(graph)[0] + more
    found = [
        smallest_depths(graph, asked, weights=costs, stop=Stop(effort=milliseconds / 1000))
        for milliseconds in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
    ]
    assert found[0].depths
    for less, longer in pairwise(found):
        assert longer.cost <= less.cost
        assert longer.lower_bound >= less.lower_bound


def test_a_large_design_has_a_bound_before_any_depths_are_known(monkeypatch):
    monkeypatch.setattr("planners.fifo.sizing.LARGE", 0)
    graph = EventGraph(read_design(RESIDUAL, TimingOptions()))
    full, _ = max_rate(graph)
    fifos = graph.design.fifos
    alone = least_depths(DesignEvaluator(graph, required=full))
    assert graph.design.bits(alone) > graph.design.bits([2] * len(fifos))
    found = smallest_depths(graph, full, stop=Stop(effort=0))
    assert found.depths
    assert found.lower_bound > graph.design.bits([2] * len(fifos))
    assert smallest_depths(graph, full).cost == 194  # as on the page


@pytest.mark.parametrize("large", [0, 500_000])
def test_no_single_fifo_can_be_shallower_however_small_the_effort(monkeypatch, large):
    monkeypatch.setattr("planners.fifo.sizing.LARGE", large)
    for design in (fork(), read_design(RESIDUAL, TimingOptions())):
        graph = EventGraph(design)
        full, _ = max_rate(graph)
        for more in (0, 3, 20):
            found = smallest_depths(graph, full + more, stop=Stop(effort=0))
            assert found.is_minimal
            for place, depth in enumerate(found.depths):
                for less in range(2, depth):  # each depth is simulated anew
                    trial = (*found.depths[:place], less, *found.depths[place + 1 :])
                    cycle = DesignEvaluator(graph, required=full + more).critical_cycle(trial)
                    assert cycle is not None, (design.name, more, place, less)


def test_depths_in_space_that_is_used_do_the_same():
    graph = EventGraph(read_design(RESIDUAL, TimingOptions()))
    full, _ = max_rate(graph)
    evaluator = DesignEvaluator(graph, required=full)
    occupied = evaluator.occupied((1000,) * len(graph.design.fifos))
    assert max(occupied) < 1000
    assert DesignEvaluator(graph, required=full).suffices(occupied)


def test_the_same_effort_gives_the_same_answer_whatever_the_clock_says(monkeypatch):
    graph = EventGraph(read_design(RESIDUAL, TimingOptions()))
    full, _ = max_rate(graph)
    found = smallest_depths(graph, full, stop=Stop(effort=0.02))
    monkeypatch.setattr("csdf.time_limit.time.monotonic", iter(range(10**9)).__next__)
    assert smallest_depths(graph, full, stop=Stop(effort=0.02)) == found


def test_where_the_clock_ends_the_search_the_answer_says_so():
    graph = EventGraph(read_design(RESIDUAL, TimingOptions()))
    found = smallest_depths(graph, max_rate(graph)[0], stop=Stop(0))
    assert (found.status, found.is_cut_short) == ("unknown", True)


def test_no_smaller_depths_of_a_fork_run():
    design = fork()
    graph = EventGraph(design)
    found = smallest_depths(graph, None)
    assert found.status == "optimal"
    assert period_of(graph, found.depths).period is not None
    for depths in every(design, 9):
        if design.bits(depths) < found.cost:
            assert period_of(graph, depths).period is None


def test_a_deadlock_names_the_short_branch_of_a_fork():
    design = fork()
    cycle = period_of(EventGraph(design), [2] * 5)
    assert cycle.period is None
    assert [design.fifos[one].name for one in cycle.fifos] == ["fork to sum"]
    assert design.layers[cycle.layers[0]].name in {"fork", "sum", "pad", "window", "pool"}


def test_more_depth_is_never_slower():
    design = fork()
    graph = EventGraph(design)
    periods = [period_of(graph, [2, 2, 2, depth, 2]).period for depth in range(6, 14)]
    known = [one for one in periods if one is not None]
    assert known == sorted(known, reverse=True)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(2, 12) | st.none(), min_size=5, max_size=5), max_size=12),
    st.integers(-1, 9),
)
def test_earlier_answers_do_not_change_a_verdict(questions, more):
    design = fork()
    graph = EventGraph(design)
    only_live = more < 0
    asked = {"required": None if only_live else max_rate(graph)[0] + more, "only_live": only_live}
    experienced = DesignEvaluator(graph, **asked)
    for depths in questions:
        found = experienced.critical_cycle(depths)
        fresh = DesignEvaluator(graph, **asked).critical_cycle(depths)
        assert (found is None) == (fresh is None)
        if found is not None:
            # All that it names is small enough to be on it: with those FIFOs alone it is there.
            alone = [one if at in found.fifos else None for at, one in enumerate(depths)]
            assert DesignEvaluator(graph, **asked).critical_cycle(alone) is not None


def test_a_rate_above_that_of_the_slowest_layer_is_refused_with_that_layer():
    design = fork()
    graph = EventGraph(design)
    full, slowest = max_rate(graph)
    found = smallest_depths(graph, full - 1)
    assert found.status == "infeasible"
    assert found.cycle.layers == (slowest,)


def test_the_automatic_rule_has_32_words_where_three_are_needed():
    # FINN's optimize_depth: up to 2 stays 2, up to 32 becomes 32.
    depths = automatic_depths(EventGraph(fork()), Fraction(81))
    assert set(depths) <= {2, 32}


@pytest.mark.parametrize("backend", BOTH)
def test_compiled_and_plain_kernels_find_the_same(monkeypatch, backend):
    use(monkeypatch, backend)
    graph = EventGraph(fork())
    full, _ = max_rate(graph)
    found = smallest_depths(graph, full)
    monkeypatch.undo()
    again = EventGraph(fork())
    assert (found.cost, found.status) == (smallest_depths(again, full).cost, "optimal")


@pytest.mark.parametrize("deep", [(5,), (2, 5), tuple(range(8))])
def test_a_proof_that_begins_with_deep_fifos_ends_with_the_smallest(deep):
    # Depths beyond those where words may as well wait elsewhere say nothing about a single part.
    design = read_design(RESIDUAL, TimingOptions(), {})
    graph = EventGraph(design)
    full, _ = max_rate(graph)
    smallest = smallest_depths(graph, full)
    evaluator = DesignEvaluator(graph, required=full)
    weights = [one.bits for one in design.fifos]
    floor = [2] * len(weights)
    proof = DepthProof(evaluator, least_depths(evaluator), weights, floor, lambda: None)
    start = tuple(60 if one in deep else depth for one, depth in enumerate(smallest.depths))
    *_, last = proof.proved(start)
    depths = [last[one] for one in range(len(weights))]
    assert design.bits(depths) == smallest.cost == proof.lower_bound
    assert evaluator.critical_cycle(depths) is None


def test_a_period_limited_by_a_lock_is_printed_as_an_upper_bound():
    # A result is written core + 2 = 10 cycles after its step and read one later; 3 later follows the
    # step of the result depth + 2 behind it: 4 results in 14 cycles, 24 in a frame.
    units = [rtl.matrix_vector(12, (1, 2), 8, bits=(2, 3)), rtl.pipeline(24, 4, 5, bits=(3, 2))]
    graph = EventGraph(chain(*units))
    shallow, deep = (period_of(graph, [depth]) for depth in (2, 40))
    assert (shallow.is_bound, deep.is_bound) == (True, False)
    assert (shallow.period, deep.period) == (24 // 4 * 14, 24)
