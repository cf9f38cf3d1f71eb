"""C headers and the offline plan of TensorFlow Lite Micro."""

import re
import struct

import pytest

from csdf.errors import InvalidPlan, UnreadableFile
from planners.formats.c_header import format_header
from planners.formats.tflite_micro import offline_plan, parse_offline_plan
from planners.plan import MemoryPlan, Problem
from tests.planners.problems import problem_of


def planned(problem, offsets):
    return MemoryPlan(problem=problem, offsets=offsets, lower_bound=0, status="feasible", reason="")


def test_a_header_defines_the_arena_and_every_offset():
    problem = problem_of(("conv-1", 8, 0, 2, {"alignment": 8}), ("2", 4, 1, 3))
    text = format_header([planned(problem, {"conv-1": 0, "2": 8})])
    assert dict(re.findall(r"#define (\w+) (\d+)", text)) == {
        "EXAMPLE_ARENA_BYTES": "12",
        "EXAMPLE_ARENA_ALIGNMENT": "8",
        "EXAMPLE_OFFSET_CONV_1": "0",
        "EXAMPLE_OFFSET_2": "8",
    }


def test_names_that_c_cannot_tell_apart_are_refused():
    problem = problem_of(("a-b", 1, 0, 1), ("a.b", 1, 0, 1))
    with pytest.raises(
        InvalidPlan, match=r"'a\.b' and 'a-b' would both be EXAMPLE_OFFSET_A_B in C"
    ):
        format_header([planned(problem, {"a-b": 0, "a.b": 1})])


def test_a_name_cannot_end_the_comment():
    problem = Problem(name="*/ int x; /*\n", buffers=())
    comment = format_header([planned(problem, {})]).splitlines()[3]
    assert comment.count("*/") == 1


def test_an_offline_plan_is_a_header_and_an_offset_for_each_tensor():
    problem = problem_of(("3", 8, 0, 2), ("0", 4, 1, 3))
    content = offline_plan(planned(problem, {"3": 4, "0": 0}))
    # version 1, subgraph 0, tensors 0 to 3, of which 1 and 2 are left to the runtime
    assert content == struct.pack("<7i", 1, 0, 4, 0, -1, -1, 4)
    assert parse_offline_plan(content, "t.bin") == {"0": 0, "3": 4}


@pytest.mark.parametrize("name", ["conv", "-1", "1_0", "٣"])
def test_only_numbers_name_tensors(name):
    with pytest.raises(InvalidPlan, match="expected the number of a tensor"):
        offline_plan(planned(problem_of((name, 1, 0, 1)), {name: 0}))


def test_an_offset_beyond_32_bits_is_refused():
    with pytest.raises(InvalidPlan, match="an offset has 32 bits"):
        offline_plan(planned(problem_of(("0", 2**31, 0, 1)), {"0": 0}))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "0 bytes"),
        (b"12345678901234", "14 bytes"),
        (struct.pack("<3i", 7, 0, 0), "version 7"),
        (struct.pack("<4i", 1, 0, 2, 0), "announces 2 tensors, holds 1"),
        (struct.pack("<4i", 1, 0, 1, -2), "tensor 0 has offset -2"),
    ],
)
def test_a_broken_offline_plan_is_refused(content, complaint):
    with pytest.raises(UnreadableFile, match=complaint):
        parse_offline_plan(content, "t.bin")
