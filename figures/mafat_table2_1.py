"""Table 2.1 of MAFAT: what each of YOLOv2's first 16 layers needs as a whole.

Farley and Gerstlauer, MAFAT: Memory-Aware Fusing and Tiling of Neural Networks for Accelerated Edge
Inference, 2021. Run `python -m figures.mafat_table2_1`: writes the .md beside it.
"""

from pathlib import Path

from cnn2csdf.catalogue.yolo import yolo_v2_beginning
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from figures.published.mafat import TABLE_2_1, LayerRow, layer_table
from planners.memory.order import chain_of
from planners.published.mafat import MB

HEAD = """# Table 2.1 of MAFAT

Made by `python -m figures.mafat_table2_1`. MB are 2^20 bytes here, rounded half up; four bytes an
element; weights are kernels without biases, in bytes. Scratch is the matrix of all that the windows of
a convolution see, as Darknet lays it out. Layer 2 is the one that sets the memory of the network as a
whole. Each cell is what we count; a printed cell that differs stands behind it in brackets.

| layer | operator | weights (bytes) | input | output | scratch | total (MB) |
|---|---|---|---|---|---|---|
"""
TAIL = """
{equal} of {cells} cells are as printed. The kernel of layer 12 is that of layer 14, 3 * 3 * 256 * 512
numbers of four bytes: the printed number is a misprint.
"""


def half_up(size: int) -> str:
    """Return MB with two places as the paper rounds them: 45.125 is 45.13, nothing is 0."""
    hundredths = (200 * size + MB) // (2 * MB)
    return f"{hundredths // 100}.{hundredths % 100:02}" if size else "0"


def cells_of(row: LayerRow) -> tuple[str, ...]:
    """Return weights, input, output, scratch and total as the paper writes them."""
    sizes = (row.input, row.output, row.scratch, row.total)
    return (str(row.weights), *map(half_up, sizes))


def page() -> str:
    """Return the table."""
    network = simplified(Model(network=yolo_v2_beginning())).network
    lines, equal = [], 0
    for row, printed in zip(layer_table(chain_of(network)), TABLE_2_1, strict=True):
        pairs = list(zip(cells_of(row), map(str, printed), strict=True))
        equal += sum(ours == theirs for ours, theirs in pairs)
        cells = (ours if ours == theirs else f"{ours} ({theirs})" for ours, theirs in pairs)
        operator = network.layer(row.name).operator.in_words()
        lines.append(f"| {' | '.join((str(row.number), operator, *cells))} |\n")
    count = sum(map(len, TABLE_2_1))
    return HEAD + "".join(lines) + TAIL.format(equal=equal, cells=count)


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
