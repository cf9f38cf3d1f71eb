cimport cython
from libc.stdint cimport int64_t

from planners.kernels.compiled.order_states cimport FlowNetwork, Walk

cdef int64_t UNDECIDED, FOUND, NONE, FULL, KEPT, FAILED, REPLACED


@cython.final
cdef class StateTree:
    cdef int64_t[::1] bits, key, live, parent, step, begin, end, replacement, is_dead, link
    cdef int64_t[::1] table, stack, pool
    cdef int64_t[::1] link_from, link_step, link_begin, link_end, link_next


@cython.final
cdef class OrderSearch:
    cdef int64_t[::1] universe, before, word, power, keys, prefix, here, trail, mark, path
    cdef int64_t bound, trailed, links, pooled, top, goal, here_key, is_full
    cdef readonly int64_t blocked, prefixed, states, work


@cython.locals(word=int64_t, step=int64_t)
cpdef void begin_search(Walk walk, StateTree tree, OrderSearch search) noexcept

@cython.locals(_=int64_t, state=int64_t)
cpdef int64_t search_order(
    Walk walk, FlowNetwork cut, StateTree tree, OrderSearch search, int64_t limit
) noexcept

@cython.locals(mask=int64_t, state=int64_t, slot=int64_t)
cdef void restart(Walk walk, StateTree tree, OrderSearch search) noexcept

cdef void add_bit(OrderSearch search, int64_t step) noexcept

cdef void remove_bit(OrderSearch search, int64_t step) noexcept

cdef void run_on(Walk walk, OrderSearch search, int64_t step) noexcept

@cython.locals(is_new=cython.bint, k=int64_t, step=int64_t)
cdef void run_free(Walk walk, OrderSearch search) noexcept

@cython.locals(bytes_=int64_t)
cdef bint fits(Walk walk, OrderSearch search, int64_t step) noexcept

@cython.locals(mask=int64_t, words=int64_t, slot=int64_t, state=int64_t, word=int64_t)
cdef int64_t lookup(StateTree tree, OrderSearch search) noexcept

@cython.locals(words=int64_t, state=int64_t, word=int64_t)
cdef int64_t new_state(Walk walk, StateTree tree, OrderSearch search, int64_t slot) noexcept

@cython.locals(link=int64_t)
cdef void add_link(
    StateTree tree, OrderSearch search, int64_t state, int64_t origin, int64_t step
) noexcept

@cython.locals(at=int64_t, parent=int64_t, stand_in=int64_t, link=int64_t)
cdef bint is_alive(StateTree tree, OrderSearch search, int64_t state) noexcept

@cython.locals(words=int64_t, word=int64_t, step=int64_t)
cdef void load_state(
    Walk walk, StateTree tree, OrderSearch search, int64_t state
) noexcept

@cython.locals(
    bottom=int64_t, k=int64_t, step=int64_t, is_ready=cython.bint, slot=int64_t, child=int64_t,
    outcome=int64_t,
)
cdef void expand(
    Walk walk, FlowNetwork cut, StateTree tree, OrderSearch search, int64_t state
) noexcept

@cython.locals(position=int64_t)
cdef void push(StateTree tree, OrderSearch search, int64_t bottom, int64_t child) noexcept

@cython.locals(k=int64_t, step=int64_t)
cdef bint is_passed_by_all(Walk walk, OrderSearch search) noexcept

@cython.locals(trailed=int64_t, k=int64_t)
cdef void restart_after_trail(
    Walk walk, StateTree tree, OrderSearch search, int64_t state
) noexcept

@cython.locals(k=int64_t)
cdef void move_trail_to_prefix(OrderSearch search) noexcept

@cython.locals(depth=int64_t, at=int64_t, entry=int64_t)
cdef void replay_path(
    Walk walk, StateTree tree, OrderSearch search, int64_t first, int64_t last
) noexcept

@cython.locals(outcome=int64_t, origin=int64_t, valley=int64_t)
cdef int64_t replace_by_valleys(
    Walk walk, FlowNetwork cut, StateTree tree, OrderSearch search, int64_t state
) noexcept

@cython.locals(earliest=int64_t, at=int64_t, parent=int64_t)
cdef int64_t earliest_heavier(StateTree tree, OrderSearch search, int64_t state) noexcept

@cython.locals(
    length=int64_t, step=int64_t, k=int64_t, slot=int64_t, valley=int64_t,
)
cdef int64_t valley_between(
    Walk walk, FlowNetwork cut, StateTree tree, OrderSearch search, int64_t origin,
    int64_t state,
) noexcept
