"""Files that build a library and explain it to a user: Makefile, CMakeLists.txt, README.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from cnn2csdf.parameters import network_multiply_accumulates
from cnn2csdf.weights import Model
from planners.code.c_text import identifier
from planners.code.frames import TestVector, constant_outputs, from_initial_state
from planners.code.machines import CORTEX_M4, CORTEX_M55, HOST, PORTABLE, TARGETS, machines_of
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
from planners.code.parts import COMMIT, SOURCE, comment, source
from planners.code.ports import LibraryPort
from planners.code.sources import Written
from planners.plan.plan import Kind, StreamingPlan
from planners.plan.stack import O3_BYTES

MAIN, BENCH, EXAMPLE = "test/main.c", "test/bench.c", "examples/classify.c"
PROOF = "test/prove.c"  # which only Frama-C reads
BOARDS = tuple(target for target in TARGETS if target not in (HOST, PORTABLE))
BY_CONTRACT = "sum_of_products"  # proved for all arguments, with what it calls
TOGETHER = (  # functions whose turns of loops are proved together: places, filters, channels
    *("each_window", "make_filters", "make_all_lanes", "depthwise_pixel", "window_mean"),
    *("combine", "add_cell", "multiply_cell", "make_places", "rescale_cell", "look_up_cell"),
)

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


def makefile(
    sources: Sequence[str],
    tests: Sequence[str] = (MAIN,),
    *,
    arrays: Sequence[str] = ("arena",),
    bench: str | None = None,
    proved: str = "",
    cmsis_nn: bool = False,
    target: str | None = None,
) -> str:
    """Return the Makefile of a library and its test program.

    arrays: memories of the test program. bench: compiler flags for the benchmark of the layers.
    proved: the C source that is proved, empty for none. cmsis_nn: whether the library calls CMSIS-NN.
    target: of the kernels; a Cortex-M55 is then the default of the emulation.
    """
    includes = " -isystem $(CMSIS_NN)/Include" if cmsis_nn else ""
    settings = _make_settings(sources, tests, includes, target)
    return settings + _make_rules(sources, arrays, includes, bench, proved, cmsis_nn=cmsis_nn)


def _make_settings(
    sources: Sequence[str], tests: Sequence[str], includes: str, target: str | None
) -> str:
    """Return the comment and the variables of a Makefile: compilers, cores, emulators, files."""
    objects = " ".join(f"$(BUILD)/{PurePath(file).stem}.o" for file in sources)
    return f"""# make test: run the test program; make qemu: on an emulated core of TARGET
# make qemu-m55: on an emulated Cortex-M55; make size: flash and static RAM of the library
# make instructions: those of a frame, counted by QEMU; TARGET=m55: of the Cortex-M55
CC ?= cc
CFLAGS ?= -O2
WARNINGS = -std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wshadow
INCLUDED = -Iinclude -Itarget{includes}
ARM ?= arm-none-eabi-
ARM_CFLAGS ?= -O2
TARGET ?= {"m55" if target == CORTEX_M55 else "m4"}
CORE_m4 = -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16
CORE_m55 = -mcpu=cortex-m55 -mthumb -mfloat-abi=hard
MACHINE_m4 = mps2-an386
MACHINE_m55 = mps3-an547
QUARTERS_m4 = 160
QUARTERS_m55 = 125
SECTIONS = -ffunction-sections -fdata-sections
SOURCES = {" ".join(sources)}
TESTS = {" ".join(tests)}
HEADERS = $(wildcard include/*.h src/*.h target/*.h)
BUILD = build/$(TARGET)
OBJECTS = {objects}
FLAGS = $(CC) $(CFLAGS) $(ARM) $(CORE_$(TARGET)) $(ARM_CFLAGS) $(WARNINGS) $(COUNTED) $(QUARTERS)
QUARTERS ?= $(QUARTERS_$(TARGET))
QEMU ?= qemu-system-arm -M $(MACHINE_$(TARGET)) $(ICOUNT)
RUN ?= $(QEMU) -nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel

"""


def _make_rules(
    sources: Sequence[str],
    arrays: Sequence[str],
    includes: str,
    bench: str | None,
    proved: str,
    *,
    cmsis_nn: bool,
) -> str:
    """Return the targets of a Makefile, those of a benchmark and of a proof included."""
    linked = " build/cmsis-nn-$(TARGET).a" if cmsis_nn else ""
    here = " build/cmsis-nn.a" if cmsis_nn else ""
    benched = _bench(bench, here) if bench else ""
    benched += _proof(sources[0], proved) if proved else ""
    return f""".PHONY: test qemu qemu-m55 instructions size bench bench-here example example-qemu \
	prove prove-products prove-calls clean

test: build/test
	./build/test

qemu: $(BUILD)/target.elf
	$(RUN) $(BUILD)/target.elf

qemu-m55:
	$(MAKE) TARGET=m55 qemu

instructions:
	$(MAKE) BUILD=build/$(TARGET)-counted COUNTED=-DCOUNTED ICOUNT="-icount shift=0" qemu

# Of the library alone; the test program has its vectors and a stack of its own beside it.
size: $(BUILD)/target.elf
	$(ARM)size $(OBJECTS)
	@$(ARM)nm -S -t d $(BUILD)/target.elf | awk '$$4 ~ /^({"|".join(arrays)})$$/ {{ arena += $$2 }} \\
	$$4 ~ /^state($$|[.])/ {{ state += $$2 }} \\
	END {{ print "arena bytes: " arena + 0; print "state bytes: " state + 0; \\
	print "static RAM bytes: " arena + state }}'

# The flags of the last build: what is built with others is built again.
build/flags $(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\\'',$(FLAGS))' > $@.now
	@cmp -s $@.now $@ || cp $@.now $@

FORCE:

{benched}build/test: $(SOURCES) $(TESTS) $(HEADERS) build/flags{here}
	mkdir -p build
	$(CC) $(CFLAGS) $(WARNINGS) $(INCLUDED) $(SOURCES) $(TESTS){here} -lm -o $@

$(BUILD)/target.elf: $(OBJECTS){linked} $(TESTS) target/target.c target/target_$(TARGET).ld \\
$(BUILD)/flags
	$(ARM)gcc $(CORE_$(TARGET)) $(ARM_CFLAGS) $(SECTIONS) -std=c99 -Wall -Wextra -DON_TARGET \\
	$(COUNTED) -DQUARTERS=$(QUARTERS) -nostartfiles -T target/target_$(TARGET).ld \\
	-Wl,--gc-sections -Wl,-Map=$(BUILD)/target.map \\
	$(INCLUDED) $(TESTS) target/target.c $(OBJECTS){linked} -lm -lc -lgcc -o $@

$(BUILD)/%.o: src/%.c $(HEADERS) $(BUILD)/flags
	mkdir -p $(BUILD)
	$(ARM)gcc $(CORE_$(TARGET)) $(ARM_CFLAGS) $(SECTIONS) $(WARNINGS) -Iinclude{includes} -c $< -o $@
{_CMSIS_NN if cmsis_nn else ""}
clean:
	rm -rf build
"""


# What a library calls of CMSIS-NN, compiled here and for the target.
_CMSIS_NN = f"""
# Kernels of CMSIS-NN, which is not part of this library: make CMSIS_NN=FOLDER, where FOLDER has
# commit {COMMIT}
# of {SOURCE}
CMSIS_NN ?= CMSIS-NN
CMSIS_NN_FLAGS ?=
FLAGS += $(CMSIS_NN) $(CMSIS_NN_FLAGS)
CMSIS_NN_PARTS = BasicMath Convolution FullyConnected NNSupport Pooling Transpose
CMSIS_NN_FILES = $(foreach one,$(CMSIS_NN_PARTS),$(wildcard $(CMSIS_NN)/Source/$(one)Functions/*.c))
CMSIS_NN_OTHER = %_f16.c %_f32.c %_flt.c %_s4.c %_s4_fast.c %_s4_opt.c
CMSIS_NN_SOURCES = $(abspath $(filter-out $(CMSIS_NN_OTHER),$(CMSIS_NN_FILES)))
COMPILED = -w $(CMSIS_NN_FLAGS) -I$(abspath $(CMSIS_NN)/Include) -c $(CMSIS_NN_SOURCES)

build/cmsis-nn.a: $(CMSIS_NN)/Include/arm_nnfunctions.h build/flags
	rm -rf $@ build/cmsis-nn
	mkdir -p build/cmsis-nn
	cd build/cmsis-nn && $(CC) $(CFLAGS) $(COMPILED)
	ar rc $@ build/cmsis-nn/*.o

build/cmsis-nn-$(TARGET).a: $(CMSIS_NN)/Include/arm_nnfunctions.h $(BUILD)/flags
	rm -rf $@ build/cmsis-nn-$(TARGET)
	mkdir -p build/cmsis-nn-$(TARGET)
	cd build/cmsis-nn-$(TARGET) && $(ARM)gcc $(CORE_$(TARGET)) $(ARM_CFLAGS) $(SECTIONS) $(COMPILED)
	$(ARM)ar rc $@ build/cmsis-nn-$(TARGET)/*.o

$(CMSIS_NN)/Include/arm_nnfunctions.h:
	@echo "no CMSIS-NN in '$(CMSIS_NN)': git clone {SOURCE} &&" \\
	"git -C CMSIS-NN checkout {COMMIT}; then make CMSIS_NN=FOLDER" >&2
	@exit 1
"""


def _bench(flags: str, here: str) -> str:
    """Targets that measure layers, on a board or in QEMU, and here; and the example.

    here: what programs are linked with besides.
    """
    return f"""BENCHED = TESTS={BENCH} WARNINGS="$(WARNINGS) {flags}"

# On a board that a debugger serves through semihosting: make bench HERTZ=216000000 QUARTERS=4
# RUN="..." with what loads and runs the file behind it. In QEMU an instruction is a cycle.
HERTZ ?= 100000000
MEASURED = $(MAKE) -s BUILD=build/$(TARGET)-bench COUNTED="-DCOUNTED -DHERTZ=$(HERTZ)" \\
	ICOUNT="-icount shift=0" $(BENCHED)
bench:
	$(MEASURED) build/$(TARGET)-bench/target.elf
	$(MEASURED) qemu 2>&1

bench-here: $(SOURCES) {BENCH} $(HEADERS){here}
	mkdir -p build
	$(CC) $(CFLAGS) $(WARNINGS) {flags} $(INCLUDED) $(SOURCES) {BENCH}{here} -lm -o build/bench
	./build/bench

# Frames of real numbers come in, classes (or values) go out: make example < frames.txt
example: $(SOURCES) {EXAMPLE} $(HEADERS){here}
	mkdir -p build
	$(CC) $(CFLAGS) $(WARNINGS) $(INCLUDED) $(SOURCES) {EXAMPLE}{here} -lm -o build/example
	./build/example

# The same on an emulated core, from frames.txt
example-qemu:
	$(MAKE) -s BUILD=build/$(TARGET)-example TESTS={EXAMPLE} qemu

"""


def _proof(source: str, text: str) -> str:
    """The target that proves a library free of memory errors. text: of its source."""
    words = frozenset(re.findall(r"\w+", text))
    together = ",".join(f"{word}:0" for word in TOGETHER if word in words)
    by_contract, products, first = "", "", ""
    if BY_CONTRACT in words:
        by_contract, first = f" -eva-use-spec {BY_CONTRACT}", " prove-products"
        products = f"""prove-products: {source} $(HEADERS)
	mkdir -p build
	WHY3CONFIG=build/why3.conf why3 config detect > build/why3.txt 2>&1
	WHY3CONFIG=build/why3.conf $(FRAMA_C) -wp -wp-rte -wp-fct product_of,{BY_CONTRACT} \\
	-wp-prover z3 -wp-timeout 60 {source} > build/contract.txt
	@grep 'Proved goals' build/contract.txt
	@awk '/Proved goals/ {{ found = $$4 == $$6 }} END {{ exit !found }}' build/contract.txt
"""
    return f"""# Frama-C over any frame, whatever came before: each access, shift, sum and value read.
# WP proves the contracts of inner loops, with Z3; Eva all that calls them.
FRAMA_C ?= frama-c -machdep gcc_x86_32 -cpp-extra-args="-Iinclude"
EVA ?= -eva-slevel 100000000 -eva-slevel-merge-after-loop @all \\
	-eva-no-results{f" -eva-slevel-function {together}" if together else ""}
prove:{first} prove-calls
{products}prove-calls: $(SOURCES) {PROOF} $(HEADERS)
	mkdir -p build
	$(FRAMA_C) -eva $(EVA){by_contract} $(SOURCES) {PROOF} > build/prove.txt
	@sed -n '/ANALYSIS SUMMARY/,$$p' build/prove.txt
	@grep -q ' 0 alarms generated' build/prove.txt
	@! grep -qE ' [1-9][0-9]* (unknown|invalid)' build/prove.txt

"""


def arrays_of(written: Written) -> str:
    """Return C for the array of the arena, or one for each memory, the slow one in its section."""
    places = ["", *(f" {written.capitals}_IN_{memory.upper()}" for memory in written.memories[1:])]
    return "\n".join(
        f"static {written.name}_element {array}[{elements}]{place};"
        for (array, elements), place in zip(written.array_elements.items(), places, strict=True)
    )


def end_of_main(
    name: str, differs: str, equal: str, arena: str, state: str = "sizeof state", more: str = ""
) -> str:
    """Return the end of a main program, which prints the outcome and the memory used.

    arena, state: C expressions. more: C before the end of the line.
    """
    return f"""    say(failed ? "{name}: {differs}\\n" : "{name}: {equal}\\n");
    say("arena bytes: ");
    say_number((uint32_t){arena});
    say("\\nstate bytes: ");
    say_number((uint32_t){state});
#ifdef ON_TARGET
    say("\\nstack bytes: ");
    say_number(stack_bytes());
#endif
{more}    say("\\n");
    return failed != 0;
}}
"""


def target_files() -> dict[str, str]:
    """Return the support files of a program on an emulated microcontroller, by file name."""
    names = ("target.c", "target.h", "target_m4.ld", "target_m55.ld")
    return {f"target/{name}": source(name) for name in names}


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
{_memories(plan)}
| RAM: state | at most {written.state_bytes} bytes |
| RAM: stack | {_stack(written)} |
| flash: weights | {_weights(written, package)} |
| work | {work} |

{ports_table([(model, written)])}

{target_in_words(package.target)}

Tensors lie row by row, in a row column by column, and the channels of a pixel side by side (HWC).
{_outside(written)}
```c
#include "{name}.h"

{arrays_of(written)}
static {name}_state state;

{_usage(written)}
```
{_placing(written, plan)}{_kept(written, plan)}{_converting(written)}
No function allocates memory, calls itself, or keeps anything outside of arena and state, so several
instances can run side by side, each with an arena and a state of its own. The library needs C99,
`<stdint.h>`, `<stddef.h>`, `<string.h>` and `<math.h>`. Compiled with `-D{capitals}_PROFILE` it
calls `{name}_profile_begin(stage)` and `{name}_profile_end(stage)`, which you define, around each
firing of a stage, with `-D{capitals}_YIELD` your `{name}_yield()` after each. Functions return
`{capitals}_OK` (0), or below zero what was wrong with memory, state or header; with
`-D{capitals}_UNCHECKED` nothing is checked.

{FOLDERS_IN_WORDS}{_testing(vectors)}{_projects(name, package)}\
- Source files name their licence, which `LICENSE` explains: {LICENSE};
  weights and tables of layers that of the model: {package.model_license}.
  `{capitals}_VERSION` is the version of the library, "{package.version}".{_with_cmsis_nn(written)}
{_making(written) if MAKE in package.projects else ""}"""


def _stack(written: Written) -> str:
    """Return the cell of a table on the stack."""
    text = f"at most {written.stack_bytes:,} bytes with gcc `-O2` or `-Os`"
    if written.cmsis_nn is not None:
        return text
    return f"{text}, {written.stack_bytes + O3_BYTES:,} with `-O3`"


def _weights(written: Written, package: Package) -> str:
    """Return the cell of a table on the constants of a library."""
    helium = written.helium_bytes
    more = f", and {helium:,} bytes more on a Cortex-M55" if helium else ""
    rest = "; `make size` prints code and tables of layers" if MAKE in package.projects else ""
    return f"{written.weight_bytes:,} bytes: all of `src/{written.name}_weights.c`{more}{rest}"


def _testing(vectors: Sequence[TestVector]) -> str:
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


def _projects(name: str, package: Package) -> str:
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


def _making(written: Written) -> str:
    """Return lines on the targets of the Makefile."""
    return f"""\
- `make test` builds and runs the test vectors here, and ends with 0 when the outputs are equal.
{QEMU_IN_WORDS}{_measuring(written)}{SIZE_IN_WORDS}"""


def ports_table(networks: Sequence[tuple[Model, Written]]) -> str:
    """Return a table of the inputs and outputs of networks."""
    rows = "\n".join(
        f"| {port.parameter}{f' of {written.name}' if len(networks) > 1 else ''} | {kind} "
        f"| {port.kind} | {_layout(model, port)} | {port.stored.real_in_words() or '-'} |"
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


def _layout(model: Model, port: LibraryPort) -> str:
    shape = model.network.layer(port.layer).shape
    if shape.is_map:
        return f"{shape.height} rows x {shape.width} columns x {shape.channels} channels"
    return str(shape)


def _measuring(written: Written) -> str:
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


def _outside(written: Written) -> str:
    """Return the tensors that are read or written in memory of the caller."""
    outside = [
        port.parameter for port in (*written.inputs, *written.outputs) if port.outside is not None
    ]
    if not outside:
        return ""
    return f"Outside the arena, in memory that you give: {', '.join(outside)}; nothing is copied.\n"


def _memories(plan: StreamingPlan) -> str:
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


def _placing(written: Written, plan: StreamingPlan) -> str:
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


def _kept(written: Written, plan: StreamingPlan) -> str:
    """Return the lines on the state between frames; empty for a stateless network."""
    if not written.keeps_state:
        return ""
    name = written.name
    return f"""
The network keeps a state: call `{name}_init` once and `{name}_invoke` for each frame. The state is
{plan.kept_bytes:,} bytes of the arena, so leave the arena alone between frames; `{name}_save` and
`{name}_restore` take it elsewhere and back, and `{name}_reset` begins anew.
"""


def _converting(written: Written) -> str:
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


def _taken(written: Written) -> list[str]:
    """Return C that takes the first output from the arena."""
    port, call = written.outputs[0], f"{written.name}_output(&state, 0)"
    if port.unit == 1:
        return [f"    const {port.kind} *result = {call};"]
    return [
        f"    {port.kind} result[{port.elements}];",
        f"    memcpy(result, {call}, sizeof result); /* which begins at any byte */",
    ]


def _usage(written: Written) -> str:
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
            *_taken(written),
            "}",
        ]
    return "\n".join(lines)
