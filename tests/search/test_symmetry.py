"""Symmetries are those of the graph, and a search that uses them finds the same front."""

from dataclasses import replace

import pytest

from csdf.generation import GraphShape, random_graph
from csdf.model.builder import GraphBuilder
from csdf.search import named_search
from csdf.search.evaluator import CapacityEvaluator
from csdf.search.exploration import Exploration
from csdf.search.learned_bounds import InsufficientRegion
from csdf.search.parted_exploration import PartedExploration
from csdf.search.symmetry import Symmetries, evened, within
from csdf.search.trade_off import pareto_front, smallest_storage
from csdf.search.variables import SearchSpace, prepared, size_of
from tests.search.front_graphs import (
    DISTRIBUTIONS,
    SHAPES,
    brute_points,
    count_of_distributions,
    front_of,
    known_points,
    largest_size,
)
from tests.shared_data import each, shared_graph

SMALL = GraphShape(actors=2, extra_channels=0, max_phases=2, max_repetitions=3, max_rate=3)
ALIKE = ("sdf3/mp3decoder_granule_parallelism.xml", "sdf3/satellite.xml")


def mirrored(graph, times=2):
    """The graph so many times, all with one and the same first actor."""
    hub = graph.actors[0].name

    def named(name, copy):
        return name if name == hub else f"{name}.{copy}"

    def copied(channel, copy):
        producer, consumer = named(channel.producer, copy), named(channel.consumer, copy)
        return replace(channel, name=f"{channel.name}.{copy}", producer=producer, consumer=consumer)

    copies = range(times)
    others = (replace(one, name=named(one.name, i)) for i in copies for one in graph.actors[1:])
    own = [one for one in graph.channels if one.producer == one.consumer == hub]
    rest = (copied(one, i) for i in copies for one in graph.channels if one not in own)
    return replace(graph, actors=(graph.actors[0], *others), channels=(*own, *rest), origin=None)


def symmetries_of(graph, choice=SearchSpace()):  # noqa: B008
    kept, variables, _ = prepared(graph, choice)
    return Symmetries(CapacityEvaluator(kept, variables).bare, variables), variables


def is_renaming(graph, channels):
    """Whether actors can be renamed so that the channels, renamed like this, give the same graph."""
    actors = {}
    for one in graph.channels:
        other = graph.channel(channels.get(one.name, one.name))
        for here, there in ((one.producer, other.producer), (one.consumer, other.consumer)):
            if actors.setdefault(here, there) != there:
                return False
        like = replace(other, name=one.name, producer=one.producer, consumer=one.consumer)
        if replace(like, token_size=one.token_size) != one:
            return False
    return all(
        graph.actor(here).durations == graph.actor(there).durations
        for here, there in actors.items()
    )


@pytest.fixture
def without(monkeypatch):
    """A call without symmetries."""

    def call(function, *arguments, **named):
        with monkeypatch.context() as patch:
            patch.setattr(Symmetries, "_generators", lambda self: [])
            return function(*arguments, **named)

    return call


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_copies_round_an_actor_are_found_alike(shape, times):
    for seed in range(4):
        one = random_graph(seed, SHAPES[shape])
        graph = mirrored(one, times)
        symmetries, variables = symmetries_of(graph)
        names = [variable.channels[0].name for variable in variables]
        reached = {
            (names[place], names[other])
            for found in symmetries.generators
            for place, other in enumerate(found)
        }
        for channel in one.channels:
            if f"{channel.name}.0" in names:
                pair = f"{channel.name}.0", f"{channel.name}.{times - 1}"
                assert {pair, pair[::-1]} & reached, seed


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_found_gives_the_same_graph(shape):
    for seed in range(8):
        graph = mirrored(random_graph(seed, SHAPES[shape]))
        symmetries, variables = symmetries_of(graph)
        names = [variable.channels[0].name for variable in variables]
        for found in symmetries.generators:
            renamed = {names[place]: names[other] for place, other in enumerate(found)}
            # Self-loops are no variables: they go with their actors, of which each has but one.
            loops = [one for one in graph.channels if one.is_self_loop]
            bare = replace(
                graph,
                channels=tuple(one for one in graph.channels if one not in loops),
                origin=None,
            )
            assert is_renaming(bare, renamed), seed


@pytest.mark.parametrize("patience", [0, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_front_is_the_same_with_symmetries(monkeypatch, without, shape, patience):
    monkeypatch.setattr(named_search, "PATIENCE", patience)
    for seed in range(5):
        graph = mirrored(random_graph(seed, SHAPES[shape]))
        plain, front = without(front_of, graph), front_of(graph)
        size = min(largest_size(plain), largest_size(front))
        below = [[one for one in known_points(f) if one[0] <= size] for f in (plain, front)]
        assert below[0] == below[1], seed


@pytest.mark.parametrize("patience", [0, 3])
def test_a_front_of_copies_is_that_of_brute_force(monkeypatch, patience):
    monkeypatch.setattr(named_search, "PATIENCE", patience)
    compared = 0
    for seed in range(16):
        graph = mirrored(random_graph(seed, SMALL), 2 + seed % 2)
        front = front_of(graph)
        if count_of_distributions(graph, largest_size(front)) <= DISTRIBUTIONS:
            brute = brute_points(graph, front)
            assert known_points(front) == [p for p in brute if p[0] <= largest_size(front)], seed
            compared += 1
    assert compared > 4


@pytest.mark.parametrize("patience", [0, 3])
def test_the_least_storage_for_a_period_is_the_same_with_symmetries(monkeypatch, without, patience):
    monkeypatch.setattr(named_search, "PATIENCE", patience)
    for seed in range(12):
        graph = mirrored(random_graph(seed, SHAPES["CSDF"]))
        for point in without(pareto_front, graph, points=3).points:
            if point.period:
                found = smallest_storage(graph, period=point.period)
                assert found.point.size == found.lower_bound == point.size, seed


@each("name", ALIKE)
def test_published_graphs_that_are_alike_have_the_same_points(monkeypatch, without, name):
    graph = shared_graph(name)
    plain = without(pareto_front, graph, points=9)
    monkeypatch.setattr(named_search, "PATIENCE", 20)
    front = pareto_front(graph, points=9)
    assert known_points(front)[:9] == known_points(plain)[:9]


def sides(joined, tokens=(0, 0)):
    """A source and two sides of two channels; `joined`: a channel between their ends as well."""
    builder = GraphBuilder()
    builder.actor("source", 2, overlap=False)
    for side, initial in zip("lr", tokens, strict=True):
        builder.actor(f"{side}1", 3, overlap=False).actor(f"{side}2", 4, overlap=False)
        builder.channel("source", 2, f"{side}1", 1, name=f"{side}a", initial_tokens=initial)
        builder.channel(f"{side}1", 1, f"{side}2", 1, name=f"{side}b")
    if joined:
        builder.channel("l2", 1, "r2", 1, name="lr", initial_tokens=1)
        builder.channel("r2", 1, "l2", 1, name="rl", initial_tokens=1)
    return builder.graph()


def test_two_sides_change_places_and_one_that_has_a_token_more_does_not():
    symmetries, variables = symmetries_of(sides(joined=False))
    assert [variable.channels[0].name for variable in variables] == ["la", "lb", "ra", "rb"]
    assert symmetries.generators == [(2, 3, 0, 1)]
    assert symmetries.onto([0, 1], [2, 3]) == (2, 3, 0, 1)
    assert symmetries.onto([0, 1], [1, 2]) is None
    assert symmetries_of(sides(joined=False, tokens=(0, 1)))[0].generators == []


def test_a_weight_or_a_fixed_capacity_on_one_side_ends_the_symmetry():
    graph = sides(joined=False)
    assert symmetries_of(graph, SearchSpace(fixed={"la": 7}))[0].generators == []
    widths = {"la": 3, "ra": 3, "lb": 5, "rb": 5}
    assert symmetries_of(graph, SearchSpace(unit="bits", widths=widths))[0].generators
    assert not symmetries_of(graph, SearchSpace(unit="bits", widths=widths | {"rb": 4}))[
        0
    ].generators
    assert (
        symmetries_of(graph, SearchSpace(shared=[["la", "ra"], ["lb", "rb"]]))[0].generators == []
    )


def test_sides_that_are_alike_are_searched_once(monkeypatch):
    images = []
    take = PartedExploration._take

    def taken(self, places, known):
        take(self, places, known)
        images.append(sorted(len(part.images) for part in self._parts))

    monkeypatch.setattr(PartedExploration, "_take", taken)
    monkeypatch.setattr(named_search, "PATIENCE", 0)
    pareto_front(sides(joined=False))
    # Four channels, and at first no cut: a part and an image of it for each of two pairs.
    assert images[3] == [2, 2]
    assert max(images[-1]) == 2


def test_joined_sides_are_one_part_in_which_one_of_two_distributions_is_looked_at(without):
    graph = sides(joined=True)

    def looked_at(symmetries):
        kept, variables, _ = prepared(graph, SearchSpace())
        exploration = Exploration(
            CapacityEvaluator(kept, variables), variables, lambda: None, symmetries
        )
        best = exploration.cheapest(lambda period: period is not None and period <= 8)
        return size_of(variables, best), exploration.evaluator.count

    generators = symmetries_of(graph)[0].generators
    assert len(generators) == 1
    (size, count), (plain_size, plain_count) = looked_at(generators), looked_at(())
    assert size == plain_size
    assert count <= plain_count


def test_a_cut_is_learned_with_its_images():
    graph = sides(joined=False)
    kept, variables, _ = prepared(graph, SearchSpace())
    exploration = Exploration(
        CapacityEvaluator(kept, variables), variables, lambda: None, [(2, 3, 0, 1)]
    )
    exploration.learn(InsufficientRegion({0: 4, 3: 2}))
    exploration.learn(InsufficientRegion({2: 4, 1: 2}))  # the image, which is known
    assert list(exploration.cuts) == [
        InsufficientRegion({0: 4, 3: 2}),
        InsufficientRegion({2: 4, 1: 2}),
    ]


def test_symmetric_variables_share_their_minimum_capacity():
    _, variables = symmetries_of(sides(joined=False))
    more = [replace(variables[0], least=9), *variables[1:]]
    assert [one.least for one in evened(more, [(2, 3, 0, 1)])] == [9, 1, 9, 1]


def test_a_symmetry_within_a_part_is_told_by_the_order_in_it():
    assert within((2, 3, 0, 1), [0, 2]) == (1, 0)
    assert within((2, 3, 0, 1), [0, 1]) is None  # taken away
    assert within((1, 0, 2, 3), [2, 3]) is None  # nothing moves
