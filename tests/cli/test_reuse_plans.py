"""Plans that `csdf plan reuse` writes and runs."""

import json
import re
from importlib import import_module

import numpy as np
import pytest

from tests.shared_data import SHARED, each

APPLICATION = "keyword_spotting+samos_example"
QUICK = ("--generations", "3", "--population", "12", "--seed", "4")


def test_the_chosen_plan_runs_in_its_arena(answer):
    _, found = answer("plan", "reuse", APPLICATION, *QUICK, "--verify")
    assert found["relative_difference"] < 1e-5


def test_an_output_that_is_no_number_differs(run, monkeypatch):
    module = import_module("planners.reuse.command.work")
    run_in_turn = module.run_in_turn

    def spoilt(*arguments):
        outputs = run_in_turn(*arguments)
        last_frame = outputs[0][-1]
        last_frame.update({name: array * np.nan for name, array in last_frame.items()})
        return outputs

    monkeypatch.setattr(module, "run_in_turn", spoilt)
    code, output, _ = run("plan", "reuse", APPLICATION, *QUICK, "--verify")
    assert code == 1
    assert "run in this arena: DIFFERENT, largest difference nan" in output


def test_the_published_plan_lays_whole_buffers_one_after_another(answer):
    _, found = answer("plan", "reuse", APPLICATION, *QUICK, "--whole-buffers", "--verify")
    arena = found["arena_bytes"]
    assert found["weight_bytes"] + arena == found["chosen"]["memory_bytes"]
    assert found["relative_difference"] < 1e-5


def test_the_plan_is_written_as_json_and_for_c(run, tmp_path):
    for name, beginning in (("plan.json", "["), ("plan.h", "#ifndef ")):
        path = tmp_path / name
        assert run("plan", "reuse", APPLICATION, *QUICK, "-o", path)[0] == 0
        assert path.read_text().startswith(beginning)


def test_elements_that_count_a_byte_run_in_their_bytes(answer):
    _, single = answer("plan", "reuse", "samos_example", *QUICK)
    _, found = answer("plan", "reuse", "samos_example", *QUICK, "--element-bytes", 1, "--verify")
    assert 4 * found["arena_bytes"] == single["arena_bytes"]
    assert found["relative_difference"] < 1e-5


def test_a_written_plan_is_checked_run_and_drawn_by_fit(run, answer, tmp_path):
    pytest.importorskip("matplotlib")
    path, picture = tmp_path / "plan.json", tmp_path / "plan.svg"
    _, planned = answer("plan", "reuse", APPLICATION, *QUICK, "-o", path)
    models = APPLICATION.split("+")
    code, found = answer("fit", *models, "--plan", path, "--verify", "--plot", picture)
    assert code == 0
    assert found["ram_bytes"] == planned["arena_bytes"]
    assert max(one["verified"]["relative_difference"] for one in found["networks"]) < 1e-5
    assert "<svg" in picture.read_text()
    code, _, error = run("fit", *reversed(models), "--plan", path)
    assert code == 2
    assert "the plan of network 'keyword_spotting' works layer" in error


def test_networks_of_a_plan_that_work_at_once_share_no_byte(run, tmp_path):
    partitions = [{"name": "A", "last": "n2"}, {"name": "B"}]
    networks = [
        {"model": "samos_example", "partitions": partitions},
        {"model": "keyword_spotting", "simplify": True},
    ]
    application, path = tmp_path / "app.json", tmp_path / "plan.json"
    together = [["A", "B", "keyword_spotting"]]
    application.write_text(json.dumps({"networks": networks, "parallel": together}))
    assert run("plan", "reuse", application, *QUICK, "-o", path)[0] == 0
    models = ("samos_example", "keyword_spotting")
    code, output, _ = run("fit", *models, "--plan", path, "--verify")
    assert code == 0
    assert "2 networks partly at the same time in one arena: fit" in output
    plans = json.loads(path.read_text())
    assert {group["concurrent"] for one in plans for group in one["groups"]} == {
        "A, B, keyword_spotting"
    }
    inner = next(one for one in plans[1]["buffers"] if one["size"])
    other = next(one for one in plans[0]["buffers"] if one["size"])
    inner["offset"] = other["offset"]
    path.write_text(json.dumps(plans))
    code, _, error = run("fit", *models, "--plan", path)
    assert code == 2
    assert "may work at the same time, but buffers" in error


def test_a_plan_with_rates_as_published_is_not_written_as_json(run, tmp_path):
    path = tmp_path / "plan.json"
    code, _, error = run(
        "plan", "reuse", APPLICATION, *QUICK, "--accounting", "published", "-o", path
    )
    assert code == 2
    assert "no plan runs with rates as published" in error
    assert not path.exists()


def test_the_run_tells_one_difference(run):
    _, output, _ = run("plan", "reuse", "samos_example", *QUICK, "--verify")
    (line,) = (one for one in output.splitlines() if "run in this arena" in one)
    assert re.fullmatch(
        r" +run in this arena: equal, largest difference [\d.e-]+ of the largest output", line
    )


TFLITE = SHARED / "networks" / "tflite"
MIXED = TFLITE / "mcunet_vww1_int8.tflite"


@pytest.mark.slow
@each("path", [path for path in (TFLITE / "kws_int8.tflite", MIXED) if path.exists()])
def test_a_quantised_network_runs_in_an_arena_of_its_own_elements(path, answer):
    code, found = answer(
        "plan", "reuse", path, "--generations", "2", "--population", "4", "--verify"
    )
    # Whole tensors: 16000 bytes of live activations by the README beside the files; 48 maps of
    # 40 x 40 and of 20 x 20, where the depthwise convolution between them pads its input itself.
    whole = {"kws_int8": 16000, "mcunet_vww1_int8": 48 * (40 * 40 + 20 * 20)}[path.stem]
    assert (code, found["relative_difference"], found["whole_arena_bytes"]) == (0, 0.0, whole)
    assert found["arena_bytes"] < whole


@each("path", [path for path in (MIXED,) if path.exists()])
def test_tensors_of_several_types_have_bytes_of_their_own_by_parts(path, answer):
    code, found = answer("cnn", "memory", path, "--time-limit", "5s")
    (row,) = found["networks"]
    # The frame is of single precision, 80 x 80 x 3; everything else of int8. The largest are those of
    # the test above.
    assert code == 0
    assert row["layer_by_layer"]["arena_bytes"] == 48 * (40 * 40 + 20 * 20)
    assert row["row_by_row"]["arena_bytes"] < 161472


def test_rates_as_published_are_not_run(run):
    code, _, remarks = run(
        "plan", "reuse", APPLICATION, *QUICK, "--accounting", "published", "--verify"
    )
    assert code == 2
    assert "--verify cannot run rates as published" in remarks
