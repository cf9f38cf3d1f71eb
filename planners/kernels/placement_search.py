"""Exact search of offsets for blocks of memory: depth-first search over canonical plans.

B blocks are numbered from 0; sizes and offsets are integers. The conflicts are those of
planners/kernels/placement.py. A clique is a set of blocks in which each pair conflicts, such as the
blocks that are live at one time. In a canonical plan no block can be lowered: each block is at offset 0
or rests on another block. Such a plan is built from below, by increasing offsets. Blocks at the same
offset are placed in order of their heat (see PlacementTree), then of their rank.
"""

from __future__ import annotations

UNDECIDED = 0  # the limit was reached: call again to continue
FOUND = 1  # `low` holds the offsets
NONE = 2  # every placement was excluded

# Fields of a frame, a node of the depth-first search: the choice of the block that is placed next.
FIRST = 0  # the choice is among order[FIRST:LAST], a component connected by conflicts
LAST = 1
PENDING = 2  # order[LAST:PENDING] are the other components, which are searched afterwards
OFFSET = 3  # offset, heat and rank of the last choice of this node; later choices follow it
HEAT = 4
RANK = 5
OLD_OFFSET = 6  # offset, heat and rank of the choice of the parent node
OLD_HEAT = 7
OLD_RANK = 8
TRAIL = 9  # length of the undo trail when the node was opened
IS_FINAL = 10  # 1 if the last choice conflicts with no unplaced block: no other choice is needed
FRAME = 11  # the number of fields


class SearchBlocks:
    """The blocks of a search. All (B,) except the capacity.

    highest: largest permitted offset. rank: blocks of smaller rank are tried first; all ranks differ.
    capacity: the height that no clique may exceed.
    """

    def __init__(self, size, alignment, highest, rank, capacity):
        """Keep these arrays."""
        self.size = size
        self.alignment = alignment
        self.highest = highest
        self.rank = rank
        self.capacity = capacity


class Cliques:
    """The cliques of each block: entries start[b] : start[b + 1] of `clique` for block b.

    weight: of each entry, the height that the block adds to a stack of the clique. level: (cliques,)
    scratch, the height of such a stack.
    """

    def __init__(self, start, clique, weight, level):
        """Keep these arrays."""
        self.start = start
        self.clique = clique
        self.weight = weight
        self.level = level


class PlacementTree:
    """The state of a search, from which it continues.

    low: (B,) offset of a placed block; smallest possible offset of an unplaced block.
    heat: (B,) blocks with more heat are tried first, then by rank. If follows_heat is 1, heat is
        renewed whenever the unplaced blocks split into components: it is then the largest weight of the
        unplaced blocks in a clique of the block.
    is_placed: (B,). order, place_of: (B,) a permutation of the blocks and its inverse. Placed blocks
        are first; the blocks of a frame are order[FIRST:LAST].
    frames: (FRAME * (B + 2),) frames by depth; `depth` is that of the current frame.
    queue, settled, seen: (B,) scratch: listed blocks; the offset of each in a canonical plan; marks of
        the present graph search.
    tried: placements so far. shifted: blocks passed over in sorting.
    trail: pairs to undo the changes on the path from the root, `length` numbers so far. A pair is a
        code and an old value: code b is `low` of block b, B + b is `is_placed`, 2 * B + b is `heat`.
        The trail has room for len(neighbour) + 2 * B numbers, and more for changes of heat.
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
        self.stamp = 0  # of the present graph search; marks blocks in `seen`
        self.missing = 0  # blocks marked by -stamp that the graph search has not reached yet
        self.follows_heat = follows_heat


def search(part, conflicts, cliques, tree, limit):
    """Search for offsets of at most `highest` each; return FOUND, NONE or UNDECIDED.

    limit: placements to try in this call.

    Each block is placed at the smallest offset that the placed blocks permit. Every plan can be lowered
    to a canonical plan, so the search is complete. Four rules prune:
    - Dominance: no block is placed at or above an offset below which another unplaced block still fits.
    - If the placed block conflicts with no unplaced block, no other choice of the node is tried.
    - Cliques: the unplaced blocks of a clique, stacked in order of their smallest offsets, have to fit
      the capacity. A block that was passed over has to rest on a block that is placed later.
    - Decomposition: components of unplaced blocks that no conflict connects are searched separately.

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
    """Open a frame for the next pending component; False if there is none, so the plan is complete."""
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
    """Queue the unplaced blocks that are connected with the first queued block; return their number.

    The search ends as soon as all blocks marked by -stamp are reached, which `missing` counts down.
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
    """Set the heat of each block of order[first:last] to the weight of these blocks in its cliques."""
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
    """Undo the changes since the trail had this length."""
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
    """Return the next block to try in the choice at this frame, or -1 if all were tried.

    The choices are ordered by smallest offset, then by decreasing heat, then by rank. The next block is
    the first after the last choice of the frame, if it is not dominated.
    """
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
    """Place a block at its smallest offset, and raise and queue the unplaced conflicting blocks.

    Returns the number of queued blocks, or -1 if a block exceeds its highest offset.
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
    """Whether the queued neighbours of the block just placed are in several components now."""
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
    """Queue the unplaced blocks of a frame by their smallest offset in a canonical plan.

    That is the smallest offset that the placed blocks permit, unless the block precedes the last choice
    in the order of choices: it was passed over, and rests on a block that is placed later.

    Returns the number of queued blocks, or -1 if a block exceeds its highest offset.
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
    """Return the smallest offset of a block that was passed over: on a block that is placed later."""
    least = part.highest[block] + 1
    for entry in range(conflicts.start[block], conflicts.start[block + 1]):
        neighbour = conflicts.neighbour[entry]
        if tree.is_placed[neighbour] == 0:
            rest = tree.low[neighbour] if tree.low[neighbour] > bottom else bottom
            if rest + conflicts.lift[entry] < least:
                least = rest + conflicts.lift[entry]
    return least


def cliques_fit(part, cliques, tree, settled):
    """Whether the queued blocks, stacked in their order, fit the capacity in each clique."""
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
    """Open the child frame of a placement: the choice among the queued blocks."""
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
