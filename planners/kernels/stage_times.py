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
    (P,), space_bit, memory_bit: (F,) sets of one element.
    """

    def __init__(
        self, track_start, first, operation, gap, argument, set_start, fifo, kind, stages,
        after_start, after, writer, reader, process_bit, space_bit, memory_bit,
    ):  # fmt: skip
        """Keep these arrays."""
        self.track_start = track_start
        self.first = first
        self.operation = operation
        self.gap = gap
        self.argument = argument
        self.set_start = set_start
        self.fifo = fifo
        self.kind = kind
        self.stages = stages
        self.after_start = after_start
        self.after = after
        self.writer = writer
        self.reader = reader
        self.process_bit = process_bit
        self.space_bit = space_bit
        self.memory_bit = memory_bit


class Fifos:
    """Depths of the FIFOs, and the words that passed each FIFO.

    is_bounded: (F,) whether a write may wait. latency: (F,) cycles from a write to its read. ring,
    length: (F,) begin and length of the ring of the FIFO in the arrays of words. size: (F,) the depth
    if bounded, else the length. The length exceeds the size only if the times of all words are kept.
    written, needed, released: (F,) words so far; *_at: (F,) the position of the next word in the ring.
    was_full: (F,) whether a write waited for space.

    write_time, read_time: of each word in a ring; *_space, *_memory, *_process: the reasons of the
    time, as sets; *_record: the last record on its path.
    """

    def __init__(
        self, is_bounded, latency, ring, size, length, counts, write_time, write_space, write_memory,
        write_process, write_record, read_time, read_space, read_memory, read_process, read_record,
    ):  # fmt: skip
        """Keep these arrays; counts: seven arrays of zeros for each FIFO."""
        self.is_bounded = is_bounded
        self.latency = latency
        self.ring = ring
        self.size = size
        self.length = length
        self.written = counts[0]
        self.needed = counts[1]
        self.released = counts[2]
        self.written_at = counts[3]
        self.needed_at = counts[4]
        self.released_at = counts[5]
        self.was_full = counts[6]
        self.write_time = write_time
        self.write_space = write_space
        self.write_memory = write_memory
        self.write_process = write_process
        self.write_record = write_record
        self.read_time = read_time
        self.read_space = read_space
        self.read_memory = read_memory
        self.read_process = read_process
        self.read_record = read_record


class Records:
    """The last waits that decided a time: process, time, FIFO, kind of access, and preceding wait.

    room: number of waits that are kept, 0 for none. Wait n is at index n % room.
    """

    def __init__(self, room, process, time, fifo, kind, before):
        """Keep these arrays."""
        self.room = room
        self.process = process
        self.time = time
        self.fifo = fifo
        self.kind = kind
        self.before = before
        self.count = 0


class Snapshot:
    """The state after an event of one process, the anchor; kept until it recurs or its window ends.

    The snapshot has the first words of the arrays of words. If words pass a FIFO beyond them, the
    states differ.

    is_on: whether states are compared at all. The arrays are copies of the arrays of ProcessProgress
    and Fifos by name. entered: (operations,) how often each loop began so far; entered_then: at the
    snapshot.
    """

    def __init__(
        self, is_on, time, stage, end, is_started, space, memory, process, blocked, is_queued, queue,
        pc, position, pending, counter, entered, entered_then, written, needed, released, written_at,
        released_at, write_time, write_space, write_memory, write_process, read_time, read_space,
        read_memory, read_process,
    ):  # fmt: skip
        """Keep these arrays, without a state."""
        self.is_on = is_on
        self.time = time
        self.stage = stage
        self.end = end
        self.is_started = is_started
        self.space = space
        self.memory = memory
        self.process = process
        self.blocked = blocked
        self.is_queued = is_queued
        self.queue = queue
        self.pc = pc
        self.position = position
        self.pending = pending
        self.counter = counter
        self.entered = entered
        self.entered_then = entered_then
        self.written = written
        self.needed = needed
        self.released = released
        self.written_at = written_at
        self.released_at = released_at
        self.write_time = write_time
        self.write_space = write_space
        self.write_memory = write_memory
        self.write_process = write_process
        self.read_time = read_time
        self.read_space = read_space
        self.read_memory = read_memory
        self.read_process = read_process
        self.anchor = NOWHERE
        self.anchor_pc = NOWHERE
        self.taken_at = 0
        self.waiting = 0
        # A window in events: an event takes about 16 times as long as the copy of a number.
        numbers = (
            8 * len(write_time) + 2 * len(counter) + 3 * len(pc) + 5 * len(written) + 10 * len(time)
        )
        self.window = max(16, numbers // 16)
        self.skipped = 0


class ProcessProgress:
    """Progress of the processes.

    time, stage: (P,) of the last stage with an access. end: (P,) the last cycle, NOWHERE before it is
    known. space, memory, process, record: (P,) the reasons of the time. blocked, blocked_kind: (P,) the
    FIFO that the process waits for, and the kind of access, or NOWHERE.

    pc: (T,) the operation after the next event of a track; position, pending: (T,) the stage and the
    set of this event. counter: (operations,) iterations left of each BEGIN. queue, is_queued: (P,) a
    ring of processes that can continue, from `head` on, `waiting` in number. events: stages with
    accesses so far. limit: of cycles. late: a process that will end after the limit, or NOWHERE.
    """

    def __init__(
        self, time, stage, end, is_started, space, memory, process, record, blocked, blocked_kind,
        pc, position, pending, counter, queue, is_queued,
    ):  # fmt: skip
        """Keep these arrays; the caller sets `waiting` to the number of queued processes."""
        self.time = time
        self.stage = stage
        self.end = end
        self.is_started = is_started
        self.space = space
        self.memory = memory
        self.process = process
        self.record = record
        self.blocked = blocked
        self.blocked_kind = blocked_kind
        self.pc = pc
        self.position = position
        self.pending = pending
        self.counter = counter
        self.queue = queue
        self.is_queued = is_queued
        self.head = 0
        self.waiting = 0
        self.finished = 0
        self.events = 0
        self.limit = FAR
        self.late = NOWHERE


def advance(programs, fifos, records, snapshot, run, fuel):
    """Continue the call; return DONE, STUCK in a deadlock, or PAUSED after `fuel` stages with accesses.

    LATE: process `run.late` will end after the limit.
    """
    processes = len(run.time)
    goal = run.events + fuel
    while run.waiting > 0:
        # Worklist iteration to the least fixed point of the max-plus system, in any order.
        process = run.queue[run.head]
        run.head = (run.head + 1) % processes
        run.waiting -= 1
        run.is_queued[process] = 0
        if run.is_started[process] == 0 and start(programs, records, snapshot, run, process) == 0:
            continue
        proceed(programs, fifos, records, snapshot, run, process, goal)
        if run.late != NOWHERE:
            return LATE
        if run.events >= goal:
            return PAUSED
    return DONE if run.finished == processes else STUCK


def call(run, process):
    """Queue a process, unless it is queued or has ended."""
    processes = len(run.time)
    if run.is_queued[process] == 0 and run.end[process] == NOWHERE:
        run.is_queued[process] = 1
        run.queue[(run.head + run.waiting) % processes] = process
        run.waiting += 1


def start(programs, records, snapshot, run, process):
    """Begin a process once its predecessors have ended; return whether it has begun."""
    begin = 0
    last = NOWHERE
    for entry in range(programs.after_start[process], programs.after_start[process + 1]):
        peer = programs.after[entry]
        if run.end[peer] == NOWHERE:
            return 0
        # A process begins after its latest predecessor, from which it inherits the sets.
        if run.end[peer] + 1 > begin:
            begin = run.end[peer] + 1
            last = peer
    run.is_started[process] = 1
    run.time[process] = begin
    run.process[process] = programs.process_bit[process]
    if last != NOWHERE:
        run.space[process] = run.space[last]
        run.memory[process] = run.memory[last]
        run.process[process] |= run.process[last]
        run.record[process] = run.record[last]
        note(records, run, process, NOWHERE, NOWHERE)
    if begin + programs.stages[process] > run.limit:
        run.late = process
    for track in range(programs.track_start[process], programs.track_start[process + 1]):
        run.pc[track] = programs.first[track]
        step(programs, snapshot, run, track)
    return 1


def note(records, run, process, fifo, kind):
    """Record the wait that decided the time of a process."""
    if records.room == 0:
        return
    at = records.count % records.room
    records.process[at] = process
    records.time[at] = run.time[process]
    records.fifo[at] = fifo
    records.kind[at] = kind
    records.before[at] = run.record[process]
    run.record[process] = records.count
    records.count += 1


def step(programs, snapshot, run, track):
    """Go to the next event of a track."""
    pc = run.pc[track]
    position = run.position[track]
    while True:
        operation = programs.operation[pc]
        if operation == STOP:
            position = FAR
            break
        position += programs.gap[pc]
        if operation == EVENT:
            run.pending[track] = programs.argument[pc]
            pc += 1
            break
        if operation == BEGIN:
            run.counter[pc] = programs.argument[pc]
            snapshot.entered[pc] += 1
            pc += 1
            continue
        begin = programs.argument[pc]
        # END of a loop: jump back to its body while iterations are left.
        run.counter[begin] -= 1
        pc = begin + 1 if run.counter[begin] > 0 else pc + 1
    run.pc[track] = pc
    run.position[track] = position


def proceed(programs, fifos, records, snapshot, run, process, goal):
    """Execute stages of a process until it is blocked, ends, or `run.events` reaches the goal.

    A process is blocked if the time of a word or a space that it waits for is not known.
    """
    first_track = programs.track_start[process]
    last_track = programs.track_start[process + 1]
    bit = programs.process_bit[process]
    while run.events < goal:
        # The next stage of a process is the nearest event of its tracks.
        following = FAR
        for track in range(first_track, last_track):
            following = min(following, run.position[track])
        if following == FAR:
            run.end[process] = run.time[process] + programs.stages[process] - run.stage[process]
            run.finished += 1
            for peer in range(len(run.time)):
                if run.is_started[peer] == 0:
                    call(run, peer)
            return
        begin = run.time[process] + following - run.stage[process]
        ready = begin
        space = run.space[process]
        memory = run.memory[process]
        on_path = run.process[process]
        cause = NOWHERE
        cause_kind = NOWHERE
        record = run.record[process]
        for track in range(first_track, last_track):
            if run.position[track] != following:
                continue
            pending = run.pending[track]
            for entry in range(programs.set_start[pending], programs.set_start[pending + 1]):
                fifo = programs.fifo[entry]
                kind = programs.kind[entry]
                if kind == WRITE:
                    if fifos.is_bounded[fifo] == 0 or fifos.written[fifo] < fifos.size[fifo]:
                        continue
                    # A bounded FIFO: the write reuses the position of an earlier word, and blocks
                    # until the time of the read of that word is known.
                    if fifos.written[fifo] - fifos.size[fifo] >= fifos.released[fifo]:
                        run.blocked[process] = fifo
                        run.blocked_kind[process] = kind
                        return
                    at = fifos.written_at[fifo] - fifos.size[fifo]
                    at += fifos.ring[fifo] if at >= 0 else fifos.ring[fifo] + fifos.length[fifo]
                    time = fifos.read_time[at] + 1
                    if time > begin:
                        fifos.was_full[fifo] = 1
                    if time > ready:
                        ready = time
                        space = fifos.read_space[at] | programs.space_bit[fifo]
                        memory = fifos.read_memory[at]
                        on_path = fifos.read_process[at]
                        record = fifos.read_record[at]
                        cause = fifo
                        cause_kind = kind
                elif kind != RELEASE:
                    if fifos.needed[fifo] >= fifos.written[fifo]:
                        run.blocked[process] = fifo
                        run.blocked_kind[process] = kind
                        return
                    at = fifos.ring[fifo] + fifos.needed_at[fifo]
                    # A read follows the write of its word by the latency of the FIFO.
                    time = fifos.write_time[at] + fifos.latency[fifo]
                    if time > ready:
                        ready = time
                        space = fifos.write_space[at]
                        memory = fifos.write_memory[at]
                        if fifos.latency[fifo] > 1:
                            memory |= programs.memory_bit[fifo]
                        on_path = fifos.write_process[at]
                        record = fifos.write_record[at]
                        cause = fifo
                        cause_kind = kind
        # All accesses of a stage share one cycle: the maximum over their constraints.
        run.time[process] = ready
        run.stage[process] = following
        run.events += 1
        if cause != NOWHERE:
            run.space[process] = space
            run.memory[process] = memory
            run.process[process] = on_path | bit
            run.record[process] = record
            note(records, run, process, cause, cause_kind)
            if ready + programs.stages[process] - following > run.limit:
                run.late = process
                return
        for track in range(first_track, last_track):
            if run.position[track] == following:
                publish(programs, fifos, run, process, run.pending[track])
                step(programs, snapshot, run, track)
        if snapshot.is_on:
            compare(programs, fifos, snapshot, run, process, first_track)
    call(run, process)


def publish(programs, fifos, run, process, accesses):
    """Write the time of a stage to the FIFOs of a set of accesses, and wake blocked processes."""
    time = run.time[process]
    for entry in range(programs.set_start[accesses], programs.set_start[accesses + 1]):
        fifo = programs.fifo[entry]
        kind = programs.kind[entry]
        last = fifos.length[fifo] - 1
        peer = NOWHERE
        if kind == WRITE:
            at = fifos.written_at[fifo]
            fifos.written_at[fifo] = at + 1 if at < last else 0
            fifos.written[fifo] += 1
            at += fifos.ring[fifo]
            fifos.write_time[at] = time
            fifos.write_space[at] = run.space[process]
            fifos.write_memory[at] = run.memory[process]
            fifos.write_process[at] = run.process[process]
            fifos.write_record[at] = run.record[process]
            peer = programs.reader[fifo]
        else:
            if kind != RELEASE:
                at = fifos.needed_at[fifo]
                fifos.needed_at[fifo] = at + 1 if at < last else 0
                fifos.needed[fifo] += 1
            if kind != NEED:
                at = fifos.released_at[fifo]
                fifos.released_at[fifo] = at + 1 if at < last else 0
                fifos.released[fifo] += 1
                at += fifos.ring[fifo]
                fifos.read_time[at] = time
                fifos.read_space[at] = run.space[process]
                fifos.read_memory[at] = run.memory[process]
                fifos.read_process[at] = run.process[process]
                fifos.read_record[at] = run.record[process]
                peer = programs.writer[fifo]
        if peer != NOWHERE and run.blocked[peer] == fifo:
            run.blocked[peer] = NOWHERE
            call(run, peer)


def compare(programs, fifos, snapshot, run, process, track):
    """Compare the state with the snapshot; skip periods if it recurs, or take a new snapshot.

    track: the first track of the process that executed the last event.
    """
    if snapshot.anchor == NOWHERE or run.events - snapshot.taken_at > snapshot.window:
        take(fifos, snapshot, run, process, run.pc[track])
    elif process == snapshot.anchor and run.pc[track] == snapshot.anchor_pc:
        periods = recurrence(programs, fifos, snapshot, run, process)
        if periods > 0:
            skip(programs, fifos, snapshot, run, process, periods)


def take(fifos, snapshot, run, process, pc):
    """Keep the state after an event of a process as the snapshot; the next window is twice as long."""
    if snapshot.anchor != NOWHERE:
        # Brent's method: windows of doubling length detect a period of any length.
        snapshot.window *= 2
    snapshot.anchor = process
    snapshot.anchor_pc = pc
    snapshot.taken_at = run.events
    snapshot.waiting = run.waiting
    for index in range(len(run.time)):
        snapshot.time[index] = run.time[index]
        snapshot.stage[index] = run.stage[index]
        snapshot.end[index] = run.end[index]
        snapshot.is_started[index] = run.is_started[index]
        snapshot.space[index] = run.space[index]
        snapshot.memory[index] = run.memory[index]
        snapshot.process[index] = run.process[index]
        snapshot.blocked[index] = run.blocked[index]
        snapshot.is_queued[index] = run.is_queued[index]
        snapshot.queue[index] = run.queue[(run.head + index) % len(run.time)]
    for track in range(len(run.pc)):
        snapshot.pc[track] = run.pc[track]
        snapshot.position[track] = run.position[track]
        snapshot.pending[track] = run.pending[track]
    for operation in range(len(run.counter)):
        snapshot.counter[operation] = run.counter[operation]
        snapshot.entered_then[operation] = snapshot.entered[operation]
    for fifo in range(len(fifos.written)):
        snapshot.written[fifo] = fifos.written[fifo]
        snapshot.needed[fifo] = fifos.needed[fifo]
        snapshot.released[fifo] = fifos.released[fifo]
        snapshot.written_at[fifo] = fifos.written_at[fifo]
        snapshot.released_at[fifo] = fifos.released_at[fifo]
    for at in range(len(snapshot.write_time)):
        snapshot.write_time[at] = fifos.write_time[at]
        snapshot.write_space[at] = fifos.write_space[at]
        snapshot.write_memory[at] = fifos.write_memory[at]
        snapshot.write_process[at] = fifos.write_process[at]
        snapshot.read_time[at] = fifos.read_time[at]
        snapshot.read_space[at] = fifos.read_space[at]
        snapshot.read_memory[at] = fifos.read_memory[at]
        snapshot.read_process[at] = fifos.read_process[at]


def recurrence(programs, fifos, snapshot, run, anchor):
    """Return the number of periods since the snapshot that may be skipped; 0 if the states differ."""
    shift = run.time[anchor] - snapshot.time[anchor]
    periods = FAR
    if run.waiting != snapshot.waiting:
        return 0
    for index in range(len(run.time)):
        if (
            run.end[index] != snapshot.end[index]
            or run.is_started[index] != snapshot.is_started[index]
            or run.blocked[index] != snapshot.blocked[index]
            or run.is_queued[index] != snapshot.is_queued[index]
        ):
            return 0
        if (
            index < run.waiting
            and run.queue[(run.head + index) % len(run.time)] != snapshot.queue[index]
        ):
            return 0
        stages = run.stage[index] - snapshot.stage[index]
        if stages == 0:
            if run.time[index] != snapshot.time[index]:
                return 0
            continue
        if (
            run.time[index] - snapshot.time[index] != shift
            or run.space[index] != snapshot.space[index]
            or run.memory[index] != snapshot.memory[index]
            or run.process[index] != snapshot.process[index]
        ):
            return 0
        for track in range(programs.track_start[index], programs.track_start[index + 1]):
            if run.pc[track] != snapshot.pc[track] or run.pending[track] != snapshot.pending[track]:
                return 0
            if run.position[track] != snapshot.position[track] + stages and (
                run.position[track] != FAR or snapshot.position[track] != FAR
            ):
                return 0
    for operation in range(len(run.counter)):
        # A loop limits the number of skipped periods: its counter has to stay positive.
        rounds = snapshot.counter[operation] - run.counter[operation]
        if rounds == 0:
            continue
        if rounds < 0 or snapshot.entered[operation] != snapshot.entered_then[operation]:
            return 0
        periods = min(periods, (run.counter[operation] - 1) // rounds)
    for fifo in range(len(fifos.written)):
        if periods < 1:
            return 0
        written = fifos.written[fifo] - snapshot.written[fifo]
        needed = fifos.needed[fifo] - snapshot.needed[fifo]
        released = fifos.released[fifo] - snapshot.released[fifo]
        # Needed but unreleased words differ from the snapshot: not the same state.
        if needed != released:
            return 0
        if written == 0 and needed == 0:
            continue
        reader = programs.reader[fifo]
        last = fifos.size[fifo] - 1
        if written == needed:
            if not is_shifted(programs, fifos, snapshot, run, fifo, shift):
                return 0
            if fifos.is_bounded[fifo] == 0:  # the ring has a position for each word of the call
                periods = min(periods, (last - fifos.written[fifo]) // written)
            continue
        at = fifos.written_at[fifo] - 1 if fifos.written_at[fifo] > 0 else last
        if (
            written != 0
            or run.end[programs.writer[fifo]] == NOWHERE
            or fifos.write_time[fifos.ring[fifo] + at] + fifos.latency[fifo] > snapshot.time[reader]
        ):
            return 0
        # All words were readable before the snapshot: the reader never waits for them.
        periods = min(periods, (fifos.written[fifo] - fifos.needed[fifo]) // needed)
    return periods


def is_shifted(programs, fifos, snapshot, run, fifo, shift):
    """Whether the times in a FIFO that may decide later times are those of the snapshot, shifted."""
    size = fifos.size[fifo]
    ring = fifos.ring[fifo]
    if ring + size > len(snapshot.write_time):
        return 0
    reader = programs.reader[fifo]
    writer = programs.writer[fifo]
    for back in range(1, fifos.written[fifo] - fifos.needed[fifo] + 1):
        now = ring + (fifos.written_at[fifo] - back) % size
        then = ring + (snapshot.written_at[fifo] - back) % size
        if (
            fifos.write_time[now] == snapshot.write_time[then] + shift
            and fifos.write_space[now] == snapshot.write_space[then]
            and fifos.write_memory[now] == snapshot.write_memory[then]
            and fifos.write_process[now] == snapshot.write_process[then]
        ):
            continue
        # A time that differs is harmless if the word was readable before both states.
        if (
            fifos.write_time[now] + fifos.latency[fifo] > run.time[reader]
            or snapshot.write_time[then] + fifos.latency[fifo] > snapshot.time[reader]
        ):
            return 0
    if fifos.is_bounded[fifo] == 0:
        return 1
    if snapshot.written[fifo] < size:
        return 0
    for back in range(1, fifos.released[fifo] - fifos.written[fifo] + size + 1):
        now = ring + (fifos.released_at[fifo] - back) % size
        then = ring + (snapshot.released_at[fifo] - back) % size
        if (
            fifos.read_time[now] == snapshot.read_time[then] + shift
            and fifos.read_space[now] == snapshot.read_space[then]
            and fifos.read_memory[now] == snapshot.read_memory[then]
            and fifos.read_process[now] == snapshot.read_process[then]
        ):
            continue
        if (
            fifos.read_time[now] + 1 > run.time[writer]
            or snapshot.read_time[then] + 1 > snapshot.time[writer]
        ):
            return 0
    return 1


def skip(programs, fifos, snapshot, run, anchor, periods):
    """Repeat the events since the snapshot this number of times, without executing them."""
    shift = periods * (run.time[anchor] - snapshot.time[anchor])
    for index in range(len(run.time)):
        stages = run.stage[index] - snapshot.stage[index]
        if stages == 0:
            continue
        run.time[index] += shift
        run.stage[index] += periods * stages
        for track in range(programs.track_start[index], programs.track_start[index + 1]):
            if run.position[track] != FAR:
                run.position[track] += periods * stages
    for operation in range(len(run.counter)):
        run.counter[operation] -= periods * (snapshot.counter[operation] - run.counter[operation])
    for fifo in range(len(fifos.written)):
        written = periods * (fifos.written[fifo] - snapshot.written[fifo])
        needed = periods * (fifos.needed[fifo] - snapshot.needed[fifo])
        size = fifos.size[fifo]
        ring = fifos.ring[fifo]
        if written == 0 and needed == 0:
            continue
        if written != 0 and fifos.is_bounded[fifo] == 0:
            for back in range(1, fifos.written[fifo] - fifos.needed[fifo] + 1):
                # The last index first: old and new positions may overlap.
                now = ring + fifos.written_at[fifo] - back
                fifos.write_time[now + written] = fifos.write_time[now] + shift
                fifos.write_space[now + written] = fifos.write_space[now]
                fifos.write_memory[now + written] = fifos.write_memory[now]
                fifos.write_process[now + written] = fifos.write_process[now]
            fifos.written_at[fifo] += written
        elif written != 0:  # words keep their positions in the ring, and their times shift
            for at in range(ring, ring + size):
                fifos.write_time[at] += shift
                fifos.read_time[at] += shift
        if written == 0 or fifos.is_bounded[fifo] == 0:
            fifos.needed_at[fifo] = (fifos.needed_at[fifo] + needed) % size
            fifos.released_at[fifo] = (fifos.released_at[fifo] + needed) % size
        fifos.written[fifo] += written
        fifos.needed[fifo] += needed
        fifos.released[fifo] += needed
    snapshot.anchor = NOWHERE
    snapshot.window *= 2  # the period of an outer loop is longer
    snapshot.skipped += periods
