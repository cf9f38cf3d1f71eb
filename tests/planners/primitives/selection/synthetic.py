"""Profiles without a machine: bytes by formula, times by work and a seeded factor."""

import random

from cnn2csdf.catalogue.networks import CATALOGUE
from cnn2csdf.operators import Convolution
from cnn2csdf.parameters import layer_parameters, multiply_accumulates
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.primitives.profile import (
    CHW,
    HWC,
    LAYER,
    LAYOUTS,
    LayerProfile,
    Profile,
    TimingMachine,
    TransformProfile,
)

MACHINE = TimingMachine(processor="none", cores=1, threads=1, library="none")
BYTES = 4
STRIPS = (1, 2, 4, 7, 14, 28)


def network_of(name):
    """The network as plans for primitives see it."""
    return simplified(Model(network=CATALOGUE[name]())).network


def profile_of(network, seed=0):
    """At least 57 candidates for each convolution of several output rows."""
    chance = random.Random(seed)
    parameters = layer_parameters(network)
    layers = []
    for layer in network.layers:
        weights = parameters.get(layer.name, 0) * BYTES
        if isinstance(layer.operator, Convolution):
            layers += _convolution(network, layer, weights, chance)
        else:
            layers += _other(network, layer, weights, chance)
    return Profile(
        network=network.name,
        machine=MACHINE,
        layers=tuple(layers),
        transforms=tuple(_transforms(network, chance)),
    )


def _is_mapped(network, layer):
    return layer.shape.is_map and all(shape.is_map for shape in network.input_shapes(layer))


def _other(network, layer, weights, chance):
    layouts = LAYOUTS if layer.inputs and _is_mapped(network, layer) else (CHW,)
    if type(layer.operator).__name__ == "Output":
        layouts = (CHW,)
    for layout in layouts:
        time = int(layer.shape.elements * chance.uniform(0.5, 1.5))
        yield _entry(layer, LAYER, layout, layout, time, 0, weights)


def _convolution(network, layer, weights, chance):
    (shape,) = network.input_shapes(layer)
    work = multiply_accumulates(layer, (shape,))
    kernel = layer.operator.window.kernel
    columns = shape.channels * kernel[0] * kernel[1]
    matrix = columns * layer.shape.height * layer.shape.width * BYTES
    planes = layer.shape.elements * BYTES
    for source in LAYOUTS:
        for target in LAYOUTS:
            ends = source, target
            yield _entry(layer, "direct", *ends, work * 3 + 2000, 0, weights)
            for strips in STRIPS:
                size = -(-matrix // strips)
                for name, cost in (("im2col", 0.2), ("im2row", 0.22)):
                    time = work * cost * chance.uniform(0.8, 1.5) + strips * 9000 + matrix / 8
                    yield _entry(layer, f"{name} {strips}", *ends, int(time), size, weights)
            for name, cost, size in (("kn2row", 0.28, 1), ("kn2col", 0.3, kernel[0])):
                time = int(work * cost * chance.uniform(0.8, 1.5)) + kernel[0] * 9000
                yield _entry(layer, name, *ends, time, planes * size, weights)
            if kernel == (3, 3):
                for name, cost, grown in (("winograd 2", 0.12, 16), ("winograd 4", 0.08, 36)):
                    time = int(work * cost * chance.uniform(0.8, 1.5)) + 40000
                    size = (shape.elements + layer.shape.elements) * BYTES * grown // 9
                    yield _entry(layer, name, *ends, time, size, weights * grown // 9)


def _entry(layer, primitive, source, target, nanoseconds, workspace, weights):
    return LayerProfile(
        layer=layer.name,
        primitive=primitive,
        input_layout=source,
        output_layout=target,
        nanoseconds=nanoseconds,
        spread_nanoseconds=0,
        workspace_bytes=workspace,
        parameter_bytes=weights,
    )


def _transforms(network, chance):
    for one in network.connections:
        elements = network.layer(one.producer).shape.elements
        for source, target in ((CHW, HWC), (HWC, CHW)):
            yield TransformProfile(
                producer=one.producer,
                consumer=one.consumer,
                index=one.index,
                source_layout=source,
                target_layout=target,
                nanoseconds=int(elements * chance.uniform(0.6, 1.2)) + 3000,
                spread_nanoseconds=0,
                workspace_bytes=0,
            )
