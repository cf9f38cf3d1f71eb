"""The texts of a library: header, source, weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cnn2csdf.network import Layer, Network
from cnn2csdf.quantized_layers import stored_as, stored_at_run_time
from cnn2csdf.weights import Model
from csdf.errors import InvalidNetwork, InvalidPlan, UnsupportedOperator
from planners.code.c_text import TYPES, Tables, array_items, identifier, unlike, wrapped
from planners.code.calls.cmsis_nn import ANY, TARGETS, CmsisNN, ScratchLimit
from planners.code.interface import Interface, memory_parameters, reserved
from planners.code.kernel_files import KernelFiles, KernelUse
from planners.code.layer_descriptor import TYPE, shared_with_reals
from planners.code.machines import (
    Target,
    has_floating_point,
    has_helium,
    helium_macros,
    require_target,
)
from planners.code.packaging import UNVERSIONED, version_macro
from planners.code.parts import (
    CMSIS_NN,
    COMMIT,
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
    as_real,
    comment,
    functions_in,
    mentioned,
    used,
)
from planners.code.ports import LibraryPort, Ports
from planners.code.schedule import Schedule
from planners.code.status import init_declared, status_declared, with_checksum
from planners.code.unsigned_as_signed import SIGNED, as_signed, can_change_in_place
from planners.plan.plan import Memory, StreamingPlan
from planners.plan.ram import CMSIS_STACK_BYTES, STACK_BYTES, state_bytes_of
from planners.plan.rematerialisation import worked_model
from planners.plan.weight_reads import GATHERED_ROW

BLOCK_STACK_BYTES = 160  # of store_blocks, which calls a kernel
REAL_LIMITS = """#define LEAST_OF_REALS (-INFINITY)
#define MOST_OF_REALS INFINITY
#define SLOTS_OF_REALS ((int32_t)(sizeof(real) / sizeof(slot)))
"""
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
    inputs: tuple[LibraryPort, ...]
    outputs: tuple[LibraryPort, ...]
    is_streamed: bool
    keeps_state: bool
    weight_bytes: int
    state_bytes: int
    kernels: tuple[str, ...]
    memories: tuple[str, ...] = ("arena",)  # parameters of NAME_init
    arrays: tuple[str, ...] = ("arena",)  # of programs, one for each memory
    stack_bytes: int = STACK_BYTES  # on a Cortex-M4, at most
    has_integers: bool = False  # at its ends, which stand for real numbers
    stages: tuple[str, ...] = ()  # their results, by number; none where they are not told
    kept_rows: tuple[int, ...] = ()  # of each variable, which lies as a ring
    kept_sums: tuple[tuple[int, int, int], ...] = ()  # as Schedule.kept_sums tells them
    cmsis_nn: CmsisNN | None = None  # where it computes what it can
    headers: Mapping[str, str] = field(default_factory=dict)  # of kernels, by file name
    use: KernelUse | None = None
    text: SourceText | None = None

    @property
    def whole_source(self) -> str:
        """The C of the library with the kernels that it includes."""
        return "\n".join([*self.headers.values(), self.source])


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """The C of a network without kernels: macros and types, tables, and the functions after them."""

    before: str
    tables: str
    behind: str


def with_shared_kernels(members: Sequence[Written], target: Target = None) -> tuple[Written, ...]:
    """Return libraries of one folder that include the same headers of kernels."""
    uses = {member.name: member.use for member in members if member.use is not None}
    if not uses:
        return tuple(members)
    files = KernelFiles(uses, target)
    return tuple(
        member
        if member.text is None
        else replace(member, headers=files.headers, source=_joined(member.name, member.text, files))
        for member in members
    )


def _joined(name: str, text: SourceText, files: KernelFiles) -> str:
    """The C of a network between the headers that it includes."""
    return "\n\n".join([
        text.before, files.before_tables(name), text.tables, files.behind_tables(), text.behind
    ])  # fmt: skip


def library_sources(
    model: Model,
    plan: StreamingPlan,
    name: str,
    kernels: str = OWN,
    scratch: ScratchLimit = ANY,
    *,
    target: str | None = None,
    version: str = UNVERSIONED,
) -> Written:
    """Return the C of a library for a model and a plan of its network.

    kernels: OWN or CMSIS_NN; scratch: limit on the scratch memory of CMSIS-NN. target: of
    machines.TARGETS, whose instructions the kernels may use. version: of the library.

    Raises UnsupportedOperator for a layer without a kernel, InvalidNetwork for a model
    without weights, InvalidPlan for a plan of another network.
    """
    require_target(target)
    return _SourceWriter(model, plan, name, kernels, scratch, target).written(version)


def cmsis_nn_of(model: Model, plan: StreamingPlan, scratch: ScratchLimit) -> CmsisNN:
    """Return the share of CMSIS-NN in a plan. Raises the exceptions of library_sources."""
    calls = _SourceWriter(model, plan, model.network.name, CMSIS_NN, scratch).cmsis_nn
    assert calls is not None
    return calls


class _SourceWriter:
    def __init__(
        self,
        model: Model,
        plan: StreamingPlan,
        name: str,
        kernels: str,
        scratch: ScratchLimit,
        target: str | None = None,
    ) -> None:
        self._given = model.network
        model = as_signed(worked_model(model, plan.rematerialised))
        _require_fit(model, plan)
        self.cmsis_nn = CmsisNN(self._given, plan, scratch) if kernels == CMSIS_NN else None
        self.name, self.target = identifier(name), target
        self.capitals = self.name.upper()
        self.network, self.plan = model.network, plan
        self.tables = Tables(self.name, has_helium=has_helium(target))
        self.schedule = Schedule(model, plan, self.tables, self.cmsis_nn)
        if self.cmsis_nn is not None:
            self.cmsis_nn.require_work(self.schedule.scratch * self.schedule.unit)
        self.streamed_input = None if plan.is_copied(0) else plan.groups[0].streamed_input
        memories = memory_parameters(self.name, plan.memories)
        taken = [*reserved(self.name), *memories]
        self._read = {layer.name for layer in self.network.inputs}
        self._written: set[str] = set()  # tensors with a port
        self._results = {self._result(output) for output in self.network.outputs}
        self.inputs = [self._port(layer, layer.name, taken) for layer in self.network.inputs]
        self.outputs = [
            self._port(output, self._result(output), taken) for output in self.network.outputs
        ]
        self.ports = Ports(
            library=self.name,
            inputs=self.inputs,
            outputs=self.outputs,
            halves_to_even=self.schedule.calls.is_single,
            in_integers=not has_floating_point(target),
        )
        self.interface = Interface(
            name=self.name,
            network=self.network,
            schedule=self.schedule,
            streamed_input=self.streamed_input,
            ports=self.ports,
        )

    def _result(self, output: Layer) -> str:
        """The tensor of an output: its own if a stage writes it row by row, else its source."""
        return output.name if output.name in self.schedule.tensors else output.inputs[0]

    def _port(self, layer: Layer, tensor: str, taken: list[str]) -> LibraryPort:
        if self.network.layer(tensor).is_input and tensor == self.streamed_input:
            if layer.name != tensor:
                raise InvalidPlan(f"output {layer.name!r} is the input, which does not stay")
        taken.append(unlike(layer.name, taken))
        kind = "float" if layer.quantization is None else TYPES[layer.element.value]
        if layer.name in stored_at_run_time(self.network):
            raise UnsupportedOperator(
                f"output {layer.name!r}: no C code for integers whose scale depends on the frame at "
                "the end; end with real numbers"
            )
        outside = self.schedule.outside.index(tensor) if tensor in self.schedule.outside else None
        in_file = self._given.layer(layer.name)
        is_unsigned = kind != "float" and in_file.element in SIGNED
        is_shifted = is_unsigned and can_change_in_place(
            self.plan, self.network, tensor, self._results
        )
        if layer.name != tensor and (tensor in self._written or tensor in self._read):
            outside = None  # a copy of that tensor
        self._written.add(tensor)
        return LibraryPort(
            parameter=taken[-1],
            layer=layer.name,
            tensor=tensor,
            elements=layer.shape.elements,
            kind=TYPES[in_file.element.value] if is_shifted else kind,
            stored=stored_as(in_file if is_shifted else layer),
            unit=self.schedule.width_of(tensor),
            outside=outside,
            is_shifted=is_shifted,
            is_signed_outside=is_unsigned and not is_shifted,
        )

    def written(self, version: str) -> Written:
        counters = max(
            sum(1 for stage in self.schedule.stages if stage.group == number)
            for number in range(len(self.plan.groups))
        )
        wanted = self.tables.wanted | self.schedule.calls.real_tables.wanted
        files = {*self._files(), *REALS, *added_sources(), *CONVERSIONS}
        functions = frozenset().union(*(functions_in(name) for name in files))
        use, text = self._source()
        written = Written(
            name=self.name,
            header=self._header(counters, version),
            source="",
            use=use,
            text=text,
            weights=weights_text(self.name, self.tables),
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            is_streamed=self.streamed_input is not None,
            keeps_state=bool(self.schedule.beginnings),
            has_integers=self.ports.has_integers,
            weight_bytes=sum(
                array.nbytes
                for symbol, array in self.tables.arrays.items()
                if symbol not in self.tables.folded
            ),
            state_bytes=self._state_bytes(counters),
            kernels=tuple(sorted(wanted & functions)),
            stages=tuple(stage.running.result for stage in self.schedule.stages),
            kept_rows=tuple(previous.shape.rows for previous, _ in self.network.variables),
            kept_sums=tuple(self.schedule.kept_sums()),
            memories=self.interface.memories,
            arrays=(
                tuple(f"memory_{memory}" for memory in self.interface.memories)
                if self.plan.memories
                else ("arena",)
            ),
            stack_bytes=self._stack_bytes(),
            cmsis_nn=self.cmsis_nn,
        )
        (with_kernels,) = with_shared_kernels((written,), self.target)
        return with_kernels

    def _stack_bytes(self) -> int:
        """On a Cortex-M4, at most."""
        moved = self.schedule.moved.stack_bytes(self.schedule.most_layers)
        moved += BLOCK_STACK_BYTES if self.schedule.write_buffers else 0
        return (STACK_BYTES if self.cmsis_nn is None else CMSIS_STACK_BYTES) + moved

    def _scratch(self) -> str:
        """C for the field of the state in which layers keep what they work with."""
        size = self.schedule.scratch * self.schedule.unit
        if self.cmsis_nn is not None:
            return f"    int32_t scratch[{self.capitals}_SCRATCH_BYTES / 4];\n"
        return f"    {self.name}_element scratch[{self.schedule.scratch}];\n" if size else ""

    def _state_bytes(self, counters: int) -> int:
        """At most; structures are padded."""
        scratch = self.schedule.scratch * self.schedule.unit
        if self.cmsis_nn is not None:
            scratch = max(self.cmsis_nn.scratch.values())
        return state_bytes_of(
            stages=counters,
            variables=len(self.network.variables),
            has_turns=bool(self.schedule.order.turns),
            scratch_bytes=scratch,
            addresses=len(self.schedule.outside) + len(self.schedule.splits),
        )

    def _element(self) -> str:
        return (
            ("int16_t" if self.schedule.calls.is_short else "int8_t")
            if self.schedule.calls.is_integer
            else "float"
        )

    def _header(self, counters: int, version: str) -> str:
        name, capitals = self.name, self.capitals
        scratch = self._scratch()
        outside = self.interface.field()
        turn = "    uint16_t turn, place, round;\n" if self.schedule.order.turns else ""
        variables = len(self.network.variables)
        turn += f"    uint16_t oldest[{variables}];\n" if variables else ""
        text = f"""/* {comment(self.network.name)}: inference in {self.plan.arena_bytes} bytes. */
#ifndef {capitals}_H
#define {capitals}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{version_macro(name, version)}
{self._memories()}
{self.ports.macros()}{self._scratch_declared()}
typedef {self._element()} {name}_element;

{status_declared(name)}

/* The execution state. The fields are private. */
typedef struct {{
    {name}_element *arena;
    uint16_t library;
    int16_t staged;
    int32_t staged_offset;
    uint16_t is_bottom_staged, staged_first, staged_end, group, last;
    uint16_t fired[{counters}];
{turn}{scratch}{outside}}} {name}_state;

/* {self._begin_with()}, in use as long as the
   state. Each instance has its own, and a state of its own. */
{init_declared(name, self.interface.memories)}
{self.interface.kept_declared()}
/* Work a frame. Tensors lie row by row, in a row column by column, the channels of a place side by
   side; tensors that are no feature maps as they are.{self._shifted()} */
{name}_status {name}_{self.interface.verb}({self.interface.parameters()});

/* An output in the arena, by its number from 0 on, between a frame and the next
   one.{self._anywhere()} */
const void *{name}_output(const {name}_state *state, int number);
"""
        text += self.ports.declarations() + self.interface.declarations()
        text += f"""
{self._copy_declared()}#ifdef {capitals}_PROFILE
/* For you to define: called before and after each firing of a stage, by the stage's number. */
void {name}_profile_begin(int stage);
void {name}_profile_end(int stage);
#endif
#ifdef {capitals}_YIELD
/* For you to define: called after each firing of a stage, to feed a watchdog or to let other
   tasks run. */
void {name}_yield(void);
#endif
{self._blocks_declared()}
#ifdef __cplusplus
}}
#endif

#endif
"""
        return with_checksum(text)

    def _scratch_declared(self) -> str:
        """C for the bytes that CMSIS-NN works with; empty without it."""
        if self.cmsis_nn is None:
            return ""
        lines = [f"/* What CMSIS-NN (commit {COMMIT[:8]}) works with, in the state. */"]
        word = "#if"
        for target, condition in TARGETS.items():
            lines.append(f"{word} {condition}" if condition else "#else")
            lines.append(f"#define {self.capitals}_SCRATCH_BYTES {self.cmsis_nn.scratch[target]}")
            word = "#elif"
        return "\n".join(["", *lines, "#endif"])

    def _blocks_declared(self) -> str:
        """C that declares the hook for blocks of rows; empty without CMSIS-NN."""
        if self.cmsis_nn is None:
            return ""
        return f"""
#ifdef {self.capitals}_BLOCKS
/* For you to define: called behind each block of rows of a layer that CMSIS-NN computes: 1 where it
   did, 0 where this library did, as rows did not lie one behind the other. */
void {self.name}_block(int by_cmsis_nn);
#endif
"""

    def _memories(self) -> str:
        """C for the sizes of the arena, or of the memories, and where arrays for them lie."""
        capitals, plan = self.capitals, self.plan
        declarations = []
        memories = plan.memories or (Memory(name="arena", size=plan.arena_bytes),)
        for memory, word in zip(memories, self.interface.memories, strict=True):
            named = f"{capitals}_{word.upper()}"
            elements = max(self.schedule.elements(memory.size), 1)
            declarations += [
                f"#define {named}_BYTES {memory.size}",
                f"#define {named}_ELEMENTS {elements}",
            ]
        for memory, word in zip(memories[1:], self.interface.memories[1:], strict=True):
            platforms = ""
            if memory.is_slow:
                platforms = f"""if defined(ESP_PLATFORM)
#include "esp_attr.h"
#define {capitals}_IN_{word.upper()} EXT_RAM_BSS_ATTR
#elif defined(__ZEPHYR__)
#include <zephyr/linker/section_tags.h>
#define {capitals}_IN_{word.upper()} Z_GENERIC_SECTION(.ext_ram.bss)
#el"""
            section = f".{'slow' if memory.is_slow else 'fast'}.{identifier(memory.name)}"
            declarations.append(f"""
/* Put behind the name of the array for {comment(memory.name)}; defined before, it is yours. */
#ifndef {capitals}_IN_{word.upper()}
#{platforms}if defined({capitals}_SECTIONS) || defined(ON_TARGET) /* a linker script has it */
#define {capitals}_IN_{word.upper()} __attribute__((section("{section}")))
#else
#define {capitals}_IN_{word.upper()}
#endif
#endif""")
        return "\n".join(declarations)

    def _begin_with(self) -> str:
        """Return the begin of a sentence on what NAME_init is given."""
        sizes = [
            f"{memory} of {self.capitals}_{memory.upper()}_ELEMENTS"
            for memory in self.interface.memories
        ]
        return f"Begin with memory: {' and '.join(sizes)} elements"

    def _copy_declared(self) -> str:
        """C that declares the hook for copies, where the plan has some."""
        name, capitals = self.name, self.capitals
        text = ""
        if self.schedule.has_copies or self.schedule.moved.lines:
            text = f"""
#ifdef {capitals}_COPY
/* For you to define: copy bytes that do not overlap, by DMA for example; they are there when it
   returns. */
void {name}_copy(void *to, const void *from, uint32_t bytes);
#endif
"""
        if self.schedule.moved.is_ahead:
            text += f"""
#ifdef {capitals}_COPY_AHEAD
/* For you to define: begin to copy bytes that do not overlap, by DMA, while layers compute; and wait
   until all copies that have begun are there. */
void {name}_begin_copy(void *to, const void *from, uint32_t bytes);
void {name}_end_copies(void);
#endif
"""
        return text

    def _anywhere(self) -> str:
        """Return a sentence on numbers of more bytes than an element of the arena, if there are any."""
        if not any(port.unit > 1 for port in (*self.inputs, *self.outputs)):
            return ""
        return "\n   Numbers of several bytes begin at any byte there: copy them with memcpy."

    def _shifted(self) -> str:
        """Return a sentence on unsigned integers at the ends; none where there are none."""
        ports = (*self.inputs, *self.outputs)
        names = [port.parameter for port in ports if port.is_signed_outside]
        bits = 16 if self.schedule.calls.is_short else 8
        verb = "are" if len(names) > 1 else "is"
        return (
            f"\n   uint{bits} in the file, int{bits} here, which is the value minus {2 ** (bits - 1)}, "
            f"{verb} {', '.join(names)}."
            if names
            else ""
        )

    def _source(self) -> tuple[KernelUse, SourceText]:
        """The kernels that the C uses, and the rest of it."""
        tables = self.schedule.text()
        wanted = self.tables.wanted | {"tensor", "argument", "layer", "stage", "reader", "group"}
        wanted |= {"step", self._sweep(), "turns", "duplicate"}
        kept = []
        if self.schedule.beginnings:
            wanted |= {"beginning", "variable", "joint"}
            kept = ["begin_kept", "save_kept", "restore_kept"]
            kept += ["take_rows_over"] if self.network.variables else []
            wanted |= {"join_rows"} if self.schedule.joints else set()
        copies = ["give_copies"] if self.schedule.duplicates else []
        tiles = ["as_tile", "work_tiles"] if self.schedule.has_tiles else []
        wanted.update(tiles)
        blocks = ["store_blocks"] if self.schedule.write_buffers else []
        wanted |= {"in_block"} if blocks else set()
        moved = ["copy_weights", "with_copies"] if self.schedule.moved.lines else []
        wanted |= {"weights_copy"} if moved else set()
        ports = (*self.inputs, *self.outputs)
        wanted |= {"copy_elements", *(port.copying for port in ports if port.is_shifted)}
        functions = [self._advance(), "begin_group", *copies, *tiles, *blocks, *kept, *moved]
        scheduler = used(functions, SCHEDULER)
        reals = self._reals()
        definitions = ["\n".join(externs(self.tables)), *self.tables.definitions]
        definitions += self.schedule.moved.definitions()
        definitions += [STORE_BLOCKS] if blocks else []
        shared = shared_with_reals(reals) if reals else frozenset()
        use = KernelUse(
            elements=self._elements(),
            files=self._files(),
            wanted=frozenset(wanted | mentioned(scheduler) | shared),
            scheduler=tuple(functions),
            reals=reals,
            conversions=frozenset(wanted),
        )
        text = SourceText(
            before=self._prologue(),
            tables="\n\n".join(filter(None, [*definitions, tables])),
            behind=self.interface.definitions(),
        )
        return use, text

    def _reals(self) -> frozenset[str]:
        """Names of kernels for real layers among integers."""
        wanted = self.schedule.calls.real_tables.wanted
        if not wanted:
            return frozenset()
        more = {"as_tile"} if self.schedule.has_tiles else set()
        more |= {"in_block"} if self.schedule.write_buffers else set()
        return frozenset(wanted | more | ({"join_rows"} if self.schedule.joints else set()))

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

    def _limits(self) -> tuple[str, str]:
        """The least and the largest element, in C."""
        if not self.schedule.calls.is_integer:
            return "-INFINITY", "INFINITY"
        return ("-32768", "32767") if self.schedule.calls.is_short else ("-128", "127")

    def _sweep(self) -> str:
        """The C function that iterates over the columns of a stage."""
        return "sweep_parts" if self.schedule.has_parts else "sweep"

    def _advance(self) -> str:
        """The C function that continues a frame."""
        return "advance_in_order" if self.schedule.order.turns else "advance"

    def _prologue(self) -> str:
        name, capitals, schedule = self.name, self.capitals, self.schedule
        has_reals = schedule.calls.has_reals
        helium = helium_macros(self.target) if schedule.calls.is_integer else ""
        variables = len(self.network.variables)
        included = "" if self.cmsis_nn is None else "#include <arm_nnfunctions.h>\n"
        # Assembly for Cortex-M reads weights as stored, and subtracts no zero points from them.
        is_plain = self.tables.factors_are_small and not self.tables.weights_have_zeros
        has_left = schedule.has_tiles or bool(schedule.write_buffers)
        forgets = "((void)0)"
        if variables:
            forgets = "memset((state)->oldest, 0, sizeof (state)->oldest)"
        return f"""#include <math.h>
#include <stddef.h>
#include <string.h>
{included}
#include "{name}.h"

typedef {name}_element slot; /* of the arena */
typedef slot element;
{TYPE if has_reals else ""}typedef {name}_state instance;

{helium}#define LEAST ({self._limits()[0]})
#define MOST ({self._limits()[1]})
#define SLOTS 1
#define WEIGHTS_HAVE_ZEROS {int(self.tables.weights_have_zeros)}
#define SUMS_ROUND_ONCE {int(self.tables.sums_round_once)}
#define FACTORS_ARE_SMALL {int(is_plain)}
#define SUMS_ARE_NARROW {int(is_plain and self.tables.sums_are_narrow)}
{REAL_LIMITS if has_reals else ""}#define GROUPS {len(self.plan.groups)}
#define MOST_TAPS {schedule.most_taps}
#define MOST_GATHERED {schedule.most_gathered}
#define FEW {GATHERED_ROW}
#define MOST_RANGES {schedule.most_ranges}
#define MOST_LAYERS {schedule.most_layers}
#define MOST_NEIGHBOURS {schedule.most_neighbours}
#define SCRATCH(state) {self._scratch_at()}
#define SWEEP {self._sweep()}
#define OUTSIDE(state) {"(state)->outside" if self.interface.field() else "NULL"}
#define BASE(from, tensor) {self._base()}
#define AT(from, offset) {self._at()}
#define ADVANCE {self._advance()}
#define TAKE_ROW(to, from, count) {self._take_row()}
#define CAN_STAGE {0 if schedule.order.turns else 1}
#define TURNS {len(schedule.order.turns)}
#define DUPLICATES {schedule.duplicates}
#define GIVE_COPIES(run) {"give_copies(run)" if schedule.duplicates else "((void)0)"}
#define JOINTS {schedule.joints}
#define JOINT_TABLE {"joints" if schedule.joints else "NULL"}
{self._joins()}
#define VARIABLES {variables}
#define OLDEST(state) {"(state)->oldest" if variables else "NULL"}
#define FORGET_OLDEST(state) {forgets}
#define TAKE_OVER(state) {"take_rows_over(state)" if variables else "((void)0)"}
#define BEGINNINGS {len(schedule.beginnings)}
#define HAS_COPIES {int(schedule.has_copies)}
#define HAS_TILES {int(schedule.has_tiles)}
#define FROM_LEFT(view, column) {"((column) - (view)->left)" if has_left else "(column)"}
#define WORK_TILES(run) {"work_tiles(run)" if schedule.has_tiles else "((void)0)"}
{self._as_tile()}
#define BEGIN_ORDER(state) {self._begin_order()}

{self._row_copies()}{self._moves()}
#ifdef {capitals}_PROFILE
#define PROFILE_BEGIN(stage) {name}_profile_begin(stage)
#define PROFILE_END(stage) {name}_profile_end(stage)
#else
#define PROFILE_BEGIN(stage) ((void)0)
#define PROFILE_END(stage) ((void)0)
#endif
#ifdef {capitals}_YIELD
#define YIELD() {name}_yield()
#else
#define YIELD() ((void)0)
#endif{self._counts()}"""

    def _take_row(self) -> str:
        """C that copies a row of the caller into the arena."""
        streamed = [port for port in self.inputs if port.layer == self.streamed_input]
        shifted = [port for port in streamed if port.is_shifted]
        if not shifted:
            return "copy_elements(to, from, count)"
        elements = "count" if shifted[0].unit == 1 else f"(count) / {shifted[0].unit}"
        return f"{shifted[0].copying}(to, from, {elements})"

    def _scratch_at(self) -> str:
        """C for where layers keep what they work with."""
        if self.cmsis_nn is not None:
            size = f"#define SCRATCH_BYTES {self.capitals}_SCRATCH_BYTES"
            return f"((slot *)(void *)(state)->scratch)\n{size}"
        return "(state)->scratch" if self.schedule.scratch else "NULL"

    def _counts(self) -> str:
        """C that counts blocks; empty without CMSIS-NN."""
        if self.cmsis_nn is None:
            return ""
        return f"""
#ifdef {self.capitals}_BLOCKS
#define COUNT_BLOCK(by_cmsis_nn) {self.name}_block(by_cmsis_nn)
#else
#define COUNT_BLOCK(by_cmsis_nn) ((void)0)
#endif"""

    def _joins(self) -> str:
        """C that joins a ring and new rows to a window, or views a block, for each kind of view."""
        named = "in_block" if self.schedule.write_buffers else "join_rows"
        kinds = {"JOIN": named}
        if self.schedule.calls.has_reals:
            kinds["JOIN_OF_REALS"] = as_real(named)
        is_used = self.schedule.joints or self.schedule.write_buffers
        text = "\n".join(
            f"#define {macro}(run, tensor, view) "
            + (f"{function}(run, tensor, view)" if is_used else "((void)0)")
            for macro, function in kinds.items()
        )
        if not self.schedule.write_buffers:
            return text
        parts = "((const sliced *)(run)->stage->layers[0].parameters)->parts"
        is_last = f"((run)->stage->course != BY_PARTS || (run)->part + 1 == {parts})"
        return f"{text}\n#define IS_LAST_PART(run) {is_last if self.schedule.has_parts else 1}"

    def _as_tile(self) -> str:
        """C that makes a view of a strip the view of a tile, for each kind of view."""
        kinds = {"AS_TILE": "as_tile"}
        if self.schedule.calls.has_reals:
            kinds["AS_TILE_OF_REALS"] = as_real("as_tile")
        has_tiles = self.schedule.has_tiles
        return "\n".join(
            f"#define {macro}(run, layer, view) "
            + (f"{function}(run, layer, view)" if has_tiles else "((void)0)")
            for macro, function in kinds.items()
        )

    def _begin_order(self) -> str:
        if not self.schedule.order.turns:
            return "((void)0)"
        return "((state)->turn = (state)->place = (state)->round = 0)"

    def _base(self) -> str:
        """C for where a tensor begins, of a run or a state."""
        if self.schedule.splits:
            return "AT(from, (tensor)->offset)"
        if not self.schedule.outside:
            return "((from)->arena + (tensor)->offset)"
        return """\\
    ((tensor)->offset < 0 ? (from)->outside[-1 - (tensor)->offset] \\
                          : (from)->arena + (tensor)->offset)"""

    def _at(self) -> str:
        """Return C for the address of an arena offset, in whichever memory contains it."""
        bases = ["(from)->arena + (offset)"]
        for number, split in enumerate(self.schedule.splits):
            bases.append(f"(from)->outside[{number}] + ((offset) - {split})")
        text = bases.pop()
        for split, base in zip(self.schedule.splits[::-1], bases[::-1], strict=True):
            text = f"((offset) < {split} ? {base} : {text})"
        return text if bases else f"({text})"

    def _row_copies(self) -> str:
        """Return C that copies a row between buffers, by the hook of the caller if declared."""
        core = "#define COPY_ROW(to, from, count) copy_elements(to, from, count)\n"
        if not self.schedule.has_copies:
            return core
        count = "(uint32_t)((size_t)(count) * sizeof(slot))"
        return f"""#ifdef {self.capitals}_COPY
#define COPY_ROW(to, from, count) {self.name}_copy(to, from, {count})
#else
{core}#endif
"""

    def _moves(self) -> str:
        """C that copies weights and finds them, where some are moved."""
        name, capitals, moved = self.name, self.capitals, self.schedule.moved
        if not moved.lines:
            return """
#define COPY_WEIGHTS(state, group) ((void)0)
#define FIND_COPIES(state, stage) ((void)0)
"""
        wait = """#define COPY_AHEAD(to, from, bytes) COPY_BYTES(to, from, bytes)
#define COPY_WEIGHTS(state, group) copy_weights(state, group)
"""
        if moved.is_ahead:
            wait = f"""#ifdef {capitals}_COPY_AHEAD
#define COPY_AHEAD(to, from, bytes) {name}_begin_copy(to, from, (uint32_t)(bytes))
#define COPY_WEIGHTS(state, group) ({name}_end_copies(), copy_weights(state, group))
#else
{wait}#endif
"""
        return f"""
#define MOVED {len(moved.lines)}
#define FIND_COPIES(state, stage_at) \\
    stage own_stage; \\
    layer own_layers[MOST_LAYERS]; \\
    movable own_numbers[{moved.most}]; \\
    s = with_copies(state, stage_at, &own_stage, own_layers, own_numbers)
#ifdef {capitals}_COPY
#define COPY_BYTES(to, from, bytes) {name}_copy(to, from, (uint32_t)(bytes))
#else
#define COPY_BYTES(to, from, bytes) memcpy(to, from, (size_t)(bytes))
#endif
{wait}"""


def weights_text(name: str, tables: Tables) -> str:
    """Return NAME_weights.c: all parameters."""
    pieces = [f'#include "{name}.h"']
    for symbol, array in tables.arrays.items():
        kind = f"const {TYPES[array.dtype.name]} {symbol}[{len(array)}]"
        items = array_items(array)
        text = f"extern {kind};\n{kind} = {{\n{wrapped(items)}\n}};"
        if symbol in tables.folded:
            text = f"#if defined(__ARM_FEATURE_MVE)\n{text}\n#endif"
        pieces.append(text)
    if any("INFINITY" in piece for piece in pieces):
        pieces[0] = f"#include <math.h>\n\n{pieces[0]}"
    return "\n\n".join(pieces) + "\n"


def externs(tables: Tables) -> list[str]:
    """Return the declarations of all parameters."""
    return [
        f"extern const {TYPES[array.dtype.name]} {symbol}[{len(array)}];"
        for symbol, array in tables.arrays.items()
    ]


def _require_fit(model: Model, plan: StreamingPlan) -> None:
    network: Network = model.network
    if model.weights is None:
        raise InvalidNetwork(
            f"network {network.name!r} has no weights to write; read its file with "
            "read_model(path), or take random_weights"
        )
    for group in plan.groups:
        for stage in group.stages:
            for name in stage.stage.layers:
                network.layer(name)
