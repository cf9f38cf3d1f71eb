"""A library on an emulated Cortex-M: outputs, stack, static memory, and built without a warning."""

import re
import shutil
import subprocess

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.io.graph_files import read_graph
from planners.code.graph.planning import planned_graph
from planners.code.graph.program import write_graph_program
from planners.code.library import write_library
from planners.code.machines import CORTEX_M4
from planners.memory.fit import fit
from tests.benchmarks.instruction_samples import drawn
from tests.cnn2csdf.readers.test_tflite_golden import ATTENTION
from tests.planners.code.calibrated import integer_model
from tests.planners.code.compiling import needs_compiler
from tests.shared_data import each

pytestmark = pytest.mark.slow

TOOLS = ("make", "arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
needs_target = pytest.mark.skipif(
    bool(MISSING),
    reason=f"{', '.join(MISSING)} not installed (Debian: gcc-arm-none-eabi "
    "libnewlib-arm-none-eabi qemu-system-arm)",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Keyword spotting in the least memory, its input by row."""
    network = simplified(Model(network=from_catalogue("keyword_spotting"))).network
    model = Model(network=network, weights=random_weights(network, 0))
    folder = tmp_path_factory.mktemp("library")
    plan = fit(network, element_bytes=4, input="rows").least.plan
    return write_library(model, plan, folder), plan, folder


def make(folder, *arguments):
    return subprocess.run(
        ["make", "-s", "-C", str(folder), *arguments], capture_output=True, text=True
    )


TEST_STACK = 256  # bytes of the test program around a call of a library


def printed(text, what):
    return int(re.search(rf"{what} bytes: (\d+)", text).group(1))


@needs_compiler
@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_the_test_program_passes_where_it_was_written(written):
    _, plan, folder = written
    ran = make(folder, "test", "CFLAGS=-O2 -Werror")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert "keyword_spotting: outputs equal" in ran.stdout
    assert printed(ran.stdout, "arena") == plan.arena_bytes
    times = []
    for level in ("-O2 -Werror", "-O0", "-O0"):  # other flags build the program again
        make(folder, "test", f"CFLAGS={level}")
        times.append((folder / "build" / "test").stat().st_mtime_ns)
    assert times[0] < times[1] == times[2]


@needs_target
@pytest.mark.parametrize("target", ["qemu", "qemu-m55"])
def test_the_test_program_passes_on_a_cortex_m(written, target):
    library, plan, folder = written
    ran = make(folder, target)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = ran.stdout + ran.stderr  # QEMU gives the program's words to either
    assert "keyword_spotting: outputs equal" in said
    assert printed(said, "arena") == plan.arena_bytes
    assert printed(said, "state") <= library.written.state_bytes <= 1000
    assert printed(said, "stack") <= library.written.stack_bytes + TEST_STACK


@needs_target
@each(
    "file",
    sorted(
        one.name
        for pattern in ("conformer*.onnx", "encoder*.tflite")
        for one in ATTENTION.glob(pattern)
    ),
)
def test_attention_passes_on_a_core(file, tmp_path):
    target = "qemu" if file.endswith("_int8.onnx") else "qemu-m55"
    model = simplified(read_model(str(ATTENTION / file), with_weights=True))
    plan = fit(model.network, input="rows", output="external", labels=(12,)).least.plan
    write_library(model, plan, tmp_path)
    ran = make(tmp_path, target)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "outputs equal" in ran.stdout + ran.stderr
    assert printed(ran.stdout + ran.stderr, "arena") == plan.arena_bytes


@needs_target
def test_the_library_has_no_memory_of_its_own(written):
    library, plan, folder = written
    said = make(folder, "size").stdout
    assert printed(said, "static RAM") == plan.arena_bytes + printed(said, "state")
    assert printed(said, "arena") == plan.arena_bytes
    assert printed(said, "state") <= library.written.state_bytes
    objects = [folder / "build" / "m4" / f"{library.name}{kind}.o" for kind in ("", "_weights")]
    sizes = subprocess.run(["arm-none-eabi-size", *objects], capture_output=True, text=True).stdout
    rows = [line.split() for line in sizes.splitlines()[1:]]
    assert [(row[1], row[2]) for row in rows] == [("0", "0"), ("0", "0")]  # .data, .bss
    assert int(rows[1][0]) == library.written.weight_bytes


@needs_target
@pytest.mark.parametrize("target", ["qemu", "qemu-m55"])
def test_a_graph_runs_on_a_cortex_m(tmp_path, target):
    planned = planned_graph(read_graph("models/graphs/samplerate.xml"))
    write_graph_program(planned, tmp_path)
    ran = make(tmp_path, target)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "samplerate: tokens as they were" in ran.stdout + ran.stderr


@needs_target
@pytest.mark.parametrize(("option", "is_assembly"), [("", True), (" -mno-unaligned-access", False)])
def test_a_core_that_traps_unaligned_accesses_runs_portable_c(option, is_assembly, tmp_path):
    model = integer_model(from_catalogue("keyword_spotting"))
    write_library(
        model, fit(model, labels=(12,)).least.plan, tmp_path, name="net", target=CORTEX_M4
    )
    core = "CORE_m4=-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
    ran = make(tmp_path, "qemu", core + option)
    assert "net: outputs equal" in ran.stdout + ran.stderr
    words = ("arm-none-eabi-nm", tmp_path / "build" / "m4" / "net.o")
    names = subprocess.run(words, capture_output=True, text=True).stdout
    assert ("meet_blocks" in names) == is_assembly


@needs_target
def test_words_of_a_saved_state_are_stored_without_unaligned_accesses(tmp_path):
    model = drawn("windows:9:hops")
    write_library(model, fit(model.network, budget=1).least.plan, tmp_path, name="net")
    # From 8 bytes on, the memcpy of newlib reads unaligned words.
    assert len(model.network.variables) >= 4
    text = (tmp_path / "target" / "target.c").read_text()
    start = "    const uint32_t *here;\n"
    assert text.count(start) == 1
    trap = "    *(volatile uint32_t *)0xE000ED14u |= 1u << 3; /* CCR.UNALIGN_TRP */\n"
    (tmp_path / "target" / "target.c").write_text(text.replace(start, start + trap))
    core = "CORE_m4=-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
    ran = make(tmp_path, "qemu", f"{core} -mno-unaligned-access")
    assert "net: outputs equal" in ran.stdout + ran.stderr
