"""Exact search of offsets for blocks of memory.

B blocks are numbered from 0; sizes and offsets are whole numbers. The conflicts are those of
planners/kernels/placement.py. Cliques are sets of blocks that all conflict with one another, as blocks
do that live at one time.
"""

from __future__ import annotations

UNDECIDED = 0  # the limit was reached: call again to go on
FOUND = 1  # `low` holds the offsets
NONE = 2  # every placement was excluded

# The numbers that describe one open choice of the search, FRAME of them side by side.
FIRST = 0  # its blocks are order[FIRST:LAST], all connected by conflicts
LAST = 1
PENDING = 2  # order[LAST:PENDING] is left for afterwards, apart from these
OFFSET = 3  # offset, heat and rank of the block placed last, which all others follow
HEAT = 4
RANK = 5
OLD_OFFSET = 6  # the same of the choice above
OLD_HEAT = 7
OLD_RANK = 8
TRAIL = 9  # length of the trail when it was opened
IS_FINAL = 10  # whether what was placed last stands in no one's way
FRAME = 11


class SearchBlocks:
    """The blocks of a search. All (B,) but the capacity.

    highest: largest offset. rank: smaller is tried first, all different. capacity: no clique may
    reach above.
    """

    def __init__(self, size, alignment, highest, rank, capacity):
        """Keep these arrays."""
        self.size = size
        self.alignment = alignment
        self.highest = highest
        self.rank = rank
        self.capacity = capacity


class Cliques:
    """The cliques of blocks: those of block b are `clique`[start[b] : start[b + 1]], `weight` of each.

    level: (cliques,) scratch.
    """

    def __init__(self, start, clique, weight, level):
        """Keep these arrays."""
        self.start = start
        self.clique = clique
        self.weight = weight
        self.level = level


class PlacementTree:
    """How far a search has come; it goes on from there.

    low: (B,) smallest offset, a multiple of the alignment. heat: (B,) larger is tried before any rank;
    if follows_heat it becomes, whenever the rest falls apart, the largest weight of what is left in a
    clique of the block. is_placed: (B,). order, place_of: (B,) a permutation and its inverse. settled,
    queue, seen: (B,) scratch. frames: (FRAME * (B + 2),), open choices, the last one at `depth`.
    tried: placements so far; shifted: blocks passed over in sorting for them. trail: the changes along
    the path from the root; room for len(neighbour) and 2 * B, and more for changes of heat.
    """

    def __init__(self, low, heat, trail, follows_heat, array):
        """Begin with no block placed. array: makes a sequence of the kernel's kind."""
        blocks = len(low)
        frames = [0] * (FRAME * (blocks + 2))
        frames[PENDING] = blocks
        frames[OLD_OFFSET] = -1
        self.low = low
        self.heat = heat
        self.trail = trail
        self.is_placed = array([0] * blocks)
        self.order = array(range(blocks))
        self.place_of = array(range(blocks))
        self.settled = array([0] * blocks)
        self.queue = array([0] * blocks)
        self.seen = array([0] * blocks)
        self.frames = array(frames)
        self.tried = 0
        self.shifted = 0
        self.depth = 0
        self.length = 0  # of the trail
        self.stamp = 0
        self.missing = 0  # blocks that are marked as seen, and not met yet
        self.follows_heat = follows_heat


def search(part, conflicts, cliques, tree, limit):
    """Look for offsets of at most `highest` each; return FOUND, NONE or UNDECIDED.

    limit: placements to try in this call.

    Blocks are placed from below: by offset, then heat, then rank, each as low as those placed before
    allow; every plan can be pushed down to one that comes about so. A choice is not tried
    - beyond the end that some block could still have below it: that block could be pushed there;
    - twice where the placed block conflicts with no other;
    - where a clique does not fit: its blocks in order of their smallest offsets, one upon another. A
      block that was passed over must come to rest on another that is placed from now on.
    What falls apart, as no conflict connects it any more, is searched part by part.

    Source: Moffitt, MiniMalloc, ASPLOS 2023 (canonical solutions, section inference, dominance,
    dynamic decomposition); Jackson's rule for one machine with release dates (the cliques).
    """
    tried = 0
    while tree.depth >= 0:
        frame = tree.depth * FRAME
        if tree.frames[frame + FIRST] == tree.frames[frame + LAST]:
            if not enter_rest(conflicts, cliques, tree):
                return FOUND
            continue
        if tried >= limit:
            return UNDECIDED
        undo(tree, tree.frames[frame + TRAIL])
        chosen = choose(part, tree, frame)
        if chosen < 0:
            tree.depth -= 1
            continue
        tried += 1
        tree.tried += 1
        near = place(part, conflicts, tree, frame, chosen)
        if near < 0:
            continue
        falls_apart = has_fallen_apart(conflicts, tree, frame, near)
        settled = settle(part, conflicts, tree, frame)
        if settled >= 0 and cliques_fit(part, cliques, tree, settled):
            descend(tree, frame, settled, falls_apart)
    return NONE


def enter_rest(conflicts, cliques, tree):
    """All of a part is placed: begin the next part that was left for afterwards; False if none is."""
    depth = tree.depth
    while depth >= 0:
        frame = depth * FRAME
        if tree.frames[frame + LAST] != tree.frames[frame + PENDING]:
            break
        depth -= 1
    if depth < 0:
        return False
    frame = depth * FRAME
    first = tree.frames[frame + LAST]
    tree.stamp += 1
    tree.missing = len(tree.low)
    # Dynamic decomposition (MiniMalloc): collect the next connected component of conflicts.
    tree.queue[0] = tree.order[first]
    reached = reach(conflicts, tree)
    for k in range(reached):
        move(tree, tree.queue[k], first + k)
    tree.frames[frame + FIRST] = first
    tree.frames[frame + LAST] = first + reached
    tree.frames[frame + OFFSET] = tree.frames[frame + OLD_OFFSET]
    tree.frames[frame + HEAT] = tree.frames[frame + OLD_HEAT]
    tree.frames[frame + RANK] = tree.frames[frame + OLD_RANK]
    tree.frames[frame + IS_FINAL] = 0
    room = len(tree.trail) - tree.length - len(conflicts.neighbour) - 2 * len(tree.low)
    if tree.follows_heat and 2 * reached <= room:
        renew_heat(cliques, tree, first, first + reached)
        # A new order begins: at the offset reached, every block may be the next.
        tree.frames[frame + OFFSET] -= 1
        tree.frames[frame + HEAT] = 0
        tree.frames[frame + RANK] = len(tree.low)
    tree.frames[frame + TRAIL] = tree.length
    tree.depth = depth
    return True


def reach(conflicts, tree):
    """Add to the queue what is connected with its first block, and not placed; return its length.

    Ends early when all blocks marked with -stamp are met: `missing` counts down.
    """
    tree.seen[tree.queue[0]] = tree.stamp
    reached = 1
    done = 0
    # Breadth-first search over conflicts between unplaced blocks.
    while done < reached and tree.missing > 0:
        block = tree.queue[done]
        done += 1
        for entry in range(conflicts.start[block], conflicts.start[block + 1]):
            neighbour = conflicts.neighbour[entry]
            if tree.is_placed[neighbour] == 0 and tree.seen[neighbour] != tree.stamp:
                if tree.seen[neighbour] == -tree.stamp:
                    tree.missing -= 1
                tree.seen[neighbour] = tree.stamp
                tree.queue[reached] = neighbour
                reached += 1
    return reached


def move(tree, block, place):
    """Exchange a block with the block at this position of the order."""
    old = tree.place_of[block]
    displaced = tree.order[place]
    tree.order[place] = block
    tree.place_of[block] = place
    tree.order[old] = displaced
    tree.place_of[displaced] = old


def renew_heat(cliques, tree, first, last):
    """Set the heat of order[first:last] by what these blocks weigh together in their cliques."""
    for k in range(len(cliques.level)):
        cliques.level[k] = 0
    for position in range(first, last):
        block = tree.order[position]
        for entry in range(cliques.start[block], cliques.start[block + 1]):
            cliques.level[cliques.clique[entry]] += cliques.weight[entry]
    for position in range(first, last):
        block = tree.order[position]
        most = 0
        for entry in range(cliques.start[block], cliques.start[block + 1]):
            most = max(most, cliques.level[cliques.clique[entry]])
        tree.trail[tree.length] = block + 2 * len(tree.low)
        tree.trail[tree.length + 1] = tree.heat[block]
        tree.length += 2
        # The heat of a block is the weight left in its fullest clique.
        tree.heat[block] = most


def undo(tree, length):
    """Take back what changed since the trail had this length."""
    blocks = len(tree.low)
    at = tree.length
    while at > length:
        at -= 2
        block = tree.trail[at]
        if block < blocks:
            tree.low[block] = tree.trail[at + 1]
        elif block < 2 * blocks:
            tree.is_placed[block - blocks] = 0
        else:
            tree.heat[block - 2 * blocks] = tree.trail[at + 1]
    tree.length = at


def choose(part, tree, frame):
    """Return the next block to try in the choice at this frame, or -1 if all were tried."""
    if tree.frames[frame + IS_FINAL] == 1:
        return -1
    after = tree.frames[frame + OFFSET]
    after_heat = tree.frames[frame + HEAT]
    after_rank = tree.frames[frame + RANK]
    chosen = -1
    bottom = part.capacity + 1
    dominated = part.capacity + 1
    warmth = 0
    for position in range(tree.frames[frame + FIRST], tree.frames[frame + LAST]):
        block = tree.order[position]
        here = tree.low[block]
        heat = tree.heat[block]
        # Dominance: at the lowest possible end of a block or above, that block fits below, so the
        # choice need not be tried.
        if here + part.size[block] < dominated:
            dominated = here + part.size[block]
        if here < after or here > bottom:
            continue
        # Canonical order: only choices after the last one by offset, heat and rank.
        if here == after and (
            heat > after_heat or (heat == after_heat and part.rank[block] <= after_rank)
        ):
            continue
        if (
            here < bottom
            or heat > warmth
            or (heat == warmth and part.rank[block] < part.rank[chosen])
        ):
            chosen = block
            bottom = here
            warmth = heat
    return -1 if bottom >= dominated else chosen


def place(part, conflicts, tree, frame, chosen):
    """Place a block as low as it may lie, and raise and queue the conflicting blocks.

    Returns how many blocks are queued, or -1 if a block would lie too high.
    """
    bottom = tree.low[chosen]
    tree.frames[frame + OFFSET] = bottom
    tree.frames[frame + HEAT] = tree.heat[chosen]
    tree.frames[frame + RANK] = part.rank[chosen]
    tree.is_placed[chosen] = 1
    length = tree.length
    tree.trail[length] = chosen + len(tree.low)
    length += 2
    move(tree, chosen, tree.frames[frame + FIRST])
    fits = bottom <= part.highest[chosen]
    near = 0
    for entry in range(conflicts.start[chosen], conflicts.start[chosen + 1]):
        neighbour = conflicts.neighbour[entry]
        if tree.is_placed[neighbour] == 1:
            continue
        tree.queue[near] = neighbour
        near += 1
        least = bottom + conflicts.rise[entry]
        # Propagation: raise the smallest offset of a conflicting block, with its old value on the
        # trail.
        if least > tree.low[neighbour]:
            unit = part.alignment[neighbour]
            least = (least + unit - 1) // unit * unit
            if least > part.highest[neighbour]:
                fits = False
            tree.trail[length] = neighbour
            tree.trail[length + 1] = tree.low[neighbour]
            length += 2
            tree.low[neighbour] = least
    if near == 0:
        tree.frames[frame + IS_FINAL] = 1
    tree.length = length
    return near if fits else -1


def has_fallen_apart(conflicts, tree, frame, near):
    """Whether the queued neighbours of the block just placed are not all connected any more."""
    tree.stamp += 1
    remaining = tree.frames[frame + LAST] - tree.frames[frame + FIRST] - 1
    if near == 0 or near >= remaining:
        return False
    for k in range(near):
        tree.seen[tree.queue[k]] = -tree.stamp
    tree.missing = near - 1
    reach(conflicts, tree)
    return tree.missing > 0


def settle(part, conflicts, tree, frame):
    """Queue the blocks left to place by where they can begin at the least.

    Returns how many blocks are queued, or -1 if a block would lie too high.
    """
    bottom = tree.frames[frame + OFFSET]
    warmth = tree.frames[frame + HEAT]
    rank = tree.frames[frame + RANK]
    settled = 0
    for position in range(tree.frames[frame + FIRST] + 1, tree.frames[frame + LAST]):
        block = tree.order[position]
        least = tree.low[block]
        heat = tree.heat[block]
        if least < bottom or (
            least == bottom and (heat > warmth or (heat == warmth and part.rank[block] < rank))
        ):
            # A block passed over in the canonical order has to rest on a block that is placed
            # later.
            least = least_rest(part, conflicts, tree, block, bottom)
            if least > part.highest[block]:
                return -1
        tree.settled[block] = least
        hole = settled
        while hole > 0 and tree.settled[tree.queue[hole - 1]] > least:
            tree.queue[hole] = tree.queue[hole - 1]
            hole -= 1
        tree.queue[hole] = block
        tree.shifted += settled - hole
        settled += 1
    return settled


def least_rest(part, conflicts, tree, block, bottom):
    """Return where a block that was passed over can begin: on another that is placed from now on."""
    least = part.highest[block] + 1
    for entry in range(conflicts.start[block], conflicts.start[block + 1]):
        neighbour = conflicts.neighbour[entry]
        if tree.is_placed[neighbour] == 0:
            rest = tree.low[neighbour] if tree.low[neighbour] > bottom else bottom
            if rest + conflicts.lift[entry] < least:
                least = rest + conflicts.lift[entry]
    return least


def cliques_fit(part, cliques, tree, settled):
    """Whether the queued blocks, one upon another, stay within the capacity in every clique."""
    for k in range(len(cliques.level)):
        cliques.level[k] = 0
    for k in range(settled):
        block = tree.queue[k]
        begin = tree.settled[block]
        for entry in range(cliques.start[block], cliques.start[block + 1]):
            clique = cliques.clique[entry]
            level = cliques.level[clique]
            # Jackson's rule: a clique is one machine, and smallest offsets are release dates.
            if begin > level:
                level = begin
            level += cliques.weight[entry]
            if level > part.capacity:
                return False
            cliques.level[clique] = level
    return True


def descend(tree, frame, settled, falls_apart):
    """Open the next choice, among the queued blocks, below the block that was placed."""
    first = tree.frames[frame + FIRST] + 1
    last = tree.frames[frame + LAST]
    # Only the order by smallest offset is kept, so that the next sort has little to do.
    for k in range(settled):
        tree.order[first + k] = tree.queue[k]
        tree.place_of[tree.queue[k]] = first + k
    below = frame + FRAME
    tree.frames[below + FIRST] = first
    tree.frames[below + LAST] = first if falls_apart else last
    tree.frames[below + PENDING] = last
    for k in range(3):  # offset, heat and rank
        tree.frames[below + OFFSET + k] = tree.frames[frame + OFFSET + k]
        tree.frames[below + OLD_OFFSET + k] = tree.frames[frame + OFFSET + k]
    tree.frames[below + TRAIL] = tree.length
    tree.frames[below + IS_FINAL] = 0
    tree.depth += 1
