"""The networks of Tables 6.1 to 6.3 (TODAES 28(1), 2022) in one arena, with their real rates."""

import pytest

from figures.published.reuse_example import PRINTED_PHASES, worked_example
from planners.reuse.evaluation import Evaluator
from tests.planners.reuse.deployment.deployed import TOLERANCE, as_published, by_offsets, run

EXAMPLE = worked_example()
EVALUATOR = Evaluator(EXAMPLE)
WHOLE = (None,) * len(EXAMPLE.layers)
ROWS = (1,) * len(EXAMPLE.layers)
PRINTED = tuple(
    1 if layer in PRINTED_PHASES.get(network, ()) else None for network, layer in EXAMPLE.layers
)


@pytest.mark.parametrize(("genes", "elements"), [(WHOLE, 24_586), (PRINTED, 19_712)])
def test_the_published_plan_runs_in_the_elements_of_its_table(genes, elements):
    # Tables 6.2 and 6.3. The layers that work by rows have the same rows waiting with and without
    # padding: what they read is there as a whole.
    plan = as_published(EVALUATOR, genes)
    assert plan.memory.peak == 4 * elements
    assert run(EXAMPLE, plan) < TOLERANCE


@pytest.mark.parametrize("genes", [WHOLE, PRINTED, ROWS])
def test_offsets_run_in_no_more_bytes(genes):
    plan = by_offsets(EVALUATOR, genes)
    assert plan.memory.peak <= as_published(EVALUATOR, genes).memory.peak
    assert run(EXAMPLE, plan) < TOLERANCE


def test_networks_may_have_different_numbers_of_frames():
    plan = as_published(EVALUATOR, PRINTED)
    assert run(EXAMPLE, plan, counts={"CNN1": 1, "CNN2": 5}) < TOLERANCE
    assert run(EXAMPLE, plan, counts={"CNN1": 4, "CNN2": 0}) < TOLERANCE


def test_the_schedule_is_that_of_table_6_3():
    # l3, l4 and l5 of CNN1 take turns, a row each; l1 and l2 come before, whole.
    (first, *_) = as_published(EVALUATOR, PRINTED).plan.orders
    assert first == (0, 1, *(2, 3, 4) * 32)


def test_a_double_buffer_stays_in_both_partitions():
    plan = as_published(EVALUATOR, WHOLE).plan
    spans = {
        edge.name: [(stay.partition, *span) for stay, span in zip(edge.stays, own, strict=True)]
        for edge, own in zip(plan.edges, plan.spans, strict=True)
    }
    # P2, partition 1, is l1, l2: its step 1 writes. P3 is l3, l4: its step 0 reads.
    assert spans["CNN2: l2 to l3 (1)"] == [(1, 1, 1)]
    assert spans["CNN2: l2 to l3 (2)"] == [(2, 0, 0)]
