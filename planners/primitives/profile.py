"""Costs of each layer by each primitive, and of each connection by each change of layout.

A feature map lies in memory as "CHW" (channel by channel, its rows one after another) or as "HWC"
(place by place, its channels side by side). The rules that make a table additive:

- Every layer of the simplified network has an entry for each way in which it can run. A layer
  that is no convolution has one for each layout it can run in, by the primitive LAYER, with
  input_layout == output_layout; all its inputs come in that layout.
- What is no feature map (a vector) is "CHW". A layer that reads or writes one (flatten, fully
  connected, softmax over a vector) runs in "CHW" only, and so do layers that mix rows, columns and
  channels. An input layer delivers "CHW", an output layer takes "CHW".
- The time of a layer is that of all of it: bias and fused operators belong to it. A transform
  belongs to one input of one consumer: two consumers that want another layout pay for two. An
  identity costs nothing and is not listed.

So the time of a network is the sum over its layers and over the connections whose ends differ in
layout. Times are integers, in nanoseconds, of one frame.
"""

from __future__ import annotations

from dataclasses import dataclass

from csdf.errors import InvalidPlan

CHW = "CHW"
HWC = "HWC"
LAYOUTS = (CHW, HWC)
LAYER = "layer"  # the primitive of every layer that is no convolution


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerProfile:
    """The cost of a layer by a primitive.

    nanoseconds: the median of the repetitions; spread_nanoseconds: their interquartile range.
    workspace_bytes: the temporary arrays that are there at once, beyond input, output and
    parameters: as a primitive declares them exactly; for a layer or fused operator that cnn2csdf
    computes with arrays of its own, as measured, rounded up to 4096. parameter_bytes: weights as
    this primitive keeps them, bias and fused ones included.
    """

    layer: str
    primitive: str
    input_layout: str
    output_layout: str
    nanoseconds: int
    spread_nanoseconds: int
    workspace_bytes: int
    parameter_bytes: int

    def __post_init__(self) -> None:
        what = f"layer {self.layer!r}, primitive {self.primitive!r}"
        _require_layouts(what, self.input_layout, self.output_layout)
        _require_amounts(
            what,
            nanoseconds=self.nanoseconds,
            spread_nanoseconds=self.spread_nanoseconds,
            workspace_bytes=self.workspace_bytes,
            parameter_bytes=self.parameter_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformProfile:
    """A change of layout on a connection; index: which of the consumer's inputs it is.

    The fields of time and workspace are those of LayerProfile. The changed map itself is no
    workspace: it takes the bytes of the producer's output.
    """

    producer: str
    consumer: str
    index: int
    source_layout: str
    target_layout: str
    nanoseconds: int
    spread_nanoseconds: int
    workspace_bytes: int

    def __post_init__(self) -> None:
        what = f"transform from {self.producer!r} to {self.consumer!r}"
        _require_layouts(what, self.source_layout, self.target_layout)
        if self.source_layout == self.target_layout:
            raise InvalidPlan(f"{what}: both layouts are {self.source_layout}; list none for that")
        _require_amounts(
            what,
            index=self.index,
            nanoseconds=self.nanoseconds,
            spread_nanoseconds=self.spread_nanoseconds,
            workspace_bytes=self.workspace_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The place and the way of taking times; it says nothing about whose machine it is.

    threads: how many the matrix products may use. library: what multiplies matrices, such as
    "numpy 2.1.0, openblas 0.3.27". element_type: of maps and weights.
    """

    processor: str
    cores: int
    threads: int
    library: str
    element_type: str = "float32"

    def __post_init__(self) -> None:
        for what, count in (("cores", self.cores), ("threads", self.threads)):
            if count < 1:
                raise InvalidPlan(f"a machine with {count} {what}; expected at least one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """All that was measured of one network on one machine, in the order of its layers."""

    network: str
    machine: Machine
    layers: tuple[LayerProfile, ...]
    transforms: tuple[TransformProfile, ...]

    def __post_init__(self) -> None:
        seen: set[tuple[object, ...]] = set()
        for one in self.layers:
            way = (one.layer, one.primitive, one.input_layout, one.output_layout)
            if way in seen:
                raise InvalidPlan(
                    f"layer {one.layer!r}: {one.primitive!r} from {one.input_layout} to "
                    f"{one.output_layout} is listed twice"
                )
            seen.add(way)
        for change in self.transforms:
            ends = (change.producer, change.consumer, change.index, change.source_layout)
            if ends in seen:
                raise InvalidPlan(
                    f"input {change.index} of {change.consumer!r}: its transform from "
                    f"{change.source_layout} is listed twice"
                )
            seen.add(ends)


def _require_layouts(what: str, *layouts: str) -> None:
    for layout in layouts:
        if layout not in LAYOUTS:
            raise InvalidPlan(f"{what}: there is no layout {layout!r}, only {', '.join(LAYOUTS)}")


def _require_amounts(what: str, **amounts: int) -> None:
    for name, amount in amounts.items():
        if amount < 0:
            raise InvalidPlan(f"{what}: {name} is {amount}; expected 0 or more")
