"""MiniMalloc's CSV."""

import pytest
from hypothesis import given

from csdf.errors import UnreadableFile
from planners.arena.problem import MemoryPlan
from planners.formats.allocation_traces import format_offsets, parse_buffers
from tests.planners.problems import csv_of, problem_of, problems


def test_columns_stand_in_any_order_and_optional_ones_may_be_empty():
    text = "size,id,upper,lower,alignment,offset,hint\n 8,a,3,1,4,16,\n2,b,2,2,,,6\n"
    problem = parse_buffers(text, "t.csv", "t")
    assert [(b.size, b.start, b.end, b.alignment, b.offset, b.hint) for b in problem.buffers] == [
        (8, 1, 3, 4, 16, None),
        (2, 2, 2, 1, None, 6),
    ]


@given(problems())
def test_what_is_written_reads_back(problem):
    found = parse_buffers(csv_of(problem), "t.csv", problem.name)
    assert found.buffers == problem.buffers


def test_offsets_stand_in_a_column_of_their_own():
    problem = problem_of(("a", 8, 1, 3), ("b", 2, 0, 4))
    plan = MemoryPlan(
        problem=problem, offsets={"a": 2, "b": 0}, lower_bound=10, status="optimal", reason=""
    )
    assert format_offsets(plan) == "id,lower,upper,size,offset\na,1,3,8,2\nb,0,4,2,0\n"


HEADER = "id,lower,upper,size\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "t.csv:1: is empty; expected the header id,lower,upper,size"),
        ("id,lower,size\n", "t.csv:1: the header has no column 'upper'"),
        ("id,lower,upper,size,colour\n", "t.csv:1: the header has the column 'colour', unknown"),
        (HEADER + "a,0,1\n", "t.csv:2: found 3 values; expected 4"),
        (HEADER + "a,0,1,-3\n", "t.csv:2: buffer 'a', size: found '-3'; expected a whole number"),
        (HEADER + "a,0,,3\n", "t.csv:2: buffer 'a', upper: found ''"),
        (HEADER + "a,0,1.5,3\n", "t.csv:2: buffer 'a', upper: found '1.5'"),
        (HEADER + "a,0,1," + "9" * 5000 + "\n", "t.csv:2: buffer 'a', size: found '999"),
        (HEADER + "a,2,1,3\n", "t.csv:2: buffer 'a' ends at 1, before it starts at 2"),
        (HEADER + "a,0,1,3\n\na,0,1,3\n", "t.csv:4: two buffers have the id 'a'"),
    ],
)
def test_a_broken_table_is_refused_with_its_line(text, complaint):
    with pytest.raises(UnreadableFile) as found:
        parse_buffers(text, "t.csv", "t")
    assert str(found.value).startswith(complaint)
