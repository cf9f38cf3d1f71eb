"""Work of kernels of emitted C: how often each loop of a layer's kernel runs in a frame.

A kernel's instructions are a sum of these counts, each times the instructions of one turn, which
`cnn2csdf.instruction_table` has for each core. What they depend on: taps that lie beside the tensor
do no work, filters go in blocks of four, values in words and vectors, and each result is rescaled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import prod

from cnn2csdf import operators as op
from cnn2csdf.geometry import Axis
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import operations
from cnn2csdf.platforms import Platform
from cnn2csdf.shape import Shape

REAL_BYTES = 4
BLOCK = 4  # filters that are summed at once
WORD, VECTOR = 4, 16  # values that meet weights at once: with SMLAD, with Helium
LANES = 4, 8  # channels of a depthwise convolution at once: in words, in vectors of Helium
FEW, MOST_GATHERED = 16, 256  # values in a row of a window, and in a window, that is gathered first
Counts = dict[str, int]


def loops(
    layer: Layer, inputs: Sequence[Shape], element_bytes: int, ring: int = 0
) -> tuple[str, Counts]:
    """Return the name of the kernel, and how often each of its loops runs in a frame.

    element_bytes: of what is computed: 4 are real numbers, less are integers. ring: columns of the
    circular buffer that the input lies in; 0 where its rows are whole.
    """
    operator, shape = layer.operator, layer.shape
    kernel, counts = type(operator).__name__, _moved(layer, inputs)
    if isinstance(operator, op.Convolution):
        kernel, counts = _convolution(operator, inputs[0], shape, ring)
    elif isinstance(operator, op.FullyConnected):
        counts = _filters(1, inputs[0].height, inputs[0].row_elements, operator.units)
        if inputs[0].height > 1:
            counts["rows apart"] = counts["block rows"]
        if element_bytes != REAL_BYTES:  # the same loops of filters
            kernel, counts["matrices"] = "Convolution", counts.pop("places")
            if inputs[0].height > 1:
                blocks = operator.units // BLOCK
                counts |= _bare(blocks, inputs[0].height, inputs[0].row_elements)
    elif isinstance(operator, op.Pooling):
        kernel = f"{kernel}.{operator.function}"
        counts = _pooled(operator, inputs[0], shape)
    elif isinstance(operator, op.Elementwise | op.Activation):
        kernel = f"{kernel}.{operator.function}"
    if isinstance(operator, op.GlobalPooling) and element_bytes != REAL_BYTES:
        kernel = op.Reduction.__name__  # a mean of integers is written as one
    if element_bytes == REAL_BYTES:
        kernel = f"{kernel}.real"
        counts["finished"] = shape.elements * len(layer.epilogue)
        counts["finished places"] = shape.height * shape.width * len(layer.epilogue)
    counts["rows"] = shape.rows if shape.is_map else 0
    return kernel, {name: number for name, number in counts.items() if number}


def work(platform: Platform, layer: Layer, inputs: Sequence[Shape], element_bytes: int) -> Fraction:
    """Return the operations of a layer in a frame, or on a core the instructions of its kernel.

    A kernel that was not counted takes for an operation those of a product in a plain loop.
    """
    if platform.core is None:
        return Fraction(operations(layer, inputs))
    if not inputs:
        return Fraction(0)
    kernel, counts = loops(layer, inputs, element_bytes)
    if kernel not in platform.core.table:
        kernel, counts = other_loops(layer, inputs)
    of_loop = platform.core.table.get(kernel, {})
    return sum((counts.get(name, 0) * one for name, one in of_loop.items()), Fraction(0))


def other_loops(layer: Layer, inputs: Sequence[Shape]) -> tuple[str, Counts]:
    """Return the counts that stand for the loops of a kernel that was not counted."""
    return "other", {"operations": operations(layer, inputs), **_moved(layer, inputs)}


def uncounted(platform: Platform, network: Network, element_bytes: int | None) -> tuple[str, ...]:
    """Return the kernels of a network that compute, and whose instructions on a core are a guess."""
    if platform.core is None:
        return ()
    found = {
        loops(layer, network.input_shapes(layer), element_bytes or layer.element_bytes)[0]
        for layer in network.layers
        if layer.inputs and operations(layer, network.input_shapes(layer))
    }
    return tuple(sorted(found - platform.core.table.keys()))


def _moved(layer: Layer, inputs: Sequence[Shape]) -> Counts:
    """Elements that any other kernel reads and writes, and its places."""
    shape = layer.shape
    return {
        "read": sum(one.elements for one in inputs),
        "written": shape.elements,
        "places": shape.height * shape.width if shape.is_map else 0,
    }


def _taps(axis: Axis, length: int, outputs: int, ring: int = 0) -> Counter[tuple[int, bool]]:
    """How many windows have so many taps on the tensor, that bend around its ring or do not."""
    found: Counter[tuple[int, bool]] = Counter()
    for place in range(outputs):
        begin = place * axis.stride - axis.before
        touched = range(begin, begin + axis.extent, axis.dilation)
        inside = [one for one in touched if 0 <= one < length + min(axis.after, 0)]
        bends = bool(ring and inside and inside[0] // ring != inside[-1] // ring)
        found[len(inside), bends] += 1
    return found


def _convolution(
    operator: op.Convolution, source: Shape, shape: Shape, ring: int
) -> tuple[str, Counts]:
    window, groups = operator.window, operator.groups
    down_taps = _taps(window.rows, source.height, shape.height)
    across_taps = _taps(window.columns, source.width, shape.width, ring)
    taps, width = prod(window.kernel), window.kernel[1] * source.channels
    inputs, filters = source.channels // groups, operator.filters // groups
    is_depthwise = groups > 1 and groups == source.channels == operator.filters
    gathers = groups == 1 and window.kernel[0] > 1 and width < FEW
    gathers = gathers and taps * inputs <= MOST_GATHERED
    found: Counter[str] = Counter()
    for (down, _), (across, bends) in product(down_taps, across_taps):
        number = down_taps[down, False] * across_taps[across, bends]
        if is_depthwise:
            found.update(_lanes(number, down, across, groups, bends=bends))
        elif gathers:
            blocks = filters // BLOCK * BLOCK
            found.update(_filters(number, 1, taps * inputs, blocks))
            if filters > blocks:
                found.update(_filters(number, down, across * inputs, filters - blocks))
                found["places"] -= number
            found["gathered rows"] += number * down * (1 + bends)
            found["gathered"] += number * down * across * inputs
            found["gathers"] += number
            found["gathered bare"] += number * taps * inputs * (down * across < taps)
        else:
            found.update(
                _filters(
                    number * groups, down * (1 + bends), across * inputs // (1 + bends), filters
                )
            )
            found["bends"] += number * groups * bends
            if bends or down * across < taps:  # sums do not begin with the zero point's part
                runs = down * (1 + bends) if bends or across < window.kernel[1] else 1
                blocks = number * (operator.filters // BLOCK)
                found.update(_bare(blocks, runs, -(-down * across * inputs // max(runs, 1))))
    kernel = "Depthwise" if is_depthwise else "Convolution" if groups == 1 else "GroupedConvolution"
    return kernel, dict(found)


def _filters(places: int, rows: int, count: int, filters: int) -> Counts:
    """The loops in which filters meet rows of so many values, at so many places."""
    blocks, single = places * (filters // BLOCK), places * (filters % BLOCK)
    return {
        "places": places,
        "outputs": places * filters,
        "filter rows": places * filters * rows,
        "products": places * filters * rows * count,
        "blocks": blocks,
        "block rows": blocks * rows,
        "words": blocks * rows * (count // WORD),
        "tails": blocks * rows * (count % WORD),
        "vectors": blocks * rows * -(-count // VECTOR),
        "singles": places * (single > 0),
        "single filters": single,
        "single rows": single * rows,
        "single products": single * rows * count,
    }


def _bare(blocks: int, runs: int, count: int) -> Counts:
    """The loops that take the zero point from what weights add, in runs of so many weights."""
    return {
        "bare blocks": blocks,
        "bare runs": blocks * runs,
        "bare vectors": blocks * runs * -(-count // VECTOR),
    }


def _lanes(places: int, down: int, across: int, channels: int, *, bends: bool) -> Counts:
    """The loops of a depthwise convolution, with four channels and with eight at once.

    Windows that bend around a ring go tap by tap, as channels do that are left.
    """
    found = {"places": places, "outputs": places * channels}
    found["products"] = places * down * across * channels
    for lanes in LANES:
        blocks = 0 if bends else places * (channels // lanes)
        rest = channels if bends else channels % lanes
        slow = places * -(-rest // LANES[-1])
        found |= {
            f"lanes of {lanes}": blocks,
            f"rows of {lanes}": blocks * down,
            f"taps of {lanes}": blocks * down * across,
            f"places beside {lanes}": slow,
            f"taps beside {lanes}": slow * down * across,
            f"products beside {lanes}": places * down * across * rest,
            f"outputs beside {lanes}": places * rest,
        }
    return found


def _pooled(operator: op.Pooling, source: Shape, shape: Shape) -> Counts:
    window = operator.window
    down = _taps(window.rows, source.height, shape.height)
    across = _taps(window.columns, source.width, shape.width)
    taps = prod(sum(n * number for (n, _), number in one.items()) for one in (down, across))
    return {
        "places": shape.height * shape.width,
        "outputs": shape.elements,
        "taps": taps,
        "products": taps * shape.channels,
    }
