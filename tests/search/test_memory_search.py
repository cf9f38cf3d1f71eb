"""The cheapest storage where a channel costs what its memory in an FPGA does."""

import json
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csdf.analysis.bound_channels import with_capacities
from csdf.analysis.throughput import throughput
from csdf.cli.answers import gap_above
from csdf.cli.main import main
from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.search.memory_cost import (
    OBJECTIVES,
    blocks,
    fifo_blocks,
    least_memory,
    memory_front,
    shift_luts,
)
from csdf.search.trade_off import smallest_storage
from csdf.search.variables import SearchSpace
from csdf.time_limit import Stop

SMALL = GraphShape(actors=3, extra_channels=1, max_phases=2, max_rate=3, max_repetitions=3)
WIDTHS = (3, 17, 40)
FRAMES = """layer, inputs, consumption, production, times, width
in, , 1, 1, 1, 8
filter, in, 1, 1, 1, 16
frame, filter; in, 600, 1, 600, 8
"""


def drawn(seed):
    """A small graph, and a width for each of its channels."""
    graph = random_graph(seed, SMALL)
    names = [one.name for one in graph.channels if not one.is_self_loop]
    widths = {name: WIDTHS[number % 3] for number, name in enumerate(names)}
    return graph, SearchSpace(unit="bits", widths=widths)


def price(cost, choice, capacities):
    return sum(cost(depth, choice.widths[name]) for name, depth in capacities.items())


def coarse(depth, bits):
    """Steps that small graphs reach: a memory for every three tokens, none for the first two."""
    return (depth // 3) * (1 + bits // 16)


def cheapest(graph, choice, cost, period, most=7):
    """By brute force over all capacities up to `most`."""
    names = list(choice.widths)
    found = []
    for depths in product(range(1, most + 1), repeat=len(names)):
        capacities = dict(zip(names, depths, strict=True))
        if any(
            capacities[one.name] < one.initial_tokens for one in graph.channels if one.name in names
        ):
            continue
        now = throughput(with_capacities(graph, capacities))
        if now.deadlock is None and (period is None or now.period <= period):
            found.append(price(cost, choice, capacities))
    return min(found, default=None)


@pytest.mark.parametrize("cost", [coarse, shift_luts, fifo_blocks])
def test_no_other_capacities_cost_less(cost):
    graph, choice = drawn(0)
    fastest = smallest_storage(graph, choice).point.period
    for period in (None, fastest):
        found = least_memory(graph, choice, cost, period=period)
        assert found.status == "optimal"
        assert found.point.size == price(cost, choice, found.point.capacities)
        known = cheapest(graph, choice, cost, period)
        assert known is None or found.point.size <= known
        if max(found.point.capacities.values()) <= 7:
            assert found.point.size == known
        assert period is None or found.point.period <= period


@pytest.mark.parametrize(("bits", "blocks"), [(8, 1), (64, 4)])
def test_only_channels_beyond_256_tokens_take_block_rams(bits, blocks):
    # c takes 600 tokens at once, so bc holds 600, in a memory of 1024 words: one block RAM of 9 bits x
    # 2048 for words of 8 bits, four of 18 x 1024 side by side for 64.
    builder = GraphBuilder().actor("a", 1).actor("b", 1).actor("c", 1)
    builder.channel("a", 1, "b", 1, name="ab").channel("b", 1, "c", 600, name="bc")
    choice = SearchSpace(unit="bits", widths={"ab": 512, "bc": bits})
    found = least_memory(builder.graph(), choice, fifo_blocks)
    assert (found.status, found.point.size) == ("optimal", blocks)
    assert dict(found.point.capacities) == {"ab": 1, "bc": 600}


@given(st.integers(1, 5000), st.integers(1, 200), st.sampled_from(sorted(OBJECTIVES)))
def test_a_deeper_fifo_never_costs_less(depth, bits, objective):
    cost = OBJECTIVES[objective]
    assert cost(depth, bits) <= cost(depth + 1, bits) <= cost(depth + 1, bits + 1)


def test_what_the_documented_memories_cost():
    # 36 bits x 512 words is one block RAM of 18 kbit; 257 words take the next power of two, 512.
    assert [fifo_blocks(depth, 36) for depth in (256, 257, 512, 513)] == [0, 2, 2, 3]
    # 40 bits on the wire: two blocks of 36 x 512; at 1024 words three of 18 x 1024.
    assert shift_luts(33, 16) == 2 * 8 + 2 * 6  # two rows of 32, two bits a LUT; 6 address bits


def every_front(graph, choice, cost, most=4):
    """By brute force over all capacities up to `most`: pairs of cost and period, none better."""
    names, pairs = list(choice.widths), []
    for depths in product(range(1, most + 1), repeat=len(names)):
        capacities = dict(zip(names, depths, strict=True))
        if any(
            capacities[one.name] < one.initial_tokens for one in graph.channels if one.name in names
        ):
            continue
        now = throughput(with_capacities(graph, capacities))
        if now.deadlock is None:
            pairs.append((price(cost, choice, capacities), now.period))
    found = []
    for size, period in sorted(pairs):
        if not found or period < found[-1][1]:
            found.append((size, period))
    return found


@pytest.mark.parametrize("cost", [coarse, shift_luts])
@pytest.mark.parametrize("seed", range(4))
def test_no_point_of_a_front_of_memories_is_missing(cost, seed):
    graph, choice = drawn(seed)
    front = memory_front(graph, choice, cost)
    points = [(one.size, one.period) for one in front.points]
    assert front.is_complete
    for one in front.points:
        assert one.size == price(cost, choice, one.capacities)
        assert throughput(with_capacities(graph, one.capacities)).period == one.period
        whole = least_memory(graph, choice, cost, period=one.period)
        assert (whole.status, whole.point.size) == ("optimal", one.size)
    known = every_front(graph, choice, cost)
    assert all(any(size <= a and period <= b for size, period in points) for a, b in known)
    if all(max(one.capacities.values()) <= 4 for one in front.points):
        assert points == known


def test_a_front_of_memories_that_is_ended_has_proved_points_only():
    graph, choice = drawn(1)
    whole = [(one.size, one.period) for one in memory_front(graph, choice, coarse).points]
    for steps in (1, 3, 9, 30):
        ended = memory_front(graph, choice, coarse, budget=Stop(steps=steps))
        assert [(one.size, one.period) for one in ended.points] == whole[: len(ended.points)]
    first = memory_front(graph, choice, coarse, points=1)
    assert [(one.size, one.period) for one in first.points] == whole[:1]
    assert first.is_at_limit or len(whole) == 1


def test_the_commands_for_one_point_and_for_the_front_count_alike(capsys, tmp_path):
    table = tmp_path / "frames.csv"
    table.write_text(FRAMES)
    file = str(table)
    for objective in ("bits", *OBJECTIVES):
        assert main(["pareto", file, "--objective", objective, "--json", "--points", "3"]) == 0
        front = json.loads(capsys.readouterr().out)
        assert front["unit"] == objective
        assert len(front["points"]) == (2 if objective == "bram" else 3)
        for point in front["points"]:
            line = [file, "--objective", objective, "--period", point["period"], "--json"]
            assert main(["buffers", *line]) == 0
            assert json.loads(capsys.readouterr().out)["size"] == point["size"]


def test_an_ended_search_has_an_answer_and_a_bound():
    graph, choice = drawn(1)
    graph = replace(graph, name="ended")
    whole = least_memory(graph, choice, coarse)
    ended = least_memory(graph, choice, coarse, budget=Stop(steps=1))
    assert ended.status in {"feasible", "unknown", "optimal"}
    assert ended.lower_bound <= whole.point.size


@pytest.mark.parametrize("cost", [lambda _depth, _bits: 1, lambda depth, _bits: min(depth, 4)])
def test_a_cost_that_ceases_to_grow_has_an_answer(cost):
    graph, choice = drawn(0)
    best = least_memory(graph, choice, cost)
    assert best.status == "optimal"
    assert best.point.size == price(cost, choice, best.point.capacities)
    front = memory_front(graph, choice, cost)
    assert front.points[-1].period == throughput(graph).period


def test_a_size_above_a_bound_of_zero_has_no_gap_as_a_share():
    graph, choice = drawn(6)
    period = throughput(graph).period
    ended = least_memory(
        graph, choice, lambda depth, _bits: max(0, depth - 5), period=period, budget=Stop(steps=1)
    )
    assert (ended.status, ended.size, ended.lower_bound) == ("feasible", 4, 0)
    assert ended.gap is None
    assert gap_above(ended.size, ended.lower_bound) == "lower bound 0"


def test_a_rate_that_nothing_reaches_is_refused():
    graph, choice = drawn(2)
    fastest = throughput(graph).period
    if fastest:
        assert least_memory(graph, choice, coarse, period=fastest / 2).status == "infeasible"


def test_buffers_prints_block_rams(capsys, tmp_path):
    table = tmp_path / "frames.csv"
    table.write_text(FRAMES)
    assert main(["buffers", str(table), "--objective", "bram"]) == 0
    # 1024 words of 8 bits fit one block RAM (9 x 2048), of 16 bits one (18 x 1024).
    assert "storage 2 block RAMs, minimum (proved)" in capsys.readouterr().out


@pytest.mark.parametrize("width", [1, 2, 3, 8, 9, 16, 18, 24, 32, 36, 40, 72])
@pytest.mark.parametrize("depth", [257, 512, 1024, 2048, 8192, 32768])
def test_block_rams_are_copies_of_the_shape_that_the_page_names(depth, width):
    shapes = {1: 16384, 2: 8192, 4: 4096, 9: 2048, 18: 1024}
    if width > 18:
        bits, words = (36, 512) if depth <= 512 else (18, 1024)
    else:
        bits = min(bits for bits in shapes if bits >= width)
        words = shapes[bits]
    columns = sum(1 for start in range(0, width, bits) if start < width)
    rows = sum(1 for start in range(0, depth, words) if start < depth)
    assert blocks(depth, width) == rows * columns
