"""Random networks whose kernels are counted: every kernel that is emitted, over a range of shapes."""

import random
from dataclasses import replace

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Arithmetic, Element, Quantization, Stored
from cnn2csdf.execution.calibration import calibrated_weights
from cnn2csdf.fixed_point.single_precision import columns_at_once
from cnn2csdf.network import Network
from cnn2csdf.operators.activations import ACTIVATIONS
from cnn2csdf.operators.elementwise import ELEMENTWISE, REDUCTIONS
from cnn2csdf.simplify import simplified
from cnn2csdf.streams import as_stream
from cnn2csdf.weights import Model, random_weights
from tests.planners.code import test_short_libraries, test_wide_integers
from tests.planners.code.calibrated import integer_model, real_model

NARROW = (0, 2, 3, 4, 5, 6)  # seeds whose sums are all made smaller, as those of trained networks
POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal")
MANY_UNITS = 10  # seed from which recurrent layers have many units
INTEGER, SINGLE = 10, 20  # seeds from which networks are in integers, and in single precision
PARAMETERS = {1: (0.5,), 2: (-0.5, 0.5)}


def samples():
    """Return each sample: its name, the plans in which it is counted, and what its networks are.

    Networks of one form are counted side by side in one library, layer by layer; some alone, too.
    """
    together = [*_together(SAMPLES), *_together(WIDER, "wider ")]
    alone = [
        (f"{one.__name__}:{seed}:{form}", ways, ((one.__name__, seed, form),))
        for one, seeds, forms, ways in ALONE
        for seed in seeds
        for form in forms
    ]
    return [*alone, *together]


def _together(samples_of_forms, prefix=""):
    """Yield a sample for each form, with all networks of the form."""
    specs = [
        (kind, seed, form)
        for kind, seeds, forms in samples_of_forms
        for seed in seeds
        for form in forms
    ]
    for form in FORMS:
        names = tuple((kind.__name__, seed, of) for kind, seed, of in specs if of == form)
        if names:
            yield prefix + form, WHOLE, names


def model_of(specs):
    """Return the model of a sample, whose networks stand side by side where it has several."""
    models = [FORMS[form](KINDS[kind](seed), seed) for kind, seed, form in specs]
    if len(models) == 1:
        return models[0]
    layers, weights = [], {}
    for place, model in enumerate(models):
        for layer in model.network.layers:
            inputs = tuple(f"{place} {name}" for name in layer.inputs)
            layers.append(replace(layer, name=f"{place} {layer.name}", inputs=inputs))
            if layer.name in (model.weights or {}):
                weights[f"{place} {layer.name}"] = model.weights[layer.name]
    return Model(network=Network(name=specs[0][2], layers=tuple(layers)), weights=weights)


def drawn(text):
    """Return the model of a text such as chain:77:integers."""
    kind, seed, form = text.split(":")
    return model_of([(kind, int(seed), form)])


def short(network, seed):
    """In integers of 16 bits."""
    bias = (Element.INT64, Element.INT32)[seed % 2]
    mean = op.Reduction(function="mean", axes=(1, 2))
    layers = [
        replace(layer, operator=mean) if isinstance(layer.operator, op.GlobalPooling) else layer
        for layer in network.layers
    ]
    model = test_short_libraries.quantised(replace(network, layers=tuple(layers)), seed, bias)
    types, layers = {}, []
    for layer in model.network.layers:
        keeps = isinstance(layer.operator, op.Pad | op.Resize | op.Output)
        types[layer.name] = types[layer.inputs[0]] if keeps else layer.quantization
        layers.append(replace(layer, quantization=types[layer.name]))
    return replace(model, network=replace(model.network, layers=tuple(layers)))


def single(network, seed):
    """In integers that are rescaled in single precision."""
    return _with_types(integer_model(network, seed), arithmetic=Arithmetic.SINGLE_PRECISION)


def _with_types(model, **changes):
    def changed(one):
        types = one.quantization
        return one if types is None else replace(one, quantization=replace(types, **changes))

    layers = [
        replace(changed(layer), stored=tuple(map(changed, layer.stored)))
        for layer in model.network.layers
    ]
    return replace(model, network=replace(model.network, layers=tuple(layers)))


def halves(network, seed):
    """In real numbers, with weights of two bytes."""
    model = real_model(network, seed)
    layers, weights = [], dict(model.weights)
    for layer in model.network.layers:
        roles = set(layer.operator.half_roles) & set(weights.get(layer.name, {}))
        stored = tuple(Stored(role=role, element=Element.FLOAT16) for role in sorted(roles))
        layers.append(replace(layer, stored=stored))
        if roles:
            arrays = dict(weights[layer.name])
            for role in roles:
                arrays[role] = arrays[role].astype(np.float16).astype(np.float32)
            weights[layer.name] = arrays
    return Model(network=replace(model.network, layers=tuple(layers)), weights=weights)


def with_zeros(network, seed):
    """In integers, with a zero point of the weights of each layer."""
    return _with_zeros(integer_model(network, seed))


def single_with_zeros(network, seed):
    """In integers that are rescaled in single precision, with zero points of weights."""
    return _with_zeros(single(network, seed))


def _with_zeros(model):
    layers = []
    for layer in model.network.layers:
        stored = tuple(
            replace(array, quantization=replace(array.quantization, zero_point=7))
            if array.role in ("kernel", "matrix")
            else array
            for array in layer.stored
        )
        layers.append(replace(layer, stored=stored))
    return replace(model, network=replace(model.network, layers=tuple(layers)))


def plain(network, seed):
    """In real numbers, with no layer fused into another."""
    return Model(network=network, weights=calibrated_weights(network, seed))


def typed(network, seed):
    """In integers of drawn scales, rescaled in fixed point."""
    return _drawn_types(network, seed, Arithmetic.FIXED_POINT)


def typed_single(network, seed):
    """In integers of drawn scales, rescaled in single precision."""
    return _drawn_types(network, seed, Arithmetic.SINGLE_PRECISION)


def _drawn_types(network, seed, arithmetic):
    draw, types, layers = random.Random(seed), {}, []
    for layer in network.layers:
        keeps = layer.operator.moves or isinstance(layer.operator, op.Output | op.Pad)
        found = Quantization(
            element=layer.element if layer.quantization else Element.INT8,
            scales=(draw.uniform(0.004, 0.02),),
            zero_point=draw.randint(-30, 30),
            arithmetic=arithmetic,
        )
        if keeps and layer.inputs:
            found = types[layer.inputs[0]]
        types[layer.name] = found
        stored = tuple(_stored(layer, network.input_shapes(layer), draw, arithmetic))
        changed = replace(layer, element=found.element, quantization=found, stored=stored)
        layers.append(changed)
    found = Network(name=network.name, layers=tuple(layers))
    return Model(network=found, weights=random_weights(found, seed))


def _stored(layer, inputs, draw, arithmetic):
    """Matrices in 8 bits, biases in 32; numbers of normalisations stay real."""
    normalises = isinstance(layer.operator, op.LayerNormalization | op.BatchNormalization)
    for role in layer.operator.trained(inputs) if not normalises else ():
        if role.endswith("bias"):
            yield Stored(role=role, element=Element.INT32)
        else:
            scales = (draw.uniform(0.001, 0.02),)
            kept = Quantization(element=Element.INT8, scales=scales, arithmetic=arithmetic)
            yield Stored(role=role, element=Element.INT8, quantization=kept)


def dense(seed):
    """A network of some fully connected layers, or of convolutions with many channels."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"dense{seed}")
    sizes = (8, 13, 24, 40, 64, 65, 100, 128, 256, 400, 640)
    size = (1, 1) if seed % 2 else (draw.choice((3, 5)), draw.choice((3, 4)))
    last = builder.input((draw.choice(sizes), *size))
    for _ in range(4):
        if seed % 2:
            last = builder.add(op.FullyConnected(units=draw.choice(sizes)), last)
        else:
            side = draw.choice((1, 3))
            window = op.Window(kernel=(side, side), padding=(side // 2,) * 4)
            last = builder.add(op.Convolution(filters=draw.choice(sizes[:7]), window=window), last)
    builder.output(last)
    return builder.network()


def moves(seed):
    """A network of poolings over large windows, and of layers that move elements."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"moves{seed}")
    channels, side = draw.choice((4, 8, 16, 24)), draw.choice((6, 8, 11))
    last = builder.input((draw.choice((4, 8, 16)), side, side))
    for index, kind in enumerate(("max", "average")):
        kernel = draw.choice(((3, 3), (3, 2), (5, 5)))
        window = op.Window(kernel=kernel, padding=(1, 1, 1, 1) if index else (0, 0, 0, 0))
        last = builder.add(op.Pooling(function=kind, window=window), last)
        if index == 0:
            last = builder.add(
                op.Convolution(filters=channels, window=op.Window(kernel=(1, 1))), last
            )
    one = builder.add(op.Convolution(filters=8, window=op.Window(kernel=(1, 1))), last)
    two = builder.add(op.Convolution(filters=12, window=op.Window(kernel=(1, 1))), last)
    last = builder.add(op.Concatenation(), one, two)
    last = builder.add(op.Pad(padding=(1, 1, 1, 1)), last)
    last = builder.add(op.Convolution(filters=channels, window=op.Window(kernel=(3, 3))), last)
    shape = builder.shape(last)
    if seed % 2:
        whole = op.Window(kernel=(shape.height, shape.width))
        last = builder.add(op.Pooling(function="average", window=whole), last)
    else:
        last = builder.add(op.Reshape(dims=(shape.elements,)), last)
    builder.output(builder.add(op.FullyConnected(units=4), last))
    return builder.network()


def reshaped(seed):
    """A network whose input is a vector that becomes a map, and a vector again."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"reshaped{seed}")
    channels, height, width = draw.choice((1, 2, 4)), draw.choice((8, 12)), draw.choice((6, 10))
    last = builder.input((channels * height * width,))
    last = builder.add(op.Reshape(dims=(channels, height, width)), last)
    window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
    last = builder.add(op.Convolution(filters=8, window=window), last)
    last = builder.add(op.Transpose(permutation=(2, 1, 0)), last)
    last = builder.add(op.Reshape(dims=(8 * height * width,)), last)
    builder.output(builder.add(op.FullyConnected(units=4), last))
    return builder.network()


def converted(seed):
    """A network in integers whose input and output are real numbers."""
    model = integer_model(first(seed) if seed % 2 else reshaped(seed))
    given, *layers, last = model.network.layers
    inside = replace(given, name="converted", operator=op.Conversion(), inputs=(given.name,))
    outer = replace(given, element=Element.FLOAT32, quantization=None)
    layers = [
        replace(one, inputs=tuple(inside.name if of == given.name else of for of in one.inputs))
        for one in layers
    ]
    real = replace(
        layers[-1],
        name="real",
        operator=op.Conversion(),
        inputs=(layers[-1].name,),
        stored=(),
        epilogue=(),
        element=Element.FLOAT32,
        quantization=None,
    )
    last = replace(last, inputs=(real.name,), element=Element.FLOAT32, quantization=None)
    network = Network(name=f"converted{seed}", layers=(outer, inside, *layers, real, last))
    return Model(network=network, weights=model.weights)


def first(seed):
    """A network that begins with large windows over few channels, as those of spectra and images."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"first{seed}")
    last = builder.input((draw.choice((1, 1, 3)), draw.choice((20, 32)), draw.choice((20, 32))))
    kernel = draw.choice(((10, 8), (10, 4), (7, 7), (5, 5), (3, 3), (8, 3)))
    padding = [draw.choice((0, one // 2)) for one in kernel]
    window = op.Window(
        kernel=kernel, stride=draw.choice(((1, 1), (2, 2))), padding=(*padding, *padding)
    )
    last = builder.add(op.Convolution(filters=draw.choice((4, 8, 16, 10)), window=window), last)
    last = builder.add(op.FullyConnected(units=4), last)
    builder.output(builder.add(op.Softmax(axis=0), last))
    return builder.network()


def chain(seed):
    """A network of some layers of random shapes, one behind the other."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"chain{seed}")
    size = draw.choice((6, 9, 12, 16))
    last = builder.input((draw.choice((1, 1, 2, 3, 4, 8)), size, draw.choice((size, size + 3))))
    for _ in range(draw.randint(4, 7)):
        shape = builder.shape(last)
        height, width = shape.height, shape.width
        filters = draw.choice((4, 6, 8, 10, 12, 16, 24, 32, 48))
        kind = draw.choice(
            (
                "conv",
                "conv",
                "pointwise",
                "pointwise",
                "depthwise",
                "depthwise",
                "max",
                "average",
                "add",
            )
        )
        kernel = draw.choice(((3, 3), (3, 3), (5, 5), (1, 3), (3, 1), (2, 2), (4, 3)))
        stride = (2, 2) if height > 6 and draw.random() < 0.3 else (1, 1)
        before = [one // 2 for one in kernel]
        padding = (*before, kernel[0] - 1 - before[0], kernel[1] - 1 - before[1])
        if draw.random() < 0.3 and height > 6 < width:
            padding = (0, 0, 0, 0)
        window = op.Window(kernel=kernel, stride=stride, padding=padding)
        if kind == "conv":
            last = builder.add(op.Convolution(filters=filters, window=window), last)
        elif kind == "pointwise":
            last = builder.add(
                op.Convolution(filters=filters, window=op.Window(kernel=(1, 1))), last
            )
        elif kind == "depthwise" and shape.channels > 1:
            made = op.Convolution(filters=shape.channels, window=window, groups=shape.channels)
            last = builder.add(made, last)
        elif kind == "add":
            other = builder.add(
                op.Convolution(filters=shape.channels, window=op.Window(kernel=(1, 1))), last
            )
            last = builder.add(op.Elementwise(function="add"), last, other)
        elif kind in ("max", "average") and min(height, width) >= 4:
            pooled = op.Window(kernel=(2, 2), stride=draw.choice(((1, 1), (2, 2))))
            last = builder.add(op.Pooling(function=kind, window=pooled), last)
    if draw.random() < 0.5:
        last = builder.add(op.GlobalPooling(function="average"), last)
    if draw.random() < 0.7:
        last = builder.add(op.FullyConnected(units=draw.choice((2, 4, 10, 12, 17))), last)
        last = builder.add(op.Softmax(axis=0), last)
    builder.output(last)
    return builder.network()


def small(seed):
    """A network of a few small layers, in which calls take as long as sums."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"small{seed}")
    if seed % 2:
        last = builder.input((draw.choice((1, 2, 3, 8)),))
    else:
        last = builder.input((draw.choice((1, 3)), draw.choice((3, 5)), draw.choice((3, 4))))
        window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
        last = builder.add(op.Convolution(filters=draw.choice((2, 4, 8)), window=window), last)
    for _ in range(draw.choice((2, 3))):
        units = draw.choice((4, 8, 16, 16, 5, 20, 32))
        last = builder.add(op.FullyConnected(units=units), last)
        last = builder.add(op.Activation(function="relu"), last)
    builder.output(builder.add(op.FullyConnected(units=draw.choice((1, 2, 4))), last))
    return builder.network()


def curves(seed):
    """Every function of one element, of a map, and some behind sums."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"curves{seed}")
    given = builder.input((draw.choice((3, 8)), draw.choice((4, 7)), draw.choice((3, 5))))
    positive = builder.add(op.Activation(function="abs"), given)
    for name, count in ACTIVATIONS.items():
        function = op.Activation(function=name, parameters=PARAMETERS.get(count, ()))
        builder.output(builder.add(function, positive if name in POSITIVE else given), name)
    builder.output(builder.add(op.BatchNormalization(), given), "affine")
    builder.output(builder.add(op.LocalResponseNormalization(size=3), given), "neighbours")
    return builder.network()


def tables(seed):
    """Functions that integers look up or bend, behind convolutions."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"tables{seed}")
    last = builder.input((draw.choice((3, 8)), draw.choice((4, 9)), draw.choice((3, 6))))
    names = ("sigmoid", "tanh", "hard swish", "leaky relu")
    for name in names:
        window = op.Window(kernel=(1, 1))
        last = builder.add(op.Convolution(filters=draw.choice((4, 7, 12)), window=window), last)
        function = op.Activation(function=name, parameters=(0.1,) * ACTIVATIONS[name])
        last = builder.add(function, last)
    builder.output(last)
    return builder.network()


def short_curves(seed):
    """Functions of integers of 16 bits."""
    builder, draw = NetworkBuilder(f"short{seed}"), random.Random(seed)
    given = builder.input((draw.choice((3, 8)), draw.choice((4, 9)), draw.choice((3, 6))))
    for name in ("sigmoid", "tanh", "relu", "leaky relu"):
        function = op.Activation(function=name, parameters=(0.1,) * ACTIVATIONS[name])
        builder.output(builder.add(function, given), name)
    means = builder.add(op.Reduction(function="mean", axes=(1, 2)), given)
    builder.output(means, "means")
    builder.output(builder.add(op.Elementwise(function="multiply"), given, means), "product")
    builder.output(builder.add(op.Elementwise(function="subtract"), given, given), "difference")
    builder.output(builder.add(op.Softmax(axis=0), means), "shares")
    return builder.network()


def pairs(seed):
    """Every function of the elements of two tensors, of one shape and of repeated axes."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"pairs{seed}")
    dims = (draw.choice((3, 8)), draw.choice((4, 6)), draw.choice((3, 5)))
    one, two = builder.input(dims), builder.input(dims, "other")
    means = builder.add(op.Reduction(function="mean", axes=(1, 2)), two)
    for place, name in enumerate(ELEMENTWISE):
        other = means if (place + seed) % 4 == 0 else two
        builder.output(builder.add(op.Elementwise(function=name), one, other), name)
    if seed % 2:
        builder.output(builder.add(op.Choice(), one, one, two), "choice")
    return builder.network()


def integer_pairs(seed):
    """Functions of two tensors of integers."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"integers{seed}")
    dims = (draw.choice((3, 8, 16)), draw.choice((4, 6)), draw.choice((3, 5, 8)))
    one, two = builder.input(dims), builder.input(dims, "other")
    means = builder.add(op.Reduction(function="mean", axes=(1, 2)), two)
    names = ("add", "subtract", "multiply", "multiply", "squared difference")
    for place, name in enumerate(names if seed < SINGLE else names[:-1]):
        other = means if place == 3 else two
        builder.output(builder.add(op.Elementwise(function=name), one, other), f"{name}{place}")
    builder.output(builder.add(op.Softmax(axis=0), one), "shares")
    builder.output(builder.add(op.Reduction(function="mean", axes=(0,)), one), "of channels")
    size = tuple(2 * one for one in dims[1:])
    builder.output(builder.add(op.Resize(size=size, function="nearest"), one), "larger")
    return builder.network()


def folds(seed):
    """Functions over axes: reductions, softmax, normalisations, places and ranks."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"folds{seed}")
    given = builder.input((draw.choice((3, 8, 16)), draw.choice((4, 9)), draw.choice((3, 6))))
    axes = draw.choice(((1, 2), (0,), (1,)))
    made = {name: op.Reduction(function=name, axes=axes) for name in REDUCTIONS}
    made |= {"softmax": op.Softmax(axis=0), "logarithm": op.Softmax(axis=0, is_logarithm=True)}
    made |= {
        "layer": op.LayerNormalization(axis=0, last=draw.choice((0, 2))),
        "instance": op.InstanceNormalization(),
        "place": op.ExtremePlace(function="max", axis=0),
        "ranks": op.Ranking(axis=0, count=2),
        "running": op.RunningSum(axis=0),
        "maximum": op.GlobalPooling(function="max"),
        "average": op.GlobalPooling(function="average"),
    }
    for name, operator in made.items():
        builder.output(builder.add(operator, given), name)
    return builder.network()


def places(seed):
    """Layers that move elements."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"places{seed}")
    channels, height, width = draw.choice((4, 8)), draw.choice((4, 6)), draw.choice((4, 8))
    given = builder.input((channels, height, width))
    made = {
        "slice": op.Slice(axis=draw.choice((0, 1, 2)), start=1, stop=3),
        "shuffle": op.ChannelShuffle(groups=2),
        "deeper": op.SpaceToDepth(block=2),
        "wider": op.DepthToSpace(block=2),
        "repeat": op.Repeat(axis=draw.choice((0, 1, 2)), times=2),
        "gather": op.Gather(axis=draw.choice((0, 1, 2)), places=(2, 0)),
        "turned": op.Transpose(permutation=draw.choice(((2, 1, 0), (1, 2, 0), (0, 2, 1)))),
        "vector": op.Reshape(dims=(channels * height * width,)),
        "view": op.View(dims=(channels * width, height, 1)),
        "pad": op.Pad(padding=(1, 0, 1, 2)),
        "nearest": op.Resize(size=(2 * height, 2 * width), function="nearest"),
    }
    if seed >= INTEGER:
        made.pop("repeat")
        made.pop("gather")
    for name, operator in made.items():
        builder.output(builder.add(operator, given), name)
    return builder.network()


def resizes(seed):
    """Resizing of real numbers, and transposed convolutions."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"resizes{seed}")
    size = draw.choice((4, 6)), draw.choice((3, 7))
    given = builder.input((draw.choice((3, 8)), *size))
    for function in ("linear", "cubic"):
        resize = op.Resize(size=tuple(2 * one for one in size), function=function)
        builder.output(builder.add(resize, given), function)
    window = op.Window(kernel=draw.choice(((2, 2), (3, 3))), stride=(2, 2))
    filters = draw.choice((4, 16, 9))
    builder.output(
        builder.add(op.TransposedConvolution(filters=filters, window=window), given), "transposed"
    )
    for mode in ("reflect", "edge"):
        builder.output(builder.add(op.Pad(padding=(1, 1, 1, 1), mode=mode), given), mode)
    return builder.network()


def attention(seed):
    """Heads of attention between tokens, as maps, and products of matrices, of more axes."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"attention{seed}")
    heads, width, tokens = draw.choice((1, 2, 4)), draw.choice((4, 8, 16)), draw.choice((6, 12))
    given = builder.input((heads * width, tokens, 1))
    point = op.Convolution(filters=heads * width, window=op.Window(kernel=(1, 1)))
    query, key, value = (builder.add(point, given) for _ in range(3))
    scores = builder.add(op.AttentionProduct(gives="scores", heads=heads), query, key)
    if seed >= INTEGER:
        builder.output(scores, "scores")  # between integers a softmax is a layer of its own
    shares = builder.add(op.Softmax(axis=0), scores)
    values = builder.add(op.AttentionProduct(gives="values", heads=heads), shares, value)
    builder.output(values)
    return builder.network()


def matrices(seed):
    """Products of matrices, trained ones and two tensors."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"matrices{seed}")
    rows, inner, columns = (draw.choice((3, 8, 12, 20)) for _ in range(3))
    left = builder.input((rows, inner))
    product = builder.add(op.MatrixProduct(units=columns, has_bias=True), left)
    turned = builder.add(op.Transpose(permutation=(1, 0)), product)
    both = builder.add(op.MatrixProduct(), product, turned)
    builder.output(builder.add(op.MatrixProduct(units=draw.choice((5, 8))), both))
    return builder.network()


def recurrent(seed):
    """Recurrent layers of real numbers, from MANY_UNITS on of many units."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"recurrent{seed}")
    few, many = (4, 9, 16), (40, 64, 100)
    frames, elements = draw.choice((1, 4, 9)), draw.choice((3, 8, 16))
    given = builder.input((frames, 1, elements if seed < MANY_UNITS else draw.choice(many)))
    for kind in ("lstm", "gru", "rnn"):
        units = draw.choice(few if seed < MANY_UNITS else many)
        layer = op.Recurrence(kind=kind, units=units, resets_after=seed % 2 == 0)
        builder.output(builder.add(layer, given), kind)
    return builder.network()


def lstms(seed):
    """LSTMs of integers, one behind another."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"lstms{seed}")
    frames, elements = draw.choice((1, 5, 12)), draw.choice((8, 13, 28, 40, 64, 200))
    last = builder.input((elements, frames, 1) if seed % 2 else (frames, elements))
    for _ in range(3):
        units = draw.choice((8, 12, 20, 33, 64, 128))
        keeps = 0 if seed % 2 else None
        cell = op.QuantizedLstm(units=units, cell_scale=2.0**-11, keeps=keeps)
        last = builder.add(cell, last)
    builder.output(last)
    return builder.network()


def filters_in_time(seed):
    """SVDFs of integers, one behind another, that keep their state or begin at rest."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"svdf{seed}")
    state = Quantization(element=(Element.INT8, Element.INT16)[seed % 2], scales=(0.01,))
    last = builder.input((draw.choice((16, 40, 64)),))
    for _ in range(3):
        layer = op.QuantizedSvdf(
            units=draw.choice((8, 16, 32)),
            rank=draw.choice((1, 2)),
            places=draw.choice((3, 8, 12)),
            state=state,
            keeps=draw.random() < 0.7,
        )
        last = builder.add(layer, last)
    builder.output(last)
    return builder.network()


def flat(seed):
    """Fully connected layers that read maps, of many and few rows."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"flat{seed}")
    size = draw.choice((2, 3, 5, 8, 16, 28)), draw.choice((1, 2, 3, 5, 8, 28))
    last = builder.input((draw.choice((1, 2, 3, 8, 16)), *size))
    builder.output(builder.add(op.FullyConnected(units=draw.choice((4, 8, 10, 17, 64))), last))
    return builder.network()


def limited(seed):
    """Sums of what is not below zero, of which many elements are zero."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"limited{seed}")
    last = builder.input((draw.choice((3, 8)), draw.choice((5, 8)), draw.choice((4, 7))))
    for kind in draw.sample(("conv", "depthwise", "point", "point"), 4):
        channels = builder.shape(last).channels
        filters = channels if kind == "depthwise" else draw.choice((8, 16, 17, 24))
        side = 1 if kind == "point" else 3
        window = op.Window(kernel=(side, side), padding=(side // 2,) * 4)
        groups = channels if kind == "depthwise" else 1
        made = op.Convolution(filters=filters, window=window, groups=groups)
        last = builder.add(op.Activation(function="relu"), builder.add(made, last))
    for units in (draw.choice((16, 40, 64)), draw.choice((12, 32, 48)), 10):
        last = builder.add(op.FullyConnected(units=units), last)
        last = builder.add(op.Activation(function="relu"), last)
    builder.output(builder.add(op.Softmax(axis=0), last))
    return builder.network()


def conversions(seed):
    """Real numbers that become integers, and real again, as maps and vectors."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"conversions{seed}")
    shape = draw.choice(((640,), (50,), (16, 5, 4), (3, 12, 9), (1, 28, 28)))
    types = Quantization(element=Element.INT8, scales=(0.01,), zero_point=3)
    if seed >= SINGLE:
        types = replace(types, arithmetic=Arithmetic.SINGLE_PRECISION)
    stored = builder.add(
        op.Conversion(), builder.input(shape), element=Element.INT8, quantization=types
    )
    builder.output(builder.add(op.Conversion(), stored, element=Element.FLOAT32))
    return Model(network=builder.network(), weights={})


def in_time(seed):
    """Windows over many rows of few columns, as those of sound."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"in_time{seed}")
    width = draw.choice((1, 1, 1, 2, 4))
    last = builder.input((draw.choice((8, 16, 40)), draw.choice((10, 21, 29)), width))
    for kind in ("depthwise", "point", "depthwise", "conv"):
        shape = builder.shape(last)
        filters = shape.channels if kind == "depthwise" else draw.choice((16, 24, 30, 60))
        tall = min(draw.choice((3, 5, 9, 13, 21)), shape.height)
        rows = 1 if kind == "point" else shape.height if draw.random() < 0.3 else tall
        window = op.Window(kernel=(rows, 1))
        groups = filters if kind == "depthwise" else 1
        made = op.Convolution(filters=filters, window=window, groups=groups)
        last = builder.add(made, last)
    builder.output(builder.add(op.FullyConnected(units=4), last))
    return builder.network()


def grouped(seed):
    """Convolutions in groups."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"grouped{seed}")
    groups = draw.choice((2, 3, 4))
    size = draw.choice((4, 7)), draw.choice((3, 5))
    last = builder.input((groups * draw.choice((2, 4)), *size))
    for _ in range(2):
        window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
        filters = groups * draw.choice((3, 4, 8))
        made = op.Convolution(filters=filters, window=window, groups=groups)
        last = builder.add(made, last)
    builder.output(last)
    return builder.network()


def constants(seed):
    """Functions of a map and a constant, behind sums and alone."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"constants{seed}")
    last = builder.input((draw.choice((3, 8)), draw.choice((4, 9)), draw.choice((3, 6))))
    for name in ("add", "multiply", "subtract", "divide", "maximum", "minimum", "power"):
        window, filters = op.Window(kernel=(1, 1)), draw.choice((4, 7, 12))
        summed = builder.add(op.Convolution(filters=filters, window=window), last)
        made = op.Elementwise(function=name, constant=(filters, 1, 1))
        builder.output(builder.add(made, summed), name)
    return builder.network()


def integer_constants(seed):
    """Functions of a map of integers and an operand that repeats, or a constant of the same size."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"constants{seed}")
    dims = (draw.choice((1, 3, 8, 17)), draw.choice((4, 6)), draw.choice((3, 5, 8)))
    given = builder.input(dims)
    means = builder.add(op.Reduction(function="mean", axes=(1, 2)), given)
    for name in ("add", "subtract", "multiply"):
        for constant in ((dims[0], 1, 1), (1, 1, 1), (1, *dims[1:]), dims):
            function = op.Elementwise(function=name, constant=constant)
            builder.output(builder.add(function, given), f"{name} {constant}")
        builder.output(builder.add(op.Elementwise(function=name), given, means), f"{name} means")
    return builder.network()


def joined(seed):
    """Functions between integers that are computed in real numbers, element by element."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"joined{seed}")
    dims = (draw.choice((3, 8)), draw.choice((4, 9)), draw.choice((3, 6)))
    one, two = builder.input(dims), builder.input(dims, "other")
    for name in ("add", "multiply", "divide", "maximum", "minimum"):
        builder.output(builder.add(op.Elementwise(function=name), one, two), name)
    builder.output(builder.add(op.LayerNormalization(axis=0, last=0), one), "layer")
    builder.output(builder.add(op.BatchNormalization(), one), "batch")
    builder.output(builder.add(op.Activation(function="tanh"), one), "table")
    return builder.network()


def joins(seed):
    """Concatenations of few channels, along channels, rows and columns."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"joins{seed}")
    size = draw.choice((4, 8)), draw.choice((6, 8))
    for axis, count in ((0, 2), (0, 3), (1, 2), (2, 2)):
        channels = [draw.choice((1, 2, 3, 5)) for _ in range(count)]
        channels = channels if axis == 0 else channels[:1] * count
        sources = [
            builder.input((each, *size), f"{axis} {count} {place}")
            for place, each in enumerate(channels)
        ]
        builder.output(builder.add(op.Concatenation(axis=axis), *sources), f"{axis} {count}")
    return builder.network()


def hybrids(seed):
    """Products of real numbers with weights of int8: convolutions, vectors and matrices."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"hybrids{seed}")
    channels = draw.choice((3, 8, 16, 40))
    last = builder.input((channels, draw.choice((5, 8)), draw.choice((4, 9))))
    products = [
        op.Convolution(
            filters=draw.choice((8, 12, 40)),
            window=op.Window(kernel=(side, side), padding=(side // 2,) * 4),
        )
        for side in (1, 3, 1)
    ]
    for product in products:
        last = builder.add(hybrid_of(product, draw), last)
        last = builder.add(op.Activation(function="relu"), last)
    vector = op.FullyConnected(units=draw.choice((8, 10, 64)))
    builder.output(builder.add(hybrid_of(vector, draw), last), "vector")
    given = builder.input((draw.choice((4, 9)), draw.choice((16, 40))), "rows")
    matrix = op.MatrixProduct(units=draw.choice((8, 24, 50)))
    builder.output(builder.add(hybrid_of(matrix, draw), given), "matrix")
    return builder.network()


def hybrid_of(product, draw):
    """A product with weights of int8."""
    return op.HybridProduct(product=product, scales=(0.01,), has_offset=draw.random() < 0.5)


def with_bytes(network, seed):
    """In real numbers, with weights of int8."""
    network = simplified(Model(network=network)).network
    kind = Quantization(element=Element.INT8, scales=(0.01,))
    layers = []
    for layer in network.layers:
        stored = tuple(
            Stored(role=role, element=Element.INT8, quantization=kind)
            for role in layer.operator.trained(network.input_shapes(layer))
            if role in ("kernel", "matrix")
        )
        is_hybrid = isinstance(layer.operator, op.HybridProduct)
        layers.append(replace(layer, stored=stored) if is_hybrid else layer)
    network = replace(network, layers=tuple(layers))
    return Model(network=network, weights=random_weights(network, seed))


def norms(seed):
    """Normalisations of tokens of many channels."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"norms{seed}")
    given = builder.input((draw.choice((24, 32, 64, 96)), draw.choice((9, 16, 40)), 1))
    builder.output(builder.add(op.LayerNormalization(axis=0, last=0), given))
    return builder.network()


def encoders(seed):
    """Products with weights and attention of tokens of many channels; below INTEGER normalised."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"encoders{seed}")
    heads, width = draw.choice(((1, 32), (2, 16), (4, 16), (4, 24), (2, 40)))
    channels, tokens = heads * width, draw.choice((9, 16, 24, 40))

    def product_of(last, units):
        columns = columns_at_once(builder.shape(last).channels, units)
        window = op.Window(kernel=(1, 1))
        return builder.add(op.Convolution(filters=units, window=window, block=columns), last)

    last = builder.input((channels, tokens, 1))
    if seed < INTEGER:
        last = builder.add(op.LayerNormalization(axis=0, last=0), last)
    query, key, value = (product_of(last, channels) for _ in range(3))
    scores = builder.add(op.AttentionProduct(gives="scores", heads=heads), query, key)
    if seed >= INTEGER:
        builder.output(scores, "scores")  # between integers a softmax is a layer of its own
    shares = builder.add(op.Softmax(axis=0), scores)
    values = op.AttentionProduct(gives="values", heads=heads)
    builder.output(builder.add(values, shares, value), "attention")
    wide = product_of(last, draw.choice((64, 100, 130, 192)))
    builder.output(product_of(wide, channels), "products")
    return builder.network()


def streamed(seed):
    """Products with the inputs of several frames."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"streamed{seed}")
    last = builder.input((draw.choice((16, 40, 64)),))
    for _ in range(2):
        layer = op.StreamedProduct(units=draw.choice((2, 8, 16)), frames=draw.choice((3, 5, 12)))
        last = builder.add(layer, last)
    builder.output(last)
    return builder.network()


def windows(seed):
    """Convolutions over rows, one behind another: as streams they keep rows of their inputs."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"windows{seed}")
    channels = draw.choice((4, 8, 16))
    last = builder.input((channels, draw.choice((12, 16, 20)), 1))
    for _ in range(1 + seed % 6):
        is_depthwise = draw.choice((False, False, True))
        filters = channels if is_depthwise else draw.choice((4, 8, 12))
        layer = op.Convolution(
            filters=filters,
            window=op.Window(kernel=(min(draw.choice((2, 3, 4)), builder.shape(last).height), 1)),
            groups=channels if is_depthwise else 1,
        )
        channels = filters
        last = builder.add(op.Activation(function="relu"), builder.add(layer, last))
    builder.output(last)
    return builder.network()


def orders(seed):
    """Places in another order."""
    draw = random.Random(seed)
    builder = NetworkBuilder(f"orders{seed}")
    height, width = draw.choice((4, 6)), draw.choice((4, 6))
    given = builder.input((draw.choice((3, 8, 16)), height, width))
    sizes = (height // 2, 2, width // 2, 2)
    order = op.PlaceOrder(
        sizes=sizes, permutation=(1, 3, 0, 2), height=4, width=height * width // 4
    )
    builder.output(builder.add(order, given))
    return builder.network()


def given(model, _seed):
    """A model that has its types already."""
    return model


def hops(network, seed):
    """A network in integers that reads one or two new rows a frame."""
    return as_stream(integer_model(network, seed), 1 + seed % 2)


FORMS = {
    "integers": integer_model,
    "reals": real_model,
    "plain": plain,
    "single": single,
    "short": short,
    "typed": typed,
    "typed single": typed_single,
    "converted": given,
    "converted single": given,
    "hops": hops,
    "halves": halves,
    "bytes": with_bytes,
    "zeros": with_zeros,
    "single zeros": single_with_zeros,
}
SAMPLES = (
    (small, range(6), ("reals",)),
    (small, NARROW, ("integers",)),
    (dense, range(5), ("integers", "reals")),
    (first, range(5), ("integers",)),
    (first, range(2), ("reals", "single")),
    (moves, range(5), ("integers",)),
    (moves, range(2), ("reals", "single")),
    (reshaped, range(3), ("integers",)),
    (converted, range(3), ("converted",)),
    (chain, range(10), ("integers",)),
    (chain, range(0, 10, 3), ("reals", "single", "short")),
    (curves, range(2), ("plain",)),
    (tables, range(2), ("integers",)),
    (short_curves, range(2), ("short",)),
    (pairs, range(2), ("plain",)),
    (integer_pairs, range(INTEGER, INTEGER + 3), ("integers", "short")),
    (integer_pairs, range(SINGLE, SINGLE + 3), ("single",)),
    (folds, range(3), ("plain",)),
    (places, range(2), ("plain",)),
    (places, range(INTEGER, INTEGER + 3), ("integers", "short")),
    (resizes, range(2), ("plain",)),
    (attention, range(4), ("reals",)),
    (attention, range(INTEGER, INTEGER + 4), ("integers", "single")),
    (matrices, range(4), ("reals", "integers", "single")),
    (recurrent, range(5), ("plain",)),
    (lstms, range(10), ("typed",)),
    (filters_in_time, range(8), ("typed",)),
    (streamed, range(6), ("typed",)),
    (joined, range(2), ("typed single",)),
    (integer_constants, range(5), ("typed", "typed single")),
    (constants, range(2), ("reals",)),
    (grouped, range(3), ("integers", "reals", "single", "short")),
    (flat, range(8), ("integers", "reals")),
    (flat, range(4), ("single", "short")),
    (limited, range(4), ("reals",)),
    (in_time, range(8), ("integers",)),
    (in_time, range(3), ("reals", "single", "short")),
    (orders, range(2), ("plain", "integers")),
    (conversions, range(6), ("converted",)),
    (conversions, range(SINGLE, SINGLE + 4), ("converted single",)),
    (chain, range(3), ("halves", "zeros", "single zeros")),
    (dense, range(3), ("halves", "zeros")),
    (dense, range(1), ("single zeros",)),
    (in_time, range(2), ("halves", "zeros")),
    (test_wide_integers.filters, range(3), ("converted",)),
    (test_wide_integers.widths, range(3), ("converted",)),
)
WIDER = (  # ranges of shapes beyond those of SAMPLES, in libraries of their own
    (joins, range(3), ("integers", "reals", "single")),
    (recurrent, range(MANY_UNITS, MANY_UNITS + 4), ("plain",)),
    (encoders, range(3), ("reals",)),
    (norms, range(4), ("typed single",)),
    (matrices, range(4), ("plain",)),
    (hybrids, range(4), ("bytes",)),
    (encoders, range(INTEGER, INTEGER + 4), ("integers", "single")),
)
WHOLE = ("layer by layer",)
STRIPS = ("row by row", "least")
ALONE = (
    (small, NARROW, ("integers",), WHOLE),
    (small, range(3), ("reals",), WHOLE),
    (chain, range(10), ("integers",), ("least",)),
    (chain, range(0, 10, 4), ("integers", "reals"), STRIPS),
    (first, range(3), ("integers",), STRIPS),
    (moves, range(3), ("integers",), STRIPS),
    (dense, (0, 2), ("integers",), STRIPS),
    (reshaped, range(1), ("integers",), STRIPS),
    (windows, range(12), ("hops",), WHOLE),
)
KINDS = {one.__name__: one for one, *_ in (*SAMPLES, *WIDER, *ALONE)}
