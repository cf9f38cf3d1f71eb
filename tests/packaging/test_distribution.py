"""The wheel and the source distribution, built from a copy of the checkout without any network."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.both_kernels import needs_compiled

pytest.importorskip("setuptools", minversion="77")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PACKAGES = ("csdf", "cnn2csdf", "planners")
OTHER_TOOLS = {"executorch", "hls4ml"}  # `all` leaves them out: they need PyTorch
MACHINE_CODE = ("*.so", "*.pyd")
BUILD = """
import sys
from setuptools.build_meta import build_sdist, build_wheel
print((build_wheel if sys.argv[1] == "wheel" else build_sdist)(sys.argv[2]))
"""


def is_machine_code(path):
    return any(path.match(form) for form in MACHINE_CODE)


def build(kind, source, target, **variables):
    """Build in a process of its own, as an installer does; return what was built, and remarks."""
    ran = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(target)],
        cwd=source,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return target / ran.stdout.split()[-1], ran.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The contents of a source distribution, built from a copy of the checkout."""
    folder = tmp_path_factory.mktemp("source")
    copy = folder / "copy"
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", *MACHINE_CODE)
    for name in (*PACKAGES, "models"):
        shutil.copytree(ROOT / name, copy / name, ignore=left_out)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    archive, _ = build("sdist", copy, folder)
    with tarfile.open(archive) as held:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from Python 3.11.4
        held.extractall(folder / "unpacked", **safe)
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    """A wheel of plain kernels."""
    return build("wheel", source, tmp_path_factory.mktemp("plain"), CSDF_KERNELS="plain")[0]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_plain_kernels_fit_every_machine(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")


def with_one_kernel(source, copy):
    """A copy that has the types of one kernel, for a translation that is short."""
    shutil.copytree(source, copy)
    _, *others = copy.glob("*/kernels/compiled/*.pxd")
    for types in others:
        types.unlink()
    return copy


def test_without_a_compiler_the_build_goes_on_and_says_so_once(source, tmp_path):
    pytest.importorskip("Cython")
    copy = with_one_kernel(source, tmp_path / "copy")
    built, remarks = build("wheel", copy, tmp_path, CC="no-such-compiler", CSDF_KERNELS="")
    assert built.name.endswith("-py3-none-any.whl")
    assert remarks.count("csdf: the kernels were not compiled") == 1
    assert "csdf: everything works, but slower. Install a C compiler" in remarks


def test_who_wants_compiled_kernels_gets_them_or_no_package(source, tmp_path):
    pytest.importorskip("Cython")
    copy = with_one_kernel(source, tmp_path / "copy")
    with pytest.raises(subprocess.CalledProcessError):
        build("wheel", copy, tmp_path, CC="no-such-compiler", CSDF_KERNELS="compiled")


@needs_compiled
def test_machine_code_is_as_new_as_the_text_that_it_was_made_from():
    folders = (ROOT / "csdf" / "kernels" / "compiled", ROOT / "planners" / "kernels" / "compiled")
    for types in (path for folder in folders for path in folder.glob("*.pxd")):
        compiled = types.parent
        (made,) = (path for form in MACHINE_CODE for path in compiled.glob(f"{types.stem}.{form}"))
        text = compiled.parent / f"{types.stem}.py"
        assert made.stat().st_mtime >= max(text.stat().st_mtime, types.stat().st_mtime), (
            f"{text.name} has changed: run `python setup.py build_ext --inplace`"
        )


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel):
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not is_machine_code(path)
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name for name in held if not name.startswith("csdf/examples/")} == files


def test_the_metadata_says_what_an_installer_and_a_reader_need(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        found = Parser().parsestr(archive.read(path).decode())
        assert any("/licenses/LICENSE" in name for name in archive.namelist())
    assert found["Name"] == "csdf"
    assert found["License-Expression"] == "Apache-2.0"
    assert found["Requires-Python"] == ">=3.11"
    assert found["Description-Content-Type"] == "text/markdown"
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)}
    assert versions <= set(found.get_all("Classifier"))
    extras = {"all", "cluster", "cnn", "cp", "docs", "test", "yaml", *OTHER_TOOLS}
    assert set(found.get_all("Provides-Extra")) == extras


def test_the_extra_all_is_all_but_tests_the_site_and_other_tools(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        found = Parser().parsestr(archive.read(path).decode())
    (line,) = (one for one in found.get_all("Requires-Dist") if one.startswith("csdf["))
    named = line.partition("[")[2].partition("]")[0].split(",")
    assert set(named) == set(found.get_all("Provides-Extra")) - {
        "all",
        "docs",
        "test",
        *OTHER_TOOLS,
    }


def test_what_is_installed_runs(installed, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    graph = ROOT / "models" / "graphs" / "csdf_example.xml"
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "csdf", "analyze", str(graph)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "csdf_example: period 12 time units, " in ran.stdout
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import csdf; print(csdf.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout.strip()).is_relative_to(installed)


@pytest.mark.parametrize("words", [["--help"], ["cnn", "--help"], ["plan", "--help"]], ids=" ".join)
def test_what_is_installed_has_the_commands_of_the_checkout(installed, tmp_path, words):
    shown = [
        subprocess.run(
            [sys.executable, "-P", "-m", "csdf", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(home)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for home in (installed, ROOT)
    ]
    assert shown[0] == shown[1]
    assert shown[0].count("\n  ") > 5


def test_the_wheel_holds_the_examples(installed):
    models = ROOT / "models"
    expected = {
        path.relative_to(models)
        for path in models.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    examples = installed / "csdf" / "examples"
    found = {path.relative_to(examples) for path in examples.rglob("*") if path.is_file()}
    assert found == expected
