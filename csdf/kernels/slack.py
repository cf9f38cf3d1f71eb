"""Slack of firings: the increase of their durations at which a cycle through them becomes critical.

At a feasible period, every edge of the constraints of a periodic schedule (csdf.kernels.periodic) has
a room >= 0: its reduced cost. If the durations of the member firings increase by x, a cycle with n
members and total room w becomes critical at x = w / n. The slack is the minimum of w / n over all
cycles.

The minimum is computed by Newton's method on the ratio. For a trial x, the increase of start times is
propagated from the members along the edges, the largest first (Dijkstra): an edge that leaves a member
adds x, and every edge subtracts its room; increases of 0 or less are not propagated, so a trial only
costs the nodes that it reaches. If the increase returns to its origin, that cycle has a smaller ratio,
which is the next trial. If not, the trial is the slack. With a single member the first cycle has the
smallest room.
"""

from __future__ import annotations

NONE = 0  # no cycle has a smaller ratio
FOUND = 1  # a cycle with a smaller ratio
OVERFLOW = 2  # a sum left the allowed range: repeat with unbounded integers
CHANGED = 3  # times grew in the last round: call again


def rooms(
    edge_start, edge_source, edge_height, time, numerator, denominator, limit, most, value, room
):
    """Compute start times at the period numerator / denominator, and the room of every edge.

    edge_start: (N + 1,), edge_source, edge_height: (E,) incoming edges of each node from
    `periodic.expand`, the first of each node without time. time: (N,). numerator / denominator: the
    period of one unit of height. limit: maximum of sums. most: rounds before a pause, at least one.
    value: (N,) input: initial start times times `denominator`, such as zeros; output: a solution. room:
    (E,) output, in units of 1 / denominator. Returns NONE, OVERFLOW, or CHANGED for a pause. If times
    still grow after N + 1 rounds, no schedule has the period.
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
    """List the edges by their source node.

    out_start: (N + 1,) output; out_edge, out_target: (E,) output, number and target of each edge.
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
    """Search a cycle through members with room / members < trial / scale; return FOUND or NONE.

    out_start, out_edge, out_target: of `outgoing`. edge_source, edge_channel, room: (E,); an edge of
    channel -1 takes no time. members: nodes with longer durations; is_member: (N,) flags.
    cycle: (N,) output, the edges of the cycle against time: each edge leaves the node that the next
    edge enters. answer: (3,) output: edges, room and members of the cycle.
    Scratch, restored at the end: gain (N,) zeros, the increase of each start; entry (N,) -1, the edge
    by which the increase arrived; place (N,) -1, position in the heap. heap, touched: (N,) scratch.
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
        # The heap is inlined: a function call for each node makes analyses 17 % slower.
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
        begin = gain[node]  # a self-loop of the node may change its gain within the loop
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
    """Return a node on the cycle that is reached backwards from a node, or -1 if none is."""
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
