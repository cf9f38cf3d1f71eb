"""Exact search of offsets where every byte of the arena is live at every time: perfect packing.

B blocks are numbered from 0, times from 0 to T. A column is the time from one number to the next. A
block fills the columns start to end - 1. In each column the sizes of the blocks add up to the capacity,
so a plan has no free byte. The search stacks blocks: `height` is the filled bytes of each column.

A valley is a range of columns of equal height between higher columns, or the ends of time:

    height   5 5 2 2 2 7      columns 2 to 4 are a valley of height 2
    column   0 1 2 3 4 5      left corner: a block that starts at 2; right corner: one that ends at 5
"""

from __future__ import annotations

UNDECIDED = 0  # the limit was reached: call again to go on
FOUND = 1  # `offset` holds the offsets
NONE = 2  # there is no plan

# Fields of a frame, a node of the depth-first search: the corner that it fills, and how far it is.
BEGIN = 0  # the valley has the columns BEGIN to END - 1
END = 1
IS_RIGHT = 2  # 1 if the right corner of the valley is filled, 0 for the left
# The blocks tried now have this many sides, 2 to 0, where their top is level with the next column.
LEVEL_SIDES = 3
NEXT = 4  # index of the next block to try, among the blocks that start, or end, at the corner
BLOCK = 5  # the block placed last, or -1
FRAME = 6  # the number of fields


class BlocksByTime:
    """The blocks, and the blocks that begin and that end at each time.

    start, end, size: (B,). twin: (B,) the last earlier block of the same lifetime and size, or -1.
    begins, ends: (B,) blocks by their start, and by their end; blocks of equal time in the order in
    which they are tried. begin_first: (T + 2,) the blocks that begin at time t are
    begins[begin_first[t] : begin_first[t + 1]]; end_first likewise for `ends`. capacity: bytes of every
    column.
    """

    def __init__(self, start, end, size, twin, begins, begin_first, ends, end_first, capacity):
        """Set the arrays."""
        self.start = start
        self.end = end
        self.size = size
        self.twin = twin
        self.begins = begins
        self.begin_first = begin_first
        self.ends = ends
        self.end_first = end_first
        self.capacity = capacity


class Filling:
    """The state of a search.

    height: (T,) filled bytes of each column. offset, is_placed: (B,). frames: (FRAME * (B + 1),) frames
    by depth. depth: of the current frame; -1 before the start. examined: columns and blocks examined.
    """

    def __init__(self, height, offset, is_placed, frames):
        """Begin empty: all numbers are 0."""
        self.height = height
        self.offset = offset
        self.is_placed = is_placed
        self.frames = frames
        self.depth = -1
        self.examined = 0


def search(blocks, filling, limit):
    """Search for offsets; return FOUND, NONE or UNDECIDED. limit: of `examined` in this call.

    No byte remains free, so a block begins at the left corner of each valley, and a block ends at the
    right corner. The corner with the fewest fitting blocks is filled first; blocks whose top is level
    with the columns next to the valley are tried first.

    Source: the leftmost-gap enumeration of perfect packings, as in Lesh et al., Exhaustive approaches
    to 2D rectangular perfect packings, Information Processing Letters 90(1), 2004; here with times.
    """
    last = filling.examined + limit
    count = len(blocks.start)
    if filling.depth < 0:
        filling.depth = 0
        if not open_corner(blocks, filling):
            return NONE
    while filling.examined < last:
        frame = filling.depth * FRAME
        # Backtrack: remove the block tried last in this corner.
        if filling.frames[frame + BLOCK] >= 0:
            set_placed(blocks, filling, filling.frames[frame + BLOCK], 0)
        block = next_block(blocks, filling, frame)
        filling.frames[frame + BLOCK] = block
        if block < 0:
            filling.depth -= 1
            if filling.depth < 0:
                return NONE
            continue
        set_placed(blocks, filling, block, 1)
        if filling.depth == count - 1:
            return FOUND
        filling.depth += 1
        if not open_corner(blocks, filling):
            filling.depth -= 1
    return UNDECIDED


def set_placed(blocks, filling, block, is_placed):
    """Place a block on its columns, or remove it."""
    start = blocks.start[block]
    if is_placed == 1:
        filling.offset[block] = filling.height[start]
        height = filling.offset[block] + blocks.size[block]
    else:
        height = filling.offset[block]
    filling.is_placed[block] = is_placed
    for column in range(start, blocks.end[block]):
        filling.height[column] = height
    filling.examined += blocks.end[block] - start


def open_corner(blocks, filling):
    """Open a frame for the corner that the fewest blocks fit; return False if a corner fits none."""
    columns = len(filling.height)
    filling.examined += columns
    frame = filling.depth * FRAME
    least = len(blocks.start) + 1
    begin = 0
    while begin < columns:
        here = filling.height[begin]
        end = begin + 1
        while end < columns and filling.height[end] == here:
            end += 1
        # A valley of the skyline: both neighbours are higher, or outside of the time axis.
        is_low = begin == 0 or filling.height[begin - 1] > here
        if end < columns and filling.height[end] < here:
            is_low = False
        if is_low and here < blocks.capacity:
            for is_right in range(2):
                fitting = fitting_blocks(blocks, filling, begin, end, is_right, least)
                # A corner that no block fits refutes the branch, as no byte may stay free.
                if fitting == 0:
                    return False
                # Fail first: branch on the corner with the fewest fitting blocks.
                if fitting < least:
                    least = fitting
                    filling.frames[frame + BEGIN] = begin
                    filling.frames[frame + END] = end
                    filling.frames[frame + IS_RIGHT] = is_right
        begin = end
    filling.frames[frame + LEVEL_SIDES] = 2
    filling.frames[frame + NEXT] = 0
    filling.frames[frame + BLOCK] = -1
    return least <= len(blocks.start)


def fitting_blocks(blocks, filling, begin, end, is_right, most):
    """Return the number of blocks that fit a corner of a valley; counting stops at `most`."""
    counted = 0
    first = blocks.end_first[end] if is_right == 1 else blocks.begin_first[begin]
    last = blocks.end_first[end + 1] if is_right == 1 else blocks.begin_first[begin + 1]
    room = blocks.capacity - filling.height[begin]
    for index in range(first, last):
        block = blocks.ends[index] if is_right == 1 else blocks.begins[index]
        if (
            filling.is_placed[block] == 0
            and blocks.size[block] <= room
            and blocks.start[block] >= begin
            and blocks.end[block] <= end
        ):
            counted += 1
            if counted >= most:
                break
    filling.examined += last - first
    return counted


def next_block(blocks, filling, frame):
    """Return the next block to try in the corner of this frame, or -1 if all were tried."""
    begin = filling.frames[frame + BEGIN]
    end = filling.frames[frame + END]
    is_right = filling.frames[frame + IS_RIGHT]
    first = blocks.end_first[end] if is_right == 1 else blocks.begin_first[begin]
    last = blocks.end_first[end + 1] if is_right == 1 else blocks.begin_first[begin + 1]
    here = filling.height[begin]
    while filling.frames[frame + LEVEL_SIDES] >= 0:
        for index in range(first + filling.frames[frame + NEXT], last):
            block = blocks.ends[index] if is_right == 1 else blocks.begins[index]
            top = here + blocks.size[block]
            filling.examined += 1
            if (
                filling.is_placed[block] == 1
                or top > blocks.capacity
                or blocks.start[block] < begin
                or blocks.end[block] > end
            ):
                continue
            # Symmetry breaking: blocks of equal lifetime and size are placed in one order only.
            if blocks.twin[block] >= 0 and filling.is_placed[blocks.twin[block]] == 0:
                continue
            # Blocks that end level with the neighbouring columns are tried first.
            level_sides = 0
            if blocks.start[block] == begin and begin > 0 and filling.height[begin - 1] == top:
                level_sides = 1
            if (
                blocks.end[block] == end
                and end < len(filling.height)
                and filling.height[end] == top
            ):
                level_sides += 1
            if level_sides == filling.frames[frame + LEVEL_SIDES]:
                filling.frames[frame + NEXT] = index + 1 - first
                return block
        filling.frames[frame + LEVEL_SIDES] -= 1
        filling.frames[frame + NEXT] = 0
    return -1
