from fractions import Fraction

import pytest

from csdf.analysis.statistics import statistics
from csdf.errors import InconsistentGraph
from csdf.model.builder import GraphBuilder


def built(**sizes):
    # One cycle of a makes 3 tokens, one of b takes 2: two cycles of a, three of b.
    return (
        GraphBuilder()
        .actor("a", ["1/2", 1])
        .actor("b", 3, overlap=False)
        .channel("a", (1, 2), "b", 2, initial_tokens=5, token_size=sizes.get("c"), name="c")
        .graph()
    )


def test_the_figures_of_a_small_graph():
    figures = statistics(built())
    assert (figures.actors, figures.channels, figures.self_loops) == (2, 2, 1)
    assert figures.phases == 2 + 1
    assert figures.initial_tokens == 5 + 1
    assert figures.firings_per_iteration == 2 * 2 + 3
    assert figures.work == 2 * (Fraction(1, 2) + 1) + 3 * 3
    assert figures.tokens_moved == 6 + 3  # 6 from a to b, 3 in the self-loop of b


def test_bytes_are_known_where_every_token_size_is():
    assert statistics(built(c=4)).bytes_moved is None  # that of the self-loop is not
    graph = GraphBuilder().actor("a", 1).actor("b", 1)
    graph.channel("a", 2, "b", 3, initial_tokens=4, token_size=10)
    figures = statistics(graph.graph())
    # Three firings of a move 6 tokens.
    assert (figures.bytes_moved, figures.initial_bytes) == (60, 40)


def test_a_graph_without_repetition_vector_is_refused():
    with pytest.raises(InconsistentGraph):
        statistics(GraphBuilder().actor("a", 1).channel("a", 2, "a", 1).graph())
