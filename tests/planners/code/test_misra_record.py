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


def refusal_of(run, folder, record, path=None):
    """Output of csdf deploy where it refuses a record; path: folders of programs with cppcheck."""
    words = ("deploy", "keyword_spotting:rows=25", "--misra", record, "-o", folder / "c")
    with pytest.MonkeyPatch.context() as patch:
        if path is not None:
            patch.setenv("PATH", str(path))
        code, _, remarks = run(*words)
    assert code == 2
    assert not (folder / "c").exists()
    return remarks


def test_a_record_in_the_folder_of_the_library_is_refused_before_the_search(run, tmp_path):
    remarks = refusal_of(run, tmp_path, tmp_path / "c" / "misra.csv")
    assert "is in the folder of the library; write it beside" in remarks
    assert "is a folder" in refusal_of(run, tmp_path, tmp_path)
    assert "expected a file, such as misra.csv or /dev/stdout" in refusal_of(run, tmp_path, "-")


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 1", "failed: exit code 1 without a message; install"),
        ("echo no python; exit 1", "failed: no python; install"),
        ("echo Bailing out from checking sign.c >&2", "failed: Bailing out from checking sign.c;"),
        ("exit 0", "failed: it finds no deviation in a file that has some; install"),
    ],
)
def test_a_cppcheck_that_does_not_work_is_refused_before_the_search(run, tmp_path, script, reason):
    program = tmp_path / "cppcheck"
    program.write_text(f"#!{shutil.which('sh')}\n{script}\n")
    program.chmod(0o755)
    assert reason in refusal_of(run, tmp_path, tmp_path / "misra.csv", tmp_path)


@pytest.mark.parametrize(
    ("text", "line", "function"),
    [
        ("void f(int a);\n\nstatic const int t[1] = {\n    1};", 4, ""),
        ("void f(int a,\n       int b);\nint last;", 2, ""),
        ("CHECK(a);\nint last;", 2, ""),
        ("static inline int *f(int a,\n    int b)\n{\n    x;\n}", 4, "f"),
        ("static inline int *f(int a,\n    int b)\n{\n    x;\n}\nint last;", 6, ""),
    ],
)
def test_no_declaration_or_macro_is_the_function_of_a_place(tmp_path, text, line, function):
    (tmp_path / "a.c").write_text(text)
    (place,) = located([("a.c", str(line), "2.4")], tmp_path)
    assert place.function == function


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
