"""Frama-C over libraries with any input: `make prove`."""

import shutil
import subprocess

import pytest

from cnn2csdf import operators as op
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners.code.library import library, write_folder
from planners.memory.stateful import stateful_plan
from tests.planners.code.test_quantised_libraries import quantised
from tests.planners.code.test_small_libraries import WINDOW, layers, real
from tests.planners.memory.streamed import random_plan
from tests.shared_data import SHARED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(shutil.which(one) for one in ("frama-c", "why3", "z3", "make")),
        reason="frama-c (Debian's frama-c-base), why3, z3 or make is not installed",
    ),
]
NETWORK = layers(
    op.Convolution(filters=2, window=WINDOW),
    op.Convolution(filters=3, window=WINDOW),
    dims=(1, 4, 3),
)
SMALL = layers(op.Convolution(filters=2, window=WINDOW), dims=(1, 2, 2))
FEW_PLUGINS = "-no-autoload-plugins " + " ".join(  # which start sooner than all
    f"-load-module frama-c-{one}" for one in ("eva", "variadic", "wp", "rtegen")
)
MACHINE = "-machdep gcc_x86_32 -cpp-extra-args=-Iinclude"
STREAM = SHARED / "networks" / "stateful" / "made_plain_begin1.tflite"


def made(model, element_bytes):
    plan = random_plan(model.network, 3, is_streamed=False, element_bytes=element_bytes)
    return library(model, plan, name="net")


def proved(library, folder, target):
    write_folder(folder, library.files)
    called = ["make", "-s", target, f"FRAMA_C=frama-c {FEW_PLUGINS} {MACHINE}"]
    return subprocess.run(called, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("model", "element_bytes", "target"),
    [(quantised(NETWORK, 1), 1, "prove"), (real(NETWORK, 1), 4, "prove-calls")],
)
def test_a_plan_of_strips_raises_no_alarm_whatever_comes_in(model, element_bytes, target, tmp_path):
    found = proved(made(model, element_bytes), tmp_path, target)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "\n  0 alarms generated" in found.stdout
    assert ("Proved goals:   24 / 24" in found.stdout) == (element_bytes == 1)  # of the contracts


@pytest.mark.skipif(not STREAM.exists(), reason="../shared is not there")
def test_a_state_that_any_frame_may_have_left_raises_no_alarm(tmp_path):
    model = simplified(read_model(STREAM, with_weights=True))
    stream = library(model, stateful_plan(model.network).plan, name="net")
    found = proved(stream, tmp_path, "prove-calls")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "state.oldest[0] <" in stream.files["test/prove.c"]  # asserted behind the frame


@pytest.mark.parametrize(
    ("file", "right", "wrong", "alarm"),
    [
        # 4 elements come in and 8 go out
        ("include/net.h", "ARENA_ELEMENTS 12", "ARENA_ELEMENTS 11", "memcpy: precondition"),
        ("src/net.c", "{8, 2, 2, 1,", "{9, 2, 2, 1,", "memcpy: precondition"),
        ("src/net_weights.c", "-6, -5,", "-40, -5,", "shift"),
        (
            "src/net.c",
            "begin_sums(sums, c->to.bias, first, filters)",
            "(void)filters",
            "initialized",
        ),
    ],
)
def test_a_wrong_number_is_an_alarm(file, right, wrong, alarm, tmp_path):
    broken = made(quantised(SMALL, 1), 1)
    assert broken.files[file].count(right) == 1
    broken.files[file] = broken.files[file].replace(right, wrong)
    assert proved(broken, tmp_path, "prove-calls").returncode != 0
    assert alarm in (tmp_path / "build" / "prove.txt").read_text()
