"""The test program of a library fails when a table of weights is zero."""

import subprocess

import numpy as np
import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.readers.model_files import read_model
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.code.frames import chosen_vectors, constant_outputs, from_initial_state
from planners.code.library import library
from planners.code.makefile import MAIN
from planners.memory.fit import fit
from tests.cnn2csdf.readers.test_states import FOLDER, NAMES
from tests.cnn2csdf.readers.test_tflite_golden import READ, golden_model
from tests.planners.code.calibrated import integer_model
from tests.planners.code.compiling import COMPILER, inlined, needs_compiler
from tests.shared_data import each

WITHOUT_STATE = ("kws_int8",)
# Wake words whose output was 0 in each of several random frames, residues, columns of two heights.
STATEFUL = (
    *("mww_v1_hey_jarvis", "mww_v2_hey_jarvis", "mww_v2_hey_mycroft", "mww_v2x_okay_computer"),
    *("made_residual_begin0", "made_plain_begin1"),
)
ZEROING = """
#include <stdio.h>
static char kept[1 << 20];
int main(void)
{
    size_t number, i;
    for (number = 0; number < sizeof tables / sizeof *tables; number++) {
        char *bytes = tables[number].bytes;
        int is_zero = 1;
        for (i = 0; i < tables[number].size; i++) {
            is_zero = is_zero && !bytes[i];
        }
        memcpy(kept, bytes, tables[number].size);
        memset(bytes, 0, tables[number].size);
        if (!is_zero && !net_test()) {
            printf("%s\\n", tables[number].name);
        }
        memcpy(bytes, kept, tables[number].size);
    }
    return net_test();
}
"""


def model_of(name):
    return simplified(read_model(str(FOLDER / f"{name}.tflite"), with_weights=True))


def unnoticed(model, folder):
    """The tables of weights that may be zero without a failure of the test."""
    plan = fit(model.network, searched=()).methods[0].plan
    made = library(model, plan, name="net", target="portable")
    (folder / "net.h").write_text(made.files["include/net.h"])
    weights = made.files["src/net_weights.c"].replace("\nconst ", "\n")
    names = [line.split()[1].split("[")[0] for line in weights.splitlines() if "] = {" in line]
    rows = "\n".join(f'    {{"{name}", {name}, sizeof {name}}},' for name in names)
    kind = "static const struct { const char *name; void *bytes; size_t size; }"
    tables = f"{kind} tables[] = {{\n{rows}\n}};"
    source = inlined(made.files, "src/net.c").replace("extern const ", "extern ")
    header = made.files["src/net_weights.h"].replace("extern const ", "extern ")
    text = "\n".join([header, weights.partition("#include")[2].partition("\n")[2], source])
    (folder / "zeroed.c").write_text(f"{text}\n{made.files[MAIN]}\n{tables}\n{ZEROING}")
    built = subprocess.run(
        [COMPILER, "-std=c99", "-O1", "-w", "-DNO_MAIN", "zeroed.c", "-lm", "-o", "zeroed"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    ran = subprocess.run(["./zeroed"], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, "the test fails with the weights of the model"
    assert names
    return ran.stdout.split()


@pytest.mark.slow
@needs_compiler
@each("name", STATEFUL if NAMES else ())
def test_each_zeroed_table_of_a_network_with_a_state_is_noticed(name, tmp_path):
    assert unnoticed(model_of(name), tmp_path) == []


@pytest.mark.slow
@needs_compiler
@each("name", WITHOUT_STATE if READ else ())
def test_each_zeroed_table_of_a_model_of_the_field_is_noticed(name, tmp_path):
    assert unnoticed(simplified(golden_model(name)), tmp_path) == []


@pytest.mark.slow
@needs_compiler
def test_each_zeroed_table_of_a_built_in_network_is_noticed(tmp_path):
    assert unnoticed(integer_model(from_catalogue("samos_example")), tmp_path) == []


def test_outputs_without_weights_are_told_to_be_constant():
    model = integer_model(from_catalogue("samos_example"))
    assert constant_outputs(chosen_vectors(model)) == ()
    weights = {
        layer: {role: np.zeros_like(array) for role, array in roles.items()}
        for layer, roles in model.weights.items()
    }
    model = Model(network=model.network, weights=weights)
    (output,) = model.network.outputs
    made = library(model, fit(model.network, searched=()).methods[0].plan)
    assert made.constant_outputs == (output.name,)
    assert "wrong weights may pass" in made.files["README.md"]


@each("name", STATEFUL if NAMES else ())
def test_frames_of_a_network_with_a_state_give_several_outputs(name):
    vectors = chosen_vectors(model_of(name))
    begun = from_initial_state(vectors)
    assert 0 < begun < len(vectors)
    assert vectors[-1].after is not None
    assert constant_outputs(vectors[begun:]) == ()
