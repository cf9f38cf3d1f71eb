"""Running the command as its users do."""

import json
from pathlib import Path

import pytest

from csdf.cli.main import main
from tests.cli.schemas import require_valid_answers

GRAPHS = Path(__file__).parents[2] / "models" / "graphs"


@pytest.fixture
def run(capsys):
    """Run the command; return its exit code, standard output and standard error.

    What it prints as JSON must be as its schema says.
    """

    def run_command(*words):
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:  # argparse
            code = end.code
        output, remarks = capsys.readouterr()
        require_valid_answers([str(word) for word in words], output)
        return code, output, remarks

    return run_command


@pytest.fixture
def answer(run):
    """Run the command with --json; return its exit code and what it says."""

    def run_command(*words):
        code, output, _ = run(*words, "--json")
        return code, json.loads(output)

    return run_command


def files_in(folder):
    """Paths of all files of a folder, from there."""
    return sorted(one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file())
