"""`csdf fifo`: depths of the FIFOs of streaming designs."""

from __future__ import annotations

ABOUT = "FIFO depths of streaming accelerators, from the design itself and without simulation."
EXAMPLE = "csdf fifo finn models/fifo/residual.onnx"
