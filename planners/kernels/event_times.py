"""Times of events that wait for one another, frame by frame.

A series is a sequence of events that repeats in every frame: the words that pass a port, in order.
Event k of a series happens at the latest of

- the beginning of its frame, `frame * period`;
- the event before it plus the series' gap, also across frames;
- for each wait of the series, a token: the event of another series that makes that token, plus a delay.

Tokens of a wait are numbered within a frame; a negative number is a token of an earlier frame, and
one from before the first frame is available from the start. So a queue of capacity D is two waits: the
reader waits for token i, the writer for the reader to have taken token i - D.

Times are scaled: `scale` units of time are one unit of gaps and delays. Times of the last `slots`
frames are kept, each in its own slot of `times`.

Source: the (max, +) recurrences of timed event graphs; Baccelli, Cohen, Olsder, Quadrat,
Synchronization and Linearity, 1992, chapters 2 and 5.
"""

from __future__ import annotations

DONE = 0
STUCK = 1  # an event waits for itself: the waits on the way are in `cause`
CYCLE = 2  # the same event was met in two frames
BEGINNING = 3  # nothing but the beginning of the frame explains the time
FORGOTTEN = 4  # the way leads to a frame that is no longer kept
NONE = -(2**40)  # in a table of tokens: this event waits for nothing


def advance(
    frame,
    period,
    scale,
    slots,
    total,
    active,
    events,
    base,
    gap,
    gap_at,
    wait_start,
    enabled,
    source,
    token_at,
    shift,
    tokens,
    event_at,
    delay,
    delay_at,
    numbers,
    times,
    position,
    stack,
    goal,
    is_stacked,
    cause,
    answer,
):
    """Find the times of all events of one frame; return DONE or STUCK.

    total: events of one frame, the length of a slot. active: (A,) series to look at.
    events, base: (S,) number of events, position of the first in a slot. gap, gap_at: (S,) the gap, or
    where in `numbers` the gap before each event begins, else -1.
    wait_start: (S + 1,) the waits of series s are wait_start[s] : wait_start[s + 1]. enabled: (W,)
    whether a wait counts. source, shift, tokens, delay: (W,) the series waited for, what is added to
    the number of a token, tokens in a frame, delay. token_at, event_at, delay_at: (W,) where in
    `numbers` the token of each event, the event of each token, the delay of each event begin, -1 for
    the number itself, or the constant.
    times: (slots * total,) changed. position, stack, goal, is_stacked, cause: (S,) scratch; in STUCK
    the circle is stack[answer[0] : answer[1]], and cause[s] the wait in which series s is stuck.

    Depth first: a series is continued when a waiting one needs it, and goes on until it blocks.
    """
    here = frame % slots * total
    for i in range(len(active)):
        position[active[i]] = 0
        is_stacked[active[i]] = 0
    for i in range(len(active)):
        stack[0] = active[i]
        goal[0] = events[active[i]] - 1
        is_stacked[active[i]] = 1
        depth = 1
        while depth > 0:
            series = stack[depth - 1]
            blocked = -1
            wanted = 0
            k = position[series]
            last = events[series]
            first = base[series]
            while k < last:
                # Max-plus recurrence: the latest of the frame's beginning, the event before, and
                # all waits.
                best = frame * period
                space = gap[series] if gap_at[series] < 0 else numbers[gap_at[series] + k]
                if k > 0:
                    best = max(best, times[here + first + k - 1] + space * scale)
                elif frame > 0:
                    before = (frame - 1) % slots * total
                    best = max(best, times[before + first + last - 1] + space * scale)
                for wait in range(wait_start[series], wait_start[series + 1]):
                    if enabled[wait] == 0:
                        continue
                    token = k if token_at[wait] < 0 else numbers[token_at[wait] + k]
                    if token == NONE:
                        continue
                    token += shift[wait]
                    back = 0
                    # A negative token belongs to an earlier frame.
                    while token < 0:
                        token += tokens[wait]
                        back += 1
                    if back > frame:
                        continue
                    event = token if event_at[wait] < 0 else numbers[event_at[wait] + token]
                    writer = source[wait]
                    if back == 0:
                        # The time of the token is not known yet: continue its series first (depth
                        # first).
                        if event >= position[writer]:
                            blocked = wait
                            wanted = event
                            break
                        at = here + base[writer] + event
                    else:
                        at = (frame - back) % slots * total + base[writer] + event
                    pause = delay[wait] if delay_at[wait] < 0 else numbers[delay_at[wait] + k]
                    best = max(best, times[at] + pause * scale)
                if blocked >= 0:
                    break
                times[here + first + k] = best
                k += 1
                position[series] = k
            if blocked < 0 or k > goal[depth - 1]:
                is_stacked[series] = 0
                depth -= 1
                continue
            cause[series] = blocked
            writer = source[blocked]
            # A series that waits for itself within one frame: a cycle without tokens, so a
            # deadlock.
            if is_stacked[writer]:
                answer[1] = depth
                depth -= 1
                while stack[depth] != writer:
                    depth -= 1
                answer[0] = depth
                return STUCK
            stack[depth] = writer
            goal[depth] = wanted
            is_stacked[writer] = 1
            depth += 1
    return DONE


def growth(frame, period, slots, total, active, events, base, times, answer):
    """Return by how much more than a period the times grew since the frame before, at most.

    The event where it is most is answer[1] of series answer[0]; answer[2] is the least such growth.
    """
    here = frame % slots * total
    before = (frame - 1) % slots * total
    most = 0
    least = 0
    answer[0] = active[0]
    answer[1] = 0
    for i in range(len(active)):
        series = active[i]
        first = base[series]
        for k in range(events[series]):
            more = times[here + first + k] - times[before + first + k] - period
            if more > most:
                most = more
                answer[0] = series
                answer[1] = k
            elif more < least:
                least = more
    answer[2] = least
    return most


def trace(
    frame,
    scale,
    slots,
    total,
    events,
    base,
    gap,
    gap_at,
    wait_start,
    enabled,
    source,
    token_at,
    shift,
    tokens,
    event_at,
    delay,
    delay_at,
    numbers,
    times,
    series,
    event,
    met_at,
    way_series,
    way_event,
    way_frame,
    way_wait,
    answer,
):
    """Follow what decided the time of an event, back in time; return CYCLE, BEGINNING or FORGOTTEN.

    Arguments as in `advance`. series, event: where to begin, in `frame`. met_at: (total,) scratch,
    all -1. way_*: (total + 1,) out: the events met, and the wait that decided each, -1 for the order of
    the series. The path has answer[0] entries; in CYCLE the event of entry answer[1] is met again
    at the end, answer[2] frames and answer[3] units of time before.
    """
    length = 0
    now = frame
    while True:
        at = base[series] + event
        value = times[now % slots * total + at]
        # The same event in two frames: the walk has closed a critical cycle.
        if met_at[at] >= 0:
            entry = met_at[at]
            answer[0] = length
            answer[1] = entry
            answer[2] = way_frame[entry] - now
            answer[3] = times[way_frame[entry] % slots * total + at] - value
            return CYCLE
        met_at[at] = length
        way_series[length] = series
        way_event[length] = event
        way_frame[length] = now
        way_wait[length] = -2
        length += 1
        answer[0] = length
        space = gap[series] if gap_at[series] < 0 else numbers[gap_at[series] + event]
        if event > 0:
            if times[now % slots * total + at - 1] + space * scale == value:
                way_wait[length - 1] = -1
                event -= 1
                continue
        elif now > 0:
            if now - 1 <= frame - slots:
                return FORGOTTEN
            place = (now - 1) % slots * total + base[series] + events[series] - 1
            if times[place] + space * scale == value:
                way_wait[length - 1] = -1
                event = events[series] - 1
                now -= 1
                continue
        # Find a wait whose token explains the time exactly.
        latest = -1
        for wait in range(wait_start[series], wait_start[series + 1]):
            if enabled[wait] == 0:
                continue
            token = event if token_at[wait] < 0 else numbers[token_at[wait] + event]
            if token == NONE:
                continue
            token += shift[wait]
            back = 0
            while token < 0:
                token += tokens[wait]
                back += 1
            if back > now:
                continue
            if now - back <= frame - slots:
                return FORGOTTEN
            made = token if event_at[wait] < 0 else numbers[event_at[wait] + token]
            pause = delay[wait] if delay_at[wait] < 0 else numbers[delay_at[wait] + event]
            place = (now - back) % slots * total + base[source[wait]] + made
            if times[place] + pause * scale == value:
                latest = wait
                way_wait[length - 1] = wait
                series = source[wait]
                event = made
                now -= back
                break
        if latest < 0:
            return BEGINNING
