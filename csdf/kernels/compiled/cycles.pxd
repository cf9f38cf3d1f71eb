cimport cython
from libc.stdint cimport int64_t


cdef class Demands:
    cdef int64_t[::1] weights, factors, least, unit, missing, cost, used
    cdef readonly int64_t first, lacking


@cython.locals(demand=int64_t, variable=int64_t, total=int64_t)
cpdef int64_t meeting_cost(Demands demands, int64_t[::1] capacities, int64_t count)

@cython.locals(
    variables=int64_t, row=int64_t, missing=int64_t, variable=int64_t, unit=int64_t,
    factor=int64_t, cost=int64_t,
)
cdef void find_missing(Demands demands, int64_t[::1] capacities, int64_t demand) noexcept

@cython.locals(best=int64_t, demand=int64_t)
cdef int64_t dearest_free(Demands demands, int64_t count) noexcept

@cython.locals(variables=int64_t, variable=int64_t)
cdef bint is_free(Demands demands, int64_t demand) noexcept

@cython.locals(variables=int64_t, variable=int64_t)
cdef void use(Demands demands, int64_t demand) noexcept
