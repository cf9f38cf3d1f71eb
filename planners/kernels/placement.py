"""Conflicts of blocks of memory, and their placement in a given order: first fit, and best fit.

B blocks are numbered from 0; times, sizes and offsets are integers. Two blocks conflict if their
lifetimes meet. First fit places each block at the lowest free offset, best fit in the smallest gap.
"""

from __future__ import annotations


class Conflicts:
    """Which blocks conflict, in both directions.

    The conflicts of block b are entries start[b] : start[b + 1] of `neighbour`, `rise` and `lift`. The
    neighbour begins at least `rise` above the offset of b if it is above b; b begins at least `lift`
    above the offset of the neighbour in the other case.
    """

    def __init__(self, start, neighbour, rise, lift):
        """Keep these arrays."""
        self.start = start
        self.neighbour = neighbour
        self.rise = rise
        self.lift = lift


class Lifetimes:
    """When blocks begin and end, and their sizes. All (B,)."""

    def __init__(self, start, end, size):
        """Keep these arrays."""
        self.start = start
        self.end = end
        self.size = size


def overlaps(lifetimes, order, active, fill, conflicts):
    """Write the conflicts between lifetimes that meet.

    order: (B,) by start. active: (B,) scratch, the live blocks. fill: (B,) the entry of the next
    conflict of each block. conflicts: out, except its starts. Time: O(conflicts).
    """
    actives = 0
    for position in range(len(order)):
        block = order[position]
        kept = 0
        for k in range(actives):
            neighbour = active[k]
            # Sweep by start time: a block whose lifetime has ended leaves the active set for good.
            if lifetimes.end[neighbour] > lifetimes.start[block]:
                active[kept] = neighbour
                kept += 1
                write_conflict(conflicts, fill, block, neighbour, lifetimes)
                write_conflict(conflicts, fill, neighbour, block, lifetimes)
        active[kept] = block
        actives = kept + 1


def write_conflict(conflicts, fill, block, neighbour, lifetimes):
    """Write the conflict of a block with a neighbour."""
    entry = fill[block]
    conflicts.neighbour[entry] = neighbour
    conflicts.rise[entry] = lifetimes.size[block]
    conflicts.lift[entry] = lifetimes.size[neighbour]
    fill[block] = entry + 1


class Ground:
    """The permitted offsets of blocks: multiples of `alignment` from `lowest` on, itself a multiple.

    Both are (B,). forbidden_begin, forbidden_end: scratch, the intervals of offsets at which a block
    would overlap a placed block.
    """

    def __init__(self, alignment, lowest, forbidden_begin, forbidden_end):
        """Keep these arrays."""
        self.alignment = alignment
        self.lowest = lowest
        self.forbidden_begin = forbidden_begin
        self.forbidden_end = forbidden_end


class Placed:
    """Whether blocks are placed (0 or 1), and their offsets. Both (B,)."""

    def __init__(self, is_placed, offset):
        """Keep these arrays."""
        self.is_placed = is_placed
        self.offset = offset


def lowest_fit(order, ground, conflicts, placed):
    """First fit: place the blocks in this order, each at the lowest offset free of placed blocks.

    order: (P,) blocks. placed: changed; placed blocks keep their offsets.
    """
    for position in range(len(order)):
        block = order[position]
        taken = 0
        for entry in range(conflicts.start[block], conflicts.start[block + 1]):
            neighbour = conflicts.neighbour[entry]
            if placed.is_placed[neighbour] == 1:
                ground.forbidden_begin[taken] = placed.offset[neighbour] - conflicts.rise[entry]
                ground.forbidden_end[taken] = placed.offset[neighbour] + conflicts.lift[entry]
                taken += 1
        # First fit: the first gap between the forbidden intervals, in order of their begin.
        sort_forbidden(ground, taken)
        placed.offset[block] = first_room(ground, block, taken)
        placed.is_placed[block] = 1


def sort_forbidden(ground, taken):
    """Sort the first `taken` intervals by their begin. A Shell sort."""
    step = taken // 2
    while step > 0:
        for k in range(step, taken):
            begin = ground.forbidden_begin[k]
            finish = ground.forbidden_end[k]
            hole = k
            while hole >= step and ground.forbidden_begin[hole - step] > begin:
                ground.forbidden_begin[hole] = ground.forbidden_begin[hole - step]
                ground.forbidden_end[hole] = ground.forbidden_end[hole - step]
                hole -= step
            ground.forbidden_begin[hole] = begin
            ground.forbidden_end[hole] = finish
        step //= 2


def first_room(ground, block, taken):
    """Return the lowest offset of a block outside the first `taken` intervals, sorted by begin."""
    offset = ground.lowest[block]
    unit = ground.alignment[block]
    for k in range(taken):
        if offset <= ground.forbidden_begin[k]:
            break
        # Raise the candidate to the next aligned offset above the forbidden interval.
        if offset < ground.forbidden_end[k]:
            offset = (ground.forbidden_end[k] + unit - 1) // unit * unit
    return offset


class Stack:
    """Placed blocks by windows of time, in each window by ascending offset.

    A window is `width` times long, at least as long as any lifetime, so a block is in at most two
    windows. The blocks of window w are the first count[w] entries from first[w] on. start, end: of the
    lifetime of each entry; begin, top: offset and end in memory.
    """

    def __init__(self, start, end, begin, top, first, count, width):
        """Begin empty: all counts are 0."""
        self.start = start
        self.end = end
        self.begin = begin
        self.top = top
        self.first = first
        self.count = count
        self.width = width


def fit_by_time(order, lifetimes, ground, stack, offset, is_tight):
    """Place the blocks in this order, without a list of conflicts, which may exceed memory.

    First fit, with the offsets of `lowest_fit`; with `is_tight` best fit. offset: (B,) out. Time: O(P *
    placed blocks of a window).
    """
    for position in range(len(order)):
        block = order[position]
        offset[block] = room_by_time(
            stack.start, stack.end, stack.begin, stack.top, stack, lifetimes, ground, block, is_tight,
        )  # fmt: skip
        put_by_time(stack, lifetimes, block, offset[block])


def room_by_time(starts, ends, begins, tops, stack, lifetimes, ground, block, is_tight):
    """Return the offset of first fit for a block, or of best fit if `is_tight` is 1.

    The blocks of its two windows are merged by offset; a block in both windows is visited twice without
    effect.
    """
    start = lifetimes.start[block]
    end = lifetimes.end[block]
    size = lifetimes.size[block]
    unit = ground.alignment[block]
    offset = ground.lowest[block]
    window = start // stack.width
    last = (end - 1) // stack.width
    k = stack.first[window]
    upto = k + stack.count[window]
    later = stack.first[last]
    later_upto = later
    if last > window:
        later_upto = later + stack.count[last]
    chosen = -1
    least = 0
    # Merge the blocks of both windows by offset, as in merge sort.
    while k < upto or later < later_upto:
        if later == later_upto or (k < upto and begins[k] <= begins[later]):
            entry = k
            k += 1
        else:
            entry = later
            later += 1
        if starts[entry] < end and start < ends[entry]:
            room = begins[entry] - offset
            if room >= size:
                # First fit returns the lowest gap; best fit compares the sizes of all gaps.
                if is_tight == 0:
                    return offset
                if chosen < 0 or room < least:
                    chosen = offset
                    least = room
            if tops[entry] > offset:
                offset = (tops[entry] + unit - 1) // unit * unit
    return offset if chosen < 0 else chosen


def put_by_time(stack, lifetimes, block, offset):
    """Insert a block at this offset, which may be fixed, in each of its windows."""
    first_window = lifetimes.start[block] // stack.width
    last_window = (lifetimes.end[block] - 1) // stack.width
    for window in range(first_window, last_window + 1):
        low = stack.first[window]
        upto = low + stack.count[window]
        high = upto
        # Binary search: each window stays sorted by offset.
        while low < high:
            middle = (low + high) // 2
            if stack.begin[middle] < offset:
                low = middle + 1
            else:
                high = middle
        insert_at(stack.start, low, upto, lifetimes.start[block])
        insert_at(stack.end, low, upto, lifetimes.end[block])
        insert_at(stack.begin, low, upto, offset)
        insert_at(stack.top, low, upto, offset + lifetimes.size[block])
        stack.count[window] += 1


def insert_at(numbers, place, count, number):
    """Insert a number at a position among this many."""
    for k in range(count, place, -1):
        numbers[k] = numbers[k - 1]
    numbers[place] = number
