"""Plans that commands find pass the checker before a plan or C is written."""

from dataclasses import replace
from importlib import import_module

import pytest

import planners
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.weights import Model, random_weights
from csdf.cli.frame.output import FAULT
from csdf.errors import InvalidPlan
from tests.cli.running import run
from tests.shared_data import SHARED

__all__ = ["run"]

NETWORK = "keyword_spotting:rows=25"
# The commands that write plans they found, with the module and function that has them checked.
COMMANDS = {
    f"fit {NETWORK} -o": ("planners.plan.carried_out", "format_own_plans"),
    f"fit {NETWORK} {NETWORK} -o": ("planners.plan.carried_out", "format_own_plans"),
    f"cnn memory {NETWORK} -o": ("planners.commands.cnn.work.memory", "format_own_plans"),
    f"plan fusion {NETWORK} --ram 1MB -o": ("planners.fusion.command.work", "format_own_plans"),
    f"plan reuse {NETWORK} --generations 1 -o": (
        "planners.reuse.command.work",
        "format_own_plans",
    ),
    f"deploy {NETWORK} -o": ("planners.code.command.work", "require_own"),
    f"deploy {NETWORK} {NETWORK} -o": ("planners.code.command.work", "require_own"),
}


def spoilt(plan):
    """The plan with all buffers at byte 0."""
    return replace(plan, buffers=tuple(replace(one, offset=0) for one in plan.buffers))


@pytest.mark.parametrize("words", COMMANDS)
def test_a_found_plan_whose_buffers_overlap_is_a_fault_and_not_written(
    run, monkeypatch, tmp_path, words
):
    module = import_module(COMMANDS[words][0])
    name = COMMANDS[words][1]
    checked = getattr(module, name)
    monkeypatch.setattr(
        module, name, lambda plans: checked([(network, spoilt(plan)) for network, plan in plans])
    )
    out = tmp_path / ("c" if words.startswith("deploy") else "plan.json")
    code, _, remarks = run(*words.split(), out)
    assert code == FAULT
    assert "the plan found for 'keyword_spotting" in remarks.splitlines()[-1]
    assert not out.exists()


def test_python_refuses_to_write_c_of_a_plan_whose_buffers_overlap(tmp_path):
    network = from_catalogue(NETWORK)
    model = Model(network=network, weights=random_weights(network, 1))
    plan = planners.fit(network, element_bytes=4).least.plan
    planners.write_library(model, plan, tmp_path / "right")
    with pytest.raises(InvalidPlan, match="cannot be carried out"):
        planners.write_library(model, spoilt(plan), tmp_path / "wrong")
    member = planners.Member(model=model, plan=spoilt(plan))
    with pytest.raises(InvalidPlan, match="cannot be carried out"):
        planners.write_libraries([member], tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("p4/contra55.onnx", "--input external --output-memory external --ram 1800B"),
        ("p8/contra103.onnx", "--hop 2 --input external"),
    ],
)
def test_fit_takes_the_plan_that_it_wrote(model, options, run, tmp_path):
    # Strips of floats behind strips of bytes; new rows of a window outside the arena.
    path, plan = SHARED / "faults" / model, tmp_path / "plan.json"
    if not path.exists():
        pytest.skip(f"no model at {path}")
    code, _, remarks = run("fit", path, *options.split(), "-o", plan)
    assert code == 0, remarks
    hop = options.split()[:2] if "--hop" in options else ()
    code, text, remarks = run("fit", path, *hop, "--plan", plan, "--verify")
    assert code == 0, remarks
    assert "equal: the run in" in text
