"""Predicted instructions beside counts: counts are kept, and a missing count has a reason."""

import pytest

from planners.code.library import library
from tests.benchmarks import predicted_instructions
from tests.benchmarks.instruction_counts import Counts, counted
from tests.benchmarks.instruction_samples import drawn
from tests.benchmarks.predicted_instructions import errors_of_file, plans_of, summary

MODEL = "orders:0:integers"


def test_an_interrupted_run_keeps_its_counts(tmp_path):
    counts = Counts(tmp_path / "counts")
    counts["digest"] = [1, 2, 3]
    counts["other"] = "8 bytes beyond CODE"
    assert dict(Counts(tmp_path / "counts")) == {
        "digest": [1, 2, 3],
        "other": "8 bytes beyond CODE",
    }


def test_a_kept_count_is_taken_less_the_instructions_of_counting(monkeypatch, tmp_path):
    model, calls = drawn(MODEL), []

    def numbers(made, program, core):
        calls.append(core)
        return [1000, 500, 40 * 10**5, *(4000 for _ in made.written.stages)]

    monkeypatch.setattr("tests.benchmarks.instruction_counts._numbers", numbers)
    plan = plans_of(model.network, ("layer by layer",))["layer by layer"]
    made = library(model, plan, name="net", frames=[])
    for _ in range(2):
        frame, stages = counted(made, model.network, plan, "m4", Counts(tmp_path / "counts"))
        firings = len(made.written.stages)
        assert frame == 10**5 - firings  # of 40 frames; each firing is counted by an instruction
        assert set(stages.values()) == {100 - 0.5}
    assert calls == ["m4"]


def test_a_model_without_a_count_is_listed_with_its_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(predicted_instructions, "MOST_INSTRUCTIONS", 10)
    errors, reasons = errors_of_file(MODEL, ["m4"], ["layer by layer"], Counts(tmp_path / "counts"))
    assert not errors
    ((core, plan, reason),) = reasons
    assert (core, plan) == ("m4", "layer by layer")
    assert "thousand instructions are predicted" in reason


def test_shares_count_figures_and_first_plans():
    errors_of = {
        "a": {("m4", "layer by layer"): (0.05, 1), ("m4", "least"): (-0.2, 1)},
        "b": {("m4", "row by row"): (0.12, 1)},
    }
    m4, _, first = summary(errors_of, ["m4"])
    assert m4.startswith("m4: 3 figures of 2 models, 33.3% within 10 %, 66.7% within 15 %")
    assert m4.endswith("largest error 20.0%")
    assert first.startswith("first plans: 2 figures of 2 models, 50.0% within 10 %")


def test_a_program_beyond_the_memory_of_the_board_says_so(monkeypatch, tmp_path):
    counts = Counts(tmp_path / "counts")
    monkeypatch.setattr(
        "tests.benchmarks.instruction_counts._numbers", lambda *_: "8 bytes beyond CODE"
    )
    model = drawn(MODEL)
    plan = plans_of(model.network, ("layer by layer",))["layer by layer"]
    made = library(model, plan, name="net", frames=[])
    with pytest.raises(RuntimeError, match="8 bytes beyond CODE"):
        counted(made, model.network, plan, "m4", counts)
