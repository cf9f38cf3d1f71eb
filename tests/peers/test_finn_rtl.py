"""FINN's RTL, cycle by cycle: each layer shakes hands when our cluster of it says so."""

import pytest

from planners.fifo.timing import rtl
from tests.peers.finn_rtl import Top, handshakes, needs_finn_rtl, refusals
from tests.planners.fifo.designs import cluster, documented_chain
from tests.planners.fifo.handshakes import Times, cluster_rules

pytestmark = [needs_finn_rtl, pytest.mark.slow]

CYCLES = 3000
ENVIRONMENTS = [(0, 0), (40, 0), (0, 40), (70, 30), (30, 70)]  # percent refused at input, output
DEPTHS = (2, 5, 64)
RATIOS = (2, 3, 8)
THRESHOLDS = ((1, 1, 0), (2, 3, 0), (4, 2, 1))  # bits, folds, deep
PADDINGS = (((5, 5), (1, 1, 1, 1), 2), ((3, 4), (0, 2, 1, 0), 1))  # image, edges, folds
WINDOWS = (  # image, kernel, stride, folds
    ((7, 7), (3, 3), (1, 1), 1),
    ((7, 7), (3, 3), (1, 1), 2),
    ((8, 6), (2, 2), (2, 2), 3),
    ((9, 9), (3, 3), (2, 2), 2),
)


def fifo_rules(depth):
    return {
        0: lambda i, t: [t(0, i - 1) + 1, t(1, i - depth) + 1],
        1: lambda i, t: [t(1, i - 1) + 1, t(0, i) + 1],
    }


def chain_rules(design, depths):
    """The rules of a chain by (layer, series), its FIFOs among them."""
    rules = {}
    for number, layer in enumerate(design.layers):
        for series, rule in cluster_rules(layer.cluster).items():
            rules[number, series] = [_inside(rule, number)]
    for number, depth in enumerate(depths):
        rules[number, 1].append(_after((number + 1, 0), depth))
        rules[number + 1, 0].append(_after((number, 1), 0))
    return {
        key: lambda k, t, parts=parts: [one for part in parts for one in part(k, t)]
        for key, parts in rules.items()
    }


def _inside(rule, number):
    return lambda k, t: list(rule(k, lambda series, event: t((number, series), event)))


def _after(other, behind):
    return lambda k, t: [t(other, k - behind) + 1]


def window_cluster(image, kernel, stride, folds):
    made = tuple(
        (size - one) // step + 1 for size, one, step in zip(image, kernel, stride, strict=True)
    )
    return cluster(
        "ConvolutionInputGenerator", IFMDim=image, OFMDim=made, ConvKernelDim=kernel,
        Stride=stride, IFMChannels=folds, SIMD=1, inputDataType="UINT8",
    )  # fmt: skip


@pytest.fixture(scope="module")
def subjects(tmp_path_factory):
    """The program, its folder, of each instance our rules and ports, and who is exact if refused."""
    top, rules, exact = Top(), {}, set()

    def take(name, one, *, ports=(0, 1), under_refusal=True):
        rules[name] = one, ports
        if under_refusal:
            exact.add(name)

    for depth in DEPTHS:
        top.fifo(depth)
        take(f"fifo {depth}", fifo_rules(depth))
    for ratio in RATIOS:
        top.converter(4, 4 * ratio)
        take(f"1 of {ratio}", cluster_rules(rtl.widening(12 * ratio, ratio, bits=4)))
        top.converter(4 * ratio, 4)  # but for one clause, where the output is refused
        narrow = cluster_rules(rtl.narrowing(12, ratio, bits=4 * ratio))
        take(f"{ratio} of 1", narrow, under_refusal=False)
    for bits, folds, deep in THRESHOLDS:
        top.thresholding(bits, folds, deep)
        made = cluster(
            "Thresholding", NumChannels=folds, numSteps=2**bits - 1, deep_pipeline=deep,
            numInputVectors=(4,),
        )  # fmt: skip
        take(f"thresholds {bits} {deep}", cluster_rules(made))
    for image, edges, folds in PADDINGS:
        top.padding(image, edges, folds)
        made = cluster("FMPadding", ImgDim=image, Padding=edges, NumChannels=folds)
        take(f"padding {image}", cluster_rules(made))
    for image, kernel, stride, folds in WINDOWS:
        top.window(image, kernel, stride, folds)
        name = f"window {image} by {stride}, {folds} folds"
        take(name, cluster_rules(window_cluster(image, kernel, stride, folds)))
    for depth in (2, 64):
        top.chain(depth)
        chain = chain_rules(documented_chain(), [depth, depth])
        take(f"chain with FIFOs of {depth}", chain, ports=((0, 0), (2, 1)))
    folder = tmp_path_factory.mktemp("rtl")
    program = top.built(folder)
    return program, folder, rules, exact


@pytest.mark.parametrize("rates", ENVIRONMENTS)
def test_every_layer_shakes_hands_as_its_cluster_says(subjects, rates):
    program, folder, rules, exact = subjects
    masks = [refusals(number, CYCLES, rates) for number in range(len(rules))]
    for _, given in masks:
        given.add(0)  # our outputs are free to come in the first cycle, registers are not
    seen = handshakes(program, folder, masks, CYCLES)
    checked = 0
    for (name, (own, ports)), mask, found in zip(rules.items(), masks, seen, strict=True):
        if rates[1] and name not in exact:
            continue
        inner = {key: {0} for key in own if key not in ports}  # a register is empty there
        times = Times(own, inner | dict(zip(ports, mask, strict=True)))
        for side, port in enumerate(ports):
            assert len(found[side]) > 100, name
            assert times.all(port, len(found[side])) == found[side], (name, rates)
        checked += 1
    assert checked >= len(exact)
