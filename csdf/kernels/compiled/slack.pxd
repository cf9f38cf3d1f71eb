cimport cython
from libc.stdint cimport int64_t

cdef int64_t NONE, FOUND, OVERFLOW, CHANGED


cdef class Rooms:
    cdef int64_t[::1] start, source, height, channel, time, value, out_start, out_edge, out_target
    cdef int64_t[::1] is_member, gain, entry, place, heap, touched
    cdef readonly int64_t[::1] room, cycle
    cdef readonly int64_t edges, cycle_room, members


@cython.locals(
    nodes=int64_t, rounds=int64_t, is_changed=cython.bint, node=int64_t, best=int64_t,
    edge=int64_t, reached=int64_t,
)
cpdef int64_t compute_rooms(
    Rooms rooms, int64_t numerator, int64_t denominator, int64_t limit, int64_t most
)

@cython.locals(source=int64_t, reached=int64_t)
cdef int64_t reached_by(
    Rooms rooms, int64_t node, int64_t edge, int64_t numerator, int64_t denominator
) noexcept

@cython.locals(nodes=int64_t, node=int64_t, edge=int64_t, index=int64_t)
cpdef begin_search(Rooms rooms)

@cython.locals(
    waiting=int64_t, reached=int64_t, position=int64_t, node=int64_t, closing=int64_t,
    out=int64_t, edge=int64_t, target=int64_t, begin=int64_t, increase=int64_t, moved=int64_t,
    at=int64_t, child=int64_t,
)
cpdef int64_t better_cycle(Rooms rooms, int64_t[::1] members, int64_t trial, int64_t scale)

@cython.locals(back=int64_t, steps=int64_t)
cdef int64_t node_of_cycle(Rooms rooms, int64_t node) noexcept

@cython.locals(node=int64_t, edge=int64_t)
cdef void measure_cycle(Rooms rooms, int64_t closing) noexcept
