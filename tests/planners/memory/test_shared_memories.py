"""Networks that take turns in several memories: each right, no retained byte shared, sizes kept."""

import subprocess
from dataclasses import replace

import pytest

from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.platforms import STACK, BoardMemory
from csdf.errors import InvalidPlan
from csdf.status import Status
from planners.code.several import Member, write_libraries
from planners.memory.answer import EXTERNAL
from planners.memory.fit import fit
from planners.memory.plan_runs import run_frames
from planners.memory.several_networks import Together
from planners.memory.shared_memories import taking_turns
from planners.plan.carried_out import require_own
from planners.plan.checker import require_apart
from planners.plan.plan import Kind
from planners.plan.ram import RamBeside
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import COMPILER, FLAGS, SANITIZERS, needs_compiler, program
from tests.planners.memory.streamed import random_frame
from tests.planners.memory.test_memories import two_layers
from tests.planners.memory.test_stateful import paired, read_twice
from tests.planners.memory.test_weights_in_memories import chain, memories


def in_turn(models, board, **terms):
    """The answers for models that take turns, and the networks that were planned again."""
    asked = []

    def again(number, changes):
        asked.append(number)
        return fit(models[number], memories=changes["memories"], **terms)

    alone = [fit(model, memories=board, **terms) for model in models]
    return taking_turns(alone, again), asked


def bytes_of(plan, *, retained):
    """The bytes of the arena that are retained between frames, or all that a frame writes."""
    return {
        place
        for buffer in plan.buffers
        if buffer.kind is not Kind.EXTERNAL
        and (not retained or buffer.kind in (Kind.KEPT, Kind.STATE, Kind.RESIDENT))
        for place in range(buffer.offset, buffer.offset + buffer.size)
    }


def require_right(models, fits, board):
    """Fail unless each plan is right, and no network writes what another retains."""
    plans = [one.best.plan for one in fits]
    require_own([(model.network, plan) for model, plan in zip(models, plans, strict=True)])
    for number, (model, plan) in enumerate(zip(models, plans, strict=True)):
        for used, memory in zip(plan.memories, board, strict=False):
            assert used.size <= memory.size
        others = set().union(
            *(bytes_of(one, retained=False) for one in plans[:number] + plans[number + 1 :])
        )
        assert not bytes_of(plan, retained=True) & others
        frames = [random_frame(model.network, seed) for seed in range(3)]
        states = first_states(model)
        for frame, run in zip(frames, run_frames(model, plan, frames), strict=True):
            for name, wanted in run_layer_by_layer(model, frame, states).items():
                assert run.outputs[name] == pytest.approx(wanted, rel=1e-4, abs=1e-5)
            assert run.slow_bytes == plan.slow_bytes


@pytest.mark.parametrize("sizes", [(655,), (1500,), (900, 700)])
def test_resident_weights_of_networks_in_turn_are_apart(sizes):
    models, board = [integer_model(chain(2)), integer_model(chain(3), 1)], memories(*sizes)
    fits, _ = in_turn(models, board)
    require_right(models, fits, board)
    assert Together(fits=tuple(fits), flash=None, longest=None).verdict[0] is Status.FEASIBLE


def test_a_network_is_planned_again_within_what_the_weights_of_the_other_leave():
    models, board = [integer_model(chain(2)), integer_model(chain(3), 1)], memories(1000)
    fits, asked = in_turn(models, board)
    assert asked == [0, 1]
    require_right(models, fits, board)
    assert all(one.slow.memories == fits[0].slow.memories for one in fits)
    moved = [fit(model, memories=board).best.plan.slow_bytes for model in models]
    assert moved == [0, 0]  # as all weights are resident
    assert [one.best.plan.slow_bytes for one in fits] == [512, 432]
    with pytest.raises(InvalidPlan, match="stays between frames"):
        require_apart([fit(model, memories=board).best.plan for model in models])


def test_a_state_takes_turns_with_tensors_in_slow_memory():
    models = [paired("kept", read_twice), real_model(two_layers())]
    board = (
        BoardMemory(name="sram", size=4000, holds=("tensors", "weights", "scratch", STACK)),
        BoardMemory(name="psram", size=10**6, is_slow=True),
    )
    fits, _ = in_turn(models, board, beside=RamBeside())
    require_right(models, fits, board)
    kept, other = (one.best.plan for one in fits)
    assert kept.memories == other.memories
    together = Together(fits=tuple(fits), flash=None, longest=None)
    assert together.verdict[0] is Status.FEASIBLE
    # A byte less than arena, states, stack and reserve is too little.
    used = kept.memories[0].size + together.state_bytes + RamBeside().bytes
    small = (replace(board[0], size=used - 1), board[1])
    tight = [replace(one, slow=one.slow._replace(memories=small)) for one in fits]
    assert Together(fits=tuple(tight), flash=None, longest=None).verdict[0] is Status.UNKNOWN


def test_external_tensors_are_after_the_memories_of_all():
    models, board = [integer_model(chain(2)), integer_model(two_layers(), 1)], memories(900)
    fits, _ = in_turn(models, board, input=EXTERNAL)
    require_right(models, fits, board)


def test_networks_in_different_memories_do_not_take_turns():
    models = [integer_model(chain(2)), integer_model(chain(3), 1)]
    fits = [
        fit(model, memories=memories(size)) for model, size in zip(models, (655, 900), strict=True)
    ]
    with pytest.raises(InvalidPlan, match="planned in different memories"):
        Together(fits=tuple(fits), flash=None, longest=None)


@pytest.mark.slow
@needs_compiler
def test_c_of_networks_in_the_same_memories_gives_their_outputs(tmp_path):
    models, board = [integer_model(chain(2)), integer_model(chain(3), 1)], memories(1000)
    fits, _ = in_turn(models, board)
    members = [
        Member(model=model, plan=one.best.plan, name=name)
        for model, one, name in zip(models, fits, "ab", strict=True)
    ]
    files = write_libraries(members, tmp_path).files
    words = [COMPILER, *FLAGS, *SANITIZERS, *program(files), "-lm", "-o", "all"]
    built = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run(["./all"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr[:4000]
