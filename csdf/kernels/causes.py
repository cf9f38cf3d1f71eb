"""A critical cycle from the recorded causes of the starts in a steady part.

In a steady part every start has a cause: the end of the firing that produced the latest token, or the
start of the actor's previous firing. A walk from firing to cause enters a cycle, because firings that
are whole steady parts apart have equal causes, shifted by as much. That cycle is critical. Brent's
method finds its length and its begin with two walkers and constant memory.

Source: R. P. Brent, An improved Monte Carlo factorization algorithm, BIT 20, 1980.
"""

from __future__ import annotations


class SteadyPart:
    """A steady part with the recorded causes of its starts, and the graph: A actors, C channels.

    firings: (A,) of each actor in the part; time: duration of the part.
    cause_words: words of packed causes, the `causes` of `self_timed.Actors`. The causes of actor a
        begin at word cause_start[a]; each takes cause_bits[a] bits, and a word holds per_word[a].
    record: start times of actors whose firings may overtake each other, from record_start[a] on;
        record_start is -1 for other actors.
    phases: (A,). duration: flat, of each phase, from duration_start[a] on.
    input_channel: flat, from input_start[a] on. producer, initial_tokens: (C,).
    made, taken: flat, tokens that a cycle of phases produces, or consumes, up to and including each
        phase, from made_start[c] and taken_start[c] on.
    """

    def __init__(self, columns, array):
        """Copy the columns. array: makes a sequence of the kernel's kind."""
        self.firings = array(columns.firings)
        self.time = columns.time
        self.cause_words = columns.causes
        self.cause_bits = array(columns.cause_bits)
        self.per_word = array(columns.per_word)
        self.cause_start = array(columns.cause_start)
        self.record = columns.record
        self.record_start = array(columns.record_start)
        self.phases = array(columns.phases)
        self.duration_start = array(columns.duration_start)
        self.duration = array(columns.duration)
        self.input_start = array(columns.input_start)
        self.input_channel = array(columns.input_channel)
        self.producer = array(columns.producer)
        self.initial_tokens = array(columns.initial_tokens)
        self.made_start = array(columns.made_start)
        self.made = array(columns.made)
        self.taken_start = array(columns.taken_start)
        self.taken = array(columns.taken)


class Walker:
    """A walk from firing to cause.

    actor, firing: the current firing, counted within its steady part; rounds: number of that part, 0 at
    first, then negative; now: its start. passed: total duration of the visited firings. channel: of
    the last step, -1 for the order of an actor's starts.
    """

    def __init__(self, actor, firing, now):
        """Begin at this firing, which starts now."""
        self.actor = actor
        self.firing = firing
        self.now = now
        self.rounds = 0
        self.passed = 0
        self.channel = -1


def step(part, walker):
    """Move the walker from its firing to the cause of the firing's start."""
    actor = walker.actor
    firing = walker.firing
    bits = part.cause_bits[actor]
    per_word = part.per_word[actor]
    word = part.cause_words[part.cause_start[actor] + firing // per_word]
    cause = (word >> firing % per_word * bits) & ((1 << bits) - 1)
    walker.channel = -1
    # Cause 0 is the start of the actor's own previous firing:
    # no time passes between the two starts.
    if cause == 0:
        source = firing - 1
    else:
        channel = part.input_channel[part.input_start[actor] + cause - 1]
        source = maker(part, walker, channel)
        actor = part.producer[channel]
        phase = source % part.phases[actor]
        duration = part.duration[part.duration_start[actor] + phase]
        walker.channel = channel
        walker.passed += duration
        walker.now -= duration
    walker.actor = actor
    walker.firing = source % part.firings[actor]
    walker.rounds += source // part.firings[actor]


def maker(part, walker, channel):
    """Return the firing whose end made the last input token of the walker's firing available.

    If firings overtake each other, an earlier firing may end later. The cause is then the last of a
    cycle of phases, up to the producer of this token, that produces tokens on the channel and ends when
    the walker's firing starts.
    """
    producer = part.producer[channel]
    phases = part.phases[walker.actor]
    at = part.taken_start[channel]
    needed = walker.firing // phases * part.taken[at + phases - 1]
    needed += part.taken[at + walker.firing % phases] - part.initial_tokens[channel]
    # Invert the cumulative production: the firing that produces token number `needed`.
    source = first_reaching(part, channel, needed)
    # Without overtaking, the producer of the last token is also the one that ends last.
    if part.record_start[producer] < 0:
        return source
    earliest = source - part.phases[producer] + 1
    while source > earliest and not ends_now(part, walker, channel, source):
        source -= 1
    return source


def first_reaching(part, channel, tokens):
    """Return the first firing of the producer after which it has produced this many tokens."""
    base = part.made_start[channel]
    phases = part.phases[part.producer[channel]]
    per_cycle = part.made[base + phases - 1]
    # Whole cycles of phases first, then a binary search in the cumulative production of one cycle.
    cycles = (tokens - 1) // per_cycle
    rest = tokens - cycles * per_cycle
    low = 0
    high = phases - 1
    while low < high:
        middle = (low + high) // 2
        if part.made[base + middle] >= rest:
            high = middle
        else:
            low = middle + 1
    return cycles * phases + low


def ends_now(part, walker, channel, firing):
    """Whether a firing of the producer produces tokens, and ends when the walker's firing starts."""
    producer = part.producer[channel]
    phase = firing % part.phases[producer]
    at = part.made_start[channel] + phase
    if part.made[at] == (part.made[at - 1] if phase else 0):
        return False
    within = firing % part.firings[producer]
    rounds = firing // part.firings[producer] + walker.rounds
    start = part.record[part.record_start[producer] + within] + rounds * part.time
    duration = part.duration[part.duration_start[producer] + phase]
    return start + duration == walker.now


def is_met(first, second):
    """Whether two walkers are at the same firing of the steady part."""
    return first.actor == second.actor and first.firing == second.firing


def cycle_length(part, walker, waiting):
    """Return the number of steps of the cycle that a walk enters.

    walker, waiting: two walkers at the first firing of the walk.
    """
    power = 1
    length = 1
    step(part, walker)
    # Brent's cycle detection: the waiting walker catches up after 1, 2, 4, ... steps, so no visited
    # firing has to be stored.
    while not is_met(walker, waiting):
        if length == power:
            waiting.actor = walker.actor
            waiting.firing = walker.firing
            power *= 2
            length = 0
        step(part, walker)
        length += 1
    return length


def go_round(part, first, second, length, actor_step, channel_step):
    """Move two walkers from the same firing to the begin of the cycle, and the first around it.

    first: at the end, `passed` is the time of the cycle, and `rounds` the iterations that it spans.
    actor_step, channel_step: (A,), (C,) zeros; output: the last visit of each, counted from 1.
    """
    # Two walkers that are one cycle length apart first meet where the cycle begins.
    for _ in range(length):
        step(part, first)
    while not is_met(first, second):
        step(part, first)
        step(part, second)
    # Rebase to round 0, so that the counters measure exactly one tour of the cycle.
    first.passed = 0
    first.now -= first.rounds * part.time
    first.rounds = 0
    for number in range(length):
        step(part, first)
        actor_step[first.actor] = number + 1
        if first.channel >= 0:
            channel_step[first.channel] = number + 1
