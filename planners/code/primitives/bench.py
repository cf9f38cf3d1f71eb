"""Generator of a C program that times each primitive for each layer and prints the profile.

A variant of a layer is a primitive with the layouts of its input and output. Layers with the same
operator, shapes and fused operators are timed once, as in planners/primitives/profiling. Run times
do not depend on weight values: a single array, in flash on a microcontroller, replaces all weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from zlib import crc32

from cnn2csdf.network import Layer, Shape
from cnn2csdf.weights import Array, Model
from csdf.errors import InvalidPlan
from csdf.io.csv_text import csv_text
from planners.code.c_text import identifier, string_literal, wrapped
from planners.code.initialisers import structures_of
from planners.code.makefile import MAIN, makefile, target_files
from planners.code.packaging import PLAIN, Package, with_banners
from planners.code.parts import source, used
from planners.code.primitives.calls import FILES, PlacedTensor, PrimitiveCalls, PrimitiveTables
from planners.code.primitives.program import prologue, steps_table
from planners.primitives.library.layers import layout_changes
from planners.primitives.library.primitive import ELEMENT_BYTES
from planners.primitives.profile import CHW, HWC, LAYER, VARIANT_KEY, Variant

COLUMNS = (*VARIANT_KEY, "workspace_bytes", "parameter_bytes", "producer", "index")
TIMES = ("nanoseconds", "spread_nanoseconds")  # which the program adds
ALIGNMENT = 64
INPUT = Variant(LAYER, CHW, CHW)  # of an input of the network


class _Weights(PrimitiveTables):
    """A single array that replaces all weights; taken: bytes requested since the last reset."""

    most = taken = 0

    def weights(self, _: str, array: Array, owner: object = None) -> str:  # noqa: ARG002
        """Return the shared array; it has the size of the largest array requested."""
        return self._counted(array.nbytes)

    def prepared(self, _: str, owner: object, size: int, make: object) -> str:  # noqa: ARG002
        """Return the shared array; no weights are prepared."""
        return self._counted(size)

    def _counted(self, size: int) -> str:
        self.taken += size
        self.most = max(self.most, size)
        return "all_weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A benchmark program: its files by name, and the numbers of variants and layers it times."""

    name: str
    files: Mapping[str, str]
    ways: int
    layers: int
    arena_bytes: int
    weight_bytes: int


class _BenchWriter:
    """Collects the candidates of a network (variants of layers) and their rows of the profile."""

    def __init__(self, model: Model, ram: float, flash: float, name: str) -> None:
        self.network, self.name = model.network, name
        self.tables = _Weights(name)
        self.calls = PrimitiveCalls(model, self.tables)
        self._ram, self._flash = ram, flash
        self.arena = 0
        self.rows: list[str] = []
        self.candidates: list[str] = []
        self.layers = 0

    def add_all(self) -> None:
        """Add all variants of all layers, and all changes of layout between them."""
        same: dict[object, list[Layer]] = {}
        fitting: list[tuple[str, Variant]] = []
        for layer in self.network.layers:
            key = (layer.operator, self.network.input_shapes(layer), layer.epilogue)
            same.setdefault((key, layer.name if layer.is_input else ""), []).append(layer)
        for layers in same.values():
            is_input = layers[0].is_input
            timed: dict[str, list[Variant]] = {layer.name: [] for layer in layers}
            for variant in [INPUT] if is_input else self.calls.variants(layers[0]):
                usable = [layer for layer in layers if self._changes_fit(layer, variant)]
                if usable and self._add_variant(usable, variant):
                    for layer in usable:
                        timed[layer.name].append(variant)
            for name, variants in timed.items():
                if not variants:
                    raise InvalidPlan(
                        f"layer {name!r} fits in no way into the RAM ({_known(self._ram)}) and "
                        f"the flash ({_known(self._flash)}); raise --ram or --flash"
                    )
                fitting += [(name, variant) for variant in variants]
            self.layers += 1
        changes: dict[tuple[Shape, str, str], list[list[object]]] = {}
        for link, before, after in layout_changes(self.network, fitting):
            shape = self.network.layer(link.producer).shape
            row = [link.consumer, "", before, after, 0, 0, link.producer, link.index]
            changes.setdefault((shape, before, after), []).append(row)
        for (shape, before, after), rows in changes.items():
            placed, end = _placed([(shape, before), (shape, after)])
            self.arena = max(self.arena, end)
            self._add(self.calls.change(*placed), rows)
            self.layers += 1

    def _changes_fit(self, layer: Layer, variant: Variant) -> bool:
        """Whether maps that do not fit into the RAM in two layouts are in CHW before and after it."""
        shapes = self.network.input_shapes(layer)
        ends = [(layer.shape, variant.output_layout), *((s, variant.input_layout) for s in shapes)]
        return all(
            layout == CHW or _placed([(shape, CHW), (shape, HWC)])[1] <= self._ram
            for shape, layout in ends
        )

    def _add_variant(self, layers: list[Layer], variant: Variant) -> bool:
        """Add a variant of equal layers if it fits into RAM and flash; return whether it does."""
        layer, shapes = layers[0], self.network.input_shapes(layers[0])
        source = variant.input_layout
        if layer.is_input:  # which is copied from the caller's memory
            shapes, source = (layer.shape,), HWC
        size = self.calls.workspace_bytes(layer, variant)
        placed, end = _placed(
            [*((shape, source) for shape in shapes), (layer.shape, variant.output_layout)]
        )
        if end + size > self._ram:
            return False
        before, self.tables.taken = self.tables.most, 0
        if layer.is_input:
            work = self.calls.change(*placed)
        else:
            work = self.calls.work(layer, variant, placed[:-1], placed[-1], end)
        if self.tables.taken > self._flash:
            self.tables.most = before
            return False
        self.arena = max(self.arena, end + size)
        costs = (size, self.tables.taken, "", "")
        self._add(work, [[layer.name, *variant, *costs] for layer in layers])
        return True

    def _add(self, work: str, rows: list[list[object]]) -> None:
        """Add a candidate. work: its initialiser; rows: of the profile that its time is for."""
        self.candidates.append(
            f"{{.of = {structures_of(FILES).designated('work', work)},\n     "
            f".first_row = {len(self.rows)}, .rows = {len(rows)}, .layer = {self.layers}}},"
        )
        self.rows += [csv_text([row]).strip("\r\n") + "," for row in rows]

    def source(self) -> str:
        """Return main.c."""
        texts = [*self.rows, *self.candidates]
        stated = {
            "network": self.network.name,
            "library": "C primitives of csdf",
            "element_type": "float32",
            "bench": f"{crc32(chr(10).join(texts).encode()):08x}",
        }
        head = "".join(f"# {key}: {' '.join(value.split())}\n" for key, value in stated.items())
        head += ",".join((*COLUMNS, *TIMES)) + "\n"
        wanted = self.tables.wanted | {"work_on", "map", "work", "step"}
        listed = "\n".join(f"    {candidate}" for candidate in self.candidates)
        shown = "\n".join(f"    {string_literal(row)}," for row in self.rows)
        pieces = [
            "#define _POSIX_C_SOURCE 199309L /* for its clock, where it has one */",
            prologue(self.name, self.calls, "typedef float element;\n"),
            *used(wanted, FILES),
            """/* A way of a layer, and the rows of the profile that its time is for. */
typedef struct {
    work of;
    int32_t first_row, rows, layer;
} candidate;""",
            *self.tables.definitions(structures_of(FILES)),
            steps_table(self.calls),
            f"static const candidate candidates[] = {{\n{listed}\n}};",
            f"static const char *const rows[] = {{\n{shown}\n}};",
            f"""#define HEAD {string_literal(head)}
#define HEAD_LINES {head.count(chr(10))}
#define CANDIDATES {len(self.candidates)}
#define LONGEST_ROW {max(map(len, map(str.encode, self.rows))) + 1}
#define ARENA_ELEMENTS {max(1, -(-self.arena // ELEMENT_BYTES))}""",
            source("bench.c"),
        ]
        return "\n\n".join(piece for piece in pieces if piece)

    def files(self, package: Package) -> dict[str, str]:
        """Return all files of the program by name."""
        name, count = self.name, max(1, self.tables.most // ELEMENT_BYTES)
        files = {
            f"include/{name}.h": f"""/* Weights that stand for all that there are. */
#define WEIGHTS {count}
#if defined(ON_TARGET) || defined(ON_BOARD)
extern const float all_weights[WEIGHTS];
#else
extern float all_weights[WEIGHTS];
#endif
""",
            f"src/{name}_weights.c": f"""#include "{name}.h"

#if defined(ON_TARGET) || defined(ON_BOARD)
{_constants(count)}
#else
float all_weights[WEIGHTS];
#endif
""",
            MAIN: self.source(),
            **target_files(),
            "Makefile": makefile((f"src/{name}_weights.c",)) + _TARGETS,
            "README.md": _README.format(
                name=name,
                network=self.network.name,
                count=len(self.candidates),
                arena=self.arena,
                weights=count * ELEMENT_BYTES,
            ),
        }
        return with_banners(files, package)


def bench(
    model: Model,
    *,
    name: str | None = None,
    ram: int | None = None,
    flash: int | None = None,
    package: Package = PLAIN,
) -> Bench:
    """Return a program that times all variants of the layers that fit into RAM and flash.

    ram: bytes for the feature maps and the workspace of a layer; flash: bytes for its weights.
    package: the contents of the file banners.

    A map that does not fit in two layouts at once is in CHW in all variants. Raises UnsupportedOperator
    for a layer without C, InvalidPlan for a quantised layer and for a layer of which no variant fits.
    """
    writing = _BenchWriter(model, ram or inf, flash or inf, identifier(name or model.network.name))
    writing.add_all()
    return Bench(
        name=writing.name,
        files=writing.files(package),
        ways=len(writing.candidates),
        layers=len(model.network.layers),
        arena_bytes=writing.arena,
        weight_bytes=writing.tables.most,
    )


def _placed(tensors: Sequence[tuple[Shape, str]]) -> tuple[list[PlacedTensor], int]:
    """Shapes and layouts as tensors one after the other, aligned, and the next free byte."""
    placed, offset = [], 0
    for shape, layout in tensors:
        placed.append(PlacedTensor(shape=shape, layout=layout, offset=offset))
        offset += -(-shape.elements * ELEMENT_BYTES // ALIGNMENT) * ALIGNMENT
    return placed, offset


def _known(limit: float) -> str:
    return "any" if limit == inf else f"{limit} bytes"


def _constants(count: int) -> str:
    """Return a C array of nonzero numbers; nested macros keep the text short."""
    numbers = [f"{number * 0.0625}f" for number in range(-15, 17, 2)]
    macros, whole = ["#define A " + ", ".join(numbers)], {}
    for before, name in pairwise("ABCDE"):
        macros.append(f"#define {name} " + ", ".join(16 * before))
    for power, name in reversed(list(enumerate("ABCDE", 1))):
        whole[name], count = divmod(count, 16**power)
    listed = [name for name, times in whole.items() for _ in range(times)] + numbers[:count]
    return "\n".join(
        [*macros, "", f"const float all_weights[WEIGHTS] = {{\n{wrapped(listed)}\n}};"]
    )


_TARGETS = """
# make profile: times here; an interrupted one goes on. make profile-qemu: instructions of a
# Cortex-M4, or with TARGET=m55 of a Cortex-M55, as nanoseconds
PROFILE ?= profile.csv

.PHONY: profile profile-qemu

profile: build/test
	./build/test $(PROFILE)

profile-qemu:
	$(MAKE) -s BUILD=build/$(TARGET)-counted COUNTED=-DCOUNTED build/$(TARGET)-counted/target.elf
	$(MAKE) -s instructions > $(PROFILE).part 2>&1 || { cat $(PROFILE).part; exit 1; }
	mv $(PROFILE).part $(PROFILE)
"""
_README = """# {name}: what each way to compute a layer of {network} takes

{count} ways are timed, in {arena:,} bytes of RAM, with {weights:,} bytes for weights.

- `make profile` times them here and writes `profile.csv`; when it was interrupted, it goes on.
- `make profile-qemu` counts instructions on an emulated Cortex-M4, with `TARGET=m55` on a Cortex-M55.
- On a board: compile `test/main.c` and `src/{name}_weights.c` with `-DON_BOARD`, define
  `void say(const char *text)` and `uint64_t nanoseconds(void)`, and keep what is said.

`csdf plan primitives MODEL --profile profile.csv -o plan.json` chooses, and `csdf deploy MODEL --plan
plan.json` writes the choice as C.
"""
