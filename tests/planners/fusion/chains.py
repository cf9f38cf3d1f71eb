"""Networks for tests of fused tiles: chains and branches of random windows, and YOLOv2's beginning."""

from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.yolo import yolo_v2_beginning
from cnn2csdf.dtypes import Element
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from planners.fusion.groups import SectionRange, Terms, group_of
from planners.memory.answer import GroupMode, ScratchCount
from planners.memory.order import chain_of
from planners.plan.plan import Tiles
from planners.plan.regions import can_be_tiled

PLATFORM = PLATFORMS["cortex-m7"]
TERMS = Terms(platform=PLATFORM, scratch=ScratchCount.IM2COL)
KINDS = ("conv", "conv", "pool", "relu", "residual", "concat", "pad", "shuffle", "slice", "space")


@cache
def yolo_chain(resolution=608):
    """The 16 layers of MAFAT."""
    return chain_of(simplified(Model(network=yolo_v2_beginning(resolution=resolution))).network)


def model_of(network, seed=0):
    return Model(network=network, weights=random_weights(network, seed))


def plain_chain(*layers, dims=(2, 9, 9)):
    """A chain of layers given as (filters, kernel, stride); no filters: a pooling."""
    builder = NetworkBuilder("plain")
    source = builder.input(dims)
    for filters, kernel, stride in layers:
        border = kernel // 2
        window = op.Window(kernel=(kernel, kernel), stride=(stride, stride), padding=(border,) * 4)
        operator = (
            op.Convolution(filters=filters, window=window)
            if filters
            else op.Pooling(function="max", window=window)
        )
        source = builder.add(operator, source)
    builder.output(source)
    return chain_of(builder.network())


@st.composite
def windows(draw):
    """Any window; its padding is smaller than its extent, as frameworks want it."""
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    dilation = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    extent = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = tuple(draw(st.integers(0, extent[side % 2] - 1)) for side in range(4))
    stride = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    return op.Window(
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        padding=padding,
        overhang=tuple(draw(st.integers(0, step - 1)) for step in stride),
    )


def _fits(shape, window):
    top, left, bottom, right = window.padding
    return (
        shape.height + top + bottom >= window.extent[0]
        and shape.width + left + right >= window.extent[1]
    )


@st.composite
def networks(draw, most=5):
    """A few layers: windows, pointwise ones, branches that are joined; maybe one that needs all."""
    builder = NetworkBuilder("drawn")
    source = builder.input((2, draw(st.integers(5, 17)), draw(st.integers(5, 17))))
    for _ in range(draw(st.integers(1, most))):
        source = draw(_blocks(builder, source))
    if draw(st.integers(0, 4)) == 0:
        source = builder.add(op.GlobalPooling(function="average"), source)
    builder.output(source)
    return builder.network()


@st.composite
def _blocks(draw, builder, source):
    kind = draw(st.sampled_from(KINDS))
    shape = builder.shape(source)
    if kind in ("conv", "pool"):
        window = draw(windows())
        if not _fits(shape, window):
            return _relu(builder, source)
        return builder.add(draw(_windowed(kind, window, shape)), source)
    if kind in ("relu", "shuffle", "slice", "space"):
        return builder.add(_moving(kind, shape), source)
    if kind == "pad":
        padding = tuple(draw(st.integers(0, 2)) for _ in range(4))
        return builder.add(op.Pad(padding=padding, value=0.5), source)
    kernel = draw(st.sampled_from([1, 3]))
    window = op.Window(kernel=(kernel, kernel), padding=(kernel // 2,) * 4)
    branch = builder.add(op.Convolution(filters=shape.channels, window=window), source)
    if draw(st.booleans()):
        branch = _relu(builder, branch)
    join = op.Elementwise(function="add") if kind == "residual" else op.Concatenation()
    return builder.add(join, branch, source)


@st.composite
def _windowed(draw, kind, window, shape):
    if kind == "conv":
        groups = draw(st.sampled_from([1, shape.channels]))
        return op.Convolution(filters=shape.channels * 2, window=window, groups=groups)
    function = draw(st.sampled_from(["max", "average"]))
    if function == "max":  # of nothing it is minus infinity
        window = replace(window, overhang=(0, 0))
    return op.Pooling(function=function, window=window, counts_padding=draw(st.booleans()))


def _moving(kind, shape):
    match kind:
        case "shuffle":
            return op.ChannelShuffle(groups=2 if shape.channels % 2 == 0 else 1)
        case "slice" if shape.channels > 1:
            return op.Slice(axis=0, start=1, stop=shape.channels)
        case "space" if shape.height % 2 == shape.width % 2 == 0:
            return op.SpaceToDepth(block=2)
    return op.Activation(function="relu")


@st.composite
def mixed(draw, network):
    """The network with elements of any sizes in its tensors."""
    kinds = st.sampled_from((Element.INT8, Element.INT16, Element.FLOAT32))
    layers = tuple(replace(layer, element=draw(kinds)) for layer in network.layers)
    return replace(network, layers=layers)


def _relu(builder, source):
    return builder.add(op.Activation(function="relu"), source)


@st.composite
def ends(draw, extent):
    """The ends of tiles, even or not."""
    inner = draw(st.sets(st.integers(1, extent - 1), max_size=3)) if extent > 1 else set()
    return (*sorted(inner), extent)


@st.composite
def tilings(draw, shape, halo_cached):
    rows, columns = draw(ends(shape.height)), draw(ends(shape.width))
    return Tiles(row_ends=rows, column_ends=columns, halo_cached=halo_cached)


@st.composite
def configurations(draw, chain):
    """Groups of any sizes, each with any way and grid."""
    count = chain.sections
    groups, first = [], 0
    while first < count:
        upto = draw(st.integers(first + 1, count))
        layers = chain.between(first, upto)
        is_tiled = all(can_be_tiled(chain.network, layer) for layer in layers)
        way = draw(
            st.sampled_from(list(GroupMode) if is_tiled else [GroupMode.WHOLE, GroupMode.ROWS])
        )
        shape = chain.network.layer(chain.at(upto)).shape
        if way in (GroupMode.WHOLE, GroupMode.ROWS):
            groups.append(group_of(chain, first, upto, way))
        else:
            tiles = draw(tilings(shape, way is GroupMode.CACHED))
            groups.append(SectionRange(first, upto, way, tiles))
        first = upto
    return tuple(groups)


@st.composite
def planned(draw):
    """A chain, a configuration of it and terms."""
    chain = chain_of(draw(networks()))
    terms = Terms(platform=PLATFORM, scratch=draw(st.sampled_from(list(ScratchCount))))
    return chain, draw(configurations(chain)), terms
