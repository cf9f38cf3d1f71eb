"""A plan and its network, as the rules of the checker read them: `CheckedPlan`."""

from __future__ import annotations

from collections.abc import Iterator

from cnn2csdf.network import Layer, Network
from cnn2csdf.rings import rings_of
from planners.plan.checked_geometry import InputNeeds
from planners.plan.plan import Kind, Stage, StreamBuffer, StreamingPlan


class CheckedPlan:
    """A plan and its network, with the layers by their part in the plan.

    computed: the layers that stages compute: no inputs or outputs, and no windows of rings, which are
    only joined. executable: the layers that a stage may name: in addition, an input whose rows it
    delivers, and an output whose rows it passes on. variables, inputs: their names. outputs: by name.
    group_of: the group that executes each layer. host_of: the host of each alias. unit: bytes of the
    smallest element, in which C addresses the arena.
    """

    def __init__(self, network: Network, plan: StreamingPlan) -> None:
        """network: with the copies of layers that the plan names."""
        self.network, self.plan = network, plan
        self.needs = InputNeeds(network)
        self.inputs = {layer.name for layer in network.inputs}
        self.outputs = {layer.name: layer for layer in network.outputs}
        self.variables = {previous.name for previous, _ in network.variables}
        self._windows = rings_of(network)
        self.computed = {
            layer.name: layer
            for layer in network.layers
            if not layer.is_end and layer.name not in self._windows
        }
        self.executable = (
            self.computed | {layer.name: layer for layer in network.inputs} | self.outputs
        )
        self.group_of = {name: group for group, stage in self.stages() for name in stage.layers}
        self.host_of = {alias.tensor: alias.host for alias in plan.aliases}
        self.unit = min(self.element_bytes(layer.name) for layer in network.layers)

    def stages(self) -> Iterator[tuple[int, Stage]]:
        """Yield each stage with the number of its group."""
        for number, group in enumerate(self.plan.groups):
            for stage in group.stages:
                yield number, stage

    def sources(self, layer: Layer) -> list[str]:
        """The stored tensors that a layer reads: for a ring window, its variable and its new rows."""
        names: list[str] = []
        for name in layer.inputs:
            window = self._windows.get(name)
            names += [name] if window is None else [window.previous, window.new]
        return names

    def height(self, tensor: str) -> int:
        """Rows of a tensor."""
        return self.network.layer(tensor).shape.rows

    def element_bytes(self, tensor: str) -> int:
        """Bytes of an element of a tensor."""
        return self.plan.element_bytes or self.network.layer(tensor).element_bytes

    def is_copied_into(self, ring: StreamBuffer) -> bool:
        """Whether a ring buffer receives copies of the rows of a tensor that is stored whole."""
        return ring.kind is Kind.RING and any(
            group.streamed_input == ring.tensor for group in self.plan.groups[ring.begin : ring.end]
        )
