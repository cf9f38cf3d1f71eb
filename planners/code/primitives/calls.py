"""A layer computed by a primitive, as C: function, parameters, and the steps that follow in place.

Each primitive of planners/primitives/library has a function in c/primitive_*.c. The function computes
in the same order as the primitive, in a workspace of the same size, with weights that the library
prepares. Layers other than convolutions have one function for both layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.weights import Array, Model
from csdf.errors import InvalidPlan
from planners.code.c_text import NULL, Tables, initialiser, number
from planners.code.calls.by_data_type import LayerCalls, is_step, most_neighbours
from planners.code.layer_descriptor import Fields, LayerNode
from planners.primitives.library.direct import Direct
from planners.primitives.library.im2col import Lowered, MemoryEfficient, PointwiseProduct
from planners.primitives.library.kn2row import Shifted
from planners.primitives.library.layers import (
    FUNCTIONS,
    is_column,
    is_plain,
    layer_variants,
    primitive_of,
)
from planners.primitives.library.primitive import (
    ELEMENT_BYTES,
    ConvolutionSizes,
    Primitive,
    convolution_sizes,
    float_bytes,
)
from planners.primitives.library.winograd import Tiled, Transform, Transformed
from planners.primitives.profile import CHW, Variant

FILES = (
    *("frame.c", "combine.c", "steps.c"),
    *(f"primitive_{name}.c" for name in ("maps", "direct", "products", "tiles", "layers")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTensor:
    """A tensor in the arena: its offset, in bytes, and its layout."""

    shape: Shape
    layout: str
    offset: int

    @property
    def as_c_map(self) -> str:
        """Return the initialiser of a `map`; a vector is a map of one pixel."""
        channels, height, width = self.shape.dims if self.shape.is_map else (self.elements, 1, 1)
        by_maps = {"channel": height * width, "row": width, "column": 1}
        by_pixels = {"channel": 1, "row": width * channels, "column": channels}
        dims = {"channels": channels, "height": height, "width": width}
        offset = {"offset": self.offset // ELEMENT_BYTES}
        return initialiser(offset | dims | (by_maps if self.is_by_maps else by_pixels))

    @property
    def elements(self) -> int:
        """Elements of the tensor."""
        return self.shape.elements

    @property
    def is_by_maps(self) -> bool:
        """Whether the layout is CHW; the elements of a vector are the channels of one pixel."""
        return self.shape.is_map and self.layout == CHW


class PrimitiveTables(Tables):
    """The tables of a program of primitives, with weights that primitives prepare."""

    def prepared(self, name: str, owner: object, size: int, make: Callable[[], Array]) -> str:
        """Return the symbol of weights that `make` prepares. Raises InvalidPlan unless size is met."""
        array = make()
        if array.nbytes != size:
            raise InvalidPlan(f"{name}: {array.nbytes} bytes of weights; expected {size}")
        return self.weights(name, array, owner)


class PrimitiveCalls:
    """Emitter of the table entries of layers in the variants of a selection."""

    def __init__(self, model: Model, tables: PrimitiveTables) -> None:
        """Take a model of real numbers, with weights."""
        self._model, self.tables = model, tables
        self._calls = LayerCalls(model, tables)
        self.most_neighbours = 0

    @property
    def network(self) -> Network:
        """The network of the layers."""
        return self._model.network

    @property
    def steps(self) -> Sequence[str]:
        """The initialisers of all operators that follow a layer in place."""
        return self._calls.steps

    def variants(self, layer: Layer) -> tuple[Variant, ...]:
        """Return the variants of a layer with a C function. Raises UnsupportedOperator for none."""
        variants = tuple(
            variant
            for variant in layer_variants(self.network, layer)
            if layer.operator.filter_bank is None or _function_of(primitive_of(variant)) is not None
        )
        if not variants:
            raise self._calls.node(layer).refusal("by primitives")
        return variants

    def work(
        self,
        layer: Layer,
        variant: Variant,
        inputs: Sequence[PlacedTensor],
        output: PlacedTensor,
        workspace: int,
    ) -> str:
        """Return the initialiser of a `work`. workspace: its offset in bytes.

        Raises UnsupportedOperator, naming the layer, if no C function computes it.
        """
        node = self._calls.node(layer)
        operator = layer.operator
        if operator.filter_bank is not None:
            function, numbers = self._convolution(node, variant)
        else:
            function, numbers = self._other(node, inputs, output)
        self.tables.wanted.add(function)
        bias = NULL
        if operator.bias_axis == 0 and "bias" in node.weights:
            bias = node.symbol("bias", node.weights["bias"])
        first, count = self._calls.epilogue_steps(node)
        self.most_neighbours = max(self.most_neighbours, most_neighbours(node))
        return initialiser(
            {
                **self._tensors(function, numbers, inputs, output),
                "workspace": workspace // ELEMENT_BYTES,
                "bias": bias,
                "steps": first,
                "step_count": count,
                "is_gathered": int(output.is_by_maps and _responds(layer)),
            }
        )

    def _tensors(
        self, function: str, numbers: str, inputs: Sequence[PlacedTensor], output: PlacedTensor
    ) -> Fields:
        """The fields of a `work` for its function, its parameters and its tensors."""
        maps = self.tables.defined("map", "inputs", [operand.as_c_map for operand in inputs])
        tensors = {"inputs": maps, "output": output.as_c_map, "input_count": len(inputs)}
        return {"compute": function, "numbers": numbers, **tensors}

    def change(self, source: PlacedTensor, target: PlacedTensor) -> str:
        """Return the initialiser of a `work` that changes the layout of a map."""
        self.tables.wanted.add("change_layout")
        nothing = {"workspace": 0, "bias": NULL, "steps": NULL, "step_count": 0, "is_gathered": 0}
        return initialiser({**self._tensors("change_layout", NULL, [source], target), **nothing})

    def workspace_bytes(self, layer: Layer, variant: Variant) -> int:
        """Return the bytes of the workspace that the C of a layer writes."""
        size = 0
        if layer.operator.filter_bank is not None:
            sizes = convolution_sizes(layer, self.network.input_shapes(layer)[0])
            size = primitive_of(variant).workspace_bytes(sizes)
        if layer.shape.is_map and variant.output_layout == CHW and _responds(layer):
            size = max(size, float_bytes(layer.shape.channels))
        return size

    def _convolution(self, node: LayerNode, variant: Variant) -> tuple[str, str]:
        primitive = primitive_of(variant)
        sizes = convolution_sizes(node.layer, node.inputs[0])
        function = _function_of(primitive)
        if function is None or not primitive.applies(sizes):
            raise node.refusal(
                f"by primitive {variant.primitive!r}; choose from what `csdf deploy --bench` measures, "
                f"or with `csdf plan primitives --without {variant.primitive.split()[0]}`"
            )
        weights = self.tables.prepared(
            f"{self.tables.name_of(node.layer.name)}_kernel",
            (node.layer.name, variant),
            primitive.parameter_bytes(sizes),
            lambda: primitive.prepare(sizes, node.weights["kernel"]),
        )
        windows = _windows(sizes.kernel, *sizes.steps, sizes.groups, weights)
        kind, more = _numbers_of(primitive, sizes, self.tables)
        fields = windows if kind == "windows" else {"at": windows, **more}
        return function, node.structure(kind, **fields)

    def _other(
        self, node: LayerNode, inputs: Sequence[PlacedTensor], output: PlacedTensor
    ) -> tuple[str, str]:
        """Return function and numbers of a layer that is no convolution."""
        operator = node.layer.operator
        match operator:
            case op.Output() | op.Identity() | op.Reshape():
                return "copy_flat", NULL
            case op.Pooling(function=function, window=window) if is_plain(window):
                before, beyond = window.padding[:2], window.padding[2:]
                fields = {
                    "at": _windows(window.kernel, window.stride, window.dilation, before, 1, NULL),
                    "is_largest": function == "max",
                    "is_padded": operator.counts_padding,
                    "ends": beyond,
                }
                return "pool_map", node.structure("pooling_numbers", **fields)
            case op.GlobalPooling(function=function):
                return "fold_maps", node.structure("folding", is_largest=function == "max")
            case op.Concatenation(axis=axis) if axis == 0 or output.shape.is_map:
                return "join", node.structure("joining_numbers", axis=axis)
            case op.Elementwise(function=function, constant=None) if function in FUNCTIONS:
                if all(operand.shape == output.shape or output.shape.is_map for operand in inputs):
                    self.tables.wanted.add(function)
                    is_flat = len(inputs) > 1 and len({operand.shape for operand in inputs}) == 1
                    return "combine_maps", node.structure("pairing", of=function, is_flat=is_flat)
            case op.FullyConnected():
                weights = node.symbol("matrix", node.weights["matrix"])
                fields = {"inputs": inputs[0].elements, "weights": weights}
                return "multiply_vector", node.structure("product_numbers", **fields)
            case op.Softmax(axis=0, last=None | 0, is_logarithm=False) if is_column(node.layer):
                return "softmax_vector", NULL
            case _ if is_step(operator):
                return "copy_flat", NULL
        raise node.refusal("in a selection of primitives")


def _windows(
    taps: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    groups: int,
    weights: str,
) -> Fields:
    """Return the fields of the C structure `windows`. padding: above and left."""
    steps = {"taps": taps, "stride": stride, "dilation": dilation, "padding": padding}
    return {**steps, "groups": groups, "weights": weights}


def _responds(layer: Layer) -> bool:
    """Whether a normalisation of responses belongs to the layer."""
    return any(step.normalizes_responses for step in (layer.operator, *layer.epilogue))


def _function_of(primitive: Primitive) -> str | None:
    """Return the C function of a primitive; None where there is none."""
    match primitive:
        case Direct():
            return primitive.name.replace(", ", " ").replace(" ", "_")
        case Lowered():
            return "lower_and_multiply"
        case PointwiseProduct():
            return "multiply_map"
        case MemoryEfficient():
            return "lower_columns_only"
        case Shifted():
            return "multiply_and_shift"
        case Transformed() if primitive.name.startswith("winograd"):
            return "tile_by_tile" if isinstance(primitive, Tiled) else "row_by_row_of_tiles"
    return None


def _numbers_of(
    primitive: Primitive, sizes: ConvolutionSizes, tables: Tables
) -> tuple[str, Fields]:
    """Return the C structure of the numbers of a primitive, and its fields but the windows."""
    match primitive:
        case Lowered() | PointwiseProduct():
            is_by_rows, strip = False, 0
            if isinstance(primitive, Lowered):
                is_by_rows, strip = primitive.is_by_rows, primitive.strip(sizes)
            is_transposed = primitive.is_transposed
            how = {"is_by_rows": is_by_rows, "is_transposed": is_transposed, "strip": strip}
            return "lowering", how
        case Shifted():
            rows, taps = next(primitive.products(sizes))
            return "shifting", {"rows": len(rows), "taps": len(taps)}
        case Transformed():
            domain = primitive.domain(sizes)
            return "tiling_numbers", {
                "down": _transform(domain.row, tables),
                "across": _transform(domain.column, tables),
                "strip": primitive.strip(domain) if isinstance(primitive, Tiled) else 1,
                "kernel_rows": sizes.kernel[0],
            }
    return "windows", {}


def _transform(node: Transform, tables: Tables) -> Fields:
    forth, back = (
        tables.defined("element", role, [number(value) for value in matrix.reshape(-1)])
        for role, matrix in (("forth", node.forth), ("back", node.back))
    )
    points, tile = node.forth.shape
    sizes = {"points": points, "tile": tile, "results": len(node.back)}
    return {**sizes, "forth": forth, "back": back}
