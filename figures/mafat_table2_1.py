"""Table 2.1 of MAFAT: what each of YOLOv2's first 16 layers needs as a whole.

Farley and Gerstlauer, MAFAT: Memory-Aware Fusing and Tiling of Neural Networks for Accelerated Edge
Inference, 2021. Run `python -m figures.mafat_table2_1`: writes the .md beside it.
"""

from pathlib import Path

from cnn2csdf.catalogue.yolo import yolo_v2_beginning
from cnn2csdf.simplify import simplified
from cnn2csdf.weights import Model
from figures.published.mafat import MB, layer_table
from planners.fusion.chains import chain_of

HEAD = """# Table 2.1 of MAFAT

Made by `python -m figures.mafat_table2_1`. MB are 2^20 bytes here, four bytes an element. Scratch is
the matrix of all that the windows of a convolution see, as Darknet lays it out; weights are kernels
without biases. Layer 2 is the one that sets the memory of the network as a whole.

| layer | operator | weights | input | output | scratch | total (MB) |
|---|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the table."""
    network = simplified(Model(network=yolo_v2_beginning())).network
    chain = chain_of(network)
    lines = []
    for row in layer_table(chain):
        sizes = (row.weights, row.input, row.output, row.scratch, row.total)
        operator = network.layer(row.name).operator.in_words()
        cells = (str(row.number), operator, *(f"{size / MB:.2f}" for size in sizes))
        lines.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page())
