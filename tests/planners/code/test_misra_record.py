"""The record of deviations from MISRA C:2012: places by cppcheck, with reasons and risks."""

import csv
import shutil

import pytest

from csdf.errors import CsdfError
from planners.code.misra import ASSESSMENTS, COLUMNS, deviations_in, located, record, summary
from tests.cli.running import run

__all__ = ["run"]

TEXT = """typedef struct {
    int a;
} pair;

static int first(const int *p,
                 int n)
{
    return *(p + n);
}

int last;
"""


def deviations(tmp_path):
    (tmp_path / "a.c").write_text(TEXT)
    return located([("a.c", "8", "18.4"), ("a.c", "2", "2.4"), ("a.c", "11", "99.1")], tmp_path)


def test_a_place_has_its_function_and_code(tmp_path):
    found = [(place.rule, place.line, place.function, place.code) for place in deviations(tmp_path)]
    assert found == [
        ("2.4", 2, "", "int a;"),
        ("18.4", 8, "first", "return *(p + n);"),
        ("99.1", 11, "", "int last;"),
    ]


def test_the_record_has_reason_and_risk_of_each_rule(tmp_path):
    rows = list(csv.DictReader(record(deviations(tmp_path)).splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert rows[1]["category"] == "advisory"
    assert "out of bounds" in rows[1]["risk"]
    assert rows[2]["reason"] == "not assessed"
    assert summary(deviations(tmp_path)) == "3 places of 3 rules; not assessed: 99.1"


def test_each_assessment_has_a_category_a_reason_and_a_risk():
    for rule, (category, reason, risk) in ASSESSMENTS.items():
        assert category in ("advisory", "required"), rule
        assert reason.endswith(".") or reason.startswith("{"), rule
        assert risk.endswith("."), rule


def test_a_missing_cppcheck_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CsdfError, match="cppcheck is not installed; install it"):
        deviations_in(tmp_path, ["a.c"])


def test_deploy_refuses_the_record_without_cppcheck_before_it_searches(run, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ("deploy", "resnet8", "--misra", tmp_path / "m.csv", "-o", tmp_path / "c")
    code, _, remarks = run(*words)
    assert code == 2
    assert "cppcheck is not installed" in remarks
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="cppcheck is not installed")
def test_each_rule_that_a_small_library_deviates_from_is_assessed(run, tmp_path):
    words = ("deploy", "resnet8:resolution=16", "--target", "cortex-m4", "--input", "rows")
    code, output, remarks = run(*words, "--misra", tmp_path / "m.csv", "-o", tmp_path / "c")
    assert code == 0, remarks
    rows = list(csv.DictReader((tmp_path / "m.csv").read_text().splitlines()))
    assert rows
    assert [row["rule"] for row in rows if row["reason"] == "not assessed"] == []
    assert not {row["rule"] for row in rows} & {"8.5", "12.1"}
    assert f"  misra    {len(rows)} places of " in output
