"""Layers whose sums need more bits than those of the others: each layer chooses how they are stored."""

from dataclasses import replace

import numpy as np
import pytest

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.dtypes import Element, Quantization, Stored
from cnn2csdf.weights import Model
from planners.code.library import library, write_folder
from planners.memory.fit import fit
from tests.planners.code.compiling import needs_compiler, run_all
from tests.planners.code.test_library_on_target import make, needs_target

CHANNELS = 8
WIDE = 2**30  # doubled, it overflows 32 bits
SMALL, LARGE = 2.0**-9, 2.0**-1  # scales of weights: multipliers below a half, and not


def model_of(*kinds):
    """Convolutions, each of a kind: wide sums by a bias, a factor of one half, or neither."""
    builder, random = NetworkBuilder("net"), np.random.default_rng(0)
    types = Quantization(element=Element.INT8, scales=(1.0,), zero_point=3)
    last = builder.input((CHANNELS, 5, 6), element=Element.INT8, quantization=types)
    weights = {}
    for number, kind in enumerate(kinds):
        groups = CHANNELS if number % 2 else 1
        scales = [LARGE if kind == "large" else SMALL] * CHANNELS
        bias = random.integers(-200, 200, CHANNELS).astype(np.int32)
        if kind == "wide":
            bias[2], bias[5] = WIDE, -WIDE
            scales[2] = scales[5] = 2.0**-25  # so that results are 32 and -32, and not limits
        of_weights = Quantization(element=Element.INT8, scales=tuple(scales))
        stored = (
            Stored(role="kernel", element=Element.INT8, quantization=of_weights),
            Stored(role="bias", element=Element.INT32),
        )
        window = op.Window(kernel=(3, 3), padding=(1, 1, 1, 1))
        layer = op.Convolution(filters=CHANNELS, window=window, groups=groups, has_bias=True)
        last = builder.add(
            layer, last, name=f"c{number}", element=Element.INT8, quantization=types, stored=stored
        )
        dims = (CHANNELS, CHANNELS // groups, 3, 3)
        kernel = random.integers(-9, 10, dims).astype(np.int8)
        weights[last] = {"kernel": kernel, "bias": bias}
    builder.output(last)
    return Model(network=builder.network(), weights=weights)


def made(*kinds, **options):
    model = model_of(*kinds)
    return library(model, fit(model.network, searched=()).methods[0].plan, name="net0", **options)


ASSEMBLY = "meet_blocks"  # of sums of 30 bits, for the DSP extension of a Cortex-M4
ALL = ("plain", "wide", "large", "plain", "wide", "large")


def test_a_layer_with_wide_sums_leaves_the_others_their_assembly():
    written = made(*ALL, target="cortex-m4").written
    assert ASSEMBLY in written.whole_source
    flags = flags_in(written.source)
    kinds = [(line.count("_factors = 1"), line.count("_sums = 1")) for line in flags]
    assert kinds == [{"plain": (1, 1), "wide": (1, 0), "large": (0, 0)}[kind] for kind in ALL]


def test_each_mac_counts_once_where_layers_differ():
    share = made("plain", "large", kernels="cmsis-nn").written.cmsis_nn
    assert share.to_json()["multiply_accumulates"] == {"cmsis_nn": 19440, "all": 19440}
    assert share.own_work == 0


def flags_in(text):
    """The flags of each layer, in order."""
    pieces = text.split(".has_small")[1:]
    return [" ".join(f".has_small{piece}".split())[:60].split("}")[0] for piece in pieces]


@pytest.mark.parametrize("kind", ["plain", "wide", "large"])
def test_layers_of_one_kind_need_no_flags(kind):
    on_m4, on_m55 = (made(kind, kind, target=f"cortex-{core}").written for core in ("m4", "m55"))
    assert (ASSEMBLY in on_m4.whole_source) == (kind == "plain")
    assert ("make_blocks" in on_m55.whole_source) == (kind != "large")
    assert ".has_narrow_sums" not in on_m4.source


def test_sums_are_bounded_by_the_weights_and_not_by_their_number():
    model = model_of("plain", "plain")
    bias = np.full(CHANNELS, 2**30 - 255 * 9 * 9 * CHANNELS, np.int32)
    weights = {name: {**arrays, "bias": bias} for name, arrays in model.weights.items()}
    model = replace(model, weights=weights)
    plan = fit(model.network, searched=()).methods[0].plan
    assert ASSEMBLY in library(model, plan, name="net0").written.whole_source


@pytest.mark.slow
@needs_compiler
def test_layers_of_all_kinds_give_the_same_bytes(tmp_path):
    assert run_all([made(*ALL)], tmp_path) == []


@pytest.mark.slow
@needs_target
@pytest.mark.parametrize("target", ["qemu", "qemu-m55"])
def test_layers_of_all_kinds_give_the_same_bytes_on_a_cortex_m(target, tmp_path):
    write_folder(tmp_path, made(*ALL).files)
    ran = make(tmp_path, target)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "outputs equal" in ran.stdout + ran.stderr
