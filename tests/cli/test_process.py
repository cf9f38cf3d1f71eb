"""The command as a process of its own: what it loads, where it may write, who reads it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import csdf
from csdf import entries
from csdf.kernels import compile as compiler
from tests.cli.running import GRAPHS

PACKAGE = Path(csdf.__file__).parent
MODELS = PACKAGE.parent / "models"
COMMAND = "import sys; from csdf.cli.main import main; sys.exit(main())"


def run_python(code, *words, home=PACKAGE.parent, **options):
    """Run Python with the package of that folder."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(home), "HOME": "/dev/null"}
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env=environment, text=True, capture_output=True, timeout=60, check=False, **options,
    )  # fmt: skip


def test_an_analysis_loads_none_of_the_heavy_libraries():
    code = """
import sys
from csdf.cli.main import main
code = main()
print(*sorted({"numpy", "scipy", "matplotlib", "networkx"} & set(sys.modules)), file=sys.stderr)
sys.exit(code)
"""
    ended = run_python(code, "analyze", GRAPHS / "h263decoder.xml")
    assert (ended.returncode, ended.stderr) == (0, "\n")


@pytest.mark.parametrize("command", ["analyze", "buffers", "pareto"])
def test_an_answer_as_text_loads_nothing_that_only_other_answers_need(command):
    others = {"csv", "json", "pathlib", "html", "difflib", "lxml", "csdf.io.layer_table"}
    code = f"""
import sys
known = set(sys.modules)  # Python's own start, and what finds an editable installation
from csdf.cli.main import main
code = main()
print(*sorted({others} & set(sys.modules) - known), file=sys.stderr)
sys.exit(code)
"""
    ended = run_python(code, command, GRAPHS / "csdf_example.xml")
    assert (ended.returncode, ended.stderr) == (0, "\n")


WORDS_WITHOUT_WORK = """
import contextlib, io, json, sys
from csdf.entries import COMMANDS, own_entries
from csdf.cli.main import main
known = sys.stdlib_module_names | {name.partition(".")[0] for name in sys.modules}
known |= {"cnn2csdf", "planners"}
loaded = {}
for words in ([], *(name.split(".") for name in own_entries(COMMANDS))):
    for wrong in ("--help", "--no-such-option"):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            with contextlib.suppress(SystemExit):
                main([*words, wrong])
        found = {name.partition(".")[0] for name in sys.modules} - known
        loaded[" ".join([*words, wrong])] = sorted(found)
        known |= found  # of the command that loads them first
print(json.dumps(loaded))
"""


def test_help_and_refused_words_load_no_library_besides_that_of_python():
    # NumPy alone would take longer than all the rest, in every completion of a shell, too.
    ended = run_python(WORDS_WITHOUT_WORK)
    assert (ended.returncode, ended.stderr) == (0, "")
    loaded = json.loads(ended.stdout)
    asked = {words.rpartition(" ")[0].replace(" ", ".") for words in loaded}
    assert asked == {"", *entries.own_entries(entries.COMMANDS)}
    assert {words: found for words, found in loaded.items() if found} == {}


BUFFERS = MODELS / "alloc" / "keyword_spotting.csv"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "arena", "--help"),
        ("plan", "arena", BUFFERS),
        ("plan", "arena", BUFFERS, "--json"),
        ("report", "--help"),
        ("report", GRAPHS / "csdf_example.xml", "-o", "page.html"),
    ],
    ids=["help of plan", "plan", "plan in JSON", "help of report", "report"],
)
def test_work_without_networks_loads_nothing_that_reads_or_computes_networks(words, tmp_path):
    code = """
import atexit, sys
from csdf.cli.main import main
networks = ("numpy", "cnn2csdf.operators", "cnn2csdf.readers", "cnn2csdf.network")
found = lambda: print([m for m in sys.modules if m.startswith(networks)], file=sys.stderr)
atexit.register(found)
sys.exit(main())
"""
    ended = run_python(code, *words, cwd=tmp_path)
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (0, "[]")


def test_the_package_face_loads_nothing_but_itself():
    code = "import csdf, sys; print([m for m in sys.modules if m.startswith('csdf.')])"
    assert run_python(code).stdout == "[]\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_reported_in_one_line():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", COMMAND, "analyze", GRAPHS / "modem.xml"],
            env={"PYTHONPATH": str(PACKAGE.parent)}, stdout=full, stderr=subprocess.PIPE,
            text=True, timeout=60, check=False,
        )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stderr == ("csdf analyze: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("name", ["front.svg", "front.html"])
def test_a_reader_who_has_seen_enough_costs_no_file(tmp_path, name):
    # As behind `| head -1`, once head has left. Unbuffered, or the first lines would wait for others.
    reader, writer = os.pipe()
    os.close(reader)
    words = ("pareto", str(GRAPHS / "csdf_example.xml"), "--json", "--plot", str(tmp_path / name))
    ended = subprocess.run(
        [sys.executable, "-u", "-c", COMMAND, *words], stdout=writer, stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(PACKAGE.parent)}, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, f"csdf pareto: wrote {tmp_path / name}\n")
    assert (tmp_path / name).stat().st_size > 1000


def exit_code_without_reader(*words):
    """Return the exit code of a command whose output goes into a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, words)], stdout=writer, stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(PACKAGE.parent)}, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert "Broken pipe" not in ended.stderr
    return ended.returncode


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, ("analyze", GRAPHS / "csdf_example.xml")),
        (1, ("buffers", GRAPHS / "csdf_example.xml", "--period", "1")),
        (1, ("buffers", GRAPHS / "csdf_example.xml", "--period", "1", "--json")),
        (1, ("fit", "keyword_spotting", "--ram", "2kB")),
        (2, ("analyze", GRAPHS / "csdf_example.xml", "missing.xml")),
        (2, ("analyze", "missing.xml")),
    ],
    ids=lambda words: f"{words[0]} {words[-1]}" if isinstance(words, tuple) else str(words),
)
def test_a_closed_pipe_does_not_turn_a_no_into_a_yes(code, words):
    assert exit_code_without_reader(*words) == code


def run_in_shell(line, folder):
    """Run a line of a shell in which `csdf` is the command."""
    script = folder / "csdf"
    script.write_text(f"#!{sys.executable}\n{COMMAND}\n")
    script.chmod(0o755)
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, text=True, capture_output=True, timeout=120, check=False,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(PACKAGE.parent)},
    )  # fmt: skip


MODEM = GRAPHS / "modem.xml"
LOST = "csdf analyze: the output cannot be written: Bad file descriptor\n"


@pytest.mark.parametrize(
    ("line", "code", "remarks"),
    [
        (f"csdf analyze {MODEM} >&-", 2, LOST),
        (f"csdf analyze {MODEM} </dev/null 1<&0", 2, LOST),
        (f"csdf analyze {MODEM} >&- 2>&-", 2, ""),
        (f"csdf analyze {MODEM} >&- 2>&- <&-", 2, ""),
        ("csdf analyze --help >&-", 2, LOST),
        ("csdf analyze missing.xml >&-", 2, "csdf analyze: missing.xml: cannot be read: No such "),
    ],
    ids=["closed", "for reading", "nor error", "nor input", "help", "nothing to say"],
)  # fmt: skip
def test_an_answer_that_cannot_be_printed_is_not_a_no(tmp_path, line, code, remarks):
    ended = run_in_shell(line, tmp_path)
    assert ended.returncode == code
    assert ended.stderr.startswith(remarks)
    assert ended.stderr.count("\n") == bool(remarks)


def test_what_prints_nothing_needs_no_standard_output(tmp_path):
    ended = run_in_shell(f"csdf convert {MODEM} out.json >&- 2>&- <&-", tmp_path)
    assert ended.returncode == 0
    assert (tmp_path / "out.json").read_text().startswith("{")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("end", ["2>&-", "2>/dev/full"])
def test_a_remark_that_cannot_be_printed_changes_no_answer(tmp_path, end):
    # The first says "wrote out.json" on standard error, the second why it refuses.
    assert run_in_shell(f"csdf convert {MODEM} out.json {end}", tmp_path).returncode == 0
    assert run_in_shell(f"csdf analyze missing.xml {end}", tmp_path).returncode == 2
    assert run_in_shell(f"csdf analyze --no-such {MODEM} {end}", tmp_path).returncode == 2


INTERRUPTED_IMPORT = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupting(MetaPathFinder):
    \"""Sends Ctrl-C when a module is first looked for.\"""

    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
        return None

from csdf.cli.main import main
sys.meta_path.insert(0, Interrupting())
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    "module",
    [
        "csdf.cli.frame",
        "csdf.cli.frame.running",
        "csdf.errors",
        "csdf.cli.schedule",
        "argparse",
        "csdf.io.graph_files",
    ],
)
def test_an_interrupt_while_modules_are_imported_ends_in_one_line(module):
    ended = run_python(INTERRUPTED_IMPORT, module, "schedule", MODEM)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr in ("csdf: unknown: interrupted\n", "csdf schedule: unknown: interrupted\n")


def test_an_interrupt_in_an_import_at_work_is_told_by_the_exit_code():
    # It comes when the import is done; the answer may have been printed by then.
    ended = run_python(INTERRUPTED_IMPORT, "xml.etree", "schedule", MODEM)
    assert ended.returncode == 3
    assert re.fullmatch("(csdf( schedule)?: unknown: interrupted\n)?", ended.stderr)


LATE_IMPORT = (
    INTERRUPTED_IMPORT.partition("from csdf.cli.main")[0]
    + """
import time
from csdf.cli.frame.running import InterruptsBetweenImports
sys.meta_path.insert(0, Interrupting())
try:
    with InterruptsBetweenImports():
        import library
        time.sleep(60)
except KeyboardInterrupt:
    print("library.second" in sys.modules)
"""
)


def test_an_import_is_done_before_an_interrupt_of_it_counts(tmp_path):
    # Within numpy, whose modules are in C, the interrupt would become an ImportError.
    package = tmp_path / "library"
    package.mkdir()
    (package / "__init__.py").write_text("import library.first, library.second")
    for name in ("first", "second"):
        (package / f"{name}.py").write_text("")
    found = os.pathsep.join(map(str, (PACKAGE.parent, tmp_path)))
    ended = run_python(LATE_IMPORT, "library.first", home=found)
    assert (ended.stdout, ended.stderr) == ("True\n", "")


@pytest.mark.parametrize(
    "words",
    [("generate", "1"), ("--help",), ("plan", "--help"), ("analyze", "--help")],
    ids=" ".join,
)
def test_a_closed_output_pipe_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        env={"PYTHONPATH": str(PACKAGE.parent)}, stdout=writer, stderr=subprocess.PIPE,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("built", [True, False], ids=["built", "not built"])
def test_the_version_says_which_kernels_run(tmp_path, built):
    # Without the folder of compiled modules it is a package that was built without a compiler.
    left_out = ("__pycache__",) if built else ("__pycache__", "*.so", "*.pyd")
    shutil.copytree(PACKAGE, tmp_path / "csdf", ignore=shutil.ignore_patterns(*left_out))
    shutil.copy(PACKAGE.parent / "pyproject.toml", tmp_path)  # which commands there are
    ended = run_python(COMMAND, "--version", home=tmp_path, cwd=tmp_path)
    has_compiled = built and compiler.has_compiled()
    kernels = "compiled kernels" if has_compiled else "plain kernels, slower"
    assert ended.stdout == f"csdf {csdf.__version__}, {kernels}\n"
    ran = run_python(COMMAND, "analyze", GRAPHS / "modem.xml", home=tmp_path, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_plain_kernels_can_be_asked_for():
    environment = {"PYTHONPATH": str(PACKAGE.parent), "CSDF_KERNELS": "plain"}
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, "--version"],
        env=environment, text=True, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.stdout.endswith(", plain kernels, slower\n")
