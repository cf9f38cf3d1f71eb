"""Flash bytes of parameters, and of factors and tables that requantise integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.arrays import Array
from cnn2csdf.dtypes import Element, Quantization
from cnn2csdf.network import Layer, Network
from cnn2csdf.parameters import parameter_shapes, stored_arrays
from cnn2csdf.part import Types
from cnn2csdf.quantized_layers import goes_by_table, lookup_tables
from cnn2csdf.shape import Shape
from cnn2csdf.stored_tensors import stored_at_run_time, stores_integers
from csdf.units import needed_bytes_in_words

HALF_BYTES, SINGLE_BYTES, WIDE_BYTES = 2, 4, 8
TABLE_BYTES = 256  # of a function of one 8-bit integer
HELIUM_CORE = "cortex-m55"


Arrays = dict[object, tuple[str, int]]  # the first layer that uses an array, and its bytes


def flash_bytes(network: Network, number_bytes: int | None = None, core: str | None = None) -> int:
    """Return the bytes of all constant arrays of a network: the sum of `flash_by_layer`."""
    return sum(flash_by_layer(network, number_bytes, core).values())


def flash_by_layer(
    network: Network, number_bytes: int | None = None, core: str | None = None
) -> dict[str, int]:
    """Return the bytes of the constant arrays of each layer in flash.

    The arrays are parameters, requantisation data and first states. An array that several layers use
    counts for the first of them. number_bytes: of every parameter, without requantisation data; by
    default parameters as a library stores them (four bytes are those of a float library). core: a
    Cortex-M55 has initial sums in addition, an upper bound: the library stores equal arrays once.
    """
    sizes_of = dict.fromkeys((layer.name for layer in network.layers), 0)
    is_real = not stores_integers(network)
    if number_bytes is not None and not (is_real and number_bytes == SINGLE_BYTES):
        for array in stored_arrays(network):
            sizes_of[array.layer] += array.elements * number_bytes
        return sizes_of
    for arrays in (_parameters(network), _rescaling(network), _beginnings(network)):
        for name, size in arrays.values():
            sizes_of[name] += size
    if core == HELIUM_CORE and number_bytes is None and not sums_have_zeros(network):
        for layer in network.layers:
            inputs, input_types = network.input_shapes(layer), network.input_types(layer)
            sizes_of[layer.name] += SINGLE_BYTES * initial_sums(layer, inputs, input_types)
    return sizes_of


def _parameters(network: Network) -> Arrays:
    """The parameters as C has them; arrays that layers share in the file are stored once."""
    arrays: Arrays = {}
    for layer in network.layers:
        for role, (elements, size) in parameters_in_flash(
            layer, network.input_shapes(layer), network.input_types(layer)
        ).items():
            # Numbers that one layer reads in two bytes and another in four are stored twice.
            key = layer.stored_as(role).name or (layer.name, role), layer.reads_halves(role)
            first, before = arrays.get(key, (layer.name, 0))
            arrays[key] = first, max(before, elements * size)
    return arrays


def parameters_in_flash(
    layer: Layer, inputs: Sequence[Shape], input_types: Sequence[Quantization | None]
) -> dict[str, tuple[int, int]]:
    """Return the elements of each array of parameters in C, and the bytes of an element, by role.

    A layer that goes by a lookup table has none. input_types: quantisations of the inputs.
    """
    if goes_by_table(layer):
        return {}
    chain, arrays = (layer.operator, *layer.epilogue), {}
    for role, dims in parameter_shapes(layer, inputs).items():
        place, _, kind = role.rpartition(".")
        operator = chain[int(place) + 1 if place else 0]
        elements = operator.elements_in_flash(kind, dims, layer.shape, is_fused=bool(place))
        arrays[role] = elements, _element_bytes(layer, operator, role, input_types)
    return arrays


def _element_bytes(
    layer: Layer, operator: op.Operator, role: str, input_types: Sequence[Quantization | None]
) -> int:
    """Return the bytes of an element of an array of parameters in C."""
    stored, result = layer.stored_as(role), layer.quantization
    if result is None and not layer.operator.has_integer_weights:  # whatever type the file has
        return HALF_BYTES if layer.reads_halves(role) else SINGLE_BYTES
    is_single = result is not None and not result.is_fixed_point
    if not stored.element.is_integer or (is_single and operator.has_real_weights):
        return SINGLE_BYTES
    if role in operator.short_roles:
        return HALF_BYTES
    is_short = (
        bool(input_types)
        and input_types[0] is not None
        and input_types[0].element.bytes == HALF_BYTES
    )
    return WIDE_BYTES if is_short and role == "bias" else stored.element.bytes


def and_in_flash(parameters: int, stored: int) -> str:
    """Return what to say behind bytes of parameters where C takes another number of bytes for them.

    stored: what `flash_bytes` counts: factors that rescale integers come on top of the trained
    numbers, some are repeated, others fold into one.
    """
    if stored == parameters:
        return ""
    return f"; {needed_bytes_in_words(stored)} of flash as C stores them (csdf fit)"


def _rescaling(network: Network) -> Arrays:
    """The arrays and lookup tables that follow from types and attributes; equal ones once."""
    arrays: Arrays = {}
    for layer in network.layers:
        input_types = network.input_types(layer)
        for array in derived_arrays(layer, input_types).values():
            arrays.setdefault((array.dtype.name, array.tobytes()), (layer.name, array.nbytes))
        for table in lookup_tables(layer, input_types):
            if table is not None:
                arrays.setdefault(table, (layer.name, TABLE_BYTES))
    return arrays


def derived_arrays(layer: Layer, input_types: Sequence[Quantization | None]) -> dict[str, Array]:
    """Return the arrays of a layer in flash that follow from types and attributes, by their role.

    Roles of fused operators have their position in front, as those of parameters. Functions that
    follow integers are limits or part of a table, without arrays.
    """
    if goes_by_table(layer) or layer.is_end:
        return {}
    types = layer.types(input_types)
    arrays = dict(layer.operator.derived_arrays(types, layer.shape))
    if layer.quantization is None:
        types = Types((None,), None, {})
        for place, operator in enumerate(layer.epilogue):
            fused = operator.derived_arrays(types, layer.shape)
            arrays |= {f"{place}.{role}": array for role, array in fused.items()}
    return arrays


def initial_sums(
    layer: Layer, inputs: Sequence[Shape], input_types: Sequence[Quantization | None]
) -> int:
    """Return the number of initial sums with the zero point of the input that Helium kernels read.

    Depthwise kernels, those that scatter products, and those that sum over frames read none.
    """
    operator, bank = layer.operator, layer.operator.filter_bank
    is_depthwise = bank is not None and bank.is_depthwise(inputs[0].channels)
    types = input_types[0] if input_types else None
    if types is None or types.element.bytes > 1 or types.zero_point == types.element.middle:
        return 0
    if is_depthwise or operator.scatters_products or operator.frames_per_output > 1:
        return 0
    arrays = derived_arrays(layer, input_types)
    factors = arrays.get("multipliers", arrays.get("factors"))
    return 0 if factors is None else len(factors)


def sums_have_zeros(network: Network) -> bool:
    """Whether the weights of any sums of products have a zero point, as int8."""
    stored = (
        array.quantization
        for layer in network.layers
        if layer.operator.weight_role is not None
        for array in layer.stored
    )
    is_any = any(types is not None and types.zero_point != types.element.middle for types in stored)
    return is_any or bool(stored_at_run_time(network))


def _beginnings(network: Network) -> Arrays:
    """The initial numbers of the state that persists between frames.

    Each is filled with one number, in elements of the arena where those make it up; equal ones are
    stored once. Numbers that differ are parameters.
    """
    kinds = [layer.quantization for layer in network.layers if layer.quantization is not None]
    is_short = bool(kinds) and all(kind.element is Element.INT16 for kind in kinds)
    unit = (2 if is_short else 1) if stores_integers(network) else SINGLE_BYTES
    arrays_by_key: Arrays = {}
    initial_states = network.initial_states
    for layer in network.layers:
        if layer.name in initial_states:
            begins = [(initial_states[layer.name].begin, layer.array_type)]
        else:
            kept = layer.operator.kept(network.input_shapes(layer)).values()
            begins = [(state.begin, state.element.value) for state in kept]
        for begin, kind in begins:
            number = b"" if begin is None else np.array(begin, kind).tobytes()
            if number == number[:unit] * (len(number) // unit):
                number = number[:unit]
            arrays_by_key.setdefault(number, (layer.name, len(number)))
    return arrays_by_key
