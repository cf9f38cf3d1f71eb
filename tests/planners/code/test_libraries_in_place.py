"""Libraries of plans in which tensors lie inside others: no copies, strides instead."""

import re

import pytest

from planners.code.library import library
from planners.memory import build
from planners.plan.carried_out import require_carried_out
from planners.plan.executor import PlanMachine
from tests.planners.code import compiling
from tests.planners.code.calibrated import integer_model
from tests.planners.code.compiling import COMPILERS, libraries, needs_compiler, run_all
from tests.planners.memory.joined import joined_model, joined_network
from tests.planners.memory.streamed import random_plan
from tests.planners.memory.test_inlays import eager_alone, whole_layers

pytestmark = pytest.mark.slow

REALS, INTEGERS = range(7), range(100, 105)


@pytest.fixture(autouse=True)
def everywhere(monkeypatch):
    """Plans in which every tensor that may lies in another, whether that helps or not."""
    monkeypatch.setattr(
        build, "without_costly_aliases", lambda aliases, lives, sizes: dict(aliases)
    )
    monkeypatch.setattr(build, "is_smaller_ring", lambda ring_bytes, separate_bytes: True)
    monkeypatch.setattr(build, "_alias_variants", eager_alone)


def cases(models, element_bytes):
    """Each model one layer after another, and under a random plan."""
    found = []
    for seed, model in models:
        plan = whole_layers(model.network, element_bytes)
        drawn = random_plan(
            model.network, seed, is_streamed=seed % 2 == 0, element_bytes=element_bytes
        )
        found += [(model, one) for one in (plan, drawn)]
    assert sum(bool(plan.aliases) for _, plan in found) > len(found) // 2
    return found


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_real_numbers_in_place_are_those_of_the_network(compiler, tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "COMPILER", compiler)
    drawn = cases([(seed, joined_model(seed)) for seed in REALS], 4)
    assert run_all(libraries(drawn), tmp_path, (*compiling.FLAGS, *COMPILERS[compiler])) == []


@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_integers_in_place_are_those_of_the_network_bit_by_bit(compiler, tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "COMPILER", compiler)
    drawn = cases([(seed, integer_model(joined_network(seed))) for seed in INTEGERS], 1)
    assert run_all(libraries(drawn), tmp_path, (*compiling.FLAGS, *COMPILERS[compiler])) == []


def tensors_of(source):
    """Offset, rows, stride and place of each tensor of a library, by its name."""
    listed = re.search(r"static const tensor tensors\[\d+\] = \{\n(.*?)\n\};", source, re.DOTALL)
    lines = re.findall(r"\{([-\d, ]+)\}, /\* (.*?) \*/", listed.group(1))
    return {name: tuple(map(int, numbers.split(", ")[:4])) for numbers, name in lines}


def test_the_places_in_c_are_those_of_the_machine():
    for seed in REALS:
        model = joined_model(seed)
        plan = whole_layers(model.network)
        require_carried_out(model.network, plan)
        machine = PlanMachine(model.network, plan)
        machine.run()
        made = library(model, plan, name="net")
        for name, numbers in tensors_of(made.files["src/net.c"]).items():
            held = machine.whole[name]
            wanted = held.row_offset(0), held.column_bytes
            assert (4 * numbers[0], 4 * numbers[3]) == wanted
            if held.layer.shape.rows > 1:
                assert 4 * numbers[2] == held.row_offset(1) - held.row_offset(0)
