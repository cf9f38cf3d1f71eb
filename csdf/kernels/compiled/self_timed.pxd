cimport cython
from libc.stdint cimport int64_t

cdef int64_t DONE, STUCK, FULL, PAUSED, BURST


@cython.locals(
    recording=cython.bint, depth=int64_t, left=int64_t, i=int64_t, actor=int64_t, burst=int64_t,
    port=int64_t, fired=int64_t, channel=int64_t, now=int64_t, enabled=cython.bint,
    start=int64_t, end=int64_t, follower=int64_t, need=int64_t, entry=int64_t, base=int64_t,
    made=int64_t, tail=int64_t, newest=int64_t,
)
cpdef int64_t advance(
    int64_t[::1] phases, int64_t[::1] duration_start, int64_t[::1] duration,
    int64_t[::1] input_start, int64_t[::1] input_channel, int64_t[::1] output_start,
    int64_t[::1] output_channel, int64_t[::1] consumer, int64_t[::1] consumption_start,
    int64_t[::1] consumption, int64_t[::1] production_start, int64_t[::1] production,
    int64_t[::1] tokens, int64_t[::1] queue_start, int64_t[::1] queue_size,
    int64_t[::1] queue_head, int64_t[::1] queue_length, int64_t[::1] queue_count,
    int64_t[::1] queue_time, int64_t[::1] last_time, int64_t[::1] phase,
    int64_t[::1] latest_start, int64_t[::1] quota, int64_t[::1] stack, int64_t[::1] is_stacked,
    int64_t[::1] record_at, int64_t[::1] record, int64_t fuel, int64_t[::1] answer,
)

@cython.locals(
    room=int64_t, written=int64_t, actor=int64_t, channel=int64_t, entry=int64_t, _=int64_t,
    at=int64_t,
)
cpdef int64_t pack_state(
    int64_t[::1] queue_start, int64_t[::1] queue_size, int64_t[::1] queue_head,
    int64_t[::1] queue_length, int64_t[::1] queue_count, int64_t[::1] queue_time,
    int64_t[::1] last_time, int64_t[::1] latest_start, int64_t origin, int64_t[::1] state,
)
