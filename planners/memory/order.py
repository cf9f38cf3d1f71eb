"""Topological order of a network, and its separators: points where a single tensor is live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

from cnn2csdf.granularity import require_few_parts
from cnn2csdf.network import Layer, Network
from csdf.arguments import public
from csdf.errors import InvalidNetwork, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologicalOrder:
    """The layers of a network in execution order, after the first input, without its outputs.

    separators: indices of the layers after which only their own tensor is live, from the index of the
    input to the index of the last layer. Sections are the layers between two separators. results:
    output tensors, which are always stored whole. others: further inputs, such as a token mask; they
    are stored whole from the start until their last reader. carried: for each separator the tensor
    from before it that later layers read as well, and that is stored whole meanwhile; None if no
    tensor is carried. parts: layers of a rewritten network that compute or join parts of a layer; no
    further rewrite copies these.
    """

    network: Network
    layers: tuple[str, ...]
    separators: tuple[int, ...]
    results: frozenset[str]
    others: tuple[str, ...]
    carried: tuple[str | None, ...]
    parts: frozenset[str] = frozenset()

    @property
    def sections(self) -> int:
        """Number of sections."""
        return len(self.separators) - 1

    def others_behind(self, cut: int) -> tuple[str, ...]:
        """The inputs besides the first that a layer after a separator reads."""
        behind = set(self.layers[self.separators[cut] + 1 :])
        return tuple(name for name in self.others if behind & set(self.network.consumers[name]))

    def at(self, cut: int) -> str:
        """The layer whose tensor is live at a separator."""
        return self.layers[self.separators[cut]]

    def between(self, first: int, upto: int) -> tuple[Layer, ...]:
        """The layers of sections [first, upto), in order."""
        names = self.layers[self.separators[first] + 1 : self.separators[upto] + 1]
        return tuple(map(self.network.layer, names))

    def layers_between(self, first: int, upto: int) -> int:
        """Return the number of layers of sections [first, upto)."""
        return self.separators[upto] - self.separators[first]


def is_chain(network: Network) -> bool:
    """Whether each layer reads the layer before it, so that only one order exists."""
    steps = [layer for layer in network.layers if not layer.is_end]
    return all(first.name in second.inputs for first, second in pairwise(steps))


def topological_order(network: Network, *, carries: bool = False) -> TopologicalOrder:
    """Return the execution order of a network, with all separators of its layer order.

    carries: also separators between blocks of attention around which one tensor is carried, as by a
    skip connection. Raises InvalidNetwork if there is no layer between input and output.
    """
    if network.keeps_state:
        raise InvalidNetwork(
            f"network {network.name!r} keeps a state from frame to frame; fit() plans it"
        )
    first, *rest = sorted(network.inputs, key=lambda layer: not network.consumers[layer.name])
    layers = [
        first,
        *(layer for layer in network.layers if not layer.is_end),
    ]
    if len(layers) == 1:
        raise InvalidNetwork(f"network {network.name!r} has no layer between input and output")
    place = {layer.name: number for number, layer in enumerate(layers)}
    results = network.results
    last_read = dict(place) | {layer.name: 0 for layer in rest}
    for layer in layers:
        for source in layer.inputs:
            last_read[source] = max(last_read[source], place[layer.name])
    last_read |= {name: len(layers) for name in results}
    cuts, alive = [0], 0
    for number, layer in enumerate(layers[:-1]):
        if number > 0 and alive <= number:
            cuts.append(number)
        alive = max(alive, last_read[layer.name])
    cuts.append(len(layers) - 1)
    around: dict[int, str | None] = dict.fromkeys(cuts)
    for begin, end in pairwise(cuts) if carries else ():
        inside = layers[begin + 1 : end]
        if any(layer.operator.rereads_rows for layer in inside):
            source = layers[begin].name
            around |= dict.fromkeys(_around(layers, (begin, end), last_read), source)
    return TopologicalOrder(
        network=network,
        layers=tuple(layer.name for layer in layers),
        separators=tuple(sorted(around)),
        results=results,
        others=tuple(layer.name for layer in rest),
        carried=tuple(around[cut] for cut in sorted(around)),
    )


def _around(
    layers: Sequence[Layer], section: tuple[int, int], last_read: Mapping[str, int]
) -> Iterator[int]:
    """Indices of a section after which only their own tensor and the one before it are live.

    They are residual sums, of a tensor and a tensor computed from it, and the tensors that these sums
    add to.
    """
    begin, end = section
    first, inside = layers[begin].name, layers[begin + 1 : end]
    behind: dict[str, set[str]] = {}  # a layer of the section: all from which it is computed
    stream: set[str] = set()
    for layer in inside:
        sets_behind = (behind.get(name, set()) for name in layer.inputs)
        behind[layer.name] = set(layer.inputs).union(*sets_behind)
        if layer.operator.elementwise_function == "add" and len(layer.inputs) > 1:
            for added, computed in permutations(layer.inputs[:2]):
                if added in behind.get(computed, ()):
                    stream |= {layer.name, added}
    for number, layer in enumerate(inside, begin + 1):
        before = (layer.name for layer in layers[begin + 1 : number])
        is_alone = all(last_read[name] <= number for name in before)
        if layer.name in stream and is_alone and last_read[first] > number:
            yield number


@public
def chain_of(network: Network) -> TopologicalOrder:
    """Return the execution order of a network with one input and one output, whose layers are all read.

    Raises InvalidNetwork for other networks, and for rows that are too many to be listed.
    """
    require_few_parts(network)
    if len(network.inputs) != 1 or len(network.outputs) != 1:
        raise InvalidNetwork(
            f"network {network.name!r} has {counted(len(network.inputs), 'input')} and "
            f"{counted(len(network.outputs), 'output')}; fused tiles need one of each"
        )
    layer_order = topological_order(network)
    if network.outputs[0].inputs != (layer_order.layers[-1],):
        raise InvalidNetwork(
            f"network {network.name!r}: its output is not that of its last layer, "
            f"{layer_order.layers[-1]!r}"
        )
    for name in layer_order.layers:
        if not network.consumers[name]:
            raise InvalidNetwork(f"layer {name!r} is read by nobody")
    return layer_order
