"""README.md of a library, which explains its use to a programmer."""

from __future__ import annotations

from collections.abc import Sequence

from cnn2csdf.parameters import network_multiply_accumulates
from cnn2csdf.weights import Model
from planners.code.c_text import identifier
from planners.code.frames import TestVector, constant_outputs, from_initial_state
from planners.code.machines import CORTEX_M4, CORTEX_M55, HOST, PORTABLE, TARGETS, machines_of
from planners.code.makefile import MAIN
from planners.code.packaging import (
    ARDUINO,
    CMAKE,
    ESP_IDF,
    LICENSE,
    MAKE,
    PLATFORMIO,
    ZEPHYR,
    Package,
)
from planners.code.parts import COMMIT, SOURCE, comment
from planners.code.ports import LibraryPort
from planners.code.programs import arrays_of
from planners.code.sources import Written
from planners.plan.plan import Kind, StreamingPlan
from planners.plan.stack import O3_BYTES

BOARDS = tuple(target for target in TARGETS if target not in (HOST, PORTABLE))
FOLDERS_IN_WORDS = """\
- `src/` and `include/` are the library: each C file of `src/` compiles alone with `-Iinclude`, and is
  linked with `-lm`. `src/csdf_*.h` are the kernels, those with instructions of a processor in
  files of their own. `test/` and `target/` are the test program and what that needs on a bare
  Cortex-M; a product leaves them out.
"""
QEMU_IN_WORDS = """\
- `make qemu` does so on an emulated core of `TARGET`, m4 (Cortex-M4) or m55 (Cortex-M55), and
  `make qemu-m55` on a Cortex-M55 (they need `arm-none-eabi-gcc` and `qemu-system-arm`).
"""
SIZE_IN_WORDS = """\
- `make size` prints flash and static RAM, cross-compiled for `TARGET=m4` (Cortex-M4) or `TARGET=m55`.
"""


def readme(
    written: Written,
    model: Model,
    plan: StreamingPlan,
    package: Package,
    vectors: Sequence[TestVector],
) -> str:
    """Return the README of a library. vectors: of its test program."""
    network = model.network
    once = network_multiply_accumulates(network)
    work = f"{plan.multiply_accumulates:,} multiply-accumulates per frame"
    if once and plan.multiply_accumulates != once:
        work += f", {plan.multiply_accumulates / once:.3f} times the least"
    name, capitals = written.name, written.capitals
    return f"""# {name}: a neural network in an arena of {plan.arena_bytes:,} bytes

| what | how much |
|---|---|
{_memory_rows(plan)}
| RAM: state | at most {written.state_bytes} bytes |
| RAM: stack | {_stack(written)} |
| flash: weights | {_flash(written, package)} |
| work | {work} |

{ports_table([(model, written)])}

{target_in_words(package.target)}

Tensors lie row by row, in a row column by column, and the channels of a pixel side by side (HWC).
{_ports_outside(written)}
```c
#include "{name}.h"

{arrays_of(written)}
static {name}_state state;

{_usage_c(written)}
```
{_memory_placement(written, plan)}{_state(written, plan)}{_conversions(written)}
No function allocates memory, calls itself, or keeps anything outside of arena and state, so several
instances can run side by side, each with an arena and a state of its own. The library needs C99,
`<stdint.h>`, `<stddef.h>`, `<string.h>` and `<math.h>`. Compiled with `-D{capitals}_PROFILE` it
calls `{name}_profile_begin(stage)` and `{name}_profile_end(stage)`, which you define, around each
firing of a stage, with `-D{capitals}_YIELD` your `{name}_yield()` after each. Functions return
`{capitals}_OK` (0), or below zero what was wrong with memory, state or header; with
`-D{capitals}_UNCHECKED` nothing is checked.

{FOLDERS_IN_WORDS}{_test_vectors(vectors)}{_build_systems(name, package)}\
- Source files name their licence, which `LICENSE` explains: {LICENSE};
  weights and tables of layers that of the model: {package.model_license}.
  `{capitals}_VERSION` is the version of the library, "{package.version}".{_with_cmsis_nn(written)}
{_make_targets(written) if MAKE in package.projects else ""}"""


def _stack(written: Written) -> str:
    """Return the cell of a table on the stack."""
    text = f"at most {written.stack_bytes:,} bytes with gcc `-O2` or `-Os`"
    if written.cmsis_nn is not None:
        return text
    return f"{text}, {written.stack_bytes + O3_BYTES:,} with `-O3`"


def _flash(written: Written, package: Package) -> str:
    """Return the cell of a table on the constants of a library."""
    helium = written.helium_bytes
    more = f", and {helium:,} bytes more on a Cortex-M55" if helium else ""
    rest = "; `make size` prints code and tables of layers" if MAKE in package.projects else ""
    return f"{written.weight_bytes:,} bytes: all of `src/{written.name}_weights.c`{more}{rest}"


def _test_vectors(vectors: Sequence[TestVector]) -> str:
    """Return the lines on the frames of the test program."""
    count, begun = len(vectors), from_initial_state(vectors)
    frames = f"{count} random frame{'s' if count > 1 else ''}"
    states = f", {count - begun} of them from a random state" if begun < count else ""
    text = f"""\
- `{MAIN}` runs {frames}{states},
  compares with outputs computed layer by layer, and prints the line of the first wrong one."""
    if constant := constant_outputs(vectors):
        listed = ", ".join(f"`{comment(output)}`" for output in constant)
        text += f"""
  In all of them {listed} is equal, or at the limits of its type: wrong weights may pass, so add
  frames of your own."""
    return f"{text}\n"


def target_in_words(target: str | None) -> str:
    """Return the sentences of a README on the processors for which the kernels are written."""
    machines = " or ".join(machine.instructions for machine in machines_of(target))
    text = f"The kernels are portable C, with {machines} where the compiler targets it."
    if not machines:
        text = "The kernels are portable C."
    if target in (CORTEX_M4, CORTEX_M55):
        text += """ Where unaligned accesses trap
(`CCR.UNALIGN_TRP`), compile with `-mno-unaligned-access`, and link a `memcpy` that was compiled so:
tensors begin at any byte, and a prebuilt `memcpy`, such as that of newlib, may read unaligned words."""
    if target == HOST:
        text += f"""
For a board, write the library for its core: `csdf deploy` with `--target` ({", ".join(BOARDS)}) or
`--platform`. This library computes the same results there, with more instructions."""
    return text


def _build_systems(name: str, package: Package) -> str:
    """Return the lines on the supported build systems."""
    return "".join(
        f"- The folder is {_FOLDERS[project].format(name=name)}.\n"
        for project in package.projects
        if project in _FOLDERS
    )


_FOLDERS = {
    CMAKE: "a project of CMake that `add_subdirectory` takes, or that installs itself",
    PLATFORMIO: "a library of PlatformIO (`lib/{name}`)",
    ESP_IDF: "a component of ESP-IDF (`components/{name}`)",
    ZEPHYR: "a module of Zephyr (`ZEPHYR_EXTRA_MODULES`)",
    ARDUINO: "a library of Arduino (`libraries/{name}`)",
}


def _make_targets(written: Written) -> str:
    """Return lines on the targets of the Makefile."""
    return f"""\
- `make test` builds and runs the test vectors here, and ends with 0 when the outputs are equal.
{QEMU_IN_WORDS}{_measurements(written)}{SIZE_IN_WORDS}"""


def ports_table(networks: Sequence[tuple[Model, Written]]) -> str:
    """Return a table of the inputs and outputs of networks."""
    rows = "\n".join(
        f"| {port.parameter}{f' of {written.name}' if len(networks) > 1 else ''} | {kind} "
        f"| {port.kind} | {_shape_in_words(model, port)} | {port.stored.real_in_words() or '-'} |"
        for model, written in networks
        for kind, ports in (("input", written.inputs), ("output", written.outputs))
        for port in ports
    )
    return f"""| parameter | kind | type | elements | real number of an integer |
|---|---|---|---|---|
{rows}"""


def _with_cmsis_nn(written: Written) -> str:
    """Return lines on CMSIS-NN; empty for a library that does not call it."""
    if written.cmsis_nn is None:
        return ""
    return f"""
- {written.cmsis_nn.in_words()}.
  The scratch is in the state. Firings whose rows do not lie one behind the other keep the kernels of
  this library, and so does what CMSIS-NN refuses.
- CMSIS-NN comes from you, commit {COMMIT}
  of {SOURCE}: all targets of `make` take
  `CMSIS_NN=FOLDER`, CMake `-DCMSIS_NN=FOLDER`, a target `cmsis-nn`, or fetches it; in PlatformIO
  and Arduino it is a library beside this one. Without `CMSIS_NN_USE_SINGLE_ROUNDING`, which rounds
  otherwise.
- Compiled with `-D{written.capitals}_BLOCKS` the library calls your
  `{written.name}_block(1)` behind each block of rows that CMSIS-NN made, `(0)` behind each other one of
  its layers; the test program counts them then."""


def _shape_in_words(model: Model, port: LibraryPort) -> str:
    shape = model.network.layer(port.layer).shape
    if shape.is_map:
        return f"{shape.height} rows x {shape.width} columns x {shape.channels} channels"
    return str(shape)


def _measurements(written: Written) -> str:
    """Return the lines on programs that need the stages of a library."""
    if not written.stages:
        return ""
    proof = """\
- `make prove` takes any input through a call by Frama-C (Debian's `frama-c-base`, `why3`, `z3`),
  whatever calls before it left, in plain C for 32 bits, and ends with 0 when no access, shift, sum or
  read raises an alarm. Real numbers are finite, of magnitudes up to `PROVED_TO` (`test/prove.c`).
"""
    return """- `make example < frames.txt` prints the class of each frame of real numbers, as the
  tensor lies, with its value, or the only output (`examples/classify.c`);
  `make example-qemu` does so on an emulated core, from the file `frames.txt`.
- `make -s bench > times.csv` writes what each layer takes, as `csdf fit --durations` reads it: on an
  emulated core, where an instruction is a cycle of `HERTZ=...`, or on your board (`Makefile` says
  how); `make -s bench-here` on this machine.
""" + (proof if written.cmsis_nn is None else "")


def _ports_outside(written: Written) -> str:
    """Return the tensors that are read or written in memory of the caller."""
    outside = [
        port.parameter for port in (*written.inputs, *written.outputs) if port.outside is not None
    ]
    if not outside:
        return ""
    return f"Outside the arena, in memory that you give: {', '.join(outside)}; nothing is copied.\n"


def _memory_rows(plan: StreamingPlan) -> str:
    """Return rows of a table: the bytes of the arena, or of each memory."""
    sizes = [(memory.name, memory.size) for memory in plan.memories] or [
        ("arena", plan.arena_bytes)
    ]
    rows = [f"| RAM: {name} | {size:,} bytes |" for name, size in sizes]
    if plan.memories:
        rows += [
            f"| from and to {flow.memory} | {flow.read:,} and {flow.written:,} bytes per frame |"
            for flow in plan.traffic
        ]
    return "\n".join(rows)


def _memory_placement(written: Written, plan: StreamingPlan) -> str:
    """Return the lines on the placement of arrays in several memories, and on copies between them."""
    if len(written.memories) == 1:
        return ""
    name, capitals = written.name, written.capitals
    sections = {memory.name: "slow" if memory.is_slow else "fast" for memory in plan.memories[1:]}
    slow = [
        word
        for word, memory in zip(written.memories[1:], plan.memories[1:], strict=True)
        if memory.is_slow
    ]
    text = "".join(
        f"""
`{capitals}_IN_{word.upper()}` is `EXT_RAM_BSS_ATTR` under ESP-IDF and the section `.ext_ram.bss` under
Zephyr."""
        for word in slow
    )
    listed = ", ".join(f"`.{speed}.{identifier(memory)}`" for memory, speed in sections.items())
    text += f"""
The arena is all memories together. With GNU ld, compile with `-D{capitals}_SECTIONS` and place
{listed} in your linker script, as `target/target_m4.ld` does; or define the names behind the
arrays yourself, or give any pointers to those memories. The core copies bytes, or with
`-D{capitals}_COPY` your `{name}_copy`, which may use DMA.
"""
    kinds = {buffer.kind for buffer in plan.buffers}
    if Kind.RESIDENT in kinds:
        text += f"""
`{name}_init` copies weights that stay: leave the memories alone between frames.
"""
    if any(
        buffer.kind is Kind.WEIGHTS and buffer.end - buffer.begin > 1 for buffer in plan.buffers
    ):
        text += f"""
Weights that are copied ahead come while other layers compute with `-D{capitals}_COPY_AHEAD`: your
`{name}_begin_copy` begins a copy by DMA, and `{name}_end_copies` waits for all that have begun.
"""
    return text


def _state(written: Written, plan: StreamingPlan) -> str:
    """Return the lines on the state between frames; empty for a stateless network."""
    if not written.keeps_state:
        return ""
    name = written.name
    return f"""
The network keeps a state: call `{name}_init` once and `{name}_invoke` for each frame. The state is
{plan.kept_bytes:,} bytes of the arena, so leave the arena alone between frames; `{name}_save` and
`{name}_restore` take it elsewhere and back, and `{name}_reset` begins anew.
"""


def _conversions(written: Written) -> str:
    """Return the lines on quantising inputs and dequantising outputs."""
    if not written.has_integers:
        return ""
    name = written.name
    return f"""
`{name}_quantize_input(number, values, elements, count)` makes real numbers the integers of an input,
`{name}_dequantize_output(number, elements, values, count)` the integers of an output real numbers. The
real numbers are those of the training: bring what a sensor gives into the range of the table first,
as the training did. Shapes, types, scales and zero points are macros in `{name}.h`.
"""


def _first_output_c(written: Written) -> list[str]:
    """Return C that takes the first output from the arena."""
    port, call = written.outputs[0], f"{written.name}_output(&state, 0)"
    if port.unit == 1:
        return [f"    const {port.kind} *result = {call};"]
    return [
        f"    {port.kind} result[{port.elements}];",
        f"    memcpy(result, {call}, sizeof result); /* which begins at any byte */",
    ]


def _usage_c(written: Written) -> str:
    name = written.name
    inputs, outputs = (
        [port.parameter for port in ports] for ports in (written.inputs, written.outputs)
    )
    memories = ", ".join(f"{array}, sizeof {array}" for array in written.arrays)
    lines = [
        f"if ({name}_init(&state, {memories}) != {written.capitals}_OK) {{",
        "    /* a memory is too small or misaligned, or the header is of another version */",
        "}",
        f"{written.frame_call(inputs, outputs)}; /* {written.capitals}_OK */",
    ]
    if written.is_streamed:
        outside = [port.parameter for port in written.outputs if port.outside is not None]
        lines += ["", "/* or row by row, as they come: */"]
        lines += [f"{name}_results({', '.join(['&state', *outside])});"] if outside else []
        lines += [
            f"if ({name}_push_row(&state, row) == {written.capitals}_DONE) {{",
            *_first_output_c(written),
            "}",
        ]
    return "\n".join(lines)
