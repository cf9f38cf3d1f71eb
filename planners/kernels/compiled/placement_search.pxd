cimport cython
from libc.stdint cimport int64_t

from planners.kernels.compiled.placement cimport Conflicts

cdef int64_t UNDECIDED, FOUND, NONE, FIRST, LAST, PENDING, OFFSET, HEAT, RANK, OLD_OFFSET
cdef int64_t OLD_HEAT, OLD_RANK, TRAIL, IS_FINAL, FRAME


cdef class SearchBlocks:
    cdef int64_t[::1] size, alignment, highest, rank
    cdef int64_t capacity


cdef class Cliques:
    cdef int64_t[::1] start, clique, weight, level


cdef class PlacementTree:
    cdef int64_t[::1] low, heat, trail, is_placed, order, place_of, settled, queue, seen, frames
    cdef readonly int64_t tried, shifted
    cdef int64_t depth, length, stamp, missing, follows_heat


@cython.locals(
    tried=int64_t, frame=int64_t, chosen=int64_t, near=int64_t, falls_apart=cython.bint,
    settled=int64_t,
)
cpdef int64_t search(
    SearchBlocks part, Conflicts conflicts, Cliques cliques, PlacementTree tree, int64_t limit
)

@cython.locals(
    depth=int64_t, frame=int64_t, first=int64_t, reached=int64_t, k=int64_t, room=int64_t,
)
cdef bint enter_rest(Conflicts conflicts, Cliques cliques, PlacementTree tree) noexcept

@cython.locals(reached=int64_t, done=int64_t, block=int64_t, entry=int64_t, neighbour=int64_t)
cdef int64_t reach(Conflicts conflicts, PlacementTree tree) noexcept

@cython.locals(old=int64_t, displaced=int64_t)
cdef void move(PlacementTree tree, int64_t block, int64_t place) noexcept

@cython.locals(k=int64_t, position=int64_t, block=int64_t, entry=int64_t, most=int64_t)
cdef void renew_heat(Cliques cliques, PlacementTree tree, int64_t first, int64_t last) noexcept

@cython.locals(blocks=int64_t, at=int64_t, block=int64_t)
cdef void undo(PlacementTree tree, int64_t length) noexcept

@cython.locals(
    after=int64_t, after_heat=int64_t, after_rank=int64_t, chosen=int64_t, bottom=int64_t,
    dominated=int64_t, warmth=int64_t, position=int64_t, block=int64_t, here=int64_t,
    heat=int64_t,
)
cdef int64_t choose(SearchBlocks part, PlacementTree tree, int64_t frame) noexcept

@cython.locals(
    bottom=int64_t, length=int64_t, fits=cython.bint, near=int64_t, entry=int64_t, neighbour=int64_t,
    least=int64_t, unit=int64_t,
)
cdef int64_t place(
    SearchBlocks part, Conflicts conflicts, PlacementTree tree, int64_t frame, int64_t chosen
) noexcept

@cython.locals(remaining=int64_t, k=int64_t)
cdef bint has_fallen_apart(
    Conflicts conflicts, PlacementTree tree, int64_t frame, int64_t near
) noexcept

@cython.locals(
    bottom=int64_t, warmth=int64_t, rank=int64_t, settled=int64_t, position=int64_t,
    block=int64_t, least=int64_t, heat=int64_t, hole=int64_t,
)
cdef int64_t settle(SearchBlocks part, Conflicts conflicts, PlacementTree tree, int64_t frame) noexcept

@cython.locals(least=int64_t, entry=int64_t, neighbour=int64_t, rest=int64_t)
cdef int64_t least_rest(
    SearchBlocks part, Conflicts conflicts, PlacementTree tree, int64_t block, int64_t bottom
) noexcept

@cython.locals(
    k=int64_t, block=int64_t, begin=int64_t, entry=int64_t, clique=int64_t, level=int64_t,
)
cdef bint cliques_fit(SearchBlocks part, Cliques cliques, PlacementTree tree, int64_t settled) noexcept

@cython.locals(first=int64_t, last=int64_t, k=int64_t, below=int64_t)
cdef void descend(PlacementTree tree, int64_t frame, int64_t settled, bint falls_apart) noexcept
