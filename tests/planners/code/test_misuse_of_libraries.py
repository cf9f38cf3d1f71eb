"""The test program of a library detects wrong checks, conversions and states: mutants of its C."""

import shutil
import subprocess

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from planners.code.library import write_library
from planners.memory.fit import fit
from tests.benchmarks.instruction_samples import drawn
from tests.planners.code.calibrated import integer_model
from tests.planners.code.compiling import needs_compiler

pytestmark = [
    pytest.mark.slow,
    needs_compiler,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]
CHECKS = (
    ("#define IS_BUSY(state) (", "#define IS_BUSY(state) (0 && "),
    ("state->library != NET_HEADER", "0"),
    ("arena_bytes < (", "0U > ("),
    (
        "address = tensor_in(state, numbers[number]);",
        "address = &tensor_in(state, numbers[number])[1];",
    ),
)
STATES = (
    ("(uint16_t)((high << 8U) | from[2 * number])", "0"),
    ("(void)memcpy(AT(state, b->offset), from, bytes);", ""),
    ("memcmp(saved, words, 4) != 0", "0"),
    ("memcmp(&saved[4], &words[4], 4) != 0", "0"),
    ("number < BEGINNINGS", "number < BEGINNINGS - 1"),
    ("(void)memset(state->oldest, 0, sizeof state->oldest);", ""),
)
NUMBERS = (
    ("roundf(value / scale)", "truncf(value / scale)"),
    ("return scale *", "return 2 * scale *"),
)


def outcome(folder):
    words = ["make", "-s", "-B", "-C", str(folder), "test", "CFLAGS=-O0"]
    return subprocess.run(words, capture_output=True, text=True).returncode


@pytest.mark.parametrize(
    ("model", "mutants"),
    [
        (lambda: drawn("windows:9:hops"), CHECKS + STATES),
        (lambda: integer_model(from_catalogue("keyword_spotting")), CHECKS + NUMBERS),
    ],
)
def test_each_mutant_of_a_library_fails_its_test(model, mutants, tmp_path):
    model = model()
    write_library(model, fit(model, budget=1).least.plan, tmp_path, name="net")
    assert outcome(tmp_path) == 0
    texts = {path: path.read_text() for path in (tmp_path / "src").iterdir()}
    survivors = []
    for old, new in mutants:
        assert any(old in text for text in texts.values()), old
        path = next(path for path, text in texts.items() if old in text)
        path.write_text(texts[path].replace(old, new, 1))
        if outcome(tmp_path) == 0:
            survivors.append(old)
        path.write_text(texts[path])
    assert survivors == []
