"""Self-timed execution: the firing rule that all simulations of the engine share.

A firing consumes the tokens of its phase from every input and produces those of its phase on every
output. It starts at the maximum of the start of the actor's previous firing and, for every input, the
time of its last token. The output tokens carry the time of the end of the firing, or of the previous
token in the channel if that is later: a channel is a FIFO, also where firings overlap.

The time of a firing depends only on its tokens, so firings need not be simulated in the order of time.
The kernel proceeds depth first, consumers before producers, which keeps queues short. It stops where
every actor has fired its quota, so that states are compared after whole iterations.

Source: Ghamarian et al., Throughput analysis of synchronous data flow graphs, ACSD 2006 (self-timed
state space); Geilen, Stuijk, Worst-case performance analysis of SDF scenarios, CODES+ISSS 2010
(times of tokens as state).
"""

from __future__ import annotations

DONE = 0  # every actor has fired its quota
STUCK = 1  # no actor can fire, but some quota is left
FULL = 2  # the ring of channel `queues.full` needs more room; grow it and call again
PAUSED = 3  # the fuel is used up; call again

BURST = 64  # successive firings of an actor before its consumers fire: bounds the queues
NOWHERE = -1  # in record_at: starts of this actor are not recorded; in full: no ring is
WORD_BITS = 60  # of a word of recorded causes


class Wiring:
    """The graph, which does not change: A actors, C channels, hence C input ports and C output ports.

    phases, duration_start: (A,) phases, and index of the first duration. duration: flat, time units of
    each phase. The input ports of actor a are input_start[a] : input_start[a + 1], likewise its output
    ports. By port, (C,): input_channel, output_channel; consumer, the actor at the other end of an
    output; consumption_start, production_start, the index of its first rate. consumption, production:
    flat, tokens of each phase.
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

    The ring of channel c has size[c] entries from start[c] on, length[c] of them hold a batch, the
    oldest at start[c] + head[c]. count, time: flat, of each batch. tokens, last_time: (C,) tokens in
    the channel, and time of the newest one so far. needed: (C,) tokens that the consumer's next
    firing consumes. full: a channel whose ring has no room for one more batch, or NOWHERE.
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
        self.needed = rings.needed
        self.full = NOWHERE


class Actors:
    """State of the actors. By default neither starts nor causes are recorded.

    phase, latest_start, quota: (A,) next phase, start of the last firing, firings left. lacking: (A,)
    input channels with too few tokens for the next firing. stack: (A,) actors to fire.
    record: start times; a firing of actor a writes record[record_at[a]] and increments that index,
    unless it is NOWHERE or record is empty.
    causes: the constraint that decided each start: 0 for the start of the previous firing, or the input
    port, counted from 1, with the latest token. A cause of actor a has cause_bits[a] bits (0: not
    recorded), and WORD_BITS // cause_bits[a] causes share a word. The next cause is written to word
    cause_at[a] at bit cause_shift[a].
    """

    def __init__(self, actors, blank):
        """Begin with no firings and no quota. blank: returns an array of zeros of the kernel's kind."""
        self.phase = blank(actors)
        self.latest_start = blank(actors)
        self.quota = blank(actors)
        self.lacking = blank(actors)
        self.stack = blank(actors)
        self.record_at = blank(actors)
        self.record = blank(0)
        self.cause_bits = blank(actors)
        self.cause_at = blank(actors)
        self.cause_shift = blank(actors)
        self.causes = blank(0)


def begin(wiring, queues, actors):
    """Set the demand of the first firing of every actor. Changes `queues` and `actors`."""
    for actor in range(len(wiring.phases)):
        actors.lacking[actor] = 0
        for port in range(wiring.input_start[actor], wiring.input_start[actor + 1]):
            need_next(wiring, queues, actors, actor, port, 0)


def need_next(wiring, queues, actors, actor, port, phase):
    """Set the demand of the next firing, which has this phase, on an input port."""
    channel = wiring.input_channel[port]
    needed = wiring.consumption[wiring.consumption_start[port] + phase]
    queues.needed[channel] = needed
    if queues.tokens[channel] < needed:
        actors.lacking[actor] += 1


def advance(wiring, queues, actors, fuel):
    """Fire until every quota is used up; return DONE, STUCK, FULL or PAUSED.

    Changes `queues` and `actors`. fuel: firings after which to pause. Every ring has room for a batch.
    """
    left = 0
    depth = 0
    # Actors are pushed in reverse order: the first enabled actor is on top of the stack.
    for i in range(len(wiring.phases)):
        actor = len(wiring.phases) - 1 - i
        left += actors.quota[actor]
        if is_enabled(actors, actor):
            depth = push(actors, depth, actor)
    while depth > 0:
        if fuel <= 0:
            return PAUSED
        depth -= 1
        below = depth
        actor = actors.stack[depth]
        burst = BURST
        while burst > 0 and is_enabled(actors, actor):
            depth = fire(wiring, queues, actors, actor, depth)
            burst -= 1
            left -= 1
            fuel -= 1
            if queues.full != NOWHERE:
                return FULL
        # The consumers that the actor enabled occupy the stack from `below` up. The actor, if it can
        # fire again, goes beneath them: it takes the slot of the first, which moves to the top.
        if is_enabled(actors, actor):
            actors.stack[depth] = actors.stack[below]
            actors.stack[below] = actor
            depth += 1
    return STUCK if left > 0 else DONE


def push(actors, depth, actor):
    """Put an actor onto the stack; return the depth of the stack."""
    actors.stack[depth] = actor
    return depth + 1


def is_enabled(actors, actor):
    """Whether every input holds the tokens of the next firing, and the quota is not used up."""
    return actors.lacking[actor] == 0 and actors.quota[actor] > 0


def fire(wiring, queues, actors, actor, depth):
    """Simulate the next firing of an enabled actor; push the actors that it enables.

    Returns the depth of the stack.
    """
    phase = actors.phase[actor]
    following = phase + 1 if phase + 1 < wiring.phases[actor] else 0
    start = actors.latest_start[actor]
    cause = 0
    actors.quota[actor] -= 1
    for port in range(wiring.input_start[actor], wiring.input_start[actor + 1]):
        channel = wiring.input_channel[port]
        if queues.needed[channel] > 0:
            time = take(queues, channel, queues.needed[channel])
            # Max-plus start time: the maximum of the previous start and the arrival of the last
            # token of each input.
            if time > start or (time == start and cause == 0):
                start = time
                cause = port + 1 - wiring.input_start[actor]
        need_next(wiring, queues, actors, actor, port, following)
    end = start + wiring.duration[wiring.duration_start[actor] + phase]
    for port in range(wiring.output_start[actor], wiring.output_start[actor + 1]):
        made = wiring.production[wiring.production_start[port] + phase]
        if made > 0:
            channel = wiring.output_channel[port]
            # The consumer becomes enabled only as its demand on this input turns from unmet to met.
            lacked = queues.tokens[channel] < queues.needed[channel]
            put(queues, channel, made, end)
            if lacked and queues.tokens[channel] >= queues.needed[channel]:
                follower = wiring.consumer[port]
                actors.lacking[follower] -= 1
                if follower != actor and is_enabled(actors, follower):
                    depth = push(actors, depth, follower)
    actors.latest_start[actor] = start
    actors.phase[actor] = following
    note(actors, actor, start, cause)
    return depth


def note(actors, actor, start, cause):
    """Record the start of a firing and its cause, where requested."""
    if len(actors.record) > 0 and actors.record_at[actor] != NOWHERE:
        actors.record[actors.record_at[actor]] = start
        actors.record_at[actor] += 1
    bits = actors.cause_bits[actor]
    if bits > 0:
        shift = actors.cause_shift[actor]
        actors.causes[actors.cause_at[actor]] |= cause << shift
        actors.cause_shift[actor] = shift + bits
        # The next cause would not fit into this word.
        if shift + 2 * bits > WORD_BITS:
            actors.cause_shift[actor] = 0
            actors.cause_at[actor] += 1


def take(queues, channel, needed):
    """Consume tokens from a channel that has enough; return the time of the last token."""
    queues.tokens[channel] -= needed
    size = queues.size[channel]
    entry = queues.head[channel]
    base = queues.start[channel]
    # A batch is a run of tokens with equal time: consume whole batches first.
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
    """Produce tokens at time `end`, or at the time of the newest token in the channel if later.

    The ring has a free entry.
    """
    queues.tokens[channel] += made
    size = queues.size[channel]
    base = queues.start[channel]
    tail = queues.head[channel] + queues.length[channel]
    if tail >= size:
        tail -= size
    if end > queues.last_time[channel]:
        queues.last_time[channel] = end
    newest = tail - 1 if tail > 0 else size - 1
    # Tokens of equal time join the newest batch, which keeps rings and packed states short.
    if queues.length[channel] and queues.time[base + newest] == queues.last_time[channel]:
        queues.count[base + newest] += made
    else:
        queues.count[base + tail] = made
        queues.time[base + tail] = queues.last_time[channel]
        queues.length[channel] += 1
        if queues.length[channel] == size:
            queues.full = channel


def pack_state(queues, actors, origin, state):
    """Write the state, with times relative to `origin`; return its length in numbers.

    state: output, filled up to its own length.
    """
    room = len(state)
    written = 0
    for actor in range(len(actors.latest_start)):
        if written < room:
            # Relative times: states that differ by a shift in time alone are packed equally.
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
