"""Plans changed in one respect, and step by step: the checker refuses each, or the plan is right.

Right means that the executor, in poisoned bytes, gives the outputs of the whole network, and so
does the C code under sanitizers.
"""

import json
import re
from functools import cache
from random import Random

import pytest

from cnn2csdf.execution.compare import difference
from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from csdf.errors import CsdfError
from planners.code.frames import random_frame
from planners.code.library import library
from planners.code.several import Member
from planners.memory.answer import EXTERNAL, RESIDENT
from planners.memory.loaded_plan import fit_of
from planners.memory.plan_runs import run_frames
from planners.memory.several_networks import Together
from planners.plan.checker import require_apart
from planners.plan.computing import ModelComputing
from planners.plan.executor import PlanMachine
from planners.plan.plan import Kind
from planners.plan.text import parse_plans, plan_as_json, worked_part
from planners.rewrites.rematerialisation import executed_model
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import needs_compiler, run_all, run_in_turn
from tests.planners.memory.test_memories import two_layers
from tests.planners.memory.test_shared_memories import in_turn
from tests.planners.memory.test_stateful import changing_places, paired, read_twice
from tests.planners.memory.test_weights_in_memories import chain, memories
from tests.planners.memory.wrong_plans import any_right, right_plans, spoiled

MUTANTS, WALKS, STEPS, IN_TURN = 150, 6, 40, 80
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


def checked(model, entry):
    """The model and plan of a document that is passed; None, and why, for one that is refused.

    Wrong counts are mended a few times, so that the checker looks at what is behind them.
    """
    for _ in range(4):
        try:
            (plan,) = parse_plans(json.dumps(entry), "plan.json")
            worked = worked_part(model, plan)
            fit_of(worked.network, plan)
        except CsdfError as error:
            message = str(error)
            assert re.fullmatch(r".+", message), "one line"
            after = mended(entry, message)
            if after is None:
                break
            entry = after
        else:
            return (worked, plan), entry
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


@cache
def plans_in_turn():
    """Models that share memories, each with its plan: resident weights, states, external inputs."""
    chains = [integer_model(chain(2)), integer_model(chain(3), 1)]
    mixed = [real_model(chain(2, height=6, channels=2)), integer_model(two_layers(), 1)]
    kept = [paired("kept", read_twice), real_model(two_layers()), paired("moved", changing_places)]
    found = []
    for models, boards in (
        (chains, ((655,), (1000,), (1500,), (900, 700))),
        (mixed, ((700,), (1200,))),
        (kept, ((4000,), (8000, 4000))),
    ):
        for sizes in boards:
            for source in (RESIDENT, EXTERNAL):
                fits, _ = in_turn(models, memories(*sizes), input=source)
                if all(one.best is not None for one in fits):
                    found.append((models, [one.best.plan for one in fits]))
    return found


def spoilt_in_turn(random):
    """Models and plans that share memories, of which a plan is spoilt; None for those refused."""
    models, plans = random.choice(plans_in_turn())
    plans, number = list(plans), random.randrange(len(plans))
    accepted, _ = checked(models[number], spoiled(plan_as_json(plans[number]), random)[0])
    if accepted is None or accepted[1] == plans[number]:
        return None
    worked, plans[number] = accepted
    models = [*models[:number], worked, *models[number + 1 :]]
    try:
        require_apart(plans)
        fits = tuple(fit_of(model.network, plan) for model, plan in zip(models, plans, strict=True))
        Together(fits=fits, flash=None, longest=None)
    except CsdfError:
        return None
    return models, plans


def require_right_in_turn(models, plans):
    """Fail unless networks that take turns give their outputs, each frame over the bytes of others."""
    states = [first_states(model) for model in models]
    machines = []
    for turn in range(3):
        for number, (model, plan) in enumerate(zip(models, plans, strict=True)):
            frame, worked = (
                random_frame(model.network, turn),
                executed_model(model, plan.rematerialised),
            )
            computing = ModelComputing(worked, frame)
            if turn:
                machines[number].next_frame(computing)
            else:
                machines.append(PlanMachine(worked.network, plan, computing))
                machines[number].run()
            for name, wanted in run_layer_by_layer(model, frame, states[number]).items():
                output = machines[number].output(model.network.layer(name).inputs[0])
                output = output.transpose(2, 0, 1).reshape(wanted.shape)
                assert difference(output, wanted).relative < TOLERANCE
            for machine in machines[:number] + machines[number + 1 :]:
                for buffer in plan.buffers:
                    if buffer.kind is not Kind.EXTERNAL:
                        machine.arena.spoil(buffer.offset, buffer.size)


def test_plans_that_are_right_are_passed():
    for case in right_plans():
        assert checked(case.model, plan_as_json(case.plan))[0] is not None


def test_a_plan_with_one_thing_changed_is_refused_or_right():
    refused = passed = 0
    for seed in range(MUTANTS):
        random = Random(seed)
        case = any_right(random)
        entry, _ = spoiled(plan_as_json(case.plan), random)
        accepted, _ = checked(case.model, entry)
        refused += accepted is None
        if accepted is not None:
            passed += 1
            require_right(*accepted)
    assert refused > MUTANTS // 2
    assert passed > MUTANTS // 20


def test_a_spoilt_plan_of_networks_in_turn_is_refused_or_right():
    for models, plans in plans_in_turn():
        require_right_in_turn(models, plans)
    passed = 0
    for seed in range(IN_TURN):
        accepted = spoilt_in_turn(Random(seed))
        if accepted is not None:
            passed += 1
            require_right_in_turn(*accepted)
    assert IN_TURN // 20 < passed < IN_TURN // 2


def all_accepted(seeds):
    """The model and plan of each spoilt document that is passed and differs from the plan it was.

    Fails unless each gives the outputs of the network.
    """
    for seed in seeds:
        random = Random(seed)
        case = any_right(random)
        accepted, _ = checked(case.model, spoiled(plan_as_json(case.plan), random)[0])
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
            found, after = checked(case.model, spoiled(entry, random)[0])
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


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("first", [20_000, 20_100])
def test_c_of_spoilt_plans_of_networks_in_turn_gives_their_outputs(first, tmp_path):
    compiled = 0
    for seed in range(first, first + 100):
        accepted = spoilt_in_turn(Random(seed))
        if accepted is None:
            continue
        members = [
            Member(
                model=model,
                plan=plan,
                name=f"n{place}",
                frames=[random_frame(model.network, number) for number in (11, 12, 13)],
            )
            for place, (model, plan) in enumerate(zip(*accepted, strict=True))
        ]
        try:
            assert run_in_turn(members, tmp_path / f"{seed}") is None, seed
        except CsdfError:
            continue  # the C code has limits of its own
        compiled += 1
    assert compiled > 2
