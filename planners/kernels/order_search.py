"""Depth-first search over down-sets for an execution order whose peak is within a bound.

A down-set is a set of executed steps that contains all predecessors of its steps. A state of the search
is a down-set that some order reaches without exceeding the bound; the search ends at the down-set of
the goal, or proves that no order reaches it. The steps, their tensors, the flow network, and the walk,
which executes and reverts single steps, are those of planners/kernels/order_states.py.

States form a tree: each has a parent and the steps that lead from it. A state that is reached again
stores the further parent as a link, which replaces the first parent if that is pruned later.

The present down-set is in `search.here`, a bit per step; `search.trail` lists the steps executed since
the state that is being expanded. Words have 62 bits: step 65 is bit 3 of word 1, so word[65] = 1 and
power[65] = 8.
"""

from __future__ import annotations

# Answers of `search_order`.
UNDECIDED = 0  # the limit was reached: call again to continue
FOUND = 1  # the order is the first `prefixed` steps of `prefix`
NONE = 2  # no order is within the bound; the least peak is at least `blocked`
FULL = 3  # the tree has no memory for more states

# Answers of `replace_by_valleys`.
KEPT = 0  # no valley replaces the state
FAILED = 1  # as KEPT, but the walk is at another down-set now
REPLACED = 2  # a valley replaces the state and is on the stack, or is the new first state


class StateTree:
    """Stored states with their parents and links, and the stack of states to expand.

    S states of W words, L links; a number of -1 means none.

    bits: (S * W,) bits of the down-set of each state
    key: (S,) XOR of the keys of its steps
    live: (S,) live bytes after its steps
    parent: (S,) the state from which it was reached
    step: (S,) the step that leads from the parent, all free steps following; -1 if the steps are
        pool[begin:end]
    begin, end: (S,) bounds in `pool`
    replacement: (S,) the state that represents all continuations of this state, or -1
    is_dead: (S,) 1 if each parent was pruned or replaced by another state
    link: (S,) its first link, or -1
    table: (a power of 2,) hash table: the number of a state plus 1, or 0
    stack: (S,) states to expand, the next at the end
    pool: steps of transitions that execute several chosen steps
    link_from, link_step, link_begin, link_end: (L,) as parent, step, begin and end of a state
    link_next: (L,) the next link of the same state, or -1
    """

    def __init__(
        self, bits, key, live, parent, step, begin, end, replacement, is_dead, link, table, stack,
        pool, link_from, link_step, link_begin, link_end, link_next,
    ):  # fmt: skip
        """Keep these arrays; table and stack are zero."""
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
    """The state of a search between two calls. N steps, W words.

    universe: the steps between start and goal
    before: (N,) the number of predecessors of each step, direct and indirect
    word, power: (N,) the word of its bit, and the value of its bit in that word
    keys: (N,) random numbers for Zobrist hashing
    prefix: (N,) steps that lead to the first state, `prefixed` in number
    here: (W,) bits of the present down-set, and here_key its key
    trail: (N,) steps since the expanded state, `trailed` in number
    mark, path: (N,) scratch
    bound: bytes that no peak may exceed
    blocked: the least peak above the bound that a step would have had
    states, links, pooled, top: used entries of the states, links, pool and stack
    goal: number of steps of the down-set at which the search ends
    work: visited steps, states and tensors, the effort so far
    """

    def __init__(
        self, universe, before, word, power, keys, prefix, here, trail, mark, path, bound, blocked
    ):
        """Begin without states. blocked: a number above all peaks."""
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


def begin_search(walk, tree, search):
    """Make the down-set of the walk, extended by all free steps, the first state."""
    search.goal = walk.count + len(search.universe)
    search.here_key = 0
    for word in range(len(search.here)):
        search.here[word] = 0
    for step in range(len(walk.is_done)):
        if walk.is_done[step] == 1:
            add_bit(search, step)
    search.trailed = 0
    run_free(walk, search)
    move_trail_to_prefix(search)
    restart(walk, tree, search)


def search_order(walk, cut, tree, search, limit):
    """Expand at most this many states; return FOUND, NONE, FULL or UNDECIDED.

    The child with the least live bytes is expanded first. Three rules prune:

    1. Free steps. A step that fits the bound and does not raise the live bytes is executed at once.
    2. Valleys. If a state has at most the live bytes of an ancestor, take the down-set with the least
       live bytes between the two. It is reached within the bound, and some order from it is within the
       bound if any order from the ancestor is: it replaces all continuations of the ancestor.
    3. Bottlenecks. If every step outside a state has all its steps as predecessors, every order passes
       through the state: the search restarts from it.

    The rules hold because live bytes are submodular over down-sets. Sources: rule 2 for trees, Liu, An
    application of generalized tree pebbling to sparse matrix factorization, SIAM J. Algebraic Discrete
    Methods 8 (1987); rule 3, Ahn et al., Ordering chaos, MLSys 2020.
    """
    for _ in range(limit):
        if walk.count == search.goal:
            return FOUND
        if search.is_full == 1:
            return FULL
        if search.top == 0:
            return NONE
        search.top -= 1
        state = tree.stack[search.top]
        if is_alive(tree, search, state):
            expand(walk, cut, tree, search, state)
    return UNDECIDED


def restart(walk, tree, search):
    """Delete all states; the present down-set becomes the only one."""
    mask = len(tree.table) - 1
    for state in range(search.states):
        slot = tree.key[state] & mask
        while tree.table[slot] != 0:
            tree.table[slot] = 0
            slot = (slot + 1) & mask
    search.states = 0
    search.links = 0
    search.pooled = 0
    search.top = 0
    new_state(walk, tree, search, lookup(tree, search))
    tree.parent[0] = -1
    tree.stack[0] = 0
    search.top = 1


def add_bit(search, step):
    """Add a step to the present down-set."""
    # Zobrist hashing: the key is the XOR of the random keys of the steps.
    search.here[search.word[step]] += search.power[step]
    search.here_key ^= search.keys[step]


def remove_bit(search, step):
    """Remove a step from the present down-set."""
    search.here[search.word[step]] -= search.power[step]
    search.here_key ^= search.keys[step]


def run_on(walk, search, step):
    """Execute a step and append it to the trail."""
    walk.run(step)
    add_bit(search, step)
    search.trail[search.trailed] = step
    search.trailed += 1


def run_free(walk, search):
    """Execute free steps until none is left (rule 1)."""
    is_new = True
    while is_new:
        is_new = False
        search.work += len(search.universe)
        for k in range(len(search.universe)):
            step = search.universe[k]
            if walk.is_done[step] == 0 and walk.waiting[step] == 0:
                if walk.change(step) <= 0 and fits(walk, search, step):
                    run_on(walk, search, step)
                    is_new = True


def fits(walk, search, step):
    """Whether the peak of a ready step is within the bound; else it lowers `blocked`."""
    bytes_ = walk.cost(step)
    if bytes_ > search.bound:
        search.blocked = min(search.blocked, bytes_)
        return False
    return True


def lookup(tree, search):
    """Return the index in the table of the present down-set, or the free index where it belongs."""
    mask = len(tree.table) - 1
    words = len(search.here)
    slot = search.here_key & mask
    while tree.table[slot] != 0:
        state = tree.table[slot] - 1
        # Linear probing; bits are compared as well, since different down-sets may share a key.
        if tree.key[state] == search.here_key:
            word = 0
            while word < words and tree.bits[state * words + word] == search.here[word]:
                word += 1
            if word == words:
                return slot
        slot = (slot + 1) & mask
    return slot


def new_state(walk, tree, search, slot):
    """Store the present down-set as a state; return its number."""
    words = len(search.here)
    state = search.states
    search.states += 1
    for word in range(words):
        tree.bits[state * words + word] = search.here[word]
    tree.key[state] = search.here_key
    tree.live[state] = walk.live
    tree.replacement[state] = -1
    tree.is_dead[state] = 0
    tree.link[state] = -1
    tree.table[slot] = state + 1
    if search.states + 1 >= len(tree.key):
        search.is_full = 1
    return state


def add_link(tree, search, state, origin, step):
    """Store a further parent of a state. A step of -1: by the last `trailed` steps of the pool."""
    link = search.links
    search.links += 1
    tree.link_from[link] = origin
    tree.link_step[link] = step
    tree.link_begin[link] = search.pooled - search.trailed
    tree.link_end[link] = search.pooled
    tree.link_next[link] = tree.link[state]
    tree.link[state] = link
    if search.links >= len(tree.link_from):
        search.is_full = 1


def is_alive(tree, search, state):
    """Whether the first state leads to this one without a replaced or dead state in between.

    A parent that is dead or replaced gives way to the next link; without a link the state is dead.
    """
    at = state
    while at != 0:
        search.work += 1
        if tree.is_dead[at] == 1:
            return False
        parent = tree.parent[at]
        # Lazy deletion: links are examined only when a state is used.
        stand_in = tree.replacement[parent]
        if tree.is_dead[parent] == 0 and (stand_in < 0 or stand_in == at):
            at = parent
        else:
            link = tree.link[at]
            if link < 0:
                tree.is_dead[at] = 1
                at = state
            else:
                tree.parent[at] = tree.link_from[link]
                tree.step[at] = tree.link_step[link]
                tree.begin[at] = tree.link_begin[link]
                tree.end[at] = tree.link_end[link]
                tree.link[at] = tree.link_next[link]
    return True


def load_state(walk, tree, search, state):
    """Make the down-set of a state the present one, with an empty trail."""
    words = len(search.here)
    for word in range(words):
        search.here[word] = tree.bits[state * words + word]
    search.here_key = tree.key[state]
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


def expand(walk, cut, tree, search, state):
    """Store the children of a state, one for each ready step that fits the bound."""
    load_state(walk, tree, search, state)
    bottom = search.top
    for k in range(len(search.universe)):
        step = search.universe[k]
        is_ready = walk.is_done[step] == 0 and walk.waiting[step] == 0
        if is_ready and fits(walk, search, step) and search.is_full == 0:
            run_on(walk, search, step)
            run_free(walk, search)
            if walk.count == search.goal or is_passed_by_all(walk, search):
                restart_after_trail(walk, tree, search, state)
                return
            slot = lookup(tree, search)
            child = tree.table[slot] - 1
            # Transposition: the down-set was reached before, so this parent becomes a further link.
            if child >= 0 and is_alive(tree, search, child):
                add_link(tree, search, child, state, step)
            else:
                child = new_state(walk, tree, search, slot)
                tree.parent[child] = state
                tree.step[child] = step
                outcome = replace_by_valleys(walk, cut, tree, search, child)
                if outcome == REPLACED:
                    return
                push(tree, search, bottom, child)
                if outcome == FAILED:
                    load_state(walk, tree, search, state)
            while search.trailed > 0:
                search.trailed -= 1
                remove_bit(search, search.trail[search.trailed])
                walk.unrun(search.trail[search.trailed])


def push(tree, search, bottom, child):
    """Insert a state into the stack, above the states from `bottom` on that have more live bytes."""
    position = search.top
    # Insertion sort: the state of least live bytes is on top of the stack and expanded first.
    while position > bottom and tree.live[tree.stack[position - 1]] < tree.live[child]:
        tree.stack[position] = tree.stack[position - 1]
        position -= 1
    tree.stack[position] = child
    search.top += 1


def is_passed_by_all(walk, search):
    """Whether each ready step has all steps of the present down-set as predecessors (rule 3)."""
    for k in range(len(search.universe)):
        step = search.universe[k]
        if walk.is_done[step] == 0 and walk.waiting[step] == 0:
            # A ready step has only predecessors in the down-set, so equal numbers mean all of them.
            if search.before[step] != walk.count:
                return False
    return True


def restart_after_trail(walk, tree, search, state):
    """Make the present down-set, reached from a state by the trail, the first state."""
    trailed = search.trailed
    for k in range(trailed):
        search.mark[k] = search.trail[k]
    replay_path(walk, tree, search, 0, state)
    for k in range(trailed):
        run_on(walk, search, search.mark[k])
    move_trail_to_prefix(search)
    restart(walk, tree, search)


def move_trail_to_prefix(search):
    """Append the steps of the trail to the prefix, and empty the trail."""
    for k in range(search.trailed):
        search.prefix[search.prefixed] = search.trail[k]
        search.prefixed += 1
    search.trailed = 0


def replay_path(walk, tree, search, first, last):
    """Execute the steps from a state to its descendant `last`, which are then the trail."""
    depth = 0
    at = last
    # Collect the path backwards along parents, then replay it forwards.
    while at != first:
        search.path[depth] = at
        depth += 1
        at = tree.parent[at]
    load_state(walk, tree, search, first)
    while depth > 0:
        depth -= 1
        at = search.path[depth]
        if tree.step[at] >= 0:
            run_on(walk, search, tree.step[at])
            run_free(walk, search)
        else:
            for entry in range(tree.begin[at], tree.end[at]):
                run_on(walk, search, tree.pool[entry])


def replace_by_valleys(walk, cut, tree, search, state):
    """Replace ancestors that have at least the live bytes of a new state by valleys (rule 2)."""
    outcome = KEPT
    origin = earliest_heavier(tree, search, state)
    while origin >= 0 and search.is_full == 0:
        valley = valley_between(walk, cut, tree, search, origin, state)
        if valley < 0:
            return max(outcome, FAILED)
        outcome = REPLACED
        if valley == 0:
            return outcome
        state = valley
        origin = earliest_heavier(tree, search, state)
    return outcome


def earliest_heavier(tree, search, state):
    """Return the earliest ancestor with at least the live bytes of this state, or -1."""
    earliest = -1
    at = state
    while at != 0:
        search.work += 1
        parent = tree.parent[at]
        if tree.replacement[parent] < 0 and tree.live[parent] >= tree.live[state]:
            earliest = parent
        at = parent
    return earliest


def valley_between(walk, cut, tree, search, origin, state):
    """Replace all continuations of `origin` by the valley before `state`; return the valley's number.

    0 if the search restarts from the valley. -1 if its steps exceed the bound: in another order a step
    may be unable to overwrite its input. -1 also if the pool is full.
    """
    replay_path(walk, tree, search, origin, state)
    length = search.trailed
    # Marks of `least_between`: 0 in the down-set of the origin, 1 on the path, 2 in neither.
    for step in range(len(walk.is_done)):
        search.mark[step] = 2 if walk.is_done[step] == 0 else 0
    for k in range(length):
        search.path[k] = search.trail[k]
        search.mark[search.trail[k]] = 1
    # Minimum cut between the two down-sets: the valley of least live bytes.
    cut.least_between(search.mark)
    load_state(walk, tree, search, origin)
    for k in range(length):
        step = search.path[k]
        if search.mark[step] == 0:
            if not fits(walk, search, step):
                return -1
            run_on(walk, search, step)
    if origin == 0:
        move_trail_to_prefix(search)
        restart(walk, tree, search)
        return 0
    if search.pooled + search.trailed > len(tree.pool):
        search.is_full = 1
        return -1
    for k in range(search.trailed):
        tree.pool[search.pooled] = search.trail[k]
        search.pooled += 1
    slot = lookup(tree, search)
    valley = tree.table[slot] - 1
    if valley >= 0 and is_alive(tree, search, valley):
        add_link(tree, search, valley, origin, -1)
        if valley == state and (search.top == 0 or tree.stack[search.top - 1] != state):
            tree.stack[search.top] = state
            search.top += 1
    else:
        valley = new_state(walk, tree, search, slot)
        tree.parent[valley] = origin
        tree.step[valley] = -1
        tree.begin[valley] = search.pooled - search.trailed
        tree.end[valley] = search.pooled
        tree.stack[search.top] = valley
        search.top += 1
    tree.replacement[origin] = valley
    # Links take the place of parents that are replaced now.
    is_alive(tree, search, valley)
    return valley
