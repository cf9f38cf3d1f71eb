"""Beam search for offsets within a capacity.

B blocks are numbered from 0. SearchBlocks and Cliques are those of
planners/kernels/placement_search.py, Conflicts those of planners/kernels/placement.py. A row of the
beam is a partial plan: some blocks are placed, from below. All rows of a level have the same number of
placed blocks. A step places a further block in a row; the best steps are the rows of the next level.
"""

from __future__ import annotations

UNDECIDED = 0  # the limit was reached: call again to continue
FOUND = 1  # `low` holds the offsets
LOST = 2  # no row can be extended; a plan may exist nevertheless

MASK = 2**62 - 1  # of the hashes of rows


class Guide:
    """The numbers that rank rows: the waste of a row, per area of the blocks that it places.

    The unplaced blocks of a clique, stacked, leave some units free below the capacity. The weight of
    the clique is scale / (free units + soft), so a clique with little room counts most. The waste of a
    row is the sum, over its cliques with unplaced blocks, of the weight less `gapless`: (cliques,) the
    weight of the clique in a plan without gaps.

    share: (B,) area of a block, its size times the number of its cliques; all areas add up to about
    `whole_area`. twin: (B,) an earlier interchangeable block, or -1. key: (B,) large random numbers for
    hashes.
    """

    def __init__(self, share, twin, key, gapless, scale, soft, whole_area):
        """Keep these arrays."""
        self.share = share
        self.twin = twin
        self.key = key
        self.gapless = gapless
        self.scale = scale
        self.soft = soft
        self.whole_area = whole_area


class Rows:
    """The rows of a level.

    low: (rows * B,) offset of a placed block, smallest possible offset of an unplaced block. order:
    (rows * B,) of each row first the unplaced blocks, by `low`. share: (rows,) sum of the shares of the
    placed blocks.
    """

    def __init__(self, low, order, share):
        """Keep these arrays."""
        self.low = low
        self.order = order
        self.share = share


class BestSteps:
    """The best steps to the next level, as a binary heap with the worst step on top.

    heap: (width,) steps. worth: (width,) of each step; smaller is better. parent: the row that the step
    extends. raises: number of times that the lowest group of the row was raised before. block: the
    block that is placed. seen: hash table of the rows of kept steps, by the lower bits; its length is a
    power of 2.
    """

    def __init__(self, width, seen, array):
        """Begin empty. array: makes a sequence of the kernel's kind."""
        self.heap = array([0] * width)
        self.worth = array([0] * width)
        self.parent = array([0] * width)
        self.raises = array([0] * width)
        self.block = array([0] * width)
        self.seen = seen
        self.count = 0
        self.has_overflowed = 0  # whether a step was ever dropped


class Beam:
    """The state of a search, from which it continues.

    rows: the `count` rows of this level; next: of the next level. left: number of unplaced blocks.
    kept: the best steps so far.

    The current row is `parent`. low, order: (B,) of the current row after `raised` raises; waste: of
    that row. group: `members` conflicting blocks at the lowest offset; the first `turn` of them were
    tried. try_low, try_order, risen: (B,) scratch, the row with a further block. stamps, stamp:
    marks of the members of the group.
    """

    def __init__(self, low, order, rows, following, kept, array):
        """Begin with the first of these rows, the row of low and order. array: as in BestSteps."""
        blocks = len(low)
        self.rows = rows
        self.next = following
        self.kept = kept
        self.low = low
        self.order = array([0] * blocks)
        self.try_low = array([0] * blocks)
        self.try_order = array([0] * blocks)
        self.risen = array([0] * blocks)
        self.is_placed = array([0] * blocks)
        self.group = array([0] * blocks)
        self.stamps = array([0] * blocks)
        self.stamp = 0
        self.members = 0
        self.turn = 0
        self.raised = 0
        self.waste = 0
        self.count = 1
        self.parent = -1
        self.left = len(order)


def search(part, conflicts, cliques, guide, beam, limit):
    """Search for offsets of at most `highest` each; return FOUND, LOST or UNDECIDED.

    FOUND: the offsets are in `low` of the beam. limit: blocks to try, and groups to raise, in this
    call.

    In a row, the group is the unplaced block of smallest rank at the lowest offset, with the blocks at
    this offset that conflicts connect with it. Either a block of the group is placed there, or the
    group is raised: all of its blocks rest on blocks outside of it. After a group that cannot be raised
    the next row follows, and after the last row the next level. A row is ranked by its waste per placed
    area (see `Guide`).

    Sources: Moffitt, MiniMalloc, ASPLOS 2023 (plans from below); Jackson's rule for one machine with
    release dates (the stacks); Libralesso et al., Tree search for the sequential ordering problem,
    ECAI 2020 (beams that begin again with twice the width, guided by waste per placed area).
    """
    for _ in range(limit):
        if beam.turn < beam.members:
            block = beam.group[beam.turn]
            beam.turn += 1
            # Symmetry breaking: of two identical blocks only the first may be placed first.
            if guide.twin[block] < 0 or beam.is_placed[guide.twin[block]] == 1:
                try_block(part, conflicts, cliques, guide, beam, block)
            continue
        is_raised = False
        if beam.members > 0:
            is_raised = raise_group(part, conflicts, beam)
        if is_raised:
            beam.raised += 1
            enter_row(part, conflicts, cliques, guide, beam)
            if beam.waste < 0 or not is_among_the_best(beam.kept, best_worth(guide, beam)):
                beam.members = 0
        elif beam.parent + 1 < beam.count:
            open_row(beam, beam.parent + 1)
            enter_row(part, conflicts, cliques, guide, beam)
        elif beam.kept.count == 0:
            return LOST
        else:
            climb(part, conflicts, guide, beam)
            if beam.left == 0:
                open_row(beam, 0)
                return FOUND
    return UNDECIDED


def open_row(beam, row):
    """Make a row of this level the current row."""
    blocks = len(beam.low)
    first = row * blocks
    beam.parent = row
    beam.raised = 0
    for block in range(blocks):
        beam.low[block] = beam.rows.low[first + block]
        beam.is_placed[block] = 1
    for k in range(beam.left):
        block = beam.rows.order[first + k]
        beam.order[k] = block
        beam.is_placed[block] = 0


def enter_row(part, conflicts, cliques, guide, beam):
    """Set the group and the waste of the current row."""
    gather(part, conflicts, beam)
    beam.waste = waste_of(part, cliques, guide, beam.order, beam.low, beam.left)


def gather(part, conflicts, beam):
    """Set the group of the current row (see `search`)."""
    bottom = beam.low[beam.order[0]]
    first = beam.order[0]
    k = 1
    while k < beam.left and beam.low[beam.order[k]] == bottom:
        if part.rank[beam.order[k]] < part.rank[first]:
            first = beam.order[k]
        k += 1
    beam.stamp += 1
    beam.stamps[first] = beam.stamp
    beam.group[0] = first
    beam.members = 1
    beam.turn = 0
    done = 0
    # Breadth-first search over conflicts between blocks at the lowest offset.
    while done < beam.members:
        block = beam.group[done]
        done += 1
        for entry in range(conflicts.start[block], conflicts.start[block + 1]):
            neighbour = conflicts.neighbour[entry]
            is_open = beam.is_placed[neighbour] == 0 and beam.stamps[neighbour] != beam.stamp
            if is_open and beam.low[neighbour] == bottom:
                beam.stamps[neighbour] = beam.stamp
                beam.group[beam.members] = neighbour
                beam.members += 1


def raise_group(part, conflicts, beam):
    """Raise the group onto the lowest of the blocks around it; False if a block becomes too high."""
    rest = part.capacity + 1
    for k in range(beam.members):
        block = beam.group[k]
        for entry in range(conflicts.start[block], conflicts.start[block + 1]):
            neighbour = conflicts.neighbour[entry]
            if beam.is_placed[neighbour] == 0 and beam.stamps[neighbour] != beam.stamp:
                rest = min(rest, beam.low[neighbour] + conflicts.lift[entry])
    for k in range(beam.members):
        block = beam.group[k]
        beam.low[block] = rounded_up(rest, part.alignment[block])
        # Above its highest offset the block has no position left: prune the branch.
        if beam.low[block] > part.highest[block]:
            return False
    for k in range(beam.left):
        insert(beam.order, beam.low, k, beam.order[k])
    return True


def rounded_up(number, unit):
    """Return the smallest multiple of the unit that is not below the number."""
    return number if unit == 1 else (number + unit - 1) // unit * unit


def insert(order, low, count, block):
    """Insert a block among this many in ascending order of `low`."""
    hole = count
    while hole > 0 and low[order[hole - 1]] > low[block]:
        order[hole] = order[hole - 1]
        hole -= 1
    order[hole] = block


def worth_of(guide, beam, waste, share):
    """Return the worth of a step from the current row: waste per area, with a block of this share."""
    return waste * guide.whole_area // (beam.rows.share[beam.parent] + share)


def best_worth(guide, beam):
    """Return the worth of a step that places the largest block without further waste."""
    largest = 0
    for k in range(beam.left):
        largest = max(largest, guide.share[beam.order[k]])
    return worth_of(guide, beam, beam.waste, largest)


def is_among_the_best(kept, worth):
    """Whether a step of this worth is to be kept; a step that is not is noted in `has_overflowed`."""
    # A full heap accepts a step only if it is better than the worst step, at the top.
    if kept.count < len(kept.heap) or worth < kept.worth[kept.heap[0]]:
        return True
    kept.has_overflowed = 1
    return False


def try_block(part, conflicts, cliques, guide, beam, block):
    """Place a block of the current row, and keep the step if it is among the best."""
    kept = beam.kept
    share = guide.share[block]
    # A step rarely reduces the waste of its row, so most steps are rejected before their evaluation.
    if not is_among_the_best(kept, worth_of(guide, beam, beam.waste, share)):
        return
    if not stack(part, conflicts, beam, block):
        return
    waste = waste_of(part, cliques, guide, beam.try_order, beam.try_low, beam.left - 1)
    worth = worth_of(guide, beam, waste, share)
    if waste < 0 or not is_among_the_best(kept, worth):
        return
    # A row is identified by a hash that sums over its unplaced blocks, so the order of the blocks
    # does not matter.
    total = 1
    for k in range(beam.left - 1):
        unplaced = beam.try_order[k]
        key = guide.key[unplaced]  # without a sign, so that products may wrap round
        total = (total + (beam.try_low[unplaced] + 1) * key) & MASK
    mark = total
    place = mark & (len(kept.seen) - 1)
    # Duplicate detection by hash in a direct-mapped table: an overwritten entry lets a duplicate
    # pass.
    if kept.seen[place] == mark:
        return
    kept.seen[place] = mark
    step = kept.count
    if kept.count == len(kept.heap):
        step = kept.heap[0]
        kept.has_overflowed = 1
    kept.worth[step] = worth
    kept.parent[step] = beam.parent
    kept.raises[step] = beam.raised
    kept.block[step] = block
    if kept.count == len(kept.heap):
        sink(kept, 0, kept.count)
    else:
        kept.count += 1
        rise(kept, step)


def stack(part, conflicts, beam, block):
    """Write the current row with a block at its smallest offset; False if a block becomes too high."""
    for k in range(beam.left):
        beam.try_low[beam.order[k]] = beam.low[beam.order[k]]
    for entry in range(conflicts.start[block], conflicts.start[block + 1]):
        neighbour = conflicts.neighbour[entry]
        if beam.is_placed[neighbour] == 0:
            least = beam.low[block] + conflicts.rise[entry]
            if least > beam.try_low[neighbour]:
                least = rounded_up(least, part.alignment[neighbour])
                if least > part.highest[neighbour]:
                    return False
                beam.try_low[neighbour] = least
    merge(beam, block)
    return True


def merge(beam, block):
    """Write the order of the unplaced blocks without this one, after some were raised."""
    count = 0
    risen = 0
    for k in range(beam.left):
        unplaced = beam.order[k]
        if beam.try_low[unplaced] != beam.low[unplaced]:
            insert(beam.risen, beam.try_low, risen, unplaced)
            risen += 1
        elif unplaced != block:
            beam.try_order[count] = unplaced
            count += 1
    # Merge the unchanged and the raised blocks from the back, as in merge sort.
    while risen > 0:
        unplaced = beam.risen[risen - 1]
        if count > 0 and beam.try_low[beam.try_order[count - 1]] > beam.try_low[unplaced]:
            count -= 1
            unplaced = beam.try_order[count]
        else:
            risen -= 1
        beam.try_order[count + risen] = unplaced


def waste_of(part, cliques, guide, order, low, count):
    """Return the waste of a row (see `Guide`) plus 1, at least 1; -1 if a clique exceeds the capacity.

    order: the `count` unplaced blocks, by `low`.
    """
    # Jackson's rule: schedule a clique as one machine, with smallest offsets as release dates.
    for clique in range(len(cliques.level)):
        cliques.level[clique] = 0
    for k in range(count):
        block = order[k]
        begin = low[block]
        for entry in range(cliques.start[block], cliques.start[block + 1]):
            clique = cliques.clique[entry]
            cliques.level[clique] = max(cliques.level[clique], begin) + cliques.weight[entry]
    waste = 1
    for clique in range(len(cliques.level)):
        level = cliques.level[clique]
        if level > part.capacity:
            return -1
        # Only cliques with unplaced blocks have a level.
        if level > 0:
            waste += guide.scale // (part.capacity - level + guide.soft) - guide.gapless[clique]
    return max(waste, 1)


def rise(kept, place):
    """Restore the heap after a step was added at this position (sift up)."""
    step = kept.heap[place] = place
    while place > 0:
        above = (place - 1) // 2
        if kept.worth[kept.heap[above]] >= kept.worth[step]:
            break
        kept.heap[place] = kept.heap[above]
        place = above
    kept.heap[place] = step


def sink(kept, place, count):
    """Restore a heap of `count` steps after the step at this position became better (sift down)."""
    step = kept.heap[place]
    while 2 * place + 1 < count:
        below = 2 * place + 1
        if below + 1 < count:
            below += kept.worth[kept.heap[below + 1]] > kept.worth[kept.heap[below]]
        if kept.worth[kept.heap[below]] <= kept.worth[step]:
            break
        kept.heap[place] = kept.heap[below]
        place = below
    kept.heap[place] = step


def climb(part, conflicts, guide, beam):
    """Build the rows of the next level from the kept steps, the best first."""
    kept = beam.kept
    blocks = len(beam.low)
    for last in range(kept.count - 1, 0, -1):  # sort the heap
        step = kept.heap[last]
        kept.heap[last] = kept.heap[0]
        kept.heap[0] = step
        sink(kept, 0, last)
    for row in range(kept.count):
        step = kept.heap[row]
        block = kept.block[step]
        open_row(beam, kept.parent[step])
        # A step stores no row: repeat the raises of its parent, then place its block.
        for _ in range(kept.raises[step]):
            gather(part, conflicts, beam)
            raise_group(part, conflicts, beam)
        stack(part, conflicts, beam, block)
        beam.try_low[block] = beam.low[block]
        first = row * blocks
        for number in range(blocks):
            beam.next.low[first + number] = beam.low[number]
        for k in range(beam.left):
            beam.next.low[first + beam.order[k]] = beam.try_low[beam.order[k]]
        for k in range(beam.left - 1):
            beam.next.order[first + k] = beam.try_order[k]
        beam.next.share[row] = beam.rows.share[kept.parent[step]] + guide.share[block]
    for place in range(len(kept.seen)):
        kept.seen[place] = 0
    # Double buffering: the arrays of the finished level are reused for the level after next.
    rows = beam.rows
    beam.rows = beam.next
    beam.next = rows
    beam.count = kept.count
    beam.parent = -1
    beam.members = 0
    beam.turn = 0
    beam.left -= 1
    kept.count = 0
