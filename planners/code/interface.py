"""C interface of a library: the functions that copy inputs, execute frames, and copy outputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import indent

from cnn2csdf.network import Network
from planners.code.c_text import MACROS, unlike
from planners.code.ports import LibraryPort, LibraryPorts
from planners.code.schedule import Schedule
from planners.code.status import checked_function, checks_defined, init_defined, refuse
from planners.plan.plan import Memory

# Identifiers of the functions that this module writes: a parameter with such a name would hide them.
WORDS = (
    "advance", "advance_in_order", "begin_frame", "bytes", "checksum_of",
    "copy_shifted_bytes", "copy_shifted_halves", "dequantised", "element", "end_frame", "header",
    "int16_t", "int32_t", "int64_t", "int8_t", "memcmp", "memcpy", "number", "quantised", "row",
    "size_t", "state", "state_bytes", "state_status", "status", "store_bytes", "tensor_in",
    "uint16_t", "uint32_t", "uint8_t", "uintptr_t",
)  # fmt: skip
# Names of functions and variables of a library, after the name of the library and an underscore.
SYMBOLS = (
    "begin", "begin_copy", "block", "copy", "dequantize_output", "element", "end_copies", "init",
    "init_checked", "input", "invoke", "output", "profile_begin", "profile_end", "push_row",
    "quantize_input", "reset", "restore", "results", "run", "save", "state", "status", "step",
    "test", "yield",
)  # fmt: skip
# Two words end a saved state: the checksum of the library, and that of all bytes before.
WORD_BYTES = 4
# Of a library, in macros that a port of that name would define again: NAME_ARENA_ELEMENTS, and the
# status NAME_WRONG_NUMBER beside the NAME_INPUT_NUMBER of each input.
MACRO_STEMS = ("arena", "kept", "saved", "scratch", "wrong")


def reserved(library: str) -> tuple[str, ...]:
    """Return the identifiers that no parameter of a library may have."""
    return (*WORDS, *sorted(MACROS), *MACRO_STEMS, *(f"{library}_{symbol}" for symbol in SYMBOLS))


def memory_parameters(library: str, memories: Sequence[Memory]) -> tuple[str, ...]:
    """Return the parameters of NAME_init for memories: the arena, or each memory by its name."""
    taken = list(reserved(library))
    for memory in memories:
        taken.append(unlike(memory.name, taken))
    return tuple(taken[-len(memories) :]) if memories else ("arena",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """The C interface of a library for whole frames, or for frames row by row.

    streamed_input: the input that arrives row by row, if any.
    """

    name: str
    network: Network
    schedule: Schedule
    streamed_input: str | None
    ports: LibraryPorts

    @property
    def inputs(self) -> Sequence[LibraryPort]:
        """The inputs of the library."""
        return self.ports.inputs

    @property
    def outputs(self) -> Sequence[LibraryPort]:
        """The outputs of the library."""
        return self.ports.outputs

    def field(self) -> str:
        """Return the field of the state for tensors in memory of the caller, or for slow memory."""
        count = self.schedule.tensors.pointer_count
        return f"    {self.name}_element *outside[{count}];\n" if count else ""

    @property
    def verb(self) -> str:
        """The verb in the name of the function that executes a frame: `invoke` with a state."""
        return "invoke" if self.schedule.beginnings else "run"

    @property
    def _saved_bytes(self) -> int:
        """Size of a saved state: persistent bytes of the arena, an index for each variable, checksums.

        The index refers to the oldest row in the ring of the variable.
        """
        return self.schedule.plan.kept_bytes + 2 * len(self.network.variables) + 2 * WORD_BYTES

    @property
    def memories(self) -> tuple[str, ...]:
        """The parameters of NAME_init for memories: the arena, or each memory by its name."""
        return memory_parameters(self.name, self.schedule.plan.memories)

    def kept_declared(self) -> str:
        """Return the declarations for state between frames; empty for a stateless library."""
        if not self.schedule.beginnings:
            return ""
        name, capitals = self.name, self.name.upper()
        return f"""
/* Sizes in bytes: of the part of the arena that is retained between frames, and of a saved state. */
#define {capitals}_KEPT_BYTES {self.schedule.plan.kept_bytes}
#define {capitals}_SAVED_BYTES {self._saved_bytes}

/* Save the retained part to your memory, between frames; restore it, in this instance or another, also
   instead of a frame in progress. bytes: size of your memory; {capitals}_TOO_SMALL for fewer than
   {capitals}_SAVED_BYTES. {capitals}_WRONG_STATE for a state saved by another library or version,
   {capitals}_CORRUPT for other bytes than {name}_save wrote: a CRC-32, which proves no origin. */
{name}_status {name}_save(const {name}_state *state, void *to, size_t bytes);
{name}_status {name}_restore({name}_state *state, const void *from, size_t bytes);
"""

    def reset_declared(self) -> str:
        """Return the declaration of NAME_reset."""
        name, kept = self.name, ""
        if self.schedule.beginnings:
            kept = """ What is retained between frames
   gets the initial values of the file, since such a frame has updated a part of it."""
        return f"""/* Give up the frame in progress, if any: the next call begins a frame.{kept} */
{name}_status {name}_reset({name}_state *state);"""

    def _state_functions(self) -> str:
        """C of NAME_reset, and of NAME_save and NAME_restore of a library with state."""
        reset = f"{self._wait_for_copies_c}{self._reset_kept_c}    end_frame(state);\n"
        functions = ["", checked_function(self.name, "reset", "instance *state", reset)]
        if self.schedule.beginnings:
            functions += [self._save_function(), self._restore_function()]
        return "\n".join(functions)

    def _save_function(self) -> str:
        """C of NAME_save: the persistent bytes, then the checksums of the library and of all bytes."""
        library_at, checksum_at = self._checksum_offsets
        header = f"{self.name.upper()}_HEADER"
        statements = f"""    save_kept(state, to);
    store_bytes(&((uint8_t *)to)[{library_at}], {header}, {WORD_BYTES});
    store_bytes(&((uint8_t *)to)[{checksum_at}], checksum_of(to, {checksum_at}), {WORD_BYTES});
"""
        refused = self._refuse_memory_c("to") + self._refuse_busy_c
        parameters = "const instance *state, void *to, size_t bytes"
        return checked_function(self.name, "save", parameters, statements, refused)

    def _restore_function(self) -> str:
        """C of NAME_restore, which compares both checksums of the saved state first."""
        capitals, (library_at, checksum_at) = self.name.upper(), self._checksum_offsets
        refused = f"""{self._refuse_memory_c("from")}#ifndef {capitals}_UNCHECKED
    if (status == {capitals}_OK) {{
        uint8_t words[{2 * WORD_BYTES}];
        const uint8_t *saved = &((const uint8_t *)from)[{library_at}];
        store_bytes(words, {capitals}_HEADER, {WORD_BYTES});
        store_bytes(&words[{WORD_BYTES}], checksum_of(from, {checksum_at}), {WORD_BYTES});
        if (memcmp(saved, words, {WORD_BYTES}) != 0) {{
            status = {capitals}_WRONG_STATE;
        }} else if (memcmp(&saved[{WORD_BYTES}], &words[{WORD_BYTES}], {WORD_BYTES}) != 0) {{
            status = {capitals}_CORRUPT;
        }} else {{
            /* as {self.name}_save wrote it */
        }}
    }}
#endif
"""
        statements = (
            f"{self._wait_for_copies_c}    restore_kept(state, from);\n    end_frame(state);\n"
        )
        parameters = "instance *state, const void *from, size_t bytes"
        return checked_function(self.name, "restore", parameters, statements, refused)

    @property
    def _checksum_offsets(self) -> tuple[int, int]:
        """The bytes of a saved state where the two checksums begin: of the library, of all bytes."""
        return self._saved_bytes - 2 * WORD_BYTES, self._saved_bytes - WORD_BYTES

    def _refuse_memory_c(self, parameter: str) -> str:
        """C that refuses memory for a saved state that is NULL or too small."""
        capitals = self.name.upper()
        return f"""{refuse(self.name, f"IS_MISSING({parameter})", "NULL_POINTER")}\
#ifdef {capitals}_UNCHECKED
    (void)bytes;
#else
{refuse(self.name, f"(bytes < {capitals}_SAVED_BYTES)", "TOO_SMALL")}#endif
"""

    @property
    def _wait_for_copies_c(self) -> str:
        """C that waits for copies of weights into the arena; empty if none are copied ahead."""
        if not self.schedule.moved.copies_ahead:
            return ""
        return f"""#ifdef {self.name.upper()}_COPY_AHEAD
    {self.name}_end_copies();
#endif
"""

    @property
    def _reset_kept_c(self) -> str:
        """C that gives the state between frames its initial values; empty for a stateless library."""
        return "    reset_kept(state);\n" if self.schedule.beginnings else ""

    @property
    def _refuse_busy_c(self) -> str:
        """C that refuses a call while a frame is in progress."""
        return refuse(self.name, "IS_BUSY(state)", "BUSY")

    @property
    def _refuse_hook_c(self) -> str:
        """C that refuses to continue a frame from its own hook."""
        refused = refuse(self.name, "IS_IN_HOOK(state)", "BUSY")
        return f"#ifdef {self.name.upper()}_YIELD\n{refused}#endif\n"

    def frame_parameters(self) -> str:
        """Return the parameters of the function that executes a frame."""
        return self.parameters(self.inputs, self.outputs)

    def parameters(self, inputs: Iterable[LibraryPort], outputs: Iterable[LibraryPort]) -> str:
        """Return the parameters of a function: the state, then ports."""
        listed = [f"{self.name}_state *state"]
        listed += [f"const {port.kind} *{port.parameter}" for port in inputs]
        listed += [f"{port.kind} *{port.parameter}" for port in outputs]
        return ", ".join(listed)

    def declarations(self) -> str:
        """Return the declarations that depend on whether the input is streamed."""
        name, capitals = self.name, self.name.upper()
        if self.streamed_input is None:
            return f"""
/* Address of an input in the arena, number from 0 on. A frame written there, after the frame before,
   is not copied: pass this address to {name}_{self.verb} or {name}_begin.
   NULL for an input outside of the arena, for a wrong number or state, and while a frame is in
   progress. */
void *{name}_input({name}_state *state, int number);

/* A frame in steps, for cooperative scheduling: {name}_begin copies the inputs; each {name}_step
   executes one group of layers, and returns {capitals}_DONE after the last. One group may take most
   of a frame: -D{capitals}_YIELD calls a function after each firing. The outputs are then at
   {name}_output. Until then the frame is in progress: functions that need a complete frame
   return {capitals}_BUSY. {name}_step returns {capitals}_NO_FRAME if no frame is in progress. */
{name}_status {name}_begin({self.parameters(self.inputs, self._outside_outputs())});
{name}_status {name}_step({name}_state *state);
"""
        rows = self.network.layer(self.streamed_input).shape
        return f"""
#define {capitals}_ROWS {rows.rows}
#define {capitals}_ROW_ELEMENTS {rows.row_elements}
{self._results_declared()}
/* Process the next row of the input, {capitals}_ROW_ELEMENTS elements. {capitals}_DONE after the last
   row of a frame: the outputs are valid until the next row. {capitals}_OK before: the frame is in
   progress, and functions that need a complete frame return {capitals}_BUSY. */
{name}_status {name}_push_row({name}_state *state, const {self.inputs[0].kind} *row);
"""

    def definitions(self) -> str:
        """Return the functions."""
        name, numbers = self.name, self._numbers(self.outputs)
        resets = "".join(
            f"    state->outside[{number}] = {memory};\n"
            for number, memory in enumerate(self.memories[1:])
        )
        resets += "".join(
            f"    state->outside[{port.outside}] = NULL;\n"
            for port in (*self.inputs, *self.outputs)
            if port.outside is not None
        )
        resets += "    copy_weights(state, -1);\n" if self.schedule.moved.copies_at_init else ""
        resets += self._reset_kept_c
        body = f"    state->arena = {self.memories[0]};\n{resets}    end_frame(state);\n"
        is_wide = not self.schedule.calls.is_integer or self.schedule.calls.is_short
        init = init_defined(name, self.memories, body, is_wide=is_wide)
        text = f"""{checks_defined(name)}

#ifdef {name.upper()}_UNCHECKED
#define IS_BUSY(state) 0
#define IS_IDLE(state) 0
#else
#define IS_BUSY(state) ((int32_t)(state)->group != GROUPS)
#define IS_IDLE(state) ((int32_t)(state)->group == GROUPS)
#endif
#ifdef {name.upper()}_YIELD
#define IS_IN_HOOK(state) (((state)->group & IN_HOOK) != 0U)
#endif

static element *tensor_in(const instance *state, int32_t number)
{{
    return BASE(state, &tensors[number]);
}}

static void begin_frame(instance *state)
{{
    state->group = 0;
    begin_group(state);
}}

/* No frame is in progress. */
static void end_frame(instance *state)
{{
    state->group = GROUPS;
}}
{self._state_functions()}
{init}

const void *{name}_output(const instance *state, int number)
{{
{self._tensor_address_c(numbers)}}}
"""
        text += self.ports.definitions()
        return text + (
            self._whole_frame_functions()
            if self.streamed_input is None
            else self._row_by_row_functions()
        )

    def _numbers(self, ports: Sequence[LibraryPort]) -> list[str]:
        """The numbers of the tensors of ports, as C."""
        return [str(self.schedule.number_at_end(port.layer, port.tensor)) for port in ports]

    def _outside_outputs(self) -> list[LibraryPort]:
        """Outputs that are written to memory of the caller."""
        return [port for port in self.outputs if port.outside is not None]

    def _results_declared(self) -> str:
        if not self._outside_outputs():
            return ""
        return f"""
/* Set the addresses of outputs outside the arena: call it before the first row of the first frame, and
   before a frame with other addresses. */
{self.name}_status {self.name}_results({self.parameters((), self._outside_outputs())});
"""

    def _set_outside_pointers_c(self, ports: Sequence[LibraryPort]) -> str:
        """C that stores the pointers of ports that are in memory of the caller."""
        return "".join(
            f"    state->outside[{port.outside}] = (element *){port.parameter};\n"
            for port in ports
            if port.outside is not None
        )

    def _input_copy_c(self, number: int, port: LibraryPort) -> str:
        """C that copies an input to its tensor, or sets its pointer in memory of the caller."""
        if port.outside is not None:
            return self._set_outside_pointers_c([port])
        tensor = f"tensor_in(state, {self._numbers(self.inputs)[number]})"
        if port.is_shifted:
            return f"    {port.copying}({tensor}, {port.parameter}, {port.elements});\n"
        size = f"{port.elements}U * sizeof *{port.parameter}"
        return f"""    if ((const void *){port.parameter} != (const void *){tensor}) {{
        (void)memcpy({tensor}, {port.parameter}, {size});
    }}
"""

    def _output_copies_c(self) -> str:
        """C that copies outputs to the caller."""
        return "".join(
            f"    (void)memcpy({port.parameter}, tensor_in(state, {number}), "
            f"{port.elements}U * sizeof *{port.parameter});\n"
            for number, port in zip(self._numbers(self.outputs), self.outputs, strict=True)
            if port.outside is None
        )

    def _unsign_outputs_c(self, indent: str) -> str:
        """C that converts outputs to unsigned in place, in the arena or in memory of the caller."""
        numbers = zip(self._numbers(self.outputs), self.outputs, strict=True)
        places = {number: port for number, port in numbers if port.is_shifted}
        return "".join(
            f"{indent}{port.copying}(tensor_in(state, {number}), tensor_in(state, {number}),\n"
            f"{indent}    {port.elements});\n"
            for number, port in places.items()
        )

    def _unsign_after_last_group_c(self) -> str:
        """C that converts outputs to unsigned after the last group; empty without unsigned outputs."""
        conversions = self._unsign_outputs_c(" " * 8)
        text = f"    if ((int32_t)state->group >= GROUPS) {{\n{conversions}    }}\n"
        return text if conversions else ""

    def _refuse_null_c(self, ports: Sequence[LibraryPort]) -> str:
        """C that refuses pointers that are NULL."""
        if not ports:
            return ""
        return refuse(self.name, _missing(ports), "NULL_POINTER")

    def _tensor_address_c(self, numbers: Sequence[str]) -> str:
        """C that returns the address of the tensor of an input or output; NULL for number -1."""
        ok = f"{self.name.upper()}_OK"
        is_present = " && (numbers[number] >= 0)" if "-1" in numbers else ""
        return f"""    static const int16_t numbers[{len(numbers)}] = {{{", ".join(numbers)}}};
    element *address = NULL;
    if (!IS_OUTSIDE(number, {len(numbers)}) && (state_status(state) == {ok}) && !IS_BUSY(state)\
{is_present}) {{
        address = tensor_in(state, numbers[number]);
    }}
    return address;
"""

    def _whole_frame_functions(self) -> str:
        """C of the functions for whole frames: NAME_input, NAME_begin, NAME_step, and run or invoke."""
        name = self.name
        numbers = [
            number if port.outside is None else "-1"  # in memory that belongs to the caller
            for number, port in zip(self._numbers(self.inputs), self.inputs, strict=True)
        ]
        capitals, results = name.upper(), self._outside_outputs()
        input_copies = "".join(
            self._input_copy_c(number, port) for number, port in enumerate(self.inputs)
        )
        arguments = ", ".join(["state", *(port.parameter for port in (*self.inputs, *results))])
        begin_body = (
            f"{input_copies}{self._set_outside_pointers_c(results)}    begin_frame(state);\n"
        )
        ok, done = f"{capitals}_OK", f"{capitals}_DONE"
        step = f"""    if (ADVANCE(state, NULL, (int32_t)state->group + 1) < 0) {{
        status = {capitals}_NO_FRAME;
    }} else {{
{indent(self._unsign_after_last_group_c(), "    ")}\
        status = ((int32_t)state->group < GROUPS) ? {ok} : {done};
    }}
"""
        call = f"{name}_begin({arguments});\n"
        missing = f"({_missing(self.outputs)}) ? {capitals}_NULL_POINTER"
        refused = self._refuse_null_c([*self.inputs, *results]) + self._refuse_busy_c
        idle = refuse(name, "IS_IDLE(state)", "NO_FRAME") + self._refuse_hook_c
        return f"""
void *{name}_input(instance *state, int number)
{{
{self._tensor_address_c(numbers)}}}

{checked_function(name, "begin", self.parameters(self.inputs, results), begin_body, refused)}
APART {checked_function(name, "step", "instance *state", step, idle)}
{name}_status {name}_{self.verb}({self.frame_parameters()})
{{
    {name}_status status = {missing}
        : {call}    while (status == {capitals}_OK) {{
        status = {name}_step(state);
    }}
    if (status == {capitals}_DONE) {{
{indent(self._output_copies_c(), "    ")}        status = {capitals}_OK;
    }}
    return status;
}}
"""

    def _push_row_c(self) -> str:
        """Return C that processes a row, and converts outputs to unsigned after the last row."""
        conversions = self._unsign_outputs_c("        ")
        return f"""    int ended;
    if (state->group >= GROUPS) {{
        begin_frame(state);
    }}
    ended = ADVANCE(state, (const element *)row, GROUPS);
    if (ended > 0) {{
{conversions}        status = {self.name.upper()}_DONE;
    }} else if (ended < 0) {{
        status = {self.name.upper()}_NO_FRAME;
    }} else {{
        /* the frame continues with the next row */
    }}
"""

    def _row_by_row_functions(self) -> str:
        """C of the functions for a streamed input: NAME_results, NAME_push_row and NAME_run."""
        name, capitals = self.name, self.name.upper()
        port, results = self.inputs[0], self._outside_outputs()
        functions, set_results = [""], ""
        if results:
            listed = ", ".join(["state", *(result.parameter for result in results)])
            set_results = f"    (void){name}_results({listed});\n"
            pointers = self._set_outside_pointers_c(results)
            refused = self._refuse_null_c(results) + self._refuse_busy_c
            parameters = self.parameters((), results)
            functions.append(checked_function(name, "results", parameters, pointers, refused))
        required_pointers = ["row", *(f"state->outside[{result.outside}]" for result in results)]
        row_missing = refuse(
            name,
            " || ".join(f"IS_MISSING({pointer})" for pointer in required_pointers),
            "NULL_POINTER",
        )
        required = self._refuse_null_c([*self.inputs, *self.outputs]) + self._refuse_busy_c
        frame = f"""{set_results}    begin_frame(state);
    for (row = 0; (row < {capitals}_ROWS) && (status == {capitals}_OK); row++) {{
        status = {name}_push_row(state, &{port.parameter}[row * {capitals}_ROW_ELEMENTS]);
    }}
    if (status == {capitals}_DONE) {{
{indent(self._output_copies_c(), "    ")}        status = {capitals}_OK;
    }}
"""
        row, parameters = f"instance *state, const {port.kind} *row", self.frame_parameters()
        refused = row_missing + self._refuse_hook_c
        functions += [
            checked_function(name, "push_row", row, self._push_row_c(), refused),
            checked_function(name, "run", parameters, frame, required, "    int32_t row;\n"),
        ]
        return "\n".join(functions)


def _missing(ports: Iterable[LibraryPort]) -> str:
    """The C condition that a pointer of the caller is NULL."""
    return " || ".join(f"IS_MISSING({port.parameter})" for port in ports)
