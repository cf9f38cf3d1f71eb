cimport cython
from libc.stdint cimport int64_t

cdef int64_t DONE, STUCK, CYCLE, BEGINNING, FORGOTTEN, NONE, PRECEDING, UNDECIDED


cdef class EventSequences:
    cdef int64_t[::1] active, events, base, gap, gap_at, wait_start


cdef class TokenWaits:
    cdef int64_t[::1] enabled, source, token_at, shift, tokens, event_at, delay, delay_at, tables


cdef class FrameTimes:
    cdef int64_t slots, total, period, scale
    cdef readonly int64_t[::1] times


cdef class SequenceStack:
    cdef readonly int64_t[::1] stack, cause
    cdef int64_t[::1] position, goal, is_stacked
    cdef readonly int64_t begin, end


cdef class Growth:
    cdef readonly int64_t most, least
    cdef int64_t sequence, event


cdef class EventPath:
    cdef int64_t[::1] met_at, frame
    cdef readonly int64_t[::1] sequence, wait
    cdef readonly int64_t length, first, frames, units


@cython.locals(
    active=int64_t[::1], events=int64_t[::1], base=int64_t[::1], gaps=int64_t[::1],
    gap_at=int64_t[::1], wait_start=int64_t[::1], enabled=int64_t[::1], sources=int64_t[::1],
    token_at=int64_t[::1], shifts=int64_t[::1], tokens=int64_t[::1], event_at=int64_t[::1],
    delays=int64_t[::1], delay_at=int64_t[::1], tables=int64_t[::1], times=int64_t[::1],
    position=int64_t[::1], period=int64_t, scale=int64_t, slots=int64_t, total=int64_t,
    here=int64_t, i=int64_t, depth=int64_t, sequence=int64_t, blocked=int64_t, wanted=int64_t,
    k=int64_t, last=int64_t, first=int64_t, best=int64_t, space=int64_t, before=int64_t,
    wait=int64_t, token=int64_t, back=int64_t, event=int64_t, source=int64_t, at=int64_t,
    pause=int64_t,
)
cpdef int64_t advance(
    int64_t frame, EventSequences sequences, TokenWaits waits, FrameTimes kept,
    SequenceStack scratch,
)

@cython.locals(table=int64_t)
cdef int64_t gap_before(
    EventSequences sequences, TokenWaits waits, int64_t sequence, int64_t event
) noexcept

@cython.locals(table=int64_t)
cdef int64_t delay_of(TokenWaits waits, int64_t wait, int64_t event) noexcept

@cython.locals(
    here=int64_t, before=int64_t, i=int64_t, sequence=int64_t, first=int64_t, event=int64_t,
    more=int64_t,
)
cpdef measure_growth(int64_t frame, EventSequences sequences, FrameTimes kept, Growth growth)

@cython.locals(
    tables=int64_t[::1], times=int64_t[::1], slots=int64_t, total=int64_t, sequence=int64_t,
    event=int64_t, now=int64_t, position=int64_t, time=int64_t, number=int64_t, gap=int64_t,
    last=int64_t, before=int64_t, wait=int64_t, token=int64_t, back=int64_t, made=int64_t,
    source=int64_t, origin=int64_t,
)
cpdef int64_t trace(
    int64_t frame, EventSequences sequences, TokenWaits waits, FrameTimes kept, Growth growth,
    EventPath path,
)
