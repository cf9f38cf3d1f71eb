"""The macros of a library's C file, which adapt kernels and scheduler to one network.

Macros that the text of a library does not mention are dropped (`without_unused_macros`). The kinds:

    switches   1 or 0, in conditions: features of kernels and scheduler that the network needs
    sizes      of arrays and tables
    addresses  of tensors, scratch and state, which depend on the memories of the plan
    functions  that depend on the stages of the plan, or on hooks that the caller defines
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass

from planners.code.c_text import SumKind
from planners.code.calls.cmsis_nn import CmsisNN
from planners.code.interface import Interface
from planners.code.layer_descriptor import TYPE
from planners.code.machines import Target, helium_macros
from planners.code.parts import as_real
from planners.code.schedule import Schedule
from planners.plan.weights import GATHERED_ROW

REAL_LIMITS = """#define LEAST_OF_REALS (-INFINITY)
#define MOST_OF_REALS INFINITY
#define SLOTS_OF_REALS ((int32_t)(sizeof(real) / sizeof(slot)))
"""
_DEFINITION = re.compile(r"^#define (\w+)(?:.*\\\n)*.*\n", re.MULTILINE)
_EMPTY_CONDITION = re.compile(r"^#if.*\n(?:#el.*\n)*#endif\n", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{3,}")


def without_unused_macros(text: str, words: Set[str]) -> str:
    """Return C without the macros that neither the text nor other C mentions.

    words: that the other C mentions.
    """
    mentions = Counter(re.findall(r"\w+", text))
    definitions = Counter(match[1] for match in _DEFINITION.finditer(text))
    unused = {
        name for name, count in definitions.items() if mentions[name] == count and name not in words
    }
    shorter = _DEFINITION.sub(lambda match: "" if match[1] in unused else match[0], text)
    shorter = _EMPTY_CONDITION.sub("", shorter)
    if shorter == text:
        return _EMPTY_LINES.sub("\n\n", text)
    return without_unused_macros(shorter, words)


@dataclass(frozen=True, slots=True, kw_only=True)
class MacroWriter:
    """The text of NAME.c before the kernels that it includes."""

    interface: Interface
    cmsis_nn: CmsisNN | None
    target: Target

    @property
    def _capitals(self) -> str:
        return self.interface.name.upper()

    @property
    def _schedule(self) -> Schedule:
        return self.interface.schedule

    @property
    def switches(self) -> Mapping[str, bool]:
        """Macros in conditions of the kernels and of the scheduler, with their values."""
        tables, schedule = self._schedule.tables, self._schedule
        kinds = tables.sum_kinds or {SumKind(has_small_factors=True, has_narrow_sums=True)}
        if tables.weights_have_zeros:  # the assembly reads weights as stored, without zero points
            kinds = set()
        dynamic_tables = (tables, schedule.calls.real_tables)
        return {
            # Arithmetic of the kernels.
            "WEIGHTS_HAVE_ZEROS": tables.weights_have_zeros,  # zero points, which kernels subtract
            "SOME_WEIGHTS_ARE_HALVES": tables.some_weights_are_halves,  # floating point in two bytes
            "SUMS_ROUND_ONCE": tables.sums_round_once,  # as fully connected layers of LiteRT
            # Whether assembly for Helium, and for Cortex-M4, may requantise the sums of any layer.
            "FACTORS_ARE_SMALL": any(kind.has_small_factors for kind in kinds),
            "SUMS_ARE_NARROW": any(kind.has_narrow_sums for kind in kinds),
            "SUMS_ARE_MIXED": tables.sums_are_mixed,  # layers differ in the two properties above
            "WINDOWS_ARE_GATHERED": schedule.maxima.gathered > 0,  # copied to the stack (im2col)
            # Zero points of integers that are quantised at run time.
            "RANGES_HAVE_OFFSETS": any(table.ranges_have_offsets for table in dynamic_tables),
            # Parts of the scheduler.
            "FUSES_LAYERS": schedule.maxima.layers > 1,  # stages of several layers
            "HAS_COPIES": schedule.has_copies,  # stages that copy a tensor between buffers
            "HAS_DUPLICATES": bool(schedule.duplicates),  # rows written to several buffers
            "HAS_TILES": schedule.has_tiles,  # stages that compute tiles of rows and columns
            "HAS_TURNS": bool(schedule.order.turns),  # the plan lists the order of firings
            "HAS_VARIABLES": bool(self.interface.network.variables),  # state between frames
            "CAN_STAGE": schedule.can_stage,  # rows for which a line buffer has no space yet
            "MOVES_WEIGHTS": bool(schedule.moved.lines),  # from slow memory into the arena
        }

    def _sums_of_layer(self) -> str:
        """C macros: whether assembly may store the sums of a layer."""
        if not self._schedule.calls.is_integer:
            return ""
        small, narrow = "((to)->has_small_factors != 0)", "((to)->has_narrow_sums != 0)"
        if not self._schedule.tables.sums_are_mixed:
            small = str(int(self.switches["FACTORS_ARE_SMALL"]))
            narrow = str(int(self.switches["SUMS_ARE_NARROW"]))
        return f"""#define HAS_SMALL_FACTORS(to) {small} /* factors below 1/2, for Helium */
#define HAS_NARROW_SUMS(to) {narrow} /* sums of 30 bits, for Cortex-M4 */
"""

    def text(self) -> str:
        """Return includes, types and macros."""
        name, capitals, schedule = self.interface.name, self._capitals, self._schedule
        has_reals = schedule.calls.has_reals
        helium = helium_macros(self.target) if schedule.calls.is_integer else ""
        macros = "".join(f"#define {head} {value}\n" for head, value in self._macros().items())
        included = "" if self.cmsis_nn is None else "#include <arm_nnfunctions.h>\n"
        return f"""#ifdef CSDF_KERNELS_H
#error "compile this file alone (no unity build): kernels are compiled for its macros and tables"
#endif
#include <math.h>
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
{self._sums_of_layer()}{REAL_LIMITS if has_reals else ""}{macros}
{self._row_copies()}{self._moves()}
#ifdef {capitals}_PROFILE
#define PROFILE_BEGIN(stage) {name}_profile_begin(stage)
#define PROFILE_END(stage) {name}_profile_end(stage)
#else
#define PROFILE_BEGIN(stage) ((void)0)
#define PROFILE_END(stage) ((void)0)
#endif
#ifdef {capitals}_YIELD
/* Call the hook; 1 if it gave up the frame, else 0. IN_HOOK: bit of the group during the hook. */
#define IN_HOOK 0x8000U
#define IS_GIVEN_UP(state) (given_up(state) != 0)
static int given_up(instance *state)
{{
    const uint16_t group = state->group;
    const uint16_t in_hook = (uint16_t)(group | IN_HOOK);
    int is_given_up = 1;
    state->group = in_hook;
    {name}_yield();
    if (state->group == in_hook) {{
        state->group = group;
        is_given_up = 0;
    }}
    return is_given_up;
}}
#endif{self._counts()}"""

    def _macros(self) -> dict[str, object]:
        """Macros of sizes, addresses and functions, with what they expand to.

        MOST_...: the maximum over all layers or stages, for the sizes of arrays. A count, such as
        TURNS, is that of the rows of the table `turns`.
        """
        schedule, variables = self._schedule, len(self.interface.network.variables)
        has_left = schedule.has_tiles or bool(schedule.write_buffers)
        return {
            # Sizes.
            "GROUPS": len(schedule.plan.groups),
            "MOST_TAPS": schedule.maxima.taps,  # rows of a window
            "MOST_GATHERED": schedule.maxima.gathered,  # elements of a window that is copied (im2col)
            "FEW": GATHERED_ROW,  # windows with fewer bytes in a row are copied
            "MOST_RANGES": schedule.maxima.ranges,  # layers and inputs of a stage, a row range each
            "MOST_LAYERS": schedule.maxima.layers,  # of a stage
            "MOST_NEIGHBOURS": schedule.maxima.neighbours,  # channels before that of a normalisation
            **self._scratch(),
            # Functions and addresses. from: a run of a stage, or the state of the library.
            "SWEEP": self.sweep,  # iterates over the columns of a stage
            "OUTSIDE(state)": "(state)->outside" if self.interface.field() else "NULL",
            "BASE(from, tensor)": self._base(),  # the first element of a tensor
            "AT(from, offset)": self._at(),  # the element at an offset of the arena
            "ADVANCE": self.advance,  # continues a frame
            "TAKE_ROW(to, from, count)": self._take_row(),  # copies a row of the caller
            # Tables.
            "TURNS": len(schedule.order.turns),  # of a firing order that the plan lists
            "DUPLICATES": len(schedule.duplicates),  # buffers that receive rows of another buffer
            "JOINTS": len(schedule.joints),  # windows over retained rows and new rows of a frame
            "JOINT_TABLE": "joints" if schedule.joints else "NULL",
            **self._joins(),
            "VARIABLES": variables,  # tensors whose rows are retained for the next frame
            "OLDEST(state)": "(state)->oldest" if variables else "NULL",  # rows of ring buffers
            "BEGINNINGS": len(schedule.beginnings),  # patterns of the initial state
            # The column within a tile or block, which begins at a column of its own.
            "FROM_LEFT(view, column)": "((column) - (view)->left)" if has_left else "(column)",
            # The view of a strip becomes the view of a tile.
            **self._by_view("AS_TILE", "as_tile", "run, layer, view", is_used=schedule.has_tiles),
        }

    def _limits(self) -> tuple[str, str]:
        """The least and the largest element, in C."""
        if not self._schedule.calls.is_integer:
            return "-INFINITY", "INFINITY"
        return ("-32768", "32767") if self._schedule.calls.is_short else ("-128", "127")

    @property
    def sweep(self) -> str:
        """The C function that iterates over the columns of a stage."""
        return "sweep_parts" if self._schedule.has_parts else "sweep"

    @property
    def advance(self) -> str:
        """The C function that continues a frame."""
        return "advance_in_order" if self._schedule.order.turns else "advance"

    def _take_row(self) -> str:
        """C that copies a row of the caller into the arena."""
        streamed = [
            port for port in self.interface.inputs if port.layer == self.interface.streamed_input
        ]
        shifted = [port for port in streamed if port.is_shifted]
        if not shifted:
            return "copy_elements(to, from, count)"
        elements = "count" if shifted[0].unit == 1 else f"(count) / {shifted[0].unit}"
        return f"{shifted[0].copying}(to, from, {elements})"

    def _scratch(self) -> dict[str, str]:
        """Macros of the address of the scratch of layers, and of its size if CMSIS-NN uses it."""
        if self.cmsis_nn is None:
            has_scratch = self._schedule.maxima.scratch > 0
            return {"SCRATCH(state)": "(state)->scratch" if has_scratch else "NULL"}
        address = "((slot *)(void *)(state)->scratch)"
        return {"SCRATCH(state)": address, "SCRATCH_BYTES": f"{self._capitals}_SCRATCH_BYTES"}

    def _counts(self) -> str:
        """C that counts blocks by CMSIS-NN, and by this package, in tests; empty without CMSIS-NN."""
        if self.cmsis_nn is None:
            return ""
        return f"""
#ifdef {self._capitals}_BLOCKS
#define COUNT_BLOCK(by_cmsis_nn) {self.interface.name}_block(by_cmsis_nn)
#else
#define COUNT_BLOCK(by_cmsis_nn) ((void)0)
#endif"""

    def _joins(self) -> dict[str, str]:
        """Macros that join a ring and new rows to a window, or view a block, for each kind of view."""
        has_blocks = bool(self._schedule.write_buffers)
        function = "in_block" if has_blocks else "join_rows"
        is_used = has_blocks or bool(self._schedule.joints)
        macros = self._by_view("JOIN", function, "run, tensor, view", is_used=is_used)
        if not has_blocks:
            return macros
        # The parameters of a layer in channel blocks are of the structure `sliced`.
        parts = "((const sliced *)(run)->stage->layers[0].parameters)->parts"
        is_last = f"((run)->stage->mode != BY_PARTS || (run)->part + 1 == {parts})"
        return {**macros, "IS_LAST_PART(run)": is_last if self._schedule.has_parts else "1"}

    def _by_view(
        self, macro: str, function: str, arguments: str, *, is_used: bool
    ) -> dict[str, str]:
        """Macros that call a function for each kind of view, or do nothing."""
        functions = {macro: function}
        if self._schedule.calls.has_reals:
            functions[f"{macro}_OF_REALS"] = as_real(function)
        return {
            f"{name}({arguments})": f"{called}({arguments})" if is_used else "((void)0)"
            for name, called in functions.items()
        }

    def _base(self) -> str:
        """C for where a tensor begins, of a run or a state."""
        if self._schedule.tensors.splits:
            return "AT(from, (tensor)->offset)"
        if not self._schedule.tensors.outside:
            return "(&(from)->arena[(tensor)->offset])"
        return """\\
    ((tensor)->offset < 0 ? (from)->outside[-1 - (tensor)->offset] \\
                          : &(from)->arena[(tensor)->offset])"""

    def _at(self) -> str:
        """Return C for the address of an arena offset, in whichever memory contains it."""
        bases = ["&(from)->arena[offset]"]
        for number, split in enumerate(self._schedule.tensors.splits):
            bases.append(f"&(from)->outside[{number}][(offset) - {split}]")
        text = bases.pop()
        for split, base in zip(self._schedule.tensors.splits[::-1], bases[::-1], strict=True):
            text = f"((offset) < {split} ? {base} : {text})"
        return text if bases else f"({text})"

    def _row_copies(self) -> str:
        """Return C that copies a row between buffers, by the hook of the caller if declared."""
        core = "#define COPY_ROW(to, from, count) copy_elements(to, from, count)\n"
        if not self._schedule.has_copies:
            return core
        count = "(uint32_t)((size_t)(count) * sizeof(slot))"
        return f"""#ifdef {self._capitals}_COPY
#define COPY_ROW(to, from, count) {self.interface.name}_copy(to, from, {count})
#else
{core}#endif
"""

    def _moves(self) -> str:
        """C that copies weights and finds them, where some are moved."""
        name, capitals, moved = self.interface.name, self._capitals, self._schedule.moved
        if not moved.lines:
            return ""
        wait = """#define COPY_AHEAD(to, from, bytes) COPY_BYTES(to, from, bytes)
#define COPY_WEIGHTS(state, group) copy_weights(state, group)
"""
        if moved.copies_ahead:
            wait = f"""#ifdef {capitals}_COPY_AHEAD
#define COPY_AHEAD(to, from, bytes) {name}_begin_copy(to, from, (uint32_t)(bytes))
#define COPY_WEIGHTS(state, group) ({name}_end_copies(), copy_weights(state, group))
#else
{wait}#endif
"""
        return f"""
#define MOVED {len(moved.lines)}
#define MOST_MOVED {moved.most_copies}
#ifdef {capitals}_COPY
#define COPY_BYTES(to, from, bytes) {name}_copy(to, from, (uint32_t)(bytes))
#else
#define COPY_BYTES(to, from, bytes) memcpy(to, from, (size_t)(bytes))
#endif
{wait}"""
