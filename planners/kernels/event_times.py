"""Times of events that wait for one another, frame by frame.

A sequence is the events of a port in order, such as the words that pass it; it repeats in every frame.
Event k of a sequence happens at the latest of

- the beginning of its frame, `frame * period`;
- the time of the preceding event plus the gap of the sequence, also across frames;
- for each wait of the sequence, the time of an event of another sequence, the source, plus a delay.

A source produces tokens. The tokens of a wait are numbered within a frame; a negative number is a
token of an earlier frame, and a token from before the first frame is available from the start. So a
queue of capacity D is two waits: the reader waits for token i of the writer, and the writer of word i
waits for token i - D of the reader, the word whose space it takes. Times are scaled: `scale` units of
time are one unit of gaps and delays.

Source: the (max, +) recurrences of timed event graphs; Baccelli, Cohen, Olsder, Quadrat,
Synchronization and Linearity, 1992, chapters 2 and 5.
"""

from __future__ import annotations

DONE = 0
STUCK = 1  # an event waits for itself
CYCLE = 2  # the same event was met in two frames
BEGINNING = 3  # the beginning of the frame decides the time
FORGOTTEN = 4  # the path leads to a frame that is no longer kept
NONE = -(2**40)  # in a table of tokens: this event waits for nothing

# The wait that decided the time of an event, if it is none of the waits.
PRECEDING = -1  # the preceding event of the sequence
UNDECIDED = -2


class EventSequences:
    """S sequences. A table begins at an index of `tables` of TokenWaits; index -1 means no table.

    active: the sequences whose times are computed. events: (S,) events in a frame. base: (S,) position
    of the first event among all events of a frame. gap: (S,) from each event to the next; gap_at: (S,)
    table of the gap before each event, instead of `gap`. wait_start: (S + 1,) the waits of sequence s
    are wait_start[s] : wait_start[s + 1].
    """

    def __init__(self, columns):
        """Keep these arrays."""
        self.active = columns.active
        self.events = columns.events
        self.base = columns.base
        self.gap = columns.gap
        self.gap_at = columns.gap_at
        self.wait_start = columns.wait_start


class TokenWaits:
    """W waits, and the tables of numbers of all sequences and waits.

    enabled: (W,) 1 if the wait applies. source: (W,) the sequence that produces the tokens; tokens:
    (W,) in a frame. token_at: (W,) table of the token that each event of the waiting sequence waits
    for; without a table event k waits for token k. shift: (W,) is added to the number of the token.
    event_at: (W,) table of the event that produces each token; without a table event i produces token
    i. delay: (W,) from source to event; delay_at: (W,) table of the delay of each event, instead of
    `delay`.
    """

    def __init__(self, columns):
        """Keep these arrays."""
        self.enabled = columns.enabled
        self.source = columns.source
        self.token_at = columns.token_at
        self.shift = columns.shift
        self.tokens = columns.tokens
        self.event_at = columns.event_at
        self.delay = columns.delay
        self.delay_at = columns.delay_at
        self.tables = columns.tables


class FrameTimes:
    """Times of all events in the last `slots` frames, as a ring: frame f is in slot f % slots.

    total: events of a frame, the length of a slot. times: (slots * total,). period: of the frames, in
    units of time, `scale` of which are one unit of gaps and delays.
    """

    def __init__(self, slots, total, times, period, scale):
        """Keep these numbers and the array."""
        self.slots = slots
        self.total = total
        self.times = times
        self.period = period
        self.scale = scale


class SequenceStack:
    """Depth-first search over S sequences, and its result in a deadlock. All (S,).

    position: next event of each sequence. stack: the open sequences, each waits for the next; goal:
    the event that is needed of each. is_stacked: by sequence. cause: the wait that each sequence is
    stuck in. The sequences that wait for each other are stack[begin : end].
    """

    def __init__(self, sequences, blank):
        """Begin with zeros. blank: makes this many."""
        self.position = blank(sequences)
        self.stack = blank(sequences)
        self.goal = blank(sequences)
        self.is_stacked = blank(sequences)
        self.cause = blank(sequences)
        self.begin = 0
        self.end = 0


class Growth:
    """How much the events of a frame grew by more than a period since the preceding frame.

    most: the maximum, at least 0, of this event of this sequence. least: the minimum, at most 0.
    """

    def __init__(self):
        """Begin without growth."""
        self.most = 0
        self.least = 0
        self.sequence = 0
        self.event = 0


class EventPath:
    """The events of a path, from the last to earlier events.

    met_at: (events of a frame,) the number of each met event in the path, -1 for others. sequence,
    frame: of each event of the path. wait: the wait that decided its time, PRECEDING or UNDECIDED.
    length: number of events. The event with number `first` is met again at the end, `frames` frames and
    `units` units of time earlier.
    """

    def __init__(self, events, blank):
        """Begin without events. blank: makes this many zeros."""
        self.met_at = blank(events)
        self.sequence = blank(events + 1)
        self.frame = blank(events + 1)
        self.wait = blank(events + 1)
        self.length = 0
        self.first = 0
        self.frames = 0
        self.units = 0


def advance(frame, sequences, waits, kept, scratch):
    """Compute the times of all events of a frame in its slot; return DONE or STUCK.

    Depth first: a sequence is continued when another needs one of its events, until it is blocked.
    """
    # Bound to local names for the inner loop.
    active = sequences.active
    events = sequences.events
    base = sequences.base
    gaps = sequences.gap
    gap_at = sequences.gap_at
    wait_start = sequences.wait_start
    enabled = waits.enabled
    sources = waits.source
    token_at = waits.token_at
    shifts = waits.shift
    tokens = waits.tokens
    event_at = waits.event_at
    delays = waits.delay
    delay_at = waits.delay_at
    tables = waits.tables
    times = kept.times
    position = scratch.position
    period = kept.period
    scale = kept.scale
    slots = kept.slots
    total = kept.total
    here = frame % slots * total
    for i in range(len(active)):
        position[active[i]] = 0
        scratch.is_stacked[active[i]] = 0
    for i in range(len(active)):
        scratch.stack[0] = active[i]
        scratch.goal[0] = events[active[i]] - 1
        scratch.is_stacked[active[i]] = 1
        depth = 1
        while depth > 0:
            sequence = scratch.stack[depth - 1]
            blocked = -1  # the wait for an event of this frame without a time
            wanted = 0  # that event
            k = position[sequence]
            last = events[sequence]
            first = base[sequence]
            while k < last:
                # Max-plus recurrence: the latest of the frame's beginning, the preceding event, and
                # all waits.
                best = frame * period
                space = gaps[sequence] if gap_at[sequence] < 0 else tables[gap_at[sequence] + k]
                if k > 0:
                    best = max(best, times[here + first + k - 1] + space * scale)
                elif frame > 0:
                    before = (frame - 1) % slots * total
                    best = max(best, times[before + first + last - 1] + space * scale)
                for wait in range(wait_start[sequence], wait_start[sequence + 1]):
                    if enabled[wait] == 0:
                        continue
                    token = k if token_at[wait] < 0 else tables[token_at[wait] + k]
                    if token == NONE:
                        continue
                    token += shifts[wait]
                    back = 0
                    # A negative token belongs to an earlier frame.
                    while token < 0:
                        token += tokens[wait]
                        back += 1
                    if back > frame:
                        continue
                    event = token if event_at[wait] < 0 else tables[event_at[wait] + token]
                    source = sources[wait]
                    if back == 0:
                        # The time of the token is not known yet: continue its sequence first (depth
                        # first).
                        if event >= position[source]:
                            blocked = wait
                            wanted = event
                            break
                        at = here + base[source] + event
                    else:
                        at = (frame - back) % slots * total + base[source] + event
                    pause = delays[wait] if delay_at[wait] < 0 else tables[delay_at[wait] + k]
                    best = max(best, times[at] + pause * scale)
                if blocked >= 0:
                    break
                times[here + first + k] = best
                k += 1
                position[sequence] = k
            # A sequence leaves the stack once its goal has a time, even if a later event is blocked.
            if blocked < 0 or k > scratch.goal[depth - 1]:
                scratch.is_stacked[sequence] = 0
                depth -= 1
                continue
            scratch.cause[sequence] = blocked
            source = sources[blocked]
            # A sequence that waits for itself within one frame: a cycle without tokens, so a
            # deadlock.
            if scratch.is_stacked[source]:
                scratch.end = depth
                depth -= 1
                while scratch.stack[depth] != source:
                    depth -= 1
                scratch.begin = depth
                return STUCK
            scratch.stack[depth] = source
            scratch.goal[depth] = wanted
            scratch.is_stacked[source] = 1
            depth += 1
    return DONE


def gap_before(sequences, waits, sequence, event):
    """Return the gap before an event."""
    table = sequences.gap_at[sequence]
    return sequences.gap[sequence] if table < 0 else waits.tables[table + event]


def delay_of(waits, wait, event):
    """Return the delay of an event by a wait."""
    table = waits.delay_at[wait]
    return waits.delay[wait] if table < 0 else waits.tables[table + event]


def measure_growth(frame, sequences, kept, growth):
    """Compare the times of a frame with those of the preceding frame."""
    here = frame % kept.slots * kept.total
    before = (frame - 1) % kept.slots * kept.total
    growth.most = 0
    growth.least = 0
    growth.sequence = sequences.active[0]
    growth.event = 0
    for i in range(len(sequences.active)):
        sequence = sequences.active[i]
        first = sequences.base[sequence]
        for event in range(sequences.events[sequence]):
            more = (
                kept.times[here + first + event] - kept.times[before + first + event] - kept.period
            )
            if more > growth.most:
                growth.most = more
                growth.sequence = sequence
                growth.event = event
            elif more < growth.least:
                growth.least = more


def trace(frame, sequences, waits, kept, growth, path):
    """Follow the waits that decided the time of an event, back in time.

    growth: its event is the first of the path, in `frame`. Return CYCLE if the path meets an event
    twice, BEGINNING or FORGOTTEN.
    """
    tables = waits.tables
    times = kept.times
    slots = kept.slots
    total = kept.total
    sequence = growth.sequence
    event = growth.event
    now = frame
    for position in range(total):
        path.met_at[position] = -1
    while True:
        position = sequences.base[sequence] + event
        time = times[now % slots * total + position]
        # The same event in two frames: the walk has closed a critical cycle.
        if path.met_at[position] >= 0:
            path.first = path.met_at[position]
            path.frames = path.frame[path.first] - now
            path.units = times[path.frame[path.first] % slots * total + position] - time
            return CYCLE
        number = path.length
        path.met_at[position] = number
        path.sequence[number] = sequence
        path.frame[number] = now
        path.wait[number] = UNDECIDED
        path.length += 1
        gap = gap_before(sequences, waits, sequence, event) * kept.scale
        # The preceding event is in this frame, or the last of the preceding frame.
        if event > 0:
            if times[now % slots * total + position - 1] + gap == time:
                path.wait[number] = PRECEDING
                event -= 1
                continue
        elif now > 0:
            # The ring has the frames after frame - slots.
            if now - 1 <= frame - slots:
                return FORGOTTEN
            last = sequences.events[sequence] - 1
            before = (now - 1) % slots * total + sequences.base[sequence] + last
            if times[before] + gap == time:
                path.wait[number] = PRECEDING
                event = last
                now -= 1
                continue
        # Find a wait whose token explains the time exactly.
        for wait in range(sequences.wait_start[sequence], sequences.wait_start[sequence + 1]):
            if waits.enabled[wait] == 0:
                continue
            token = event if waits.token_at[wait] < 0 else tables[waits.token_at[wait] + event]
            if token == NONE:
                continue
            token += waits.shift[wait]
            back = 0
            while token < 0:
                token += waits.tokens[wait]
                back += 1
            if back > now:
                continue
            if now - back <= frame - slots:
                return FORGOTTEN
            made = token if waits.event_at[wait] < 0 else tables[waits.event_at[wait] + token]
            source = waits.source[wait]
            origin = (now - back) % slots * total + sequences.base[source]
            if times[origin + made] + delay_of(waits, wait, event) * kept.scale == time:
                path.wait[number] = wait
                sequence = source
                event = made
                now -= back
                break
        if path.wait[number] == UNDECIDED:
            return BEGINNING
