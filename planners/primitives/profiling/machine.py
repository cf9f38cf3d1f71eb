"""The machine that this process runs on, as a profile describes it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

from planners.primitives.profile import Machine

PINNED = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)  # what libraries of matrix products read when they are loaded
PROCESSORS = Path("/proc/cpuinfo")


def this_machine(threads: int) -> Machine:
    """Return the machine; threads: what the environment allows matrix products."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        threads=threads,
        library=f"numpy {np.__version__}, {_products()}",
    )


def _processor() -> str:
    """The model as the system names it, else the architecture."""
    try:
        lines = PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return " ".join((named or [platform.processor() or platform.machine() or "unknown"])[0].split())


def _products() -> str:
    """The library of matrix products that numpy was built with."""
    configuration: Any = np.show_config(mode="dicts")
    found = configuration.get("Build Dependencies", {}).get("blas", {})
    return f"{found.get('name', 'unknown')} {found.get('version', '')}".strip()
