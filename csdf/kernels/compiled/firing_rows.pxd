cimport cython
from libc.stdint cimport int64_t


cdef class StageReadings:
    cdef int64_t[::1] numbers, count, made, reading, maker, upto, first, reader, use, user, fired
    cdef readonly int64_t lacking


@cython.locals(filled=int64_t, last=int64_t, stage=int64_t, asked=int64_t)
cpdef int64_t firing_order(StageReadings group, int64_t[::1] order)

@cython.locals(stage=int64_t)
cdef void restart(StageReadings group) noexcept

@cython.locals(firing=int64_t, reading=int64_t)
cdef int64_t maker_lacking(StageReadings group, int64_t stage) noexcept

cdef int64_t rows_made(StageReadings group, int64_t stage) noexcept

@cython.locals(made=int64_t, released=int64_t, number=int64_t, reading=int64_t, oldest=int64_t)
cdef int64_t rows_alive(StageReadings group, int64_t stage) noexcept

@cython.locals(here=int64_t)
cdef int64_t next_batch(StageReadings group, int64_t stage) noexcept

@cython.locals(reading=int64_t)
cdef bint reads(StageReadings group, int64_t stage, int64_t maker) noexcept

@cython.locals(waits=int64_t, event=int64_t, stage=int64_t)
cpdef void count_rows(
    StageReadings group, int64_t[::1] order, int64_t total, int64_t[::1] keeping, int64_t[::1] rows
)

cdef void raise_to(int64_t[::1] values, int64_t index, int64_t value) noexcept

@cython.locals(
    stages=int64_t, staged=int64_t, size=int64_t, event=int64_t, stage=int64_t, moving=int64_t,
    batch=int64_t,
)
cpdef void count_passing(
    StageReadings group, int64_t[::1] order, int64_t total, int64_t[::1] keeping, int64_t[::1] rows,
    int64_t[::1] row_bytes, int64_t[::1] passing,
)
