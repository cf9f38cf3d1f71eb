"""C table `weights_copies` of the weights that a library copies from flash into the arena.

A plan copies the weights of a layer in three forms, as buffers of two kinds:

- RESIDENT alone: copied once, by NAME_init; the layer reads this copy in each frame.
- WEIGHTS alone: copied from flash in each frame, at the begin of a group.
- both: NAME_init copies flash to the RESIDENT buffer, the home of the weights; each frame copies the
  home to the WEIGHTS buffer, usually in a faster memory, and the layer reads that copy.

A kernel reads its weights through an address in its constant parameters. While a stage fires, its
layers use temporary parameters, on the stack, with the address of the copied weights.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from csdf.errors import InvalidPlan
from planners.code.c_text import NULL, Tables, table_row
from planners.code.parts import as_real
from planners.code.tensor_table import TensorTable
from planners.plan.plan import Kind, StreamBuffer

# Upper bounds on a 32-bit core, in bytes of the stack: C structures `stage`, `layer` and `movable`.
STAGE_BYTES, LAYER_BYTES, MOVABLE_BYTES = 48, 44, 120
# For each type of parameters, the C type with a member `weights`. Where the two types differ, the
# parameters begin with a structure of that type, so that `weights` has the same offset in both.
TYPE_WITH_WEIGHTS = {
    "convolution": "convolution",
    "matrix": "matrix",
    **{as_real(kind): as_real(kind) for kind in ("convolution", "matrix")},
    "product_convolution": "convolution",
}


class PlacedLayer(NamedTuple):
    """A layer of a library: table index, address of its parameters, group and stage."""

    number: int
    parameters: str
    group: int
    stage: int


class MovedWeights:
    """Rows of the C table, and the bounds on its copies.

    lines: initialisers of the rows. kinds: parameter types of the layers that read copies. most_copies:
    maximum number of copies that one stage reads. copies_at_init: whether NAME_init copies weights.
    copies_ahead: whether a copy begins with an earlier group than the group of its layer.
    """

    def __init__(self, tensors: TensorTable, layers: Mapping[str, PlacedLayer]) -> None:
        """layers: by name, as written to C."""
        plan, tables = tensors.plan, tensors.calls.tables
        self.lines: list[str] = []
        self.kinds: set[str] = set()
        residents = [buffer for buffer in plan.buffers if buffer.kind is Kind.RESIDENT]
        homes = {buffer.tensor: buffer for buffer in residents}
        frame_copies = [buffer for buffer in plan.buffers if buffer.kind is Kind.WEIGHTS]
        copied_by_frames = {buffer.tensor for buffer in frame_copies}
        reads_by_stage: Counter[int] = Counter()
        for buffer in (*residents, *frame_copies):
            layer = layers[buffer.tensor]
            kind, symbol = _parameters_and_weights(buffer, layer, tables)
            self.kinds.add(kind)
            at_init = buffer.kind is Kind.RESIDENT
            home = None if at_init else homes.get(buffer.tensor)
            is_read = not at_init or buffer.tensor not in copied_by_frames
            reads_by_stage[layer.stage] += is_read
            reader = f"&layers[{layer.number}]" if is_read else NULL
            weights = _weights_member(symbol, tables)
            fields = {
                "of": reader,  # the layer that reads the copy
                "from": symbol if home is None else NULL,  # address in flash, NULL: copy the home
                "home": 0
                if home is None
                else tensors.elements(home.offset),  # element of the arena
                "offset": tensors.elements(buffer.offset),  # of the copy: element of the arena
                "bytes": buffer.size,
                "size": f"sizeof({kind})",  # of the parameters of the layer
                "field": f"offsetof({TYPE_WITH_WEIGHTS[kind]}, {weights})",  # address in these
                "begin": -1 if at_init else buffer.begin,  # group that begins with the copy
                "group": layer.group,  # group of the layer
            }
            self.lines.append(table_row(buffer.name, **fields))
        self.copies_at_init = bool(homes)
        self.copies_ahead = any(
            copied.begin < layers[copied.tensor].group for copied in frame_copies
        )
        self.most_copies = max(reads_by_stage.values(), default=0)

    def stack_bytes(self, layers: int) -> int:
        """Return the maximum stack bytes of the temporary structures of a firing, on a 32-bit core.

        layers: maximum number of layers of a stage. Sizes are those of the C structures.
        """
        if not self.lines:
            return 0
        return STAGE_BYTES + layers * LAYER_BYTES + self.most_copies * MOVABLE_BYTES

    def definitions(self) -> list[str]:
        """Return the union of the parameter types of all layers whose weights are copied."""
        if not self.lines:
            return []
        fields = "".join(f"    {kind} of_{kind};\n" for kind in sorted(self.kinds))
        return [f"typedef union {{\n{fields}}} movable;"]


def _weights_member(symbol: str, tables: Tables) -> str:
    """The member with the address of the weights, of bytes or floating-point numbers."""
    kind = tables.arrays[symbol].dtype.name
    return {"float32": "weights.singles", "uint16": "weights.halves"}.get(kind, "weights")


def _parameters_and_weights(
    buffer: StreamBuffer, layer: PlacedLayer, tables: Tables
) -> tuple[str, str]:
    """The parameter type of a layer, and the symbol of its weights in flash.

    The weights are the first array that the initialiser of the parameters mentions.
    """
    kind, text = tables.structures.get(layer.parameters, ("", ""))
    symbols = [symbol for symbol in re.findall(r"\w+", text) if symbol in tables.arrays]
    if kind not in TYPE_WITH_WEIGHTS or not symbols:
        raise InvalidPlan(f"no C code for {buffer.tensor!r} with weights that are moved")
    size = tables.arrays[symbols[0]].nbytes
    if size != buffer.size:
        raise InvalidPlan(
            f"the plan counts {buffer.size} bytes for the weights of {buffer.tensor!r}, which take "
            f"{size} in C; plan with the bytes that its elements have"
        )
    return kind, symbols[0]
