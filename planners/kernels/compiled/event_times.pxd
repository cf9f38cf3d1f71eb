cimport cython
from libc.stdint cimport int64_t

cdef int64_t DONE, STUCK, CYCLE, BEGINNING, FORGOTTEN, NONE, PRECEDING, UNDECIDED


cdef class EventSequences:
    cdef int64_t[::1] events, base, gap, gap_at, wait_start


cdef class TokenWaits:
    cdef int64_t[::1] enabled, source, token_at, shift, tokens, event_at, delay, delay_at, tables


cdef class FrameTimes:
    cdef int64_t slots, total
    cdef int64_t[::1] times


cdef class SequenceStack:
    cdef int64_t[::1] position, stack, goal, is_stacked, cause


cdef class EventPath:
    cdef int64_t[::1] met_at, sequence, frame, wait


@cython.locals(
    events=int64_t[::1], base=int64_t[::1], gaps=int64_t[::1], gap_at=int64_t[::1],
    wait_start=int64_t[::1], enabled=int64_t[::1], sources=int64_t[::1], token_at=int64_t[::1],
    shifts=int64_t[::1], tokens=int64_t[::1], event_at=int64_t[::1], delays=int64_t[::1],
    delay_at=int64_t[::1], tables=int64_t[::1], times=int64_t[::1], position=int64_t[::1],
    slots=int64_t, total=int64_t, here=int64_t, i=int64_t, depth=int64_t, sequence=int64_t,
    blocked=int64_t, wanted=int64_t, k=int64_t, last=int64_t, first=int64_t, best=int64_t,
    space=int64_t, before=int64_t, wait=int64_t, token=int64_t, back=int64_t, event=int64_t,
    source=int64_t, at=int64_t, pause=int64_t,
)
cpdef int64_t advance(
    int64_t frame, int64_t period, int64_t scale, int64_t[::1] active, EventSequences sequences,
    TokenWaits waits, FrameTimes kept, SequenceStack scratch, int64_t[::1] answer,
)

@cython.locals(
    here=int64_t, before=int64_t, times=int64_t[::1], most=int64_t, least=int64_t, i=int64_t,
    sequence=int64_t, first=int64_t, k=int64_t, more=int64_t,
)
cpdef int64_t growth(
    int64_t frame, int64_t period, int64_t[::1] active, EventSequences sequences, FrameTimes kept,
    int64_t[::1] answer,
)

@cython.locals(
    tables=int64_t[::1], times=int64_t[::1], slots=int64_t, total=int64_t, length=int64_t,
    now=int64_t, at=int64_t, value=int64_t, entry=int64_t, space=int64_t, last=int64_t,
    before=int64_t, wait=int64_t, token=int64_t, back=int64_t, made=int64_t,
    pause=int64_t, source=int64_t,
)
cpdef int64_t trace(
    int64_t frame, int64_t scale, int64_t sequence, int64_t event, EventSequences sequences,
    TokenWaits waits, FrameTimes kept, EventPath path, int64_t[::1] answer,
)
