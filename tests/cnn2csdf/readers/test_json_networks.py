import json
import random

import pytest

from cnn2csdf import operators as op
from cnn2csdf.parameters import layer_parameters, parameter_shapes
from cnn2csdf.readers.json_networks import json_contradictions, parse_json_network
from csdf.errors import CsdfError, InvalidNetwork, UnreadableFile, UnsupportedOperator

RELU = op.Activation(function="relu")


def entry(name, kind, reads, writes, *, kernel=1, stride=1, pads=(0, 0, 0, 0), fused=()):
    """A layer of the file; its id is set by `document`."""
    sizes = zip(("ifm", "ih", "iw", "ofm", "oh", "ow"), (*reads, *writes), strict=True)
    operator, _, variant = kind.partition("/")
    kinds = {"op": operator, "subop": variant, "fs": kernel, "stride": stride}
    return {"name": name, **kinds, **dict(sizes), "pads": list(pads), "fused_ops": list(fused)}


def document(*entries, connections=None):
    """A file whose layers follow one another, unless connections by place say otherwise."""
    if connections is None:
        connections = [(place, place + 1) for place in range(len(entries) - 1)]
    return json.dumps(
        {
            "name": "net",
            "_DNN__layers": [{**layer, "id": place} for place, layer in enumerate(entries)],
            "_DNN__connections": [{"src": src, "dst": dst} for src, dst in connections],
        }
    )


CONV = entry(
    "conv", "conv/conv", (3, 8, 8), (4, 8, 8), kernel=3, fused=("batchnormalization", "relu")
)
POOL = entry("pool", "pool/maxpool", (4, 8, 8), (4, 4, 4), kernel=2, stride=2, fused=("dropout",))
GEMM = entry("gemm", "gemm/gemm", (4, 4, 4), (5, 1, 1))
CHAIN = document(CONV, POOL, GEMM)


def window_of(layer):
    network = parse_json_network(document(layer), "net.json")
    assert network.layers[1].shape.dims == (layer["ofm"], layer["oh"], layer["ow"])
    return network.layers[1].operator.window


def made(layer, *more, connections=None):
    """The layers by name, without contradictions."""
    network = parse_json_network(document(layer, *more, connections=connections), "net.json")
    return {each.name: each for each in network.layers}


def test_inputs_and_outputs_are_added_at_the_ends():
    network = parse_json_network(CHAIN, "net.json")
    assert network.name == "net"
    assert [layer.name for layer in network.layers] == ["input", "conv", "pool", "gemm", "output"]
    shapes = [layer.shape.dims for layer in network.layers]
    assert shapes == [(3, 8, 8), (4, 8, 8), (4, 4, 4), (5,), (5,)]


def test_given_inputs_and_outputs_are_kept():
    image = entry("image", "data/input", (1, 8, 8), (3, 8, 8))
    result = entry("result", "data/output", (4, 8, 8), (4, 8, 8))
    assert list(made(image, CONV, result)) == ["image", "conv", "result"]


def test_fused_operators_stand_behind_their_layer():
    network = parse_json_network(CHAIN, "net.json")
    # The batch normalisation is folded into the convolution, dropout leaves nothing.
    assert network.layer("conv").epilogue == (RELU,)
    assert network.layer("pool").epilogue == ()
    assert layer_parameters(network)["conv"] == 3 * 3 * 3 * 4 + 4
    pool = {**POOL, "fused_ops": ["lrn", "batchnormalization", "activation"]}
    lrn = op.LocalResponseNormalization(size=5)
    assert made(pool)["pool"].epilogue == (lrn, op.BatchNormalization(), RELU)


@pytest.mark.parametrize(
    ("reads", "writes", "kernel", "stride", "pads", "padding"),
    [
        (8, 8, 3, 1, (0, 0, 0, 0), (1, 1, 1, 1)),  # pads that do not fit are ignored
        (8, 8, 3, 1, (1.0, 1.0, 1.0, 1.0), (1, 1, 1, 1)),
        (224, 112, 7, 2, (3, 3, 3, 3), (3, 3, 3, 3)),  # fits, one row is left over
        (112, 55, 3, 2, (0, 0, 0, 0), (0, 0, 0, 0)),
        (224, 112, 3, 2, (0, 0, 0, 0), (0, 0, 1, 1)),  # 111 * 2 + 3 - 224 = 1
        (13, 13, 2, 1, (0.5, 0.5, 0.5, 0.5), (0, 0, 1, 1)),
        (6, 1, 7, 1, (1, 1, 1, 1), (0, 0, 1, 1)),
        (112, 55, 3, 2, (5, 5, 5, 5), (0, 0, 0, 0)),
    ],
)
def test_padding_follows_from_the_sizes(reads, writes, kernel, stride, pads, padding):
    sizes = ((2, reads, reads), (2, writes, writes))
    layer = entry("p", "pool/maxpool", *sizes, kernel=kernel, stride=stride, pads=pads)
    assert window_of(layer).padding == padding


def test_a_fused_padding_enlarges_a_pointwise_convolution():
    layer = entry("c", "conv/conv", (2, 56, 56), (4, 59, 59), fused=("relu", "padding"))
    assert window_of(layer).padding == (1, 1, 2, 2)


def test_a_rescaling_with_padding_is_a_padding():
    layer = entry("r", "Rescaling/rescaling", (3, 224, 224), (3, 225, 225), fused=("padding",))
    assert made(layer)["r"].operator == op.Pad(padding=(0, 0, 1, 1))


def test_a_flattened_pooling_keeps_its_maps():
    # 9216 = 256 * 6 * 6; (12 + 2 - 3) // 2 + 1 = 6
    sizes = ((256, 12, 12), (9216, 1, 1))
    layer = entry(
        "p", "pool/maxpool", *sizes, kernel=3, stride=2, pads=(1,) * 4, fused=("reshape",)
    )
    assert made(layer)["p"].shape.dims == (256, 6, 6)


@pytest.mark.parametrize(
    ("kind", "operator"),
    [
        ("pool/globalaveragepool", op.GlobalPooling(function="average")),
        ("gemm/gemm", op.FullyConnected(units=4)),
        ("gemm/matmul", op.FullyConnected(units=4, has_bias=False)),
        ("softmax/softmax", op.Softmax(axis=0)),
        ("arithmetic/sub", op.Elementwise(function="subtract", constant=(4, 1, 1))),
        ("arithmetic/div", op.Elementwise(function="divide", constant=(4, 1, 1))),
        ("activation/relu", RELU),
        ("Lambda/lambda", op.Identity(kind="lambda")),
        ("Rescaling/rescaling", op.Identity(kind="rescaling")),
    ],
)
def test_kinds_of_layers_are_known(kind, operator):
    assert made(entry("x", kind, (4, 1, 1), (4, 1, 1)))["x"].operator == operator


def test_a_depthwise_convolution_has_a_group_for_each_map():
    layer = entry("d", "conv/depthwiseconv", (4, 8, 8), (4, 8, 8), kernel=3)
    network = made(layer)
    assert network["d"].operator.groups == 4
    assert parameter_shapes(network["d"], [network["input"].shape])["kernel"] == (4, 1, 3, 3)


def test_branches_meet_in_the_order_of_the_connections():
    left = entry("left", "conv/conv", (4, 8, 8), (2, 8, 8))
    right = entry("right", "conv/conv", (4, 8, 8), (3, 8, 8))
    join = entry("join", "concat/concat", (2, 8, 8), (5, 8, 8))
    found = made(CONV, left, right, join, connections=[(0, 1), (0, 2), (2, 3), (1, 3)])
    assert found["join"].inputs == ("right", "left")
    assert found["join"].shape.dims == (5, 8, 8)


def test_a_product_repeats_a_single_row_and_column():
    squeeze = entry("squeeze", "pool/globalaveragepool", (4, 8, 8), (4, 1, 1))
    excite = entry("excite", "arithmetic/mul", (4, 8, 8), (4, 8, 8))
    found = made(CONV, squeeze, excite, connections=[(0, 1), (0, 2), (1, 2)])
    assert found["excite"].operator == op.Elementwise(function="multiply")
    assert found["excite"].shape.dims == (4, 8, 8)


def test_a_lambda_adds_its_inputs():
    residual = entry("sum", "Lambda/lambda", (4, 8, 8), (4, 8, 8), fused=("activation",))
    other = entry("other", "conv/conv", (4, 8, 8), (4, 8, 8))
    found = made(CONV, other, residual, connections=[(0, 1), (0, 2), (1, 2)])
    assert found["sum"].operator == op.Elementwise(function="add")


def test_layers_are_sorted_after_their_inputs():
    found = made(GEMM, POOL, CONV, connections=[(2, 1), (1, 0)])
    assert list(found) == ["input", "conv", "pool", "gemm", "output"]


def test_every_end_gets_its_own_input_or_output():
    twin = {**CONV, "name": "twin"}
    found = made(CONV, twin, connections=[])
    assert list(found) == ["input_conv", "conv", "input_twin", "twin", "output_conv", "output_twin"]


def test_an_added_name_avoids_names_of_the_file():
    assert list(made({**CONV, "name": "input"})) == ["input_", "input", "output"]


def test_sizes_that_contradict_the_layer_before_are_refused_or_repaired():
    wide = {**POOL, "ifm": 16, "ofm": 16}
    text = document(CONV, wide)
    with pytest.raises(InvalidNetwork, match=r"net.json: layer 'pool' states that it reads 16x8x8"):
        parse_json_network(text, "net.json")
    repaired = parse_json_network(text, "net.json", repair=True)
    assert repaired.layer("pool").shape.dims == (4, 4, 4)
    assert len(json_contradictions(text, "net.json")) == 1
    assert json_contradictions(CHAIN, "net.json") == ()


def test_repairing_what_is_right_changes_nothing():
    assert parse_json_network(CHAIN, "n", repair=True) == parse_json_network(CHAIN, "n")


def test_an_impossible_input_is_repaired_from_the_output():
    # A 5x5 window with stride 1 does not make 28 rows of 5.
    layer = entry("c", "conv/conv", (1, 5, 5), (8, 28, 28), kernel=5)
    text = document(layer)
    with pytest.raises(InvalidNetwork, match="layer 'c' states that it reads 1x5x5"):
        parse_json_network(text, "net.json")
    assert parse_json_network(text, "net.json", repair=True).inputs[0].shape.dims == (1, 28, 28)


def test_branches_that_do_not_fit_are_beyond_repair():
    join = entry("join", "concat/concat", (4, 8, 8), (8, 8, 8))
    text = document(CONV, POOL, join, connections=[(0, 1), (0, 2), (1, 2)])
    with pytest.raises(InvalidNetwork, match=r"net.json: layer 'join': .* do not fit along axis 0"):
        parse_json_network(text, "net.json", repair=True)


def changed(**values):
    return document({**CONV, **values}, POOL, GEMM)


@pytest.mark.parametrize(
    ("text", "error", "complaint"),
    [
        ("", UnreadableFile, "net.json:1: not JSON"),
        ("[" * 100_000, UnreadableFile, "net.json: nested too deeply"),
        ("[1]", UnreadableFile, "net.json: found [1]; expected an object"),
        ("{}", UnreadableFile, "net.json: found {}; the key 'name' is missing"),
        ('{"actors": []}', UnreadableFile, "net.json: a dataflow graph; expected a network."),
        (document(), UnreadableFile, "net.json: _DNN__layers: found []; expected at least one la"),
        (changed(fs=0), UnreadableFile, "_DNN__layers[0].fs: found 0; expected an integer from 1"),
        (changed(ih="8"), UnreadableFile, "_DNN__layers[0].ih: found '8'; expected an integer"),
        (changed(stride=10**12), UnreadableFile, "_DNN__layers[0].stride: found 1000000000000"),
        (changed(pads=["a"]), UnreadableFile, "_DNN__layers[0].pads[0]: found 'a'; expected a nu"),
        (changed(pads=3), UnreadableFile, "_DNN__layers[0].pads: found 3; expected a list"),
        (changed(name=""), UnreadableFile, "_DNN__layers[0].name: found ''; expected a text"),
        (changed(name="pool"), UnreadableFile, "_DNN__layers[1].name: found 'pool'; another layer"),
        (CHAIN.replace('"id": 1', '"id": 0'), UnreadableFile, "[1].id: found 0; another layer has"),
        (CHAIN.replace('"src": 1', '"src": 7'), UnreadableFile, "_DNN__connections[1].src: found"),
        (changed(op="rnn"), UnsupportedOperator, "layer 'conv': operator 'rnn/conv' is unknown"),
        (changed(fused_ops=["gru"]), UnsupportedOperator, "fused operator 'gru' is unknown"),
        (document(CONV, POOL, GEMM, connections=[(0, 1), (1, 2), (2, 1)]), InvalidNetwork,
         "net.json: the layers 'pool', 'gemm' form a cycle"),
        (document(CONV, connections=[(0, 0)]), InvalidNetwork, "the layers 'conv' form a cycle"),
        (document(CONV, CONV | {"name": "b"}, POOL, connections=[(0, 2), (1, 2)]), InvalidNetwork,
         "net.json: layer 'pool': Pooling takes one input, found 2"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_the_place(text, error, complaint):
    with pytest.raises(error) as refusal:
        parse_json_network(text, "net.json")
    assert complaint in str(refusal.value)


@pytest.mark.parametrize("pads", ["NaN", "Infinity", "1e400", "-3, -3, -3, -3", "1e3,1e3,1e3,1e3"])
def test_senseless_pads_are_ignored(pads):
    text = CHAIN.replace("[0, 0, 0, 0]", f"[{pads}]")
    assert parse_json_network(text, "net.json") == parse_json_network(CHAIN, "net.json")


def mutated(text, generator):
    """The text with some digits, characters or words replaced."""
    for _ in range(generator.randint(1, 3)):
        at = generator.randrange(len(text))
        kind = generator.randrange(3)
        if kind == 0:
            text = text[:at] + generator.choice('0123456789-."{}[],:ae') + text[at + 1 :]
        elif kind == 1:
            digits = [place for place, character in enumerate(text) if character.isdigit()] or [0]
            at = generator.choice(digits)
            text = text[:at] + generator.choice(["0", "1", "7", "99", "-1", "2.5"]) + text[at + 1 :]
        else:
            words = (
                "conv",
                "pool",
                "maxpool",
                "gemm",
                "concat",
                "add",
                "relu",
                "null",
                "depthwise",
            )
            text = text.replace(generator.choice(words), generator.choice(words), 1)
    return text


def reading(text, *, repair):
    try:
        network = parse_json_network(text, "mutated.json", repair=repair)
    except CsdfError as error:
        return "refused" if "mutated.json" in str(error) else str(error)
    return "read" if network.layers else "empty"


BRANCHED = document(
    CONV,
    entry("left", "conv/depthwiseconv", (4, 8, 8), (4, 8, 8), kernel=3, fused=("padding",)),
    entry("right", "pool/averagepool", (4, 8, 8), (4, 8, 8), kernel=3, pads=(1, 1, 1, 1)),
    entry("join", "concat/concat", (4, 8, 8), (8, 8, 8)),
    entry("sum", "arithmetic/add", (8, 8, 8), (8, 8, 8)),
    connections=[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)],
)


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("text", [CHAIN, BRANCHED], ids=["chain", "branched"])
def test_mutated_files_are_read_or_refused(text, repair):
    generator = random.Random(11)
    outcomes = {reading(mutated(text, generator), repair=repair) for _ in range(300)}
    assert outcomes == {"read", "refused"}


@pytest.mark.parametrize(
    ("fused", "message"), [("relu", "fused with an input"), ("odd", "unknown")]
)
def test_operators_fused_with_an_input_are_refused(fused, message):
    data = entry("in", "data/input", (3, 8, 8), (3, 8, 8), fused=(fused,))
    with pytest.raises(UnsupportedOperator, match=f"'in'.*{message}"):
        parse_json_network(document(data, CONV), "net.json")
