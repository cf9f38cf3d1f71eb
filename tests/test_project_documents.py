"""CONTRIBUTING.md, CHANGELOG.md and CITATION.cff describe the project as it is."""

import os
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings

from csdf import __version__, entries

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
NIGHTLY = (ROOT / "tests" / "nightly.txt").read_text()
INVENTED = ("stretch", "stripes")  # the examples
TOML = re.findall(r"^```toml\n(.*?)^```$", CONTRIBUTING, flags=re.MULTILINE | re.DOTALL)


def paths_named():
    """The paths in backticks; a command, a name or an invented example is none."""
    for text in re.findall(r"`([^`\s]+)`", CONTRIBUTING):
        is_path = re.fullmatch(r"[\w.]+(?:/[\w.]*)+|\w+\.(?:md|py|toml|cff)", text)
        if is_path and not any(word in text for word in INVENTED):
            yield text


def test_every_path_that_is_named_exists():
    named = [text for text in paths_named() if not text.startswith("../") and "/" in text]
    assert len(named) > 20
    missing = [text for text in named if not (ROOT / text).exists()]
    assert missing == ["command/", "commands/"]  # folders that many packages have


@pytest.mark.parametrize("text", TOML)
def test_the_entry_points_shown_are_of_groups_that_are_read(text):
    groups = tomllib.loads(text)["project"]["entry-points"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(groups) <= {*project["entry-points"], entries.OPERATORS}


def test_the_version_cited_is_this_one():
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_random_values_are_the_same_every_time_unless_asked_otherwise():
    # The profile is chosen in tests/conftest.py before any test is read.
    is_exploring = os.environ.get("HYPOTHESIS_PROFILE", "ci") != "ci"
    assert settings.default.derandomize is not is_exploring


def test_each_line_of_the_nightly_tests_names_a_test():
    lines = [line.split(maxsplit=1) for line in NIGHTLY.splitlines() if not line.startswith("#")]
    assert len(lines) > 20
    for seconds, start in lines:
        path, _, name = start.partition("::")
        test = re.escape(name.partition("[")[0])
        defined = re.search(rf"^ *def {test}", (ROOT / path).read_text(), flags=re.MULTILINE)
        assert int(seconds) > 0
        assert defined, f"nightly.txt lists {start}, which is no test"
