"""Windows that slide as hops, and inputs as states."""

from contextlib import suppress
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.execution.layer_by_layer import first_states, run_layer_by_layer
from cnn2csdf.geometry import Window
from cnn2csdf.operators import Next, Previous
from cnn2csdf.parameters import multiply_accumulates
from cnn2csdf.rings import rings_of, with_states
from cnn2csdf.streams import as_stream, first_result
from cnn2csdf.weights import Model, random_weights
from csdf.cli.main import main
from csdf.errors import InvalidNetwork

ROWS = 19


def keyword_spotter(*, padding=0):
    """Of real numbers: strides, depthwise windows, a branch that is cropped, a mean over the map."""
    network = NetworkBuilder("words")
    x = network.input((1, ROWS, 4))
    window = Window(kernel=(4, 3), stride=(2, 1), padding=(padding, 1, padding, 1))
    x = network.add(op.Convolution(filters=3, window=window), x)
    x = network.add(op.Activation(function="relu"), x)
    y = network.add(op.Convolution(filters=3, window=Window(kernel=(3, 1)), groups=3), x)
    rows = network.shape(x).rows
    cropped = network.add(op.Slice(axis=1, start=1, stop=rows - 1), x)
    x = network.add(op.Elementwise(function="add"), y, cropped)
    x = network.add(op.GlobalPooling(function="average"), x)
    network.output(network.add(op.FullyConnected(units=2), x))
    found = network.network()
    return Model(network=found, weights=random_weights(found, 1))


def random_padded(seed):
    """Of real numbers: windows, sums, slices and joins, with any padding of the rows."""
    source, network = Random(seed), NetworkBuilder("padded")
    x = network.input((source.choice([1, 2]), ROWS, source.choice([1, 3])))
    for _ in range(source.randint(1, 4)):
        shape, size = network.shape(x), source.randint(2, 4)
        ends = source.randrange(size), source.randrange(size)
        stride = (source.choice([1, 1, 2]), 1)
        window = Window(kernel=(size, 1), stride=stride, padding=(ends[0], 0, ends[1], 0))
        same = op.Convolution(
            filters=shape.channels, window=Window(kernel=(3, 1), padding=(1, 0, 1, 0))
        )
        if shape.rows < 6:
            break
        match source.choice(["window", "depthwise", "pool", "sum", "crop", "join"]):
            case "window":
                x = network.add(op.Convolution(filters=3, window=window), x)
            case "depthwise":
                one_each = {"filters": shape.channels, "groups": shape.channels}
                x = network.add(op.Convolution(window=window, **one_each), x)
            case "pool":
                function = source.choice(["max", "average"])
                x = network.add(op.Pooling(function=function, window=window), x)
            case "sum":
                x = network.add(op.Elementwise(function="add"), network.add(same, x), x)
            case "crop":
                x = network.add(op.Slice(axis=1, start=1, stop=shape.rows), x)
            case "join":
                x = network.add(op.Concatenation(axis=0), network.add(same, x), x)
    if source.random() < 0.7:
        x = network.add(op.GlobalPooling(function="average"), x)
    network.output(x)
    found = network.network()
    return Model(network=found, weights=random_weights(found, seed))


def in_integers(*, padding=0):
    """Of int8: a window of rows with a fully connected layer over all of them."""
    kinds = [
        Quantization(element=Element.INT8, scales=(0.05,), zero_point=zero) for zero in (3, -4)
    ]
    kernel = Quantization(element=Element.INT8, scales=(0.01,))
    network = NetworkBuilder("words")
    common = {"element": Element.INT8}
    x = network.input((2, ROWS, 1), quantization=kinds[0], **common)
    stored = (Stored(role="kernel", element=Element.INT8, quantization=kernel),)
    convolution = op.Convolution(
        filters=5,
        window=Window(kernel=(3, 1), stride=(2, 1), padding=(padding, 0, padding, 0)),
        has_bias=False,
    )
    x = network.add(convolution, x, quantization=kinds[1], stored=stored, **common)
    stored = (Stored(role="matrix", element=Element.INT8, quantization=kernel),)
    matrix = op.FullyConnected(units=1, has_bias=False)
    x = network.add(matrix, x, quantization=kinds[0], stored=stored, **common)
    network.output(x)
    found = network.network()
    return Model(network=found, weights=random_weights(found, 2))


def work(network):
    return sum(multiply_accumulates(one, network.input_shapes(one)) for one in network.layers)


@pytest.mark.parametrize(("model", "hop"), [(keyword_spotter(), 2), (keyword_spotter(), 4)])
def test_a_hop_gives_what_the_window_gives_of_the_last_rows(model, hop):
    require_same_results(model, hop, tolerance=1e-5)


def test_a_hop_of_integers_gives_the_same_bytes_with_sums_instead_of_rows():
    stream = require_same_results(in_integers(), 2, tolerance=0)
    assert any(isinstance(one.operator, op.StreamedProduct) for one in stream.network.layers)


@pytest.mark.parametrize("hop", [2, 4])
def test_rows_that_depend_on_padding_are_computed_again_in_each_hop(hop):
    require_same_results(keyword_spotter(padding=1), hop, tolerance=1e-5)


def test_padded_rows_of_integers_give_the_same_bytes_from_one_store_of_weights():
    # 10 rows at a stride of 2: the first and the last depend on padding, one is new.
    stream = require_same_results(in_integers(padding=1), 2, tolerance=0).network
    convolutions = [one for one in stream.layers if isinstance(one.operator, op.Convolution)]
    assert [one.shape.rows for one in convolutions] == [1, 1, 1]
    assert len({one.stored_as("kernel").name for one in convolutions}) == 1
    assert sum(isinstance(one.operator, Previous) for one in stream.layers) == 2  # input and map


def test_a_constant_that_differs_from_row_to_row_does_not_slide():
    network = NetworkBuilder("ramp")
    window = Window(kernel=(3, 1), padding=(1, 0, 1, 0))
    x = network.add(op.Convolution(filters=2, window=window), network.input((1, ROWS, 2)))
    x = network.add(op.Elementwise(function="add", constant=(ROWS, 1)), x)
    network.output(network.add(op.GlobalPooling(function="max"), x))
    found = network.network()
    require_same_results(Model(network=found, weights=random_weights(found, 0)), 2, tolerance=1e-5)


def test_a_layer_with_rows_of_padding_alone_is_computed_whole():
    network = NetworkBuilder("alone")
    window = Window(kernel=(1, 1), padding=(1, 0, 1, 0))
    x = network.add(op.Convolution(filters=2, window=window), network.input((1, ROWS, 2)))
    network.output(network.add(op.GlobalPooling(function="max"), x))
    found = network.network()
    model = Model(network=found, weights=random_weights(found, 0))
    stream = require_same_results(model, 2, tolerance=1e-5).network
    assert [one.shape.rows for one in stream.layers if one.operator.sliding_window] == [ROWS + 2]


def test_padded_rows_of_random_networks_slide_exactly():
    padded = 0
    for seed in range(60):
        model = random_padded(seed)
        with suppress(InvalidNetwork):  # for a stride of 4 rows
            stream = require_same_results(model, 2, tolerance=1e-5)
            padded += any(
                " rows " in one.name and isinstance(one.operator, (op.Convolution, op.Pooling))
                for one in stream.network.layers
            )
    assert padded > 10


def require_same_results(model, hop, *, tolerance):
    (layer,) = model.network.inputs
    generator = np.random.default_rng(0)
    dims = (layer.shape.dims[0], ROWS + 5 * hop, layer.shape.dims[2])
    rows = generator.integers(-128, 128, dims).astype(layer.array_type)
    stream, hops = as_stream(model, hop), 0
    states, before = first_states(stream), first_result(model.network, hop)
    for number in range(dims[1] // hop):
        new = {layer.name: rows[:, number * hop : (number + 1) * hop]}
        (found,) = run_layer_by_layer(stream, new, states).values()
        if number >= before:
            end = (number + 1) * hop
            window = {layer.name: rows[:, end - ROWS : end]}
            (wanted,) = run_layer_by_layer(model, window).values()
            assert np.abs(found.astype(float) - wanted).max() <= tolerance * np.abs(wanted).max()
            hops += 1
    assert hops >= 5
    assert work(stream.network) <= work(model.network)
    return stream


def test_a_hop_computes_new_rows_only():
    # Rows of the first convolution: 8 windows of 4 rows at a stride of 2 in 19 rows, 1 in a hop of 2.
    model = in_integers()
    stream = as_stream(model, 2).network
    heights = [one.shape.rows for one in stream.layers if isinstance(one.operator, op.Convolution)]
    assert heights == [1]


@pytest.mark.parametrize(
    ("hop", "said"), [(3, "goes 2 rows at a time, and 3 rows"), (ROWS, "more rows than the hop")]
)
def test_a_hop_that_is_no_whole_number_of_rows_is_refused(hop, said):
    with pytest.raises(InvalidNetwork, match=said):
        as_stream(keyword_spotter(), hop)


def counter():
    network = NetworkBuilder("counter")
    x, before = network.input((3,), "x"), network.input((3,), "before")
    total = network.add(op.Elementwise(function="add"), x, before)
    network.output(total, "sum")
    network.output(total, "after")
    return Model(network=network.network(), weights={})


def only_state():
    """A network whose variable is its result, without inputs."""
    network = NetworkBuilder("state")
    previous = network.add(Previous(dims=(3,), variable="state"))
    network.add(Next(variable="state"), previous)
    network.output(previous)
    return network.network()


def test_an_input_is_what_an_output_gave_before():
    model = with_states(counter(), {"before": "after"})
    states = first_states(model)
    found = [
        run_layer_by_layer(model, {"x": np.full(3, value, np.float32)}, states)["sum"][0]
        for value in (1, 2, 4)
    ]
    assert found == [1, 3, 7]


def test_states_of_other_names_are_refused_with_the_names_that_there_are():
    with pytest.raises(InvalidNetwork, match="there is no input 'h', only 'x', 'before'"):
        with_states(counter(), {"h": "after"})
    with pytest.raises(InvalidNetwork, match="there is no output 'typo', only 'sum', 'after'"):
        with_states(counter(), {"before": "typo"})
    without_inputs = with_states(Model(network=only_state(), weights={}), {})
    with pytest.raises(InvalidNetwork, match=r"there is no input 'h'$"):
        with_states(without_inputs, {"h": "after"})


def test_a_state_has_one_type():
    network = counter().network
    layers = tuple(
        replace(layer, element=Element.FLOAT16) if layer.name == "before" else layer
        for layer in network.layers
    )
    halves = Model(network=replace(network, layers=layers), weights={})
    with pytest.raises(
        InvalidNetwork, match=r"is [\dx]+ of float16, the output .* of float32; exp"
    ):
        with_states(halves, {"before": "after"})


def test_an_output_is_the_state_of_one_input():
    with pytest.raises(InvalidNetwork, match="the output 'after' is the state of another input"):
        with_states(counter(), {"before": "after", "x": "after"})


def test_states_have_variables_of_their_own():
    network = NetworkBuilder("counters")
    new = network.input((3,), "new")
    kept = network.add(Previous(dims=(3,), variable="x"), name="kept")
    network.add(Next(variable="x"), network.add(op.Elementwise(function="add"), new, kept))
    for number, name in enumerate(("x", "x 2"), 1):
        before = network.input((3,), name)
        total = network.add(op.Elementwise(function="add"), *[new] * number, before)
        network.output(total, f"next {name}")
        network.output(total, f"sum {number}")
    network.output(kept, "y")
    model = Model(network=network.network(), weights={})
    model = with_states(model, {"x": "next x", "x 2": "next x 2"})
    assert len({previous.operator.variable for previous, _ in model.network.variables}) == 3
    states = first_states(model)
    for value in (1, 2, 4):
        found = run_layer_by_layer(model, {"new": np.full(3, value, np.float32)}, states)
    assert [found[name][0] for name in ("sum 1", "sum 2", "y")] == [7, 14, 3]


def test_an_input_that_is_given_two_outputs_is_refused(capsys):
    wanted = ["fit", "samos_example", "--state", "a=b", "--state", "a=c"]
    assert main(wanted) == 2
    assert "input 'a' has two outputs; give one" in capsys.readouterr().err


def test_a_variable_that_goes_out_is_copied_before_it_is_taken_over():
    network = NetworkBuilder("delay")
    x, before = network.input((2, 1, 1), "x"), network.input((2, 1, 1), "before")
    network.output(before, "delayed")
    network.output(x, "after")
    model = with_states(Model(network=network.network(), weights={}), {"before": "after"})
    states = first_states(model)
    found = [
        run_layer_by_layer(model, {"x": np.full((2, 1, 1), value, np.float32)}, states)[
            "delayed"
        ].max()
        for value in (1, 2, 4)
    ]
    assert found == [0, 1, 2]


def test_windows_of_a_variable_that_other_layers_read_stay_whole():
    network = NetworkBuilder("words")
    new, old = network.input((2, 1, 1), "x"), network.input((2, 3, 1), "before")
    window = network.add(op.Concatenation(axis=1), old, new)
    cut = network.add(op.Slice(axis=1, start=1, stop=4), window)
    mean = network.add(op.GlobalPooling(function="average"), old)  # reads the variable itself
    network.output(network.add(op.GlobalPooling(function="average"), window), "y")
    network.output(mean, "z")
    network.output(cut, "after")
    model = with_states(Model(network=network.network(), weights={}), {"before": "after"})
    assert not rings_of(model.network)
    states = first_states(model)
    for value in (4, 8):
        frame = {"x": np.full((2, 1, 1), value, np.float32)}
        found = run_layer_by_layer(model, frame, states)
    # rows before: 0, 0, 4; the window: 0, 0, 4, 8
    assert found["z"].max() == pytest.approx(4 / 3)
    assert found["y"].max() == 3


def test_a_network_with_a_state_has_no_hop():
    with pytest.raises(InvalidNetwork, match="its frames are hops"):
        as_stream(with_states(counter(), {"before": "after"}), 1)
