"""Libraries compile without a warning under each macro that README.md and the header document."""

import re
import shutil
import subprocess
from functools import cache

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from planners.code.library import library
from planners.code.parts import CMSIS_NN, OWN
from planners.memory.fit import fit
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import COMPILER, inlined, needs_compiler
from tests.planners.code.test_cmsis_nn import CHAIN, STAND_IN, network_of
from tests.planners.code.test_memories_in_c import on_board, planned
from tests.planners.code.test_quantised_libraries import quantised
from tests.planners.memory.test_weights_in_memories import products

STRICT = "-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wmissing-prototypes -Werror"
ARM = "arm-none-eabi-gcc"
CORES = {
    "host": None,
    "Cortex-M0": "-mcpu=cortex-m0",
    "Cortex-M4": "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16",
    "Cortex-M55": "-mcpu=cortex-m55 -mfloat-abi=hard",
}
MACROS = ("PROFILE", "YIELD", "UNCHECKED", "COPY", "COPY_AHEAD", "SECTIONS", "BLOCKS")


def least(model, **options):
    return model, fit(model.network, budget=1, **options).least.plan


@cache
def cases():
    """Libraries of both kinds of numbers, with and without each hook that a plan can need."""
    chain = quantised(network_of(CHAIN[0]), 0)
    return {
        "real numbers": (*least(real_model(from_catalogue("resnet8:resolution=16"))), OWN),
        "integers": (*least(integer_model(from_catalogue("resnet8:resolution=16"), 0)), OWN),
        "copied rows": (*planned(real_model(from_catalogue("resnet8:resolution=16")), 12_000), OWN),
        "copied weights": (*on_board(real_model(products()), "stm32h7", 5_000, 5_000), OWN),
        "CMSIS-NN": (*least(chain), CMSIS_NN),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sources of all cases."""
    target = tmp_path_factory.mktemp("macros")
    for number, (model, plan, kernels) in enumerate(cases().values()):
        files = library(model, plan, name=f"net{number}", kernels=kernels, frames=[]).files
        for path in (f"include/net{number}.h", f"src/net{number}.c"):
            (target / path.partition("/")[2]).write_text(inlined(files, path))
    return target


@pytest.mark.slow
def test_each_hook_that_a_header_declares_is_in_the_list():
    model, plan, kernels = cases()["CMSIS-NN"]
    header = library(model, plan, name="net", kernels=kernels, frames=[]).files["include/net.h"]
    assert set(re.findall(r"#ifdef NET_(\w+)", header)) <= set(MACROS)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("core", CORES)
def test_each_documented_macro_compiles_without_a_warning(folder, core):
    compiler = COMPILER if core == "host" else ARM
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    words = [compiler, *STRICT.split(), "-I.", "-isystem", str(STAND_IN), "-fsyntax-only"]
    if core != "host":
        words += [*CORES[core].split(), "-mthumb"]
    for number in range(len(cases())):
        for macro in (None, *MACROS):
            defined = [] if macro is None else [f"-DNET{number}_{macro}"]
            ran = subprocess.run(
                [*words, *defined, f"net{number}.c"], cwd=folder, capture_output=True, text=True
            )
            assert ran.returncode == 0, f"{number} {defined}: {ran.stderr[:2000]}"


def positional_tables(folder, name, text):
    """Lines of tables in which the compiler finds values of structures without their fields."""
    marked = re.sub(
        r"typedef struct( \w+)? \{",
        r"typedef struct __attribute__((designated_init))\1 {",
        text,
    )
    (folder / name).write_text(marked)
    words = [COMPILER, "-std=c99", "-I.", "-isystem", str(STAND_IN), "-fsyntax-only"]
    words += ["-Wdesignated-init", name]
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[:2000]
    tables = set()
    for table in re.finditer(r"^static const .*?;$", marked, re.MULTILINE | re.DOTALL):
        first = marked.count("\n", 0, table.start()) + 1
        tables.update(range(first, first + table[0].count("\n") + 1))
    warned = {int(line) for line in re.findall(r":(\d+):\d+: warning: positional", ran.stderr)}
    assert warned  # of small structures in functions
    return sorted(warned & tables)


@pytest.mark.slow
@needs_compiler
def test_each_field_of_a_table_has_its_name(folder):
    for number in range(len(cases())):
        text = (folder / f"net{number}.c").read_text()
        assert positional_tables(folder, f"marked{number}.c", text) == []
    without = text.replace(".divisor = ", "")
    assert positional_tables(folder, "without.c", without) != []
