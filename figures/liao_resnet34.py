"""DRAM traffic of ResNet-34: layer by layer, pairs, and groups of layers, over the buffer.

After Liao et al., whose slides treat one and two layers. Run `python -m figures.liao_resnet34`:
writes the .md and the pictures beside it (a minute).
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from cnn2csdf.catalogue.resnet import resnet34
from cnn2csdf.simplify import REWRITES, simplified
from cnn2csdf.weights import Model
from planners.traffic.command.picture import TrafficBar, bars_picture, sweep_picture
from planners.traffic.network_traffic import GroupTraffic, NetworkSearch, NetworkTraffic

BYTES = 4
KIBIBYTE = 1024
BUFFERS = tuple(size * KIBIBYTE for size in (32, 64, 128, 256, 512, 1024, 2048, 4096))
FUSIONS: dict[str, int | None] = {"none": 1, "pairs": 2, "groups": None}
SHOWN = 512 * KIBIBYTE

HEAD = """# DRAM traffic of ResNet-34

Made by `python -m figures.liao_resnet34`: frames of 224x224, elements of {bytes} bytes, a KiB of 1024
bytes. Batch normalisation is folded and activations are fused; an addition works on the output of
the convolution before it and reads its other operand from DRAM, or from the buffer where a group
holds it; a projection beside two convolutions may be of their group. Biases are not counted. The
lower bound is frame, weights and result once, {bound} bytes, of which {weights} are
weights; no schedule moves less, fused or not, whatever the buffer.

Bytes, and how many times the bound; groups of more than one layer in brackets.

| buffer (KiB) | layer by layer | pairs | groups |
|---|---|---|---|
"""

LAYERS = """
![traffic over the buffer](liao_resnet34.svg)

## Layer by layer with 512 KiB

Bytes of each layer on its own, with the bound for this layer in this buffer, and the groups of the
best pairs and groups, at the line of their first layer.

| layers | input | weights | output | total | bound | ratio | pairs: total | groups: total |
|---|---|---|---|---|---|---|---|---|
"""

TAIL = """
![each layer on its own](liao_resnet34_layers.svg)
"""


@cache
def search() -> NetworkSearch:
    """Return the search, which remembers groups from buffer to buffer."""
    network = simplified(Model(network=resnet34()), tuple(REWRITES)).network
    return NetworkSearch(network, BYTES)


@cache
def found(buffer: int) -> Mapping[str, NetworkTraffic]:
    """Return the least traffic with a buffer, by what may be fused."""
    return {way: search().best(buffer, longest) for way, longest in FUSIONS.items()}


def sweep_row(buffer: int) -> str:
    """Return the line of one buffer."""
    cells = [
        f"{one.total_bytes:,} ({one.total_bytes / one.bound_bytes:.3f}) "
        f"[{sum(len(group.stages) > 1 for group in one.groups)}]"
        for one in found(buffer).values()
    ]
    return f"| {buffer // KIBIBYTE} | {' | '.join(cells)} |\n"


def layer_rows() -> list[str]:
    """Return a line for each layer."""
    ways = found(SHOWN)
    starts = [
        {group.stages[0].name: group for group in ways[way].groups} for way in ("pairs", "groups")
    ]
    lines = []
    for one in ways["none"].groups:
        name = one.stages[0].name
        groups = [_total(start.get(name)) for start in starts]
        sizes = (
            one.input_bytes,
            one.weight_bytes,
            one.output_bytes,
            one.total_bytes,
            one.bound_bytes,
        )
        cells = [
            ", ".join(one.stages[0].layers),
            *(f"{size:,}" for size in sizes),
            f"{one.total_bytes / one.bound_bytes:.3f}",
        ]
        lines.append(f"| {' | '.join(cells + groups)} |\n")
    return lines


def _total(group: GroupTraffic | None) -> str:
    if group is None:
        return ""
    count = len(group.stages)
    return f"{group.total_bytes:,}" + (f" ({count} layers)" if count > 1 else "")


def page(buffers: Sequence[int] = BUFFERS) -> str:
    """Return the page."""
    windows = [stage.window for stage in search().stages if stage.window]
    weights = sum(window.weights(window.full_box) for window in windows) * BYTES
    bound = found(SHOWN)["none"].bound_bytes
    head = HEAD.format(bytes=BYTES, bound=f"{bound:,}", weights=f"{weights:,}")
    return "".join([head, *map(sweep_row, buffers), LAYERS, *layer_rows(), TAIL])


def sweep_drawing(buffers: Sequence[int] = BUFFERS) -> str:
    """Return the traffic over the buffer."""
    lines = {way: [found(size)[way].total_bytes for size in buffers] for way in FUSIONS}
    bound = found(buffers[0])["none"].bound_bytes
    return str(sweep_picture("ResNet-34: DRAM traffic", buffers, lines, bound, "svg"))


def layers_drawing() -> str:
    """Return a bar for each layer on its own."""
    bars = [
        TrafficBar(
            one.stages[0].name,
            one.input_bytes,
            one.weight_bytes,
            one.output_bytes,
            one.halo_bytes,
            one.bound_bytes,
        )
        for one in found(SHOWN)["none"].groups
    ]
    return str(bars_picture("ResNet-34, each layer on its own, 512 KiB", bars, "svg"))


if __name__ == "__main__":
    here = Path(__file__)
    here.with_suffix(".md").write_text(page())
    here.with_suffix(".svg").write_text(sweep_drawing())
    here.with_name("liao_resnet34_layers.svg").write_text(layers_drawing())
