"""Libraries with a pointer for each memory: equal outputs, sanitized, on a board, copies counted."""

import subprocess

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from csdf.errors import InvalidPlan
from planners.code.command.work import Member, together
from planners.code.library import library, write_library
from planners.memory.fit import fit
from planners.plan.plan import Memory
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import COMPILER, libraries, needs_compiler, run_all
from tests.planners.code.test_library_on_target import make, needs_target, printed


def memories(fast):
    return Memory(name="tcm", size=fast), Memory(name="psram", size=10**6, is_slow=True)


def planned(model, fast):
    found = fit(model, memories=memories(fast)).best
    assert found is not None
    assert found.plan.slow_bytes > 0
    return model, found.plan


def integers(name, seed=0):
    return integer_model(from_catalogue(name), seed)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A small residual network of real numbers, of which rows come from slow memory."""
    model, plan = planned(real_model(from_catalogue("resnet8:resolution=16")), 12_000)
    folder = tmp_path_factory.mktemp("library")
    return write_library(model, plan, folder, name="net"), plan, folder


@pytest.mark.slow
@needs_compiler
def test_libraries_in_two_memories_are_equal_under_sanitizers(tmp_path):
    cases = [
        planned(integers("resnet8:resolution=16"), 3_000),
        planned(integers("keyword_spotting:rows=25"), 2_000),
        planned(real_model(from_catalogue("keyword_spotting:rows=25")), 8_000),
    ]
    assert run_all(libraries(cases), tmp_path) == []


@pytest.mark.slow
@needs_target
def test_two_regions_of_a_board_hold_the_memories(written):
    _, plan, folder = written
    ran = make(folder, "qemu")
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert "net: outputs equal" in said
    assert printed(said, "arena") == sum(one.size for one in plan.memories)
    elf = folder / "build" / "m4" / "target.elf"
    symbols = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, text=True).stdout
    places = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines()}
    assert places["tcm"] >> 24 == 0x20  # the board's SRAM, and its PSRAM
    assert places["psram"] >> 24 == 0x21


@pytest.mark.slow
@needs_compiler
def test_a_hook_copies_the_rows_that_the_plan_copies(written):
    _, plan, folder = written
    (folder / "hook.c").write_text(
        '#include <stdio.h>\n#include <string.h>\n#include "net.h"\n'
        "static unsigned moved;\n"
        "void net_copy(void *to, const void *from, uint32_t bytes)\n"
        "{ memcpy(to, from, bytes); moved += bytes; }\n"
        '__attribute__((destructor)) static void tell(void) { printf("moved %u\\n", moved); }\n'
    )
    names = ("src/net.c", "src/net_weights.c", "test/main.c", "hook.c")
    sources = [str(folder / name) for name in names]
    flags = [
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DNET_COPY",
        f"-I{folder / 'include'}",
        "-lm",
        "-o",
        str(folder / "hook"),
    ]
    subprocess.run([COMPILER, *sources, *flags], check=True)
    said = subprocess.run([folder / "hook"], capture_output=True, text=True, check=True).stdout
    sizes = {one.tensor: one.size for one in plan.buffers if one.has_all_rows}
    copied = [one.streamed_input for one in plan.groups if one.streamed_input is not None]
    assert copied
    assert f"moved {sum(sizes[name] for name in copied)}" in said


def test_the_header_names_each_memory_and_its_place():
    model, plan = planned(integers("keyword_spotting:rows=25"), 2_000)
    header = library(model, plan, name="net").files["include/net.h"]
    fast, slow = plan.memories
    assert f"#define NET_TCM_BYTES {fast.size}\n" in header
    assert f"#define NET_PSRAM_ELEMENTS {slow.size}\n" in header
    assert "void net_init(net_state *state, net_element *tcm, net_element *psram);" in header
    assert "#define NET_IN_PSRAM EXT_RAM_BSS_ATTR" in header
    assert "NET_ARENA" not in header


def test_networks_in_turn_have_one_arena():
    model, plan = planned(integers("keyword_spotting:rows=25"), 2_000)
    with pytest.raises(InvalidPlan, match="several memories"):
        together([Member(model=model, plan=plan)] * 2)
