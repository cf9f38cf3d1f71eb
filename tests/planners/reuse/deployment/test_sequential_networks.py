"""Firings that happen at the same time."""

import re
from dataclasses import replace

import pytest

from csdf.errors import ExecutionError, InvalidPlan
from figures.published.reuse_example import example_cnn1, worked_example
from planners.plan.carried_out import require_carried_out
from planners.plan.checker import require_apart
from planners.plan.plan import Kind, StreamBuffer
from planners.reuse.application import Application
from planners.reuse.deployment import concurrent_partitions
from planners.reuse.evaluation import Evaluator
from tests.planners.reuse.deployment.deployed import TOLERANCE, as_published, checked, run
from tests.planners.reuse.front.small_applications import divided

TWO = (  # of five layers each, in two partitions
    divided(replace(example_cnn1(), name="A"), (2, 3)),
    divided(replace(example_cnn1(), name="B"), (3, 2)),
)


def planned(*parallel):
    application = Application(name="two", members=TWO, parallel=tuple(map(frozenset, parallel)))
    plan = as_published(Evaluator(application), (None,) * len(application.layers))
    return application, plan


def test_networks_in_sequence_have_no_concurrent_partitions():
    application, _ = planned()
    assert concurrent_partitions(application) == {}


def test_a_pipeline_has_a_turn_of_its_own():
    assert concurrent_partitions(worked_example()) == {"P2": "P2, P3", "P3": "P2, P3"}


def test_a_part_of_a_network_in_a_set_of_its_own_takes_turns():
    application, _ = planned(("A/1",))
    assert concurrent_partitions(application) == {}


def test_networks_of_one_parallel_set_work_at_the_same_time():
    application, plan = planned(("A/1", "A/2", "B/1", "B/2"))
    assert run(application, plan, counts={"A": 3, "B": 2}) < TOLERANCE
    first, second = checked(application, plan)
    words = {group.concurrent for one in (first, second) for group in one.groups}
    assert words == {"A/1, A/2, B/1, B/2"}
    # l2 is the last layer of A/1, and l3 and l4 of A/2 read it: an edge each.
    assert [len(group.transfers) for group in first.groups] == [0, 2]


def test_networks_at_the_same_time_have_no_byte_in_common():
    application, plan = planned(("A/1", "A/2", "B/1", "B/2"))
    first, second = checked(application, plan)
    over = first.buffers[0].offset
    moved = tuple(replace(one, offset=over) if one.size else one for one in second.buffers[:1])
    wrong = replace(second, buffers=(*moved, *second.buffers[1:]))
    with pytest.raises(InvalidPlan, match="may work at the same time, but buffers"):
        require_apart([first, wrong])


def test_partitions_of_a_pipeline_have_no_byte_in_common():
    application, plan = planned(("A/1", "A/2"))
    first, _ = checked(application, plan)
    copy = first.groups[1].transfers[0]
    lower = next(one for one in first.buffers if one.name == copy.source)
    moved = tuple(
        replace(one, offset=lower.offset) if one.name == copy.target else one
        for one in first.buffers
    )
    with pytest.raises(InvalidPlan, match="may work at the same time, but buffers"):
        require_carried_out(application.members[0].network, replace(first, buffers=moved))


def test_concurrent_groups_of_a_network_may_share_resident_weights():
    application, plan = planned(("A/1", "A/2"))
    first, _ = checked(application, plan)
    weights = StreamBuffer.of_group(Kind.RESIDENT, "l2", 0, len(first.groups), size=8)
    at_end = replace(weights, offset=first.arena_bytes)
    require_apart([replace(first, buffers=(*first.buffers, at_end))])
    over = replace(weights, offset=first.buffers[0].offset)
    with pytest.raises(InvalidPlan, match=r"but buffers .*l2 resident weights"):
        require_apart([replace(first, buffers=(*first.buffers, over))])


def test_a_hand_over_of_what_is_not_there_is_refused():
    application, plan = planned(("A/1", "A/2"))
    first, _ = checked(application, plan)
    network = application.members[0].network
    copy, *others = first.groups[1].transfers
    wrong = {
        "0 buffers with all rows have the name 'x'": replace(copy, source="x"),
        "expected two buffers of one tensor": replace(copy, source=copy.target),
        "begins with group 2, behind the making of 'l2', but does not take it over": None,
    }
    for words, one in wrong.items():
        group = replace(first.groups[1], transfers=(one, *others) if one else ())
        with pytest.raises(InvalidPlan, match=re.escape(words)):
            require_carried_out(network, replace(first, groups=(first.groups[0], group)))


def test_a_network_partly_in_a_set_with_another_is_refused():
    application, _ = planned(("A/1", "A/2", "B/1"))
    with pytest.raises(ExecutionError, match="not the whole of 'B' does"):
        concurrent_partitions(application)


def test_a_layer_that_reads_in_a_buffer_of_other_groups_is_refused():
    application, plan = planned(("A/1", "A/2"))
    first, _ = checked(application, plan)
    group = replace(first.groups[1], transfers=())
    targets = {copy.target for copy in first.groups[1].transfers}
    buffers = tuple(one for one in first.buffers if one.name not in targets)
    wrong = replace(first, groups=(first.groups[0], group), buffers=buffers)
    words = "layer 'l3' reads 'l2' in buffer 'l2 to l3 (1)', which groups 1 to 1 have"
    with pytest.raises(InvalidPlan, match=re.escape(words)):
        require_carried_out(application.members[0].network, wrong)
