cimport cython
from libc.stdint cimport int64_t

cdef int64_t STUCK


cdef class Layers:
    cdef int64_t[::1] phases, is_gate, waiting, source, start, numbers, fired


@cython.locals(
    count=int64_t, steps=int64_t, low=int64_t, before=int64_t, layer=int64_t, phase=int64_t,
)
cpdef int64_t round_robin_order(
    Layers layers, int64_t[::1] order, int64_t[::1] first, int64_t[::1] last
)

@cython.locals(wait=int64_t)
cdef bint is_ready(Layers layers, int64_t layer, int64_t phase) noexcept
