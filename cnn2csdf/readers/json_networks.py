"""Networks from the JSON files of a published tool for memory reuse.

Source of the format: Minakova and Stefanov, Memory-Throughput Trade-off for CNN-Based Applications
at the Edge, ACM TODAES 28(1), 2022. A layer there stands for an operator with others fused behind
it; its sizes are the truth, and its padding follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cnn2csdf import operators as op
from cnn2csdf.network import Layer, Network, Shape
from cnn2csdf.operators.elementwise import broadcast
from cnn2csdf.readers.json_layers import StatedLayer, parse_description
from cnn2csdf.readers.json_operators import (
    OUTPUTS,
    fused_operators,
    presumed_input,
    stated_operator,
)
from csdf.errors import InvalidNetwork, UnsupportedOperator
from csdf.names import longer_name

INPUT = ("data", "input")
JOINS = ("concat", "Lambda")  # their stated input is that of one of their predecessors


def parse_json_network(text: str, name: str, *, repair: bool = False) -> Network:
    """Return the network of a JSON text; `name` is that of the file.

    Layers keep their names and, where connections allow, their order. One without predecessors
    gets an input in front, one without successors an output behind. An "activation" whose kind is
    not told is taken for a ReLU.

    repair: where stated sizes contradict the layers before, go on with those that follow from the
    operators; json_contradictions lists them.

    Raises UnreadableFile, UnsupportedOperator or InvalidNetwork, naming the layer.
    """
    network, contradictions = _read(text, name)
    if contradictions and not repair:
        others = len(contradictions) - 1
        more = f" (and {others} more)" if others else ""
        raise InvalidNetwork(
            f"{contradictions[0]}{more}; repair it to go on with the shapes that follow"
        )
    return network


def json_contradictions(text: str, name: str) -> tuple[str, ...]:
    """Return a line for each layer whose stated sizes contradict its inputs and attributes."""
    return _read(text, name)[1]


def _read(text: str, file: str) -> tuple[Network, tuple[str, ...]]:
    description = parse_description(text, file)
    assembly = _Assembly(
        file=file,
        taken={layer.name for layer in description.layers},
        lone=sum(not sources for sources in description.sources.values()) == 1,
    )
    for stated in description.layers:
        try:
            assembly.add(stated, description.sources[stated.name])
        except UnsupportedOperator as error:
            raise UnsupportedOperator(f"{file}: {error}") from None
        except InvalidNetwork as error:
            raise InvalidNetwork(f"{file}: layer {stated.name!r}: {error}") from None
    assembly.close(description.sources)
    network = Network(name=description.name, layers=tuple(assembly.layers.values()))
    return network, tuple(assembly.contradictions)


@dataclass(slots=True, kw_only=True)
class _Assembly:
    """The layers so far."""

    file: str
    taken: set[str]  # names
    lone: bool  # whether there is only one layer without predecessors
    layers: dict[str, Layer] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)

    def add(self, stated: StatedLayer, sources: tuple[str, ...]) -> None:
        """Add a layer behind its sources; note where it is not what it states."""
        if stated.kind == INPUT:
            self._add(stated.name, op.Input(dims=stated.writes.dims), sources)
            return
        if not sources:
            wanted = "input" if self.lone else f"input_{stated.name}"
            sources = (self._free(wanted),)
            self._add(sources[0], op.Input(dims=presumed_input(stated).dims), ())
        shapes = [self.layers[source].shape for source in sources]
        epilogue = fused_operators(stated)
        if stated.kind in OUTPUTS:
            is_rectified = stated.kind[0] == "relu"
            epilogue = (op.Activation(function="relu"), *epilogue) if is_rectified else epilogue
            self._add(stated.name, op.Output(), sources, epilogue)
        else:
            self._add(stated.name, stated_operator(stated, shapes), sources, epilogue)
        self._compare(stated, shapes, self.layers[stated.name].shape)

    def close(self, sources: dict[str, tuple[str, ...]]) -> None:
        """Add an output behind each layer that nothing reads."""
        read = {source for producers in sources.values() for source in producers}
        unread = [
            name
            for name in sources
            if name not in read and not isinstance(self.layers[name].operator, op.Output)
        ]
        for name in unread:
            wanted = "output" if len(unread) == 1 else f"output_{name}"
            self._add(self._free(wanted), op.Output(), (name,))

    def _add(
        self,
        name: str,
        operator: op.Operator,
        sources: tuple[str, ...],
        epilogue: tuple[op.Operator, ...] = (),
    ) -> None:
        shape = operator.output_shape([self.layers[source].shape for source in sources])
        self.layers[name] = Layer(
            name=name, operator=operator, inputs=sources, shape=shape, epilogue=epilogue
        )

    def _free(self, wanted: str) -> str:
        name = longer_name(wanted, self.taken)
        self.taken.add(name)
        return name

    def _compare(self, stated: StatedLayer, inputs: list[Shape], made: Shape) -> None:
        found = stated.reads if stated.kind[0] in JOINS else _joined(inputs)
        if _agree(found, stated.reads) and _agree(made, stated.writes):
            return
        self.contradictions.append(
            f"{self.file}: layer {stated.name!r} states that it reads {stated.reads} and writes "
            f"{stated.writes}, but it reads {found} and writes {made}"
        )


def _joined(inputs: list[Shape]) -> Shape:
    """Return the shape that an operator reads when an input is repeated to the size of the others."""
    return Shape(dims=broadcast([shape.dims for shape in inputs]))


def _agree(found: Shape, stated: Shape) -> bool:
    """Whether two shapes are the same, up to a flattening."""
    if stated.dims[1:] == (1, 1) or not found.is_map:
        return found.elements == stated.elements
    return found == stated
