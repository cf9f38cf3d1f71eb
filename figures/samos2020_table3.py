"""Table III of SAMOS 2020: memory and throughput of seven networks, ours beside theirs.

Minakova and Stefanov, Buffer Sizes Reduction for Memory-efficient CNN Inference on Mobile and
Embedded Devices, SAMOS 2020. Run `python -m figures.samos2020_table3`: writes the .md and the .svg
beside it. Three networks come from the onnx package, the others from the catalogue.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import onnx

from cnn2csdf.catalogue.concatenating import googlenet, squeezenet1_1
from cnn2csdf.catalogue.plain_chains import vgg19
from cnn2csdf.catalogue.resnet import resnet18
from cnn2csdf.catalogue.yolo import tiny_yolo_v2
from cnn2csdf.durations import platform_durations
from cnn2csdf.granularity import ROWS, WHOLE
from cnn2csdf.lowering import lower
from cnn2csdf.network import Layer, Network
from cnn2csdf.onnx_files.reader import read_onnx
from cnn2csdf.operators import (
    Activation,
    BatchNormalization,
    Convolution,
    FullyConnected,
    GlobalPooling,
    LocalResponseNormalization,
    Pooling,
)
from cnn2csdf.parameters import operations
from cnn2csdf.platforms import PLATFORMS
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from planners.commands.cnn.picture import MemoryBar, memory_picture
from planners.memory.plain_plans import Method, memory_comparison
from planners.memory.stateful import BoundedPlan
from planners.published.samos import (
    PUBLISHED_STEPS,
    NetworkMemory,
    network_memory,
    published_memory,
)

BYTES = 4
NORMALIZATIONS = (BatchNormalization, LocalResponseNormalization)
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
PHASE_COST = 2.5  # microseconds
TABLE_1: tuple[tuple[str, str, tuple[type, ...], Callable[[int, int, int], bool]], ...] = (
    ("convolutions", "T <= X", (Convolution,), lambda rows, _, height: rows <= height),
    ("poolings", "T <= X", (Pooling, GlobalPooling), lambda rows, _, height: rows <= height),
    ("poolings", "typically T = s", (Pooling, GlobalPooling), lambda rows, step, _: rows == step),
    ("activations", "T = s = 1", (Activation,), lambda rows, step, _: rows == step == 1),
    ("fully connected", "T = X", (FullyConnected,), lambda rows, _, height: rows == height),
    ("normalisations", "s = 1", NORMALIZATIONS, lambda _, step, __: step == 1),
)


class Printed(NamedTuple):
    """A line of the paper's table: MB and frames per second, of the frameworks and of the paper.

    less, slower: the percentages of memory and of speed as printed; some do not follow from the rest.
    """

    whole: int
    parts: int
    less: int
    whole_speed: float
    parts_speed: float
    slower: int


def shipped(name: str) -> Network:
    """Return a network of the onnx package."""
    return read_onnx(str(LIGHT / f"light_{name}.onnx")).network


NETWORKS: dict[str, tuple[Callable[[], Network], Printed]] = {
    "resnet18": (resnet18, Printed(84, 52, 38, 46, 36, 22)),
    "googlenet": (googlenet, Printed(86, 50, 41, 60, 42, 30)),
    "tiny yolo v2": (lambda: tiny_yolo_v2(classes=80), Printed(142, 66, 54, 26, 21, 22)),
    "inception v1": (lambda: shipped("inception_v1"), Printed(81, 48, 41, 66, 46, 31)),
    "VGG19": (vgg19, Printed(700, 579, 17, 3.97, 3.87, 3)),
    "densenet121": (lambda: shipped("densenet121"), Printed(327, 119, 64, 36, 19, 47)),
    "squeezenet": (squeezenet1_1, Printed(34, 12, 64, 272, 125, 54)),
}


def unfused(network: Network) -> Network:
    """Return the network as the paper counts it."""
    return simplified(Model(network=network), PUBLISHED_STEPS).network


class Compared(NamedTuple):
    """A network as a whole and by rows: with the smallest buffers of its graph, and in one arena."""

    whole: NetworkMemory
    by_parts: NetworkMemory
    whole_arena: BoundedPlan
    rows_arena: BoundedPlan
    methods: tuple[Method, ...]


def by_rows(network: Network) -> Compared:
    """Return what rows throughout give, with sliding windows and the model of the Jetson TX2."""
    platform = PLATFORMS["jetson-tx2"]
    whole, parts = (
        network_memory(network, one, platform_durations(network, one, platform))
        for one in (WHOLE, ROWS)
    )
    found = memory_comparison(network, ROWS)
    return Compared(whole, parts, found.whole, found.rows, found.methods)


def memory_table(networks: dict[str, Network], rows: dict[str, Compared]) -> str:
    """Return the memory columns."""
    lines = [
        "| network | whole: ours | printed | by parts: ours | printed | reduction: ours | printed "
        "| from the printed MB | rows throughout | whole, one arena | rows, one arena |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, network in networks.items():
        whole, parts = (
            published_memory(network, cut, element_bytes=BYTES).total / 1e6 for cut in (WHOLE, ROWS)
        )
        printed = NETWORKS[name][1]
        lines.append(
            f"| {name} | {whole:.2f} | {printed.whole} | {parts:.2f} | {printed.parts} "
            f"| {1 - parts / whole:.0%} | {printed.less}% | {1 - printed.parts / printed.whole:.0%} "
            f"| {rows[name].by_parts.total / 1e6:.2f} | {' | '.join(in_arenas(rows[name]))} |"
        )
    return "\n".join(lines)


def window_table(networks: dict[str, Network]) -> str:
    """Return Table I beside the windows of all layers, which read T rows of X and move by s."""
    lines = ["| layers | printed | here | of the layers |", "|---|---|---|---|"]
    for kind, printed, operators, holds in TABLE_1:
        found = [
            window
            for network in networks.values()
            for layer in network.layers
            if isinstance(layer.operator, operators)
            for window in windows(network, layer)
        ]
        sizes = sorted({(rows, step) for rows, step, height in found if rows < height})
        listed = ", ".join(f"{rows}/{step}" for rows, step in sizes)
        whole = sum(rows >= height for rows, _, height in found)
        here = " and ".join([*([listed] * bool(sizes)), *([f"{whole} with T = X"] * bool(whole))])
        count = sum(holds(*window) for window in found)
        lines.append(f"| {kind} | {printed} | {here} | {count} of {len(found)} |")
    return "\n".join(lines)


def windows(network: Network, layer: Layer) -> Iterator[tuple[int, int, int]]:
    """Yield T, s and X of the windows that a layer has over its inputs; padding counts in X."""
    inputs = network.input_shapes(layer)
    for index, shape in enumerate(inputs):
        needed = layer.operator.rows_needed(index, inputs, layer.shape)
        if needed is None:
            yield shape.rows, shape.rows, shape.rows
            continue
        first, upto = needed(0)
        last = max(needed(layer.shape.rows - 1)[1], shape.rows) - min(first, 0)
        yield upto - first, needed(1)[0] - first, last


def share_table(networks: dict[str, Network]) -> str:
    """Return which part of the memory with whole tensors is no parameters."""
    lines = ["| network | buffers | with scratch |", "|---|---|---|"]
    for name, network in networks.items():
        one = published_memory(network, WHOLE, element_bytes=BYTES)
        buffers = one.buffers / (one.buffers + one.parameters)
        lines.append(f"| {name} | {buffers:.0%} | {1 - one.parameters / one.total:.0%} |")
    return "\n".join(lines)


def in_arenas(found: Compared) -> list[str]:
    """Return MB of parameters with whole tensors, and with rows, in one arena; of a gap the end."""
    return [
        f"{(one.arena_bytes + found.whole.parameters) / 1e6:.2f}"
        + (
            ""
            if one.arena_bytes == one.lower_bound
            else f" (at most {one.arena_bytes / max(one.lower_bound, 1) - 1:.1%} too large)"
        )
        for one in (found.whole_arena, found.rows_arena)
    ]


def speed_table(rows: dict[str, Compared]) -> str:
    """Return the throughput columns."""
    lines = [
        "| network | whole: printed | phases whole, by rows | printed time of a phase more "
        "| by parts: predicted | printed | decrease: printed | from the printed speeds "
        "| whole: model | by rows: model | pipelined |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in rows.items():
        printed = NETWORKS[name][1]
        more = phases(found.by_parts) - phases(found.whole)
        slower = 1e6 / printed.parts_speed - 1e6 / printed.whole_speed
        predicted = 1e6 / (1e6 / printed.whole_speed + PHASE_COST * more)
        lines.append(
            f"| {name} | {printed.whole_speed} | {phases(found.whole)}, {phases(found.by_parts)} "
            f"| {slower / more:.2f} us | {predicted:.3g} | {printed.parts_speed} "
            f"| {printed.slower}% | {1 - printed.parts_speed / printed.whole_speed:.0%} "
            f"| {1e9 / found.whole.sequential:.1f} | {1e9 / found.by_parts.sequential:.1f} "
            f"| {float(10**9 / found.by_parts.pipelined):.1f} |"
        )
    return "\n".join(lines)


def fit_table(networks: dict[str, Network]) -> str:
    """Return the printed speeds beside those of the fitted platform, and what is left between them."""
    fit = PLATFORMS["jetson-tx2-fitted"]
    lines = [
        "| network | G operations | whole: printed | fit | apart | by rows: printed | fit | apart "
        "| decrease: printed | fit |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, network in networks.items():
        printed = NETWORKS[name][1]
        work = sum(operations(one, network.input_shapes(one)) for one in network.layers)
        speeds = [
            float(1 / (work / fit.operations_per_second + fit.launch * count))
            for count in (
                sum(actor.phases for actor in lower(network, one).actors) for one in (WHOLE, ROWS)
            )
        ]
        cells = [
            cell
            for measured, found in zip(printed[3:5], speeds, strict=True)
            for cell in (str(measured), f"{found:.3g}", f"{found / measured - 1:+.0%}")
        ]
        decrease = f"{printed.slower}% | {1 - speeds[1] / speeds[0]:.0%}"
        lines.append(f"| {name} | {work / 1e9:.2f} | {' | '.join(cells)} | {decrease} |")
    return "\n".join(lines)


def phases(memory: NetworkMemory) -> int:
    """Return the phases of all layers: firings of one frame."""
    return sum(actor.phases for actor in memory.graph.actors)


def page(networks: dict[str, Network], rows: dict[str, Compared]) -> str:
    """Return the page."""
    return f"""# Table III of SAMOS 2020

Made by `python -m figures.samos2020_table3`. MB are 1,000,000 bytes, four bytes an element.

## Memory (MB)

"Ours" in the paper's accounting: unfused networks, a buffer for every edge, parameters included,
bias additions absorbed, dropout and reshapes dropped, the rows that windows share in a self-loop
besides their channel, two scratch tensors of each LRN counted as parameters, and additions and
concatenations that read by rows but write all of their output with their last phase. Where those
rows are in the meantime the accounting does not say.

"Rows throughout" is another count, and one that runs: joins work by rows too, windows keep shared
rows in the channel, no scratch. Every size is proved the smallest in its model.

"One arena" is what the paper does not compare with: tensors that are not needed at the same time
share bytes, as in any runtime. The reductions of the paper are against tensors that each lie apart;
against whole tensors in one arena, rows in one arena save what the last two columns say.

{memory_table(networks, rows)}

A network of one's own, in the same accounting: `csdf cnn memory MODEL --accounting published`.

The paper does not say which tiny YOLO it used; with the 80 classes of COCO both of its figures come
out (VOC's 20 classes: 140.9 and 65.0). densenet121 and inception v1 are those of the onnx package:
its densenet has a multiplication of its own behind each batch normalisation.

## Table I, and the introduction

Table I says for kinds of layers how many of the X rows of its input a window reads (T), and by how many
it moves (s). "Here" are the T/s of all layers of the seven networks, as their graphs have them.

{window_table(networks)}

The introduction names two percentages, 63% and 80%. If they are the part of the memory that is buffers
and no parameters, these are ours; the first is that of inception v1, and none is the second.

{share_table(networks)}

## Throughput (frames per second)

The printed speeds are the paper's, measured. From them: a frame by parts takes longer than one by
whole layers by 2.1 to 2.9 microseconds for each phase more, in all seven networks, if every layer
has one phase a row. So the printed decrease is the cost of starting phases and of nothing else, and
the printed whole speed with {PHASE_COST} microseconds a phase gives the printed speed by parts
("predicted").

"Model" is the time of all phases one after another on a Jetson TX2 by its data sheet (665.6 G
operations/s, 59.7 GB/s, {PHASE_COST} microseconds to start a phase, parameters read again in each
phase). It assumes kernels that reach the roofline, which the measured ones do not, and it loses more
by rows, because the rows of a layer with many parameters wait for memory. "Pipelined" is the exact
rate of the graph in its smallest buffers if every layer had a processor of its own.

{speed_table(rows)}

## A fit

The printed speeds times the operations of a frame are nearly constant, 156 to 206 G operations/s. So
the platform `jetson-tx2-fitted` has 182.5 G operations/s, 2.05 us to start a phase, and bytes that cost
nothing: least squares of the relative error of the fourteen times. It is a fit, of these networks.
The printed conclusion, 3 to 54% of the speed lost by rows, is 2 to 51% with it, network for network in
the same order; the data sheet's model above loses 12 to 74%.

{fit_table(networks)}
"""


def main() -> None:
    """Write the page and the picture."""
    networks = {name: unfused(build()) for name, (build, _) in NETWORKS.items()}
    rows = {name: by_rows(network) for name, network in networks.items()}
    Path(__file__).with_suffix(".md").write_text(page(networks, rows))
    bars = [
        MemoryBar(name, way.title, way.parameters, way.buffers)
        for name, found in rows.items()
        for way in found.methods
    ]
    picture = memory_picture(bars, "svg")
    Path(__file__).with_suffix(".svg").write_text(str(picture))


if __name__ == "__main__":
    main()
