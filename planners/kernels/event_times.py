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

    events: (S,) events in a frame. base: (S,) position of the first event among all events of a frame.
    gap: (S,) from each event to the next; gap_at: (S,) table of the gap before each event, instead of
    `gap`. wait_start: (S + 1,) the waits of sequence s are wait_start[s] : wait_start[s + 1].
    """

    def __init__(self, events, base, gap, gap_at, wait_start):
        """Keep these arrays."""
        self.events = events
        self.base = base
        self.gap = gap
        self.gap_at = gap_at
        self.wait_start = wait_start


class TokenWaits:
    """W waits, and the tables of numbers of all sequences and waits.

    enabled: (W,) 1 if the wait applies. source: (W,) the sequence that produces the tokens; tokens:
    (W,) in a frame. token_at: (W,) table of the token that each event of the waiting sequence waits
    for; without a table event k waits for token k. shift: (W,) is added to the number of the token.
    event_at: (W,) table of the event that produces each token; without a table event i produces token
    i. delay: (W,) from source to event; delay_at: (W,) table of the delay of each event, instead of
    `delay`.
    """

    def __init__(self, enabled, source, token_at, shift, tokens, event_at, delay, delay_at, tables):
        """Keep these arrays."""
        self.enabled = enabled
        self.source = source
        self.token_at = token_at
        self.shift = shift
        self.tokens = tokens
        self.event_at = event_at
        self.delay = delay
        self.delay_at = delay_at
        self.tables = tables


class FrameTimes:
    """Times of all events in the last `slots` frames, as a ring: frame f is in slot f % slots.

    total: events of a frame, the length of a slot. times: (slots * total,).
    """

    def __init__(self, slots, total, times):
        """Keep these numbers and the array."""
        self.slots = slots
        self.total = total
        self.times = times


class SequenceStack:
    """Scratch of a depth-first search over sequences. All (S,).

    position: next event of each sequence. stack: the open sequences, each waits for the next; goal:
    the event that is needed of each. is_stacked: by sequence. cause: the wait that each sequence is
    stuck in.
    """

    def __init__(self, position, stack, goal, is_stacked, cause):
        """Keep these arrays."""
        self.position = position
        self.stack = stack
        self.goal = goal
        self.is_stacked = is_stacked
        self.cause = cause


class EventPath:
    """Scratch and result of `trace`: the events of a path, from the last to earlier events.

    met_at: (events of a frame,) all -1; then the number of each met event in the path. sequence, frame:
    of each event of the path. wait: the wait that decided its time, PRECEDING or UNDECIDED.
    """

    def __init__(self, met_at, sequence, frame, wait):
        """Keep these arrays."""
        self.met_at = met_at
        self.sequence = sequence
        self.frame = frame
        self.wait = wait


def advance(frame, period, scale, active, sequences, waits, kept, scratch, answer):
    """Compute the times of all events of a frame; return DONE or STUCK.

    active: the sequences to compute. kept: the frame is written into its slot. answer: in STUCK the
    sequences that wait for each other are scratch.stack[answer[0] : answer[1]].

    Depth first: a sequence is continued when another needs one of its events, until it is blocked.
    """
    # Bound to local names for the inner loop.
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
                answer[1] = depth
                depth -= 1
                while scratch.stack[depth] != source:
                    depth -= 1
                answer[0] = depth
                return STUCK
            scratch.stack[depth] = source
            scratch.goal[depth] = wanted
            scratch.is_stacked[source] = 1
            depth += 1
    return DONE


def growth(frame, period, active, sequences, kept, answer):
    """Return the maximum by which an event grew by more than a period since the preceding frame.

    answer: [0] the sequence and [1] the event of this maximum; [2] the minimum of such growth,
    or 0 where no event grew by less than a period.
    """
    here = frame % kept.slots * kept.total
    before = (frame - 1) % kept.slots * kept.total
    times = kept.times
    most = 0
    least = 0
    answer[0] = active[0]
    answer[1] = 0
    for i in range(len(active)):
        sequence = active[i]
        first = sequences.base[sequence]
        for k in range(sequences.events[sequence]):
            more = times[here + first + k] - times[before + first + k] - period
            if more > most:
                most = more
                answer[0] = sequence
                answer[1] = k
            elif more < least:
                least = more
    answer[2] = least
    return most


def trace(frame, scale, sequence, event, sequences, waits, kept, path, answer):
    """Follow the waits that decided the time of an event, back in time.

    sequence, event: the first event of the path, in `frame`. answer[0]: the number of events of the
    path. Return CYCLE, BEGINNING or FORGOTTEN. In CYCLE the event number answer[1] of the path is met
    again at the end, answer[2] frames and answer[3] units of time earlier.
    """
    tables = waits.tables
    times = kept.times
    slots = kept.slots
    total = kept.total
    length = 0
    now = frame
    while True:
        at = sequences.base[sequence] + event
        value = times[now % slots * total + at]
        # The same event in two frames: the walk has closed a critical cycle.
        if path.met_at[at] >= 0:
            entry = path.met_at[at]
            answer[0] = length
            answer[1] = entry
            answer[2] = path.frame[entry] - now
            answer[3] = times[path.frame[entry] % slots * total + at] - value
            return CYCLE
        path.met_at[at] = length
        path.sequence[length] = sequence
        path.frame[length] = now
        path.wait[length] = UNDECIDED
        length += 1
        answer[0] = length
        space = sequences.gap[sequence]
        if sequences.gap_at[sequence] >= 0:
            space = tables[sequences.gap_at[sequence] + event]
        # The preceding event is in this frame, or the last of the preceding frame.
        if event > 0:
            if times[now % slots * total + at - 1] + space * scale == value:
                path.wait[length - 1] = PRECEDING
                event -= 1
                continue
        elif now > 0:
            # The ring has the frames after frame - slots.
            if now - 1 <= frame - slots:
                return FORGOTTEN
            last = sequences.events[sequence] - 1
            before = (now - 1) % slots * total + sequences.base[sequence] + last
            if times[before] + space * scale == value:
                path.wait[length - 1] = PRECEDING
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
            pause = waits.delay[wait]
            if waits.delay_at[wait] >= 0:
                pause = tables[waits.delay_at[wait] + event]
            source = waits.source[wait]
            at = (now - back) % slots * total + sequences.base[source] + made
            if times[at] + pause * scale == value:
                path.wait[length - 1] = wait
                sequence = source
                event = made
                now -= back
                break
        if path.wait[length - 1] == UNDECIDED:
            return BEGINNING
