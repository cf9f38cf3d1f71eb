cimport cython
from libc.stdint cimport int64_t

cdef int64_t EVENT, BEGIN, END, STOP, READ, NEED, RELEASE, WRITE, DONE, STUCK, PAUSED, LATE, FAR
cdef int64_t NOWHERE


cdef class Programs:
    cdef int64_t[::1] track_start, first, operation, gap, argument, set_start, fifo, kind, stages
    cdef int64_t[::1] after_start, after, writer, reader, process_bit, space_bit, memory_bit


cdef class Fifos:
    cdef int64_t[::1] is_bounded, latency, ring, size, length, written, needed, released, written_at
    cdef int64_t[::1] needed_at, released_at, was_full
    cdef int64_t[::1] write_time, write_space, write_memory, write_process, write_record
    cdef int64_t[::1] read_time, read_space, read_memory, read_process, read_record


cdef class Records:
    cdef int64_t[::1] process, time, fifo, kind, before
    cdef int64_t room
    cdef readonly int64_t count


cdef class Snapshot:
    cdef int64_t[::1] time, stage, end, is_started, space, memory, process, blocked, is_queued
    cdef int64_t[::1] queue, pc, position, pending, counter, entered, entered_then, written
    cdef int64_t[::1] needed, released, written_at, released_at, write_time, write_space
    cdef int64_t[::1] write_memory, write_process, read_time, read_space, read_memory
    cdef int64_t[::1] read_process
    cdef int64_t is_on, anchor, anchor_pc, taken_at, waiting, window
    cdef readonly int64_t skipped


cdef class ProcessProgress:
    cdef int64_t[::1] time, stage, end, is_started, space, memory, process, record, blocked
    cdef int64_t[::1] blocked_kind, pc, position, pending, counter, queue, is_queued
    cdef public int64_t head, waiting, finished, events, limit, late


@cython.locals(processes=int64_t, goal=int64_t, process=int64_t)
cpdef int64_t advance(
    Programs programs, Fifos fifos, Records records, Snapshot snapshot, ProcessProgress run, int64_t fuel
)

@cython.locals(processes=int64_t)
cdef void call(ProcessProgress run, int64_t process) noexcept

@cython.locals(begin=int64_t, last=int64_t, entry=int64_t, peer=int64_t, track=int64_t)
cdef int64_t start(
    Programs programs, Records records, Snapshot snapshot, ProcessProgress run, int64_t process
) noexcept

@cython.locals(at=int64_t)
cdef void note(
    Records records, ProcessProgress run, int64_t process, int64_t fifo, int64_t kind
) noexcept

@cython.locals(pc=int64_t, position=int64_t, operation=int64_t, begin=int64_t)
cdef void step(Programs programs, Snapshot snapshot, ProcessProgress run, int64_t track) noexcept

@cython.locals(
    first_track=int64_t, last_track=int64_t, bit=int64_t, following=int64_t, track=int64_t,
    peer=int64_t, begin=int64_t, ready=int64_t, space=int64_t, memory=int64_t, on_path=int64_t,
    cause=int64_t, cause_kind=int64_t, record=int64_t, pending=int64_t, entry=int64_t,
    fifo=int64_t, kind=int64_t, at=int64_t, time=int64_t,
)
cdef void proceed(
    Programs programs, Fifos fifos, Records records, Snapshot snapshot, ProcessProgress run,
    int64_t process, int64_t goal,
) noexcept

@cython.locals(
    time=int64_t, entry=int64_t, fifo=int64_t, kind=int64_t, last=int64_t, at=int64_t,
    peer=int64_t,
)
cdef void publish(
    Programs programs, Fifos fifos, ProcessProgress run, int64_t process, int64_t accesses
) noexcept

@cython.locals(periods=int64_t)
cdef void compare(
    Programs programs, Fifos fifos, Snapshot snapshot, ProcessProgress run, int64_t process,
    int64_t track,
) noexcept

@cython.locals(index=int64_t, track=int64_t, operation=int64_t, fifo=int64_t, at=int64_t)
cdef void take(
    Fifos fifos, Snapshot snapshot, ProcessProgress run, int64_t process, int64_t pc
) noexcept

@cython.locals(
    shift=int64_t, periods=int64_t, index=int64_t, stages=int64_t, track=int64_t, operation=int64_t,
    rounds=int64_t, fifo=int64_t, written=int64_t, needed=int64_t, released=int64_t,
    reader=int64_t, last=int64_t, at=int64_t,
)
cdef int64_t recurrence(
    Programs programs, Fifos fifos, Snapshot snapshot, ProcessProgress run, int64_t anchor
) noexcept

@cython.locals(
    size=int64_t, ring=int64_t, reader=int64_t, writer=int64_t, back=int64_t, now=int64_t,
    then=int64_t,
)
cdef int64_t is_shifted(
    Programs programs, Fifos fifos, Snapshot snapshot, ProcessProgress run, int64_t fifo, int64_t shift
) noexcept

@cython.locals(
    shift=int64_t, index=int64_t, stages=int64_t, track=int64_t, operation=int64_t, fifo=int64_t,
    written=int64_t, needed=int64_t, size=int64_t, ring=int64_t, back=int64_t, now=int64_t,
    at=int64_t,
)
cdef void skip(
    Programs programs, Fifos fifos, Snapshot snapshot, ProcessProgress run, int64_t anchor, int64_t periods
) noexcept
