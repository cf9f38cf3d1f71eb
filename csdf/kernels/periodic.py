"""Constraints of a periodic schedule, and the smallest period that satisfies them.

A K-periodic schedule starts `copies` successive cycles of an actor freely and repeats them with a
fixed period. `expand` lists its precedence constraints: one node for each phase of each copy, and
for each node its incoming edges. An edge from node u to node v says

    start(v) >= start(u) + time(u) - period * height,

its height being counted in units of 1 / `scale` iterations, the same for the whole graph. The first
incoming edge of every node is the one that keeps the starts of its actor in order: it carries no
time. The smallest period is then the largest ratio time / height over all cycles, which
`maximum_cycle_ratio` finds by policy iteration in integers.

The token arithmetic: number the tokens of a channel by their place in the queue. A firing of the
producer at copy n, phase p makes the tokens after n * U + before[p]; the consumer's firing needs
those up to D, and those after D - v are new to it. Successive periods shift the producer against the
consumer by multiples of g = gcd(U', V'), U' and V' being what all copies produce and consume. So
each producer firing counts once for the largest shift x, a multiple of g, that puts its first token
before D; the edge has height -x. A shift puts the first token at A + x; with y = D - 1 - x this
reads y >= A, y = D - 1 modulo g, and the loop walks along y.

Source: Bodin, Munier-Kordon, Dupont de Dinechin, Optimal and fast throughput evaluation of CSDF,
DAC 2016, section 3 (constraints); Cochet-Terrasson et al., Numerical computation of spectral
elements in max-plus algebra, 1998 (policy iteration).
"""

from __future__ import annotations

OPTIMAL = 0  # the ratio is the largest; values are the start times times `height`
BLOCKED = 1  # a cycle without height: no schedule of this kind exists
OVERFLOW = 2  # a sum left the allowed range: repeat with unbounded integers


def expand(
    node_start,
    phases,
    copies,
    wrap_height,
    input_start,
    input_channel,
    producer,
    produced,
    produced_before,
    production_start,
    consumed,
    consumed_upto,
    consumption_start,
    initial_tokens,
    step,
    step_height,
    is_ordered,
    edge_start,
    edge_source,
    edge_height,
    edge_channel,
):
    """List the incoming edges of every node; return how many there are.

    node_start: (A,) first node of each actor; node = node_start + copy * phases + phase.
    phases, copies: (A,) entries of its cycle, cycles in a period.
    wrap_height: (A,) height of one period of the actor.
    input_start: (A + 1,) the input channels of actor a are input_channel[input_start[a] : ...].
    producer, produced: (C,) actor; tokens of one of its cycles.
    produced_before: flat, tokens made in the cycle before each phase; production_start: (C,).
    consumed, consumed_upto, consumption_start: likewise, up to and with each phase.
    initial_tokens, step, step_height: (C,) tokens; g above; height of g tokens.
    is_ordered: (C,) whether of two firings of the producer the later one never ends earlier, so
    that all but the latest of those with equal shift may be left out.
    edge_start: (nodes + 1,); edge_source, edge_height, edge_channel: filled as far as they reach; the
    channel of an ordering edge is -1.
    """
    room = len(edge_source)
    count = 0
    node = 0
    for actor in range(len(phases)):
        cycle = phases[actor]
        last = node_start[actor] + copies[actor] * cycle - 1
        for copy in range(copies[actor]):
            for phase in range(cycle):
                edge_start[node] = count
                if count < room:
                    first = copy == 0 and phase == 0
                    edge_source[count] = last if first else node - 1
                    edge_height[count] = wrap_height[actor] if first else 0
                    edge_channel[count] = -1
                count += 1
                for port in range(input_start[actor], input_start[actor + 1]):
                    channel = input_channel[port]
                    at = consumption_start[channel] + phase
                    needed = consumed_upto[at]
                    new = needed - (consumed_upto[at - 1] if phase else 0)
                    if new == 0:
                        continue
                    end = copy * consumed[channel] + needed - initial_tokens[channel] - 1
                    source = producer[channel]
                    source_phases = phases[source]
                    per_cycle = produced[channel]
                    g = step[channel]
                    base = production_start[channel]
                    total = per_cycle * copies[source]
                    ordered = is_ordered[channel]
                    y = end % g if ordered else 0
                    while y < total:
                        repeat = y // per_cycle
                        rest = y - repeat * per_cycle
                        low = 0
                        high = source_phases - 1
                        while low < high:
                            middle = (low + high + 1) // 2
                            if produced_before[base + middle] <= rest:
                                low = middle
                            else:
                                high = middle - 1
                        begin = repeat * per_cycle + produced_before[base + low]
                        after = total
                        if low + 1 < source_phases:
                            after = repeat * per_cycle + produced_before[base + low + 1]
                        elif repeat + 1 < copies[source]:
                            after = (repeat + 1) * per_cycle
                        shifted = y if ordered else begin + (end - begin) % g
                        if shifted - begin < new:
                            if count < room:
                                edge_source[count] = (
                                    node_start[source] + repeat * source_phases + low
                                )
                                edge_height[count] = (shifted - end) // g * step_height[channel]
                                edge_channel[count] = channel
                            count += 1
                        y = y + (after - y + g - 1) // g * g if ordered else after
                node += 1
    edge_start[node] = count
    return count


def maximum_cycle_ratio(
    edge_start,
    edge_source,
    edge_height,
    time,
    low_time,
    low_height,
    limit,
    policy,
    value,
    cycle,
    others,
    order,
    mark,
    answer,
):
    """Find the largest time / height over all cycles; return OPTIMAL, BLOCKED or OVERFLOW.

    edge_start: (N + 1,), edge_source, edge_height: (E,) incoming edges of each node, as `expand`
    makes them; every node has one. time: (N,) of each node, >= 0.
    low_time / low_height: other cycles met on the way are reported if their ratio is larger.
    limit: no sum may pass it.
    policy: (N,) out, for each node the incoming edge that decides it.
    value: (N,) out: start times times `denominator`, if OPTIMAL: they satisfy
    value[v] >= value[u] + denominator * time(u) - numerator * edge_height on every edge u -> v,
    numerator / denominator being the ratio in lowest terms.
    cycle: (N,) out, the edges of the critical cycle, each leaving the node that the next one enters.
    others: out, edges of further cycles as far as there is room, each cycle ended by -1.
    order, mark: (N,) scratch.
    answer: (5,) out: time and height of the critical cycle, its number of edges, length of `others`,
    edges looked at.

    A cycle with height <= 0 is BLOCKED, whatever its time.
    """
    nodes = len(time)
    largest_time = 0
    largest_height = 0
    for node in range(nodes):
        largest_time = max(largest_time, time[node])
        value[node] = 0
        best = edge_start[node]
        for edge in range(edge_start[node] + 1, edge_start[node + 1]):
            if best == edge_start[node] or edge_height[edge] < edge_height[best]:
                best = edge
        policy[node] = best
    for edge in range(edge_start[nodes]):
        largest_height = max(largest_height, abs(edge_height[edge]))
    numerator = 0
    denominator = 0
    reported = 0
    answer[4] = 0
    while True:
        # Find the cycles of the policy, and an order in which each node follows its source.
        placed = 0
        is_raised = False
        is_blocked = False
        for node in range(nodes):
            mark[node] = -1
        for first in range(nodes):
            node = first
            length = 0
            while mark[node] < 0:
                mark[node] = first
                length += 1
                order[nodes - length] = node
                node = edge_source[policy[node]]
            if length > 0 and mark[node] == first:
                root = node
                cycle_time = 0
                cycle_height = 0
                edges = 0
                while node != root or edges == 0:
                    edge = policy[node]
                    if edge != edge_start[node]:
                        cycle_time += time[edge_source[edge]]
                    cycle_height += edge_height[edge]
                    if abs(cycle_height) > limit or cycle_time > limit:
                        return OVERFLOW
                    edges += 1
                    node = edge_source[edge]
                blocks = cycle_height <= 0
                if not blocks and denominator > 0:
                    if cycle_time > limit // denominator or numerator > limit // cycle_height:
                        return OVERFLOW
                wins = denominator == 0 or cycle_time * denominator > numerator * cycle_height
                if blocks or (wins and not is_blocked):
                    is_blocked = is_blocked or blocks
                    is_raised = True
                    answer[0] = cycle_time
                    answer[1] = cycle_height
                    answer[2] = edges
                    for i in range(edges):
                        cycle[i] = policy[node]
                        node = edge_source[policy[node]]
                    numerator = cycle_time
                    denominator = cycle_height
                    if not is_blocked:
                        a = numerator
                        b = denominator
                        while b:
                            a, b = b, a % b
                        numerator //= a
                        denominator //= a
                if blocks or cycle_height < limit // (low_time + 1):
                    above = blocks or cycle_time > low_time * cycle_height // low_height
                    if above and reported + edges < len(others):
                        for _ in range(edges):
                            others[reported] = policy[node]
                            reported += 1
                            node = edge_source[policy[node]]
                        others[reported] = -1
                        reported += 1
            for i in range(length):  # the walk's last node lies in front
                order[placed + i] = order[nodes - length + i]
            placed += length
        answer[3] = reported
        if is_blocked:
            return BLOCKED
        if is_raised:
            if largest_time > limit // denominator:
                return OVERFLOW
            if numerator > 0 and largest_height > limit // numerator:
                return OVERFLOW
            for node in range(nodes):
                value[node] = 0
        # Each node follows its source, if upwards: along a cycle of a smaller ratio values would
        # sink for ever.
        for i in range(nodes):
            node = order[i]
            edge = policy[node]
            reached = value[edge_source[edge]] - numerator * edge_height[edge]
            if edge != edge_start[node]:
                reached += denominator * time[edge_source[edge]]
            if reached > limit:
                return OVERFLOW
            value[node] = max(value[node], reached)
        # Let every node choose the best source, all by the same values: if some already followed
        # the new ones, ties would hide the better policy of the others.
        is_changed = False
        for node in range(nodes):
            first = edge_start[node]
            best = value[node]
            for edge in range(first, edge_start[node + 1]):
                source = edge_source[edge]
                candidate = value[source] - numerator * edge_height[edge]
                if edge != first:
                    candidate += denominator * time[source]
                if candidate > best:
                    best = candidate
                    policy[node] = edge
                    is_changed = True
            if best > limit:
                return OVERFLOW
        answer[4] += edge_start[nodes]
        if not is_changed:
            return OPTIMAL
