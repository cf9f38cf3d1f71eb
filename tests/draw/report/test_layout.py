import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import csdf
from csdf.draw.graph_drawing import HEIGHT, WIDTH, cut_apart, graph_svg
from csdf.draw.layered_layout import (
    BEND_HEIGHT,
    Neighbours,
    layers_of,
    layout,
    linear_order,
    ordered_layers,
    rows_of,
)

MODELS = Path(__file__).parents[3] / "models" / "graphs"

edges_of_graphs = st.integers(1, 12).flatmap(
    lambda nodes: st.tuples(
        st.just(nodes),
        st.lists(
            st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1), st.booleans()),
            max_size=25,
        ),
    )
)


def layers(nodes, edges, feedback):
    order = linear_order(nodes, edges, feedback)
    forward = [one if order[one[0]] <= order[one[1]] else one[::-1] for one in edges]
    return layers_of(nodes, [one for one in forward if one[0] != one[1]], order), forward


def test_a_cycle_is_opened_where_tokens_wait():
    # 0 -> 1 -> 2, and 2 -> 0 with tokens: only that edge leads back.
    order = linear_order(3, [(0, 1), (1, 2), (2, 0)], [False, False, True])
    assert order == [0, 1, 2]


@given(graph=edges_of_graphs)
def test_every_edge_leads_to_a_later_layer(graph):
    nodes, edges = graph
    found, forward = layers(nodes, [edge[:2] for edge in edges], [edge[2] for edge in edges])
    assert all(found[source] < found[target] for source, target in forward if source != target)
    assert min(found) >= 0


def test_a_source_stands_just_before_what_it_leads_to():
    # The chain 0 1 2 has layers 0 1 2; 3 leads to 2 alone, so it stands on layer 1, not 0.
    assert layers(4, [(0, 1), (1, 2), (3, 2)], [False] * 3)[0] == [0, 1, 2, 1]


def test_crossings_that_can_be_avoided_are_avoided():
    # 0 -> 3 and 1 -> 2 cross as numbered; one exchange undoes it.
    neighbours = Neighbours(4, [(0, 3), (1, 2)])
    first, second = ordered_layers([[0, 1], [2, 3]], neighbours, sweeps=4)
    assert [{0: 3, 1: 2}[one] for one in first] == second


@pytest.mark.parametrize("heights", [[1.0] * 5, [1.0, 0.35, 1.0, 0.35, 0.35]])
def test_nothing_of_one_layer_overlaps(heights):
    neighbours = Neighbours(5, [(0, 1), (0, 2), (0, 3), (0, 4)])
    rows = rows_of([[0], [1, 2, 3, 4]], neighbours, heights, 8)
    for one, other in combinations((1, 2, 3, 4), 2):
        assert abs(rows[one] - rows[other]) >= (heights[one] + heights[other]) / 2 - 1e-9


@given(graph=edges_of_graphs)
def test_no_two_actors_share_a_place_and_every_edge_begins_and_ends_at_its_actors(graph):
    nodes, edges = graph
    ends = [edge[:2] for edge in edges]
    found = layout(nodes, ends, [edge[2] for edge in edges])
    for one, other in combinations(found.nodes, 2):
        assert one[0] != other[0] or abs(one[1] - other[1]) >= (1 + BEND_HEIGHT) / 2 - 1e-6
    for (source, target), bend in zip(ends, found.bends, strict=True):
        assert (bend[0], bend[-1]) == (found.nodes[source], found.nodes[target])
    assert all(0 <= x < found.columns and -1e-6 <= y <= found.rows for x, y in found.nodes)


def test_a_long_chain_is_folded_into_lines_from_left_to_right():
    found = layout(100, [(n, n + 1) for n in range(99)], [False] * 99)
    assert found.columns < 20
    for number, (x, _) in enumerate(found.nodes):
        assert x == number % found.columns


def test_an_edge_into_the_next_line_goes_around_the_ends_of_both():
    found = layout(100, [(n, n + 1) for n in range(99)], [False] * 99)
    last = found.columns - 1
    begin, right, right_below, left_above, left, end = found.bends[last]
    assert begin == found.nodes[last]
    assert end == found.nodes[last + 1]
    assert right[0] == right_below[0] > last
    assert left[0] == left_above[0] < 0
    assert begin[1] < right_below[1] == left_above[1] < end[1]


def test_same_graph_same_layout():
    edges = [(n, (7 * n + 3) % 40) for n in range(40)]
    assert layout(40, edges, [False] * 40) == layout(40, edges, [False] * 40)


@pytest.mark.parametrize("name", ["modem", "satellite", "h263decoder"])
def test_no_label_covers_a_label_or_an_actor(name):
    svg = ElementTree.fromstring(graph_svg(csdf.read_graph(MODELS / f"{name}.xml")))
    boxes = []
    for node in svg.findall(".//{*}g"):
        if node.get("class", "").split()[:1] == ["node"]:
            x, y = map(float, re.findall(r"[\d.]+", node.get("transform")))
            boxes.append((x - WIDTH / 2, y - HEIGHT / 2, x + WIDTH / 2, y + HEIGHT / 2))
    actors = len(boxes)
    for label in svg.findall(".//{*}text"):
        if label.get("class") in {"rate", "tokens"}:
            x, y, width = float(label.get("x")), float(label.get("y")), 6 * len(label.text)
            left = x - width * {"start": 0, "middle": 0.5, "end": 1}[label.get("text-anchor")]
            boxes.append((left, y - 8, left + width, y))
    assert len(boxes) > actors
    for (a, b, c, d), (left, top, right, bottom) in combinations(boxes, 2):
        assert left >= c or a >= right or top >= d or b >= bottom


@given(
    names=st.lists(st.text("ab_1", min_size=1, max_size=60), min_size=1, max_size=8, unique=True)
)
@example(["x" * 7 + "a" + "y" * 9, "x" * 7 + "aa" + "y" * 9])
def test_short_names_have_at_most_sixteen_letters_and_differ(names):
    short = cut_apart(names).values()
    assert max(map(len, short)) <= 16
    assert len(set(short)) == len(names)


def test_short_names_that_differ_in_two_places_differ():
    names = [f"layer_block_{at}_conv_{of}_depthwise/add" for at in (10, 22) for of in range(4)]
    short = cut_apart(names)
    assert len(set(short.values())) == len(names)
    assert max(map(len, short.values())) <= 16


def test_a_sweep_that_adds_a_crossing_is_dropped():
    # As numbered only two edges cross; sorted by barycentres two pairs do.
    layers = [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    neighbours = Neighbours(9, [(1, 4), (1, 5), (2, 4), (2, 5), (2, 6), (6, 8)])
    assert ordered_layers(layers, neighbours, sweeps=1) == layers
