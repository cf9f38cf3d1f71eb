cimport cython
from libc.stdint cimport int64_t

cdef int64_t FILTERS, CHANNELS, ROWS, COLUMNS, KERNEL_ROWS, KERNEL_COLUMNS, INPUT_MOVED
cdef int64_t WEIGHTS_MOVED, OUTPUT_MOVED, INPUT_ROUNDS, WEIGHTS_ROUNDS, OUTPUT_ROUNDS, SLIDES
cdef int64_t STRUCTURE, PLACES, KERNEL, PLACE_TRIPS, KERNEL_TRIPS, LARGEST, READS
cdef int64_t READS_BY_PLACES, READS_BY_KERNEL, OPTION, TOTAL, BEST_STRUCTURE, BEST_FILTERS
cdef int64_t BEST_CHANNELS, BEST_ROWS, BEST_COLUMNS, LOOKED_AT, ANSWER
cdef int64_t LOOP_OPTION, HELD_OUTPUT, HELD_WEIGHTS, HELD_INPUT, READ, WEIGHT_ROUNDS, AXIS_OPTION
cdef int64_t NESTED_ANSWER


@cython.locals(
    filter_options=int64_t, channel_options=int64_t, row_options=int64_t,
    column_options=int64_t, all_filters=int64_t, all_channels=int64_t, least_columns=int64_t,
    looked_at=int64_t, best=int64_t, enough=int64_t, structure=int64_t, at=int64_t,
    input_moved=int64_t, weights_moved=int64_t, output_moved=int64_t, weights_rounds=int64_t,
    output_rounds=int64_t, slides=int64_t, moved=int64_t, cuts_rows=int64_t,
    cuts_columns=int64_t, row_reads=int64_t, column_reads=int64_t, rows_go_round=int64_t,
    columns_go_round=int64_t, kernel_rows_go_round=int64_t, kernel_columns_go_round=int64_t,
    channels_go_round=int64_t, filters_go_round=int64_t, input_has_channels=int64_t,
    weights_have_channels=int64_t, weights_have_filters=int64_t, output_has_filters=int64_t,
    row=int64_t, one=int64_t, input_by_rows=int64_t, held_rows=int64_t, weights_by_rows=int64_t,
    visits_by_rows=int64_t, least=int64_t, tile_rows=int64_t, tile_kernel_rows=int64_t,
    column=int64_t, other=int64_t, inputs=int64_t, weights=int64_t, visits=int64_t,
    held_input=int64_t, held_weights=int64_t, held_output=int64_t, channel=int64_t,
    choice=int64_t, weight_filters=int64_t, output_filters=int64_t, trips=int64_t, held=int64_t,
    each=int64_t, total=int64_t, repeated=int64_t,
)
cpdef int64_t least_traffic(
    int64_t[::1] structures, int64_t[::1] filters, int64_t[::1] channels, int64_t[::1] rows,
    int64_t[::1] columns, int64_t weight_elements, int64_t output_elements, int64_t room,
    int64_t[::1] answer,
)


@cython.locals(
    filter_options=int64_t, channel_options=int64_t, best=int64_t, least_read=int64_t,
    column=int64_t, row=int64_t, one=int64_t, least=int64_t, other=int64_t, inputs=int64_t,
    weights=int64_t, rounds=int64_t, held_output=int64_t, held_weights=int64_t,
    held_input=int64_t, channel=int64_t, choice=int64_t, at=int64_t, moved=int64_t,
    fixed=int64_t, each=int64_t, first=int64_t, repeated=int64_t, total=int64_t,
)
cpdef int64_t nested_traffic(
    int64_t[::1] filters, int64_t[::1] channels, int64_t[::1] rows, int64_t[::1] columns,
    int64_t depth, int64_t weight_elements, int64_t output_elements, int64_t room,
    int64_t[::1] answer,
)
