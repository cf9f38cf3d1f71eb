cimport cython
from libc.stdint cimport int64_t


cdef class Table:
    cdef int64_t[::1] steps, weights, limits, order, price, amount, charges
    cdef readonly int64_t first


@cython.locals(total=int64_t, variable=int64_t, position=int64_t, cut=int64_t, charge=int64_t)
cpdef int64_t leaving_cost(Table table, int64_t[::1] capacities, int64_t cuts)

@cython.locals(row=int64_t, variable=int64_t, limit=int64_t)
cdef bint holds(Table table, int64_t[::1] capacities, int64_t cut) noexcept

cdef int64_t way_out(
    Table table, int64_t[::1] capacities, int64_t variable, int64_t limit
) noexcept

@cython.locals(
    variables=int64_t, least=int64_t, variable=int64_t, limit=int64_t, price=int64_t,
    base=int64_t, spent=int64_t, left=int64_t, k=int64_t,
)
cdef int64_t cheapest_way_out(Table table, int64_t[::1] capacities, int64_t cut) noexcept

@cython.locals(
    variables=int64_t, variable=int64_t, limit=int64_t, price=int64_t, base=int64_t, k=int64_t,
)
cdef void charge_all(
    Table table, int64_t[::1] capacities, int64_t cut, int64_t charge
) noexcept
