"""How much longer some firings may take before a cycle through them becomes critical.

The constraints of a periodic schedule (see csdf.kernels.periodic) at a period that they allow leave a
room on every edge, never negative. If the member firings take x longer, a cycle with n of them and
room w becomes critical at x = w / n; the least of these over all cycles is the slack of the members.

For a trial x the increase of the start times runs from the members along the edges, the largest
first: what leaves a member grows by x, every edge takes its room away, and nothing goes below zero.
Where no edge has room left nothing is looked at, so a trial costs as much as it reaches. If the
increase comes back to where it began, that cycle has a smaller ratio, which is the next trial; if it
does not, the trial is the slack (Newton's method on a ratio; the search in the order of the largest
increase is Dijkstra's). With a single member the first cycle found has the least room of all.
"""

from __future__ import annotations

NONE = 0  # no cycle has a smaller ratio
FOUND = 1  # a cycle with a smaller ratio
OVERFLOW = 2  # a sum left the allowed range: repeat with unbounded integers
CHANGED = 3  # times grew in the last round: go on


def rooms(
    edge_start, edge_source, edge_height, time, numerator, denominator, limit, most, value, room
):
    """Find start times at the period numerator / denominator, and the room of every edge.

    edge_start: (N + 1,), edge_source, edge_height: (E,) incoming edges of each node as `expand` makes
    them, the first of each node without time. time: (N,). numerator / denominator: the period, of one
    unit of height. limit: no sum may pass it. most: rounds, at least one, before it pauses.
    value: (N,) in: start times times `denominator` to begin with, such as zeros; out: a solution.
    room: (E,) out: by how much, in units of 1 / denominator, each edge could take longer.
    Return NONE, or OVERFLOW, or CHANGED where it paused; no schedule has the period where times still
    grow after N + 1 rounds.
    """
    nodes = len(time)
    rounds = 0
    is_changed = True
    # Bellman-Ford relaxation of longest paths, node by node, until no start time grows.
    while is_changed:
        is_changed = False
        if rounds == most:
            return CHANGED
        rounds += 1
        for node in range(nodes):
            first = edge_start[node]
            best = value[node]
            for edge in range(first, edge_start[node + 1]):
                source = edge_source[edge]
                reached = value[source] - numerator * edge_height[edge]
                if edge != first:
                    reached += denominator * time[source]
                if reached > best:
                    best = reached
            if best > limit:
                return OVERFLOW
            if best > value[node]:
                value[node] = best
                is_changed = True
    for node in range(nodes):
        first = edge_start[node]
        for edge in range(first, edge_start[node + 1]):
            source = edge_source[edge]
            reached = value[source] - numerator * edge_height[edge]
            if edge != first:
                reached += denominator * time[source]
            # The reduced cost of the edge, which is non-negative at a fixed point.
            room[edge] = value[node] - reached
    return NONE


def outgoing(edge_start, edge_source, out_start, out_edge, out_target):
    """List the edges by the node that they leave; an edge's channel keeps its number.

    out_start: (N + 1,) out; out_edge, out_target: (E,) out, number and end of each edge.
    """
    nodes = len(edge_start) - 1
    for node in range(nodes + 1):
        out_start[node] = 0
    # Counting sort by source node: count, prefix sums, then fill.
    for edge in range(edge_start[nodes]):
        out_start[edge_source[edge] + 1] += 1
    for node in range(nodes):
        out_start[node + 1] += out_start[node]
    for node in range(nodes):
        for edge in range(edge_start[node], edge_start[node + 1]):
            at = out_start[edge_source[edge]]
            out_edge[at] = edge
            out_target[at] = node
            out_start[edge_source[edge]] = at + 1
    # Filling has advanced each start to the start of the next node: shift the starts back.
    for node in range(nodes, 0, -1):
        out_start[node] = out_start[node - 1]
    out_start[0] = 0


def better_cycle(
    out_start,
    out_edge,
    out_target,
    edge_source,
    edge_channel,
    room,
    members,
    is_member,
    trial,
    scale,
    gain,
    entry,
    heap,
    place,
    touched,
    cycle,
    answer,
):
    """Look for a cycle through members with room / members < trial / scale.

    out_start, out_edge, out_target: edges by the node they leave, as `outgoing` lists them.
    edge_source, edge_channel, room: (E,) of each edge; on those of channel -1 no time passes.
    members: the nodes that take longer; is_member: (N,) whether a node is one of them.
    gain: (N,) zeros, in and out; entry: (N,) -1, in and out; heap, touched: (N,) scratch;
    place: (N,) -1, in and out.
    cycle: (N,) out, the edges of the cycle, each leaving the node that the next one enters.
    answer: (3,) out: edges of the cycle, its room, its members. Return FOUND or NONE.
    """
    waiting = 0
    reached = 0
    answer[0] = 0
    for i in range(len(members)):
        node = members[i]
        heap[waiting] = node
        place[node] = waiting
        waiting += 1
        touched[reached] = node
        reached += 1
        entry[node] = -2  # touched, but with no edge that leads here
    closing = -1
    # Best-first search by the largest increase, as Dijkstra's, with an indexed binary heap.
    while waiting > 0 and closing < 0:
        node = heap[0]
        place[node] = -1
        waiting -= 1
        # The heap is kept here: a call for each node made whole analyses 17 % slower.
        if waiting > 0:  # the last node moves to the root and sinks below children of larger gain
            moved = heap[waiting]
            at = 0
            while True:
                child = 2 * at + 1
                if child >= waiting:
                    break
                if child + 1 < waiting and gain[heap[child + 1]] > gain[heap[child]]:
                    child += 1
                if gain[heap[child]] <= gain[moved]:
                    break
                heap[at] = heap[child]
                place[heap[at]] = at
                at = child
            heap[at] = moved
            place[moved] = at
        if is_member[node] and entry[node] >= 0:
            closing = node_of_cycle(edge_source, entry, node, len(gain))
            if closing >= 0:
                break
        begin = gain[node]  # an edge back to the node itself may change it on the way
        for out in range(out_start[node], out_start[node + 1]):
            edge = out_edge[out]
            target = out_target[out]
            increase = begin - scale * room[edge]
            if is_member[node] and edge_channel[edge] >= 0:
                increase += trial
            if increase <= gain[target]:
                continue
            if entry[target] == -1:
                touched[reached] = target
                reached += 1
            gain[target] = increase
            entry[target] = edge
            at = place[target]
            if at < 0:  # new in the heap
                at = waiting
                waiting += 1
            while at > 0 and gain[heap[(at - 1) // 2]] < increase:
                heap[at] = heap[(at - 1) // 2]
                place[heap[at]] = at
                at = (at - 1) // 2
            heap[at] = target
            place[target] = at
    if closing >= 0:
        measure_cycle(edge_source, edge_channel, room, is_member, entry, closing, cycle, answer)
    # Only touched nodes are reset, so a call costs as much as the search reaches.
    for i in range(reached):
        node = touched[i]
        gain[node] = 0
        entry[node] = -1
        place[node] = -1
    return FOUND if closing >= 0 else NONE


def node_of_cycle(edge_source, entry, node, nodes):
    """Return a node of the cycle from which the gain of a node comes, or -1 if there is none."""
    back = edge_source[entry[node]]
    steps = 0
    while back != node and entry[back] >= 0 and steps <= nodes:
        back = edge_source[entry[back]]
        steps += 1
    # More steps than nodes: the way back runs around a cycle without the node itself.
    return back if back == node or steps > nodes else -1


def measure_cycle(edge_source, edge_channel, room, is_member, entry, closing, cycle, answer):
    """Write the edges of the cycle through a node, and their number, room and members.

    The ratio of room and members is the next trial of Newton's method.
    """
    total = 0
    counted = 0
    edges = 0
    node = closing
    while node != closing or edges == 0:
        edge = entry[node]
        cycle[edges] = edge
        edges += 1
        total += room[edge]
        node = edge_source[edge]
        if is_member[node] and edge_channel[edge] >= 0:
            counted += 1
    answer[0] = edges
    answer[1] = total
    answer[2] = counted
