"""Plans changed in one respect, and step by step: the checker refuses each, or the plan is right.

Right means that the executor, in poisoned bytes, gives the outputs of the whole network, and so
does the C code under sanitizers.
"""

import json
import re
from random import Random

import pytest

from cnn2csdf.execution.compare import difference
from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from csdf.errors import CsdfError
from planners.code.library import library
from planners.code.vectors import random_frame
from planners.memory.fit import fit_of
from planners.memory.several_networks import run_frames
from planners.plan.text import parse_plans, plan_as_json, worked_part
from tests.planners.code.compiling import needs_compiler, run_all
from tests.planners.memory.wrong_plans import any_right, right_plans, spoiled

MUTANTS, WALKS, STEPS = 150, 6, 40
TOLERANCE = 1e-4  # sums in another order


MENDED = (  # counts that a change makes wrong, mended so that the checker looks behind them
    (r"of this network it takes (\d+)", lambda entry, work: entry | {"multiply_accumulates": work}),
    (
        r"bytes from '(.+)' and .*; a frame moves (\d+) and (\d+)",
        lambda entry, memory, read, written: (
            entry
            | {
                "traffic": [
                    {**one, "read": read, "written": written} if one["memory"] == memory else one
                    for one in entry["traffic"]
                ]
            }
        ),
    ),
    (
        r"buffer '(.+)' has .* bytes?; its rows take (\d+)",
        lambda entry, name, size: (
            entry
            | {
                "buffers": [
                    {**one, "size": size} if one["name"] == name else one
                    for one in entry["buffers"]
                ]
            }
        ),
    ),
)


def mended(entry, message):
    """The document with the count that a message names; None where it names none."""
    for pattern, mend in MENDED:
        if counts := re.search(pattern, message):
            return mend(entry, *(int(one) if one.isdigit() else one for one in counts.groups()))
    return None


def checked(case, entry):
    """The model and plan of a document that is passed; None, and why, for one that is refused.

    Wrong counts are mended a few times, so that the checker looks at what is behind them.
    """
    for _ in range(4):
        try:
            (plan,) = parse_plans(json.dumps(entry), "plan.json")
            model = worked_part(case.model, plan)
            fit_of(model.network, plan)
        except CsdfError as error:
            message = str(error)
            assert re.fullmatch(r".+", message), "one line"
            after = mended(entry, message)
            if after is None:
                break
            entry = after
        else:
            return (model, plan), entry
    return None, message


def require_right(model, plan):
    """Fail unless runs in poisoned bytes give the network's outputs, and move as many bytes."""
    frames = [random_frame(model.network, number) for number in (5, 6, 7)]
    states = first_states(model)
    for run, frame in zip(run_frames(model, plan, frames), frames, strict=True):
        wanted = run_layer_by_layer(model, frame, states)
        for name, array in wanted.items():
            assert difference(run.outputs[name], array).relative < TOLERANCE
        assert not plan.memories or run.slow_bytes == plan.slow_bytes


def test_plans_that_are_right_are_passed():
    for case in right_plans():
        assert checked(case, plan_as_json(case.plan))[0] is not None


def test_a_plan_with_one_thing_changed_is_refused_or_right():
    refused = passed = 0
    for seed in range(MUTANTS):
        random = Random(seed)
        case = any_right(random)
        entry, _ = spoiled(plan_as_json(case.plan), random)
        accepted, _ = checked(case, entry)
        refused += accepted is None
        if accepted is not None:
            passed += 1
            require_right(*accepted)
    assert refused > MUTANTS // 2
    assert passed > MUTANTS // 20


def all_accepted(seeds):
    """The model and plan of each spoilt document that is passed and differs from the plan it was.

    Fails unless each gives the outputs of the network.
    """
    for seed in seeds:
        random = Random(seed)
        case = any_right(random)
        accepted, _ = checked(case, spoiled(plan_as_json(case.plan), random)[0])
        if accepted is not None and accepted[1] != case.plan:
            require_right(*accepted)
            yield f"net{seed}", case.method, *accepted


@pytest.mark.slow
@needs_compiler
def test_c_of_spoilt_plans_that_are_passed_gives_the_same_frame_twice(tmp_path):
    # The executor runs all of them, the compiler every fourth: a second each under sanitizers.
    made = []
    for number, (name, method, model, plan) in enumerate(all_accepted(range(10_000, 11_500))):
        if number % 4 or method == "primitives":
            continue
        first, second = (random_frame(model.network, seed) for seed in (11, 12))
        try:
            made.append(library(model, plan, name=name, frames=[first, first, second]))
        except CsdfError:
            continue  # the C code has limits of its own
    assert len(made) > 20
    assert run_all(made, tmp_path) == []


@pytest.mark.slow
@needs_compiler
def test_plans_changed_step_by_step_run_in_c_within_their_bytes(tmp_path):
    made = []
    for seed in range(WALKS):
        random = Random(seed)
        case = any_right(random, without=["primitives"])
        entry, accepted = plan_as_json(case.plan), (case.model, case.plan)
        for _ in range(STEPS):
            found, after = checked(case, spoiled(entry, random)[0])
            if found is not None:
                entry, accepted = after, found
        model, plan = accepted
        frames = [random_frame(model.network, number) for number in (11, 12)]
        try:
            made.append(library(model, plan, name=f"net{seed}", frames=frames))
        except CsdfError:
            continue  # the C code has limits of its own
    assert len(made) > WALKS // 2
    assert run_all(made, tmp_path) == []
