"""Running the command as its users do."""

import json
from pathlib import Path

import pytest

from csdf.cli.main import main

GRAPHS = Path(__file__).parents[2] / "models" / "graphs"


@pytest.fixture
def run(capsys):
    """Run the command; return its exit code, standard output and standard error."""

    def run_command(*words):
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:  # argparse
            code = end.code
        return code, *capsys.readouterr()

    return run_command


@pytest.fixture
def answer(run):
    """Run the command with --json; return its exit code and what it says."""

    def run_command(*words):
        code, output, _ = run(*words, "--json")
        return code, json.loads(output)

    return run_command
