"""`csdf plan`: memory plans: arena, fusion, primitives, reuse, traffic."""

from __future__ import annotations

ABOUT = "Plans for the memory of networks, each with a bound on what is possible."
EXAMPLE = "csdf plan arena models/alloc/keyword_spotting.csv"
