"""Problems as JSON."""

import json

import pytest
from hypothesis import given

from csdf.errors import UnreadableFile
from planners.arena.problem import Bank
from planners.formats.json_problems import parse_problems
from tests.planners.problems import format_problems, problem_of, problems


@given(problems())
def test_what_is_written_reads_back(problem):
    assert parse_problems(format_problems([problem, problem]), "t.json") == [problem, problem]


def test_banks_and_hints_read_back():
    problem = problem_of(
        ("a", 8, 0, 1, {"bank": "fast", "hint": 4, "alignment": 4}),
        banks=(Bank(name="fast", capacity=16), Bank(name="slow", capacity=64)),
    )
    assert parse_problems(format_problems([problem]), "t.json") == [problem]


def document(**changes):
    buffer = {"id": "a", "size": 1, "start": 0, "end": 1} | changes
    return json.dumps({"problems": [{"name": "p", "buffers": [buffer]}]})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"problems": [', "t.json:1: not JSON"),
        ("{}", "t.json: the key 'problems' is missing"),
        ('{"problems": [{"name": "p"}]}', "t.json: problems[0]: the key 'buffers' is missing"),
        (document(colour=1), "t.json: problems[0].buffers[0]: the key 'colour' is unknown"),
        (document(size=1.5), "t.json: problems[0].buffers[0].size: found 1.5; expected an integer"),
        (document(size=True), "t.json: problems[0].buffers[0].size: found True"),
        (document(start=2), "t.json: problems[0].buffers[0]: buffer 'a' ends at 1, before"),
        (
            '{"problems": [{"name": "p", "buffers": [], "may_overlap": [["a"]]}]}',
            "t.json: problems[0].may_overlap[0]: found ['a']; expected a list of 2",
        ),
        (
            '{"problems": [{"name": "p", "buffers": [], "may_overlap": [["a", "b"]]}]}',
            "t.json: problems[0]: may_overlap names the unknown buffer 'a'",
        ),
    ],
)
def test_a_broken_document_is_refused_with_its_place(text, complaint):
    with pytest.raises(UnreadableFile) as found:
        parse_problems(text, "t.json")
    assert str(found.value).startswith(complaint)
