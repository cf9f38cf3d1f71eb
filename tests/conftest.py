"""The settings of all tests: how tests with random values choose them.

`ci`, the default, takes the same values every time. `HYPOTHESIS_PROFILE=explore` takes new ones, ten
times as many where a test names no number, and keeps those that fail in .hypothesis.
"""

import gc
import os
import textwrap
from pathlib import Path

import pytest
from hypothesis import settings

from csdf import entries

settings.register_profile(
    "ci", max_examples=40, derandomize=True, database=None, deadline=None, print_blob=True
)
settings.register_profile("explore", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


NIGHTLY = tuple(
    line.split(maxsplit=1)[1]
    for line in (Path(__file__).parent / "nightly.txt").read_text().splitlines()
    if line and not line.startswith("#")
)


@pytest.hookimpl(tryfirst=True)  # before the tests are chosen by their markers
def pytest_collection_modifyitems(items):
    """Mark the tests whose names begin with a line of nightly.txt."""
    for item in items:
        if item.nodeid.startswith(NIGHTLY):
            item.add_marker(pytest.mark.nightly)


def pytest_collection_finish():
    """Keep the garbage collector from going through all modules and all tests again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution with entry points and modules where Python finds it, as pip would."""
    monkeypatch.syspath_prepend(tmp_path)

    def installed(distribution, points, modules=(), group=entries.COMMANDS):
        about = tmp_path / f"{distribution}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Name: {distribution}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {module}\n" for name, module in points.items())
        (about / "entry_points.txt").write_text(f"[{group}]\n{lines}")
        for name, text in dict(modules).items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(text).lstrip())

    return installed
