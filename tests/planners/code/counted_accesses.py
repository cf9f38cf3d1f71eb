"""Bytes that a compiled library reads and writes in each memory, counted access by access.

`gcc -fsanitize=thread` puts a call before each load and store of the library. The functions that are
called are those of HOOKS, which add the width of the access, in bytes, to the memory of the address.
The runtime of the sanitizer is not linked. memcpy, memmove and memset of the library are functions of
HOOKS, too: n bytes copied are n bytes read and n bytes written. Each access counts, also of bytes that
were read before: there is no cache. Vector instructions are off (-U__SSE2__), so that each element of
an operand is one load, as on a core without vectors.

Regions are the memories of the plan, and the flash: filters of convolutions and matrices of fully
connected layers. The caller writes inputs before a frame and reads outputs after it where they lie;
these accesses are not counted. Each frame is counted by itself, so that copies of `NAME_init` are not.
"""

import re
import subprocess
from typing import NamedTuple

from planners.code.c_text import identifier
from planners.code.library import library
from planners.plan.weights import weights_role
from planners.rewrites.rematerialisation import executed_model
from tests.planners.code.compiling import COMPILER, inlined

INSTRUMENTED = (
    *("-std=gnu99", "-O1", "-fsanitize=thread", "-fno-tree-loop-distribute-patterns"),
    *("-U__SSE2__", "-U__AVX2__", "-include", "hooked.h"),
)
HOOKED = """#include <string.h>
void *hooked_memcpy(void *to, const void *from, size_t bytes);
void *hooked_memmove(void *to, const void *from, size_t bytes);
void *hooked_memset(void *to, int value, size_t bytes);
#define memcpy hooked_memcpy
#define memmove hooked_memmove
#define memset hooked_memset
"""
HOOKS = """#include <string.h>
struct region { const char *begin; unsigned long bytes; int memory; };
extern const struct region regions[];
extern const int region_count;
unsigned long long counted_bytes[16][2];

static void count(const void *at, unsigned long bytes, int is_write)
{
    int number;
    for (number = 0; number < region_count; number++) {
        const struct region *one = &regions[number];
        if ((const char *)at >= one->begin && (const char *)at < one->begin + one->bytes) {
            counted_bytes[one->memory][is_write] += bytes;
        }
    }
}

void *hooked_memcpy(void *to, const void *from, size_t bytes)
{
    count(from, bytes, 0);
    count(to, bytes, 1);
    return memcpy(to, from, bytes);
}

void *hooked_memmove(void *to, const void *from, size_t bytes)
{
    count(from, bytes, 0);
    count(to, bytes, 1);
    return memmove(to, from, bytes);
}

void *hooked_memset(void *to, int value, size_t bytes)
{
    count(to, bytes, 1);
    return memset(to, value, bytes);
}

#define OF_WIDTH(bytes) \\
    void __tsan_read##bytes(const void *at) { count(at, bytes, 0); } \\
    void __tsan_write##bytes(const void *at) { count(at, bytes, 1); } \\
    void __tsan_unaligned_read##bytes(const void *at) { count(at, bytes, 0); } \\
    void __tsan_unaligned_write##bytes(const void *at) { count(at, bytes, 1); }
OF_WIDTH(1)
OF_WIDTH(2)
OF_WIDTH(4)
OF_WIDTH(8)
OF_WIDTH(16)
void __tsan_read_range(const void *at, unsigned long bytes) { count(at, bytes, 0); }
void __tsan_write_range(const void *at, unsigned long bytes) { count(at, bytes, 1); }
void __tsan_init(void) {}
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) {}
"""
MAIN = """#include <stdio.h>
#include <string.h>
#include "net.h"
int net_test(void);
%(arrays)s
struct region { const char *begin; unsigned long bytes; int memory; };
const struct region regions[] = {
%(regions)s
};
const int region_count = %(count)d;
extern unsigned long long counted_bytes[16][2];
static net_state state;

int main(void)
{
    int frame, number;
    if (net_test() != 0) {
        printf("differs\\n");
        return 1;
    }
    net_init(&state, %(memories)s);
    for (frame = 0; frame < 2; frame++) {
%(inputs)s
        memset(counted_bytes, 0, sizeof counted_bytes);
        net_begin(&state, %(given)s);
        while (net_step(&state) == NET_OK) {
        }
        for (number = 0; number < %(names)d; number++) {
            printf("%%llu %%llu ", counted_bytes[number][0], counted_bytes[number][1]);
        }
        printf("\\n");
    }
    return 0;
}
"""


class MovedBytes(NamedTuple):
    """Bytes of a frame that are read from a memory and written to it."""

    read: int
    written: int


def counted_traffic(model, plan, folder, flags=INSTRUMENTED, frames=None):
    """Return the bytes that each of two frames reads and writes, by memory and for the flash.

    The program compares the outputs with those of the test vectors first, of these frames or of random
    frames. Raises AssertionError where they differ, or where the second frame moves other bytes than
    the first.
    """
    found = library(model, plan, name="net", frames=frames)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "include").mkdir(exist_ok=True)
    for name in ("include/net.h", "src/net.c", "src/net_weights.c", "test/main.c"):
        (folder / name.rsplit("/", maxsplit=1)[-1]).write_text(inlined(found.files, name))
    names = [identifier(one.name) for one in plan.memories]
    memories = [one.name for one in plan.memories] + [plan.flash] * (plan.flash is not None)
    weights = _weights(executed_model(model, plan.rematerialised).network, found)
    regions = [
        f"    {{(const char *){one}, sizeof {one}, {number}}}," for number, one in enumerate(names)
    ]
    if plan.flash is not None:
        regions += [
            f"    {{(const char *){symbol}, sizeof {symbol}, {len(names)}}}," for symbol in weights
        ]
    arrays = [f"static net_element {one}[NET_{one.upper()}_ELEMENTS];" for one in names]
    arrays += [f"extern {declared};" for declared in weights.values()]
    inputs = len(model.network.inputs)
    text = MAIN % {
        "arrays": "\n".join(arrays),
        "regions": "\n".join(regions),
        "count": len(regions),
        "memories": ", ".join(f"{name}, sizeof {name}" for name in names),
        "inputs": "\n".join(
            f"        memset(net_input(&state, {number}), frame, {size});"
            for number, size in enumerate(_input_bytes(found.files["include/net.h"]))
        ),
        "given": ", ".join(f"net_input(&state, {number})" for number in range(inputs)),
        "names": len(memories),
    }
    (folder / "counting.c").write_text(text)
    (folder / "hooks.c").write_text(HOOKS)
    (folder / "hooked.h").write_text(HOOKED)
    for name in ("net", "net_weights"):
        _run([COMPILER, *flags, "-c", f"{name}.c"], folder)
    plain = [COMPILER, "-std=gnu99", "-O1", "-DNO_MAIN", "-c", "counting.c", "hooks.c", "main.c"]
    _run(plain, folder)
    objects = ["net.o", "net_weights.o", "counting.o", "hooks.o", "main.o"]
    _run([COMPILER, *objects, "-lm", "-o", "counting"], folder)
    lines = [
        list(map(int, line.split())) for line in _run(["./counting"], folder).splitlines()[-2:]
    ]
    assert lines[0] == lines[1], "the second frame moves other bytes than the first"
    pairs = zip(lines[0][::2], lines[0][1::2], strict=True)
    return {name: MovedBytes(*pair) for name, pair in zip(memories, pairs, strict=True)}


def planned_traffic(plan):
    """The traffic of a plan in the form of `counted_traffic`, of its slow memories and the flash."""
    return {one.memory: MovedBytes(one.read, one.written) for one in plan.traffic}


def require_counted(model, plan, folder, flags=INSTRUMENTED, frames=None):
    """Require that the compiled library moves the bytes of the plan, in each memory and direction."""
    counted = counted_traffic(model, plan, folder, flags, frames)
    assert {name: counted[name] for name in planned_traffic(plan)} == planned_traffic(plan)


def _weights(network, found):
    """The declarations of the weights that can be moved, by their symbols."""
    declared = re.findall(
        r"^extern (const \w+ (net_w_\w+)\[\d+\]);", found.files["src/net_weights.h"], re.M
    )
    moved = {
        (identifier(layer.name), role)
        for layer in network.layers
        if (role := weights_role(layer)) is not None
    }
    # The symbol has the name of the layer, or a part of it that no other layer has.
    parts = {symbol: symbol.removeprefix("net_w_").rpartition("_")[::2] for _, symbol in declared}
    return {
        symbol: text
        for text, symbol in declared
        if any(parts[symbol][0] in name and parts[symbol][1] == role for name, role in moved)
    }


def _input_bytes(header):
    """The C text for the bytes of each input."""
    numbers = re.findall(r"#define (NET_\w+)_NUMBER (\d+)\n#define \w+_TYPE (\w+)", header)
    inputs = int(
        re.search(r"_status net_(?:run|invoke)\(net_state \*state((?:, const [^,)]*)*)", header)[
            1
        ].count(",")
    )
    return [f"{name}_ELEMENTS * sizeof({kind})" for name, _, kind in numbers[:inputs]]


def _run(command, folder):
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[:4000]
    return ran.stdout
