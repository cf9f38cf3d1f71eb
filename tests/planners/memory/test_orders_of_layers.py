"""Plans of networks whose layers run in another order than that of their file."""

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidArgument
from csdf.time_limit import Stop
from planners.memory.answer import WHOLE_LAYERS
from planners.memory.fit import fit
from planners.memory.orders import FILE_ORDER, in_order, with_lower_peak
from planners.memory.several import run_plan
from planners.plan.carried_out import require_carried_out
from tests.planners.memory.streamed import random_frame
from tests.planners.memory.test_streamed_runs import require_equal


def branches(depth_first):
    """Four branches that widen a map and pool all of it away, in either order."""
    builder = NetworkBuilder("branches")
    image = builder.input((2, 8, 8), name="image")

    def widen(k):
        operator = op.Convolution(
            filters=20, window=op.Window(kernel=(3, 3), stride=(1, 1), padding=(1,) * 4)
        )
        return builder.add(operator, image, name=f"wide{k}")

    def shrink(k, source):
        whole = op.Window(kernel=(8, 8), stride=(1, 1), padding=(0,) * 4)
        return builder.add(op.Pooling(function="max", window=whole), source, name=f"narrow{k}")

    if depth_first:
        narrow = [shrink(k, widen(k)) for k in range(4)]
    else:
        wide = [widen(k) for k in range(4)]
        narrow = [shrink(k, one) for k, one in enumerate(wide)]
    joined = builder.add(op.Concatenation(axis=0), *narrow, name="joined")
    builder.output(joined)
    return builder.network()


def whole_layers(answer):
    return next(one for one in answer.methods if one.name == WHOLE_LAYERS)


def planned(network, **options):
    return fit(network, element_bytes=1, budget=Stop(effort=2), **options)


def test_breadth_first_layers_take_as_few_bytes_as_depth_first_layers():
    one, other = planned(branches(depth_first=False)), planned(branches(depth_first=True))
    # The image of 128, three results of 20, the wide map of 1280 of the fourth branch: 1468.
    assert whole_layers(one).ram_bytes == whole_layers(other).ram_bytes == 128 + 3 * 20 + 1280
    assert one.least.ram_bytes == other.least.ram_bytes


def test_the_order_of_the_file_alone_is_planned_where_it_is_asked_for():
    answer = planned(branches(depth_first=False), order=FILE_ORDER)
    # All four wide maps together, and the image until the last of them is written.
    assert whole_layers(answer).ram_bytes == 128 + 4 * 1280


def test_plans_in_another_order_are_plans_of_the_network_itself():
    network = branches(depth_first=False)
    model = Model(network=network, weights=random_weights(network, 1))
    frame = random_frame(network, 2)
    answer = fit(network, budget=Stop(effort=2))
    way = whole_layers(answer)
    require_carried_out(network, way.plan)
    layers = [stage.stage.layers[0] for group in way.plan.groups for stage in group.stages]
    places = {name: place for place, name in enumerate(layers)}
    assert all(places[f"narrow{k}"] == places[f"wide{k}"] + 1 for k in range(4))
    run = run_plan(model, way.plan, frame)
    require_equal(run.outputs, run_layer_by_layer(model, frame))
    assert run.high_water_bytes <= way.ram_bytes


def test_the_order_does_not_depend_on_the_order_of_the_file():
    network = branches(depth_first=False)
    names = [f"{kind}{k}" for k in (2, 0, 3, 1) for kind in ("wide",)]
    names += [f"narrow{k}" for k in (1, 3, 2, 0)] + ["joined"]
    shuffled = in_order(network, names)
    first, second = [
        with_lower_peak(one, element_bytes=1, external=frozenset(), stop=Stop(effort=1))
        for one in (network, shuffled)
    ]
    assert first.layers == second.layers


def test_a_chain_has_no_other_order():
    builder = NetworkBuilder("chain")
    last = builder.input((1, 8, 8))
    for _ in range(3):
        last = builder.add(op.Activation(function="relu"), last)
    builder.output(last)
    options = {"element_bytes": 1, "external": frozenset(), "stop": Stop(steps=0)}
    assert with_lower_peak(builder.network(), **options) is None


def test_an_unknown_order_is_refused():
    with pytest.raises(InvalidArgument, match="order"):
        planned(branches(depth_first=True), order="best")
