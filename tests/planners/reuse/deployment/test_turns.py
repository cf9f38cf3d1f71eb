"""Firings that happen at the same time."""

from dataclasses import replace

import pytest

from csdf.errors import ExecutionError
from figures.published.reuse_example import example_cnn1, worked_example
from planners.reuse.application.application import Application, divided
from planners.reuse.cost.evaluation import Evaluator
from planners.reuse.deployment.turns import stages, teams
from tests.planners.reuse.deployment.deployed import TOLERANCE, as_published, run

TWO = (  # of five layers each, in two partitions
    divided(replace(example_cnn1(), name="A"), (2, 3)),
    divided(replace(example_cnn1(), name="B"), (3, 2)),
)


def planned(*parallel):
    application = Application(name="two", members=TWO, parallel=tuple(map(frozenset, parallel)))
    plan = as_published(Evaluator(application), (None,) * len(application.layers))
    return application, plan


def order(plan, frames):
    """Names of what works at the same time, with frames."""
    return [
        [
            [(work.partition.name, work.frame) for work in works]
            for works in stages(team, 0, [frames] * len(team.networks))
        ]
        for team in teams(plan)
    ]


def test_networks_take_turns_frame_by_frame():
    _, plan = planned()
    assert order(plan, 2) == [
        [[("A/1", 0)], [("A/2", 0)], [("A/1", 1)], [("A/2", 1)]],
        [[("B/1", 0)], [("B/2", 0)], [("B/1", 1)], [("B/2", 1)]],
    ]


def test_a_pipeline_is_filled_and_drained():
    plan = as_published(Evaluator(worked_example()), (None,) * 9)
    assert order(plan, 3)[1] == [
        [("P2", 0)],
        [("P2", 1), ("P3", 0)],
        [("P2", 2), ("P3", 1)],
        [("P3", 2)],
    ]


def test_networks_of_one_parallel_set_work_at_the_same_time():
    application, plan = planned(("A/1", "A/2", "B/1", "B/2"))
    assert order(plan, 1) == [[[("A/1", 0), ("B/1", 0)], [("A/2", 0), ("B/2", 0)]]]
    assert run(application, plan, counts={"A": 4, "B": 3}, frames_a_turn=3) < TOLERANCE


def test_a_network_partly_in_a_set_with_another_is_refused():
    _, plan = planned(("A/1", "A/2", "B/1"))
    with pytest.raises(ExecutionError, match="not the whole of 'B' does"):
        teams(plan)


def test_no_frame_a_turn_is_refused():
    application, plan = planned()
    with pytest.raises(ExecutionError, match="0 frames a turn"):
        run(application, plan, frames_a_turn=0)
