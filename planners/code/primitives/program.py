"""A selection of primitives as a C library: a plan whose layers name their primitives.

The arena of the plan holds feature maps, feature maps converted to another layout, and workspaces.
Layers execute in sequence, each by its primitive. An input in another layout is converted before its
layer executes. The inputs and outputs of the network are HWC tensors in memory of the caller, as in
all libraries.
"""

from __future__ import annotations

from collections.abc import Iterator

from cnn2csdf.network import Layer
from cnn2csdf.stored_tensors import stored_as
from cnn2csdf.weights import Model
from csdf.errors import InvalidPlan
from planners.code.c_text import header_file, identifier, short_lines
from planners.code.initialisers import structures_of
from planners.code.interface import reserved
from planners.code.kernel_files import INLINED
from planners.code.machines import require_target
from planners.code.names import TensorNames
from planners.code.packaging import PLAIN, Package, version_macro
from planners.code.parts import comment, functions_in, used
from planners.code.ports import LibraryPort
from planners.code.primitives.calls import FILES, PlacedTensor, PrimitiveCalls, PrimitiveTables
from planners.code.sources import Written, require_weights, weights_header, weights_text
from planners.code.status import (
    checked_function,
    checks_defined,
    init_declared,
    init_defined,
    refuse,
    status_declared,
    with_checksum,
)
from planners.plan.plan import Kind, Stage, StreamBuffer, StreamingPlan
from planners.primitives.library.primitive import ELEMENT_BYTES
from planners.primitives.profile import CHW, HWC, Variant

STATE_BYTES = 8  # an address
WORDS = ("map", "move_map", "works", "work_on", "ends")  # that no parameter may hide


def is_selection(plan: StreamingPlan) -> bool:
    """Return whether the layers of a plan name their primitives."""
    return any(stage.primitive is not None for group in plan.groups for stage in group.stages)


def selection_sources(
    model: Model, plan: StreamingPlan, name: str, package: Package = PLAIN
) -> Written:
    """Return the texts of a library for a model and a selection of primitives.

    package: its target, whose instructions the kernels may use, its version, and the names of tensors.

    Raises UnsupportedOperator for a layer or a primitive without C, InvalidNetwork for a model
    without weights, InvalidPlan where a layer has no primitive or too small a workspace.
    """
    require_target(package.target)
    require_weights(model)
    return _ProgramWriter(model, plan, identifier(name), package).written()


class _ProgramWriter:
    """Writes the C of a selection. works: initialisers of changes of layout and layers, in order."""

    def __init__(self, model: Model, plan: StreamingPlan, name: str, package: Package) -> None:
        self.network, self.plan, self.name, self._package = model.network, plan, name, package
        self._names = TensorNames(self.network, package.renamed)
        self.tables = PrimitiveTables(name, name_of=self._names.__getitem__)
        self.calls = PrimitiveCalls(model, self.tables)
        self._buffers = {buffer.name: buffer for buffer in plan.buffers}
        taken = [*reserved(name), *WORDS]
        self.inputs = tuple(self._port(layer, taken) for layer in self.network.inputs)
        self.outputs = tuple(self._port(layer, taken) for layer in self.network.outputs)
        self.works = [work for number in range(len(plan.groups)) for work in self._group(number)]

    def _port(self, layer: Layer, taken: list[str]) -> LibraryPort:
        taken.append(self._names.of_port(layer.name, taken))
        elements = layer.shape.elements
        return LibraryPort(
            parameter=taken[-1],
            layer=layer.name,
            tensor=layer.name,
            elements=elements,
            kind="float",
            unit=1,
            stored=stored_as(layer),
        )

    def _group(self, number: int) -> Iterator[str]:
        """Yield the works of a group: changes of layout, then its layers."""
        group = self.plan.groups[number]
        for copy in group.transfers:
            source, target = self._buffers[copy.source], self._buffers[copy.target]
            yield f"{self.calls.change(self._placed(source), self._placed(target))},"
        for stage in group.stages:
            yield self._work(number, stage)

    def _work(self, number: int, stage: Stage) -> str:
        layer = self.network.layer(stage.result)
        if stage.primitive is None or len(stage.layers) > 1:
            raise InvalidPlan(f"layer {layer.name!r} has no primitive, beside layers that have one")
        variant = Variant(stage.primitive.name, stage.primitive.reads, stage.primitive.writes)
        workspaces = self._alive(number, Kind.SCRATCH)
        workspaces = [buffer for buffer in workspaces if layer.name in buffer.readers]
        offset, size = (workspaces[0].offset, workspaces[0].size) if workspaces else (0, 0)
        needed = self.calls.workspace_bytes(layer, variant)
        if needed > size:
            raise InvalidPlan(
                f"layer {layer.name!r} has a workspace of {size} bytes; "
                f"{variant.primitive!r} needs {needed}"
            )
        inputs = [self._placed(self._buffer(tensor, number, layer.name)) for tensor in layer.inputs]
        output = self._placed(self._buffer(layer.name, number))
        text = self.calls.work(layer, variant, inputs, output, offset)
        return f"{text}, /* {comment(f'{layer.name}: {variant.primitive}')} */"

    def _alive(self, group: int, kind: Kind) -> list[StreamBuffer]:
        return [
            buffer for buffer in self.plan.buffers if buffer.kind is kind and buffer.is_live(group)
        ]

    def _buffer(self, tensor: str, group: int, reader: str = "") -> StreamBuffer:
        """The buffer of a tensor in a group: for a reader that it names, or for all others."""
        buffers_of_tensor = [
            buffer for buffer in self._alive(group, Kind.WHOLE) if buffer.tensor == tensor
        ]
        buffers_of_reader = [buffer for buffer in buffers_of_tensor if reader in buffer.readers]
        chosen = buffers_of_reader or [buffer for buffer in buffers_of_tensor if not buffer.readers]
        if not chosen:
            raise InvalidPlan(f"the plan has no whole {tensor!r} in group {group + 1}")
        return chosen[-1]

    def _placed(self, buffer: StreamBuffer) -> PlacedTensor:
        shape = self.network.layer(buffer.tensor).shape
        return PlacedTensor(shape=shape, layout=buffer.layout or CHW, offset=buffer.offset)

    def written(self) -> Written:
        wanted = self.tables.wanted | {"work_on", "move_map", "map", "work", "step"}
        kernels = self.tables.wanted & frozenset().union(*map(functions_in, FILES))
        weights, source = weights_text(self.name, self.tables), self._source(wanted)
        return Written(
            name=self.name,
            header=self._header(weights, source),
            source=source,
            weights=weights,
            weights_header=weights_header(self.name, self.tables),
            inputs=self.inputs,
            outputs=self.outputs,
            is_streamed=False,
            keeps_state=False,
            weight_bytes=sum(array.nbytes for array in self.tables.arrays.values()),
            state_bytes=STATE_BYTES,
            kernels=tuple(sorted(kernels)),
        )

    @property
    def _parameters(self) -> str:
        ports = [f"const float *{port.parameter}" for port in self.inputs]
        ports += [f"float *{port.parameter}" for port in self.outputs]
        return ", ".join([f"{self.name}_state *state", *ports])

    def _header(self, weights: str, functions: str) -> str:
        name, capitals = self.name, self.name.upper()
        sizes = "".join(
            f"#define {capitals}_{port.parameter.upper()}_ELEMENTS {port.elements}\n"
            for port in (*self.inputs, *self.outputs)
        )
        about = (
            f"{comment(self.network.name)}: inference in an arena of {self.plan.arena_bytes} bytes."
        )
        text = f"""{version_macro(name, self._package.version)}
#define {capitals}_ARENA_BYTES {self.plan.arena_bytes}
#define {capitals}_ARENA_ELEMENTS {max(self.plan.arena_bytes // ELEMENT_BYTES, 1)}
{sizes}
typedef float {name}_element;

{status_declared(name, functions)}

/* The execution state. The fields are private. */
typedef struct {{
    {name}_element *arena;
    uint32_t library;
}} {name}_state;

/* Begin with an arena of {capitals}_ARENA_ELEMENTS elements, which stays in use as long as the
   state. Each instance has an arena and a state of its own. */
{init_declared(name, ["arena"])}

/* Run the network on a frame. Tensors lie row by row, in a row column by column, the channels of
   a place side by side; tensors that are no feature maps as they are. */
{name}_status {name}_run({self._parameters});
"""
        header = header_file(name, about, ("stddef.h", "stdint.h"), text)
        return with_checksum(short_lines(header), weights)

    def _source(self, wanted: set[str]) -> str:
        name = self.name
        placed: list[PlacedTensor] = []
        moves: dict[bool, list[str]] = {True: [], False: []}
        for port in (*self.inputs, *self.outputs):
            is_input, at = port in self.inputs, len(placed)
            group = 0 if is_input else len(self.plan.groups) - 1
            there = self._placed(self._buffer(port.tensor, group))
            placed += [PlacedTensor(shape=there.shape, layout=HWC, offset=0), there]
            outside = f"{port.parameter}, &ends[{at}]"
            inside = f"state->arena + ends[{at + 1}].offset, &ends[{at + 1}]"
            ends = f"{outside}, {inside}" if is_input else f"{inside}, {outside}"
            moves[is_input].append(f"    move_map({ends});\n")
        before, after = ("".join(moves[is_input]) for is_input in (True, False))
        ports = (*self.inputs, *self.outputs)
        pointers = " || ".join(f"IS_MISSING({port.parameter})" for port in ports)
        missing = refuse(name, pointers, "NULL_POINTER")
        frame = f"""{before}    for (number = 0; number < {len(self.works)}; number++) {{
        work_on(&works[number], state->arena);
    }}
{after}"""
        structures = structures_of(FILES)
        pieces = [
            prologue(name, self.calls, f"typedef {name}_element element;\n"),
            *used(wanted, FILES, self._package.target),
            f'#include "{name}_weights.h"',
            *self.tables.definitions(structures),
            steps_table(self.calls),
            structures.table("map", "ends", [f"{position.as_c_map}," for position in placed]),
            structures.table("work", "works", self.works),
            checks_defined(name),
            init_defined(name, ["arena"], "    state->arena = arena;\n", is_wide=True),
            checked_function(
                name, "run", self._parameters, frame, missing, "    int32_t number;\n"
            ),
        ]
        return short_lines("\n\n".join(piece for piece in pieces if piece))


def prologue(name: str, calls: PrimitiveCalls, types: str) -> str:
    """Return the beginning of a C file with primitives. types: C that names the element."""
    return f"""#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

{INLINED}

#include "{name}.h"

{types}#define LEAST (-INFINITY)
#define MOST_NEIGHBOURS {calls.most_neighbours}"""


def steps_table(calls: PrimitiveCalls) -> str:
    """Return the table of what follows layers in place; empty where nothing does."""
    return structures_of(FILES).table("step", "steps", calls.steps) if calls.steps else ""
