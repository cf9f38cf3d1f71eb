"""Layers after a concatenation that are computed for each of its inputs, with the same bits."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic
from cnn2csdf.execution.layer_by_layer import run_layer_by_layer
from cnn2csdf.parameters import network_multiply_accumulates, parameter_bytes
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from csdf.errors import InvalidPlan
from csdf.time_limit import Stop
from planners.memory.answer import SEARCHED
from planners.memory.fit import fit
from planners.memory.loaded_plan import layer_times
from planners.memory.plan_runs import run_plan
from planners.memory.search import PlanSearch
from planners.plan.carried_out import require_carried_out
from planners.plan.plan import Span
from planners.plan.text import format_plans, parse_plans
from planners.rewrites.concatenation_inputs import for_each_input, input_spans
from planners.rewrites.copied_layers import require_same
from planners.rewrites.rematerialisation import executed_model, executed_network
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import libraries, needs_compiler, run_all
from tests.planners.memory.streamed import random_frame, random_plan

RELU = op.Activation(function="relu")


def window(kernel, stride=1):
    return op.Window(kernel=(kernel, kernel), stride=(stride, stride), padding=(kernel // 2,) * 4)


class Concatenated:
    """A network drawn at random: branches, their concatenation, and layers of single channels."""

    def __init__(self, seed):
        self.source = Random(seed)
        self.builder = NetworkBuilder("concatenated")
        self.image = self.builder.input((2, 6, 7), name="image")
        inputs = [self.branch() for _ in range(self.source.randint(2, 3))]
        if self.source.random() < 0.3:
            inputs.append(inputs[0])
        if self.source.random() < 0.4:
            inputs[1] = self.joined(inputs[1], self.branch())
        last = self.joined(*inputs)
        for number in range(self.source.randint(1, 3)):
            last = self.channelwise(last, is_window=number == 0)
        if self.source.random() < 0.4:
            last = self.channelwise(self.joined(last, self.convolved(last)), is_window=True)
        self.builder.output(self.convolved(last) if self.source.random() < 0.5 else last)

    def branch(self):
        return self.convolved(self.convolved(self.image))

    def convolved(self, source):
        filters, kernel = self.source.randint(1, 4), self.source.choice([1, 3])
        return self.builder.add(op.Convolution(filters=filters, window=window(kernel)), source)

    def joined(self, *sources):
        return self.builder.add(op.Concatenation(), *sources)

    def channelwise(self, source, *, is_window):
        """A layer, or a sum of two, that computes each channel alone."""
        channels = self.builder.shape(source).channels
        kind = self.source.randrange(3 if is_window else 5)
        if kind == 3:
            return self.builder.add(RELU, source)
        if kind == 4:
            parts = [self.channelwise(source, is_window=False) for _ in range(2)]
            shapes = {self.builder.shape(part) for part in parts}
            add = op.Elementwise(function="add")
            return self.builder.add(add, *parts) if len(shapes) == 1 else parts[0]
        where = window(3, self.source.choice([1, 2]))
        if kind == 0:
            return self.builder.add(op.Pooling(function="max", window=where), source)
        filters = channels * self.source.choice([1, 1, 2])
        operator = op.Convolution(filters=filters, groups=channels, window=where)
        return self.builder.add(operator, source, epilogue=(RELU,) * (kind - 1))


def network(seed):
    return Concatenated(seed).builder.network()


def requantised(model):
    """The model with the arithmetic in which a concatenation requantises its inputs."""

    def single(types):
        return types and replace(types, arithmetic=Arithmetic.SINGLE_PRECISION)

    layers = []
    for layer in model.network.layers:
        stored = [replace(array, quantization=single(array.quantization)) for array in layer.stored]
        types = single(layer.quantization)
        if layer.operator.joined_axis == 0:
            types = replace(types, scales=(1.5 * types.scale,))
        layers.append(replace(layer, quantization=types, stored=tuple(stored)))
    return replace(model, network=replace(model.network, layers=tuple(layers)))


def models(seed):
    """The random network in real numbers, and in 8-bit integers of one scale and of several."""
    yield real_model(network(seed), seed)
    yield integer_model(network(seed), seed)
    yield requantised(integer_model(network(seed), seed))


@pytest.mark.parametrize("seed", range(40))
def test_layers_for_each_input_compute_the_same_bits(seed):
    for model in models(seed):
        spans = input_spans(model.network)
        assert spans
        worked, frame = executed_model(model, spans), random_frame(model.network, seed)
        require_same(model.network, worked.network)
        wanted, outputs = run_layer_by_layer(model, frame), run_layer_by_layer(worked, frame)
        for name, array in wanted.items():
            assert np.array_equal(outputs[name], array), name
        assert parameter_bytes(worked.network) == parameter_bytes(model.network)
        work = network_multiply_accumulates(worked.network)
        assert work == network_multiply_accumulates(model.network)


def plan_for_each_input(model, seed):
    """A random plan of the rewritten network, as a plan of the network itself."""
    spans = input_spans(model.network)
    worked = executed_network(model.network, spans)
    plan = random_plan(worked, seed, is_streamed=False, element_bytes=None)
    return replace(plan, rematerialised=(*spans, *plan.rematerialised))


@pytest.mark.parametrize("seed", range(12))
def test_plans_for_each_input_run_in_their_bytes(seed):
    for model in models(seed):
        plan, frame = plan_for_each_input(model, seed), random_frame(model.network, seed)
        require_carried_out(model.network, plan)
        run, wanted = run_plan(model, plan, frame), run_layer_by_layer(model, frame)
        assert run.high_water_bytes <= plan.arena_bytes
        for name, array in wanted.items():
            assert np.allclose(run.outputs[name], array, rtol=1e-5, atol=1e-5), name


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(1), range(1, 8)], ids=["one", "many"])
def test_code_for_each_input_gives_what_the_whole_network_gives(tmp_path, seeds):
    cases = [(model, plan_for_each_input(model, seed)) for seed in seeds for model in models(seed)]
    assert run_all(libraries(cases), tmp_path) == []


def changed(layer):
    """Layers that read other channels, or compute other ones, than the layer."""
    match layer.operator:
        case op.Concatenation() if len(set(layer.inputs)) > 1:
            yield replace(layer, inputs=layer.inputs[::-1])
            yield replace(layer, inputs=layer.inputs[:-1])
        case op.Convolution(window=where) if ", channels " in layer.name:
            yield replace(
                layer, operator=replace(layer.operator, window=replace(where, kernel=(1, 1)))
            )
            begin, _, number = layer.name.rpartition(" ")
            yield replace(layer, name=f"{begin} {int(number) + 99}")


@pytest.mark.parametrize("seed", range(12))
def test_a_network_with_other_channels_is_refused(seed):
    original = network(seed)
    worked = executed_network(original, input_spans(original))
    for number, layer in enumerate(worked.layers):
        for wrong in () if layer in original.layers else changed(layer):
            names = {layer.name: wrong.name}
            behind = (
                replace(after, inputs=tuple(names.get(name, name) for name in after.inputs))
                for after in worked.layers[number + 1 :]
            )
            layers = (*worked.layers[:number], wrong, *behind)
            with pytest.raises(InvalidPlan, match="no copy"):
                require_same(original, replace(worked, layers=layers))


@pytest.mark.parametrize("seed", range(3))
def test_a_requantised_input_with_another_function_is_refused(seed):
    original = requantised(integer_model(network(seed), seed)).network
    rewritten = executed_network(original, input_spans(original))
    parts = [
        layer
        for layer in rewritten.layers
        if layer.operator.joined_axis == 0 and ", channels " in layer.name
    ]
    assert parts
    for part in parts:
        layers = [
            replace(layer, epilogue=(RELU,)) if layer is part else layer
            for layer in rewritten.layers
        ]
        with pytest.raises(InvalidPlan, match="no copy"):
            require_same(original, replace(rewritten, layers=tuple(layers)))


def wide_branches():
    """Two wide maps, and windows over nearly all of them after their concatenation."""
    builder = NetworkBuilder("wide branches")
    image = builder.input((1, 16, 16), name="image")
    wide = [
        builder.add(op.Convolution(filters=16, window=window(3)), image, name=f"wide{k}")
        for k in range(2)
    ]
    joined = builder.add(op.Concatenation(), *wide, name="joined")
    pool = op.Pooling(function="max", window=op.Window(kernel=(15, 15)))
    builder.output(builder.add(pool, joined, name="pooled"))
    return builder.network()


def test_fit_frees_an_input_of_a_concatenation_before_the_next_is_computed():
    model = real_model(wide_branches())
    answer = fit(model.network, element_bytes=1, budget=Stop(effort=2))
    once = [method for method in answer.methods if method.mac_ratio == 1]
    least = min(once, key=lambda method: method.ram_bytes)
    # The image, one wide map, and the results of both branches.
    assert least.ram_bytes <= 256 + 16 * 256 + 2 * 16 * 4
    assert [span.by_inputs for span in least.plan.rematerialised] == [True]
    require_carried_out(model.network, least.plan)
    assert parse_plans(format_plans([least.plan]), "plan.json") == (least.plan,)
    alone = fit(model.network, element_bytes=1, budget=Stop(effort=2), order="file")
    assert alone.least.ram_bytes >= 15 * 2 * 16 * 16  # 15 of 16 rows of both


@pytest.mark.parametrize(
    "span",
    [
        Span("nothing", "pooled", layers=("pooled",), tiles=0),
        Span("joined", "nothing", layers=("nothing",), tiles=0),
        Span("wide0", "pooled", layers=("pooled",), tiles=0),
        Span("joined", "joined", tiles=0),
    ],
)
def test_a_span_without_a_concatenation_is_refused_by_its_ends(span):
    assert for_each_input(wide_branches(), span) is None
    with pytest.raises(InvalidPlan, match="no concatenation"):
        executed_network(wide_branches(), (span,))


def gated(size, *, window_of_d):
    """Two enlarged copies of an image, joined, a layer of single channels, and its gate by sums."""
    builder = NetworkBuilder("gated")
    image = builder.input((4, size, size), name="image")
    resize = op.Resize(size=(2 * size, 2 * size), function="nearest")
    joined = builder.add(op.Concatenation(), *(builder.add(resize, image) for _ in range(2)))
    values = builder.add(window_of_d, joined, name="d")
    factors = builder.add(op.GlobalPooling(function="average"), values)
    sigmoid = (op.Activation(function="sigmoid"),)
    gate = op.Convolution(filters=8, window=window(1))
    factors = builder.add(gate, factors, epilogue=sigmoid)
    product = builder.add(op.Elementwise(function="multiply"), values, factors)
    builder.output(builder.add(op.Convolution(filters=4, window=window(3, 2)), product))
    return builder.network()


@pytest.mark.parametrize(
    "window_of_d",
    [
        op.Pooling(function="max", window=window(3)),
        op.Convolution(filters=8, groups=8, window=window(3)),
    ],
    ids=["pooling", "depthwise"],
)
def test_no_method_of_fit_copies_a_part_of_a_layer_again(window_of_d):
    network = gated(8, window_of_d=window_of_d)
    for searched in ({}, {"searched": SEARCHED}):
        methods = fit(network, element_bytes=1, budget=Stop(effort=0.1), **searched).methods
        assert any(span.by_inputs for way in methods for span in way.plan.rematerialised)
        for way in methods:
            require_carried_out(network, way.plan)
            assert layer_times(network, way.plan, platform=PLATFORMS["cortex-m7"])


def test_parts_of_layers_are_not_computed_twice_where_a_plan_asks_for_it():
    network = gated(8, window_of_d=op.Pooling(function="max", window=window(3)))
    (by_inputs,) = input_spans(network)
    again = Span("image", network.layers[-2].name)
    assert executed_network(network, (again,)) != network
    with pytest.raises(InvalidPlan, match="that could be computed twice"):
        executed_network(network, (by_inputs, again))


@pytest.mark.parametrize("seed", [21, 26, 27])
def test_a_search_that_is_left_out_would_improve_no_plan(monkeypatch, seed):
    planned = simplified(Model(network=network(seed))).network
    assert input_spans(planned)
    ran, run = [], PlanSearch.run
    monkeypatch.setattr(PlanSearch, "run", lambda search: ran.append(search) or run(search))
    answer = fit(planned, element_bytes=1, searched=SEARCHED)
    bounded = len(ran)
    monkeypatch.setattr(PlanSearch, "can_improve", lambda *_: True)
    complete = fit(planned, element_bytes=1, searched=SEARCHED)
    assert len(ran) > 2 * bounded  # the network with copies as well
    assert [(way.ram_bytes, way.mac_ratio) for way in answer.methods] == [
        (way.ram_bytes, way.mac_ratio) for way in complete.methods
    ]


def test_an_early_end_of_the_search_by_inputs_is_stated():
    answers = [
        fit(wide_branches(), element_bytes=1, ram=1200, budget=Stop(steps=steps))
        for steps in range(130, 220, 30)
    ]
    assert all("steps are done" in str(answer.reason) for answer in answers)
    assert any(way.plan.rematerialised for way in answers[-1].methods)


def test_slices_of_parameters_that_a_second_layer_has_are_not_stored_besides():
    builder = NetworkBuilder("tied")
    image = builder.input((4, 8, 8), name="image")
    depthwise = op.Convolution(filters=4, groups=4, window=window(3))
    halves = [builder.add(op.Convolution(filters=2, window=window(1)), image) for _ in range(2)]
    first = builder.add(depthwise, builder.add(op.Concatenation(), *halves), name="first")
    between = builder.add(op.Convolution(filters=4, window=window(3)), first)
    builder.output(builder.add(depthwise, between, name="second"))
    network = builder.network()
    assert len(input_spans(network)) == 1
    tied = {"first", "second"}
    layers = tuple(
        replace(layer, stored=(replace(layer.stored_as("kernel"), name="shared"),))
        if layer.name in tied
        else layer
        for layer in network.layers
    )
    assert input_spans(replace(network, layers=layers)) == ()
