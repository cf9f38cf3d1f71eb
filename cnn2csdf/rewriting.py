"""Frame of the rewrites of networks: rules that match a layer and return an edit.

A rule is a function of a draft and a layer: the pattern and its condition are its first lines, the
replacement is the `Edit` that it returns, and its docstring has a worked example that a test compares.
`rewritten` offers each layer of a model, in execution order, to a list of rules; the first rule that
matches wins. `exhausted` repeats that until no rule matches. An edit takes effect at once: rules see
later layers read what earlier edits put there. Rules that share more than edits have a subclass of
`Draft` (cnn2csdf.token_layers), and `edited` offers the layers of such a draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cnn2csdf.arrays import Array
from cnn2csdf.network import Layer, Network
from cnn2csdf.operators import Operator
from cnn2csdf.shape import Shape
from cnn2csdf.weights import Model
from csdf.names import free_name

Arrays = Mapping[str, Array]  # by role


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Changes of a model by a rule.

    layers: for the name of a layer, the layers in its place, in order; none removes it.
    sources: for a layer, the layer that its consumers read instead, as of a removed layer.
    weights: arrays of the new layers by name, where they differ from those of that name before.
    """

    layers: Mapping[str, tuple[Layer, ...]]
    sources: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, Arrays] = field(default_factory=dict)


class Draft:
    """A model with the edits made so far.

    network, consumers: of the model before all edits.
    """

    def __init__(self, model: Model) -> None:
        self.network, self.consumers = model.network, model.network.consumers
        self._model = model
        self._layers: dict[str, tuple[Layer, ...]] = {}
        self._new: dict[str, Layer] = {}
        self._sources: dict[str, str] = {}
        self._weights: dict[str, Arrays] = {}
        self._names = {layer.name for layer in model.network.layers}
        self._variables = {state.variable for state in model.network.initial_states.values()}

    def new_name(self, wanted: str) -> str:
        """Return a name for a new layer, with a number appended if another layer has the name."""
        name = free_name(wanted, self._names)
        self._names.add(name)
        return name

    def new_variable(self, wanted: str) -> str:
        """Return a name for a new state variable, with a number appended if another one has it."""
        variable = free_name(wanted, self._variables)
        self._variables.add(variable)
        return variable

    def source(self, name: str) -> str:
        """Return the layer that consumers of a tensor read now."""
        while name in self._sources:
            name = self._sources[name]
        return name

    def layer(self, name: str) -> Layer:
        """Return the layer that computes a tensor now."""
        name = self.source(name)
        return self._new.get(name) or self.network.layer(name)

    def readers(self, name: str) -> list[Layer]:
        """Return the consumers that a tensor had before all edits."""
        return [self.network.layer(consumer) for consumer in self.consumers[name]]

    def arrays(self, name: str) -> Arrays | None:
        """Return the weights of a layer by role; None if the model has no weights."""
        if self._model.weights is None:
            return None
        return self._weights.get(name, self._model.weights.get(name, {}))

    def apply(self, edit: Edit) -> None:
        """Make an edit. For a layer that was edited or added before, the later edit holds."""
        self._layers |= edit.layers
        self._new |= {layer.name: layer for layers in edit.layers.values() for layer in layers}
        self._sources |= edit.sources
        self._weights |= edit.weights

    def model(self) -> Model:
        """Return the edited model, without layers that have lost all their consumers."""
        if not (self._layers or self._sources or self._weights):
            return self._model
        layers = tuple(reversed(list(self._used_layers())))
        weights = None
        if self._model.weights is not None:
            arrays_of = {layer.name: self.arrays(layer.name) for layer in layers}
            weights = {name: arrays for name, arrays in arrays_of.items() if arrays}
        network = Network(name=self.network.name, layers=layers)
        return Model(network=network, weights=weights)

    def _used_layers(self) -> Iterator[Layer]:
        """The layers from last to first, each with the inputs that it reads now."""
        used = {self.source(name) for name, consumers in self.consumers.items() if not consumers}
        for original in reversed(self.network.layers):
            for layer in self._in_place_of(original):
                if layer.is_end or layer.name in used:
                    inputs = tuple(map(self.source, layer.inputs))
                    used.update(inputs)
                    yield layer if inputs == layer.inputs else replace(layer, inputs=inputs)

    def _in_place_of(self, edited_layer: Layer) -> Iterator[Layer]:
        """The layers in place of a layer, from last to first, with edits of added layers."""
        for layer in reversed(self._layers.get(edited_layer.name, (edited_layer,))):
            is_added = layer.name not in self.consumers and layer.name != edited_layer.name
            if is_added and layer.name in self._layers:
                yield from self._in_place_of(layer)
            else:
                yield layer


def layer_after(source: Layer, name: str, operator: Operator, shape: Shape | None = None) -> Layer:
    """Return a layer without parameters that reads a layer, and has its element type.

    shape: by default the shape of the layer that is read.
    """
    return replace(
        source,
        name=name,
        operator=operator,
        inputs=(source.name,),
        shape=shape or source.shape,
        epilogue=(),
        stored=(),
    )


Rule = Callable[[Draft, Layer], Edit | None]
AnyDraft = TypeVar("AnyDraft", bound=Draft)


def rewritten(model: Model, *rules: Rule) -> Model:
    """Return the model after each layer has met the first of the rules that matches it, if any.

    Rules are offered the layers of the model before; the same model if no rule matches.
    """
    return edited(Draft(model), *rules)


def edited(draft: AnyDraft, *rules: Callable[[AnyDraft, Layer], Edit | None]) -> Model:
    """Return the model of a draft after each layer has met the first of the rules that matches it."""
    for layer in draft.network.layers:
        edits = (rule(draft, layer) for rule in rules)
        if (edit := next(filter(None, edits), None)) is not None:
            draft.apply(edit)
    return draft.model()


def exhausted(model: Model, *rules: Rule) -> Model:
    """Return the model after the rules have been repeated until none of them matches."""
    while (changed := rewritten(model, *rules)) is not model:
        model = changed
    return model
