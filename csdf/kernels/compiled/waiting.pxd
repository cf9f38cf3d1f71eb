cimport cython
from libc.stdint cimport int64_t

cdef int64_t ABSENT


cdef class WaitingPath:
    cdef int64_t[::1] actors, position, awaited, producer
    cdef readonly int64_t length


@cython.locals(length=int64_t)
cpdef void extend(WaitingPath path, int64_t actor)

@cython.locals(position=int64_t)
cpdef void shorten(WaitingPath path, int64_t length)
