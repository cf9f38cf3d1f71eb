"""Self-timed execution: the ONE firing rule.

A firing of an actor takes the tokens of its phase from every input and puts those of its phase on
every output. It starts at the latest of: the start of the actor's previous firing, and for every
input the time of the last token it takes. Its output tokens carry the time of its end, or of the
token before them in the queue if that is later: a channel is a FIFO, also where firings overlap.

Since a firing's time depends on nothing but its tokens, firings need not be carried out in the order
of time. The kernel goes depth first, consumers before producers, which keeps the queues short; and
it stops where every actor has fired its quota, so that states are compared after whole iterations.

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


class Wiring:
    """The graph: what does not change. A actors, C channels.

    phases, duration_start: (A,); duration: flat, time units. input_start: (A + 1,), input_channel:
    flat; likewise the outputs, with the consumer of each. consumption, production: flat, tokens of
    each phase; those of a port begin at consumption_start and production_start, in the order of ports.
    """

    def __init__(self, graph, array):
        """Copy an indexed graph. array: makes a sequence of the kernel's kind."""
        self.phases = array(graph.phases)
        self.duration_start = array(graph.duration_start)
        self.duration = array(graph.duration)
        self.input_start = array(graph.input_start)
        self.input_channel = array(graph.input_channel)
        self.output_start = array(graph.output_start)
        self.output_channel = array(graph.output_channel)
        self.consumer = array([graph.consumer[c] for c in graph.output_channel])
        self.consumption_start = array([graph.consumption_start[c] for c in graph.input_channel])
        self.consumption = array(graph.consumption)
        self.production_start = array([graph.production_start[c] for c in graph.output_channel])
        self.production = array(graph.production)


class Queues:
    """The tokens in each channel: batches of equal time, in rings.

    The ring of channel c has size[c] entries from start[c] on, of which length[c] hold a batch, the
    oldest at start[c] + head[c]. count, time: flat, of each batch. tokens, last_time: (C,) tokens in
    the channel, and time of the newest one so far.
    """

    def __init__(self, rings):
        """Keep these arrays."""
        self.start = rings.start
        self.size = rings.size
        self.head = rings.head
        self.length = rings.length
        self.count = rings.counts
        self.time = rings.times
        self.tokens = rings.tokens
        self.last_time = rings.last_time


class Actors:
    """How far the actors are.

    phase, latest_start, quota: (A,) next phase, start of the last firing, firings left. stack,
    is_stacked: (A,) actors to look at, and whether an actor is among them. record: start times; a
    firing of actor a writes record[record_at[a]], unless record is empty, and moves that index on.
    """

    def __init__(self, actors, blank):
        """Begin with no firing done and none wanted. blank: makes zeros of the kernel's kind."""
        self.phase = blank(actors)
        self.latest_start = blank(actors)
        self.quota = blank(actors)
        self.stack = blank(actors)
        self.is_stacked = blank(actors)
        self.record_at = blank(actors)
        self.record = blank(0)


def advance(wiring, queues, actors, fuel, answer):
    """Fire until every quota is used up; return DONE, STUCK, FULL or PAUSED.

    Changes `queues` and `actors`. fuel: firings after which to pause. answer: (1,) out.
    """
    left = 0
    depth = 0
    for i in range(len(wiring.phases)):
        depth = push(actors, depth, len(wiring.phases) - 1 - i)
        left += actors.quota[i]
    while depth > 0:
        if fuel <= 0:
            return PAUSED
        depth -= 1
        actor = actors.stack[depth]
        actors.is_stacked[actor] = 0
        burst = min(actors.quota[actor], BURST)
        for port in range(wiring.output_start[actor], wiring.output_start[actor + 1]):
            channel = wiring.output_channel[port]
            if queues.length[channel] == queues.size[channel]:
                answer[0] = channel
                return FULL
            burst = min(burst, queues.size[channel] - queues.length[channel])
        fired = 0
        while fired < burst and is_enabled(wiring, queues, actor, actors.phase[actor]):
            fire(wiring, queues, actors, actor)
            fired += 1
        left -= fired
        fuel -= fired
        if fired > 0:
            if fired == burst and actors.quota[actor] > 0:
                depth = push(actors, depth, actor)
            depth = push_consumers(wiring, actors, depth, actor)
    return STUCK if left > 0 else DONE


def push(actors, depth, actor):
    """Put an actor onto the stack; return the depth of the stack."""
    actors.is_stacked[actor] = 1
    actors.stack[depth] = actor
    return depth + 1


def push_consumers(wiring, actors, depth, actor):
    """Put the consumers of an actor that have firings left onto the stack; return its depth."""
    for port in range(wiring.output_start[actor], wiring.output_start[actor + 1]):
        follower = wiring.consumer[port]
        if actors.is_stacked[follower] == 0 and actors.quota[follower] > 0:
            depth = push(actors, depth, follower)
    return depth


def is_enabled(wiring, queues, actor, phase):
    """Whether every input of the actor holds the tokens that this phase takes."""
    for port in range(wiring.input_start[actor], wiring.input_start[actor + 1]):
        needed = wiring.consumption[wiring.consumption_start[port] + phase]
        if queues.tokens[wiring.input_channel[port]] < needed:
            return False
    return True


def fire(wiring, queues, actors, actor):
    """Carry out the next firing of an enabled actor."""
    phase = actors.phase[actor]
    start = actors.latest_start[actor]
    for port in range(wiring.input_start[actor], wiring.input_start[actor + 1]):
        needed = wiring.consumption[wiring.consumption_start[port] + phase]
        if needed > 0:
            time = take(queues, wiring.input_channel[port], needed)
            if time > start:
                start = time
    end = start + wiring.duration[wiring.duration_start[actor] + phase]
    for port in range(wiring.output_start[actor], wiring.output_start[actor + 1]):
        made = wiring.production[wiring.production_start[port] + phase]
        if made > 0:
            put(queues, wiring.output_channel[port], made, end)
    if len(actors.record) > 0:
        actors.record[actors.record_at[actor]] = start
        actors.record_at[actor] += 1
    actors.quota[actor] -= 1
    actors.latest_start[actor] = start
    actors.phase[actor] = phase + 1 if phase + 1 < wiring.phases[actor] else 0


def take(queues, channel, needed):
    """Take tokens, of which there are enough, from a channel; return the time of the last one."""
    queues.tokens[channel] -= needed
    size = queues.size[channel]
    entry = queues.head[channel]
    base = queues.start[channel]
    while needed > queues.count[base + entry]:
        needed -= queues.count[base + entry]
        queues.length[channel] -= 1
        entry += 1
        if entry == size:
            entry = 0
    time = queues.time[base + entry]  # the last token needed lies in this batch
    if needed == queues.count[base + entry]:
        queues.length[channel] -= 1
        entry += 1
        if entry == size:
            entry = 0
    else:
        queues.count[base + entry] -= needed
    queues.head[channel] = entry
    return time


def put(queues, channel, made, end):
    """Put tokens, for which there is room, into a channel at this time or after its newest token."""
    queues.tokens[channel] += made
    size = queues.size[channel]
    base = queues.start[channel]
    tail = queues.head[channel] + queues.length[channel]
    if tail >= size:
        tail -= size
    if end > queues.last_time[channel]:
        queues.last_time[channel] = end
    newest = tail - 1 if tail > 0 else size - 1
    if queues.length[channel] and queues.time[base + newest] == queues.last_time[channel]:
        queues.count[base + newest] += made
    else:
        queues.count[base + tail] = made
        queues.time[base + tail] = queues.last_time[channel]
        queues.length[channel] += 1


def pack_state(queues, actors, origin, state):
    """Write what the future depends on, times relative to `origin`; return how many numbers.

    state: out, filled as far as it reaches.
    """
    room = len(state)
    written = 0
    for actor in range(len(actors.latest_start)):
        if written < room:
            state[written] = actors.latest_start[actor] - origin
        written += 1
    for channel in range(len(queues.start)):
        if written + 1 < room:
            state[written] = queues.length[channel]
            state[written + 1] = queues.last_time[channel] - origin
        written += 2
        entry = queues.head[channel]
        for _ in range(queues.length[channel]):
            at = queues.start[channel] + entry
            if written + 1 < room:
                state[written] = queues.count[at]
                state[written + 1] = queues.time[at] - origin
            written += 2
            entry += 1
            if entry == queues.size[channel]:
                entry = 0
    return written
