"""Times of the stages in which pipelined processes read and write FIFOs: one call of a whole design.

A process executes its stages in order, in at least one cycle each. All accesses of a stage happen in
the first cycle in which all of them can: a word that is read was written at least `latency` cycles
before, and a written word takes the space of a word that was read at least a cycle before.

The accesses of a process are tracks. A track is a program of nested loops: EVENT executes a set of
accesses, BEGIN and END enclose a loop, STOP ends the track. Memory therefore does not depend on the
number of iterations. The next stage of a process is the earliest event of its tracks. A process runs
until the time of a word or of a space is not known yet; then the process at the other end of the FIFO
continues. The times are the least solution of a (max, +) system (Baccelli, Cohen, Olsder, Quadrat,
Synchronization and Linearity, 1992), so the order in which processes run has no effect.

If a state recurs (the same positions in all programs, and the same times except for a shift), its
period is skipped as often as all loops allow, so steady parts cost no time. Snapshots for the
comparison are kept for windows of doubling length (Brent's cycle detection).

Each time has a reason: sets, as 62 bits of an integer, of the FIFOs whose space was waited for, of the
FIFOs in memory whose word was waited for, and of the processes on the longest path.
"""

from __future__ import annotations

EVENT, BEGIN, END, STOP = 0, 1, 2, 3  # operations of a track
# Kinds of access. A read may be stretched over several stages: its word has to be there at NEED, and
# its space is free after RELEASE. READ is both in one stage.
READ, NEED, RELEASE, WRITE = 0, 1, 2, 3
DONE, STUCK, PAUSED, LATE = 0, 1, 2, 3
FAR = 2**60  # the stage of a track that has ended
NOWHERE = -1  # instead of a process, a FIFO, a record or a time


class Programs:
    """The processes of a design and their FIFOs: P processes, T tracks, F FIFOs.

    track_start: (P + 1,) the tracks of process p are track_start[p] : track_start[p + 1]. first: (T,)
    first operation of each track. operation: EVENT, BEGIN, END or STOP. gap: stages from the preceding
    operation. argument: the set of an EVENT, the iterations of a BEGIN, the index of the BEGIN of an
    END. set_start: the accesses of set n are set_start[n] : set_start[n + 1]; fifo, kind: of each
    access, each pair once in a set. stages: (P,) the last stage. after_start, after: likewise the
    processes that have to end before a process begins. writer, reader: (F,) processes. process_bit:
    (P,), fifo_bit: (F,) sets of one element.
    """

    def __init__(self, columns, array):
        """Copy the columns. array: makes a sequence of the kernel's kind."""
        self.track_start = array(columns.track_start)
        self.first = array(columns.first)
        self.operation = array(columns.operation)
        self.gap = array(columns.gap)
        self.argument = array(columns.argument)
        self.set_start = array(columns.set_start)
        self.fifo = array(columns.fifo)
        self.kind = array(columns.kind)
        self.stages = array(columns.stages)
        self.after_start = array(columns.after_start)
        self.after = array(columns.after)
        self.writer = array(columns.writer)
        self.reader = array(columns.reader)
        self.process_bit = array(columns.process_bit)
        self.fifo_bit = array(columns.fifo_bit)


class Fifos:
    """Depths of the FIFOs.

    is_bounded: (F,) whether a write may wait. latency: (F,) cycles from a write to its read. ring,
    length: (F,) begin and length of the ring of the FIFO in the arrays of words. size: (F,) the depth
    if bounded, else the length. The length exceeds the size only if the times of all words are kept.
    """

    def __init__(self, columns, array):
        """Copy the columns. array: makes a sequence of the kernel's kind."""
        self.is_bounded = array(columns.is_bounded)
        self.latency = array(columns.latency)
        self.ring = array(columns.ring)
        self.size = array(columns.size)
        self.length = array(columns.length)


class Times:
    """Times and their reasons: time n has the sets space[n], memory[n] and process[n].

    record: the last record on the path of each time.
    """

    def __init__(self, count, blank):
        """Begin with zeros. blank: makes this many."""
        self.time = blank(count)
        self.space = blank(count)
        self.memory = blank(count)
        self.process = blank(count)
        self.record = blank(count)


class Words:
    """The words that passed each FIFO, and the times of the words in its ring.

    written, needed, released: (F,) words so far; *_at: (F,) the position of the next word in the ring.
    was_full: (F,) whether a write waited for space. writes, reads: times of each word in a ring.
    """

    def __init__(self, fifos, words, blank):
        """Begin with no words. fifos: their number. words: the length of all rings."""
        self.written = blank(fifos)
        self.needed = blank(fifos)
        self.released = blank(fifos)
        self.written_at = blank(fifos)
        self.needed_at = blank(fifos)
        self.released_at = blank(fifos)
        self.was_full = blank(fifos)
        self.writes = Times(words, blank)
        self.reads = Times(words, blank)


class Progress:
    """Progress of the processes of a call.

    last: (P,) time of the last stage with an access; stage: (P,) its number. end: (P,) the last cycle,
    NOWHERE before it is known. blocked, blocked_kind: (P,) the FIFO that the process waits for, and the
    kind of access, or NOWHERE.

    resume: (T,) the operation after the next event of a track; position, pending: (T,) the stage and
    the set of this event. counter: (operations,) iterations left of each BEGIN; entered: how often each
    loop began. queue, is_queued: (P,) a ring of processes that can continue, from `head` on, `waiting`
    in number. events: stages with accesses so far; goal: events at which the run pauses. limit: of
    cycles. late: a process that will end after the limit, or NOWHERE. cause: see `ready_time`.
    """

    def __init__(self, sizes, words, blank, array):
        """Begin with all processes in the queue. sizes: number of processes, tracks and operations."""
        processes, tracks, operations = sizes
        self.words = words
        self.last = Times(processes, blank)
        self.last.record = array([NOWHERE] * processes)
        self.stage = blank(processes)
        self.end = array([NOWHERE] * processes)
        self.is_started = blank(processes)
        self.blocked = array([NOWHERE] * processes)
        self.blocked_kind = array([NOWHERE] * processes)
        self.resume = blank(tracks)
        self.position = blank(tracks)
        self.pending = blank(tracks)
        self.counter = blank(operations)
        self.entered = blank(operations)
        self.queue = array(range(processes))
        self.is_queued = array([1] * processes)
        self.head = 0
        self.waiting = processes
        self.finished = 0
        self.events = 0
        self.goal = 0
        self.limit = FAR
        self.late = NOWHERE
        self.cause = NOWHERE
        self.cause_kind = NOWHERE
        self.cause_word = NOWHERE


class Records:
    """The last waits that decided a time: process, time, FIFO, kind of access, and preceding wait.

    room: number of waits that are kept, 0 for none. Wait n is at index n % room.
    """

    def __init__(self, room, blank):
        """Begin without waits."""
        self.room = room
        self.process = blank(room)
        self.time = blank(room)
        self.fifo = blank(room)
        self.kind = blank(room)
        self.before = blank(room)
        self.count = 0


class Snapshot:
    """The state after an event of one process, the anchor; kept until it recurs or its window ends.

    The snapshot has the first words of the arrays of words. If words pass a FIFO beyond them, the
    states differ.

    is_on: whether states are compared at all. then: the progress at the snapshot, with the queue from
    index 0 on.
    """

    def __init__(self, is_on, then):
        """Begin without a state, in the arrays of this progress."""
        self.is_on = is_on
        self.then = then
        self.anchor = NOWHERE
        self.anchor_resume = NOWHERE
        # A window in events: an event takes about 16 times as long as the copy of a number.
        numbers = 8 * len(self.then.words.writes.time) + 5 * len(self.then.words.written)
        numbers += (
            2 * len(self.then.counter) + 3 * len(self.then.resume) + 10 * len(self.then.stage)
        )
        self.window = max(16, numbers // 16)
        self.skipped = 0


def advance(programs, fifos, records, snapshot, run, fuel):
    """Continue the call; return DONE, STUCK in a deadlock, or PAUSED after `fuel` stages with accesses.

    LATE: process `run.late` will end after the limit.
    """
    processes = len(run.stage)
    run.goal = run.events + fuel
    while run.waiting > 0:
        # Worklist iteration to the least fixed point of the max-plus system, in any order.
        process = run.queue[run.head]
        run.head = (run.head + 1) % processes
        run.waiting -= 1
        run.is_queued[process] = 0
        if run.is_started[process] == 0 and start(programs, records, run, process) == 0:
            continue
        proceed(programs, fifos, records, snapshot, run, process)
        if run.late != NOWHERE:
            return LATE
        if run.events >= run.goal:
            return PAUSED
    return DONE if run.finished == processes else STUCK


def enqueue(run, process):
    """Queue a process, unless it is queued or has ended."""
    if run.is_queued[process] == 0 and run.end[process] == NOWHERE:
        run.is_queued[process] = 1
        run.queue[(run.head + run.waiting) % len(run.stage)] = process
        run.waiting += 1


def copy_reasons(source, origin, target, index):
    """Give a time the reasons of another time."""
    target.space[index] = source.space[origin]
    target.memory[index] = source.memory[origin]
    target.process[index] = source.process[origin]
    target.record[index] = source.record[origin]


def has_reasons(times, index, other, other_index):
    """Whether two times have the same reasons, except for records."""
    return (
        times.space[index] == other.space[other_index]
        and times.memory[index] == other.memory[other_index]
        and times.process[index] == other.process[other_index]
    )


def start(programs, records, run, process):
    """Begin a process once its predecessors have ended; return whether it has begun."""
    begin = 0
    latest = NOWHERE
    for entry in range(programs.after_start[process], programs.after_start[process + 1]):
        peer = programs.after[entry]
        if run.end[peer] == NOWHERE:
            return 0
        # A process begins after its latest predecessor, from which it inherits the sets.
        if run.end[peer] + 1 > begin:
            begin = run.end[peer] + 1
            latest = peer
    run.is_started[process] = 1
    run.last.time[process] = begin
    if latest != NOWHERE:
        copy_reasons(run.last, latest, run.last, process)
        record_wait(records, run, process, NOWHERE, NOWHERE)
    run.last.process[process] |= programs.process_bit[process]
    if begin + programs.stages[process] > run.limit:
        run.late = process
    for track in range(programs.track_start[process], programs.track_start[process + 1]):
        run.resume[track] = programs.first[track]
        go_to_next_event(programs, run, track)
    return 1


def record_wait(records, run, process, fifo, kind):
    """Record the wait that decided the time of a process."""
    if records.room == 0:
        return
    index = records.count % records.room
    records.process[index] = process
    records.time[index] = run.last.time[process]
    records.fifo[index] = fifo
    records.kind[index] = kind
    records.before[index] = run.last.record[process]
    run.last.record[process] = records.count
    records.count += 1


def go_to_next_event(programs, run, track):
    """Go to the next event of a track."""
    operation = run.resume[track]
    position = run.position[track]
    while True:
        code = programs.operation[operation]
        if code == STOP:
            position = FAR
            break
        position += programs.gap[operation]
        if code == EVENT:
            run.pending[track] = programs.argument[operation]
            operation += 1
            break
        if code == BEGIN:
            run.counter[operation] = programs.argument[operation]
            run.entered[operation] += 1
            operation += 1
            continue
        begin = programs.argument[operation]
        # END of a loop: jump back to its body while iterations are left.
        run.counter[begin] -= 1
        operation = begin + 1 if run.counter[begin] > 0 else operation + 1
    run.resume[track] = operation
    run.position[track] = position


def proceed(programs, fifos, records, snapshot, run, process):
    """Execute stages of a process until it is blocked, ends, or `run.events` reaches the goal.

    A process is blocked if the time of a word or a space that it waits for is not known.
    """
    first_track = programs.track_start[process]
    last_track = programs.track_start[process + 1]
    while run.events < run.goal:
        # The next stage of a process is the nearest event of its tracks.
        following = FAR
        for track in range(first_track, last_track):
            following = min(following, run.position[track])
        if following == FAR:
            run.end[process] = (
                run.last.time[process] + programs.stages[process] - run.stage[process]
            )
            run.finished += 1
            for peer in range(len(run.stage)):
                if run.is_started[peer] == 0:
                    enqueue(run, peer)
            return
        ready = ready_time(programs, fifos, run, process, following)
        if ready == NOWHERE:
            return
        run.last.time[process] = ready
        run.stage[process] = following
        run.events += 1
        if run.cause != NOWHERE:
            if run.cause_kind == WRITE:
                copy_reasons(run.words.reads, run.cause_word, run.last, process)
                run.last.space[process] |= programs.fifo_bit[run.cause]
            else:
                copy_reasons(run.words.writes, run.cause_word, run.last, process)
                if fifos.latency[run.cause] > 1:
                    run.last.memory[process] |= programs.fifo_bit[run.cause]
            run.last.process[process] |= programs.process_bit[process]
            record_wait(records, run, process, run.cause, run.cause_kind)
            if ready + programs.stages[process] - following > run.limit:
                run.late = process
                return
        for track in range(first_track, last_track):
            if run.position[track] == following:
                publish(programs, fifos, run, process, run.pending[track])
                go_to_next_event(programs, run, track)
        if snapshot.is_on:
            compare(programs, fifos, snapshot, run, process)
    enqueue(run, process)


def ready_time(programs, fifos, run, process, following):
    """Return the first cycle in which all accesses of the following stage can happen.

    NOWHERE if the process is blocked. `run.cause` is the FIFO that decides the cycle, with the kind of
    access and the word in the rings; NOWHERE if no FIFO delays the stage.
    """
    words = run.words
    begin = run.last.time[process] + following - run.stage[process]
    ready = begin
    run.cause = NOWHERE
    for track in range(programs.track_start[process], programs.track_start[process + 1]):
        if run.position[track] != following:
            continue
        pending = run.pending[track]
        for entry in range(programs.set_start[pending], programs.set_start[pending + 1]):
            fifo = programs.fifo[entry]
            kind = programs.kind[entry]
            if kind == RELEASE:
                continue
            if kind == WRITE:
                if fifos.is_bounded[fifo] == 0 or words.written[fifo] < fifos.size[fifo]:
                    continue
                # A bounded FIFO: the write reuses the position of an earlier word, and blocks
                # until the time of the read of that word is known.
                is_blocked = words.written[fifo] - fifos.size[fifo] >= words.released[fifo]
            else:
                is_blocked = words.needed[fifo] >= words.written[fifo]
            if is_blocked:
                run.blocked[process] = fifo
                run.blocked_kind[process] = kind
                return NOWHERE
            if kind == WRITE:
                word = words.written_at[fifo] - fifos.size[fifo]
                word += fifos.ring[fifo] if word >= 0 else fifos.ring[fifo] + fifos.length[fifo]
                time = words.reads.time[word] + 1
                if time > begin:
                    words.was_full[fifo] = 1
            else:
                # A read follows the write of its word by the latency of the FIFO.
                word = fifos.ring[fifo] + words.needed_at[fifo]
                time = words.writes.time[word] + fifos.latency[fifo]
            if time > ready:
                ready = time
                run.cause = fifo
                run.cause_kind = kind
                run.cause_word = word
    return ready


def publish(programs, fifos, run, process, accesses):
    """Write the time of a stage to the FIFOs of a set of accesses, and wake blocked processes."""
    words = run.words
    for entry in range(programs.set_start[accesses], programs.set_start[accesses + 1]):
        fifo = programs.fifo[entry]
        kind = programs.kind[entry]
        last = fifos.length[fifo] - 1
        peer = NOWHERE
        if kind == WRITE:
            index = words.written_at[fifo]
            words.written_at[fifo] = index + 1 if index < last else 0
            words.written[fifo] += 1
            words.writes.time[fifos.ring[fifo] + index] = run.last.time[process]
            copy_reasons(run.last, process, words.writes, fifos.ring[fifo] + index)
            peer = programs.reader[fifo]
        else:
            if kind != RELEASE:
                index = words.needed_at[fifo]
                words.needed_at[fifo] = index + 1 if index < last else 0
                words.needed[fifo] += 1
            if kind != NEED:
                index = words.released_at[fifo]
                words.released_at[fifo] = index + 1 if index < last else 0
                words.released[fifo] += 1
                words.reads.time[fifos.ring[fifo] + index] = run.last.time[process]
                copy_reasons(run.last, process, words.reads, fifos.ring[fifo] + index)
                peer = programs.writer[fifo]
        if peer != NOWHERE and run.blocked[peer] == fifo:
            run.blocked[peer] = NOWHERE
            enqueue(run, peer)


def compare(programs, fifos, snapshot, run, process):
    """Compare the state after an event of a process with the snapshot.

    If the state recurs, periods are skipped; if the window has ended, a new snapshot is taken.
    """
    resume = run.resume[programs.track_start[process]]
    if snapshot.anchor == NOWHERE or run.events - snapshot.then.events > snapshot.window:
        if snapshot.anchor != NOWHERE:
            # Brent's method: windows of doubling length detect a period of any length.
            snapshot.window *= 2
        snapshot.anchor = process
        snapshot.anchor_resume = resume
        take(snapshot.then, run)
    elif process == snapshot.anchor and resume == snapshot.anchor_resume:
        periods = recurrence(programs, fifos, snapshot, run)
        if periods > 0:
            skip(programs, fifos, snapshot, run, periods)


def copy(source, target):
    """Copy the first numbers of an array, as many as the target has."""
    for index in range(len(target)):
        target[index] = source[index]


def copy_times(source, target):
    """Copy the first times and their sets, as many as the target has."""
    copy(source.time, target.time)
    copy(source.space, target.space)
    copy(source.memory, target.memory)
    copy(source.process, target.process)


def take(then, run):
    """Keep the state as the progress of a snapshot."""
    then.events = run.events
    then.waiting = run.waiting
    copy_times(run.last, then.last)
    copy(run.stage, then.stage)
    copy(run.end, then.end)
    copy(run.is_started, then.is_started)
    copy(run.blocked, then.blocked)
    copy(run.is_queued, then.is_queued)
    for index in range(len(run.queue)):
        then.queue[index] = run.queue[(run.head + index) % len(run.queue)]
    copy(run.resume, then.resume)
    copy(run.position, then.position)
    copy(run.pending, then.pending)
    copy(run.counter, then.counter)
    copy(run.entered, then.entered)
    copy(run.words.written, then.words.written)
    copy(run.words.needed, then.words.needed)
    copy(run.words.released, then.words.released)
    copy(run.words.written_at, then.words.written_at)
    copy(run.words.released_at, then.words.released_at)
    copy_times(run.words.writes, then.words.writes)
    copy_times(run.words.reads, then.words.reads)


def recurrence(programs, fifos, snapshot, run):
    """Return the number of periods since the snapshot that may be skipped; 0 if the states differ."""
    then = snapshot.then
    words = run.words
    shift = run.last.time[snapshot.anchor] - then.last.time[snapshot.anchor]
    periods = FAR
    if run.waiting != then.waiting:
        return 0
    for operation in range(len(run.counter)):
        # A loop limits the number of skipped periods: its counter has to stay positive.
        rounds = then.counter[operation] - run.counter[operation]
        if rounds == 0:
            continue
        if rounds < 0 or run.entered[operation] != then.entered[operation]:
            return 0
        periods = min(periods, (run.counter[operation] - 1) // rounds)
    for process in range(len(run.stage)):
        if is_process_shifted(programs, then, run, process, shift) == 0:
            return 0
    for fifo in range(len(words.written)):
        if periods < 1:
            return 0
        written = words.written[fifo] - then.words.written[fifo]
        needed = words.needed[fifo] - then.words.needed[fifo]
        # Needed but unreleased words differ from the snapshot: not the same state.
        if needed != words.released[fifo] - then.words.released[fifo]:
            return 0
        if written == 0 and needed == 0:
            continue
        last = fifos.size[fifo] - 1
        if written == needed:
            if is_fifo_shifted(programs, fifos, then, run, fifo, shift) == 0:
                return 0
            if fifos.is_bounded[fifo] == 0:  # the ring has a position for each word of the call
                periods = min(periods, (last - words.written[fifo]) // written)
            continue
        index = words.written_at[fifo] - 1 if words.written_at[fifo] > 0 else last
        readable = words.writes.time[fifos.ring[fifo] + index] + fifos.latency[fifo]
        if (
            written != 0
            or run.end[programs.writer[fifo]] == NOWHERE
            or readable > then.last.time[programs.reader[fifo]]
        ):
            return 0
        # All words were readable before the snapshot: the reader never waits for them.
        periods = min(periods, (words.written[fifo] - words.needed[fifo]) // needed)
    return periods


def is_process_shifted(programs, then, run, process, shift):
    """Whether a process is in the state of the snapshot, at the same time or later by the shift."""
    if (
        run.end[process] != then.end[process]
        or run.is_started[process] != then.is_started[process]
        or run.blocked[process] != then.blocked[process]
        or run.is_queued[process] != then.is_queued[process]
    ):
        return 0
    if (
        process < run.waiting
        and run.queue[(run.head + process) % len(run.queue)] != then.queue[process]
    ):
        return 0
    stages = run.stage[process] - then.stage[process]
    if stages == 0:
        return run.last.time[process] == then.last.time[process]
    if run.last.time[process] - then.last.time[process] != shift:
        return 0
    if has_reasons(run.last, process, then.last, process) == 0:
        return 0
    for track in range(programs.track_start[process], programs.track_start[process + 1]):
        if run.resume[track] != then.resume[track] or run.pending[track] != then.pending[track]:
            return 0
        if run.position[track] != then.position[track] + stages and (
            run.position[track] != FAR or then.position[track] != FAR
        ):
            return 0
    return 1


def is_fifo_shifted(programs, fifos, then, run, fifo, shift):
    """Whether the times in a FIFO that may decide later times are those of the snapshot, shifted."""
    size = fifos.size[fifo]
    ring = fifos.ring[fifo]
    words = run.words
    if ring + size > len(then.words.writes.time):
        return 0
    peer = programs.reader[fifo]
    for back in range(1, words.written[fifo] - words.needed[fifo] + 1):
        index = ring + (words.written_at[fifo] - back) % size
        former = ring + (then.words.written_at[fifo] - back) % size
        time = words.writes.time[index]
        former_time = then.words.writes.time[former]
        if time == former_time + shift and has_reasons(
            words.writes, index, then.words.writes, former
        ):
            continue
        # A time that differs is harmless if the word was readable before both states.
        if (
            time + fifos.latency[fifo] > run.last.time[peer]
            or former_time + fifos.latency[fifo] > then.last.time[peer]
        ):
            return 0
    if fifos.is_bounded[fifo] == 0:
        return 1
    if then.words.written[fifo] < size:
        return 0
    peer = programs.writer[fifo]
    for back in range(1, words.released[fifo] - words.written[fifo] + size + 1):
        index = ring + (words.released_at[fifo] - back) % size
        former = ring + (then.words.released_at[fifo] - back) % size
        time = words.reads.time[index]
        former_time = then.words.reads.time[former]
        if time == former_time + shift and has_reasons(
            words.reads, index, then.words.reads, former
        ):
            continue
        # Likewise if the space was free before both states.
        if time + 1 > run.last.time[peer] or former_time + 1 > then.last.time[peer]:
            return 0
    return 1


def skip(programs, fifos, snapshot, run, periods):
    """Repeat the events since the snapshot this number of times, without executing them."""
    then = snapshot.then
    words = run.words
    shift = periods * (run.last.time[snapshot.anchor] - then.last.time[snapshot.anchor])
    for process in range(len(run.stage)):
        stages = run.stage[process] - then.stage[process]
        if stages == 0:
            continue
        run.last.time[process] += shift
        run.stage[process] += periods * stages
        for track in range(programs.track_start[process], programs.track_start[process + 1]):
            if run.position[track] != FAR:
                run.position[track] += periods * stages
    for operation in range(len(run.counter)):
        run.counter[operation] -= periods * (then.counter[operation] - run.counter[operation])
    for fifo in range(len(words.written)):
        written = periods * (words.written[fifo] - then.words.written[fifo])
        needed = periods * (words.needed[fifo] - then.words.needed[fifo])
        size = fifos.size[fifo]
        ring = fifos.ring[fifo]
        if written == 0 and needed == 0:
            continue
        if written != 0 and fifos.is_bounded[fifo] == 0:
            for back in range(1, words.written[fifo] - words.needed[fifo] + 1):
                # The last index first: old and new positions may overlap.
                index = ring + words.written_at[fifo] - back
                words.writes.time[index + written] = words.writes.time[index] + shift
                copy_reasons(words.writes, index, words.writes, index + written)
            words.written_at[fifo] += written
        elif written != 0:  # words keep their positions in the ring, and their times shift
            for index in range(ring, ring + size):
                words.writes.time[index] += shift
                words.reads.time[index] += shift
        if written == 0 or fifos.is_bounded[fifo] == 0:
            words.needed_at[fifo] = (words.needed_at[fifo] + needed) % size
            words.released_at[fifo] = (words.released_at[fifo] + needed) % size
        words.written[fifo] += written
        words.needed[fifo] += needed
        words.released[fifo] += needed
    snapshot.anchor = NOWHERE
    snapshot.window *= 2  # the period of an outer loop is longer
    snapshot.skipped += periods
