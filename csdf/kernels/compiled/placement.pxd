cimport cython
from libc.stdint cimport int64_t

cdef int64_t UNDECIDED, FOUND, NONE, FIRST, LAST, PENDING, OFFSET, HEAT, RANK, OLD_OFFSET
cdef int64_t OLD_HEAT, OLD_RANK, TRAIL, IS_FINAL, FRAME, DEPTH, TRAIL_LENGTH, STAMP
cdef int64_t FOLLOWS_HEAT, STATE


@cython.locals(
    actives=int64_t, position=int64_t, block=int64_t, kept=int64_t, k=int64_t, other=int64_t,
    here=int64_t, there=int64_t,
)
cpdef int64_t overlaps(
    int64_t[::1] start, int64_t[::1] end, int64_t[::1] size, int64_t[::1] order,
    int64_t[::1] active, int64_t[::1] fill, int64_t[::1] neighbour, int64_t[::1] rise,
    int64_t[::1] lift,
)

@cython.locals(
    position=int64_t, block=int64_t, taken=int64_t, entry=int64_t, step=int64_t, place=int64_t,
    k=int64_t, other=int64_t, begin=int64_t, finish=int64_t, hole=int64_t, unit=int64_t,
)
cpdef int64_t lowest_fit(
    int64_t[::1] order, int64_t[::1] alignment, int64_t[::1] lowest,
    int64_t[::1] neighbour_start, int64_t[::1] neighbour, int64_t[::1] rise, int64_t[::1] lift,
    int64_t[::1] is_placed, int64_t[::1] offset, int64_t[::1] gap_begin, int64_t[::1] gap_end,
)

@cython.locals(
    blocks=int64_t, tried=int64_t, depth=int64_t, frame=int64_t, first=int64_t, last=int64_t,
    length=int64_t, chosen=int64_t, here=int64_t, other=int64_t, fits=cython.bint, near=int64_t,
    entry=int64_t, stamp=int64_t, left=int64_t, found=int64_t, falls_apart=cython.bint,
    k=int64_t, sorted_blocks=int64_t, position=int64_t, below=int64_t, done=int64_t,
    room=int64_t, block=int64_t, after=int64_t, after_heat=int64_t, after_rank=int64_t,
    bottom=int64_t, warmth=int64_t, dominated=int64_t, least=int64_t, hole=int64_t,
    unit=int64_t, one=int64_t, most=int64_t, rest=int64_t,
)
cpdef int64_t search(
    int64_t[::1] size, int64_t[::1] alignment, int64_t[::1] highest, int64_t[::1] rank,
    int64_t[::1] neighbour_start, int64_t[::1] neighbour, int64_t[::1] rise, int64_t[::1] lift,
    int64_t[::1] member_start, int64_t[::1] clique, int64_t[::1] weight, int64_t capacity,
    int64_t[::1] low, int64_t[::1] heat, int64_t[::1] is_placed, int64_t[::1] order,
    int64_t[::1] place_of, int64_t[::1] settled, int64_t[::1] queue, int64_t[::1] seen,
    int64_t[::1] level, int64_t[::1] frames, int64_t[::1] trail, int64_t[::1] state,
    int64_t limit,
)
