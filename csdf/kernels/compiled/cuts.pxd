cimport cython
from libc.stdint cimport int64_t


@cython.locals(
    variables=int64_t, room=int64_t, total=int64_t, variable=int64_t, position=int64_t,
    cut=int64_t, row=int64_t, holds=cython.bint, charge=int64_t, limit=int64_t, price=int64_t,
    base=int64_t, spent=int64_t, left=int64_t, k=int64_t,
)
cpdef int64_t leaving_cost(
    int64_t[::1] capacities, int64_t[::1] steps, int64_t[::1] weights, int64_t[::1] limits,
    int64_t[::1] order, int64_t cuts, int64_t[::1] charged_price, int64_t[::1] charged_amount,
    int64_t[::1] charged_count, int64_t[::1] first,
)
