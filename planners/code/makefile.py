"""The Makefile of a library: its tests here and in QEMU, sizes, a benchmark, a proof."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from planners.code.machines import CORTEX_M55
from planners.code.parts import COMMIT, SOURCE, source

MAIN, BENCH, EXAMPLE = "test/main.c", "test/bench.c", "examples/classify.c"
PROOF = "test/prove.c"  # which only Frama-C reads
BY_CONTRACT = "sum_of_products"  # proved for all arguments, with what it calls
TOGETHER = (  # functions whose turns of loops are proved together: places, filters, channels
    *("each_window", "make_filters", "make_all_lanes", "depthwise_pixel", "window_mean"),
    *("combine", "add_cell", "multiply_cell", "make_places", "rescale_cell", "look_up_cell"),
)


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


def target_files() -> dict[str, str]:
    """Return the support files of a program on an emulated microcontroller, by file name."""
    names = ("target.c", "target.h", "target_m4.ld", "target_m55.ld")
    return {f"target/{name}": source(name) for name in names}
