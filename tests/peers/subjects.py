"""The graphs that csdf and the peers are asked about, and where the peers are known to be wrong."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from csdf.errors import CsdfError
from csdf.generation import GraphShape, random_graph
from csdf.io.graph_files import read_graph
from tests.shared_data import GRAPHS as SHARED
from tests.shared_data import shared_graph

MODELS = Path(__file__).parents[2] / "models" / "graphs"
SIZE = 60  # most actors: larger graphs take the peers too long
SEEDS = range(12)

SDF = GraphShape(actors=5, extra_channels=3, max_extra_initial_tokens=3)
CSDF = GraphShape(actors=4, extra_channels=2, max_phases=3, max_extra_initial_tokens=3)
SMALL = GraphShape(actors=3, extra_channels=1, max_rate=4, max_repetitions=4, max_duration=6)
SHAPES = {"sdf": SDF, "csdf": CSDF, "small": SMALL, "small csdf": replace(SMALL, max_phases=2)}

# What a peer is known to say wrongly, by peer and question: the graphs and why. A peer that agrees
# after all fails the test, so that this list stays true.
OVERLAP = "phases that overlap: tokens underflow to a deadlock"
BITS_32 = "numbers beyond 32 bits"
BITS_64 = "numbers beyond 64 bits"
UNENDING = "compares floats for equality and never stops"
CYCLES = "loses cycles of storage dependencies"
PAIRS = "begins at a lower bound of phase pairs that is none"
INFINITE = "prints inf for a deadlock"
ONLY_LOOPS = "prints inf where only self-loops limit"
WRONG = {
    ("sdf3", "consistency"): {
        "small/multrate.xml": BITS_32,
        "traps/bigq_1e20.xml": BITS_32,
    },
    ("sdf3", "repetitions"): {
        "small/multrate.xml": BITS_32,
        "traps/bigq_1e12.xml": BITS_32,
        "traps/bigq_1e20.xml": BITS_32,
    },
    ("sdf3", "throughput"): {
        "csdf-ib5/JPEG2000.xml": BITS_32,
        "small/NiknamFig1.xml": OVERLAP,
        "small/multrate.xml": BITS_32,
        "traps/autoconc_decreasing.xml": OVERLAP,
        "traps/bigq_1e12.xml": BITS_32,
        "traps/bigq_1e20.xml": BITS_32,
    },
    ("sdf3", "front"): {
        "small 8": UNENDING,
        "small 9": UNENDING,
        "small 11": UNENDING,
        "small csdf 2": PAIRS,
        "small csdf 3": UNENDING,
        "small csdf 5": PAIRS,
        "small csdf 6": UNENDING,
        "small csdf 8": UNENDING,
        "traps/autoconc_decreasing.xml": OVERLAP,
        "traps/bigq_1e12.xml": BITS_32,
        "traps/bigq_1e20.xml": BITS_32,
        "traps/disconnected.xml": "measures one component only",
        "traps/float_equality_hang.xml": UNENDING,
        "traps/float_equality_hang2.xml": UNENDING,
        "traps/lb411.xml": PAIRS,
        "traps/lb_csdf7.xml": PAIRS,
        "traps/scc_cycle_bug.xml": CYCLES,
        "traps/scc_cycle_bug2.xml": CYCLES,
        "traps/selfloop2.xml": "never enlarges self-loops with two tokens",
    },
    ("sdf3", "points"): {
        "traps/autoconc_decreasing.xml": OVERLAP,
        "traps/bigq_1e12.xml": BITS_32,
        "traps/bigq_1e20.xml": BITS_32,
    },
    ("kiter", "repetitions"): {"traps/bigq_1e20.xml": BITS_64},
    ("kiter", "throughput"): {
        "models/deadlocked.xml": INFINITE,
        "small/faustExample.xml": ONLY_LOOPS,
        "traps/bigq_1e20.xml": BITS_64,
        "traps/deadlock2.xml": INFINITE,
        "traps/single_selfloop.xml": ONLY_LOOPS,
        "traps/source_selfloop_only.xml": ONLY_LOOPS,
        "traps/zero_time_cycle.xml": "prints inf where firings take no time",
    },
    ("kiter", "front"): {
        "small csdf 2": PAIRS,
        "small csdf 5": PAIRS,
        "traps/bigq_1e20.xml": BITS_64,
        "traps/lb411.xml": PAIRS,
        "traps/lb_csdf7.xml": PAIRS,
        "traps/selfloop2.xml": "counts the self-loop",
        "traps/single_selfloop.xml": ONLY_LOOPS,
    },
    ("kiter", "points"): {
        "traps/bigq_1e20.xml": BITS_64,
        "traps/single_selfloop.xml": ONLY_LOOPS,
    },
}
SLOW = {  # beyond the limit of one answer, which would only be waited for
    ("sdf3", "throughput"): ("csdf-ib5/PDectect_sized.xml", "traps/single_actor.xml"),
    ("kiter", "throughput"): ("csdf-ib5/Echo_sized.xml",),
}


def names():
    """All graphs by name, those beside the checkout where it is there."""
    yield from (f"models/{path.name}" for path in sorted(MODELS.glob("*.xml")))
    yield from (f"{kind} {seed}" for kind in SHAPES for seed in SEEDS)
    for folder in ("sdf3", "small", "csdf-ib5", "traps"):
        yield from (f"{folder}/{path.name}" for path in sorted((SHARED / folder).glob("*.xml")))


def graph_of(name):
    """The graph of that name; None where it is unreadable, too large, or its times are no integers."""
    kind, _, seed = name.rpartition(" ")
    if kind in SHAPES:
        return random_graph(int(seed), SHAPES[kind])
    try:
        path = name.removeprefix("models/")
        graph = read_graph(MODELS / path) if path != name else shared_graph(name)
    except CsdfError:
        return None
    usual = len(graph.actors) <= SIZE and graph.time_unit == Fraction(1)
    return replace(graph, origin=None) if usual else None


def asked(peer, question, chosen=lambda name: True):
    """Run a test for each graph; where the peer is known to be wrong it must fail."""
    known = WRONG.get((peer, question), {})
    values = [
        pytest.param(
            name,
            marks=[pytest.mark.xfail(reason=known[name], strict=True)] if name in known else [],
        )
        for name in names()
        if chosen(name) and name not in SLOW.get((peer, question), ())
    ]
    return pytest.mark.parametrize("name", values)
