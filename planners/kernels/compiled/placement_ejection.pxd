cimport cython
from libc.stdint cimport int64_t

from planners.kernels.compiled.placement cimport Conflicts

cdef int64_t UNDECIDED, FOUND, FIXED_PRICE, FULL, SHIFTS, MASK


cdef class BlockRooms:
    cdef int64_t[::1] alignment, highest, is_fixed


cdef class Shelf:
    cdef int64_t[::1] begin, end, price, waiting, is_placed, upward, by_end, entry_of
    cdef int64_t[::1] below, above, below_block, above_block
    cdef readonly int64_t tried
    cdef int64_t placed, waits, random, least, is_sparse


@cython.locals(_=int64_t, turn=int64_t, block=int64_t, near=int64_t, offset=int64_t)
cpdef int64_t search(
    BlockRooms rooms, Conflicts conflicts, int64_t[::1] size, Shelf shelf, int64_t limit
)

cdef int64_t random_below(Shelf shelf, int64_t limit) noexcept

@cython.locals(
    unit=int64_t, entry=int64_t, unders=int64_t, uppers=int64_t, position=int64_t, neighbour=int64_t,
    under=int64_t, upper=int64_t, k=int64_t,
)
cdef int64_t look(
    BlockRooms rooms, Conflicts conflicts, Shelf shelf, int64_t block
) noexcept

@cython.locals(
    unit=int64_t, entry=int64_t, near=int64_t, neighbour=int64_t, upper=int64_t
)
cdef int64_t look_at_conflicts(
    BlockRooms rooms, Conflicts conflicts, Shelf shelf, int64_t block
) noexcept

@cython.locals(step=int64_t, k=int64_t, number=int64_t, block=int64_t, hole=int64_t)
cdef void sort_pairs(int64_t[::1] numbers, int64_t[::1] blocks, int64_t count) noexcept

cdef int64_t rounded_down(int64_t number, int64_t unit) noexcept

@cython.locals(hole=int64_t)
cdef void insert_pair(
    int64_t[::1] numbers, int64_t[::1] blocks, int64_t count, int64_t number, int64_t block
) noexcept

@cython.locals(
    top=int64_t, price=int64_t, entered=int64_t, left=int64_t, ties=int64_t, chosen=int64_t,
    least=int64_t, offset=int64_t, seen=int64_t,
)
cdef int64_t cheapest(BlockRooms rooms, Shelf shelf, int64_t block, int64_t near) noexcept

@cython.locals(
    top=int64_t, entered=int64_t, left=int64_t, ties=int64_t, chosen=int64_t, offset=int64_t,
)
cdef int64_t free_offset(BlockRooms rooms, Shelf shelf, int64_t block, int64_t near) noexcept

@cython.locals(entry=int64_t, neighbour=int64_t, at=int64_t)
cdef void push_out(
    Conflicts conflicts, Shelf shelf, int64_t block, int64_t offset
) noexcept

cpdef int64_t put(int64_t[::1] size, Shelf shelf, int64_t block, int64_t offset)

@cython.locals(hole=int64_t)
cdef void insert(
    int64_t[::1] order, int64_t[::1] key, int64_t count, int64_t block
) noexcept

cdef void take(Shelf shelf, int64_t block) noexcept

@cython.locals(low=int64_t, high=int64_t, middle=int64_t, position=int64_t)
cdef void remove(
    int64_t[::1] order, int64_t[::1] key, int64_t last, int64_t block
) noexcept

@cython.locals(_=int64_t, first=int64_t, block=int64_t, near=int64_t, offset=int64_t)
cdef void shift_some(
    BlockRooms rooms, Conflicts conflicts, int64_t[::1] size, Shelf shelf, int64_t pushed
) noexcept

@cython.locals(block=int64_t, is_free=cython.bint)
cpdef int64_t eject_above_highest(BlockRooms rooms, Shelf shelf)
