"""The rings of the self-timed kernel: where a queue goes round its end, nothing changes."""

import pytest

from csdf.analysis.bound_channels import bound_channels
from csdf.analysis.consistency import repetition_vector
from csdf.analysis.execution import Execution
from csdf.generation import random_graph
from csdf.model.builder import GraphBuilder
from csdf.model.indexed import indexed
from csdf.time_limit import Stop
from tests.analysis.graph_shapes import SHAPES

ITERATIONS = 6
ENDLESS = 4000  # entries: more batches than any queue of these graphs gets, so that none goes round


def execution(monkeypatch, graph, room):
    """The records of an execution, and its state, iteration by iteration; room: of each new ring."""
    plain = Execution._lay_out

    def lay_out(self, sizes, batches, channels):
        begin = [max(room, len(queue) + 1) for queue in batches]
        plain(self, sizes if hasattr(self, "_rings") else begin, batches, channels)

    with monkeypatch.context() as patch:
        patch.setattr(Execution, "_lay_out", lay_out)
        bounded = bound_channels(graph)
        run = Execution(indexed(bounded), list(repetition_vector(graph).values()))
    found = []
    for _ in range(ITERATIONS):
        record = run.recorded(1)
        found.append((None if record is None else list(record), run.state()))
    return found


@pytest.mark.parametrize("room", [2, 3, 5])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_queue_that_goes_round_its_ring_keeps_its_order(monkeypatch, shape, room):
    for seed in range(12):
        graph = random_graph(seed, shape)
        round_and_round = execution(monkeypatch, graph, room)
        assert round_and_round == execution(monkeypatch, graph, ENDLESS), seed


def test_an_execution_that_is_not_compiled_looks_at_its_watch_as_often():
    # Times beyond 64 bits are not compiled, and each firing takes a hundred times as long: of 12,000
    # firings some are between two looks, but not all.
    looks = []
    graph = GraphBuilder().actor("a", 2**70, overlap=False).actor("b", 1, overlap=False)
    graph = indexed(graph.channel("a", 1, "b", 1).graph())
    run = Execution(graph, [6_000, 6_000], budget=Stop(report=looks.append))
    assert run.recorded(1) is not None
    assert len(looks) >= 2
