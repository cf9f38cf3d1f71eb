"""A network of many megabytes in its planned memory, with the memory of the process limited to it."""

import re
import resource
import shutil
import subprocess

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from planners.code.library import write_library
from planners.memory.fit import fit
from tests.planners.code.calibrated import real_model
from tests.planners.code.compiling import COMPILER, needs_compiler, program

pytestmark = pytest.mark.slow

SPARE = 2**20  # bytes for the stack of the process and what the kernel maps into it


def limited(size):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    return limit


def segments(program):
    """Bytes of code, constants and variables of a program."""
    said = subprocess.run(["size", program], capture_output=True, text=True, check=True).stdout
    return sum(int(one) for one in said.splitlines()[1].split()[:3])


@needs_compiler
@pytest.mark.skipif(shutil.which("size") is None, reason="size (binutils) is not installed")
def test_the_beginning_of_yolo_runs_in_its_planned_memory_and_no_more(tmp_path):
    model = real_model(from_catalogue("yolo_v2_beginning:resolution=448,layers=12"))
    plan = fit(model.network, input="rows", ram=1_600_000, budget=5).best.plan
    written = write_library(model, plan, tmp_path, name="yolo")
    words = [COMPILER, "-O2", "-static", *program(written.files), "-lm", "-o", "yolo"]
    subprocess.run(words, cwd=tmp_path, check=True)
    taken = segments(tmp_path / "yolo")
    # Weights, a frame and its result as constants, the result again as a variable, and the arena.
    shapes = [layer.shape.elements * 4 for layer in model.network.layers]
    ends = shapes[0] + 2 * shapes[-1]
    assert taken < written.written.weight_bytes + ends + plan.arena_bytes + 2**20
    assert taken < max(shapes)  # one tensor as a whole is larger than all of it
    ran = subprocess.run(
        ["./yolo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=limited(taken + SPARE),
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "outputs equal" in ran.stdout
    assert int(re.search(r"arena bytes: (\d+)", ran.stdout)[1]) == plan.arena_bytes <= 1_600_000
    refused = subprocess.run(
        ["./yolo"],
        cwd=tmp_path,
        capture_output=True,
        preexec_fn=limited(taken - plan.arena_bytes // 2),
    )
    assert refused.returncode != 0  # the limit is one
