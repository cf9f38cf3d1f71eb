"""Detections, elements at computed positions, places of extremes and resizes of integers in C."""

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.fixed_point.flash import flash_bytes
from cnn2csdf.shape import Shape
from cnn2csdf.weights import Model
from planners.code.library import library
from planners.memory.fit import fit
from tests.planners.code.compiling import needs_compiler, run_all

TYPES = {
    "real": None,
    "int8": Quantization(element=Element.INT8, scales=(0.02,), zero_point=3),
    "uint8": Quantization(element=Element.UINT8, scales=(0.02,), zero_point=120),
}


class Case:
    """A network of some inputs, with random numbers for its frames."""

    def __init__(self, kind, seed):
        self.types, self.random = TYPES[kind], np.random.default_rng(seed)
        self.element = Element.FLOAT32 if self.types is None else self.types.element
        self.builder, self.weights, self.frame = NetworkBuilder("net"), {}, {}

    def draw(self, low, high):
        return int(self.random.integers(low, high + 1))

    def numbers(self, dims):
        """Few different numbers, so that some are equal."""
        if self.types is None:
            return (self.random.integers(-9, 10, dims) / np.float32(8)).astype(np.float32)
        limits = np.iinfo(self.element.value)
        return self.random.integers(limits.min, limits.max + 1, dims).astype(self.element.value)

    def input(self, dims, types=None):
        types = types or self.types
        name = self.builder.input(dims, element=self.element, quantization=types)
        self.frame[name] = self.numbers(dims)
        return name

    def positions(self, dims, limits):
        name = self.builder.input(dims)
        self.frame[name] = self.random.integers(-2, max(limits) + 1, dims).astype(np.float32)
        return name

    def made(self, number):
        model = Model(network=self.builder.network(), weights=self.weights)
        plan = fit(model.network, budget=1).least.plan
        return library(model, plan, name=f"net{number}", frames=[self.frame]), model


def detections(kind, seed):
    case = Case(kind, seed)
    anchors, classes, by_class = case.draw(1, 30), case.draw(1, 4), case.draw(0, 3) or None
    operator = op.Detections(
        anchors=anchors,
        count=case.draw(1, 12),
        classes=classes,
        classes_each=1 if by_class else case.draw(1, 3),
        by_class=by_class,
        score_limit=float(case.random.uniform(-1, 1)),
        overlap_limit=float(case.random.uniform(0.1, 0.9)),
        scales=(10.0, 10.0, 5.0, 5.0),
    )
    sources = [case.input((anchors, 4)), case.input((anchors, classes + case.draw(0, 1)))]
    stored = Stored(role="anchors", element=case.element, quantization=case.types)
    last = case.builder.add(operator, *sources, element=Element.FLOAT32, stored=(stored,))
    case.weights = {last: {"anchors": case.numbers((anchors, 4))}}
    case.builder.output(last)
    return case


def points(kind, seed):
    case = Case(kind, seed)
    dims = tuple(case.draw(1, 5) for _ in range(case.draw(1, 4)))
    axes = case.draw(1, len(dims))
    listed = tuple(case.draw(1, 4) for _ in range(case.draw(0, 2)))
    values = case.input(dims)
    positions = case.positions((*listed, axes), dims)
    common = {"element": case.element, "quantization": case.types}
    case.builder.output(case.builder.add(op.GatherPoints(), values, positions, **common))
    return case


def extremes(kind, seed):
    case = Case(kind, seed)
    dims = tuple(case.draw(1, 6) for _ in range(case.draw(1, 3)))
    operator = op.ExtremePlace(
        function=("min", "max")[seed % 2],
        axis=case.draw(0, len(dims) - 1),
        takes_last=case.draw(0, 1) == 1,
    )
    source = case.input(dims)
    case.builder.output(case.builder.add(operator, source, element=Element.FLOAT32))
    return case


def resizes(kind, seed):
    case = Case(kind, seed)
    operator = op.Resize(
        size=(case.draw(1, 40), case.draw(1, 40)),
        function="linear",
        coordinates=("asymmetric", "half pixel", "align corners")[seed % 3],
        rounding="single precision" if kind == "uint8" else "in 1024ths",
    )
    common = {"element": case.element, "quantization": case.types}
    case.builder.output(case.builder.add(operator, case.input((2, 7, 5)), **common))
    return case


def joined(kind, seed):
    """Tensors of uint8 with scales of their own; of others, tensors and constants."""
    case = Case(kind, seed)
    rank = case.draw(1, 4)
    dims, axis = [case.draw(1, 4) for _ in range(rank)], case.draw(0, rank - 1)
    common = {"element": case.element, "quantization": case.types}

    def next_dims():
        return (*dims[:axis], case.draw(1, 3), *dims[axis + 1 :])

    if kind == "uint8":
        scales = case.random.uniform(0.01, 0.04, 2)
        types = [Quantization(element=Element.UINT8, scales=(float(np.float32(scale)),),
                              zero_point=case.draw(0, 255)) for scale in scales]  # fmt: skip
        sources = [case.input(next_dims(), each) for each in (*types, case.types)]
        case.builder.output(case.builder.add(op.Concatenation(axis=axis), *sources, **common))
        return case
    constant = next_dims()
    operator = op.ConstantConcatenation(axis=axis, constants=((case.draw(0, 1), constant),))
    stored = Stored(role=f"constant {operator.constants[0][0]}", element=case.element,
                    quantization=case.types)  # fmt: skip
    last = case.builder.add(operator, case.input(next_dims()), stored=(stored,), **common)
    numbers = case.numbers(constant)  # whole numbers, such as indices, among real ones
    case.weights = {last: {stored.role: numbers.astype(np.int32) if seed % 2 else numbers}}
    case.builder.output(last)
    return case


def products(kind, seed):
    """Products with a scale of nearly zero, whose exponent is above 31."""
    case = Case(kind, seed)
    tiny = Quantization(element=Element.INT8, scales=(float(np.float32(10.0 ** -(20 + seed % 9))),))
    sources = [case.input((2, 3, 4)), case.input((2, 3, 4))]
    operator = op.Elementwise(function="multiply")
    case.builder.output(
        case.builder.add(operator, *sources, element=Element.INT8, quantization=tiny)
    )
    return case


def poolings(kind, seed):
    """A pooling, the numbers of its maxima, and both put back."""
    case = Case(kind, seed)
    block = (case.draw(1, 3), case.draw(1, 3))
    source = case.input((2, 3 * block[0], 4 * block[1]))
    window = op.Window(kernel=block, stride=block)
    places = case.builder.add(op.PlaceOfMaximum(window=window), source)
    values = case.builder.add(op.Pooling(function="max", window=window), source)
    case.builder.output(places)
    case.builder.output(case.builder.add(op.Unpooling(block=block), values, places))
    overlapping = op.Window(kernel=(3, 2), stride=(2, 1), padding=(1, 1, 1, 0))
    case.builder.output(case.builder.add(op.PlaceOfMaximum(window=overlapping), source))
    return case


def unit_vectors(kind, seed):
    """Vectors over their lengths, along any axis of a map or a tensor of two axes."""
    case = Case(kind, seed)
    is_unsigned = kind == "uint8"
    types = Quantization(element=case.element, scales=(1 / 128,), zero_point=128 * is_unsigned)
    dims = tuple(case.draw(1, 9) for _ in range(case.draw(2, 3)))
    operator = op.UnitLength(axis=seed % len(dims))
    case.builder.output(
        case.builder.add(operator, case.input(dims), element=case.element, quantization=types)
    )
    return case


CASES = [
    *((detections, kind) for kind in TYPES),
    *((points, kind) for kind in TYPES),
    *((extremes, kind) for kind in TYPES),
    *((resizes, kind) for kind in ("int8", "uint8")),
    *((joined, kind) for kind in ("real", "uint8")),
    (products, "int8"),
    (poolings, "real"),
    *((unit_vectors, kind) for kind in ("int8", "uint8")),
]


@needs_compiler
@pytest.mark.slow
def test_results_at_computed_positions_are_the_same_in_c(tmp_path):
    libraries = []
    for number, (make, kind) in enumerate(pair for pair in CASES for _ in range(2)):
        made, model = make(kind, number).made(number)
        libraries.append(made)
        stored = flash_bytes(model.network, 4 if kind == "real" else None)
        assert made.written.weight_bytes == stored
    assert run_all(libraries, tmp_path) == []


def test_a_resize_of_bytes_reads_the_rows_that_it_needs():
    # Steps of 1024ths drift by up to a row from the exact place.
    operator = op.Resize(size=(513, 3), function="linear", rounding="in 1024ths")
    source = Shape(dims=(1, 33, 3))
    needed = operator.rows_needed(0, [source], source)
    rows, _ = operator.axes(source)
    above, below, _ = rows.neighbours_in_1024ths(np.arange(513))
    assert [needed(row) for row in range(513)] == [
        (int(first), int(last) + 1) for first, last in zip(above, below, strict=True)
    ]
