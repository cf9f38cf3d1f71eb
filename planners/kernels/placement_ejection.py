"""A search for offsets within a capacity by ejection chains: a placed block ejects its conflicts.

B blocks are numbered from 0; sizes and offsets are whole numbers. A block is placed, or it waits. The
conflicts are those of planners/kernels/placement.py. For the entry of block b and a neighbour, `rise`
is how far above the offset of b a higher neighbour must begin, and `lift` how far above the offset of
the neighbour a higher block b must begin: without overlap, the size of the lower block.
"""

from __future__ import annotations

UNDECIDED = 0  # the limit was reached: call again to go on
FOUND = 1  # no block waits: `begin` holds the offsets

FIXED_PRICE = 2**44  # of a block that may not be ejected; above the sum of all other prices
FULL = 512  # the first price; compared prices get a random factor from 1 to below 1.5
SHIFTS = 3  # blocks drawn after each ejection, which may move to other free offsets
MASK = 2**40 - 1  # of the random numbers, of which the upper 24 bits are used


class BlockRooms:
    """Permitted offsets of the blocks: multiples of `alignment` up to `highest`. All (B,).

    is_fixed: 1 if the block keeps its offset.
    """

    def __init__(self, alignment, highest, is_fixed):
        """Keep these arrays."""
        self.alignment = alignment
        self.highest = highest
        self.is_fixed = is_fixed


class Shelf:
    """The placed blocks, the waiting blocks, and the price of each block if it is ejected.

    begin, end: (B,) of placed blocks. is_placed: (B,). price: (B,) multiples of FULL, or FIXED_PRICE.
    is_sparse: 1 if few blocks conflict. upward: (B,) the first `placed` entries are the placed blocks
    in order of `begin`; by_end: the same in order of `end`; neither where `is_sparse`. waiting: (B,)
    the first `waits` entries are the waiting blocks. tried: placements so far. entry_of: (B,) zeros.
    below, above: (B + 1,) scratch, offsets of one block next to its neighbours, see `look`;
    below_block, above_block: (B + 1,) the neighbours of these offsets.
    """

    def __init__(self, begin, end, price, waiting, array, seed, is_sparse):
        """Begin empty: `put` every block. array: makes a sequence of the kernel's kind."""
        blocks = len(begin)
        self.begin = begin
        self.end = end
        self.price = price
        self.waiting = waiting
        self.is_placed = array([0] * blocks)
        self.upward = array([0] * blocks)
        self.by_end = array([0] * blocks)
        self.entry_of = array([0] * blocks)
        self.below = array([0] * (blocks + 1))
        self.above = array([0] * (blocks + 1))
        self.below_block = array([0] * (blocks + 1))
        self.above_block = array([0] * (blocks + 1))
        self.is_sparse = is_sparse
        self.placed = 0
        self.tried = 0
        self.waits = 0
        self.random = seed
        self.least = 0  # price of the offset that was chosen last


def search(rooms, conflicts, size, shelf, limit):
    """Place the blocks that wait, at most this many times; return FOUND or UNDECIDED.

    A waiting block, drawn at random, is placed where the blocks that it ejects cost least. The ejected
    blocks wait, and the price of the placed block rises. Then some blocks move to free offsets, to join
    the gaps.

    Sources: Nagata and Braysy, A powerful route minimization heuristic for the vehicle routing problem
    with time windows, Operations Research Letters 37(5), 2009 (prices count failed insertions); here
    for offsets.
    """
    for _ in range(limit):
        if shelf.waits == 0:
            return FOUND
        shelf.tried += 1
        turn = random_below(shelf, shelf.waits)
        block = shelf.waiting[turn]
        near = look(rooms, conflicts, shelf, block)
        offset = cheapest(rooms, shelf, block, near)
        # Each offset would eject a fixed block: draw another waiting block.
        if shelf.least >= FIXED_PRICE:
            continue
        shelf.waits -= 1
        shelf.waiting[turn] = shelf.waiting[shelf.waits]
        if shelf.least > 0:
            # Penalty counter of Nagata and Braysy: a block that was hard to insert costs more to
            # eject.
            shelf.price[block] += FULL
            push_out(conflicts, shelf, block, offset)
        put(size, shelf, block, offset)
        if shelf.least > 0:
            # Perturbation after an ejection: moves to free offsets join gaps.
            shift_some(rooms, conflicts, size, shelf, block)
    return FOUND if shelf.waits == 0 else UNDECIDED


def random_below(shelf, limit):
    """Return a random number below the limit."""
    # Linear congruential generator modulo 2^40; the low bits have short periods and are dropped.
    shelf.random = (shelf.random * 1664525 + 1013904223) & MASK
    return (shelf.random >> 16) * limit >> 24


def look(rooms, conflicts, shelf, block):
    """List the offsets of a block next to each placed neighbour; return the number of neighbours.

    shelf.below: the highest offset of the block below the neighbour; shelf.above: the lowest offset
    above the neighbour; each in ascending order.
    """
    if shelf.is_sparse == 1:
        return look_at_conflicts(rooms, conflicts, shelf, block)
    unit = rooms.alignment[block]
    for entry in range(conflicts.start[block], conflicts.start[block + 1]):
        shelf.entry_of[conflicts.neighbour[entry]] = entry + 1
    unders = 0
    uppers = 0
    # Without branches, which the processor would mispredict.
    for position in range(shelf.placed):
        neighbour = shelf.upward[position]
        shelf.below_block[unders] = neighbour
        unders += shelf.entry_of[neighbour] > 0
        neighbour = shelf.by_end[position]
        shelf.above_block[uppers] = neighbour
        uppers += shelf.entry_of[neighbour] > 0
    for k in range(unders):
        neighbour = shelf.below_block[k]
        under = shelf.begin[neighbour] - conflicts.rise[shelf.entry_of[neighbour] - 1]
        insert_pair(shelf.below, shelf.below_block, k, rounded_down(under, unit), neighbour)
        neighbour = shelf.above_block[k]
        upper = shelf.begin[neighbour] + conflicts.lift[shelf.entry_of[neighbour] - 1]
        upper = rounded_down(upper + unit - 1, unit)
        insert_pair(shelf.above, shelf.above_block, k, upper, neighbour)
    for entry in range(conflicts.start[block], conflicts.start[block + 1]):
        shelf.entry_of[conflicts.neighbour[entry]] = 0
    return unders


def look_at_conflicts(rooms, conflicts, shelf, block):
    """Do the same as `look` for sparse conflicts: visit only those of the block, and sort them."""
    unit = rooms.alignment[block]
    near = 0
    for entry in range(conflicts.start[block], conflicts.start[block + 1]):
        neighbour = conflicts.neighbour[entry]
        if shelf.is_placed[neighbour] == 1:
            shelf.below[near] = rounded_down(shelf.begin[neighbour] - conflicts.rise[entry], unit)
            upper = shelf.begin[neighbour] + conflicts.lift[entry]
            shelf.above[near] = rounded_down(upper + unit - 1, unit)
            shelf.below_block[near] = neighbour
            shelf.above_block[near] = neighbour
            near += 1
    sort_pairs(shelf.below, shelf.below_block, near)
    sort_pairs(shelf.above, shelf.above_block, near)
    return near


def sort_pairs(numbers, blocks, count):
    """Sort this many numbers with their blocks. A Shell sort."""
    step = 1
    # Knuth's gap sequence for Shell sort: 1, 4, 13, 40, ...
    while step < count // 9:
        step = 3 * step + 1
    while step > 0:
        for k in range(step, count):
            number = numbers[k]
            block = blocks[k]
            hole = k
            while hole >= step and numbers[hole - step] > number:
                numbers[hole] = numbers[hole - step]
                blocks[hole] = blocks[hole - step]
                hole -= step
            numbers[hole] = number
            blocks[hole] = block
        step //= 3


def rounded_down(number, unit):
    """Return the largest multiple of the unit that is not above the number."""
    return number if unit == 1 else number // unit * unit


def insert_pair(numbers, blocks, count, number, block):
    """Insert a number and its block among this many in ascending order; mostly it is the last."""
    hole = count
    while hole > 0 and numbers[hole - 1] > number:
        numbers[hole] = numbers[hole - 1]
        blocks[hole] = blocks[hole - 1]
        hole -= 1
    numbers[hole] = number
    blocks[hole] = block


def cheapest(rooms, shelf, block, near):
    """Return the offset of a block that ejects the cheapest blocks; set `least` to their price.

    Candidates are the lowest and the highest offset, and the offsets that touch a neighbour.
    """
    top = rooms.highest[block] // rooms.alignment[block] * rooms.alignment[block]
    shelf.below[near] = top
    shelf.above[near] = top
    price = 0
    entered = 0
    left = 0
    ties = 0
    chosen = 0
    least = 0
    offset = 0
    while entered < near and shelf.below[entered] < 0:
        price += shelf.price[shelf.below_block[entered]]
        entered += 1
    while True:
        while left < near and shelf.above[left] <= offset:
            price -= shelf.price[shelf.above_block[left]]
            left += 1
        seen = price
        # Diversification: a random factor from 1 to below 1.5 lets dearer offsets win at times.
        if price > 0 and price < FIXED_PRICE:
            seen = price // FULL * (FULL + random_below(shelf, FULL // 2))
        if ties == 0 or seen < least:
            ties = 1
            least = seen
            chosen = offset
        elif seen == least:
            ties += 1
            # Reservoir sampling: each of the equally cheap offsets is chosen with equal
            # probability.
            if random_below(shelf, ties) == 0:
                chosen = offset
        if offset >= top:
            break
        while entered < near and shelf.below[entered] <= offset:
            price += shelf.price[shelf.below_block[entered]]
            entered += 1
        offset = min(shelf.below[entered], shelf.above[left], top)
    shelf.least = least
    return chosen


def free_offset(rooms, shelf, block, near):
    """Return a random free offset of the block other than its own, or -1; candidates of `cheapest`."""
    top = rooms.highest[block] // rooms.alignment[block] * rooms.alignment[block]
    shelf.below[near] = top
    shelf.above[near] = top
    entered = 0
    left = 0
    ties = 0
    chosen = -1
    offset = 0
    while entered < near and shelf.below[entered] < 0:
        entered += 1
    while True:
        while left < near and shelf.above[left] <= offset:
            left += 1
        # Every interval entered has been left again: no neighbour conflicts with this offset.
        if entered == left and offset != shelf.begin[block]:
            ties += 1
            if random_below(shelf, ties) == 0:
                chosen = offset
        if offset >= top:
            return chosen
        while entered < near and shelf.below[entered] <= offset:
            entered += 1
        offset = min(shelf.below[entered], shelf.above[left], top)


def push_out(conflicts, shelf, block, offset):
    """Eject all blocks that conflict with a block at this offset."""
    for entry in range(conflicts.start[block], conflicts.start[block + 1]):
        neighbour = conflicts.neighbour[entry]
        if shelf.is_placed[neighbour] == 0:
            continue
        at = shelf.begin[neighbour]
        if at < offset + conflicts.rise[entry] and offset < at + conflicts.lift[entry]:
            take(shelf, neighbour)
            shelf.waiting[shelf.waits] = neighbour
            shelf.waits += 1


def put(size, shelf, block, offset):
    """Place a block."""
    shelf.begin[block] = offset
    shelf.end[block] = offset + size[block]
    shelf.is_placed[block] = 1
    if shelf.is_sparse == 0:
        insert(shelf.upward, shelf.begin, shelf.placed, block)
        insert(shelf.by_end, shelf.end, shelf.placed, block)
    shelf.placed += 1


def insert(order, key, count, block):
    """Insert a block among this many in ascending order of their keys."""
    hole = count
    while hole > 0 and key[order[hole - 1]] > key[block]:
        order[hole] = order[hole - 1]
        hole -= 1
    order[hole] = block


def take(shelf, block):
    """Take a placed block out."""
    shelf.is_placed[block] = 0
    shelf.placed -= 1
    if shelf.is_sparse == 0:
        remove(shelf.upward, shelf.begin, shelf.placed, block)
        remove(shelf.by_end, shelf.end, shelf.placed, block)


def remove(order, key, last, block):
    """Remove a block from order[: last + 1], in ascending order of the keys."""
    low = 0
    high = last
    while low < high:  # the first block with such a key
        middle = (low + high) // 2
        if key[order[middle]] < key[block]:
            low = middle + 1
        else:
            high = middle
    while order[low] != block:
        low += 1
    for position in range(low, last):
        order[position] = order[position + 1]


def shift_some(rooms, conflicts, size, shelf, pushed):
    """Draw some blocks; blocks with another free offset move there.

    Where few blocks conflict they are drawn of those in conflict with the one that was placed.
    """
    first = conflicts.start[pushed]
    for _ in range(SHIFTS):
        if shelf.is_sparse == 1:
            block = conflicts.neighbour[
                first + random_below(shelf, conflicts.start[pushed + 1] - first)
            ]
        else:
            block = random_below(shelf, len(shelf.begin))
        if shelf.is_placed[block] == 0 or rooms.is_fixed[block] == 1:
            continue
        near = look(rooms, conflicts, shelf, block)
        offset = free_offset(rooms, shelf, block, near)
        if offset >= 0:
            take(shelf, block)
            put(size, shelf, block, offset)


def eject_above_highest(rooms, shelf):
    """Eject all blocks that are placed above their highest offsets."""
    for block in range(len(shelf.begin)):
        is_free = shelf.is_placed[block] == 1 and rooms.is_fixed[block] == 0
        if is_free and shelf.begin[block] > rooms.highest[block]:
            take(shelf, block)
            shelf.waiting[shelf.waits] = block
            shelf.waits += 1
