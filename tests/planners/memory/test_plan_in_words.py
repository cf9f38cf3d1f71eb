"""`str(plan)`: all that a plan holds, in lines of 80 columns."""

import re
from dataclasses import replace

import pytest

from planners.memory.fit import fit
from planners.memory.memories import planned_in_memories
from planners.memory.request import fit_request
from planners.plan.plan import Kind
from tests.planners.memory.test_memories import memories, two_layers


@pytest.fixture(scope="module")
def planned():
    """Plans of all methods in one memory, and of rows beside a slow one."""
    network = two_layers()
    in_memories = planned_in_memories(
        fit_request(
            network, memories=memories(7 * 32), element_bytes=1, platform=None, output="external"
        ),
        None,
    )
    methods = fit(network, element_bytes=1, labels=(2,)).methods
    return [*(method.plan for method in methods), in_memories.plan]


def test_a_plan_in_words_has_all_stages_and_buffers_in_80_columns(planned):
    for plan in planned:
        lines = str(plan).splitlines()
        assert all(len(line) <= 80 for line in lines)
        text = " ".join(" ".join(lines).split())
        for group in plan.groups:
            for stage in group.stages:
                assert f": {', '.join(stage.layers)}" in text
        rows = [re.match(r" +(\d+) +(\d+) +\d+", line) for line in lines]
        shown = sorted((int(row[1]), int(row[2])) for row in rows if row)
        assert shown == sorted((one.offset, one.size) for one in plan.buffers if one.size)


def test_the_peak_is_the_last_byte_that_a_group_has_in_the_arena(planned):
    plan = planned[0]
    tops = re.findall(r"^group \d+: up to byte (\d+)(, the peak)?$", str(plan), re.MULTILINE)
    ends = [
        max(
            one.offset + one.size
            for one in plan.buffers
            if one.begin <= number < one.end and one.kind is not Kind.EXTERNAL and one.size
        )
        for number in range(len(plan.groups))
    ]
    assert [int(top) for top, _ in tops] == ends
    assert max(ends) == plan.arena_bytes
    assert [bool(peak) for _, peak in tops] == [end == plan.arena_bytes for end in ends]


def test_long_names_are_cut_in_front(planned):
    plan, name = planned[0], "/model/block/" * 10 + "conv"
    buffers = tuple(replace(buffer, tensor=name) for buffer in plan.buffers)
    lines = str(replace(plan, buffers=buffers)).splitlines()
    assert sum(line.endswith("block/conv") and "  .." in line for line in lines) > 3
    assert all(len(line) <= 80 for line in lines)
