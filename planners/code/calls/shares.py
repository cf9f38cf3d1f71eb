"""Stages that work with a part of their channels at a time: what their layers call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cnn2csdf import operators as op
from cnn2csdf.network import Network
from cnn2csdf.weights import Array
from planners.code.described import Call, Described
from planners.streaming.stage import Stage

Packed = Callable[
    [Described, Array], Array
]  # filters of a layer as its kernel reads them, of one group
CallOf = Callable[[Described, Array | None], Call]  # with filters that are packed already

SHARES = {  # the kernel of a layer: the one that makes a share of its channels
    "convolve": "convolve_share",
    "convolve_depthwise": "convolve_depthwise_share",
    "pool_largest": "pool_largest_share",
    "pool_mean": "pool_mean_share",
    "copy_region": "copy_share",
    "look_up_region": "look_up_share",
    "slope_region": "slope_share",
    "pool_scaled": "pool_scaled_share",
    "change_region": "change_share",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The part that a layer has in a stage in parts: it makes a share of its channels, or adds up.

    channels: those that are shared, of its result or, where it adds up, of its input. summing: the
    place of the layer that adds up.
    """

    channels: int
    share: int
    parts: int
    summing: int
    adds_up: bool

    @property
    def bounds(self) -> tuple[int, ...]:
        """Return the places where shares begin, and the end of the last."""
        return tuple(sorted({*range(0, self.channels, self.share), self.channels}))


def slices_of(network: Network, stage: Stage) -> dict[str, Slice]:
    """Return the parts of the layers of a stage, as far as they have one; none without parts."""
    if stage.summing is None:
        return {}
    place = stage.layers.index(stage.summing)
    found = {}
    for number, name in enumerate(stage.layers[: place + 1]):
        shared = stage.layers[min(number, place - 1)]
        channels = network.layer(shared).shape.channels
        found[name] = Slice(
            channels=channels,
            share=-(-channels // stage.parts),
            parts=stage.parts,
            summing=place,
            adds_up=number == place,
        )
    return found


def share_call(one: Described, cut: Slice, call: CallOf, packed: Packed) -> Call:
    """Return the call for a layer of a stage in parts. Raises UnsupportedOperator for others."""
    operator = one.layer.operator
    kernel = None
    if cut.adds_up:
        kernel = _joined(
            one, packed, [one.weights["kernel"][:, a:b] for a, b in pairwise(cut.bounds)]
        )
    elif isinstance(operator, op.Convolution):
        kernel = _joined(one, packed, _filters(one.weights["kernel"], operator.groups, cut))
    whole = call(one, kernel)
    function = "sum_parts" if cut.adds_up else SHARES.get(whole.function)
    if function is None:
        raise one.refusal("in parts of its channels")
    fields = (cut.channels, cut.share, cut.parts, cut.summing, whole.parameters)
    return Call(function, one.structure("sliced", *fields))


def _filters(kernel: Array, groups: int, cut: Slice) -> list[Array]:
    """The filters in pieces that go beyond no group and no share."""
    ends = sorted({*cut.bounds, *range(0, len(kernel), len(kernel) // groups)})
    return [kernel[a:b] for a, b in pairwise(ends)]


def _joined(one: Described, packed: Packed, pieces: Sequence[Array]) -> Array:
    return np.concatenate([packed(one, piece) for piece in pieces])
