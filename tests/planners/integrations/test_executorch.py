"""Plans inside ExecuTorch: the .pte runs and gives the same, in fewer bytes than greedy plans."""

import functools

import pytest

from csdf.errors import InvalidPlan

NEEDED = "needs executorch (pip install executorch torch)"
memory_planning = pytest.importorskip("executorch.exir.memory_planning", reason=NEEDED)
torch = pytest.importorskip("torch", reason=NEEDED)

from executorch.exir import ExecutorchBackendConfig, to_edge  # noqa: E402
from executorch.exir.passes import MemoryPlanningPass  # noqa: E402
from executorch.runtime import Runtime  # noqa: E402

from planners.integrations import executorch as ours  # noqa: E402
from tests.planners.integrations.executorch_models import MODELS  # noqa: E402

pytestmark = pytest.mark.slow
greedy = memory_planning.greedy
SMALLER = {"residual", "attention", "branches"}  # than the greedy plan


def network(name):
    torch.manual_seed(1)
    kind, shape = MODELS[name]
    return kind().eval().requires_grad_(requires_grad=False), torch.rand(shape)


def planned(name, algorithm, memories=(), **options):
    """The program and its sizes by memory; memories: where tensors lie by turns."""
    model, frame = network(name)

    def by_turns(alignment, specs, *others):
        for number, spec in enumerate(specs):
            spec.mem_id = memories[number % len(memories)] if memories else None
        return algorithm(alignment, specs, *others)

    suite = memory_planning.MemoryPlanningAlgorithmSuite([by_turns])
    made = MemoryPlanningPass(memory_planning_algo=suite, **options)
    edge = to_edge(torch.export.export(model, (frame,)))
    program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=made))
    graph = program.exported_program().graph_module
    checker = memory_planning.Verifier(
        graph,
        made.alloc_graph_input,
        made.alloc_graph_output,
        made.alloc_mutable_buffers,
        program.exported_program().graph_signature,
    )
    checker.verify_storage_reuse()
    return program.buffer, graph.meta["non_const_buffer_sizes"]


def require_same_outputs(name, content):
    method = Runtime.get().load_program(content).load_method("forward")
    model, frame = network(name)
    for one in (frame, -frame, frame * 2):
        (found,) = method.execute([one])
        torch.testing.assert_close(found, model(one), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_program_gives_the_outputs_in_no_more_bytes_than_greedy(name):
    content, (_, found) = planned(name, ours.memory_planning)
    _, (_, others) = planned(name, greedy)
    print(f"{name}: {found} bytes, greedy {others}, {others / found:.3f} times as many")
    assert found < others if name in SMALLER else found == others
    require_same_outputs(name, content)


def test_several_memories_each_hold_no_more_than_greedy():
    content, found = planned("residual", ours.memory_planning, (1, None, 1, 3))
    _, others = planned("residual", greedy, (1, None, 1, 3))
    assert len(found) == len(others) == 4
    assert sum(found) < sum(others)
    assert all(one <= other for one, other in zip(found, others, strict=True))
    require_same_outputs("residual", content)


def test_inputs_and_outputs_of_the_caller_are_left_alone():
    # MemoryPlanningPass itself asserts that none of them has an offset.
    options = {"alloc_graph_input": False, "alloc_graph_output": False}
    _, (_, found) = planned("attention", ours.memory_planning, **options)
    _, (_, others) = planned("attention", greedy, **options)
    assert found <= others


def test_capacities_of_memories_are_kept():
    sizes = {1: 20_000, 2: 45_000}  # 59,904 bytes are live together
    algorithm = functools.partial(ours.memory_planning, capacities=sizes)
    content, found = planned("residual", algorithm)
    assert all(found[mem_id] <= size for mem_id, size in sizes.items())
    require_same_outputs("residual", content)


def test_capacities_that_are_too_small_are_refused():
    algorithm = functools.partial(ours.memory_planning, capacities={1: 4_000, 2: 4_000})
    with pytest.raises(InvalidPlan, match="do not fit into the capacities"):
        planned("residual", algorithm)


def test_no_budget_leaves_a_plan_not_worse_than_greedy():
    _, (_, found) = planned("residual", functools.partial(ours.memory_planning, budget=0))
    _, (_, others) = planned("residual", greedy)
    assert found <= others
