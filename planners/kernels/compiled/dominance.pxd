cimport cython
from libc.stdint cimport int64_t


@cython.locals(
    steps=int64_t, count=int64_t, i=int64_t, point=int64_t, value=int64_t, place=int64_t, high=int64_t,
    middle=int64_t, end=int64_t, step=int64_t,
)
cpdef int64_t undominated(
    const int64_t[::1] first, const int64_t[::1] second, const int64_t[::1] order,
    int64_t[::1] firsts, int64_t[::1] seconds, int64_t[::1] kept,
)
