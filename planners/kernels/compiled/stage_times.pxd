cimport cython
from libc.stdint cimport int64_t

cdef int64_t EVENT, BEGIN, END, STOP, READ, NEED, RELEASE, WRITE, DONE, STUCK, PAUSED, LATE, FAR
cdef int64_t NOWHERE


cdef class Programs:
    cdef int64_t[::1] track_start, first, operation, gap, argument, set_start, fifo, kind, stages
    cdef int64_t[::1] after_start, after, writer, reader, process_bit, fifo_bit


cdef class Fifos:
    cdef int64_t[::1] is_bounded, latency, size, length
    cdef readonly int64_t[::1] ring


cdef class Times:
    cdef readonly int64_t[::1] time, space, memory, process
    cdef public int64_t[::1] record


cdef class Words:
    cdef readonly int64_t[::1] written, released, was_full
    cdef int64_t[::1] needed, written_at, needed_at, released_at
    cdef readonly Times writes, reads


cdef class Progress:
    cdef readonly Words words
    cdef readonly Times last
    cdef readonly int64_t[::1] stage, end, blocked, blocked_kind
    cdef int64_t[::1] is_started, resume, position, pending, counter, entered, queue, is_queued
    cdef readonly int64_t events, late
    cdef public int64_t limit
    cdef int64_t head, waiting, finished, goal, cause, cause_kind, cause_word


cdef class Records:
    cdef readonly int64_t[::1] process, time, fifo, kind, before
    cdef readonly int64_t room, count


cdef class Snapshot:
    cdef Progress then
    cdef int64_t is_on, anchor, anchor_resume, window
    cdef readonly int64_t skipped


@cython.locals(processes=int64_t, process=int64_t)
cpdef int64_t advance(
    Programs programs, Fifos fifos, Records records, Snapshot snapshot, Progress run, int64_t fuel
)

cdef void enqueue(Progress run, int64_t process) noexcept

cdef void copy_reasons(Times source, int64_t origin, Times target, int64_t index) noexcept

cdef bint has_reasons(Times times, int64_t index, Times other, int64_t other_index) noexcept

@cython.locals(begin=int64_t, latest=int64_t, entry=int64_t, peer=int64_t, track=int64_t)
cdef int64_t start(Programs programs, Records records, Progress run, int64_t process) noexcept

@cython.locals(index=int64_t)
cdef void record_wait(
    Records records, Progress run, int64_t process, int64_t fifo, int64_t kind
) noexcept

@cython.locals(operation=int64_t, position=int64_t, code=int64_t, begin=int64_t)
cdef void go_to_next_event(Programs programs, Progress run, int64_t track) noexcept

@cython.locals(
    first_track=int64_t, last_track=int64_t, following=int64_t, track=int64_t, peer=int64_t,
    ready=int64_t,
)
cdef void proceed(
    Programs programs, Fifos fifos, Records records, Snapshot snapshot, Progress run,
    int64_t process,
) noexcept

@cython.locals(
    words=Words, begin=int64_t, ready=int64_t, track=int64_t, pending=int64_t, entry=int64_t,
    fifo=int64_t, kind=int64_t, is_blocked=bint, word=int64_t, time=int64_t,
)
cdef int64_t ready_time(
    Programs programs, Fifos fifos, Progress run, int64_t process, int64_t following
) noexcept

@cython.locals(
    words=Words, entry=int64_t, fifo=int64_t, kind=int64_t, last=int64_t, index=int64_t,
    peer=int64_t,
)
cdef void publish(
    Programs programs, Fifos fifos, Progress run, int64_t process, int64_t accesses
) noexcept

@cython.locals(resume=int64_t, periods=int64_t)
cdef void compare(
    Programs programs, Fifos fifos, Snapshot snapshot, Progress run, int64_t process
) noexcept

@cython.locals(index=int64_t)
cdef void copy(int64_t[::1] source, int64_t[::1] target) noexcept

cdef void copy_times(Times source, Times target) noexcept

@cython.locals(index=int64_t)
cdef void take(Progress then, Progress run) noexcept

@cython.locals(
    then=Progress, words=Words, shift=int64_t, periods=int64_t, process=int64_t,
    operation=int64_t, rounds=int64_t, fifo=int64_t, written=int64_t, needed=int64_t,
    last=int64_t, index=int64_t, readable=int64_t,
)
cdef int64_t recurrence(
    Programs programs, Fifos fifos, Snapshot snapshot, Progress run
) noexcept

@cython.locals(stages=int64_t, track=int64_t)
cdef bint is_process_shifted(
    Programs programs, Progress then, Progress run, int64_t process, int64_t shift
) noexcept

@cython.locals(
    size=int64_t, ring=int64_t, words=Words, peer=int64_t, back=int64_t, index=int64_t,
    former=int64_t, time=int64_t, former_time=int64_t,
)
cdef bint is_fifo_shifted(
    Programs programs, Fifos fifos, Progress then, Progress run, int64_t fifo, int64_t shift
) noexcept

@cython.locals(
    then=Progress, words=Words, shift=int64_t, process=int64_t, stages=int64_t, track=int64_t,
    operation=int64_t, fifo=int64_t, written=int64_t, needed=int64_t, size=int64_t,
    ring=int64_t, back=int64_t, index=int64_t,
)
cdef void skip(
    Programs programs, Fifos fifos, Snapshot snapshot, Progress run, int64_t periods
) noexcept
