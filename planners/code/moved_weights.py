"""The table of weights that a library copies into its memories: source, destination, time, reader.

A kernel reads its weights through an address in its constant parameters. While a stage fires, its
layers use temporary parameters, on the stack, with the address of the copied weights.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from csdf.errors import InvalidPlan
from planners.code.c_text import NULL, Tables, initialiser
from planners.code.parts import as_real, comment
from planners.plan.plan import Kind, StreamBuffer, StreamingPlan

# Upper bounds on a 32-bit core, in bytes of the stack: C structures `stage`, `layer` and `movable`.
STAGE_BYTES, LAYER_BYTES, NUMBERS_BYTES = 48, 44, 120
# For each parameter structure, the structure at its begin, whose C member `weights` is the address.
ADDRESS_MEMBER = {
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
    """Initialisers of the table, parameter types of its layers, and the maximum copies of a stage."""

    def __init__(
        self, plan: StreamingPlan, layers: Mapping[str, PlacedLayer], tables: Tables, unit: int
    ) -> None:
        """layers: by name, as written to C. unit: bytes of an element of the arena."""
        self.lines: list[str] = []
        self.kinds: set[str] = set()
        self.is_resident = self.is_ahead = False
        kinds = (Kind.RESIDENT, Kind.WEIGHTS)
        moved = [buffer for buffer in plan.buffers if buffer.kind in kinds]
        stages: dict[int, int] = {}
        homes = {resident.tensor: resident for resident in moved if resident.kind is Kind.RESIDENT}
        copied = {
            copied_buffer.tensor for copied_buffer in moved if copied_buffer.kind is Kind.WEIGHTS
        }
        for buffer in sorted(moved, key=lambda buffer: kinds.index(buffer.kind)):
            layer = layers[buffer.tensor]
            kind, symbol = _found(buffer, layer, tables)
            self.kinds.add(kind)
            is_resident = buffer.kind is Kind.RESIDENT
            home = None if is_resident else homes.get(buffer.tensor)
            is_read = not is_resident or buffer.tensor not in copied
            if is_read:
                stages[layer.stage] = stages.get(layer.stage, 0) + 1
            self.is_resident |= is_resident
            self.is_ahead |= not is_resident and buffer.begin < layer.group
            fields = {
                "of": f"&layers[{layer.number}]" if is_read else NULL,
                "from": symbol if home is None else NULL,
                "home": 0 if home is None else _slots(home, unit),
                "offset": _slots(buffer, unit),
                "bytes": buffer.size,
                "size": f"sizeof({kind})",
                "field": f"offsetof({ADDRESS_MEMBER[kind]}, {_weights_member(symbol, tables)})",
                "begin": -1 if is_resident else buffer.begin,
                "group": layer.group,
            }
            self.lines.append(f"{initialiser(fields)}, /* {comment(buffer.name)} */")
        self.most = max(stages.values(), default=0)

    def stack_bytes(self, layers: int) -> int:
        """Return the maximum stack bytes of the temporary structures of a firing, on a 32-bit core.

        layers: maximum number of layers of a stage. Sizes are those of the C structures.
        """
        return STAGE_BYTES + layers * LAYER_BYTES + self.most * NUMBERS_BYTES if self.lines else 0

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


def _slots(buffer: StreamBuffer, unit: int) -> int:
    """The offset of a buffer in elements. Raises InvalidPlan for a fraction of an element."""
    slots, rest = divmod(buffer.offset, unit)
    if rest:
        raise InvalidPlan(
            f"no C code for buffer {buffer.name!r} at byte {buffer.offset}; expected a multiple of "
            f"{unit}, the bytes of an element of the arena"
        )
    return slots


def _found(buffer: StreamBuffer, layer: PlacedLayer, tables: Tables) -> tuple[str, str]:
    """The parameter type of a layer, and the symbol of its weights in flash."""
    kind, text = tables.structures.get(layer.parameters, ("", ""))
    symbols = [symbol for symbol in re.findall(r"\w+", text) if symbol in tables.arrays]
    if kind not in ADDRESS_MEMBER or not symbols:
        raise InvalidPlan(f"no C code for {buffer.tensor!r} with weights that are moved")
    size = tables.arrays[symbols[0]].nbytes
    if size != buffer.size:
        raise InvalidPlan(
            f"the plan counts {buffer.size} bytes for the weights of {buffer.tensor!r}, which take "
            f"{size} in C; plan with the bytes that its elements have"
        )
    return kind, symbols[0]
