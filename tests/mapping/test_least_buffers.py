"""The least buffers of a mapping, against brute force by execution."""

import random
from dataclasses import replace
from itertools import combinations, pairwise
from math import comb

import pytest

from csdf.analysis.bound_channels import (
    bound_channels,
    with_capacities,
    without_auto_concurrency,
)
from csdf.analysis.throughput import throughput
from csdf.errors import CsdfError
from csdf.mapping.binding import buffer_sides
from csdf.mapping.buffers import min_buffers
from csdf.mapping.execution import mapped_execution
from csdf.mapping.model import (
    Buffer,
    Connection,
    Core,
    InvalidMapping,
    Mapping,
    Platform,
    StaticOrder,
)
from csdf.mapping.throughput import mapped_throughput
from csdf.model.builder import GraphBuilder
from csdf.status import Status
from tests.mapping.test_mapped_graphs import random_case

TRIED = 40  # choices of one token less, where there are more


def chain():
    """a (2) -> b (3), two tokens a firing, no way back: only room holds a back."""
    return GraphBuilder("g").actor("a", 2).actor("b", 3).channel("a", 2, "b", 2, name="ab").graph()


def apart(**connection):
    """Each actor on a processor of its own."""
    ends = (("p", "q"), ("q", "p"))
    platform = Platform(
        name="two",
        cores=(Core(name="p"), Core(name="q")),
        connections=tuple(Connection(source=a, target=b, **connection) for a, b in ends)
        if connection
        else (),
    )
    orders = {"p": StaticOrder(periodic=("a",)), "q": StaticOrder(periodic=("b",))}
    return platform, Mapping(binding={"a": "p", "b": "q"}, orders=orders)


def test_room_for_two_firings_lets_producer_and_consumer_overlap():
    # b takes 3 time units. With room for one firing a and b take turns, 5; with room for two, 3.
    assert min_buffers(chain(), *apart(), period=5).size == 2
    found = min_buffers(chain(), *apart(), period=3)
    assert (found.size, found.status, found.found.period) == (4, Status.OPTIMAL, 3)
    assert found.mapping.buffers == {"ab": Buffer(memory=4)}


def test_a_channel_over_a_connection_has_room_on_both_sides():
    found = min_buffers(chain(), *apart(latency=1), period=100)
    # a puts two tokens down at once, b takes two at once; neither side may be smaller.
    assert found.mapping.buffers == {"ab": Buffer(source=2, target=2)}


def test_names_of_transfers_are_free_in_a_graph():
    platform, mapping = apart(latency=1, wait=1, is_pipelined=False)
    answer = min_buffers(chain(), platform, mapping, period=11)
    builder = GraphBuilder("g").actor("ab (transfer)", 2).actor("ab (wait)", 3)
    builder.channel("ab (transfer)", 2, "ab (wait)", 2, name="ab")
    for name in ("sent", "arrived", "transfer", "limit", "transfer) (limit", "space at its source"):
        builder.channel("ab (wait)", 1, "ab (wait)", 1, initial_tokens=9, name=f"ab ({name})")
    renamed = {"a": "ab (transfer)", "b": "ab (wait)"}
    mapping = Mapping(
        binding={renamed[actor]: core for actor, core in mapping.binding.items()},
        orders={
            core: StaticOrder(periodic=tuple(renamed[actor] for actor in order.periodic))
            for core, order in mapping.orders.items()
        },
    )
    named = min_buffers(builder.graph(), platform, mapping, period=11)
    assert named.mapping.buffers["ab"] == answer.mapping.buffers["ab"]
    assert named.found.period == answer.found.period


def test_reverse_channels_of_a_graph_are_channels_with_buffers():
    graph = bound_channels(with_capacities(chain(), {"ab": 4}))
    plain = replace(
        graph,
        channels=tuple(replace(channel, name="".join(channel.name)) for channel in graph.channels),
    )
    found, expected = (min_buffers(each, *apart(), period=5) for each in (graph, plain))
    assert found == expected
    assert found.mapping.buffers.keys() == {"ab", "ab (space)"}


def test_without_a_period_the_buffers_only_prevent_deadlock():
    assert min_buffers(chain(), *apart()).size == 2


def test_no_buffers_make_a_mapping_faster_than_its_processors():
    found = min_buffers(chain(), *apart(), period=2)
    assert (found.status, found.mapping, found.size) == (Status.INFEASIBLE, None, None)
    assert str(found.reason) == "with unlimited buffers the period is 3"


def test_orders_that_deadlock_are_told():
    graph = GraphBuilder("g").actor("a", 2).actor("b", 3).channel("a", 1, "b", 1).graph()
    platform = Platform(name="one", cores=(Core(name="p"),))
    order = StaticOrder(periodic=("b", "a"))
    stuck = Mapping(binding={"a": "p", "b": "p"}, orders={"p": order})
    found = min_buffers(graph, platform, stuck)
    assert found.status == Status.INFEASIBLE
    assert "deadlock" in str(found.reason)


def test_a_period_has_to_be_above_zero():
    with pytest.raises(CsdfError, match="expected more than 0"):
        min_buffers(chain(), *apart(), period=0)


def test_the_budget_ends_the_search_with_buffers_and_a_bound():
    found = min_buffers(chain(), *apart(), period=3, budget=0)
    assert found.status in (Status.FEASIBLE, Status.UNKNOWN)
    assert found.lower_bound == 2  # what a single firing needs


def test_a_buffer_takes_the_place_of_the_capacity_in_the_graph():
    platform, mapping = apart()
    bounded = with_capacities(chain(), {"ab": 2})
    assert mapped_throughput(bounded, platform, mapping).period == 5
    roomy = Mapping(
        binding=mapping.binding, orders=mapping.orders, buffers={"ab": Buffer(memory=4)}
    )
    assert mapped_throughput(bounded, platform, roomy).period == 3


def test_a_window_keeps_its_space_until_it_is_released():
    """b consumes at its first phase what it gives back only after its second."""
    graph = (
        GraphBuilder("window")
        .actor("a", 2)
        .actor("b", (1, 4))
        .channel("a", 1, "b", (1, 0), release=(0, 1), name="ab")
        .graph()
    )
    platform, mapping = apart()
    orders = {"p": StaticOrder(periodic=("a",)), "q": StaticOrder(periodic=("b", "b"))}
    mapping = Mapping(binding=mapping.binding, orders=orders, buffers={"ab": Buffer(memory=1)})
    alone = throughput(without_auto_concurrency(with_capacities(graph, {"ab": 1}))).period
    assert mapped_throughput(graph, platform, mapping).period == alone == 7


def test_a_buffer_smaller_than_its_initial_tokens_is_refused():
    graph = (
        GraphBuilder("g").actor("a", 2).actor("b", 3)
        .channel("a", 1, "b", 1, initial_tokens=3, name="ab").graph()
    )  # fmt: skip
    platform, mapping = apart()
    small = Mapping(
        binding=mapping.binding, orders=mapping.orders, buffers={"ab": Buffer(memory=2)}
    )
    with pytest.raises(InvalidMapping, match="'ab': a buffer of 2 tokens for 3 initial ones"):
        mapped_throughput(graph, platform, small)


def with_sizes(mapping, rooms, sizes):
    sides = {}
    for (channel, side), size in zip(rooms, sizes, strict=True):
        sides.setdefault(channel, {})[side] = size
    buffers = {channel: Buffer(**one) for channel, one in sides.items()}
    return Mapping(binding=mapping.binding, orders=mapping.orders, buffers=buffers)


def divided(total, parts, draw, most):
    """Ways to write a total as so many numbers that are not negative: all, or so many of them."""
    places = total + parts - 1
    if comb(places, parts - 1) <= most:
        bars = combinations(range(places), parts - 1)
    else:
        bars = (sorted(draw.sample(range(places), parts - 1)) for _ in range(most))
    for chosen in bars:
        ends = [-1, *chosen, places]
        yield [last - first - 1 for first, last in pairwise(ends)]


def suffices(graph, platform, mapping, rooms, sizes, period):
    """By execution, which shares nothing with the cycle ratios of the search."""
    try:
        trial = with_sizes(mapping, rooms, sizes)
        found = mapped_execution(graph, platform, trial).period
    except InvalidMapping:  # less than the initial tokens
        return False
    return found is not None and found <= period


def compare(seed):
    """No choice of one token less suffices, and the one found does.

    Every choice below is at most, in each room, one of those of one token less: more room never harms.
    """
    graph, platform, mapping = random_case(seed)
    if len(graph.actors) > 3:
        graph, platform, mapping = random_case(10_000 + seed)
    rooms = [(c, s) for c, sides in buffer_sides(graph, platform, mapping).items() for s in sides]
    free = mapped_execution(graph, platform, mapping).period
    period = free * random.Random(seed).choice([1, 1, 2]) + seed % 2
    found = min_buffers(graph, platform, mapping, period=period)
    assert found.status == Status.OPTIMAL, seed
    sizes = [getattr(found.mapping.buffers[channel], side) for channel, side in rooms]
    assert sum(sizes) == found.size
    assert suffices(graph, platform, mapping, rooms, sizes, period), seed
    floor = [_floor(graph, channel, side) for channel, side in rooms]
    spare = found.size - 1 - sum(floor)
    draw = random.Random(seed)
    for more in divided(spare, len(rooms), draw, TRIED) if spare >= 0 else ():
        trial = [least + one for least, one in zip(floor, more, strict=True)]
        assert not suffices(graph, platform, mapping, rooms, trial, period), (seed, trial)


def _floor(graph, name, side):
    """Return the tokens of the fullest firing on that side; the rooms of the rest are not smaller."""
    channel = graph.channel(name)
    made, taken = max(channel.production), max(channel.consumption)
    if side == "memory":
        return max(made, taken, channel.initial_tokens)
    return max(made, channel.initial_tokens) if side == "source" else taken


@pytest.mark.parametrize("seed", range(30))
def test_no_smaller_buffers_suffice(seed):
    compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(2))
def test_no_smaller_buffers_suffice_for_many_mappings(block):
    for seed in range(100 + 50 * block, 150 + 50 * block):
        compare(seed)
