cimport cython
from libc.stdint cimport int64_t

cdef int64_t DONE, STUCK, CYCLE, BEGINNING, FORGOTTEN, NONE


@cython.locals(
    here=int64_t, i=int64_t, depth=int64_t, series=int64_t, blocked=int64_t, wanted=int64_t,
    k=int64_t, last=int64_t, first=int64_t, best=int64_t, space=int64_t, before=int64_t,
    wait=int64_t, token=int64_t, back=int64_t, event=int64_t, writer=int64_t, at=int64_t,
    pause=int64_t,
)
cpdef int64_t advance(
    int64_t frame, int64_t period, int64_t scale, int64_t slots, int64_t total,
    int64_t[::1] active, int64_t[::1] events, int64_t[::1] base, int64_t[::1] gap,
    int64_t[::1] gap_at, int64_t[::1] wait_start, int64_t[::1] enabled, int64_t[::1] source,
    int64_t[::1] token_at, int64_t[::1] shift, int64_t[::1] tokens, int64_t[::1] event_at,
    int64_t[::1] delay, int64_t[::1] delay_at, int64_t[::1] numbers, int64_t[::1] times,
    int64_t[::1] position, int64_t[::1] stack, int64_t[::1] goal, int64_t[::1] is_stacked,
    int64_t[::1] cause, int64_t[::1] answer,
)

@cython.locals(
    here=int64_t, before=int64_t, most=int64_t, least=int64_t, i=int64_t, series=int64_t,
    first=int64_t, k=int64_t, more=int64_t,
)
cpdef int64_t growth(
    int64_t frame, int64_t period, int64_t slots, int64_t total, int64_t[::1] active,
    int64_t[::1] events, int64_t[::1] base, int64_t[::1] times, int64_t[::1] answer,
)

@cython.locals(
    length=int64_t, now=int64_t, at=int64_t, value=int64_t, entry=int64_t, space=int64_t,
    place=int64_t, latest=int64_t, wait=int64_t, token=int64_t, back=int64_t, made=int64_t,
    pause=int64_t,
)
cpdef int64_t trace(
    int64_t frame, int64_t scale, int64_t slots, int64_t total,
    int64_t[::1] events, int64_t[::1] base, int64_t[::1] gap, int64_t[::1] gap_at,
    int64_t[::1] wait_start, int64_t[::1] enabled, int64_t[::1] source, int64_t[::1] token_at,
    int64_t[::1] shift, int64_t[::1] tokens, int64_t[::1] event_at, int64_t[::1] delay,
    int64_t[::1] delay_at, int64_t[::1] numbers, int64_t[::1] times, int64_t series,
    int64_t event, int64_t[::1] met_at, int64_t[::1] way_series, int64_t[::1] way_event,
    int64_t[::1] way_frame, int64_t[::1] way_wait, int64_t[::1] answer,
)
