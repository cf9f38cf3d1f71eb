"""Offsets of pieces, and labels of which none is worse than another, against every pair."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners.arena.problem import Buffer
from planners.memory.labels import undominated
from planners.memory.placement import ChainGroup, ExactPlacement, buffer_offsets, chain_offsets

TRIPLES = st.lists(st.tuples(*(st.integers(0, 6),) * 3), min_size=1, max_size=40)


def is_covered(one, other):
    return all(a >= b for a, b in zip(one, other, strict=True))


@given(triples=TRIPLES)
def test_every_triple_is_kept_or_covered_by_one_that_is_kept(triples):
    columns = (np.array(column, np.int64) for column in zip(*triples, strict=True))
    kept = [triples[number] for number in undominated(*columns)]
    assert all(any(is_covered(one, two) for two in kept) for one in triples)
    assert not any(is_covered(one, two) for one in kept for two in kept if one is not two)


def buffer_of(name, size, begin, end, alignment):
    return Buffer(name=name, size=size, start=begin, end=end, alignment=alignment)


def placed(pieces, leads, enough):
    """Offsets of pieces, of which those with a w are whole tensors."""
    whole = frozenset(piece.name for piece in pieces if "w" in piece.name)
    return buffer_offsets(pieces, leads, whole=whole, enough=enough)


@st.composite
def chains(draw, most_groups=4, most_inner=3, most_shared=0):
    """Whole tensors, each alive in two groups, pieces inside groups, and leads of each group.

    most_shared: pieces that several groups need and that are no tensors, such as resident weights.
    """
    count = draw(st.integers(1, most_groups))
    sizes = [draw(st.integers(1, 40)) for _ in range(count + 1)]
    pieces = [
        buffer_of(f"w{n}", size, max(n - 1, 0), min(n, count - 1) + 1, 1)
        for n, size in enumerate(sizes)
    ]
    for group in range(count):
        for number in range(draw(st.integers(0, most_inner))):
            size, alignment = draw(st.integers(1, 30)), draw(st.sampled_from([1, 4]))
            pieces.append(buffer_of(f"i{group}{number}", size, group, group + 1, alignment))
    for number in range(draw(st.integers(0, most_shared))):
        begin = draw(st.integers(0, count - 1))
        end, size = draw(st.integers(begin + 1, count)), draw(st.integers(1, 30))
        pieces.append(buffer_of(f"s{number}", size, begin, end, 4))
    leads = {(f"w{n + 1}", f"w{n}"): draw(st.integers(0, 40)) for n in range(count)}
    return pieces, leads


@settings(deadline=None)
@given(chain=chains(most_shared=2))
def test_pieces_that_are_alive_together_lie_apart_unless_a_lead_allows_it(chain):
    pieces, leads = chain
    assert_apart(pieces, leads, placed(pieces, leads, enough=0))


@settings(deadline=None)
@given(chain=chains(most_shared=2))
def test_weights_of_several_groups_lie_apart_from_the_pieces_of_each(chain):
    # Without the exact search, so that the chain of groups or first fit places everything.
    pieces, leads = chain
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExactPlacement, "within", lambda *_: None)
        offsets = placed(pieces, leads, enough=0)
    assert_apart(pieces, leads, offsets)


def assert_apart(pieces, leads, offsets):
    for one in pieces:
        assert offsets[one.name] >= 0
        assert offsets[one.name] % one.alignment == 0
        for two in pieces:
            if one is two or one.start >= two.end or two.start >= one.end:
                continue
            assert any(
                offsets[high.name] - offsets[low.name]
                >= min(low.size, leads.get((low.name, high.name), low.size))
                for low, high in ((one, two), (two, one))
            )


def least_arena(pieces, leads):
    """The least arena of all orders in which each piece lies as low as those before it allow.

    Every plan can be pushed down to one that comes about so: piece by piece, by offset.
    """

    def rise(low, high):
        return min(low.size, leads.get((low.name, high.name), low.size))

    def is_free(at, piece, offsets, done):
        return all(
            at - offsets[one.name] >= rise(one, piece) or offsets[one.name] - at >= rise(piece, one)
            for one in done
            if one.start < piece.end and piece.start < one.end
        )

    ends = []
    for order in permutations(pieces):
        offsets = {}
        for number, piece in enumerate(order):
            at = 0
            while not is_free(at, piece, offsets, order[:number]):
                at += piece.alignment
            offsets[piece.name] = at
        ends.append(max(offsets[one.name] + one.size for one in pieces))
    return min(ends)


@settings(deadline=None, max_examples=25)
@given(chain=chains(most_groups=2, most_inner=1))
def test_the_arena_of_a_few_pieces_is_the_least_of_all_orders(chain):
    pieces, leads = chain
    offsets = placed(pieces, leads, enough=0)
    assert max(offsets[one.name] + one.size for one in pieces) == least_arena(pieces, leads)


def test_tensors_that_lead_one_another_go_down_through_the_arena():
    # Each of 64 bytes lies 3 below the one before, and beside it are 29 bytes of its group: the first
    # at 36 of 100 leaves 33 below the second and 30 below the third, so that all 29 lie at the bottom.
    pieces = [buffer_of(f"w{n}", 64, max(n - 1, 0), n + 1, 1) for n in range(3)]
    pieces += [buffer_of(f"i{n}", 29, n, n + 1, 1) for n in range(2)]
    leads = {(f"w{n + 1}", f"w{n}"): 3 for n in range(2)}
    offsets = placed(pieces, leads, enough=64 + 3 + 29)
    assert max(offsets[one.name] + one.size for one in pieces) <= 100


def test_a_group_of_many_large_pieces_is_packed_without_a_gap():
    # One group by rows, as of a deep network: a result and sixty lines, so 2 ** 60 ways to share
    # them out below and above it. They fit beside one another in the sum of their sizes.
    lines = [buffer_of(f"i{n}", 30_011 + 7 * n * n, 0, 1, 1) for n in range(60)]
    pieces = [buffer_of("w", 1_000, 0, 1, 1), *lines]
    enough = sum(piece.size for piece in pieces)
    found = placed(pieces, {}, enough=enough)
    assert max(found[piece.name] + piece.size for piece in pieces) == enough
    ends = sorted((found[piece.name], found[piece.name] + piece.size) for piece in pieces)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))


def test_many_inner_buffers_fill_the_room_below_a_tensor():
    # 2 ** 60 subsets have millions of sums. The tensor is at half of the arena.
    inner = tuple((f"i{n}", 30_011 + 7 * n * n) for n in range(60))
    total = sum(size for _, size in inner)
    groups = [ChainGroup("", "w", 0, inner)]
    offsets = chain_offsets(groups, {"w": 1_000}, total + 1_000, 1)
    places = sorted((offsets[name], offsets[name] + size) for name, size in (*inner, ("w", 1_000)))
    assert places[-1][1] == total + 1_000
    assert all(end <= begin for (_, end), (begin, _) in pairwise(places))
