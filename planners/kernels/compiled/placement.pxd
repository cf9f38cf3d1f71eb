cimport cython
from libc.stdint cimport int64_t


cdef class Conflicts:
    cdef int64_t[::1] start, neighbour, rise, lift


cdef class Lifetimes:
    cdef int64_t[::1] start, end, size


cdef class Ground:
    cdef int64_t[::1] alignment, lowest, forbidden_begin, forbidden_end


cdef class Placed:
    cdef int64_t[::1] is_placed, offset


@cython.locals(
    actives=int64_t, position=int64_t, block=int64_t, kept=int64_t, k=int64_t, neighbour=int64_t,
)
cpdef int64_t overlaps(
    Lifetimes lifetimes, int64_t[::1] order, int64_t[::1] active, int64_t[::1] fill,
    Conflicts conflicts,
)

@cython.locals(entry=int64_t)
cdef void write_conflict(
    Conflicts conflicts, int64_t[::1] fill, int64_t block, int64_t neighbour, Lifetimes lifetimes
) noexcept

@cython.locals(position=int64_t, block=int64_t, taken=int64_t, entry=int64_t, neighbour=int64_t)
cpdef int64_t lowest_fit(
    int64_t[::1] order, Ground ground, Conflicts conflicts, Placed placed
)

@cython.locals(step=int64_t, k=int64_t, begin=int64_t, finish=int64_t, hole=int64_t)
cdef void sort_forbidden(Ground ground, int64_t taken) noexcept

@cython.locals(offset=int64_t, unit=int64_t, k=int64_t)
cdef int64_t first_room(Ground ground, int64_t block, int64_t taken) noexcept


cdef class Stack:
    cdef int64_t[::1] start, end, begin, top, first, count
    cdef int64_t width


@cython.locals(position=int64_t, block=int64_t)
cpdef int64_t fit_by_time(
    int64_t[::1] order, Lifetimes lifetimes, Ground ground, Stack stack, int64_t[::1] offset,
    int64_t is_tight,
)

@cython.locals(
    start=int64_t, end=int64_t, size=int64_t, unit=int64_t, offset=int64_t, window=int64_t,
    last=int64_t, k=int64_t, upto=int64_t, later=int64_t, later_upto=int64_t, entry=int64_t,
    chosen=int64_t, least=int64_t, room=int64_t,
)
cdef int64_t room_by_time(
    int64_t[::1] starts, int64_t[::1] ends, int64_t[::1] begins, int64_t[::1] tops, Stack stack,
    Lifetimes lifetimes, Ground ground, int64_t block, int64_t is_tight,
) noexcept

@cython.locals(
    first_window=int64_t, last_window=int64_t, window=int64_t, low=int64_t, upto=int64_t,
    high=int64_t, middle=int64_t,
)
cpdef int64_t put_by_time(Stack stack, Lifetimes lifetimes, int64_t block, int64_t offset)

@cython.locals(k=int64_t)
cdef void insert_at(
    int64_t[::1] numbers, int64_t place, int64_t count, int64_t number
) noexcept
