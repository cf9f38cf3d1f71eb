"""`csdf fit --plan`: plans of any planner, checked, run and drawn."""

import json

import pytest


@pytest.mark.parametrize("words", [("cnn", "memory"), ("plan", "fusion", "--ram", "150kB")])
def test_a_given_plan_is_judged_run_and_drawn(run, tmp_path, words):
    plan, picture = tmp_path / "plan.json", tmp_path / "plan.svg"
    assert run(*words[:2], "resnet8", *words[2:], "-o", plan)[0] == 0
    code, output, _ = run("fit", "resnet8", "--plan", plan, "--verify", "--plot", picture, "--json")
    found = json.loads(output)
    assert (code, found["fits"]) == (0, True)
    assert found["ram_bytes"] == json.loads(plan.read_text())["arena_bytes"]
    assert found["methods"][0]["predicted_nanoseconds"] > 0
    assert found["verified"]["relative_difference"] < 1e-4
    assert "over the firings" in picture.read_text() or picture.stat().st_size > 5000
    assert run("fit", "resnet8", "--plan", plan, "--ram", found["needed_ram_bytes"])[0] == 0
    assert run("fit", "resnet8", "--plan", plan, "--ram", found["needed_ram_bytes"] - 1)[0] == 1


def test_a_plan_of_another_network_and_options_of_the_search_are_refused(run, tmp_path):
    plan = tmp_path / "plan.json"
    run("cnn", "memory", "resnet8", "-o", plan)
    code, _, remarks = run("fit", "keyword_spotting", "--plan", plan)
    assert (code, "has not; give the model" in remarks) == (2, True)
    code, _, remarks = run("fit", "resnet8", "--plan", plan, "--input", "rows")
    assert (code, "--input is for the search" in remarks) == (2, True)
    for name in ("--element-bytes", "--parameter-bytes"):
        code, _, remarks = run("fit", "resnet8", "--plan", plan, name, "1")
        assert (code, f"{name} is for the search" in remarks) == (2, True)
    code, _, remarks = run("fit", "resnet8", "resnet8", "--plan", plan)
    assert (code, "1 plan for 2 models" in remarks) == (2, True)


def test_a_given_plan_that_is_too_large_is_not_called_the_least_found(run, tmp_path):
    plan = tmp_path / "plan.json"
    run("cnn", "memory", "resnet8", "-o", plan)
    code, output, _ = run("fit", "resnet8", "--plan", plan, "--ram", "9kB")
    assert code == 1
    assert output.startswith("resnet8: does not fit: the plan takes ")
    assert "least found" not in output
