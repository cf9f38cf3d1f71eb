"""The public header of a library: sizes, types, state, functions, hooks of the caller."""

from __future__ import annotations

from planners.code.c_text import header_file, identifier, short_lines
from planners.code.calls.cmsis_nn import TARGETS, CmsisNN
from planners.code.interface import Interface
from planners.code.packaging import version_macro
from planners.code.parts import COMMIT, comment
from planners.code.status import init_declared, status_declared, with_checksum
from planners.plan.plan import Memory

INTERFACE = 2  # 1 until csdf 1.0
STAGED = """    int32_t staged_offset;
    int16_t staged;
    uint16_t is_bottom_staged;
    uint16_t staged_first;
    uint16_t staged_end;
"""  # fields of the state for the rows in the staging buffer


class HeaderWriter:
    """The text of NAME.h."""

    def __init__(
        self, interface: Interface, cmsis_nn: CmsisNN | None, counters: int, version: str
    ) -> None:
        """counters: stages of the largest group; version: of the library."""
        self._interface, self._cmsis_nn = interface, cmsis_nn
        self._counters, self._version = counters, version
        self._name, self._capitals = interface.name, interface.name.upper()
        self._schedule, self._network = interface.schedule, interface.network
        self._plan = interface.schedule.plan
        self._ports = (*interface.inputs, *interface.outputs)

    def text(self, weights: str, functions: str) -> str:
        """Return the header. weights: NAME_weights.c; functions: those of NAME.c."""
        name, capitals = self._name, self._capitals
        scratch = self._scratch_field()
        outside = self._interface.field()
        turn, variables = "", len(self._network.variables)
        if self._schedule.order.turns:
            turn = "    uint16_t turn;\n    uint16_t position;\n    uint16_t round;\n"
        turn += f"    uint16_t oldest[{variables}];\n" if variables else ""
        title = comment(self._network.name)
        about = f"{title}: inference in an arena of {self._plan.arena_bytes} bytes."
        text = f"""{version_macro(name, self._version)}
#define {capitals}_INTERFACE {INTERFACE} /* version of the functions below */
{self._memory_macros()}
{self._interface.ports.macros()}{self._cmsis_nn_scratch_macros()}
typedef {self.element} {name}_element;

{status_declared(name, functions)}

/* The execution state. The fields are private. */
typedef struct {{
    {name}_element *arena;
    uint32_t library;
{STAGED if self._schedule.can_stage else ""}    uint16_t group;
    uint16_t last;
    uint16_t fired[{self._counters}];
{turn}{scratch}{outside}}} {name}_state;

/* {self._init_sentence()}.
   The memory belongs to the library until the last call with this state. Each instance needs its own
   memory and its own state; calls with different states may run at the same time. */
{init_declared(name, self._interface.memories)}

{self._interface.reset_declared()}
{self._interface.kept_declared()}
/* Run the network on a frame. Feature maps are in HWC order: the channels of a pixel are contiguous.
   Other tensors have the order of the file. Memory of a frame and of outputs is outside of the arena,
   except at the address of an input. Real numbers of a frame are finite.{self._sign_sentence()} */
{name}_status {name}_{self._interface.verb}({self._interface.frame_parameters()});

/* Address of an output in the arena: valid after a frame, until an input is written into the arena
   or the next frame begins. number: from 0 on. NULL for a wrong number or state, and while a frame
   is in progress.{self._alignment_sentence()} */
const void *{name}_output(const {name}_state *state, int number);
"""
        text += self._interface.ports.declarations() + self._interface.declarations()
        text += f"""
{self._copy_declared()}#ifdef {capitals}_PROFILE
/* To be defined by the application: called before and after each firing of a stage. */
void {name}_profile_begin(int stage);
void {name}_profile_end(int stage);
#endif
#ifdef {capitals}_YIELD
/* To be defined by the application: called after each firing of a stage, to feed a watchdog or to
   yield to other tasks. For the same state, the hook may call the functions that end a frame, which
   return {capitals}_OK; the call that continued the frame then returns {capitals}_NO_FRAME. Functions
   that continue a frame or need a complete frame return {capitals}_BUSY. */
void {name}_yield(void);
#endif
{self._blocks_declared()}"""
        header = header_file(name, about, ("stddef.h", "stdint.h"), text)
        return with_checksum(short_lines(header), weights)

    def _cmsis_nn_scratch_macros(self) -> str:
        """C for the bytes that CMSIS-NN works with; empty without it."""
        if self._cmsis_nn is None:
            return ""
        lines = [f"/* Scratch memory of CMSIS-NN (commit {COMMIT[:8]}), in the state. */"]
        word = "#if"
        for target, condition in TARGETS.items():
            lines.append(f"{word} {condition}" if condition else "#else")
            lines.append(f"#define {self._capitals}_SCRATCH_BYTES {self._cmsis_nn.scratch[target]}")
            word = "#elif"
        return "\n".join(["", *lines, "#endif"])

    def _blocks_declared(self) -> str:
        """C that declares the hook for blocks of rows; empty without CMSIS-NN."""
        if self._cmsis_nn is None:
            return ""
        return f"""
#ifdef {self._capitals}_BLOCKS
/* To be defined by the application: called after each block of rows of a layer for CMSIS-NN. 1:
   CMSIS-NN computed it; 0: this library did, since the rows were not contiguous. */
void {self._name}_block(int by_cmsis_nn);
#endif
"""

    def _memory_macros(self) -> str:
        """C for the sizes of the arena, or of the memories, and where arrays for them lie."""
        capitals, plan = self._capitals, self._plan
        declarations = []
        memories = plan.memories or (Memory(name="arena", size=plan.arena_bytes),)
        for memory, word in zip(memories, self._interface.memories, strict=True):
            named = f"{capitals}_{word.upper()}"
            elements = max(self._schedule.tensors.elements(memory.size), 1)
            declarations += [
                f"#define {named}_BYTES {memory.size}",
                f"#define {named}_ELEMENTS {elements}",
            ]
        for memory, word in zip(memories[1:], self._interface.memories[1:], strict=True):
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
/* Attribute for the array of {comment(memory.name)}; define it before to choose another. */
#ifndef {capitals}_IN_{word.upper()}
#{platforms}if defined({capitals}_SECTIONS) || defined(ON_TARGET) /* a linker script has it */
#define {capitals}_IN_{word.upper()} __attribute__((section("{section}")))
#else
#define {capitals}_IN_{word.upper()}
#endif
#endif""")
        return "\n".join(declarations)

    def _init_sentence(self) -> str:
        """Return the begin of a sentence on the arguments of NAME_init."""
        sizes = [
            f"{memory} of {self._capitals}_{memory.upper()}_ELEMENTS"
            for memory in self._interface.memories
        ]
        together = ". Together they are the arena" if len(sizes) > 1 else ""
        return f"Initialise the state with memory: {' and '.join(sizes)} elements{together}"

    def _copy_declared(self) -> str:
        """C that declares the hook for copies, where the plan has some."""
        name, capitals = self._name, self._capitals
        text = ""
        if self._schedule.has_copies or self._schedule.moved.lines:
            text = f"""
#ifdef {capitals}_COPY
/* To be defined by the application: copy bytes that do not overlap, for example by DMA; return when
   the copy is complete. */
void {name}_copy(void *to, const void *from, uint32_t bytes);
#endif
"""
        if self._schedule.moved.copies_ahead:
            text += f"""
#ifdef {capitals}_COPY_AHEAD
/* To be defined by the application: start to copy bytes that do not overlap, by DMA, while layers
   compute; and wait until all copies that were started are complete. */
void {name}_begin_copy(void *to, const void *from, uint32_t bytes);
void {name}_end_copies(void);
#endif
"""
        return text

    def _alignment_sentence(self) -> str:
        """Return a sentence on numbers of more bytes than an element of the arena, if there are any."""
        if not any(port.unit > 1 for port in self._ports):
            return ""
        return "\n   Elements of several bytes are not aligned there: copy them with memcpy."

    def _sign_sentence(self) -> str:
        """Return a sentence on unsigned integers at the ends; none where there are none."""
        names = [port.parameter for port in self._ports if port.is_signed_outside]
        if not names:
            return ""
        bits = 16 if self._schedule.calls.is_short else 8
        verb = "are" if len(names) > 1 else "is"
        return (
            f"\n   uint{bits} in the file, int{bits} here, which is the value minus {2 ** (bits - 1)}, "
            f"{verb} {', '.join(names)}."
        )

    def _scratch_field(self) -> str:
        """C for the field of the state that is the scratch of layers."""
        if self._cmsis_nn is not None:
            return f"    int32_t scratch[{self._capitals}_SCRATCH_BYTES / 4];\n"
        elements = self._schedule.maxima.scratch
        return f"    {self._name}_element scratch[{elements}];\n" if elements else ""

    @property
    def element(self) -> str:
        """The C type of an arena element."""
        if not self._schedule.calls.is_integer:
            return "float"
        return "int16_t" if self._schedule.calls.is_short else "int8_t"
