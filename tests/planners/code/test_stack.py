"""The stack that fit and deploy print: that of compiled libraries, by call graph and in QEMU."""

import functools
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from planners.code.library import write_library
from planners.code.sources import library_sources
from planners.memory.fit import fit
from planners.plan.ram import RamBeside, ram_beside
from planners.plan.stack import O3_BYTES, stack_bytes_of, stack_table
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.call_graphs import CORES, CallGraph, has_compiler
from tests.planners.code.test_library_on_target import make, needs_target, printed
from tests.planners.code.test_quantised_libraries import everything, quantised
from tests.shared_data import SHARED

LARGE, ABOVE = 800, 1.15  # of a stack of so many bytes at least the bound is at most so much more
FILES = {
    name: SHARED / f"networks/{name}.tflite"
    for name in (
        "tflite/hello_world_float", "tflite/ic_resnet8_int8",
        "stateful/mww_v2_hey_jarvis", "stateful/keyword_svdf_state16",
        "attention/encoder_d96_h4_t128_int8",
    )
}  # fmt: skip
# Of other networks the bound is larger: it adds up what no stage has at once, and all that functions
# of the C library push. Without line buffers it counts the staging of rows, which C leaves out: 954
# bytes for 800 of mww_v2_hey_jarvis.
TIGHT = ("int8 keyword spotting",)
BUILT_IN = {
    "float keyword spotting": lambda: real_model(from_catalogue("keyword_spotting")),
    "int8 keyword spotting": lambda: integer_model(from_catalogue("keyword_spotting")),
    "all integer operators": lambda: quantised(everything(), 5),
}
AT_ALL_LEVELS = ("float keyword spotting", "tflite/ic_resnet8_int8")  # the largest stacks of -O3
CASES = [*BUILT_IN, *(name for name, path in FILES.items() if path.exists())]
EMULATED = {
    "cortex-m0plus": ("qemu", "CORE_m4=-mcpu=cortex-m0plus -mthumb -mfloat-abi=soft"),
    "cortex-m4": ("qemu",),
    "cortex-m55": ("qemu-m55",),
}


def model_of(case):
    if case in BUILT_IN:
        return BUILT_IN[case]()
    return simplified(read_model(str(FILES[case]), with_weights=True))


@functools.cache
def plans_of(case):
    """The model of a case, and its plans with the fewest MACs and in the least memory, for any core."""
    model = model_of(case)
    found = fit(model, labels=(12,), beside=ram_beside(model.network))
    return model, list({id(way): way for way in (found.methods[0], found.least)}.values())


class Compiled(NamedTuple):
    """A library of a plan, its bound on the stack, and its stack by the call graph at -O2."""

    folder: Path
    bound: int
    measured: int
    chain: tuple[str, ...]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The libraries of a case for a core, of the least memory last."""

    @functools.cache
    def libraries(case, core):
        model, ways = plans_of(case)
        each = []
        for way in ways:
            folder = tmp_path_factory.mktemp("library")
            written = write_library(model, way.plan, folder, name="net", target=core).written
            stack = ram_beside(model.network, core).stack_bytes + way.stage_stack_bytes
            assert written.stack_bytes == stack
            each.append(Compiled(folder, stack, *CallGraph(folder, "net", core).bytes()))
        return each

    return libraries


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("core", CORES)
def test_the_call_graph_of_a_library_is_within_the_bound(case, core, compiled):
    if not has_compiler(core):
        pytest.skip(f"{CORES[core].prefix}gcc is not installed")
    for library in compiled(case, core):
        assert library.measured <= library.bound, library.chain
        if library.measured >= LARGE and case in TIGHT:
            assert library.bound <= ABOVE * library.measured, library.chain
        for level, more in (("-Os", 0), ("-O3", O3_BYTES)) if case in AT_ALL_LEVELS else ():
            measured, chain = CallGraph(library.folder, "net", core, level).bytes()
            assert measured <= library.bound + more, (level, chain)


@pytest.mark.slow
@needs_target
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("core", EMULATED)
def test_the_stack_in_qemu_is_within_the_bound(case, core, compiled):
    library = compiled(case, core)[-1]
    ran = make(library.folder, *EMULATED[core], "ARM_CFLAGS=-O2 -fstack-usage")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    text = "\n".join(path.read_text() for path in library.folder.glob("build/*/*.su"))
    own = sum(
        int(re.search(rf":{name}\t(\d+)", text)[1]) for name in ("main", "start", "net_test")
    )  # of the test program
    used = printed(ran.stdout + ran.stderr, "stack") - own
    assert 0.8 * library.measured <= used <= library.bound, library.chain


def test_the_bound_without_a_core_is_that_of_the_largest():
    network = simplified(real_model(from_catalogue("keyword_spotting"))).network
    each = [stack_bytes_of(network, core) for core in stack_table()]
    assert stack_bytes_of(network) == stack_bytes_of(network, "host") == max(each) > min(each)
    assert RamBeside().stack_bytes >= max(each)


def test_a_library_for_any_core_has_the_stack_of_fit():
    model = real_model(from_catalogue("samos_example"))
    found = fit(model, labels=(12,), beside=ram_beside(model.network))
    for way in found.methods:
        written = library_sources(model, way.plan, "net")
        assert written.stack_bytes == found.beside.stack_bytes + way.stage_stack_bytes
        needed = way.ram_bytes + way.state_bytes + written.stack_bytes
        assert way.needed_ram == needed
