cimport cython
from libc.stdint cimport int64_t

cdef int64_t NONE, FOUND, OVERFLOW, CHANGED


@cython.locals(
    nodes=int64_t, rounds=int64_t, is_changed=cython.bint, node=int64_t, first=int64_t,
    best=int64_t, edge=int64_t, source=int64_t, reached=int64_t,
)
cpdef int64_t rooms(
    int64_t[::1] edge_start, int64_t[::1] edge_source, int64_t[::1] edge_height,
    int64_t[::1] time, int64_t numerator, int64_t denominator, int64_t limit,
    int64_t most, int64_t[::1] value, int64_t[::1] room,
)

@cython.locals(nodes=int64_t, node=int64_t, edge=int64_t, at=int64_t)
cpdef outgoing(
    int64_t[::1] edge_start, int64_t[::1] edge_source, int64_t[::1] out_start,
    int64_t[::1] out_edge, int64_t[::1] out_target,
)

@cython.locals(
    waiting=int64_t, reached=int64_t, i=int64_t, node=int64_t, closing=int64_t, out=int64_t,
    edge=int64_t, target=int64_t, begin=int64_t, increase=int64_t,
    moved=int64_t, at=int64_t, child=int64_t,
)
cpdef int64_t better_cycle(
    int64_t[::1] out_start, int64_t[::1] out_edge, int64_t[::1] out_target,
    int64_t[::1] edge_source, int64_t[::1] edge_channel, int64_t[::1] room,
    int64_t[::1] members, int64_t[::1] is_member, int64_t trial, int64_t scale,
    int64_t[::1] gain, int64_t[::1] entry, int64_t[::1] heap, int64_t[::1] place,
    int64_t[::1] touched, int64_t[::1] cycle, int64_t[::1] answer,
)

@cython.locals(back=int64_t, steps=int64_t)
cdef int64_t node_of_cycle(
    int64_t[::1] edge_source, int64_t[::1] entry, int64_t node, int64_t nodes,
) noexcept

@cython.locals(total=int64_t, counted=int64_t, edges=int64_t, node=int64_t, edge=int64_t)
cdef void measure_cycle(
    int64_t[::1] edge_source, int64_t[::1] edge_channel, int64_t[::1] room,
    int64_t[::1] is_member, int64_t[::1] entry, int64_t closing, int64_t[::1] cycle,
    int64_t[::1] answer,
) noexcept
