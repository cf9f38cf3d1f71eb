"""A search for an order of steps whose peak is within a bound, or a proof that there is none.

The steps and tensors are those of planners/kernels/order_states.py. A state is a down-set that some
order reaches within the bound; the search looks for one that holds the steps of the goal. The states
form a tree with further links: a state that is reached twice keeps both parents.
"""

from __future__ import annotations

UNDECIDED = 0  # the limit was reached: call again to go on
FOUND = 1  # `prefix` holds the order, `prefixed` steps
NONE = 2  # no order is within the bound; the least peak is at least `blocked`
FULL = 3  # the arrays hold no more states

KEPT = 0  # a state that no valley replaces
FAILED = 1
REPLACED = 2


class Arrays:
    """Room for states and links.

    bits: (states * words,) steps of each state. key, live, parent, step, begin, end, replacement,
    is_dead, link: (states,) sum of keys; live bytes; the state that it was reached from; the step by
    which, or -1 where the entries begin : end of `pool` are the steps; the state that represents all
    continuations of this one, or -1; whether all states before it are left for another; its first
    further link, or -1. table: states by key, from 1; a power of 2. stack: states to expand.
    link_from, link_step, link_begin, link_end, link_next: (links,) further parents.
    """

    def __init__(
        self, bits, key, live, parent, step, begin, end, replacement, is_dead, link, table, stack,
        pool, link_from, link_step, link_begin, link_end, link_next,
    ):  # fmt: skip
        """Keep these arrays."""
        self.bits = bits
        self.key = key
        self.live = live
        self.parent = parent
        self.step = step
        self.begin = begin
        self.end = end
        self.replacement = replacement
        self.is_dead = is_dead
        self.link = link
        self.table = table
        self.stack = stack
        self.pool = pool
        self.link_from = link_from
        self.link_step = link_step
        self.link_begin = link_begin
        self.link_end = link_end
        self.link_next = link_next


class OrderSearch:
    """How far a search has come; it goes on from there.

    universe: the steps between start and goal. before: (S,) the number of steps before each. word,
    power: (S,) where its bit is. keys: (S,) large random numbers. prefix: (S,) steps to the first
    state; here: (words,) bits of the walk. trail, mark, path: (S,) scratch.
    """

    def __init__(
        self, universe, before, word, power, keys, prefix, here, trail, mark, path, bound, blocked
    ):
        """Begin where no state is stored. blocked: above all peaks."""
        self.universe = universe
        self.before = before
        self.word = word
        self.power = power
        self.keys = keys
        self.prefix = prefix
        self.here = here
        self.trail = trail
        self.mark = mark
        self.path = path
        self.bound = bound
        self.blocked = blocked
        self.prefixed = 0
        self.trailed = 0
        self.states = 0
        self.links = 0
        self.pooled = 0
        self.top = 0
        self.goal = 0
        self.here_key = 0
        self.work = 0
        self.is_full = 0


def begin_search(walk, arrays, search):
    """Take the down-set of the walk as the start, with all steps that are free there."""
    search.goal = walk.count + len(search.universe)
    search.here_key = 0
    for word in range(len(search.here)):
        search.here[word] = 0
    for step in range(len(walk.is_done)):
        if walk.is_done[step] == 1:
            put_bit(search, step)
    search.trailed = 0
    run_free(walk, search)
    for k in range(search.trailed):
        search.prefix[k] = search.trail[k]
    search.prefixed = search.trailed
    search.trailed = 0
    restart(walk, arrays, search)


def search_order(walk, cut, arrays, search, limit):
    """Expand at most this many states; return FOUND, NONE, FULL or UNDECIDED.

    Depth first, the state of least live bytes first. A step is free where it fits the bound and does
    not raise the live bytes: it runs at once. Where a state has no more live bytes than one before it,
    the down-set of least live bytes between the two is reached within the bound, and the continuation
    from it is within the bound if any continuation of the earlier state is: it replaces all of them.
    Where each step outside of a state comes after all steps in it, every order passes it.

    All three hold as live bytes are submodular. Sources: Ahn et al., Ordering chaos, MLSys 2020 (states
    that every order passes); Liu, An application of generalized tree pebbling, SIAM J. Algebraic
    Discrete Methods 8 (1987) (valleys, of trees).
    """
    for _ in range(limit):
        if walk.count == search.goal:
            return FOUND
        if search.is_full == 1:
            return FULL
        if search.top == 0:
            return NONE
        search.top -= 1
        state = arrays.stack[search.top]
        if is_alive(arrays, search, state):
            expand(walk, cut, arrays, search, state)
    return UNDECIDED


def restart(walk, arrays, search):
    """Forget all states but the down-set at hand."""
    mask = len(arrays.table) - 1
    for state in range(search.states):
        place = arrays.key[state] & mask
        while arrays.table[place] != 0:
            arrays.table[place] = 0
            place = (place + 1) & mask
    search.states = 0
    search.links = 0
    search.pooled = 0
    search.top = 0
    new_state(walk, arrays, search, lookup(arrays, search))
    arrays.parent[0] = -1
    arrays.stack[0] = 0
    search.top = 1


def put_bit(search, step):
    """Add a step to the bits at hand."""
    # Zobrist hashing: the key is the XOR of the random keys of the steps.
    search.here[search.word[step]] += search.power[step]
    search.here_key ^= search.keys[step]


def take_bit(search, step):
    """Take a step out of the bits at hand."""
    search.here[search.word[step]] -= search.power[step]
    search.here_key ^= search.keys[step]


def run_on(walk, search, step):
    """Run a step, and write it at the end of the trail."""
    walk.run(step)
    put_bit(search, step)
    search.trail[search.trailed] = step
    search.trailed += 1


def run_free(walk, search):
    """Run all free steps."""
    is_new = True
    while is_new:
        is_new = False
        search.work += len(search.universe)
        for k in range(len(search.universe)):
            step = search.universe[k]
            if walk.is_done[step] == 0 and walk.waiting[step] == 0:
                # Dominance: a step that fits the bound and does not raise the live bytes is
                # executed at once.
                if walk.change(step) <= 0 and fits(walk, search, step):
                    run_on(walk, search, step)
                    is_new = True


def fits(walk, search, step):
    """Whether a ready step is within the bound; else what it costs is written down."""
    bytes_ = walk.cost(step)
    if bytes_ > search.bound:
        search.blocked = min(search.blocked, bytes_)
        return False
    return True


def lookup(arrays, search):
    """Return the position in the table of the down-set at hand, or a free one."""
    mask = len(arrays.table) - 1
    words = len(search.here)
    place = search.here_key & mask
    while arrays.table[place] != 0:
        state = arrays.table[place] - 1
        # Linear probing; bits are compared as well, since different down-sets may share a key.
        if arrays.key[state] == search.here_key:
            word = 0
            while word < words and arrays.bits[state * words + word] == search.here[word]:
                word += 1
            if word == words:
                return place
        place = (place + 1) & mask
    return place


def new_state(walk, arrays, search, place):
    """Store the down-set at hand; return its number."""
    words = len(search.here)
    state = search.states
    search.states += 1
    for word in range(words):
        arrays.bits[state * words + word] = search.here[word]
    arrays.key[state] = search.here_key
    arrays.live[state] = walk.live
    arrays.replacement[state] = -1
    arrays.is_dead[state] = 0
    arrays.link[state] = -1
    arrays.table[place] = state + 1
    if search.states + 1 >= len(arrays.key):
        search.is_full = 1
    return state


def add_link(arrays, search, state, origin, step):
    """Write down a further parent of a state; step -1: by the steps at the end of the pool."""
    link = search.links
    search.links += 1
    arrays.link_from[link] = origin
    arrays.link_step[link] = step
    arrays.link_begin[link] = search.pooled - search.trailed
    arrays.link_end[link] = search.pooled
    arrays.link_next[link] = arrays.link[state]
    arrays.link[state] = link
    if search.links >= len(arrays.link_from):
        search.is_full = 1


def is_alive(arrays, search, state):
    """Whether some parents lead from the first state to this one, none of them replaced by another.

    A parent that no longer does is dropped for a further link.
    """
    at = state
    while at != 0:
        search.work += 1
        if arrays.is_dead[at] == 1:
            return False
        parent = arrays.parent[at]
        # Lazy deletion: a parent with replaced continuations gives way to a further link.
        stand_in = arrays.replacement[parent]
        if arrays.is_dead[parent] == 0 and (stand_in < 0 or stand_in == at):
            at = parent
        else:
            link = arrays.link[at]
            if link < 0:
                arrays.is_dead[at] = 1
            else:
                arrays.parent[at] = arrays.link_from[link]
                arrays.step[at] = arrays.link_step[link]
                arrays.begin[at] = arrays.link_begin[link]
                arrays.end[at] = arrays.link_end[link]
                arrays.link[at] = arrays.link_next[link]
            if arrays.is_dead[at] == 1:
                at = state
    return True


def load_state(walk, arrays, search, state):
    """Take the down-set of a state at hand."""
    words = len(search.here)
    for word in range(words):
        search.here[word] = arrays.bits[state * words + word]
    search.here_key = arrays.key[state]
    search.trailed = 0
    walk.count = 0
    for step in range(len(walk.is_done)):
        walk.waiting[step] = 0
        walk.is_done[step] = 0
        if search.here[search.word[step]] & search.power[step] != 0:
            walk.is_done[step] = 1
            walk.count += 1
    walk.count_live()
    search.work += 2 * (len(walk.is_done) + len(walk.unread))


def expand(walk, cut, arrays, search, state):
    """Store the states after this one, by each ready step that fits the bound."""
    load_state(walk, arrays, search, state)
    bottom = search.top
    for k in range(len(search.universe)):
        step = search.universe[k]
        is_ready = walk.is_done[step] == 0 and walk.waiting[step] == 0
        if is_ready and fits(walk, search, step) and search.is_full == 0:
            run_on(walk, search, step)
            run_free(walk, search)
            if walk.count == search.goal or is_passed_by_all(walk, search):
                begin_at(walk, arrays, search, state)
                return
            place = lookup(arrays, search)
            child = arrays.table[place] - 1
            # Transposition: the down-set was reached before, so this parent becomes a further link.
            if child >= 0 and is_alive(arrays, search, child):
                add_link(arrays, search, child, state, step)
            else:
                child = new_state(walk, arrays, search, place)
                arrays.parent[child] = state
                arrays.step[child] = step
                outcome = replace(walk, cut, arrays, search, child)
                if outcome == REPLACED:
                    return
                push(arrays, search, bottom, child)
                if outcome == FAILED:
                    load_state(walk, arrays, search, state)
            while search.trailed > 0:
                search.trailed -= 1
                take_bit(search, search.trail[search.trailed])
                walk.unrun(search.trail[search.trailed])


def push(arrays, search, bottom, child):
    """Put a state on the stack, above those with more live bytes down to the bottom."""
    place = search.top
    # Insertion sort: the state of least live bytes is on top of the stack and expanded first.
    while place > bottom and arrays.live[arrays.stack[place - 1]] < arrays.live[child]:
        arrays.stack[place] = arrays.stack[place - 1]
        place -= 1
    arrays.stack[place] = child
    search.top += 1


def is_passed_by_all(walk, search):
    """Whether each step that is ready comes after all steps of the down-set at hand."""
    for k in range(len(search.universe)):
        step = search.universe[k]
        if walk.is_done[step] == 0 and walk.waiting[step] == 0:
            # A ready step whose predecessors are the whole down-set comes after all its steps.
            if search.before[step] != walk.count:
                return False
    return True


def begin_at(walk, arrays, search, state):
    """Make the down-set at hand, which the trail leads to from a state, the first state."""
    trailed = search.trailed
    for k in range(trailed):
        search.mark[k] = search.trail[k]
    write_path(walk, arrays, search, 0, state)
    for k in range(search.trailed):
        search.prefix[search.prefixed] = search.trail[k]
        search.prefixed += 1
    search.trailed = 0
    for k in range(trailed):
        step = search.mark[k]
        run_on(walk, search, step)
        search.prefix[search.prefixed] = step
        search.prefixed += 1
    search.trailed = 0
    restart(walk, arrays, search)


def write_path(walk, arrays, search, first, last):
    """Write the steps from one state to a later one on the trail; the later one is at hand then."""
    depth = 0
    at = last
    # Collect the path backwards along parents, then replay it forwards.
    while at != first:
        search.path[depth] = at
        depth += 1
        at = arrays.parent[at]
    load_state(walk, arrays, search, first)
    while depth > 0:
        depth -= 1
        at = search.path[depth]
        if arrays.step[at] >= 0:
            run_on(walk, search, arrays.step[at])
            run_free(walk, search)
        else:
            for entry in range(arrays.begin[at], arrays.end[at]):
                run_on(walk, search, arrays.pool[entry])


def replace(walk, cut, arrays, search, state):
    """Let down-sets of least live bytes stand for what is before a state, where it has no more.

    REPLACED: the last of them is on the stack, or the search has begun again from it. FAILED: the walk
    is elsewhere now. KEPT: it is not.
    """
    outcome = KEPT
    origin = highest_above(arrays, search, state)
    while origin >= 0 and search.is_full == 0:
        valley = valley_between(walk, cut, arrays, search, origin, state)
        if valley < 0:
            return max(outcome, FAILED)
        outcome = REPLACED
        if valley == 0:
            return outcome
        state = valley
        origin = highest_above(arrays, search, state)
    return outcome


def highest_above(arrays, search, state):
    """Return the earliest state before this one with as many live bytes or more, or -1."""
    chosen = -1
    at = state
    while at != 0:
        search.work += 1
        parent = arrays.parent[at]
        if arrays.replacement[parent] < 0 and arrays.live[parent] >= arrays.live[state]:
            chosen = parent
        at = parent
    return chosen


def valley_between(walk, cut, arrays, search, origin, state):
    """Replace all continuations of `origin` by the valley before the state; return its state.

    0 where the search has begun again from it; -1 where its steps do not fit the bound, as can be
    where a step no longer overwrites a tensor.
    """
    write_path(walk, arrays, search, origin, state)
    length = search.trailed
    for step in range(len(walk.is_done)):
        search.mark[step] = 2 if walk.is_done[step] == 0 else 0
    for k in range(length):
        search.path[k] = search.trail[k]
        search.mark[search.trail[k]] = 1
    # Minimum cut between the two down-sets: the valley of least live bytes.
    cut.least_between(search.mark)
    load_state(walk, arrays, search, origin)
    for k in range(length):
        step = search.path[k]
        if search.mark[step] == 0:
            if not fits(walk, search, step):
                return -1
            run_on(walk, search, step)
    if origin == 0:
        for k in range(search.trailed):
            search.prefix[search.prefixed] = search.trail[k]
            search.prefixed += 1
        search.trailed = 0
        restart(walk, arrays, search)
        return 0
    if search.pooled + search.trailed > len(arrays.pool):
        search.is_full = 1
        return -1
    for k in range(search.trailed):
        arrays.pool[search.pooled] = search.trail[k]
        search.pooled += 1
    place = lookup(arrays, search)
    valley = arrays.table[place] - 1
    if valley >= 0 and is_alive(arrays, search, valley):
        add_link(arrays, search, valley, origin, -1)
        if valley == state and (search.top == 0 or arrays.stack[search.top - 1] != state):
            arrays.stack[search.top] = state
            search.top += 1
    else:
        valley = new_state(walk, arrays, search, place)
        arrays.parent[valley] = origin
        arrays.step[valley] = -1
        arrays.begin[valley] = search.pooled - search.trailed
        arrays.end[valley] = search.pooled
        arrays.stack[search.top] = valley
        search.top += 1
    arrays.replacement[origin] = valley
    is_alive(arrays, search, valley)
    return valley
