cimport cython
from libc.stdint cimport int64_t

cdef int64_t OPTIMAL, BLOCKED, OVERFLOW


@cython.locals(
    room=int64_t, count=int64_t, node=int64_t, actor=int64_t, cycle=int64_t, last=int64_t,
    copy=int64_t, phase=int64_t, port=int64_t, first=cython.bint, channel=int64_t, at=int64_t,
    needed=int64_t, new=int64_t, end=int64_t, source=int64_t, source_phases=int64_t,
    per_cycle=int64_t, g=int64_t, base=int64_t, total=int64_t, ordered=int64_t, y=int64_t,
    repeat=int64_t, rest=int64_t, low=int64_t, high=int64_t, begin=int64_t, after=int64_t,
    shifted=int64_t, middle=int64_t,
)
cpdef int64_t expand(
    int64_t[::1] node_start, int64_t[::1] phases, int64_t[::1] copies, int64_t[::1] wrap_height,
    int64_t[::1] input_start, int64_t[::1] input_channel, int64_t[::1] producer,
    int64_t[::1] produced, int64_t[::1] produced_before, int64_t[::1] production_start,
    int64_t[::1] consumed, int64_t[::1] consumed_upto, int64_t[::1] consumption_start,
    int64_t[::1] initial_tokens, int64_t[::1] step, int64_t[::1] step_height,
    int64_t[::1] is_ordered, int64_t[::1] edge_start, int64_t[::1] edge_source,
    int64_t[::1] edge_height, int64_t[::1] edge_channel,
)

@cython.locals(
    nodes=int64_t, largest_time=int64_t, largest_height=int64_t, node=int64_t, edge=int64_t,
    numerator=int64_t, denominator=int64_t, reported=int64_t, best=int64_t, placed=int64_t,
    is_raised=cython.bint, is_blocked=cython.bint, first=int64_t, i=int64_t,
    is_changed=cython.bint, length=int64_t, reached=int64_t, root=int64_t, cycle_time=int64_t,
    cycle_height=int64_t, edges=int64_t, blocks=cython.bint, wins=cython.bint, source=int64_t,
    candidate=int64_t, above=cython.bint, a=int64_t, b=int64_t, _=int64_t,
)
cpdef int64_t maximum_cycle_ratio(
    int64_t[::1] edge_start, int64_t[::1] edge_source, int64_t[::1] edge_height,
    int64_t[::1] time, int64_t low_time, int64_t low_height, int64_t limit, int64_t[::1] policy,
    int64_t[::1] value, int64_t[::1] cycle, int64_t[::1] others, int64_t[::1] order,
    int64_t[::1] mark, int64_t[::1] answer,
)
