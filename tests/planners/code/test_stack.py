"""The stack that fit and deploy print: that of compiled libraries, by call graph and in QEMU."""

import re

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
        "tflite/kws_int8", "tflite/hello_world_float", "tflite/ic_resnet8_int8",
        "stateful/mww_v2_hey_jarvis", "stateful/keyword_svdf_state16",
        "attention/encoder_d96_h4_t128_int8",
    )
}  # fmt: skip
# Of other networks the bound is larger: it adds up what no stage has at once, and all that functions
# of the C library push. Without line buffers it counts the staging of rows, which C leaves out: 954
# bytes for 800 of mww_v2_hey_jarvis.
TIGHT = ("int8 keyword spotting", "tflite/kws_int8")
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


def plans_of(model, core):
    """The answer of fit, and the plans with the fewest MACs and in the least memory."""
    found = fit(model, labels=(12,), beside=ram_beside(model.network, core))
    return found, {id(way): way for way in (found.methods[0], found.least)}.values()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("core", CORES)
def test_the_call_graph_of_a_library_is_within_the_bound(case, core, tmp_path):
    if not has_compiler(core):
        pytest.skip(f"{CORES[core].prefix}gcc is not installed")
    model = model_of(case)
    found, ways = plans_of(model, core)
    for number, way in enumerate(ways):
        folder = tmp_path / str(number)
        written = write_library(model, way.plan, folder, name="net", target=core).written
        bound = found.beside.stack_bytes + way.stage_stack_bytes
        assert written.stack_bytes == bound
        levels = (("-Os", 0), ("-O3", O3_BYTES)) if case in AT_ALL_LEVELS else ()
        for level, more in (*levels, ("-O2", 0)):
            measured, chain = CallGraph(folder, "net", core, level).bytes()
            assert measured <= bound + more, (level, chain)
        if measured >= LARGE and case in TIGHT:
            assert bound <= ABOVE * measured, chain


@pytest.mark.slow
@needs_target
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("core", EMULATED)
def test_the_stack_in_qemu_is_within_the_bound(case, core, tmp_path):
    model = model_of(case)
    found, _ = plans_of(model, core)
    written = write_library(model, found.least.plan, tmp_path, name="net", target=core).written
    ran = make(tmp_path, *EMULATED[core], "ARM_CFLAGS=-O2 -fstack-usage")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    text = "\n".join(path.read_text() for path in tmp_path.glob("build/*/*.su"))
    own = sum(
        int(re.search(rf":{name}\t(\d+)", text)[1]) for name in ("main", "start", "net_test")
    )  # of the test program
    used = printed(ran.stdout + ran.stderr, "stack") - own
    measured, chain = CallGraph(tmp_path, "net", core).bytes()
    assert 0.8 * measured <= used <= written.stack_bytes, chain


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
