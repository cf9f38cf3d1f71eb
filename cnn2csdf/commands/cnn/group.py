"""`csdf cnn`: networks: show, convert to graphs, memory row by row, verify by running."""

from __future__ import annotations

ABOUT = "CNNs as cyclo-static dataflow graphs whose layers run row by row."
EXAMPLE = "csdf cnn memory resnet18"
ORDER = ("show", "convert", "memory", "measure", "verify")
