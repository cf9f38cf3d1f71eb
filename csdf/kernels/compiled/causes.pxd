cimport cython
from libc.stdint cimport int64_t


cdef class SteadyPart:
    cdef int64_t time
    cdef int64_t[::1] firings, cause_words, cause_bits, per_word, cause_start, record, record_start
    cdef int64_t[::1] phases, duration_start, duration, input_start, input_channel
    cdef int64_t[::1] producer, initial_tokens, made_start, made, taken_start, taken


cdef class Walker:
    cdef readonly int64_t rounds, passed
    cdef int64_t actor, firing, now, channel


@cython.locals(
    actor=int64_t, firing=int64_t, bits=int64_t, per_word=int64_t, word=int64_t, cause=int64_t,
    source=int64_t, channel=int64_t, phase=int64_t, duration=int64_t,
)
cdef void step(SteadyPart part, Walker walker) noexcept

@cython.locals(
    producer=int64_t, phases=int64_t, at=int64_t, needed=int64_t, source=int64_t, earliest=int64_t
)
cdef int64_t maker(SteadyPart part, Walker walker, int64_t channel) noexcept

@cython.locals(
    base=int64_t, phases=int64_t, per_cycle=int64_t, cycles=int64_t, rest=int64_t,
    low=int64_t, high=int64_t, middle=int64_t,
)
cdef int64_t first_reaching(SteadyPart part, int64_t channel, int64_t tokens) noexcept

@cython.locals(
    producer=int64_t, phase=int64_t, at=int64_t, within=int64_t, rounds=int64_t,
    start=int64_t, duration=int64_t,
)
cdef bint ends_now(
    SteadyPart part, Walker walker, int64_t channel, int64_t firing
) noexcept

cdef bint is_met(Walker first, Walker second) noexcept

@cython.locals(power=int64_t, length=int64_t)
cpdef int64_t cycle_length(SteadyPart part, Walker walker, Walker waiting)

@cython.locals(_=int64_t, number=int64_t)
cpdef void go_round(
    SteadyPart part, Walker first, Walker second, int64_t length, int64_t[::1] actor_step,
    int64_t[::1] channel_step,
)
