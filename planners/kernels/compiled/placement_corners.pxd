cimport cython
from libc.stdint cimport int64_t

cdef int64_t UNDECIDED, FOUND, NONE, BEGIN, END, IS_RIGHT, LEVEL_SIDES, NEXT, BLOCK, FRAME


cdef class BlocksByTime:
    cdef int64_t[::1] start, end, size, twin, begins, begin_first, ends, end_first
    cdef int64_t capacity


cdef class Filling:
    cdef int64_t[::1] height, offset, is_placed, frames
    cdef readonly int64_t examined
    cdef int64_t depth


@cython.locals(last=int64_t, count=int64_t, frame=int64_t, block=int64_t)
cpdef int64_t search(BlocksByTime blocks, Filling filling, int64_t limit)

@cython.locals(start=int64_t, height=int64_t, column=int64_t)
cdef void set_placed(BlocksByTime blocks, Filling filling, int64_t block, int64_t is_placed) noexcept

@cython.locals(
    columns=int64_t, frame=int64_t, least=int64_t, begin=int64_t, here=int64_t, end=int64_t,
    is_low=cython.bint, is_right=int64_t, fitting=int64_t,
)
cdef bint open_corner(BlocksByTime blocks, Filling filling) noexcept

@cython.locals(
    counted=int64_t, first=int64_t, last=int64_t, room=int64_t, index=int64_t, block=int64_t,
)
cdef int64_t fitting_blocks(
    BlocksByTime blocks, Filling filling, int64_t begin, int64_t end, int64_t is_right, int64_t most
) noexcept

@cython.locals(
    begin=int64_t, end=int64_t, is_right=int64_t, first=int64_t, last=int64_t, here=int64_t,
    index=int64_t, block=int64_t, top=int64_t, level_sides=int64_t,
)
cdef int64_t next_block(BlocksByTime blocks, Filling filling, int64_t frame) noexcept
