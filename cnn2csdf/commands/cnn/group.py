"""`csdf cnn`: networks: show, convert to graphs, memory by parts, verify by running."""

from __future__ import annotations

ABOUT = "CNNs as cyclo-static dataflow graphs whose layers work by parts."
EXAMPLE = "csdf cnn memory resnet18"
ORDER = ("show", "convert", "memory", "measure", "verify")
