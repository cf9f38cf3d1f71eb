"""Memory for maps and workspaces, laid out alike wherever times are taken.

Changes of layout and matrix products step over whole pages, so the size of pages may show in times.
Every block begins at a large page, and the system is asked for large ones where it has them.
"""

from __future__ import annotations

import mmap

import numpy as np

from cnn2csdf.weights import Array
from planners.primitives.library.convolution import ELEMENT_BYTES

LARGE_PAGE = 1 << 21  # bytes


def fresh_memory(count: int) -> Array:
    """Return so many bytes as elements, zero, beginning at a large page. Raises MemoryError."""
    try:
        block = mmap.mmap(-1, count + LARGE_PAGE)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"{count} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    room = np.frombuffer(block, np.uint8)
    first = -room.ctypes.data % LARGE_PAGE
    cells: Array = room[first : first + count - count % ELEMENT_BYTES].view(np.float32)
    cells.fill(0)  # so that every page is there before anything is timed
    return cells
