"""Deployments as JSON."""

import json

import pytest

from csdf.errors import UnreadableFile
from figures.published.reuse_example import worked_example
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.deployment.json_text import format_deployment, parse_deployment
from tests.planners.reuse.deployment.deployed import as_published, by_offsets

EXAMPLE = worked_example()
EVALUATOR = Evaluator(EXAMPLE)
WHOLE = (None,) * len(EXAMPLE.layers)
ROWS = (1,) * len(EXAMPLE.layers)
PUBLISHED = as_published(EVALUATOR, WHOLE)


@pytest.mark.parametrize("genes", [WHOLE, ROWS])
@pytest.mark.parametrize("make", [as_published, by_offsets])
def test_json_reads_back_as_the_same_plan(make, genes):
    plan = make(EVALUATOR, genes)
    assert parse_deployment(format_deployment(plan), "plan.json") == plan


def test_the_keys_of_the_json_stay():
    found = json.loads(format_deployment(PUBLISHED))
    assert list(found) == [
        "name", "status", "reason", "arena_bytes", "lower_bound", "weights", "element_bytes",
        "parallel", "buffers", "partitions",
    ]  # fmt: skip
    # Table 6.2: 24,586 elements. Weights: 5 * 5 * 3 * 8 + 8 of each l2, 5 * 5 * 8 * 8 + 8 of CNN1's
    # l3, and 28 * 28 * 8 * 10 + 10 of CNN2's.
    assert found["arena_bytes"] == 4 * 24_586
    assert found["weights"] == 4 * (2 * 608 + 1608 + 62_730)
    assert found["parallel"] == [["P2", "P3"]]
    assert found["buffers"][0] == {
        "name": "CNN1: l1 to l2", "network": "CNN1", "producer": "l1", "consumer": "l2", "input": 0,
        "offset": 0, "size": 12_288, "row_bytes": 4 * 3 * 32, "stays": [["P1", 0, 1]],
        "in_place": False,
    }  # fmt: skip
    assert found["partitions"][2] == {
        "name": "P3", "network": "CNN2", "layers": ["l3", "l4"],
        "firings": [[0, 0, 0, 1], [1, 0, 0, 1]],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"arena_bytes": 98344', '"arena_bytes": 98343', "of an arena of 98343"),
        ('"arena_bytes": 98344', '"arena_bytes": "98344"', "expected an integer"),
        ('"lower_bound"', '"bound"', "'lower_bound' is missing"),
        ('[["P1", 0, 1]]', '[["P1", 0]]', "expected a partition, a first step and a last step"),
        ('[["P1", 0, 1]]', '[["P1", 0, 5]]', "from step 0 to 5 of partition 'P1', which has 5"),
        ('[["P1", 0, 1]]', "[]", "is in use in no partition"),
        ('[["P2", "P3"]]', '[["P2", "P4"]]', "there is no partition 'P4'"),
        ("[[0, 0, 0, 1], [1, 0, 0, 1]]", "[[0, 0, 0]]", "expected a layer, a phase"),
        ("[[0, 0, 0, 1], [1, 0, 0, 1]]", "[[2, 0, 0, 1]]", "fires layer 2; it has 2"),
        ("[[0, 0, 0, 1], [1, 0, 0, 1]]", "[]", "fires nothing"),
        ('"row_bytes": 384', '"row_bytes": 0', "has 12288 bytes and rows of 0; expected room"),
        ('"row_bytes": 384', '"row_bytes": 12292', "has 12288 bytes and rows of 12292"),
        ('"element_bytes": 4', '"element_bytes": 0', "expected at least 1"),
        ('"element_bytes": 4', '"element_bytes": 3', "expected whole elements of 3"),
    ],
)
def test_a_document_with_a_mistake_is_refused_with_its_place(old, new, complaint):
    text = format_deployment(PUBLISHED)
    assert old in text
    with pytest.raises(UnreadableFile, match=complaint):
        parse_deployment(text.replace(old, new, 1), "plan.json")
