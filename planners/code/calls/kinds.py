"""The calls of layers, each by the kind of its elements: integers, or real numbers among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cnn2csdf import operators as op
from cnn2csdf.elements import Element
from cnn2csdf.network import Layer, Network
from cnn2csdf.quantized_layers import stored_at_run_time
from cnn2csdf.weights import Array, Model
from planners.code.calls.dynamic import DYNAMIC, REAL, dynamic_call
from planners.code.calls.integer_layers import (
    integer_call,
    integer_channels_calls,
    integer_steps,
    integer_sums_call,
)
from planners.code.calls.layers import call_of, channels_calls, packed_filters, sums_call
from planners.code.calls.packing import packed_blocks, packed_quads
from planners.code.calls.shares import Slice, share_call
from planners.code.calls.steps import steps_of
from planners.code.described import Call, Described, described
from planners.code.mixed import RealTables, as_real
from planners.code.tables import NULL, Tables


class LayerCalls:
    """The calls of the layers of a network, and what stands behind their results, as C text.

    unit: bytes of an element of the arena. steps, real_steps: functions behind layers of the elements
    of the arena, and behind real layers among integers.
    """

    def __init__(self, model: Model, tables: Tables) -> None:
        """Take a model with weights."""
        self._network: Network = model.network
        self._weights = model.weights or {}
        self.tables, self.real_tables = tables, RealTables(tables)
        kinds = [one.quantization for one in self._network.layers if one.quantization is not None]
        self._bytes = stored_at_run_time(self._network)
        self.is_integer = bool(kinds or self._bytes)
        self.is_single = bool(self._bytes) or any(not one.is_fixed_point for one in kinds)
        # beside those of 8 bits, others are wide
        is_short = all(one.element is Element.INT16 for one in kinds)
        self.is_short = self.is_integer and is_short and not self._bytes
        self.unit = (2 if self.is_short else 1) if self.is_integer else 4
        self.steps: list[str] = []
        self.real_steps: list[str] = []
        tables.weights_have_zeros = bool(self._bytes) or any(map(_has_zeros, self._network.layers))

    @property
    def has_reals(self) -> bool:
        """Whether layers of real numbers stand among those of integers."""
        return bool(self.real_tables.wanted)

    def described(self, layer: Layer) -> Described:
        """Return a layer with what it takes to write a call for it."""
        element = Element.INT16 if self.is_short else Element.INT8
        tables: Tables | RealTables = self.tables
        if self._is_real(layer):
            element = Element.FLOAT32
            tables = self.real_tables if self.is_integer else self.tables
        return described(self._network, layer, self._weights.get(layer.name, {}), tables, element)

    def _is_real(self, layer: Layer) -> bool:
        """Whether it reads and makes real numbers."""
        layers = (layer, *(self._network.layer(name) for name in layer.inputs))
        if isinstance(layer.operator, DYNAMIC):
            return False
        return all(one.quantization is None and one.name not in self._bytes for one in layers)

    def element_bytes(self, layer: Layer) -> int:
        """Return the bytes in which an element of what a layer makes is computed."""
        is_real = layer.quantization is None and layer.name not in self._bytes
        return REAL if is_real else layer.element_bytes

    def slots(self, one: Described) -> int:
        """Return how many elements of the arena one of those takes with which a layer computes."""
        return one.element.bytes // self.unit

    def of_stage(
        self, manner: str, ones: Sequence[Described], slices: Mapping[str, Slice]
    ) -> list[Call]:
        """Return the calls of the layers of a stage. slices: the parts of layers in stages in parts."""
        if manner == "BY_PARTS":
            cuts = [slices.get(one.layer.name) for one in ones]
            found: Sequence[Call] = [
                self._call(one) if cut is None else share_call(one, cut, self._call, self._packed)
                for one, cut in zip(ones, cuts, strict=True)
            ]
        elif manner == "INTO_SUMS":
            found = ((sums_call if ones[0].is_real else integer_sums_call)(ones[0]),)
        elif manner == "BY_CHANNELS":
            found = (channels_calls if ones[0].is_real else integer_channels_calls)(*ones[:2])
        else:
            found = [self._call(one) for one in ones]
        return [self._as_written(one, call) for one, call in zip(ones, found, strict=True)]

    def _call(self, one: Described, packed: Array | None = None) -> Call:
        names = {one.layer.name, *one.layer.inputs}
        if isinstance(one.layer.operator, DYNAMIC) or not names.isdisjoint(self._bytes):
            return dynamic_call(one)
        return (call_of if one.is_real else integer_call)(one, packed)

    def _as_written(self, one: Described, call: Call) -> Call:
        """The call by the names that functions and types have in the library."""
        makes_reals = one.layer.quantization is None and one.layer.name not in self._bytes
        if one.layer.epilogue and makes_reals and not one.is_real:
            return self._finished(call)
        if call.function != NULL:
            one.tables.wanted.add(call.function)
        return Call(*map(as_real, call)) if self.is_integer and one.is_real else call

    def _finished(self, call: Call) -> Call:
        """The call of a layer that makes integers real, with functions of real numbers behind it."""
        self.tables.wanted.add(call.function)
        self.real_tables.wanted.add("finish_behind")
        found = Call(f"{call.function}_and_finish", call.parameters)
        self.tables.wanted.add(found.function)
        return found

    def _packed(self, one: Described, kernel: Array) -> Array:
        """Filters of one group as the kernel of a layer reads them."""
        if one.is_real:
            return packed_filters(kernel, 1)
        return packed_blocks(kernel, 1) if self.is_short else packed_quads(kernel, 1)

    def steps_behind(self, one: Described) -> tuple[str, int]:
        """Return where the steps behind a layer lie, which join those of their kind; their number."""
        is_real = one.layer.quantization is None and one.layer.name not in self._bytes
        if is_real and self.is_integer:
            one = replace(one, tables=self.real_tables)
        found = (steps_of if is_real else integer_steps)(one)
        name, steps = "steps", self.steps
        if is_real and self.is_integer:
            name, steps, found = "real_steps", self.real_steps, [as_real(text) for text in found]
        first = f"{name} + {len(steps)}" if found else NULL
        steps += [f"{step}," for step in found]
        one.tables.wanted.update({"step"} if found else ())
        return first, len(found)


def _has_zeros(layer: Layer) -> bool:
    """Whether it sums up products with trained integers that have a zero point."""
    is_summing = isinstance(layer.operator, op.Convolution | op.FullyConnected)
    kinds = [one.quantization for one in layer.stored]
    return is_summing and any(types is not None and types.zero_point != 0 for types in kinds)
