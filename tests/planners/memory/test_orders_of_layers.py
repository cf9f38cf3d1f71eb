"""Plans of networks whose layers run in another order than that of their file."""

from dataclasses import replace

import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidArgument
from csdf.time_limit import Stop
from planners.memory.answer import WHOLE_LAYERS
from planners.memory.fit import fit
from planners.memory.layer_orders import FILE_ORDER, canonical_orders, depth_first_order, in_order
from planners.memory.order import topological_order
from planners.memory.partitions import coarse_partitions
from planners.memory.plan_runs import run_plan
from planners.memory.stages import StageTable
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
    layers = [stage.layers[0] for group in way.plan.groups for stage in group.stages]
    places = {name: place for place, name in enumerate(layers)}
    assert all(places[f"narrow{k}"] == places[f"wide{k}"] + 1 for k in range(4))
    run = run_plan(model, way.plan, frame)
    require_equal(run.outputs, run_layer_by_layer(model, frame))
    assert run.high_water_bytes <= way.ram_bytes


def shuffled_branches():
    names = [f"wide{k}" for k in (2, 0, 3, 1)] + [f"narrow{k}" for k in (1, 3, 2, 0)] + ["joined"]
    return in_order(branches(depth_first=False), names)


def canonical(network):
    first, others = canonical_orders(network, StageTable(network, element_bytes=1), Stop(effort=1))
    return [tuple(layer.name for layer in ordered.layers) for ordered in (*first, *others)]


def test_the_orders_do_not_depend_on_the_order_of_the_file():
    first, second = canonical(branches(depth_first=False)), canonical(shuffled_branches())
    assert first == second
    assert len(first) in (1, 2)  # of the lowest peak, and depth first


def renamed(network, rename):
    """The network with other names, whose alphabetical order is another."""
    layers = tuple(
        replace(layer, name=rename(layer.name), inputs=tuple(map(rename, layer.inputs)))
        for layer in network.layers
    )
    return replace(network, layers=layers)


def test_the_orders_do_not_depend_on_the_names_of_layers():
    def rename(name):
        return "".join(chr(219 - ord(letter)) if letter.islower() else letter for letter in name)

    network = branches(depth_first=False)
    orders = canonical(network)
    assert canonical(renamed(network, rename)) == [tuple(map(rename, order)) for order in orders]


def test_a_file_in_depth_first_order_is_one_of_the_canonical_orders():
    network = branches(depth_first=True)
    own = tuple(layer.name for layer in network.layers)
    assert own[1:-1] == depth_first_order(network)
    assert own in canonical(network)


def test_a_depth_first_order_visits_the_inputs_of_a_layer_in_their_order():
    pairs = [(f"wide{k}", f"narrow{k}") for k in range(4)]
    order = depth_first_order(shuffled_branches())
    assert order == (*(name for pair in pairs for name in pair), "joined")


def test_a_concatenation_that_is_joined_again_comes_directly_before_its_reader():
    builder = NetworkBuilder("nested")
    image = builder.input((2, 8, 8), name="image")

    def relu(name):
        return builder.add(op.Activation(function="relu"), image, name=name)

    pair = builder.add(op.Concatenation(axis=0), relu("one"), relu("two"), name="pair")
    joined = builder.add(op.Concatenation(axis=0), pair, relu("three"), name="joined")
    builder.output(joined)
    assert depth_first_order(builder.network()) == ("one", "two", "three", "pair", "joined")


def test_a_sum_that_another_sum_alone_reads_comes_directly_before_it():
    builder = NetworkBuilder("fused resolutions")
    image = builder.input((3, 8, 8), name="image")
    sources = [pooled(builder, image, name) for name in ("one", "two", "three")]
    pair = builder.add(op.Elementwise(function="add"), *sources[:2], name="pair")
    joined = builder.add(op.Elementwise(function="add"), pair, sources[2], name="joined")
    builder.output(joined)
    assert depth_first_order(builder.network()) == ("one", "two", "three", "pair", "joined")


def pooled(builder, source, name):
    window = op.Window(kernel=(2, 2), stride=(2, 2), padding=(0,) * 4)
    return builder.add(op.Pooling(function="max", window=window), source, name=name)


def test_stages_of_branches_begin_behind_the_tensors_that_two_layers_read():
    network = in_order(residual_branches(), depth_first_order(residual_branches()))
    layer_order = topological_order(network)
    layers = tuple(layer.name for layer in layer_order.between(0, 1))
    assert len(layers) == 14
    table = StageTable(network, element_bytes=1)
    partitions = [[stage.layers for stage in stages] for stages in coarse_partitions(table, layers)]
    branches = [(f"second{number}", f"third{number}", f"sum{number}") for number in range(3)]
    one, two, three = branches[0], (*branches[1], "pair"), (*branches[2], "joined")
    assert [("first0",), one, ("first1",), two, ("first2",), three] in partitions
    # A stage of all layers would compute the first layer of each branch twice.
    assert partitions[-1] != partitions[-2]


def residual_branches():
    """Three branches, each a convolution and a residual block behind it, and the sum of all."""
    builder = NetworkBuilder("residual branches")
    image = builder.input((3, 8, 8), name="image")

    def convolution(name, source):
        window = op.Window(kernel=(3, 3), stride=(1, 1), padding=(1,) * 4)
        return builder.add(op.Convolution(filters=4, window=window), source, name=name)

    sums = []
    for number in range(3):
        first = convolution(f"first{number}", image)
        third = convolution(f"third{number}", convolution(f"second{number}", first))
        sums.append(builder.add(op.Elementwise(function="add"), first, third, name=f"sum{number}"))
    pair = builder.add(op.Elementwise(function="add"), *sums[:2], name="pair")
    joined = builder.add(op.Elementwise(function="add"), pair, sums[2], name="joined")
    builder.output(convolution("last", joined))
    return builder.network()


def with_two_images(*, late_first):
    """A chain over an image that narrows to 16 bytes, and then a sum with another image."""
    builder = NetworkBuilder("two images")
    image = builder.input((1, 16, 16), name="image")
    other = builder.input((1, 4, 4), name="other")
    whole = op.Window(kernel=(4, 4), stride=(4, 4), padding=(0,) * 4)

    def late():
        return builder.add(op.Activation(function="relu"), other, name="a late layer")

    first = late() if late_first else None
    wide = builder.add(op.Activation(function="relu"), image, name="wide")
    narrow = builder.add(op.Pooling(function="max", window=whole), wide, name="narrow")
    last = builder.add(op.Activation(function="relu"), narrow, name="last")
    builder.output(builder.add(op.Elementwise(function="add"), first or late(), last, name="sum"))
    return builder.network()


def test_a_layer_of_another_image_follows_the_separators_that_do_not_read_it():
    for late_first in (False, True):
        network = with_two_images(late_first=late_first)
        assert depth_first_order(network) == ("wide", "narrow", "last", "a late layer", "sum")


def test_the_methods_of_all_orders_do_not_depend_on_the_order_of_the_file():
    answers = [
        planned(network)
        for network in (
            branches(depth_first=False),
            branches(depth_first=True),
            shuffled_branches(),
        )
    ]
    figures = [[(way.name, way.ram_bytes, way.mac_ratio) for way in one.methods] for one in answers]
    assert figures[0] == figures[1] == figures[2]


def long_branches():
    """Three branches of five layers each, and their concatenation: 16 layers without a separator."""
    builder = NetworkBuilder("long branches")
    image = builder.input((2, 8, 8), name="image")
    ends = []
    for k in range(3):
        last = image
        for step in range(5):
            operator = op.Activation(function="relu" if (k + step) % 2 else "tanh")
            last = builder.add(operator, last, name=f"layer{k}{step}")
        ends.append(last)
    builder.output(builder.add(op.Concatenation(axis=0), *ends, name="joined"))
    return builder.network()


def test_random_and_breadth_first_orders_of_a_long_section_do_not_depend_on_the_file():
    network = long_branches()
    breadth_first = [f"layer{k}{step}" for step in range(5) for k in range(3)] + ["joined"]
    first, second = canonical(network), canonical(in_order(network, breadth_first))
    assert first == second
    # Three branches of five layers have 15! / (5!)^3 = 756,756 orders; depth first there are six.
    assert len(set(first)) == len(first) >= 1 + 5 + 1
    levels = [[name[-1] for name in order if name.startswith("layer")] for order in first]
    assert sorted("01234" * 3) in levels


def test_a_long_section_with_one_branch_has_no_random_order():
    builder = NetworkBuilder("passthrough")
    image = builder.input((2, 8, 8), name="image")
    last = image
    for _ in range(20):
        last = builder.add(op.Activation(function="relu"), last)
    side = builder.add(op.Activation(function="tanh"), image)
    builder.output(builder.add(op.Concatenation(axis=0), side, last, name="joined"))
    network = builder.network()
    table = StageTable(network, element_bytes=1)
    assert canonical_orders(network, table, Stop(effort=1))[1] == []


def test_a_chain_has_no_other_order():
    builder = NetworkBuilder("chain")
    last = builder.input((1, 8, 8))
    for _ in range(3):
        last = builder.add(op.Activation(function="relu"), last)
    builder.output(last)
    network = builder.network()
    table = StageTable(network, element_bytes=1)
    assert canonical_orders(network, table, Stop(steps=0)) == ([network], [])


def test_an_unknown_order_is_refused():
    with pytest.raises(InvalidArgument, match="order"):
        planned(branches(depth_first=True), order="best")


@pytest.mark.parametrize("look", [1, 2, 20, 200])
def test_ctrl_c_ends_the_search_of_all_orders_and_returns_the_best_plan(look):
    looks = []

    def interrupt(progress):
        looks.append(progress)
        if len(looks) == look:
            raise KeyboardInterrupt

    network = from_catalogue("resnet8")
    found = fit(network, ram=20_000, element_bytes=1, budget=Stop(report=interrupt))
    assert len(looks) == look
    assert found.best is not None
    assert "interrupted" in str(found.reason)
