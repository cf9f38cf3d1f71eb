"""Vertex covers as depths of FIFOs, the reduction of docs/theory-fifo.md: smallest depths are hard."""

from itertools import combinations

import numpy as np
import pytest

from planners.fifo.design import Design, DesignLayer, Fifo
from planners.fifo.evaluator import DesignEvaluator
from planners.fifo.event_graph import EventGraph
from planners.fifo.sizing import smallest_depths
from planners.fifo.study import max_rate
from planners.fifo.timing.cluster import Cluster, EventSequence, Wait, WordPort

GAP, LATENCY = 2, 3  # cycles from word to word; from a word of a vertex to those of its edges


def sequence(name):
    return EventSequence(name=name, events=1, gap=GAP)


def design_of(vertices, edges):
    """A producer and a consumer for each vertex, joined by its FIFO; one FIFO each way for each edge.

    One word a frame. The FIFOs of vertices are wider than those of all edges hold bits at depth 3.
    """
    wide = 6 * len(edges) + 1
    both = [*edges, *((v, u) for u, v in edges)]
    layers, fifos = [], []
    for vertex in range(vertices):
        own = WordPort(sequence=0, words=1, bits=wide)
        late = [WordPort(sequence=1, words=1, bits=1) for u, _ in both if u == vertex]
        wait = Wait(waiter=1, source=0, events=np.zeros(1, np.int64), delay=LATENCY)
        writer = Cluster(
            sequences=(sequence("begin"), sequence("end")), waits=(wait,), inputs=(),
            outputs=(own, *late),
        )  # fmt: skip
        taken = [WordPort(sequence=0, words=1, bits=1) for _, v in both if v == vertex]
        reader = Cluster(sequences=(sequence("read"),), waits=(), inputs=(own, *taken), outputs=())
        layers += [
            DesignLayer(name=f"p{vertex}", kind="P", cluster=writer),
            DesignLayer(name=f"q{vertex}", kind="Q", cluster=reader),
        ]
        fifos.append(fifo(vertex, 0, vertex, 0, wide))
    outputs, inputs = [1] * vertices, [1] * vertices
    for u, v in both:
        fifos.append(fifo(u, outputs[u], v, inputs[v], 1))
        outputs[u], inputs[v] = outputs[u] + 1, inputs[v] + 1
    return Design(name="cover", layers=tuple(layers), fifos=tuple(fifos))


def fifo(u, output, v, given, bits):
    return Fifo(
        name=f"p{u} to q{v}", producer=2 * u, output=output, consumer=2 * v + 1, input=given,
        bits=bits, words=1,
    )  # fmt: skip


def least_cover(vertices, edges):
    for size in range(vertices + 1):
        for chosen in combinations(range(vertices), size):
            if all({*edge} & {*chosen} for edge in edges):
                return chosen
    raise AssertionError("all vertices are a cover")


RING = [(one, (one + 1) % 5) for one in range(5)]
CUBE = [
    (0, 1),
    (1, 2),
    (2, 3),
    (3, 0),
    (4, 5),
    (5, 6),
    (6, 7),
    (7, 4),
    (0, 4),
    (1, 5),
    (2, 6),
    (3, 7),
]


@pytest.mark.parametrize(
    ("vertices", "edges"),
    [
        (3, [(0, 1), (1, 2)]),
        (3, [(0, 1), (1, 2), (2, 0)]),
        (4, list(combinations(range(4), 2))),
        (5, RING),
        (5, [*RING, (0, 2)]),
        (8, CUBE),
    ],
)
def test_smallest_depths_at_max_rate_are_a_smallest_vertex_cover(vertices, edges):
    graph = EventGraph(design_of(vertices, edges))
    rate, _ = max_rate(graph)
    assert rate == GAP
    cover = least_cover(vertices, edges)
    enough = [3 if one in cover else 2 for one in range(vertices)] + [3] * (2 * len(edges))
    assert DesignEvaluator(graph, required=rate).suffices(enough)
    found = smallest_depths(graph, rate)
    assert found.status == "optimal"
    depths = found.depths[:vertices]
    assert set(depths) <= {2, 3}
    assert all(depths[u] + depths[v] >= 5 for u, v in edges)
    assert sum(depths) == 2 * vertices + len(cover)
