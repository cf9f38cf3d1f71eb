"""Plans of tiles as C: compiled, run, compared with the whole network and with the machine."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from cnn2csdf import operators as op
from cnn2csdf.builder import NetworkBuilder
from cnn2csdf.catalogue.networks import from_catalogue
from cnn2csdf.dtypes import Arithmetic
from cnn2csdf.operators.moves import to_memory_order
from cnn2csdf.streams import as_stream
from csdf.errors import InvalidPlan
from planners.code.c_text import Tables
from planners.code.frames import random_frame
from planners.code.library import write_folder, write_library
from planners.code.makefile import MAIN
from planners.code.stage_tables import tiling_of
from planners.fusion.groups import configuration, even_tiles
from planners.fusion.planning import fusion_plan
from planners.memory.answer import GroupMode, ScratchCount
from planners.memory.order import chain_of
from planners.memory.stateful import stateful_plan
from planners.plan.carried_out import require_carried_out
from planners.plan.computing import ModelComputing
from planners.plan.executor import PlanMachine
from planners.plan.plan import Kind, Mode, Stage, Tiles
from planners.plan.text import format_plans, parse_plans
from tests.planners.code import compiling
from tests.planners.code.calibrated import integer_model, real_model
from tests.planners.code.compiling import (
    COMPILERS,
    FLAGS,
    inlined,
    libraries,
    needs_compiler,
    run_all,
)
from tests.planners.code.drawing import same_in_each_run
from tests.planners.code.mixed_networks import Mixing
from tests.planners.code.test_library_on_target import TEST_STACK, make, needs_target, printed
from tests.planners.fusion.chains import TERMS, model_of, plain_chain, planned
from tests.planners.memory.test_inlays import whole_layers

DIRECT = replace(TERMS, scratch=ScratchCount.NONE, element_bytes=None)  # as C computes
OF_TILES = (Kind.TILE, Kind.TILE_ROWS, Kind.TILE_COLUMNS)
PAINTED = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "NAME.h"

static NAME_element arena[ARENA];
static KIND frame[FRAME], found[FOUND];
static NAME_state state;

int main(int count, char **words)
{
    memset(arena, count > 1 ? atoi(words[1]) : 0, sizeof arena);
    NAME_init(&state, arena, sizeof arena);
    if (fread(frame, sizeof *frame, FRAME, stdin) != FRAME) {
        return 2;
    }
    NAME_run(&state, frame, found);
    fwrite(arena, 1, sizeof arena, stdout);
    fwrite(found, 1, sizeof found, stdout);
    return 0;
}
"""


def written(chain, groups, terms=DIRECT):
    """The plan of a configuration, as it reads back from its document."""
    plan = fusion_plan(chain, groups, terms).plan
    return parse_plans(format_plans([plan]), "plan.json")[0]


def with_way(groups, way):
    """The groups, those in tiles with this way of the overlap."""
    return tuple(
        group._replace(
            mode=way,
            tiles=replace(group.tiles, halo_cached=way is GroupMode.CACHED),
        )
        if group.mode in (GroupMode.RECOMPUTED, GroupMode.CACHED)
        else group
        for group in groups
    )


def drawn(count):
    """Networks with plans in which some groups work in tiles, of so many random ones, in both ways."""
    found = []

    @same_in_each_run(count)
    @given(drawn=planned())
    def collect(drawn):
        chain, groups, terms = drawn
        for way in (GroupMode.RECOMPUTED, GroupMode.CACHED):
            plan = written(chain, with_way(groups, way), terms)
            if any(one.kind in OF_TILES for one in plan.buffers):
                found.append((model_of(chain.network), plan))

    collect()
    return found


def convolutions(builder, source, *filters, padding=(1,) * 4):
    window = op.Window(kernel=(3, 3), padding=padding)
    return [builder.add(op.Convolution(filters=one, window=window), source) for one in filters]


def joined(axis):
    """Two convolutions inside their concatenation; one is also read alone."""
    builder = NetworkBuilder("joined")
    (source,) = convolutions(builder, builder.input((3, 8, 6)), 3)
    first, second = convolutions(builder, source, 3 if axis else 2, 3)
    whole = builder.add(op.Concatenation(axis=axis), first, second)
    for name in (whole, second):
        builder.output(*convolutions(builder, name, 2), f"output {name}")
    network = builder.network()
    return model_of(network), whole_layers(network)


def windowed():
    """Convolutions whose inputs are windows of rings: rows of the frame before, and new rows."""
    builder = NetworkBuilder("windowed")
    (source,) = convolutions(builder, builder.input((3, 12, 6)), 3, padding=(0, 1, 0, 1))
    builder.output(*convolutions(builder, source, 4, padding=(0, 1, 0, 1)))
    model = as_stream(model_of(builder.network()), 4)
    return model, stateful_plan(model.network).plan


def each_layer_in_tiles(model, plan):
    """The plan with one convolution in tiles, for each."""
    for layer in model.network.layers:
        if layer.operator.filter_bank is not None:
            tiles = even_tiles(layer, 2, 2)
            tiled = {"mode": Mode.TILES, "rows": layer.shape.rows, "tiles": tiles}
            yield replace(
                plan,
                groups=tuple(
                    replace(group, stages=(replace(group.stages[0], **tiled), *group.stages[1:]))
                    if group.stages[0].layers == (layer.name,)
                    else group
                    for group in plan.groups
                ),
            )


IN_HOSTS = (lambda: joined(0), lambda: joined(1), lambda: joined(2), windowed)


@pytest.mark.parametrize("made", IN_HOSTS, ids=["channels", "rows", "columns", "windows"])
def test_tiles_read_and_write_tensors_inside_others(made):
    model, plan = made()
    for tiled in each_layer_in_tiles(model, plan):
        require_carried_out(model.network, tiled)
    assert plan.aliases or model.network.keeps_state


def test_tiles_over_the_host_of_their_input_are_refused():
    model, plan = joined(0)
    *_, tiled = each_layer_in_tiles(model, plan)
    ((result, host),) = (
        (made, host)
        for made in tiled.buffers
        for host in tiled.buffers
        if (made.kind, made.tensor) == (Kind.WHOLE, tiled.groups[-1].stages[0].result)
        and (host.kind, host.tensor) == (Kind.WHOLE, "concatenation")
    )
    over = replace(result, offset=host.offset)
    buffers = tuple(over if one is result else one for one in tiled.buffers)
    with pytest.raises(InvalidPlan, match="do not hold elements"):
        require_carried_out(model.network, replace(tiled, buffers=buffers))


@pytest.mark.slow
@needs_compiler
def test_tiles_of_tensors_inside_others_give_in_c_what_the_whole_gives(tmp_path):
    cases = [
        (model, tiled)
        for model, plan in (made() for made in IN_HOSTS)
        for tiled in each_layer_in_tiles(model, plan)
    ]
    assert len(cases) == 17
    assert run_all(libraries(cases), tmp_path, FLAGS) == []


@needs_compiler
def test_a_small_network_in_tiles_gives_in_c_what_the_whole_gives(tmp_path):
    chain = plain_chain((2, 3, 1), (3, 3, 2))
    cases = [
        (model_of(chain.network), written(chain, configuration(chain, (), [(2, 3)], way)))
        for way in (GroupMode.RECOMPUTED, GroupMode.CACHED)
    ]
    assert run_all(libraries(cases), tmp_path, FLAGS) == []


@pytest.mark.slow
@needs_compiler
def test_tiles_of_real_layers_among_integers_give_what_the_whole_gives(tmp_path):
    network, cases = plain_chain((2, 3, 1), (4, 3, 1), (3, 3, 2)).network, []
    for seed in range(8):
        model = Mixing(seed, list(Arithmetic)[seed % len(Arithmetic)]).mixed(network)
        chain = chain_of(model.network)
        way = (GroupMode.RECOMPUTED, GroupMode.CACHED)[seed // 3 % 2]
        cases.append((model, written(chain, configuration(chain, (), [(2, 3)], way))))
    kinds = [{layer.element for layer in model.network.layers} for model, _ in cases]
    assert sum(len(one) > 1 for one in kinds) > 4
    assert run_all(libraries(cases), tmp_path) == []


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("compiler", COMPILERS)
def test_random_tiles_give_in_c_what_the_whole_gives(compiler, tmp_path, monkeypatch):
    monkeypatch.setattr(compiling, "COMPILER", compiler)
    half = list(COMPILERS).index(compiler)
    cases = [case for number, case in enumerate(drawn(60)) if number // 2 % 2 == half]
    halos = {Kind.TILE_ROWS, Kind.TILE_COLUMNS}
    cases = cases[:10] + [
        case for case in cases[10:] if halos & {one.kind for one in case[1].buffers}
    ]
    assert len(cases) > 10
    assert {one.kind for _, plan in cases for one in plan.buffers}.issuperset(OF_TILES)
    stages = [one for _, plan in cases for group in plan.groups for one in group.stages]
    assert {one.mode for one in stages} >= {Mode.TILES, Mode.ROWS}  # beside whole layers
    assert run_all(libraries(cases), tmp_path, (*FLAGS, *COMPILERS[compiler])) == []


def tiled(make, way):
    """A network of residual blocks, the first two of them in tiles, with and without the overlap."""
    model = make(from_catalogue("resnet8:resolution=16"))
    chain = chain_of(model.network)
    cut = next(
        number
        for number in range(chain.sections)
        if model.network.layer(chain.at(number + 1)).shape.height == 8
    )
    return model, written(chain, configuration(chain, (cut + 1,), [(3, 2), (1, 1)], way))


def painted(made, plan, frame, folder):
    """Bytes of the arena behind a frame, in an arena of noughts and one of ones, and the outputs."""
    (port,), (result,) = made.written.inputs, made.written.outputs
    words = {
        "NAME": made.name,
        "ARENA": f"{made.name.upper()}_ARENA_ELEMENTS",
        "KIND": port.kind,
        "FRAME": str(port.elements),
        "FOUND": str(result.elements),
    }
    program = PAINTED
    for word, text in words.items():
        program = program.replace(word, text)
    write_folder(folder, {**made.files, MAIN: program})
    command = [
        compiling.COMPILER,
        *FLAGS,
        *compiling.SANITIZERS,
        *compiling.program(made.files),
        "-lm",
        "-o",
        "painted",
    ]
    subprocess.run(command, cwd=folder, check=True)
    given = to_memory_order(frame[port.layer]).tobytes()
    said = [
        subprocess.run(
            ["./painted", colour], cwd=folder, input=given, capture_output=True, check=True
        ).stdout
        for colour in ("0", "255")
    ]
    arenas = [np.frombuffer(one, np.uint8)[: plan.arena_bytes] for one in said]
    return arenas, [one[plan.arena_bytes :] for one in said]


def of_machine(model, plan, frame):
    """The same of the machine that knows what each byte holds."""
    found = []
    for colour in (0, 255):
        memory = np.full(plan.all_bytes, colour, np.uint8)
        PlanMachine(model.network, plan, ModelComputing(model, frame), memory=memory).run()
        found.append(memory)
    return found


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", [GroupMode.RECOMPUTED, GroupMode.CACHED])
def test_tiles_of_integers_leave_each_byte_of_the_arena_as_the_machine_does(way, tmp_path):
    model, plan = tiled(integer_model, way)
    frame = random_frame(model.network, 3)
    (made,) = libraries([(model, plan)])
    arenas, _ = painted(made, plan, frame, tmp_path / "tiled")
    for found, wanted in zip(arenas, of_machine(model, plan, frame), strict=True):
        assert np.array_equal(found, wanted)
    assert arenas[0][-1] == arenas[1][-1]  # written, so the arena is no larger than it has to be


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", [GroupMode.RECOMPUTED, GroupMode.CACHED])
def test_tiles_of_real_numbers_give_the_bits_of_whole_layers(way, tmp_path):
    model, plan = tiled(real_model, way)
    chain = chain_of(model.network)
    whole = written(chain, configuration(chain, (), [(1, 1)]))
    frame = random_frame(model.network, 3)
    cases = [(model, plan), (model, whole)]
    found = []
    for made, (_, one) in zip(libraries(cases), cases, strict=True):
        _, outputs = painted(made, one, frame, tmp_path / made.name)
        found += outputs
    assert len(set(found)) == 1


def test_the_code_of_tiles_does_not_grow_with_their_number():
    model = real_model(from_catalogue("resnet8:resolution=16"))
    chain = chain_of(model.network)
    plans = [
        written(chain, configuration(chain, (2,), [grid, (1, 1)], GroupMode.CACHED))
        for grid in ((2, 2), (5, 4))
    ]
    few, many = (
        inlined(one.files, f"src/{one.name}.c")
        for one in libraries((model, plan) for plan in plans)
    )
    assert few.count("\n}\n") == many.count("\n}\n")  # functions
    assert "compute_tiles(&" not in few  # they are in a loop over the tables of a stage
    # Five and four tiles instead of two and two: 5 pairs of two bytes more for each layer.
    assert 0 < len(many) - len(few) < 1000


def test_a_layer_that_cannot_be_tiled_is_refused_by_name():
    builder = NetworkBuilder("resized")
    source = builder.input((2, 4, 4))
    source = builder.add(op.Resize(size=(8, 8), function="nearest"), source)
    builder.output(source)
    network = builder.network()
    tiles = Tiles(row_ends=(4, 8), column_ends=(4, 8), halo_cached=False)
    stage = Stage(layers=(source,), rows=8, mode=Mode.TILES, tiles=tiles)
    with pytest.raises(InvalidPlan, match=f"no C code for '{source}' in tiles"):
        tiling_of(network, stage, lambda name, kind: 0, Tables("net"))


@pytest.mark.slow
@needs_target
@pytest.mark.parametrize("way", [GroupMode.RECOMPUTED, GroupMode.CACHED])
def test_tiles_run_on_a_cortex_m_in_the_promised_stack(way, tmp_path):
    model, plan = tiled(integer_model, way)
    made = write_library(model, plan, tmp_path)
    ran = make(tmp_path, "qemu")
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert printed(said, "arena") == plan.arena_bytes
    assert printed(said, "stack") <= made.written.stack_bytes + TEST_STACK
