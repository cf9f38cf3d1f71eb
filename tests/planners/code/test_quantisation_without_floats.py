"""Quantisation on a core without a floating-point unit: integer arithmetic, the same results."""

import random
import re
import shutil
import subprocess

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.stored_tensors import StoredAs
from planners.code.c_text import TYPES
from planners.code.library import library
from planners.code.machines import CORTEX_M0PLUS, CORTEX_M4
from planners.code.ports import LibraryPort, LibraryPorts
from planners.code.status import status_declared
from planners.memory.fit import fit
from tests.planners.code.calibrated import integer_model
from tests.planners.code.compiling import COMPILER, FLAGS, needs_compiler

ARM = "arm-none-eabi-gcc"
ELEMENTS = (Element.INT8, Element.UINT8, Element.INT16, Element.UINT16)
# Scales of files, powers of two, the ends of a mantissa, and scales whose results are large or small.
SCALES = (0.584702909, 1 / 255, 1 / 127.5, 1.0, 2.0**-7, 1 - 2.0**-24, 1 + 2.0**-23, 3e-12, 7e9)
STEPS = """
static int compare_%(name)s(void)
{
    int failed = 0;
    long step;
    int32_t i;
    for (step = -70000; step <= 70000; step++) { /* halves of steps, and the floats beside them */
        for (i = -2; i <= 2; i++) {
            float value = (float)((double)F_%(name)s_X_SCALE * (double)step / 2.0);
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            bits += (uint32_t)i;
            failed |= differs_%(name)s(bits);
        }
    }
    for (i = 0; i < 200000; i++) {
        failed |= differs_%(name)s(next_random());
    }
    for (step = %(least)s; step <= %(most)s; step++) {
        %(kind)s element = (%(kind)s)step;
        float one, other;
        f_%(name)s_dequantize_output(0, &element, &one, 1);
        n_%(name)s_dequantize_output(0, &element, &other, 1);
        failed |= memcmp(&one, &other, sizeof one) != 0;
    }
    return failed;
}
"""
DIFFERS = """
static int differs_%(name)s(uint32_t bits)
{
    float value;
    %(kind)s one, other;
    memcpy(&value, &bits, sizeof value);
    f_%(name)s_quantize_input(0, &value, &one, 1);
    n_%(name)s_quantize_input(0, &value, &other, 1);
    return one != other;
}
"""
CHECKS = """
#define IS_MISSING(pointer) ((pointer) == NULL)
#define IS_OUTSIDE(number, count) (((number) < 0) || ((number) >= (count)))
"""
RANDOM = """
static uint32_t next_random(void)
{
    static uint32_t state = 1U;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}
"""


def port(name, element, scale, zero):
    quantization = Quantization(element=element, scales=(scale,), zero_point=zero)
    stored = StoredAs(
        name=name, element=element, shape=(1,), layout="HWC", quantization=quantization
    )
    kind = TYPES[element.value]
    return LibraryPort(
        parameter=name, layer=name, tensor=name, elements=1, kind=kind, unit=1, stored=stored
    )


def both_forms(name, element, scale, zero, *, halves_to_even):
    """C of the same ports in floats and in integers, each with its own names of functions."""
    texts = []
    for letter, in_integers in (("f", False), ("n", True)):
        ports = LibraryPorts(
            library=f"{letter}_{name}",
            inputs=[port("x", element, scale, zero)],
            outputs=[port("y", element, scale, zero)],
            halves_to_even=halves_to_even,
            in_integers=in_integers,
        )
        text = (
            status_declared(ports.library, ports.definitions())
            + ports.macros()
            + ports.declarations()
            + ports.definitions()
        )
        texts.append(re.sub(r"\b(de)?quantised\b", rf"\g<0>_{letter}_{name}", text))
    return "".join(texts)


def limits(element):
    bits = 8 * element.bytes
    return (0, 2**bits - 1) if "u" in element.value else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@needs_compiler
def test_integers_give_the_results_of_floats_at_all_steps_and_at_any_float(tmp_path):
    numbers = random.Random(0)
    text, calls = (
        f"#include <math.h>\n#include <stdint.h>\n#include <string.h>\n{CHECKS}{RANDOM}",
        [],
    )
    for number, scale in enumerate(SCALES):
        element, to_even = ELEMENTS[number % len(ELEMENTS)], number % 3 == 0
        least, most = limits(element)
        zero = numbers.randint(least, most)
        name = f"C{number}"
        fields = {"name": name, "kind": TYPES[element.value], "least": least, "most": most}
        text += both_forms(name, element, scale, zero, halves_to_even=to_even)
        text += (DIFFERS + STEPS) % fields
        calls.append(f"compare_{name}() * {2**number}")
    text += f"int main(void) {{ return ({' + '.join(calls)}) != 0; }}\n"
    assert "n_C0_quantize_input" in text
    assert "SCALE_MANTISSA" in text
    (tmp_path / "all.c").write_text(text)
    flags = [*FLAGS, "-O2", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    words = [COMPILER, *flags, "-Wno-missing-prototypes", "all.c", "-lm", "-o", "all"]
    built = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[:3000]
    assert subprocess.run(["./all"], cwd=tmp_path, capture_output=True).returncode == 0


def test_an_extreme_scale_stays_in_floats():
    text = both_forms("C", Element.INT8, 1e-37, 0, halves_to_even=False)
    assert "SCALE_MANTISSA" not in text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(ARM) is None, reason=f"{ARM} is not installed")
def test_an_integer_library_for_a_cortex_m0plus_links_no_soft_floats(tmp_path):
    model = integer_model(from_catalogue("keyword_spotting:rows=25"), 0)
    plan = fit(model.network, budget=1).least.plan
    for target, core, has_floats in (
        (CORTEX_M0PLUS, ["-mcpu=cortex-m0plus"], False),
        (CORTEX_M4, ["-mcpu=cortex-m4", "-mfloat-abi=soft"], True),  # the same in floats
    ):
        files = library(model, plan, name="net", frames=[], target=target).files
        folder = tmp_path / target
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        words = [ARM, *core, "-mthumb", "-std=c99", "-Os", "-Iinclude", "-c", "src/net.c"]
        subprocess.run(words, cwd=folder, check=True)
        words = ["arm-none-eabi-nm", "-u", "net.o"]
        symbols = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
        floats = re.findall(r"__aeabi_(?:f|d|i2f|ui2f|l2f)\w*|round\w*|rint\w*", symbols.stdout)
        assert bool(floats) == has_floats, symbols.stdout
