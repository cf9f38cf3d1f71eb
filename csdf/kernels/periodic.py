"""Constraints of a periodic schedule, and the smallest period that satisfies them.

A K-periodic schedule starts `copies` successive cycles of an actor freely and repeats them with a
fixed period. `expand` lists its precedence constraints: one node for each phase of each copy, and
for each node its incoming edges. An edge from node u to node v says

    start(v) >= start(u) + time(u) - period * height,

where heights are in units of 1 / `scale` iterations. The first incoming edge of every node keeps the
starts of its actor in order and carries no time. The smallest period is the largest ratio time / height
over all cycles; `maximum_cycle_ratio` computes it by policy iteration in integers.

The token arithmetic: number the tokens of a channel from 0 by their position in the queue. The
producer's firing of copy n, phase p produces the tokens from A = n * U + before[p] on, where U is the
number of tokens in a cycle. The consumer's firing needs the tokens below D; the last v of these are
new, earlier firings do not need them. Successive periods shift the producer against the consumer by
multiples of g = gcd(U', V'), where U' and V' are the tokens that all copies produce and consume. So
each producer firing counts once, for the largest shift x, a multiple of g, with A + x < D; the edge
has height -x. With

    shifted_position = D - 1 - x

the condition A + x < D becomes shifted_position >= A, and shifted_position is congruent to D - 1
modulo g. The loop visits the positions of this residue, or the firings that produce new tokens. The
first token of the producer firing is new to the consumer firing if shifted_position - A < v; if not,
an earlier firing of the consumer waits for it.

Example: U' = 6 and V' = 4, so g = 2. A consumer firing needs the tokens below D = 5, and v = 1: only
token 4 is new. For the producer firing with A = 0 the shift is x = 4, to token 4: shifted_position = 0,
and 0 - 0 < 1, so an edge has height -4. For A = 1 the shift is x = 2, to token 3: shifted_position = 2,
and 2 - 1 is not less than 1, so the firing has no edge.

Source: Bodin, Munier-Kordon, Dupont de Dinechin, Optimal and fast throughput evaluation of CSDF,
DAC 2016, section 3 (constraints); Cochet-Terrasson et al., Numerical computation of spectral
elements in max-plus algebra, 1998 (policy iteration).
"""

from __future__ import annotations

OPTIMAL = 0  # the ratio is the largest; values are the start times times `height`
BLOCKED = 1  # a cycle of height 0 or less: no schedule of this kind exists
OVERFLOW = 2  # a sum left the allowed range: repeat with unbounded integers
CHANGED = 3  # the policy is not optimal yet: call again


class ConstraintLayout:
    """The graph, without the tokens: A actors, C channels.

    node_start: (A,) first node of each actor; node = node_start + copy * phases + phase. phases,
    copies: (A,) phases of a cycle, cycles in a period. wrap_height: (A,) height of one period.
    input_channel[input_start[a] : input_start[a + 1]]: the input channels of actor a. producer: (C,).
    produced, consumed: (C,) tokens of a cycle of the producer, and of the consumer. produced_before,
    consumed_upto: flat, tokens produced in the cycle before each phase, and consumed up to and
    including each phase, from index production_start[c] and consumption_start[c] on. step,
    step_height: (C,) g above; height of g tokens. is_ordered: (C,) whether firings of the producer end
    in order: then of several firings with equal shift only the last has an edge.
    """

    def __init__(self, columns, array):
        """Copy the columns. array: makes a sequence of the kernel's kind."""
        self.node_start = array(columns.node_start)
        self.phases = array(columns.phases)
        self.copies = array(columns.copies)
        self.wrap_height = array(columns.wrap_height)
        self.input_start = array(columns.input_start)
        self.input_channel = array(columns.input_channel)
        self.producer = array(columns.producer)
        self.produced = array(columns.produced)
        self.produced_before = array(columns.produced_before)
        self.production_start = array(columns.production_start)
        self.consumed = array(columns.consumed)
        self.consumed_upto = array(columns.consumed_upto)
        self.consumption_start = array(columns.consumption_start)
        self.step = array(columns.step)
        self.step_height = array(columns.step_height)
        self.is_ordered = array(columns.is_ordered)


class Edges:
    """The incoming edges of node v: entries start[v] : start[v + 1] of source, height and channel.

    start: (nodes + 1,). The channel of an edge that orders the starts of an actor is -1. number: edges
    so far; if the arrays are too short, edges are only counted. node, actor: at which listing resumes.
    steps: of the current call.
    """

    def __init__(self, start, source, height, channel):
        """Keep these arrays."""
        self.node = 0
        self.actor = 0
        self.number = 0
        self.steps = 0
        self.start = start
        self.source = source
        self.height = height
        self.channel = channel


class Policy:
    """A policy, one incoming edge for each of N nodes, and its values and cycles.

    | field | on entry | on return |
    |---|---|---|
    | choice (N,) | incoming edge per node, 0 the first; ignored if out of range | last policy |
    | value (N,) | start times times `unit` | start times times `denominator`, if OPTIMAL |
    | unit | factor of `value`; 0: `choice` and `value` are not set | factor of `value` |
    | low_time / low_height | further cycles are reported above this ratio | unchanged |
    | limit | largest sum that is allowed | unchanged |
    | edge (N,) | - | incoming edge per node: an optimal policy, if OPTIMAL |
    | cycle (N,) | - | edges of the critical cycle; each leaves the node that the next edge enters |
    | time, height, length | - | of the critical cycle |
    | others | - | edges of further cycles while there is room, each cycle ended by -1 |
    | reported | - | entries of `others` |
    | work | - | edges examined |

    With numerator / denominator, the ratio in lowest terms, the values satisfy value[v] >= value[u]
    + denominator * time(u) - numerator * height on every edge u -> v. stage: of an iteration, 0 to 2.
    order, mark: (N,) scratch. seen_time, seen_height, seen_length: the cycle measured last.
    """

    def __init__(self, value, cycle, others, choice, blank):
        """Keep these arrays. blank: makes zeros of the kernel's kind."""
        self.value = value
        self.choice = choice
        self.cycle = cycle
        self.others = others
        self.edge = blank(len(value))
        self.order = blank(len(value))
        self.mark = blank(len(value))
        self.numerator = 0
        self.denominator = 0
        self.time = 0
        self.height = 0
        self.length = 0
        self.reported = 0
        self.work = 0
        self.stage = 0
        self.unit = 0
        self.is_raised = False
        self.is_blocked = False
        self.seen_time = 0
        self.seen_height = 0
        self.seen_length = 0
        self.low_time = 0
        self.low_height = 1
        self.limit = 0

    def begin_with(self, unit):
        """Declare `choice` an initial policy, and `value` its values times `unit`."""
        self.unit = unit

    def within(self, low_time, low_height, limit):
        """Set the ratio above which cycles are reported, and the largest sum; return itself."""
        self.low_time = low_time
        self.low_height = low_height
        self.limit = limit
        return self


def expand(layout, initial_tokens, edges, fuel):
    """Start or resume listing the incoming edges of all nodes; return whether all are listed.

    initial_tokens: (C,). fuel: steps after which to pause, at the next node.
    """
    actor = edges.actor
    count = edges.number
    edges.steps = 0
    for node in range(edges.node, len(edges.start) - 1):
        edges.node = node
        edges.number = count
        if edges.steps >= fuel:
            edges.actor = actor
            return False
        while node == layout.node_start[actor] + layout.copies[actor] * layout.phases[actor]:
            actor += 1
        copy = (node - layout.node_start[actor]) // layout.phases[actor]
        phase = node - layout.node_start[actor] - copy * layout.phases[actor]
        edges.start[node] = count
        count = add_order(layout, edges, count, actor, node)
        for port in range(layout.input_start[actor], layout.input_start[actor + 1]):
            channel = layout.input_channel[port]
            at = layout.consumption_start[channel] + phase
            end = layout.consumed_upto[at]
            new = end - (layout.consumed_upto[at - 1] if phase else 0)
            end += copy * layout.consumed[channel] - initial_tokens[channel] - 1
            edges.steps += 1
            # A phase that consumes nothing adds no constraint:
            # earlier firings wait for the same tokens.
            if new > 0:
                count = add_producers(layout, edges, count, channel, end, new)
    edges.number = count
    edges.node = len(edges.start) - 1
    edges.start[edges.node] = count
    return True


def add_order(layout, edges, count, actor, node):
    """Order a node after its predecessor; the first node after the last of the previous period."""
    if count < len(edges.source):
        first = node == layout.node_start[actor]
        nodes = layout.copies[actor] * layout.phases[actor]
        # Starts of an actor are in order; the edge to its first node wraps around one period.
        edges.source[count] = node + nodes - 1 if first else node - 1
        edges.height[count] = layout.wrap_height[actor] if first else 0
        edges.channel[count] = -1
    return count + 1


def add_producers(layout, edges, count, channel, end, new):
    """Order a node after the producer firings of the last `new` tokens of a channel up to `end`."""
    source = layout.producer[channel]
    phases = layout.phases[source]
    per_cycle = layout.produced[channel]
    g = layout.step[channel]
    base = layout.production_start[channel]
    total = per_cycle * layout.copies[source]
    ordered = layout.is_ordered[channel]
    position = end % g if ordered else 0
    while position < total:
        edges.steps += 1
        repeat = position // per_cycle
        phase = last_before(layout, base, phases, position - repeat * per_cycle)
        begin = repeat * per_cycle + layout.produced_before[base + phase]
        after = total
        if phase + 1 < phases:
            after = repeat * per_cycle + layout.produced_before[base + phase + 1]
        elif repeat + 1 < layout.copies[source]:
            after = (repeat + 1) * per_cycle
        shifted_position = position if ordered else begin + (end - begin) % g
        if shifted_position - begin < new:
            if count < len(edges.source):
                edges.source[count] = layout.node_start[source] + repeat * phases + phase
                edges.height[count] = (shifted_position - end) // g * layout.step_height[channel]
                edges.channel[count] = channel
            count += 1
        # The next position of the same residue modulo g after the tokens of this producer firing.
        if ordered:
            position += (after - position + g - 1) // g * g
        else:
            # To the next firing that produces new tokens: with many phases most firings produce none.
            position = max(after, shifted_position - new + 1)
    return count


def last_before(layout, base, phases, made):
    """Return the last phase before which a cycle produces at most `made` tokens."""
    # Binary search in the cumulative production of one cycle.
    low = 0
    high = phases - 1
    while low < high:
        middle = (low + high + 1) // 2
        if layout.produced_before[base + middle] <= made:
            low = middle
        else:
            high = middle - 1
    return low


def maximum_cycle_ratio(edges, time, policy, fuel):
    """Compute the largest time / height over all cycles; return OPTIMAL, BLOCKED or OVERFLOW.

    fuel: edges to examine before a pause with the result CHANGED; the next call resumes. edges: of
    `expand`; every node has an incoming edge. time: (N,) of each node, >= 0. policy: input and output.
    A cycle with height <= 0 is BLOCKED, whatever its time.
    """
    nodes = len(time)
    left = fuel
    if policy.work == 0 and policy.stage == 0:
        choose_first(edges, policy)
        if policy.unit > 0:
            restore_policy(edges, policy)
    while left > 0:
        left -= edges.start[nodes]
        # Howard's policy iteration, in three stages that can be resumed: the cycles of the policy
        # and their largest ratio, the node values at this ratio, and the improvement of the policy.
        if policy.stage == 0:
            if not find_cycles(edges, time, policy):
                return OVERFLOW
            if policy.is_blocked:
                return BLOCKED
            if policy.is_raised:
                if not holds_products(edges, time, policy):
                    return OVERFLOW
                begin_values(policy)
            policy.stage = 1
        elif policy.stage == 1:
            if not follow(edges, time, policy):
                return OVERFLOW
            policy.stage = 2
        else:
            status = improve(edges, time, policy)
            policy.work += edges.start[nodes]
            policy.stage = 0
            if status != CHANGED:
                for node in range(nodes):
                    policy.choice[node] = policy.edge[node] - edges.start[node]
                return status
    return CHANGED


def holds_products(edges, time, policy):
    """Whether all times and heights in the units of the ratio are within the limit."""
    largest_time = 0
    largest_height = 0
    for node in range(len(time)):
        largest_time = max(largest_time, time[node])
    for edge in range(edges.start[len(time)]):
        largest_height = max(largest_height, abs(edges.height[edge]))
    if largest_time > policy.limit // policy.denominator:
        return False
    return policy.numerator == 0 or largest_height <= policy.limit // policy.numerator


def choose_first(edges, policy):
    """Choose for each node the incoming edge of minimum height; the order edge only if alone."""
    for node in range(len(policy.edge)):
        best = edges.start[node]
        for edge in range(edges.start[node] + 1, edges.start[node + 1]):
            # A small height makes the ratio of a cycle large,
            # so this policy begins near the maximum.
            if best == edges.start[node] or edges.height[edge] < edges.height[best]:
                best = edge
        policy.edge[node] = best


def restore_policy(edges, policy):
    """Begin with the policy in `choice`: any policy is valid, a nearby optimum saves iterations."""
    for node in range(len(policy.edge)):
        edge = edges.start[node] + policy.choice[node]
        if edge < edges.start[node + 1]:
            policy.edge[node] = edge


def begin_values(policy):
    """Begin with zeros, or with the values on entry, in the units of the present ratio.

    Values only rise, so any initial values are valid; those of a nearby solution need few iterations.
    """
    largest = 0
    for node in range(len(policy.value)):
        largest = max(largest, policy.value[node])
    keeps = policy.unit > 0 and largest <= policy.limit // policy.denominator
    for node in range(len(policy.value)):
        policy.value[node] = policy.value[node] * policy.denominator // policy.unit if keeps else 0
    if policy.unit > 0:
        policy.unit = policy.denominator


def find_cycles(edges, time, policy):
    """Keep the critical cycle of the policy, and order nodes behind their sources; False: overflow."""
    nodes = len(policy.edge)
    placed = 0
    policy.is_raised = False
    policy.is_blocked = False
    for node in range(nodes):
        policy.mark[node] = -1
    for first in range(nodes):
        length = 0
        node = first
        # Each node has one incoming policy edge. A backward walk ends at a marked node; the mark of
        # the walk itself closes a cycle that is new.
        while policy.mark[node] < 0:
            policy.mark[node] = first
            length += 1
            policy.order[nodes - length] = node
            node = edges.source[policy.edge[node]]
        if length > 0 and policy.mark[node] == first:
            if not measure(edges, time, policy, node) or not compare(edges, policy, node):
                return False
        for i in range(length):  # the walk's last node lies in front
            policy.order[placed + i] = policy.order[nodes - length + i]
        placed += length
    return True


def measure(edges, time, policy, root):
    """Compute time and height of the policy's cycle through `root`; return False for an overflow."""
    node = root
    cycle_time = 0
    cycle_height = 0
    length = 0
    while node != root or length == 0:
        edge = policy.edge[node]
        if edge != edges.start[node]:
            cycle_time += time[edges.source[edge]]
        cycle_height += edges.height[edge]
        if abs(cycle_height) > policy.limit or cycle_time > policy.limit:
            return False
        length += 1
        node = edges.source[edge]
    policy.seen_time = cycle_time
    policy.seen_height = cycle_height
    policy.seen_length = length
    return True


def compare(edges, policy, root):
    """Store or report the measured cycle if its ratio is large enough; return False for an overflow."""
    time = policy.seen_time
    height = policy.seen_height
    if height <= 0:  # blocks; there is no ratio to compare
        keep(edges, policy, root)
        report(edges, policy, root)
        return True
    if not policy.is_blocked:
        wins = policy.denominator == 0
        if not wins:
            # Ratios are compared by cross-multiplication, if the products are within the limit.
            if (
                time > policy.limit // policy.denominator
                or policy.numerator > policy.limit // height
            ):
                return False
            wins = time * policy.denominator > policy.numerator * height
        if wins:
            keep(edges, policy, root)
    if height < policy.limit // (policy.low_time + 1):
        if time > policy.low_time * height // policy.low_height:
            report(edges, policy, root)
    return True


def keep(edges, policy, root):
    """Store the measured cycle as the critical cycle."""
    policy.is_raised = True
    policy.is_blocked = policy.is_blocked or policy.seen_height <= 0
    policy.time = policy.seen_time
    policy.height = policy.seen_height
    policy.length = policy.seen_length
    node = root
    for i in range(policy.length):
        policy.cycle[i] = policy.edge[node]
        node = edges.source[policy.edge[node]]
    policy.numerator = policy.time
    policy.denominator = policy.height
    if not policy.is_blocked:
        # Euclid's algorithm: the ratio in lowest terms keeps the values small.
        a = policy.numerator
        b = policy.denominator
        while b:
            a, b = b, a % b
        policy.numerator //= a
        policy.denominator //= a


def report(edges, policy, root):
    """Append the measured cycle to `others`, if it fits."""
    if policy.reported + policy.seen_length < len(policy.others):
        node = root
        for _ in range(policy.seen_length):
            policy.others[policy.reported] = policy.edge[node]
            policy.reported += 1
            node = edges.source[policy.edge[node]]
        policy.others[policy.reported] = -1
        policy.reported += 1


def follow(edges, time, policy):
    """Compute the values of the policy; return False for an overflow.

    Values never decrease: along a cycle of a smaller ratio they would decrease without bound.
    """
    for i in range(len(policy.order)):
        node = policy.order[i]
        edge = policy.edge[node]
        # Max-plus evaluation: nodes are sorted after their sources, so one pass is enough.
        reached = policy.value[edges.source[edge]] - policy.numerator * edges.height[edge]
        if edge != edges.start[node]:
            reached += policy.denominator * time[edges.source[edge]]
        if reached > policy.limit:
            return False
        policy.value[node] = max(policy.value[node], reached)
    return True


def improve(edges, time, policy):
    """Choose the best incoming edge of every node; return OPTIMAL, CHANGED or OVERFLOW.

    All nodes are compared by the values of the previous policy: with values updated in between, ties
    would hide improvements.
    """
    numerator = policy.numerator
    denominator = policy.denominator
    # If no edge raises a value, the values satisfy all constraints and certify the ratio.
    status = OPTIMAL
    for node in range(len(policy.value)):
        first = edges.start[node]
        best = policy.value[node]
        for edge in range(first, edges.start[node + 1]):
            source = edges.source[edge]
            candidate = policy.value[source] - numerator * edges.height[edge]
            if edge != first:
                candidate += denominator * time[source]
            if candidate > best:
                best = candidate
                policy.edge[node] = edge
                status = CHANGED
        if best > policy.limit:
            return OVERFLOW
    return status
