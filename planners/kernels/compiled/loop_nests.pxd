cimport cython
from libc.stdint cimport int64_t

cdef int64_t FILTERS, CHANNELS, ROWS, COLUMNS, KERNEL_ROWS, KERNEL_COLUMNS, INPUT_MOVED
cdef int64_t WEIGHTS_MOVED, OUTPUT_MOVED, INPUT_ROUNDS, WEIGHTS_ROUNDS, OUTPUT_ROUNDS, SLIDES
cdef int64_t STRUCTURE, PLACES, KERNEL, PLACE_TRIPS, KERNEL_TRIPS, LARGEST, READS
cdef int64_t READS_BY_PLACES, READS_BY_KERNEL, OPTION, TOTAL, BEST_STRUCTURE, BEST_FILTERS
cdef int64_t BEST_CHANNELS, BEST_ROWS, BEST_COLUMNS, LOOKED_AT, ANSWER
cdef int64_t LOOP_OPTION, HELD_OUTPUT, HELD_WEIGHTS, HELD_INPUT, READ, WEIGHT_ROUNDS, AXIS_OPTION
cdef int64_t NESTED_ANSWER


cdef class Choices:
    cdef int64_t[::1] structures, filters, channels, rows, columns


cdef class Layer:
    cdef int64_t depth, weights, outputs, room, input_bytes, weight_bytes, output_bytes


cdef class Way:
    cdef int64_t input_moved, weights_moved, output_moved, moved, weights_rounds, output_rounds
    cdef int64_t filters_go_round, row_cuts, column_cuts, row_reads, column_reads


cdef class Search:
    cdef int64_t best, looked_at, row_inputs, row_weights, row_visits, row_held_input
    cdef int64_t row_held_weights, row_held_output, inputs, weights, visits
    cdef int64_t held_input, held_weights, held_output, filter, channel


@cython.locals(
    search=Search, way=Way, least_input=int64_t, enough=int64_t, structure=int64_t, row=int64_t,
    column=int64_t,
)
cpdef int64_t least_traffic(Choices choices, Layer layer, int64_t[::1] answer)

@cython.locals(slides=int64_t)
cdef void read(int64_t[::1] structures, int64_t at, Way way) noexcept

@cython.locals(least=int64_t)
cdef bint enter_rows(
    Choices choices, Layer layer, Way way, Search search, int64_t at
) noexcept

@cython.locals(least=int64_t)
cdef bint enter_columns(
    Choices choices, Layer layer, Way way, Search search, int64_t at
) noexcept

@cython.locals(
    filter_options=int64_t, channel_options=int64_t, all_filters=int64_t, all_channels=int64_t,
    input_has_channels=int64_t, weights_have_channels=int64_t, weights_have_filters=int64_t,
    output_has_filters=int64_t, once=int64_t, channel=int64_t, is_better=cython.bint,
    choice=int64_t, trips=int64_t, held=int64_t, held_weights=int64_t, each=int64_t,
    visits=int64_t, total=int64_t,
)
cdef bint choose_loops(Choices choices, Layer layer, Way way, Search search) noexcept

@cython.locals(
    rows=int64_t[::1], columns=int64_t[::1], search=Search, least_read=int64_t, column=int64_t,
    row=int64_t, here=int64_t, there=int64_t, least=int64_t, once=int64_t, depth=int64_t,
)
cpdef int64_t nested_traffic(Choices choices, Layer layer, int64_t[::1] answer)

@cython.locals(
    channel=int64_t, is_better=cython.bint,
    choice=int64_t, at=int64_t, moved=int64_t, fixed=int64_t, each=int64_t, first=int64_t,
    held=int64_t, repeated=int64_t, total=int64_t,
)
cdef bint choose_nested_loops(Choices choices, Layer layer, Search search) noexcept
