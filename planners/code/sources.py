"""The C of a library for one network: header, source and weights, from a model and a memory plan.

`library_sources` writes the tables of the schedule first: they determine the kernels that the library
needs. Ports, macros and the header follow. Kernels are added last, because libraries in one folder
share their headers (`with_shared_kernels`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import fill

from cnn2csdf.network import Layer
from cnn2csdf.stored_tensors import stored_as, stored_at_run_time
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, InvalidPlan, UnsupportedOperator
from planners.code.c_text import TYPES, WIDTH, Tables, array_items, identifier, short_lines, wrapped
from planners.code.calls.cmsis_nn import ANY, CmsisNN, ScratchLimit
from planners.code.header import HeaderWriter
from planners.code.initialisers import structures_of
from planners.code.interface import Interface, memory_parameters, reserved
from planners.code.kernel_files import SCHEDULING, KernelFiles, NeededKernels
from planners.code.layer_descriptor import shared_with_reals
from planners.code.machines import HELIUM, Target, has_floating_point, has_helium, require_target
from planners.code.names import TensorNames
from planners.code.packaging import PLAIN, Package
from planners.code.parts import (
    CMSIS_NN,
    CONVERSIONS,
    INTEGERS,
    OWN,
    REALS,
    SCHEDULER,
    SHORT_SINGLES,
    SHORTS,
    SINGLES,
    WITH_CMSIS_NN,
    added_sources,
    called,
    functions_in,
    mentioned,
    used,
)
from planners.code.ports import LibraryPort, LibraryPorts
from planners.code.prologue import MacroWriter, without_unused_macros
from planners.code.schedule import Schedule
from planners.code.state_tables import (
    PersistentAccumulators,
    fresh_elements,
    persistent_accumulators,
)
from planners.code.unsigned_as_signed import SIGNED, as_signed, can_change_in_place
from planners.plan.plan import StreamingPlan
from planners.plan.ram import CMSIS_STACK_BYTES, state_bytes_of
from planners.plan.stack import bytes_of_stages, stack_bytes_of
from planners.rewrites.rematerialisation import executed_model

BLOCK_STACK_BYTES = 160  # of store_blocks, which calls a kernel
STORE_BLOCKS = (
    """static void store_blocks(const run *r, const layer *l, range rows, range columns);"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The C of a library, and the facts about it that programs, reports and the README use."""

    name: str
    header: str
    source: str
    weights: str
    weights_header: str
    inputs: tuple[LibraryPort, ...]
    outputs: tuple[LibraryPort, ...]
    is_streamed: bool
    keeps_state: bool
    weight_bytes: int  # on the target; without a target, on a core without Helium
    state_bytes: int
    kernels: tuple[str, ...]
    helium_bytes: int = 0  # of further weights on a core with Helium, without a target
    memories: tuple[str, ...] = ("arena",)  # parameters of NAME_init
    stack_bytes: int = 0  # upper bound on the core of the target, or on any core
    has_integers: bool = False  # whether a port has quantised integers
    element: str = "float"  # C type of an arena element
    has_staging: bool = False  # whether the state has fields for rows in the staging buffer
    has_outside: bool = False  # whether the state ends with pointers to memory outside the arena
    stages: tuple[str, ...] = ()  # the result of each stage; none in a library of primitives
    kept_rows: tuple[int, ...] = ()  # rows of each state variable
    fresh_elements: Mapping[str, int] = field(default_factory=dict)  # of them, that a frame writes
    persistent_accumulators: tuple[PersistentAccumulators, ...] = ()
    cmsis_nn: CmsisNN | None = None  # the share of CMSIS-NN, if it is used
    headers: Mapping[str, str] = field(default_factory=dict)  # of kernels, by file name
    text: SourceText | None = None  # without kernels; None for a library of primitives

    @property
    def capitals(self) -> str:
        """The prefix of the macros."""
        return self.name.upper()

    @property
    def verb(self) -> str:
        """The verb in the name of the function that executes a frame: `invoke` with a state."""
        return "invoke" if self.keeps_state else "run"

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays of programs for the memories."""
        return tuple(
            memory if memory == "arena" else f"memory_{memory}" for memory in self.memories
        )

    @property
    def array_elements(self) -> dict[str, str]:
        """The macro with the number of elements of each array."""
        macros = (f"{self.capitals}_{memory.upper()}_ELEMENTS" for memory in self.memories)
        return dict(zip(self.arrays, macros, strict=True))

    def init_call(self) -> str:
        """Return the call of NAME_init with the arrays of a program."""
        sizes = (
            f"{array}, {macro} * sizeof *{array}" for array, macro in self.array_elements.items()
        )
        return f"{self.name}_init(&state, {', '.join(sizes)})"

    def frame_call(self, inputs: Iterable[str], outputs: Iterable[str]) -> str:
        """Return the call that executes a frame."""
        return f"{self.name}_{self.verb}({', '.join(['&state', *inputs, *outputs])})"

    @property
    def whole_source(self) -> str:
        """The C of the library with the kernels that it includes."""
        return "\n".join([*self.headers.values(), self.source])


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """The C of a network without kernels. use: the kernels that all these pieces use."""

    use: NeededKernels
    macros: str  # and types; kernels follow
    tables: str  # the scheduler follows
    functions: str  # of the interface


def with_shared_kernels(members: Sequence[Written], target: Target = None) -> tuple[Written, ...]:
    """Return libraries of one folder that include the same headers of kernels."""
    texts = {member.name: member.text for member in members if member.text is not None}
    if not texts:
        return tuple(members)
    files = KernelFiles({name: text.use for name, text in texts.items()}, target)
    sources = {}
    for name, text in texts.items():
        pieces = [
            files.before_tables(name),
            text.tables,
            f'#include "{SCHEDULING}"',
            text.functions,
        ]
        macros = without_unused_macros(text.macros, mentioned([*files.headers.values(), *pieces]))
        sources[name] = "\n\n".join([macros, *pieces])
    return tuple(
        replace(member, headers=files.headers, source=sources[member.name])
        if member.name in sources
        else member
        for member in members
    )


def library_sources(
    model: Model,
    plan: StreamingPlan,
    name: str,
    kernels: str = OWN,
    scratch: ScratchLimit = ANY,
    package: Package = PLAIN,
) -> Written:
    """Return the C of a library for a model and a plan of its network.

    kernels: OWN or CMSIS_NN; scratch: limit on the scratch memory of CMSIS-NN. package: its target,
    whose instructions the kernels may use, its version, and the names of its tensors.

    Raises UnsupportedOperator for a layer without a kernel, InvalidNetwork for a model
    without weights, InvalidPlan for a plan of another network.
    """
    require_target(package.target)
    return _SourceWriter(model, plan, name, kernels, scratch, package).written()


def cmsis_nn_of(model: Model, plan: StreamingPlan, scratch: ScratchLimit) -> CmsisNN:
    """Return the share of CMSIS-NN in a plan. Raises the exceptions of library_sources."""
    calls = _SourceWriter(model, plan, model.network.name, CMSIS_NN, scratch).cmsis_nn
    assert calls is not None
    return calls


class _SourceWriter:
    """Writes the C of a network: tables and schedule first, then ports and macros.

    network, plan: the network as C computes it, in signed integers, and its memory plan.
    tables, schedule: constants of the layers; tables of the scheduler.
    inputs, outputs, ports, interface, macros: the pieces of the C file that depend on these.
    """

    def __init__(
        self,
        model: Model,
        plan: StreamingPlan,
        name: str,
        kernels: str,
        scratch: ScratchLimit,
        package: Package = PLAIN,
    ) -> None:
        self._network_in_file, self._package = model.network, package
        self.cmsis_nn = CmsisNN(model.network, plan, scratch) if kernels == CMSIS_NN else None
        model = as_signed(executed_model(model, plan.rematerialised))
        require_weights(model)
        for stage in (stage for group in plan.groups for stage in group.stages):
            list(map(model.network.layer, stage.layers))  # raises for a plan of another network
        self.name, self.target = identifier(name), package.target
        self.network, self.plan = model.network, plan
        self._names = TensorNames(self.network, package.renamed)
        self._write_tables(model)
        if len(self.tables.sum_kinds) > 1 and not self.tables.weights_have_zeros:
            self._write_tables(model, sums_are_mixed=True)
        if self.cmsis_nn is not None:
            self.cmsis_nn.require_work(self.schedule.maxima.scratch * self.schedule.unit)
        self.streamed_input = None if plan.is_copied(0) else plan.groups[0].streamed_input
        memories = memory_parameters(self.name, plan.memories)
        taken = [*reserved(self.name), *memories]
        self.inputs = [self._port(layer, layer.name, taken) for layer in self.network.inputs]
        self.outputs = list(self._output_ports(taken))
        self.ports = LibraryPorts(
            library=self.name,
            inputs=self.inputs,
            outputs=self.outputs,
            halves_to_even=self.schedule.calls.is_single,
            in_integers=not has_floating_point(self.target),
        )
        self.interface = Interface(
            name=self.name,
            network=self.network,
            schedule=self.schedule,
            streamed_input=self.streamed_input,
            ports=self.ports,
        )
        self.macros = MacroWriter(
            interface=self.interface, cmsis_nn=self.cmsis_nn, target=self.target
        )

    def _write_tables(self, model: Model, *, sums_are_mixed: bool = False) -> None:
        """Write the tables of the network. sums_are_mixed: as for `Tables`."""
        self.tables = Tables(
            self.name,
            has_helium=has_helium(self.target),
            name_of=self._names.__getitem__,
            sums_are_mixed=sums_are_mixed,
        )
        self.schedule = Schedule(model, self.plan, self.tables, self.cmsis_nn)

    def _output_ports(self, taken: list[str]) -> Iterator[LibraryPort]:
        """Yield the ports of the outputs. A second port of a tensor gets a copy of it."""
        tensors_with_port = {layer.name for layer in self.network.inputs}
        for output in self.network.outputs:
            tensor = self._result(output)
            port = self._port(output, tensor, taken)
            is_copy = output.name != tensor and tensor in tensors_with_port
            tensors_with_port.add(tensor)
            yield replace(port, outside=None) if is_copy else port

    def _result(self, output: Layer) -> str:
        """The tensor of an output: its own if a stage writes it row by row, else its source."""
        return output.name if output.name in self.schedule.tensors.names else output.inputs[0]

    def _port(self, layer: Layer, tensor: str, taken: list[str]) -> LibraryPort:
        """The port of an input or output. tensor: that holds it. taken: parameters; adds one."""
        if tensor == self.streamed_input and layer.name != tensor:
            raise InvalidPlan(f"output {layer.name!r} is the input, which does not stay")
        taken.append(self._names.of_port(layer.name, taken))
        kind = "float" if layer.quantization is None else TYPES[layer.element.value]
        if layer.name in stored_at_run_time(self.network):
            raise UnsupportedOperator(
                f"output {layer.name!r}: no C code for integers whose scale depends on the frame at "
                "the end; end with real numbers"
            )
        tensors = self.schedule.tensors
        outside = tensors.outside.index(tensor) if tensor in tensors.outside else None
        in_file = self._network_in_file.layer(layer.name)
        is_unsigned = kind != "float" and in_file.element in SIGNED
        results = {self._result(output) for output in self.network.outputs}
        is_shifted = is_unsigned and can_change_in_place(self.plan, self.network, tensor, results)
        return LibraryPort(
            parameter=taken[-1],
            layer=layer.name,
            tensor=tensor,
            elements=layer.shape.elements,
            kind=TYPES[in_file.element.value] if is_shifted else kind,
            stored=stored_as(in_file if is_shifted else layer),
            unit=tensors.width_of(tensor),
            outside=outside,
            is_shifted=is_shifted,
            is_signed_outside=is_unsigned and not is_shifted,
        )

    def written(self) -> Written:
        """Return the C and its facts."""
        # The state has a counter for each stage of a group.
        counters = max(Counter(stage.group for stage in self.schedule.stages).values())
        wanted = self.tables.wanted | self.schedule.calls.real_tables.wanted
        files = {*self._files(), *REALS, *added_sources(), *CONVERSIONS}
        functions = frozenset().union(*(functions_in(name) for name in files))
        text = self._source()
        weights = weights_text(self.name, self.tables)
        folded = self.tables.folded if self.target is None else ()
        helium_bytes = sum(self.tables.arrays[symbol].nbytes for symbol in folded)
        header = HeaderWriter(self.interface, self.cmsis_nn, counters, self._package.version)
        written = Written(
            name=self.name,
            header=header.text(weights, text.functions),
            element=header.element,
            has_staging=self.schedule.can_stage,
            has_outside=bool(self.interface.field()),
            source="",
            text=text,
            weights=weights,
            weights_header=weights_header(self.name, self.tables),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            is_streamed=self.streamed_input is not None,
            keeps_state=bool(self.schedule.beginnings),
            has_integers=self.ports.has_integers,
            weight_bytes=sum(array.nbytes for array in self.tables.arrays.values()) - helium_bytes,
            helium_bytes=helium_bytes,
            state_bytes=self._state_bytes(counters),
            kernels=tuple(sorted(wanted & functions)),
            stages=tuple(stage.running.result for stage in self.schedule.stages),
            kept_rows=tuple(previous.shape.rows for previous, _ in self.network.variables),
            fresh_elements=fresh_elements(self.schedule.tensors),
            persistent_accumulators=tuple(persistent_accumulators(self.schedule.tensors)),
            memories=self.interface.memories,
            stack_bytes=self._stack_bytes(counters),
            cmsis_nn=self.cmsis_nn,
        )
        (with_kernels,) = with_shared_kernels((written,), self.target)
        return with_kernels

    def _stack_bytes(self, stages: int) -> int:
        """Upper bound on the stack on the core of the target, or on any core."""
        maxima = self.schedule.maxima
        moved = self.schedule.moved.stack_bytes(maxima.layers)
        moved += bytes_of_stages(maxima.ranges, maxima.layers, stages)
        moved += BLOCK_STACK_BYTES if self.schedule.write_buffers else 0
        if self.cmsis_nn is not None:
            return CMSIS_STACK_BYTES + moved
        return stack_bytes_of(self._network_in_file, self.target) + moved

    def _state_bytes(self, counters: int) -> int:
        """Upper bound on the bytes of the state; structures are padded."""
        scratch = self.schedule.maxima.scratch * self.schedule.unit
        if self.cmsis_nn is not None:
            scratch = max(self.cmsis_nn.scratch.values())
        return state_bytes_of(
            stages=counters,
            variables=len(self.network.variables),
            has_turns=bool(self.schedule.order.turns),
            scratch_bytes=scratch,
            addresses=self.schedule.tensors.pointer_count,
        )

    def _source(self) -> SourceText:
        """The C without kernels, and the kernels that it uses."""
        schedule = self.schedule
        switches = frozenset(self.macros.switches.items())
        structures = structures_of(self._files(), frozenset(name for name, on in switches if on))
        tables = schedule.text(structures)
        functions = short_lines(self.interface.definitions())
        scheduler = {self.macros.advance, "begin_group", *called(functions)}
        scheduler |= _used_of(
            {
                "as_tile": schedule.has_tiles,
                "store_blocks": schedule.write_buffers,
                "copy_weights": schedule.moved.lines,
            }
        )
        views = _used_of(
            {
                "as_tile": schedule.has_tiles,
                "in_block": schedule.write_buffers,
                "join_rows": schedule.joints,
            }
        )
        kernels = self.tables.wanted | views
        kernels |= {"tensor", "argument", "layer", "stage", "group", "step", "copy_elements"}
        kernels |= {port.copying for port in (*self.inputs, *self.outputs) if port.is_shifted}
        kernels |= _used_of(
            {
                self.macros.sweep: schedule.maxima.layers > 1,
                "reader": schedule.can_stage,
                "turns": schedule.order.turns,
                "duplicate": schedule.duplicates,
                "beginning": schedule.beginnings,
                "variable": schedule.beginnings,
                "joint": schedule.beginnings,
                "weights_copy": schedule.moved.lines,
            }
        )
        wanted_reals = schedule.calls.real_tables.wanted
        reals = frozenset(wanted_reals | views if wanted_reals else ())
        shared = shared_with_reals(reals) if reals else frozenset()
        kernels_of_scheduler = mentioned(used(scheduler, SCHEDULER, switches=switches))
        use = NeededKernels(
            elements=self._elements(),
            files=self._files(),
            wanted=frozenset(kernels | kernels_of_scheduler | shared),
            scheduler=tuple(sorted(scheduler)),
            reals=reals,
            conversions=frozenset(kernels),
            switches=switches,
        )
        definitions = [f'#include "{self.name}_weights.h"', *self.tables.definitions(structures)]
        definitions += schedule.moved.definitions()
        definitions += [STORE_BLOCKS] if schedule.write_buffers else []
        return SourceText(
            use=use,
            macros=self.macros.text(),
            tables="\n\n".join(filter(None, [*definitions, tables])),
            functions=functions,
        )

    def _elements(self) -> str:
        """The elements of the arena, as headers of kernels are named."""
        calls = self.schedule.calls
        if not calls.is_integer:
            return "float"
        return ("int16" if calls.is_short else "int8") + ("_single" if calls.is_single else "")

    def _files(self) -> tuple[str, ...]:
        """The C files that have kernels for the elements of the network."""
        if not self.schedule.calls.is_integer:
            return (*REALS, *added_sources())
        calls = self.schedule.calls
        if calls.is_short:
            return SHORT_SINGLES if calls.is_single else SHORTS
        if self.cmsis_nn is not None:
            return WITH_CMSIS_NN
        return SINGLES if calls.is_single else INTEGERS


def _used_of(names: Mapping[str, object]) -> set[str]:
    """Return the names of C that a library uses. names: with a value that is true where it does."""
    return {name for name, is_used in names.items() if is_used}


def weights_text(name: str, tables: Tables) -> str:
    """Return NAME_weights.c: all parameters."""
    pieces = [f'#include "{name}_weights.h"']
    for symbol, array in tables.arrays.items():
        kind = f"const {TYPES[array.dtype.name]} {symbol}[{len(array)}]"
        purposes = ", ".join(tables.purposes[symbol])
        if len(tables.purposes[symbol]) > 1:
            kind = f"{fill(f'/* {purposes} */', WIDTH, subsequent_indent='   ')}\n{kind}"
        text = f"{kind} = {{\n{wrapped(array_items(array))}\n}};"
        if symbol in tables.folded:
            text = f"#if {HELIUM.condition}\n{text}\n#endif"
        pieces.append(text)
    if any("INFINITY" in piece for piece in pieces):
        pieces[0] = f"#include <math.h>\n\n{pieces[0]}"
    return "\n\n".join(pieces) + "\n"


def weights_header(name: str, tables: Tables) -> str:
    """Return NAME_weights.h: the declarations of all parameters."""
    guard = f"{name.upper()}_WEIGHTS_H"
    lines = {
        symbol: f"extern const {TYPES[array.dtype.name]} {symbol}[{len(array)}];\n"
        for symbol, array in tables.arrays.items()
    }
    declarations = "".join(lines[symbol] for symbol in lines if symbol not in tables.folded)
    if folded := "".join(lines[symbol] for symbol in lines if symbol in tables.folded):
        declarations += f"#if {HELIUM.condition}\n{folded}#endif\n"
    return f"""/* Parameters of the network, for {name}.c and {name}_weights.c alone. */
#ifndef {guard}
#define {guard}

#include <stdint.h>

{declarations}
#endif
"""


def require_weights(model: Model) -> None:
    """Raise InvalidNetwork for a model without weights."""
    if model.weights is None:
        raise InvalidNetwork(
            f"network {model.network.name!r} has no weights to write; read its file with "
            "read_model(path), or take random_weights"
        )
