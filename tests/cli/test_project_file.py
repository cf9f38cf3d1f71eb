"""`csdf.toml`, and the commands that read it where no model is named."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from csdf.cli.about.completion import leaves
from csdf.cli.project import KEYS, MODELS, OUTPUT, parsed

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github" / "actions" / "fit" / "action.yml"
VALUES = {  # of each key, in TOML
    "platform": "'cortex-m4'", "ram": "'64kB'", "flash": "'1MB'", "reserve": "'2kB'",
    "memory": "['sram=64kB']", "fps": "10", "input": "'rows'", "output-memory": "'external'",
    "element-bytes": "4", "from": "'n1'", "until": "'n3'", "shape": "'n=1'",
    "constant": "'x=1'", "state": "'a=b'", "hop": "1", "durations": "'times.json'",
    "order": "'file'", "effort": "'2s'", "time-limit": "'9s'", "kernels": "'csdf'",
    "name": "'senses'", "seed": "3",
}  # fmt: skip
SETTINGS = 'models = ["samos_example"]\nram = "64kB"\nelement-bytes = 1\nplatform = "cortex-m4"\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fit_without_a_model_answers_as_with_the_words_of_the_file(run, folder):
    (folder / "csdf.toml").write_text(SETTINGS)
    code, output, remarks = run("fit")
    words = ("samos_example", "--ram", "64kB", "--element-bytes", "1", "--platform", "cortex-m4")
    assert (code, output) == run("fit", *words)[:2]
    assert "csdf fit: options of csdf.toml: samos_example --ram 64kB --element-bytes 1" in remarks


def test_a_named_model_is_answered_without_the_file(run, folder):
    (folder / "csdf.toml").write_text("wrong")
    code, _, remarks = run("fit", "samos_example")
    assert (code, "csdf.toml" in remarks) == (0, False)


def test_an_option_of_the_command_line_takes_the_place_of_its_key(answer, folder):
    (folder / "csdf.toml").write_text(SETTINGS)
    assert answer("fit", "--ram", "700")[0] == 1
    assert answer("fit", "--ram=64kB")[0] == 0


def test_memory_on_the_command_line_takes_the_place_of_ram(run, folder):
    (folder / "csdf.toml").write_text('models = "samos_example"\nram = 700\ninput = "rows"\n')
    code, output, _ = run("fit", "--memory", "sram=64kB", "--memory", "psram=1MB:slow")
    assert (code, "sram 64 kB, psram 1 MB" in output) == (0, True)


def test_a_file_above_names_its_models_from_its_own_folder(run, folder):
    layer = "[convolutional]\nfilters=2\nsize=3\nstride=1\npad=1\nactivation=linear\n"
    (folder / "own.cfg").write_text(f"[net]\nwidth=8\nheight=8\nchannels=1\n{layer}")
    (folder / "csdf.toml").write_text("models = ['own.cfg']\n")
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    os.chdir(below)
    code, _, remarks = run("fit")
    assert code == 0
    assert "options of ../../csdf.toml: ../../own.cfg" in remarks


def test_pyproject_holds_the_same_table(run, folder):
    (folder / "pyproject.toml").write_text(f"[project]\nram = 3\n\n[tool.csdf]\n{SETTINGS}")
    code, _, remarks = run("fit")
    assert (code, "options of pyproject.toml: samos_example" in remarks) == (0, True)
    text = (folder / "pyproject.toml").read_text().replace('"64kB"', "'much'")
    (folder / "pyproject.toml").write_text(text)
    assert "pyproject.toml, line 6: ram: 'much' is not a size" in run("fit")[2]


def test_results_go_to_the_output_folder(run, folder):
    (folder / "csdf.toml").write_text(f'{SETTINGS}output = "build/here"\n')
    assert run("fit")[0] == 0
    assert run("report")[0] == 0
    files = sorted(path.name for path in (folder / "build" / "here").iterdir())
    assert files == ["plan.json", "report.html"]
    # The page names the whole command: it is made again without the file.
    page = (folder / "build" / "here" / "report.html").read_text()
    assert "csdf report samos_example --ram=64kB --element-bytes=1 --platform=cortex-m4" in page


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("memory = ['sram=64kB']\n", 2),  # and ram
        ("flash = '1B'\n", 1),
        ("input = 'somewhere'\n", 2),
    ],
)
def test_without_a_result_no_empty_folder_is_left(run, folder, words, expected):
    (folder / "csdf.toml").write_text(f'{SETTINGS}output = "build/here"\n{words}')
    assert run("fit")[0] == expected
    assert os.listdir(folder) == ["csdf.toml"]
    (folder / "build").mkdir()
    assert run("fit")[0] == expected
    assert os.listdir(folder / "build") == []


def test_keys_of_other_commands_are_named(run, folder):
    (folder / "csdf.toml").write_text('models = ["samos_example"]\nkernels = "csdf"\n')
    assert "; not for this command: kernels" in run("fit")[2]


@pytest.mark.parametrize(
    ("command", "result"), [("fit", "plan.json"), ("deploy", "firmware"), ("report", "page.html")]
)
def test_each_key_is_as_its_option_or_told_to_be_of_others(command, result, folder, capsys):
    parser = next(leaf.parser for leaf in leaves() if leaf.name == f"csdf {command}")
    options = parser._option_string_actions
    for key in KEYS:
        if key in (MODELS, OUTPUT):
            continue
        (folder / "csdf.toml").write_text(f'models = "samos_example"\n{key} = {VALUES[key]}\n')
        read = vars(parsed(parser, ["-o", result]))
        remarks = capsys.readouterr().err
        if f"--{key}" not in options:
            assert f"not for this command: {key}" in remarks
            continue
        value = VALUES[key].strip("[]'")
        asked = vars(parser.parse_args(["samos_example", f"--{key}", value, "-o", result]))
        assert f"--{key} {value}" in remarks
        assert {**read, "words": None} == {**asked, "words": None}, key


def test_deploy_refuses_elements_that_are_not_those_of_the_file(run, folder):
    (folder / "csdf.toml").write_text('models = ["samos_example"]\nelement-bytes = 1\n')
    code, _, remarks = run("deploy", "-o", "firmware")
    assert (code, (folder / "firmware").exists()) == (2, False)
    assert "samos_example: --element-bytes 1, but the library computes" in remarks
    assert "of 4 bytes; leave out --element-bytes; for 1 byte deploy an int8" in remarks
    (folder / "csdf.toml").write_text('models = ["samos_example"]\nelement-bytes = 4\n')
    assert run("deploy", "-o", "firmware")[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = [", "csdf.toml: not TOML: "),
        ("ram = '64kB'", "csdf.toml: no models; add models = ['model.tflite']"),
        ("models = []", "csdf.toml, line 1: models: found an empty array"),
        ("models = ['--json']", "line 1: models: found '--json'; expected a file or a network"),
        ("models = 'a'\n\nramm = 3", "line 3: ramm: unknown key; did you mean 'ram'?"),
        ("models = 'a'\nram = true", "line 2: ram: found a truth value; expected a text"),
        ("models = 'a'\nram = 1979-05-27", "line 2: ram: found a date; expected a text"),
        ("models = 'a'\nram = ['1kB']", "line 2: ram: found 1 value; expected one, no array"),
        ("models = 'a'\nram = 'x'", "line 2: ram: 'x' is not a size"),
        ("models = 'a'\nram.a = 'x'", "line 2: ram: found a table; expected a text"),
        ("models = 'a'\nmemory = [['x']]", "line 2: memory: found an array in an array"),
        ("models = 'a'\nmemory = ['x']", "line 2: memory: 'x' is not a name and a size"),
        ("models = 'a'\nplatform = 'm4'", "line 2: platform: found 'm4'; expected one of "),
        ("models = 'a'\noutput = ['a', 'b']", "line 2: output: expected the name of one folder"),
        ("models = 'a'\noutput = 'csdf.toml'", "line 2: output: csdf.toml: is a file"),
        ("models = 'a'\noutput = \"a\\u0000b\"", "line 2: output: 'a\\x00b': no folder has such"),
        ("models = 'none.tflite'", "none.tflite: cannot be read"),
    ],
)
def test_a_wrong_file_is_one_line_with_the_key(run, folder, text, message):
    (folder / "csdf.toml").write_text(text)
    code, output, remarks = run("fit")
    assert (code, output) == (2, "")
    assert message in remarks.splitlines()[-1]
    assert remarks.splitlines()[-1].startswith("csdf fit: ")
    assert os.listdir(folder) == ["csdf.toml"]


def test_bytes_that_are_no_text_are_refused(run, folder):
    (folder / "csdf.toml").write_bytes(b"models = '\xff'")
    assert "csdf.toml: not text in UTF-8" in run("fit")[2]


def test_a_report_of_two_networks_asks_which(run, folder):
    (folder / "csdf.toml").write_text("models = ['samos_example', 'resnet8']")
    assert "line 1: models: csdf report takes one of these 2 networks" in run("report")[2]


def test_a_name_that_is_neither_model_nor_file_is_refused_as_both(run, folder):
    code, _, remarks = run("deploy", "-o", "firmware")
    assert code == 2
    assert "a MODEL is missing, and no csdf.toml; csdf init writes one" in remarks


def test_deploy_of_a_named_model_still_wants_its_folder(run, folder):
    code, _, remarks = run("deploy", "samos_example")
    assert (code, "are required: -o/--output" in remarks) == (2, True)


def test_init_writes_what_fit_reads(run, answer, folder):
    words = ("--ram", "64kB", "--memory", "a=1kB", "--memory", "b=2MB:slow", "--fps", "2.5")
    assert run("init", "samos_example", *words, "-o", "build")[0] == 0
    text = (folder / "csdf.toml").read_text()
    assert 'ram = "64kB"  #' in text
    assert 'memory = ["a=1kB", "b=2MB:slow"]  #' in text
    assert 'fps = "2.5"  #' in text
    assert "# flash = " in text
    # Every example that stands as a comment is a value that its option takes.
    lines = [line.removeprefix("# ") for line in text.splitlines()[2:]]
    single = [line for line in lines if not line.startswith(("memory", "hop"))]
    (folder / "csdf.toml").write_text("\n".join(single))
    assert answer("fit")[0] in (0, 1)


def test_init_leaves_a_file_as_it_is(run, folder):
    (folder / "csdf.toml").write_text("mine")
    code, _, remarks = run("init", "samos_example")
    assert (code, "csdf.toml is there already; --force" in remarks) == (2, True)
    assert (folder / "csdf.toml").read_text() == "mine"
    assert run("init", "samos_example", "--force")[0] == 0
    assert "samos_example" in (folder / "csdf.toml").read_text()


def test_init_chooses_the_only_model_of_the_folder(run, folder):
    code, _, remarks = run("init")
    assert (code, "no .tflite or .onnx file in this folder" in remarks) == (2, True)
    (folder / 'a"b.tflite').touch()
    assert run("init")[0] == 0
    assert 'models = ["a\\"b.tflite"]' in (folder / "csdf.toml").read_text()
    (folder / "c.onnx").touch()
    assert "2 model files" in run("init", "--force")[2]


@pytest.mark.slow
def test_the_action_prints_the_table_for_a_comment_and_fails(folder):
    """Run the steps of the action as a runner would, with the settings of the folder."""
    steps = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    script = next(step["run"] for step in steps if step.get("id") == "fit")
    for ram, code in (("64kB", 0), ("700", 1)):
        (folder / "csdf.toml").write_text(SETTINGS.replace("64kB", ram))
        own = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", f'csdf() {{ python -m csdf "$@"; }}\n{script}'],
            env={
                **os.environ, **own, "RUNNER_TEMP": str(folder), "PYTHONPATH": str(ROOT),
                "MODEL": "", "RAM": "", "FLASH": "", "OPTIONS": "",
            },
            check=False,
        )  # fmt: skip
        assert done.returncode == code
        name, _, comment = (folder / "GITHUB_OUTPUT").read_text().partition("<<")
        assert name == "report"
        assert "samos_example" in comment
        assert "row by row" in comment
        assert "options of csdf.toml" in comment
        for path in own.values():
            Path(path).unlink()


def test_a_note_leaves_json_output_parsable(answer, folder):
    (folder / "csdf.toml").write_text(SETTINGS)
    code, found = answer("fit")
    assert (code, json.dumps(found) != "{}") == (0, True)
