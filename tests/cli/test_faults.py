"""A fault of the program: never an answer, least of all "no"; it asks for a report."""

import json

import pytest

from csdf.analysis import throughput as analysis
from csdf.cli.frame.output import FAULT
from tests.cli.running import GRAPHS

EXAMPLE = GRAPHS / "csdf_example.xml"


@pytest.fixture
def disagreement(monkeypatch):
    """Let two analyses disagree."""

    def disagree(*_):
        raise AssertionError("two analyses disagree about a deadlock")

    monkeypatch.setattr(analysis, "named_cycle", disagree)


def test_a_fault_has_an_exit_code_of_its_own_and_asks_for_a_report(run, disagreement):
    code, output, remarks = run("analyze", EXAMPLE)
    assert (code, output) == (FAULT, "")
    assert FAULT not in (0, 1, 2, 3)
    assert remarks.startswith("Traceback")
    *_, last = remarks.splitlines()
    assert last.startswith("csdf analyze: internal error: AssertionError: ")
    assert "two analyses disagree about a deadlock; please report it" in last


def test_a_fault_is_an_object_with_json(run, disagreement):
    code, output, _ = run("analyze", EXAMPLE, "--json")
    found = json.loads(output)
    assert (code, found["exit_code"]) == (FAULT, FAULT)
    assert "disagree" in found["error"]
