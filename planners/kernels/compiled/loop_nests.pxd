cimport cython
from libc.stdint cimport int64_t

cdef int64_t TILE, WEIGHT_TILE, ROUNDS, LOOP_OPTION, HELD_OUTPUT, HELD_WEIGHTS, HELD_INPUT
cdef int64_t READ, WEIGHT_ROUNDS, OUTPUT_ROUNDS, AXIS_OPTION, TOTAL, ANSWER


cdef class TileChoices:
    cdef int64_t[::1] filters, channels, rows, columns


cdef class ConvolutionShape:
    cdef int64_t depth, weights, outputs, room, input_bytes, weight_bytes, output_bytes


cdef class TileSearch:
    cdef int64_t best, inputs, weights, visits, held_input, held_weights, held_output
    cdef int64_t filter, channel


@cython.locals(
    rows=int64_t[::1], columns=int64_t[::1], search=TileSearch, least_read=int64_t, column=int64_t,
    row=int64_t, here=int64_t, there=int64_t, least=int64_t, once=int64_t, depth=int64_t,
)
cpdef int64_t minimum_traffic(TileChoices choices, ConvolutionShape layer, int64_t[::1] answer)

@cython.locals(
    channel=int64_t, is_better=cython.bint,
    choice=int64_t, at=int64_t, moved=int64_t, output=int64_t, filter_weights=int64_t,
    repeated=int64_t, total=int64_t,
)
cdef bint choose_loops(TileChoices choices, ConvolutionShape layer, TileSearch search) noexcept

@cython.locals(at=int64_t, weights=int64_t)
cdef int64_t held_of(
    TileChoices choices, TileSearch search, int64_t channel, int64_t filter_weights
) noexcept
