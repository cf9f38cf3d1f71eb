"""The test program of a library runs each frame twice without a new start."""

from dataclasses import replace

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.weights import Model, random_weights
from planners.code import library as written
from planners.memory.memories import planned_in_memories
from planners.memory.request import fit_request
from planners.plan.plan import Kind
from tests.planners.code.compiling import FLAGS, needs_compiler, run_all
from tests.planners.memory.test_weights_in_memories import memories


def products():
    """Three matrices of 64 weights, each in fast memory from frame to frame."""
    builder = NetworkBuilder("products")
    source = builder.input((8,))
    for _ in range(3):
        source = builder.add(op.FullyConnected(units=8), source)
    builder.output(source)
    network = builder.network()
    return Model(network=network, weights=random_weights(network, 1))


@needs_compiler
def test_weights_that_the_last_layer_of_a_frame_destroys_fail_make_test(tmp_path, monkeypatch):
    # The checker refuses such a plan, so C of it is written without the checker.
    monkeypatch.setattr(written, "require_carried_out", lambda network, plan: None)
    model = products()
    plan = planned_in_memories(
        fit_request(
            model.network,
            memories=memories(2048, rate=10**8, flash=10**6),
            element_bytes=4,
            platform=None,
        ),
        None,
    ).plan
    stays = [one for one in plan.buffers if one.kind is Kind.RESIDENT]
    (result,) = (source for layer in model.network.outputs for source in layer.inputs)
    last = next(one for one in plan.buffers if one.tensor == result and one.has_all_rows)
    first = next(one for one in stays if one.tensor == model.network.layers[1].name)
    assert len(stays) == 3  # of the first layer, whose bytes are read before the result is there
    buffers = tuple(
        replace(one, offset=first.offset) if one is last else one for one in plan.buffers
    )
    cases = {"right": plan, "wrong": replace(plan, buffers=buffers)}
    made = [written.library(model, one, name=name) for name, one in cases.items()]
    assert run_all(made, tmp_path, FLAGS) == ["wrong"]
