"""Commands are found through entry points: those of the project, and those of other packages."""

import os
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from csdf import entries
from csdf.cli.frame import commands

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMAND = '''
    """`csdf plan stripes`: memory in stripes."""

    from csdf.cli import parsers


    def work(options):
        print(f"{options.model} in stripes")
        return 1


    def command_parser():
        parser = parsers.new_parser("csdf plan stripes", "Memory in stripes.", work=work)
        parser.add_argument("model")
        return parser
'''


@pytest.fixture
def stripes(install):
    """A planner of another package; its module goes when the test ends."""
    install("acme", {"plan.stripes": "acme_stripes"}, {"acme_stripes": COMMAND})
    yield
    sys.modules.pop("acme_stripes", None)


def test_every_entry_point_of_the_project_is_a_module():
    for group in PROJECT["entry-points"].values():
        for module in group.values():
            assert find_spec(module) is not None, module


def test_a_planner_of_another_package_runs_like_our_own(run, stripes):
    assert run("plan", "stripes", "resnet8") == (1, "resnet8 in stripes\n", "")


def test_a_planner_of_another_package_is_listed_with_its_purpose(run, stripes):
    code, output, _ = run("plan", "--help")
    assert code == 0
    assert "\n  stripes     memory in stripes\n" in output
    assert "acme_stripes" not in sys.modules  # read, not run


def test_a_planner_of_another_package_is_completed(run, stripes):
    _, output, _ = run("completion", "bash")
    assert "stripes" in output


def test_a_whole_group_may_come_from_another_package(run, install):
    group = '"""`csdf rtl`: hardware."""\nABOUT = "Hardware."\nEXAMPLE = "csdf rtl make x"\n'
    install("acme", {"rtl": "acme_rtl", "rtl.make": "acme_make"}, {"acme_rtl": group})
    code, output, _ = run("rtl", "--help")
    assert (code, output.splitlines()[0]) == (0, "usage: csdf rtl COMMAND ...")
    assert "\n  rtl         hardware\n" in run("--help")[1]


def test_an_entry_of_the_project_cannot_be_replaced(run, install):
    install("acme", {"analyze": "acme_analyze"}, {"acme_analyze": "main = lambda words: 3\n"})
    assert run("analyze", "none.xml")[0] == 2
    assert commands.below("")["analyze"].module == "csdf.cli.analyze"


def test_two_packages_with_one_name_are_told_apart_by_a_refusal(run, install):
    install("acme", {"plan.stripes": "acme_stripes"})
    install("other", {"plan.stripes": "other_stripes"})
    code, output, remarks = run("plan", "stripes")
    assert (code, output) == (2, "")
    assert "acme and other both offer 'plan.stripes'; uninstall one of them" in remarks
    assert run("analyze", "none.xml")[2].startswith("csdf analyze: ")  # ours run all the same


def test_a_command_that_cannot_be_imported_names_its_package(run, install):
    install("acme", {"plan.stripes": "acme_absent"})
    code, output, remarks = run("plan", "stripes")
    assert (code, output) == (2, "")
    assert remarks == (
        "csdf plan stripes: acme_absent of acme cannot be imported: No module named 'acme_absent'; "
        "pip install acme installs what it needs\n"
    )


def lines_at(home, monkeypatch):
    """The commands that a copy of the package in another folder finds."""
    monkeypatch.setattr(entries, "HOME", home)
    entries._own_lines.cache_clear()
    try:
        return entries.own_entries(entries.COMMANDS)
    finally:
        monkeypatch.undo()
        entries._own_lines.cache_clear()


def test_an_installed_copy_reads_its_package_metadata(tmp_path, monkeypatch):
    about = tmp_path / "csdf-9.dist-info"
    about.mkdir()
    text = "[console_scripts]\ncsdf = a:b\n\n[csdf.commands]\nAnalyze.it = csdf.cli.analyze\n"
    (about / "entry_points.txt").write_text(text)
    (found,) = lines_at(tmp_path, monkeypatch).values()
    assert found == ("Analyze.it", "csdf.cli.analyze", "csdf")


def test_a_checkout_reads_its_own_list_whatever_is_installed(tmp_path, monkeypatch):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "csdf-0.0.dist-info").mkdir()
    (tmp_path / "csdf-0.0.dist-info" / "entry_points.txt").write_text("[csdf.commands]\nx = y\n")
    found = lines_at(tmp_path, monkeypatch)
    assert set(found) == set(PROJECT["entry-points"]["csdf.commands"])


def test_the_list_of_another_project_is_not_ours(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    with pytest.raises(entries.CsdfError, match="nor the metadata of an installation"):
        lines_at(tmp_path, monkeypatch)


def test_a_command_loads_no_other_command_and_looks_through_no_other_package():
    code = (
        "import sys; from csdf.cli.main import main; main(sys.argv[1:])\n"
        "print([m for m in sys.modules if m.startswith(('cnn2csdf', 'planners', 'importlib.meta'))])"
    )
    graph = ROOT / "models" / "graphs" / "csdf_example.xml"
    ran = subprocess.run(
        [sys.executable, "-c", code, "analyze", str(graph)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[-1] == "[]"


SECTION = """
    from csdf.draw.report.markup import element
    from csdf.draw.report.sections import Contribution, Section


    def contribution(subject, budget):
        text = f"{type(subject.value).__name__} in stripes"
        return Contribution(sections=(Section("stripes", "Stripes", element("p", text)),))
"""


@pytest.mark.parametrize(
    ("kind", "model", "shown"),
    [
        ("network", "samos_example", "Network in stripes"),
        ("graph", ROOT / "models" / "graphs" / "modem.xml", "Graph in stripes"),
        ("network", ROOT / "models" / "graphs" / "modem.xml", None),
    ],
)
def test_another_package_adds_a_section_to_a_report(run, install, tmp_path, kind, model, shown):
    group = entries.REPORT_SECTIONS
    install("acme", {f"{kind}.stripes": "acme_section"}, {"acme_section": SECTION}, group)
    page = tmp_path / "page.html"
    assert run("report", model, "-o", page)[0] == 0
    sys.modules.pop("acme_section", None)
    assert (f"<p>{shown}</p>" in page.read_text()) == (shown is not None)
    assert ("stripes" in page.read_text()) == (shown is not None)


def test_the_start_of_analyze_loads_only_what_the_answer_needs():
    code = (
        "import sys; from csdf.cli.main import main\n"
        f"main(['analyze', {str(ROOT / 'models/graphs/modem.xml')!r}])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unused = {"configparser", "csdf.scenarios.model", "csdf.analysis.schedules", "numpy", "json"}
    unused.add("shutil")
    assert unused.isdisjoint(ran.stderr.split())
