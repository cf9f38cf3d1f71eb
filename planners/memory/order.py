"""Topological order of a network, and its separators: places where a single tensor is live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from cnn2csdf.granularity import require_few_parts
from cnn2csdf.network import Layer, Network
from csdf.arguments import public
from csdf.errors import InvalidNetwork, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologicalOrder:
    """The layers of a network in order, the first input that is read in front, without its outputs.

    separators: places of the layers after which only their own tensor is needed any more;
    first that of the input, last that of the last layer. Sections lie between them. results: tensors
    that go out, which always lie whole. others: inputs besides that, such as a mask of tokens; they
    lie whole from the start, until their last reader. carried: for each separator a tensor
    before it that is read behind it, too, and lies whole meanwhile, if there is one.
    """

    network: Network
    layers: tuple[str, ...]
    separators: tuple[int, ...]
    results: frozenset[str]
    others: tuple[str, ...]
    carried: tuple[str | None, ...]

    @property
    def sections(self) -> int:
        """How many sections there are."""
        return len(self.separators) - 1

    def others_behind(self, cut: int) -> tuple[str, ...]:
        """The inputs besides the first that some layer behind a separator reads."""
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


def topological_order(network: Network, *, carries: bool = False) -> TopologicalOrder:
    """Return the order of a network, with as many separators as its order of layers has.

    carries: also between blocks of attention that a tensor goes around, as a skip connection does.
    Raises InvalidNetwork where there is no layer between input and output.
    """
    if network.keeps_state:
        raise InvalidNetwork(
            f"network {network.name!r} keeps a state from frame to frame; fit() plans it"
        )
    first, *rest = sorted(network.inputs, key=lambda input_: not network.consumers[input_.name])
    layers = [
        first,
        *(layer for layer in network.layers if not layer.is_end),
    ]
    if len(layers) == 1:
        raise InvalidNetwork(f"network {network.name!r} has no layer between input and output")
    place = {layer.name: number for number, layer in enumerate(layers)}
    results = frozenset(source for layer in network.outputs for source in layer.inputs)
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
    """Places of a section after which only their own tensor and that before the section are live.

    Those of residual sums, of a tensor and what was computed from it, and the tensors that they add to.
    """
    begin, end = section
    first, inside = layers[begin].name, layers[begin + 1 : end]
    behind: dict[str, set[str]] = {}  # a layer of the section: all from which it is computed
    stream: set[str] = set()
    for layer in inside:
        sets_behind = (behind.get(name, set()) for name in layer.inputs)
        behind[layer.name] = set(layer.inputs).union(*sets_behind)
        if layer.operator.elementwise_function == "add" and len(layer.inputs) > 1:
            one, second = layer.inputs[:2]
            for added, computed in ((one, second), (second, one)):
                if added in behind.get(computed, ()):
                    stream |= {layer.name, added}
    for number, layer in enumerate(inside, begin + 1):
        before = (layer.name for layer in layers[begin + 1 : number])
        is_alone = all(last_read[name] <= number for name in before)
        if layer.name in stream and is_alone and last_read[first] > number:
            yield number


@public
def chain_of(network: Network) -> TopologicalOrder:
    """Return the order of a network with one input and one output, each layer of which is read.

    Raises InvalidNetwork for other networks, and for rows that are too many to be listed.
    """
    require_few_parts(network)
    if len(network.inputs) != 1 or len(network.outputs) != 1:
        raise InvalidNetwork(
            f"network {network.name!r} has {counted(len(network.inputs), 'input')} and "
            f"{counted(len(network.outputs), 'output')}; fused tiles need one of each"
        )
    course = topological_order(network)
    if network.outputs[0].inputs != (course.layers[-1],):
        raise InvalidNetwork(
            f"network {network.name!r}: its output is not that of its last layer, "
            f"{course.layers[-1]!r}"
        )
    for name in course.layers:
        if not network.consumers[name]:
            raise InvalidNetwork(f"layer {name!r} is read by nobody")
    return course
