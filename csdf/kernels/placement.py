"""Offsets for blocks of memory: which conflict, a place for each in turn, and exact search.

B blocks are numbered from 0; times, sizes and offsets are whole numbers. The conflicts of block b
are entries neighbour_start[b] : neighbour_start[b + 1] of `neighbour`; beside each stand `rise`, how
far above the offset of b the neighbour must begin if it lies higher, and `lift`, how far above the
neighbour b must begin in the other case. Cliques are sets of blocks that all conflict with one
another, as those that live at one time: those of b are entries member_start[b] : member_start[b + 1]
of `clique`, and `weight` is what b takes of each.
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

DEPTH = 0  # numbers kept between calls
TRAIL_LENGTH = 1
STAMP = 2
FOLLOWS_HEAT = 3
STATE = 4


def overlaps(start, end, size, order, active, fill, neighbour, rise, lift):
    """Write the conflicts between lifetimes that meet, in both directions.

    start, end: (B,) times. size: (B,). order: (B,) by start. active: (B,) scratch. fill: (B,) where
    the next neighbour of each block goes. neighbour, rise, lift: out. Time: O(conflicts).
    """
    actives = 0
    for position in range(len(order)):
        block = order[position]
        kept = 0
        for k in range(actives):
            other = active[k]
            if end[other] <= start[block]:
                continue
            active[kept] = other
            kept += 1
            here = fill[block]
            there = fill[other]
            neighbour[here] = other
            rise[here] = size[block]
            lift[here] = size[other]
            neighbour[there] = block
            rise[there] = size[other]
            lift[there] = size[block]
            fill[block] = here + 1
            fill[other] = there + 1
        active[kept] = block
        actives = kept + 1


def lowest_fit(
    order,
    alignment,
    lowest,
    neighbour_start,
    neighbour,
    rise,
    lift,
    is_placed,
    offset,
    gap_begin,
    gap_end,
):
    """Place the blocks in this order, each as low as those before it leave room.

    order: (P,) blocks. alignment, lowest: (B,), the first multiple allowed. is_placed: (B,) 0 or 1,
    offset: (B,); what is placed stays. gap_begin, gap_end: scratch for the conflicts of one block.
    """
    for position in range(len(order)):
        block = order[position]
        taken = 0
        for entry in range(neighbour_start[block], neighbour_start[block + 1]):
            other = neighbour[entry]
            if is_placed[other] == 1:
                gap_begin[taken] = offset[other] - rise[entry]
                gap_end[taken] = offset[other] + lift[entry]
                taken += 1
        step = taken // 2
        while step > 0:  # Shell sort by begin
            for k in range(step, taken):
                begin = gap_begin[k]
                finish = gap_end[k]
                hole = k
                while hole >= step and gap_begin[hole - step] > begin:
                    gap_begin[hole] = gap_begin[hole - step]
                    gap_end[hole] = gap_end[hole - step]
                    hole -= step
                gap_begin[hole] = begin
                gap_end[hole] = finish
            step //= 2
        place = lowest[block]
        for k in range(taken):
            if place <= gap_begin[k]:
                break
            if place < gap_end[k]:
                unit = alignment[block]
                place = (gap_end[k] + unit - 1) // unit * unit
        offset[block] = place
        is_placed[block] = 1


def search(
    size,
    alignment,
    highest,
    rank,
    neighbour_start,
    neighbour,
    rise,
    lift,
    member_start,
    clique,
    weight,
    capacity,
    low,
    heat,
    is_placed,
    order,
    place_of,
    settled,
    queue,
    seen,
    level,
    frames,
    trail,
    state,
    limit,
):
    """Look for offsets of at most `highest` each; return FOUND, NONE or UNDECIDED.

    size, alignment: (B,). highest: (B,) largest offset. rank: (B,) smaller is tried first, all
    different. capacity: no clique may reach above. low: (B,) smallest offset, a multiple of the
    alignment; it changes. heat: (B,) larger is tried before any rank; where state[FOLLOWS_HEAT] is 1
    it becomes, whenever the rest falls apart, the largest weight of what is left in a clique of the
    block. is_placed: (B,) 0. order, place_of: (B,) a permutation and its inverse. settled, queue,
    seen: (B,) scratch, seen 0. level: (cliques,) scratch. frames: (FRAME * (B + 2),), the first with
    PENDING = B and OLD_OFFSET = -1. trail: what changes on the way down; room for len(neighbour) and
    2 * B, and more for changes of heat. state: (STATE,). limit: placements to try in this call.

    Blocks are placed from below: by offset, then heat, then rank, each as low as those placed before
    allow; every plan can be pushed down to one that comes about so. A choice is not tried
    - beyond the end that some block could still have below it: that block could be pushed there;
    - twice where the block placed stands in no one's way;
    - where a clique does not fit: its blocks in order of their smallest offsets, one upon another. A
      block that was passed over must come to rest on another that is placed from now on.
    What falls apart, as no conflict connects it any more, is searched part by part.

    One function, as a translated kernel calls no other.
    Source: Moffitt, MiniMalloc, ASPLOS 2023 (canonical solutions, section inference, dominance,
    dynamic decomposition); Jackson's rule for one machine with release dates (the cliques).
    """
    blocks = len(rank)
    tried = 0
    while True:
        depth = state[DEPTH]
        if depth < 0:
            return NONE
        frame = depth * FRAME
        first = frames[frame + FIRST]
        last = frames[frame + LAST]
        if first == last:  # all placed: the next part that was left for afterwards
            while depth >= 0 and frames[depth * FRAME + LAST] == frames[depth * FRAME + PENDING]:
                depth -= 1
            if depth < 0:
                return FOUND
            frame = depth * FRAME
            first = frames[frame + LAST]
            last = frames[frame + PENDING]
            state[STAMP] += 1
            stamp = state[STAMP]
            queue[0] = order[first]
            seen[order[first]] = stamp
            found = 1
            done = 0
            while done < found:
                block = queue[done]
                done += 1
                for entry in range(neighbour_start[block], neighbour_start[block + 1]):
                    other = neighbour[entry]
                    if is_placed[other] == 0 and seen[other] != stamp:
                        seen[other] = stamp
                        queue[found] = other
                        found += 1
            for k in range(found):
                block = queue[k]
                here = place_of[block]
                other = order[first + k]
                order[first + k] = block
                place_of[block] = first + k
                order[here] = other
                place_of[other] = here
            frames[frame + FIRST] = first
            frames[frame + LAST] = first + found
            frames[frame + OFFSET] = frames[frame + OLD_OFFSET]
            frames[frame + HEAT] = frames[frame + OLD_HEAT]
            frames[frame + RANK] = frames[frame + OLD_RANK]
            frames[frame + IS_FINAL] = 0
            room = len(trail) - state[TRAIL_LENGTH] - len(neighbour) - 2 * blocks
            if state[FOLLOWS_HEAT] == 1 and 2 * found <= room:
                for k in range(len(level)):
                    level[k] = 0
                for position in range(first, first + found):
                    block = order[position]
                    for entry in range(member_start[block], member_start[block + 1]):
                        level[clique[entry]] += weight[entry]
                length = state[TRAIL_LENGTH]
                for position in range(first, first + found):
                    block = order[position]
                    most = 0
                    for entry in range(member_start[block], member_start[block + 1]):
                        if level[clique[entry]] > most:
                            most = level[clique[entry]]
                    trail[length] = block + 2 * blocks
                    trail[length + 1] = heat[block]
                    length += 2
                    heat[block] = most
                state[TRAIL_LENGTH] = length
                # A new order begins: at the offset reached, every block may be the next.
                frames[frame + OFFSET] -= 1
                frames[frame + HEAT] = 0
                frames[frame + RANK] = blocks
            frames[frame + TRAIL] = state[TRAIL_LENGTH]
            state[DEPTH] = depth
            continue

        if tried >= limit:
            return UNDECIDED
        length = state[TRAIL_LENGTH]
        while length > frames[frame + TRAIL]:
            length -= 2
            block = trail[length]
            if block < blocks:
                low[block] = trail[length + 1]
            elif block < 2 * blocks:
                is_placed[block - blocks] = 0
            else:
                heat[block - 2 * blocks] = trail[length + 1]
        state[TRAIL_LENGTH] = length

        chosen = -1
        if frames[frame + IS_FINAL] == 0:
            after = frames[frame + OFFSET]
            after_heat = frames[frame + HEAT]
            after_rank = frames[frame + RANK]
            bottom = capacity + 1
            warmth = 0
            dominated = capacity + 1
            for position in range(first, last):
                block = order[position]
                here = low[block]
                if here + size[block] < dominated:
                    dominated = here + size[block]
                if here < after or here > bottom:
                    continue
                if here == after and (
                    heat[block] > after_heat
                    or (heat[block] == after_heat and rank[block] <= after_rank)
                ):
                    continue
                if (
                    here < bottom
                    or heat[block] > warmth
                    or (heat[block] == warmth and rank[block] < rank[chosen])
                ):
                    chosen = block
                    bottom = here
                    warmth = heat[block]
            if bottom >= dominated:
                chosen = -1
        if chosen < 0:
            state[DEPTH] = depth - 1
            continue

        tried += 1
        frames[frame + OFFSET] = bottom
        frames[frame + HEAT] = warmth
        frames[frame + RANK] = rank[chosen]
        is_placed[chosen] = 1
        trail[length] = chosen + blocks
        length += 2
        here = place_of[chosen]
        other = order[first]
        order[first] = chosen
        place_of[chosen] = first
        order[here] = other
        place_of[other] = here
        fits = bottom <= highest[chosen]
        near = 0
        for entry in range(neighbour_start[chosen], neighbour_start[chosen + 1]):
            other = neighbour[entry]
            if is_placed[other] == 1:
                continue
            queue[near] = other
            near += 1
            least = bottom + rise[entry]
            if least > low[other]:
                unit = alignment[other]
                least = (least + unit - 1) // unit * unit
                if least > highest[other]:
                    fits = False
                trail[length] = other
                trail[length + 1] = low[other]
                length += 2
                low[other] = least
        if near == 0:
            frames[frame + IS_FINAL] = 1
        state[TRAIL_LENGTH] = length
        if not fits:
            continue

        state[STAMP] += 1
        stamp = state[STAMP]
        left = near - 1
        found = 0
        if near > 0 and near < last - first - 1:  # are these still connected?
            for k in range(near):
                seen[queue[k]] = -stamp
            seen[queue[0]] = stamp
            found = 1
            done = 0
            while done < found and left > 0:
                block = queue[done]
                done += 1
                for entry in range(neighbour_start[block], neighbour_start[block + 1]):
                    other = neighbour[entry]
                    if is_placed[other] == 0 and seen[other] != stamp:
                        if seen[other] == -stamp:
                            left -= 1
                        seen[other] = stamp
                        queue[found] = other
                        found += 1
        falls_apart = found > 0 and left > 0

        for k in range(len(level)):
            level[k] = 0
        sorted_blocks = 0
        for position in range(first + 1, last):
            block = order[position]
            least = low[block]
            if least < bottom or (
                least == bottom
                and (heat[block] > warmth or (heat[block] == warmth and rank[block] < rank[chosen]))
            ):
                # Passed over: it comes to rest on another that is placed from now on.
                least = highest[block] + 1
                for entry in range(neighbour_start[block], neighbour_start[block + 1]):
                    other = neighbour[entry]
                    if is_placed[other] == 0:
                        rest = low[other] if low[other] > bottom else bottom
                        if rest + lift[entry] < least:
                            least = rest + lift[entry]
                if least > highest[block]:
                    fits = False
                    break
            settled[block] = least
            hole = sorted_blocks
            while hole > 0 and settled[queue[hole - 1]] > least:
                queue[hole] = queue[hole - 1]
                hole -= 1
            queue[hole] = block
            sorted_blocks += 1
        if not fits:
            continue
        for k in range(sorted_blocks):
            block = queue[k]
            for entry in range(member_start[block], member_start[block + 1]):
                one = clique[entry]
                if settled[block] > level[one]:
                    level[one] = settled[block]
                level[one] += weight[entry]
                if level[one] > capacity:
                    fits = False
                    break
            if not fits:
                break
        if not fits:
            continue

        # Only the order by smallest offset is kept, so that the next sort has little to do.
        for k in range(sorted_blocks):
            order[first + 1 + k] = queue[k]
            place_of[queue[k]] = first + 1 + k
        depth += 1
        below = depth * FRAME
        frames[below + FIRST] = first + 1
        frames[below + LAST] = first + 1 if falls_apart else last
        frames[below + PENDING] = last
        frames[below + OFFSET] = bottom
        frames[below + HEAT] = warmth
        frames[below + RANK] = rank[chosen]
        frames[below + OLD_OFFSET] = bottom
        frames[below + OLD_HEAT] = warmth
        frames[below + OLD_RANK] = rank[chosen]
        frames[below + TRAIL] = length
        frames[below + IS_FINAL] = 0
        state[DEPTH] = depth
