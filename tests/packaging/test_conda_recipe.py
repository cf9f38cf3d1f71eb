"""The conda recipe requires what pyproject.toml requires, for the version of the package."""

import re
import tomllib
from pathlib import Path

import pytest

import csdf

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
NAMES = {"matplotlib": "matplotlib-base"}  # without the toolkits of windows


def conda_names(requirements):
    """Requirements as conda writes them: a space before the bound, conda's name for a package."""
    pairs = (re.fullmatch(r"([a-z]+)(>=[0-9.]+)", line).groups() for line in requirements)
    return {f"{NAMES.get(name, name)} {bound}" for name, bound in pairs}


def test_the_recipe_requires_what_the_package_requires():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    python = f"python {project['project']['requires-python']}"
    needed = recipe["requirements"]
    assert set(needed["run"]) == {python} | conda_names(project["project"]["dependencies"])
    built = conda_names(project["build-system"]["requires"])
    assert set(needed["host"]) == {python, "pip"} | built
    extras = conda_names(project["project"]["optional-dependencies"]["cnn"])
    assert set(needed["run_constraints"]) == extras
    assert recipe["context"]["version"] == csdf.__version__
    scripts = project["project"]["scripts"]
    entries = recipe["build"]["python"]["entry_points"]
    assert entries == [f"{name} = {target}" for name, target in scripts.items()]
