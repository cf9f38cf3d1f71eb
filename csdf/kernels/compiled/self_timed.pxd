cimport cython
from libc.stdint cimport int64_t

cdef int64_t DONE, STUCK, FULL, PAUSED, BURST, NOWHERE, WORD_BITS


cdef class Wiring:
    cdef int64_t[::1] phases, duration_start, duration, input_start, input_channel
    cdef int64_t[::1] output_start, output_channel, consumer, consumption_start, consumption
    cdef int64_t[::1] production_start, production


cdef class Queues:
    cdef int64_t[::1] start, size, head, length, count, time, tokens, last_time, needed
    cdef readonly int64_t full


cdef class Actors:
    cdef readonly int64_t[::1] latest_start
    cdef int64_t[::1] phase, lacking, stack
    cdef public int64_t[::1] quota, record_at, record
    cdef public int64_t[::1] cause_bits, cause_at, cause_shift, causes


@cython.locals(actor=int64_t, port=int64_t)
cpdef void begin(Wiring wiring, Queues queues, Actors actors)

@cython.locals(channel=int64_t, needed=int64_t)
cdef void need_next(
    Wiring wiring, Queues queues, Actors actors, int64_t actor, int64_t port, int64_t phase
) noexcept

@cython.locals(
    left=int64_t, i=int64_t, actor=int64_t, burst=int64_t, depth=int64_t, below=int64_t
)
cpdef int64_t advance(Wiring wiring, Queues queues, Actors actors, int64_t fuel)

cdef int64_t push(Actors actors, int64_t depth, int64_t actor) noexcept

cdef bint is_enabled(Actors actors, int64_t actor) noexcept

@cython.locals(
    phase=int64_t, following=int64_t, start=int64_t, cause=int64_t, port=int64_t,
    channel=int64_t, time=int64_t, end=int64_t, made=int64_t, lacked=cython.bint,
    follower=int64_t,
)
cdef int64_t fire(
    Wiring wiring, Queues queues, Actors actors, int64_t actor, int64_t depth
) noexcept

@cython.locals(bits=int64_t, shift=int64_t)
cdef void note(Actors actors, int64_t actor, int64_t start, int64_t cause) noexcept

@cython.locals(size=int64_t, entry=int64_t, base=int64_t, time=int64_t)
cdef int64_t take(Queues queues, int64_t channel, int64_t needed) noexcept

@cython.locals(size=int64_t, base=int64_t, tail=int64_t, newest=int64_t)
cdef void put(Queues queues, int64_t channel, int64_t made, int64_t end) noexcept

@cython.locals(
    room=int64_t, written=int64_t, actor=int64_t, channel=int64_t, entry=int64_t, _=int64_t,
    at=int64_t,
)
cpdef int64_t pack_state(
    Queues queues, Actors actors, int64_t origin, int64_t[::1] state
)
