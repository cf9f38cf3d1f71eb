cimport cython
from libc.stdint cimport int64_t

cdef int64_t OPTIMAL, BLOCKED, OVERFLOW, CHANGED


cdef class ConstraintLayout:
    cdef int64_t[::1] node_start, phases, copies, wrap_height, input_start, input_channel
    cdef int64_t[::1] producer, produced, produced_before, production_start
    cdef int64_t[::1] consumed, consumed_upto, consumption_start, step, step_height, is_ordered


cdef class Edges:
    cdef readonly int64_t[::1] start, source, height, channel
    cdef readonly int64_t number
    cdef int64_t node, actor, steps


cdef class Policy:
    cdef int64_t[::1] edge, value, cycle, others, choice, order, mark
    cdef readonly int64_t time, height, length, reported, work
    cdef int64_t stage, unit, numerator, denominator, low_time, low_height, limit
    cdef int64_t seen_time, seen_height, seen_length
    cdef bint is_raised, is_blocked


@cython.locals(
    count=int64_t, node=int64_t, actor=int64_t, copy=int64_t, phase=int64_t, port=int64_t,
    channel=int64_t, at=int64_t, end=int64_t, new=int64_t,
)
cpdef bint expand(ConstraintLayout layout, int64_t[::1] initial_tokens, Edges edges, int64_t fuel)

@cython.locals(first=cython.bint, nodes=int64_t)
cdef int64_t add_order(
    ConstraintLayout layout, Edges edges, int64_t count, int64_t actor, int64_t node
) noexcept

@cython.locals(
    source=int64_t, phases=int64_t, per_cycle=int64_t, g=int64_t, base=int64_t, total=int64_t,
    ordered=int64_t, position=int64_t, repeat=int64_t, phase=int64_t, begin=int64_t, after=int64_t,
    shifted_position=int64_t,
)
cdef int64_t add_producers(
    ConstraintLayout layout, Edges edges, int64_t count, int64_t channel, int64_t end, int64_t new
) noexcept

@cython.locals(low=int64_t, high=int64_t, middle=int64_t)
cdef int64_t last_before(
    ConstraintLayout layout, int64_t base, int64_t phases, int64_t made
) noexcept

@cython.locals(nodes=int64_t, node=int64_t, status=int64_t, left=int64_t)
cpdef int64_t maximum_cycle_ratio(
    Edges edges, int64_t[::1] time, Policy policy, int64_t fuel
)

@cython.locals(largest_time=int64_t, largest_height=int64_t, node=int64_t, edge=int64_t)
cdef bint holds_products(Edges edges, int64_t[::1] time, Policy policy) noexcept

@cython.locals(node=int64_t, best=int64_t, edge=int64_t)
cdef void choose_first(Edges edges, Policy policy) noexcept

@cython.locals(node=int64_t, edge=int64_t)
cdef void restore_policy(Edges edges, Policy policy) noexcept

@cython.locals(node=int64_t, largest=int64_t, keeps=cython.bint)
cdef void begin_values(Policy policy) noexcept

@cython.locals(nodes=int64_t, placed=int64_t, node=int64_t, first=int64_t, length=int64_t, i=int64_t)
cdef bint find_cycles(Edges edges, int64_t[::1] time, Policy policy) noexcept

@cython.locals(
    node=int64_t, cycle_time=int64_t, cycle_height=int64_t, length=int64_t, edge=int64_t,
)
cdef bint measure(Edges edges, int64_t[::1] time, Policy policy, int64_t root) noexcept

@cython.locals(time=int64_t, height=int64_t, wins=cython.bint)
cdef bint compare(Edges edges, Policy policy, int64_t root) noexcept

@cython.locals(node=int64_t, i=int64_t, a=int64_t, b=int64_t)
cdef void keep(Edges edges, Policy policy, int64_t root) noexcept

@cython.locals(node=int64_t, _=int64_t)
cdef void report(Edges edges, Policy policy, int64_t root) noexcept

@cython.locals(i=int64_t, node=int64_t, edge=int64_t, reached=int64_t)
cdef bint follow(Edges edges, int64_t[::1] time, Policy policy) noexcept

@cython.locals(
    numerator=int64_t, denominator=int64_t, status=int64_t, node=int64_t, first=int64_t,
    best=int64_t, edge=int64_t, source=int64_t, candidate=int64_t,
)
cdef int64_t improve(Edges edges, int64_t[::1] time, Policy policy) noexcept
