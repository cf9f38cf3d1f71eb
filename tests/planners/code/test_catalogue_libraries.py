"""Networks of the catalogue in one program: in integers and real numbers, here and on Cortex-M."""

import subprocess

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from planners.code.library import write_library
from planners.code.several import Member, write_libraries
from planners.memory.answer import INPUTS
from planners.memory.fit import fit
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import COMPILER, FLAGS, SANITIZERS, needs_compiler, program
from tests.planners.code.test_library_on_target import TEST_STACK, make, needs_target, printed

pytestmark = pytest.mark.slow

NAMES = (
    "samos_example",
    "keyword_spotting:rows=25",
    "mobilenet_v2:width=1/4,resolution=32,classes=10",
    "resnet8:resolution=16",
    "squeezenet1_1:resolution=39,classes=4",
    "yolo_v2_beginning:resolution=32,layers=9",
)
COMMAND = ("arm-none-eabi-gcc", "-mthumb", "-mfloat-abi=hard", "-mfpu=auto")
KINDS = {"integers": (integer_model, NAMES), "reals": (real_model, NAMES[:4])}


@pytest.fixture(scope="module", params=KINDS)
def written(request, tmp_path_factory):
    """The networks, their inputs in the arena, row by row and outside in turn, in the least memory."""
    make_model, names = KINDS[request.param]
    members = []
    for number, name in enumerate(names):
        model = make_model(from_catalogue(name))
        plan = fit(model.network, input=INPUTS[number % len(INPUTS)], budget=1).least.plan
        members.append(Member(model=model, plan=plan))
    folder = tmp_path_factory.mktemp(request.param)
    return write_libraries(members, folder), folder


@needs_compiler
def test_networks_in_one_arena_give_their_outputs_under_sanitizers(written):
    found, folder = written
    built = subprocess.run(
        [COMPILER, *FLAGS, *SANITIZERS, *program(found.files), "-lm", "-o", "all"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run(["./all"], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr[:4000]
    assert printed(ran.stdout, "arena") == found.arena_bytes


@needs_target
@pytest.mark.parametrize("written", ["reals"], indirect=True)
def test_networks_in_one_arena_give_their_outputs_on_a_cortex_m(written):
    require_equal_on("qemu", *written)


@needs_target
@pytest.mark.parametrize("written", ["integers"], indirect=True)
def test_networks_by_the_vectors_of_a_cortex_m55_give_their_outputs(written):
    # Integers on a Cortex-M4, real numbers on a Cortex-M55: `test_networks_together`.
    require_equal_on("qemu-m55", *written)


def require_equal_on(target, found, folder):
    ran = make(folder, target)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said[-2000:]
    assert printed(said, "arena") == found.arena_bytes
    largest = max(member.stack_bytes for member in found.members)
    assert printed(said, "stack") <= largest + TEST_STACK
    assert max(one.state_bytes for one in found.members) <= 1000


@needs_target
@pytest.mark.parametrize(
    ("core", "instruction"),
    [("cortex-m4", "smlad"), ("cortex-m55", "vmullb.s16"), ("cortex-m55+nomve", "smlad")],
)
def test_integers_are_multiplied_by_the_vectors_of_the_core(tmp_path, core, instruction):
    model = integer_model(from_catalogue("person_detection:resolution=32"))
    library = write_library(model, fit(model.network, budget=1).least.plan, tmp_path)
    built = subprocess.run(
        [
            *COMMAND,
            f"-mcpu={core}",
            *FLAGS[:-1],
            "-O2",
            "-S",
            "-Iinclude",
            f"src/{library.name}.c",
            "-o",
            "-",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr[:4000]
    assert instruction in built.stdout
