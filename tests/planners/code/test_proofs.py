"""Frama-C over libraries with any input: `make prove`."""

import shutil
import subprocess

import pytest

from cnn2csdf import operators as op
from planners.code.library import library, write_folder
from tests.planners.code.test_quantised_libraries import quantised
from tests.planners.code.test_small_libraries import WINDOW, layers, real
from tests.planners.memory.streamed import random_plan

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


def proved(made, folder, **replaced):
    write_folder(folder, made.files)
    header = folder / "include" / f"{made.name}.h"
    for old, new in replaced.items():
        assert old in header.read_text()
        header.write_text(header.read_text().replace(old, new))
    return subprocess.run(["make", "-s", "prove"], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("model", "element_bytes"), [(quantised(NETWORK, 1), 1), (real(NETWORK, 1), 4)]
)
def test_a_plan_of_strips_raises_no_alarm_whatever_comes_in(model, element_bytes, tmp_path):
    plan = random_plan(model.network, 3, is_streamed=False, element_bytes=element_bytes)
    found = proved(library(model, plan, name="net"), tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "\n  0 alarms generated" in found.stdout
    assert ("Proved goals:   24 / 24" in found.stdout) == (element_bytes == 1)  # of the contracts


def test_an_arena_that_lacks_an_element_is_an_alarm(tmp_path):
    model = real(NETWORK, 1)
    plan = random_plan(model.network, 3, is_streamed=False, element_bytes=4)
    size, elements = "NET_ARENA_ELEMENTS ", plan.arena_bytes // 4
    found = proved(
        library(model, plan, name="net"),
        tmp_path,
        **{f"{size}{elements}": f"{size}{elements - 1}"},
    )
    assert found.returncode != 0
    assert "invalid memory access" in found.stdout or "out of bounds" in found.stdout
