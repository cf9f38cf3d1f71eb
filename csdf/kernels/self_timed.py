"""Self-timed execution: the ONE firing rule.

A firing of an actor takes the tokens of its phase from every input and puts those of its phase on
every output. It starts at the latest of: the start of the actor's previous firing, and for every
input the time of the last token it takes. Its output tokens carry the time of its end, or of the
token before them in the queue if that is later: a channel is a FIFO, also where firings overlap.

Since a firing's time depends on nothing but its tokens, firings need not be carried out in the order
of time. The kernel goes depth first, consumers before producers, which keeps the queues short; and
it stops where every actor has fired its quota, so that states are compared after whole iterations.

Queue of a channel: batches of tokens with equal time in a ring of queue_size[c] entries from
queue_start[c] on, the oldest at queue_head[c].

Source: Ghamarian et al., Throughput analysis of synchronous data flow graphs, ACSD 2006 (self-timed
state space); Geilen, Stuijk, Worst-case performance analysis of SDF scenarios, CODES+ISSS 2010
(times of tokens as state).
"""

from __future__ import annotations

DONE = 0  # every actor has fired its quota
STUCK = 1  # no actor can fire, but some quota is left
FULL = 2  # the ring of channel answer[0] needs more room; grow it and call again
PAUSED = 3  # the fuel is used up; call again

BURST = 64  # firings of one actor before its consumers get their turn


def advance(
    phases,
    duration_start,
    duration,
    input_start,
    input_channel,
    output_start,
    output_channel,
    consumer,
    consumption_start,
    consumption,
    production_start,
    production,
    tokens,
    queue_start,
    queue_size,
    queue_head,
    queue_length,
    queue_count,
    queue_time,
    last_time,
    phase,
    latest_start,
    quota,
    stack,
    is_stacked,
    record_at,
    record,
    fuel,
    answer,
):
    """Fire until every quota is used up; return DONE, STUCK, FULL or PAUSED.

    phases, duration_start: (A,); duration: flat, time units.
    input_start: (A + 1,), input_channel: flat; likewise the outputs. consumer: (C,).
    consumption_start, production_start: (C,); consumption, production: flat, tokens of each phase.
    tokens, last_time: (C,) changed: tokens in the channel, time of the newest one so far.
    queue_*: changed: the rings, see above.
    phase, latest_start, quota: (A,) changed: next phase, start of the last firing, firings left.
    stack: (A,), is_stacked: (A,) scratch.
    record: out, start times: a firing of actor a writes record[record_at[a]] and moves that index on,
    if record is not empty. fuel: firings after which to pause. answer: (1,) out.
    """
    recording = len(record) > 0
    depth = 0
    left = 0
    for i in range(len(phases)):
        actor = len(phases) - 1 - i
        is_stacked[actor] = 1
        stack[depth] = actor
        depth += 1
        left += quota[actor]
    while depth > 0:
        if fuel <= 0:
            return PAUSED
        depth -= 1
        actor = stack[depth]
        is_stacked[actor] = 0
        burst = min(quota[actor], BURST)
        for port in range(output_start[actor], output_start[actor + 1]):
            channel = output_channel[port]
            if queue_length[channel] == queue_size[channel]:
                answer[0] = channel
                return FULL
            burst = min(burst, queue_size[channel] - queue_length[channel])
        fired = 0
        while fired < burst:
            now = phase[actor]
            enabled = True
            for port in range(input_start[actor], input_start[actor + 1]):
                channel = input_channel[port]
                if tokens[channel] < consumption[consumption_start[channel] + now]:
                    enabled = False
                    break
            if not enabled:
                break
            start = latest_start[actor]
            for port in range(input_start[actor], input_start[actor + 1]):
                channel = input_channel[port]
                need = consumption[consumption_start[channel] + now]
                if need == 0:
                    continue
                tokens[channel] -= need
                entry = queue_head[channel]
                base = queue_start[channel]
                while need > queue_count[base + entry]:
                    need -= queue_count[base + entry]
                    queue_length[channel] -= 1
                    entry += 1
                    if entry == queue_size[channel]:
                        entry = 0
                # The last token needed lies in this batch.
                if queue_time[base + entry] > start:
                    start = queue_time[base + entry]
                if need == queue_count[base + entry]:
                    queue_length[channel] -= 1
                    entry += 1
                    if entry == queue_size[channel]:
                        entry = 0
                else:
                    queue_count[base + entry] -= need
                queue_head[channel] = entry
            end = start + duration[duration_start[actor] + now]
            for port in range(output_start[actor], output_start[actor + 1]):
                channel = output_channel[port]
                made = production[production_start[channel] + now]
                if made == 0:
                    continue
                tokens[channel] += made
                base = queue_start[channel]
                tail = queue_head[channel] + queue_length[channel]
                if tail >= queue_size[channel]:
                    tail -= queue_size[channel]
                if end > last_time[channel]:
                    last_time[channel] = end
                newest = tail - 1 if tail > 0 else queue_size[channel] - 1
                if queue_length[channel] and queue_time[base + newest] == last_time[channel]:
                    queue_count[base + newest] += made
                else:
                    queue_count[base + tail] = made
                    queue_time[base + tail] = last_time[channel]
                    queue_length[channel] += 1
            if recording:
                record[record_at[actor]] = start
                record_at[actor] += 1
            quota[actor] -= 1
            latest_start[actor] = start
            phase[actor] = now + 1 if now + 1 < phases[actor] else 0
            fired += 1
        if fired == 0:
            continue
        left -= fired
        fuel -= fired
        if fired == burst and quota[actor] > 0:
            is_stacked[actor] = 1
            stack[depth] = actor
            depth += 1
        for port in range(output_start[actor], output_start[actor + 1]):
            follower = consumer[output_channel[port]]
            if is_stacked[follower] == 0 and quota[follower] > 0:
                is_stacked[follower] = 1
                stack[depth] = follower
                depth += 1
    return STUCK if left > 0 else DONE


def pack_state(
    queue_start,
    queue_size,
    queue_head,
    queue_length,
    queue_count,
    queue_time,
    last_time,
    latest_start,
    origin,
    state,
):
    """Write what the future depends on, times relative to `origin`; return how many numbers.

    Arrays as in `advance`; state: out, filled as far as it reaches.
    """
    room = len(state)
    written = 0
    for actor in range(len(latest_start)):
        if written < room:
            state[written] = latest_start[actor] - origin
        written += 1
    for channel in range(len(queue_start)):
        if written + 1 < room:
            state[written] = queue_length[channel]
            state[written + 1] = last_time[channel] - origin
        written += 2
        entry = queue_head[channel]
        for _ in range(queue_length[channel]):
            at = queue_start[channel] + entry
            if written + 1 < room:
                state[written] = queue_count[at]
                state[written + 1] = queue_time[at] - origin
            written += 2
            entry += 1
            if entry == queue_size[channel]:
                entry = 0
    return written
