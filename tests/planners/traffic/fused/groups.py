"""Groups and schedules for tests: random windows, pools, groups, skips, halo; the slides' pair."""

from dataclasses import replace
from itertools import product

from hypothesis import strategies as st

from cnn2csdf.geometry import ReceptiveField
from planners.traffic.fused.axis_cuts import computes_all_written, weights_of
from planners.traffic.fused.group import FusedGroup, FusedLayer
from planners.traffic.fused.schedule import (
    INPUT_HALOS,
    MAP_HALOS,
    FusedSchedule,
    MapsPerPass,
    can_hold_one_map,
)

SIZES = (1, 1, 2, 4)  # bytes of an element
KINDS = ("convolution", "convolution", "depthwise", "pooling", "grouped")


def layer(channels, filters, size, kernel=3, **others):
    """A convolution of square maps that keeps their size."""
    reach = ReceptiveField(inputs=size, outputs=size, kernel=kernel, padding=kernel // 2)
    return FusedLayer(channels=channels, filters=filters, rows=reach, columns=reach, **others)


def slides_pair(maps=64):
    """Liao et al.: 56x56x64 -> 64 -> 64, windows of 3x3."""
    return FusedGroup(layers=(layer(maps, maps, 56), layer(maps, maps, 56)))


@st.composite
def reaches(draw, inputs):
    """Any window along an axis that has an output."""
    dilation = draw(st.integers(1, 2))
    padding = draw(st.integers(0, 2))
    longest = min(4, (inputs + 2 * padding - 1) // dilation + 1)
    kernel = draw(st.integers(1, longest))
    stride = draw(st.sampled_from((1, 1, 1, 2, 3)))
    outputs = (inputs + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    return ReceptiveField(
        inputs=inputs,
        outputs=outputs,
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        padding=padding,
    )


@st.composite
def layers(draw, channels, rows, columns):
    kind = draw(st.sampled_from(KINDS))
    filters, groups = draw(st.integers(1, 5)), 1
    if kind in ("depthwise", "pooling"):
        filters = groups = channels
    elif kind == "grouped" and channels % 2 == 0:
        filters, groups = 2 * draw(st.integers(1, 2)), 2
    operands = draw(operand_bytes())
    return FusedLayer(
        channels=channels,
        filters=filters,
        rows=draw(reaches(rows)),
        columns=draw(reaches(columns)),
        groups=groups,
        has_weights=kind != "pooling",
        dram_operands=len(operands),
        operand_bytes=operands,
        output_bytes=draw(st.sampled_from(SIZES)),
        weight_bytes=draw(st.sampled_from(SIZES)),
    )


@st.composite
def operand_bytes(draw):
    """Elements of one operand from DRAM, or of none."""
    return draw(st.sampled_from(((), (), (), (draw(st.sampled_from(SIZES)),))))


@st.composite
def size_keeping(draw, channels, rows, columns):
    """A convolution that leaves as many rows and columns as it reads."""
    down, across = (
        ReceptiveField(inputs=size, outputs=size, kernel=2 * halo + 1, padding=halo)
        for size, halo in ((rows, draw(st.integers(0, 2))), (columns, draw(st.integers(0, 2))))
    )
    operands = draw(operand_bytes())
    return FusedLayer(
        channels=channels,
        filters=draw(st.integers(1, 3)),
        rows=down,
        columns=across,
        dram_operands=len(operands),
        operand_bytes=operands,
        output_bytes=draw(st.sampled_from(SIZES)),
        weight_bytes=draw(st.sampled_from(SIZES)),
    )


@st.composite
def groups(draw, longest=4, largest=10):
    """Chains of windows, with additions of earlier maps, and maps that others read."""
    sizes = draw(st.integers(1, 4)), *(draw(st.integers(3, largest)) for _ in range(2))
    chain = []
    for _ in range(draw(st.integers(2, longest))):
        chain.append(draw(layers(*sizes)))
        sizes = chain[-1].filters, chain[-1].rows.outputs, chain[-1].columns.outputs
    plain = FusedGroup(layers=tuple(chain), input_bytes=draw(st.sampled_from(SIZES)))
    numbers = range(plain.length + 1)
    possible = [
        (one, other)
        for one, other in product(numbers, numbers)
        if one < other and plain.dims(one) == plain.dims(other)
    ]
    skips = tuple(skip for skip in possible if draw(st.booleans()))
    written = frozenset(one for one in range(1, plain.length) if draw(st.integers(0, 3)) == 0)
    full = replace(plain, skips=skips, written=written)
    return full if computes_all_written(full) else replace(plain, skips=skips)


@st.composite
def branches(draw, longest=5, largest=8):
    """Windows over any maps of one size before them; the ends, which are cut alike, go out."""
    sizes = draw(st.integers(1, 3)), *(draw(st.integers(3, largest)) for _ in range(2))
    dims, made, sources = [sizes], [], []
    for _ in range(draw(st.integers(2, longest))):
        first = draw(st.integers(0, len(dims) - 1))
        alike = [one for one, size in enumerate(dims) if size[1:] == dims[first][1:]]
        read = tuple(draw(st.lists(st.sampled_from(alike), min_size=1, max_size=3, unique=True)))
        channels = sum(dims[one][0] for one in read)
        like = [one for one, source in zip(made, sources, strict=True) if source == read]
        is_alike = like and draw(st.booleans())
        new = draw(st.sampled_from((size_keeping, size_keeping, layers)))
        one = draw(st.sampled_from(like) if is_alike else new(channels, *dims[first][1:]))
        made.append(one)
        sources.append(read)
        dims.append((one.filters, one.rows.outputs, one.columns.outputs))
    return draw(with_skips(made, sources, dims))


@st.composite
def with_skips(draw, made, sources, dims):
    """The longest beginning of these layers whose ends are of one size, with skips."""
    for count in range(len(made), 1, -1):
        read = {one for source in sources[:count] for one in source}
        ends = {dims[one][1:] for one in range(count + 1) if one not in read}
        if 0 in read and len(ends) == 1:
            break
    else:
        return draw(groups())
    numbers = range(count + 1)
    possible = [
        (one, other)
        for one, other in product(numbers, numbers)
        if one < other and dims[one] == dims[other] and one in read
    ]
    skips = tuple(skip for skip in possible if draw(st.booleans()))
    inner = sorted(read & set(numbers) - {0})
    written = frozenset(one for one in inner if draw(st.integers(0, 3)) == 0)
    group = FusedGroup(
        layers=tuple(made[:count]),
        sources=tuple(sources[:count]),
        skips=skips,
        input_bytes=draw(st.sampled_from(SIZES)),
    )
    full = replace(group, written=written)
    return full if computes_all_written(full) else group


@st.composite
def schedules(draw, of=groups):
    """Any schedule of any group, with any weights that stay."""
    group = draw(of())
    _, rows, columns = group.dims(group.length)
    passes = tuple(MapsPerPass) if can_hold_one_map(group) else (MapsPerPass.ALL,)
    return FusedSchedule(
        group=group,
        tiles=(draw(st.integers(1, min(rows, 4))), draw(st.integers(1, min(columns, 4)))),
        columns_first=draw(st.booleans()),
        halo=draw(st.sampled_from(MAP_HALOS)),
        input_halo=draw(st.sampled_from(INPUT_HALOS)),
        maps_per_pass=draw(st.sampled_from(passes)),
        stationary_bytes=tuple(
            draw(st.sampled_from((0, weights // 2, weights))) for weights in weights_of(group)
        ),
    )
