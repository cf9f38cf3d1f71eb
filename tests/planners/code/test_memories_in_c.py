"""Libraries with a pointer for each memory: equal outputs, sanitized, on a board, copies counted."""

import subprocess
from dataclasses import replace

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.platforms import PLATFORMS
from csdf.errors import InvalidPlan
from planners.code.library import library, write_library
from planners.code.several import Member, combined_libraries
from planners.memory.fit import fit
from planners.plan.plan import Kind, Memory
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import COMPILER, libraries, needs_compiler, run_all
from tests.planners.code.test_library_on_target import make, needs_target, printed
from tests.planners.memory.test_memories import chain_of_convolutions
from tests.planners.memory.test_weights_in_memories import products


def memories(fast):
    return Memory(name="tcm", size=fast), Memory(name="psram", size=10**6, is_slow=True)


def planned(model, fast, **ends):
    found = fit(model, memories=memories(fast), **ends).best
    assert found is not None
    assert found.plan.slow_bytes > 0
    return model, found.plan


def integers(name, seed=0):
    return integer_model(from_catalogue(name), seed)


FRAMES = 3  # that a test program runs of one vector


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
        planned(integers("keyword_spotting:rows=25"), 2_000, input="rows"),
        planned(real_model(from_catalogue("resnet8:resolution=16")), 12_000, input="rows"),
    ]
    assert run_all(libraries(cases), tmp_path) == []


@pytest.mark.slow
@needs_compiler
def test_line_buffers_in_a_second_fast_memory_are_equal_under_sanitizers(tmp_path):
    cases, homes = [], set()
    for model_of in (real_model, integer_model):
        for stages in ([(4, 2), (4, 1), (8, 2)], [(4, 2), (8, 1), (8, 2), (16, 1)]):
            model = model_of(chain_of_convolutions(*stages))
            near, slow = memories(16)
            for method in fit(model).methods[:-1]:  # the last is layer by layer
                far = Memory(name="sram", size=method.ram_bytes)
                plan = fit(model, memories=(near, far, slow)).best.plan
                lines = [one for one in plan.buffers if one.kind is Kind.LINE]
                homes |= {plan.memory_of(one).name for one in lines}
                cases.append((model, plan))
    assert homes == {"sram"}
    assert run_all(libraries(cases), tmp_path) == []


@pytest.mark.slow
@needs_target
def test_two_regions_of_a_board_hold_the_memories(written):
    library, plan, folder = written
    ran = make(folder, "qemu")
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert "net: outputs equal" in said
    assert printed(said, "arena") == sum(one.size for one in plan.memories)
    elf = folder / "build" / "m4" / "target.elf"
    symbols = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, text=True).stdout
    places = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines()}
    tcm, psram = library.written.arrays
    assert places[tcm] >> 24 == 0x20  # the board's SRAM, and its PSRAM
    assert places[psram] >> 24 == 0x21


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
    assert f"moved {FRAMES * sum(sizes[name] for name in copied)}" in said


def test_the_header_names_each_memory_and_its_place():
    model, plan = planned(integers("keyword_spotting:rows=25"), 2_000)
    header = library(model, plan, name="net").files["include/net.h"]
    fast, slow = plan.memories
    assert f"#define NET_TCM_BYTES {fast.size}\n" in header
    assert f"#define NET_PSRAM_ELEMENTS {slow.size}\n" in header
    begin = "net_status net_init(net_state *state, net_element *tcm, size_t tcm_bytes"
    assert begin in header
    assert "#define NET_IN_PSRAM EXT_RAM_BSS_ATTR" in header
    assert "NET_ARENA" not in header


def test_networks_in_turn_have_the_same_memories():
    model, plan = planned(integers("keyword_spotting:rows=25"), 2_000)
    another = replace(plan, memories=(*plan.memories[:-1], replace(plan.memories[-1], name="ram")))
    with pytest.raises(InvalidPlan, match="different memories"):
        combined_libraries([Member(model=model, plan=one) for one in (plan, another)])


def on_board(model, name, *sizes):
    """A plan for a board with less of its fast memories, which moves weights."""
    board = PLATFORMS[name]
    given = [replace(one, size=size) for one, size in zip(board.memories, sizes, strict=False)]
    given += board.memories[len(given) :]
    found = fit(model, memories=given, platform=board, budget=1).best
    assert found is not None
    assert {Kind.WEIGHTS, Kind.RESIDENT} & {one.kind for one in found.plan.buffers}
    return model, found.plan


def copied_ahead(plan):
    """Weights that come as the group before begins."""
    return [one for one in plan.buffers if one.kind is Kind.WEIGHTS and one.end - one.begin > 1]


def in_columns(model, fast):
    """A model and its plan, which has tiles of columns."""
    _, plan = planned(model, fast)
    assert any(span.layers for span in plan.rematerialised)
    return model, plan


@pytest.mark.slow
@needs_compiler
def test_tiles_of_columns_compute_the_same_under_sanitizers(tmp_path):
    case = in_columns(real_model(from_catalogue("keyword_spotting:rows=25")), 3_000)
    assert run_all(libraries([case]), tmp_path) == []


@pytest.mark.slow
@needs_target
def test_tiles_of_columns_lie_in_the_memories_of_a_board(tmp_path):
    model, plan = in_columns(integers("resnet8:resolution=16"), 1_500)
    write_library(model, plan, tmp_path, name="net")
    ran = make(tmp_path, "qemu")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "net: outputs equal" in ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def weighed(tmp_path_factory):
    """A library in three memories, to which weights are copied ahead."""
    model, plan = on_board(real_model(products()), "stm32h7", 5_000, 5_000)
    assert copied_ahead(plan)
    folder = tmp_path_factory.mktemp("weighed")
    return write_library(model, plan, folder, name="net"), plan, folder


@pytest.mark.slow
@needs_compiler
def test_copied_weights_compute_the_same_under_sanitizers(tmp_path):
    cases = [
        on_board(integers("keyword_spotting:rows=25"), "esp32-s3", 4_000),
        on_board(real_model(from_catalogue("keyword_spotting:rows=25")), "esp32-s3", 16_000),
    ]
    assert run_all(libraries(cases), tmp_path) == []


@pytest.mark.slow
@needs_target
def test_three_regions_of_a_board_hold_tensors_and_weights(weighed):
    written, plan, folder = weighed
    ran = make(folder, "qemu")
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert "net: outputs equal" in said
    assert [one.size > 0 for one in plan.memories] == [True, True, False]
    assert printed(said, "stack") <= written.written.stack_bytes


@pytest.mark.slow
@needs_compiler
def test_copies_ahead_are_there_only_when_they_were_waited_for(weighed):
    _, plan, folder = weighed
    (folder / "ahead.c").write_text(
        '#include <stdio.h>\n#include <string.h>\n#include "net.h"\n'
        "static struct { void *to; const void *from; uint32_t bytes; } begun[99];\n"
        "static unsigned count, most, moved;\n"
        "void net_begin_copy(void *to, const void *from, uint32_t bytes)\n"
        "{ begun[count].to = to; begun[count].from = from; begun[count++].bytes = bytes; }\n"
        "void net_end_copies(void)\n"
        "{ most = count > most ? count : most;\n"
        "  while (count) { count--; moved += begun[count].bytes;\n"
        "    memcpy(begun[count].to, begun[count].from, begun[count].bytes); } }\n"
        '__attribute__((destructor)) static void tell(void) { printf("ahead %u\\n", moved); }\n'
    )
    names = ("src/net.c", "src/net_weights.c", "test/main.c", "ahead.c")
    flags = ["-DNET_COPY_AHEAD", f"-I{folder / 'include'}", "-lm", "-o", str(folder / "ahead")]
    command = [COMPILER, "-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, *(str(folder / name) for name in names), *flags], check=True)
    said = subprocess.run([folder / "ahead"], capture_output=True, text=True, check=True).stdout
    assert f"ahead {FRAMES * sum(one.size for one in copied_ahead(plan))}" in said
