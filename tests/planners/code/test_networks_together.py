"""Several networks in one arena: run in turn, on the machine at hand and on a Cortex-M."""

import shutil
import subprocess

import pytest

from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model, random_weights
from csdf.errors import InvalidPlan
from planners.code.several import Member, combined_libraries, write_libraries
from planners.memory.fit import fit
from tests.planners.code.compiling import COMPILER, FLAGS, SANITIZERS, needs_compiler, program
from tests.planners.code.test_library_on_target import TEST_STACK, make, needs_target, printed
from tests.planners.code.test_quantised_libraries import (
    everything,
    quantised,
    random_plan,
    wide,
)
from tests.planners.code.test_weights_with_zeros import shifted
from tests.planners.code.test_writing_libraries import planned, small

pytestmark = pytest.mark.slow


def members():
    """Real numbers by row, real numbers resident, integers, weights with zero points."""
    found = []
    for name, input_ in (
        ("keyword_spotting:rows=25", "rows"),
        ("resnet8:resolution=16", "resident"),
    ):
        network = simplified(Model(network=from_catalogue(name))).network
        model = Model(network=network, weights=random_weights(network, 0))
        plan = fit(network, element_bytes=4, input=input_).least.plan
        found.append(Member(model=model, plan=plan))
    for network in (everything(), wide()):
        model = simplified(quantised(network, 1), ("fuse-activation",))
        plan = random_plan(model.network, 1, is_streamed=False, element_bytes=1)
        found.append(Member(model=model, plan=plan))
    model = shifted(quantised(wide(), 2), 2)  # the weights of no other network have zero points
    plan = random_plan(model.network, 2, is_streamed=False, element_bytes=1)
    return [*found, Member(model=model, plan=plan)]


def build(folder, files):
    return subprocess.run(
        [COMPILER, *FLAGS, *SANITIZERS, *program(files), "-lm", "-o", "all"],
        cwd=folder,
        capture_output=True,
        text=True,
    )


@needs_compiler
def test_networks_that_take_turns_in_one_arena_give_their_outputs(tmp_path):
    given = members()
    found = write_libraries(given, tmp_path)
    assert found.arena_bytes == max(one.plan.arena_bytes for one in given)
    built = build(tmp_path, found.files)
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run(["./all"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr[:4000]
    assert printed(ran.stdout, "arena") == found.arena_bytes


@needs_compiler
def test_an_arena_that_a_turn_spoils_is_noticed(tmp_path):
    # Something writes over the first network's results before they are compared.
    found = write_libraries(members()[:2], tmp_path)
    first = found.members[0].name
    path = tmp_path / "test" / f"{first}_test.c"
    spoiled = f"    memset(arena, 0x55, {first.upper()}_ARENA_BYTES);\n    EXPECT(is_near("
    text = path.read_text()
    place = text.rindex("    EXPECT(is_near(")
    path.write_text(text[:place] + spoiled + text[place:].removeprefix("    EXPECT(is_near("))
    built = build(tmp_path, found.files)
    assert built.returncode == 0, built.stderr[:4000]
    ran = subprocess.run(["./all"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "outputs differ" in ran.stdout


@needs_target
@pytest.mark.parametrize("target", ["qemu", "qemu-m55"])
def test_networks_take_turns_on_a_cortex_m(tmp_path, target):
    found = write_libraries(members(), tmp_path)
    ran = make(tmp_path, target)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert printed(said, "arena") == found.arena_bytes
    largest = max(member.stack_bytes for member in found.members)
    assert printed(said, "stack") <= largest + TEST_STACK


@pytest.mark.parametrize(("compiler", "level"), [("gcc", "-O3"), ("clang", "-Os")])
def test_no_compiler_warns_and_all_give_the_same(tmp_path, compiler, level):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    found = write_libraries(members(), tmp_path)
    built = subprocess.run(
        [compiler, *FLAGS[:-1], level, *program(found.files), "-lm", "-o", "all"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (built.returncode, built.stderr) == (0, "")
    assert subprocess.run(["./all"], cwd=tmp_path, capture_output=True).returncode == 0


def test_no_name_begins_another():
    model = small("a")
    plan = planned(model)
    names = ("a", "a", "a b", "networks", "target", "")
    found = combined_libraries(
        [Member(model=model, plan=plan, name=name or None) for name in names]
    )
    given = ["networks", *(one.name for one in found.members)]
    assert len(set(given)) == 7
    for one in found.members:  # the calls of each
        assert f"{one.name}_run(&state_of_{one.name}, " in found.files["README.md"]
        assert f"| {one.inputs[0].parameter} of {one.name} | input | " in found.files["README.md"]
    for one in given:
        for other in given:
            assert one == other or not f"{other}_".startswith(f"{one}_")


def test_no_network_is_refused():
    with pytest.raises(InvalidPlan, match="no network"):
        combined_libraries([])
