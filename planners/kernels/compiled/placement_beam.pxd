cimport cython
from libc.stdint cimport int64_t, uint64_t

from planners.kernels.compiled.placement cimport Conflicts
from planners.kernels.compiled.placement_search cimport Cliques, SearchBlocks

cdef int64_t UNDECIDED, FOUND, LOST, MASK


cdef class Guide:
    cdef int64_t[::1] share, twin, key, gapless
    cdef int64_t scale, soft, whole_area


cdef class Rows:
    cdef int64_t[::1] low, order, share


cdef class BestSteps:
    cdef int64_t[::1] heap, worth, parent, raises, block, seen
    cdef int64_t count
    cdef readonly int64_t has_overflowed


cdef class Beam:
    cdef Rows rows, next
    cdef readonly BestSteps kept
    cdef int64_t[::1] low, order, try_low, try_order, risen, is_placed, group, stamps
    cdef int64_t stamp, members, turn, raised, waste, count, parent, left


@cython.locals(_=int64_t, block=int64_t, is_raised=cython.bint)
cpdef int64_t search(
    SearchBlocks part, Conflicts conflicts, Cliques cliques, Guide guide, Beam beam, int64_t limit
)

@cython.locals(blocks=int64_t, first=int64_t, block=int64_t, k=int64_t)
cdef void open_row(Beam beam, int64_t row) noexcept

cdef void enter_row(
    SearchBlocks part, Conflicts conflicts, Cliques cliques, Guide guide, Beam beam
) noexcept

@cython.locals(
    bottom=int64_t, first=int64_t, k=int64_t, done=int64_t, block=int64_t, entry=int64_t,
    neighbour=int64_t, is_open=cython.bint,
)
cdef void gather(SearchBlocks part, Conflicts conflicts, Beam beam) noexcept

@cython.locals(rest=int64_t, k=int64_t, block=int64_t, entry=int64_t, neighbour=int64_t)
cdef bint raise_group(SearchBlocks part, Conflicts conflicts, Beam beam) noexcept

cdef int64_t rounded_up(int64_t number, int64_t unit) noexcept

@cython.locals(hole=int64_t)
cdef void insert(
    int64_t[::1] order, int64_t[::1] low, int64_t count, int64_t block
) noexcept

cdef int64_t worth_of(Guide guide, Beam beam, int64_t waste, int64_t share) noexcept

@cython.locals(largest=int64_t, k=int64_t)
cdef int64_t best_worth(Guide guide, Beam beam) noexcept

cdef bint is_among_the_best(BestSteps kept, int64_t worth) noexcept

@cython.locals(
    waste=int64_t, kept=BestSteps, share=int64_t, worth=int64_t, total=uint64_t, k=int64_t,
    unplaced=int64_t, key=uint64_t, mark=int64_t, place=int64_t, step=int64_t,
)
cdef void try_block(
    SearchBlocks part, Conflicts conflicts, Cliques cliques, Guide guide, Beam beam, int64_t block
) noexcept

@cython.locals(k=int64_t, entry=int64_t, neighbour=int64_t, least=int64_t)
cdef bint stack(SearchBlocks part, Conflicts conflicts, Beam beam, int64_t block) noexcept

@cython.locals(count=int64_t, risen=int64_t, k=int64_t, unplaced=int64_t)
cdef void merge(Beam beam, int64_t block) noexcept

@cython.locals(
    clique=int64_t, k=int64_t, block=int64_t, begin=int64_t, entry=int64_t, level=int64_t,
    waste=int64_t,
)
cdef int64_t waste_of(
    SearchBlocks part, Cliques cliques, Guide guide, int64_t[::1] order, int64_t[::1] low, int64_t count
) noexcept

@cython.locals(step=int64_t, above=int64_t)
cdef void rise(BestSteps kept, int64_t place) noexcept

@cython.locals(step=int64_t, below=int64_t)
cdef void sink(BestSteps kept, int64_t place, int64_t count) noexcept

@cython.locals(
    kept=BestSteps, blocks=int64_t, last=int64_t, step=int64_t, row=int64_t, block=int64_t,
    _=int64_t, first=int64_t, number=int64_t, k=int64_t, place=int64_t, rows=Rows,
)
cdef void climb(SearchBlocks part, Conflicts conflicts, Guide guide, Beam beam) noexcept
