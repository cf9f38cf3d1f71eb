"""Completion, by running the shells."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from csdf.cli.about.completion import leaves
from csdf.cli.main import main

ROOT = Path(__file__).parents[2]
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_shtab_csdf csdf "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2> /dev/null
printf '%s\\n' "${COMPREPLY[@]}"
"""
CASES = [
    (["csdf", "an"], {"analyze"}),
    (["csdf", "--v"], {"--version"}),
    (["csdf", "plan", "ar"], {"arena"}),
    (["csdf", "plan", "arena", "--meth"], {"--method"}),
    (["csdf", "plan", "arena", "--method", ""], {"own", "cp-sat"}),
    (["csdf", "cnn", "show", "mobilenet_v"], {"mobilenet_v1", "mobilenet_v2"}),
    (["csdf", "cnn", "memory", "--platform", "cortex-m"], {"cortex-m4", "cortex-m7"}),
    (["csdf", "analyze", "mod"], {"models"}),
    (["csdf", "pareto", "x.xml", "--plot", "LIC"], {"LICENSE"}),
    (["csdf", "analyze", "--time-limit", ""], set()),
    (["csdf", "completion", ""], {"bash", "zsh", "fish"}),
]


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """Write the script of a shell once; return its path."""
    folder = tmp_path_factory.mktemp("scripts")

    @cache
    def written(shell):
        path = folder / f"csdf.{shell}"
        assert main(["completion", shell, "-o", str(path)]) == 0
        return str(path)

    return written


@pytest.fixture(scope="module")
def commands():
    return list(leaves())


def shell(name, *words):
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name}")
    ran = subprocess.run([name, *words], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stderr == ""
    return [line for line in ran.stdout.splitlines() if line]


@pytest.mark.parametrize(("words", "expected"), CASES, ids=lambda case: " ".join(case))
def test_bash_completes(script, words, expected):
    if words[-1] == "cortex-m":
        expected = {name for name in _platforms() if name.startswith("cortex-m")}
    assert set(shell("bash", "-c", BASH, "bash", script("bash"), *words)) == expected


def _platforms():
    from cnn2csdf.platforms import PLATFORMS

    return PLATFORMS


def test_bash_keeps_names_with_spaces_whole(script, tmp_path):
    (tmp_path / "my graph.xml").touch()
    words = ["csdf", "analyze", f"{tmp_path}/my"]
    found = shell("bash", "-c", BASH, "bash", script("bash"), *words)
    assert found == [f"{tmp_path}/my graph.xml"]


@pytest.mark.parametrize(("words", "expected"), CASES[:6], ids=lambda case: " ".join(case))
def test_fish_completes(script, words, expected):
    line = " ".join(words)
    code = f"source {script('fish')}; complete -C '{line}'"
    found = {one.split("\t")[0] for one in shell("fish", "--no-config", "-c", code)}
    assert found >= expected


def test_the_script_is_written(run, tmp_path):
    path = tmp_path / "csdf.zsh"
    remark = f"csdf completion: wrote {path}\n"
    assert run("completion", "zsh", "-o", path) == (0, "", remark)


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_shell_can_read_its_script(script, name):
    assert shell(name, "-n", script(name)) == []


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_option_of_every_command_is_in_the_script(script, commands, name):
    output = Path(script(name)).read_text()
    for command in commands:
        assert command.name.rpartition(" ")[2] in output
        for action in command.parser._actions:
            for one in action.option_strings:
                assert (one.lstrip("-") if name == "fish" else one) in output
