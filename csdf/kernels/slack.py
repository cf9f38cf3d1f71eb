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


class Rooms:
    """The room of each edge at one period, and a search of cycles: N nodes, E edges.

    start, source, height, channel: incoming edges of each node, of `periodic.expand`; the first of each
    node takes no time, and has channel -1. time: (N,). value: (N,) start times times the denominator of
    the period. room: (E,) in units of 1 / denominator. The edges that leave node n are out_edge, with
    target out_target, from index out_start[n] to before out_start[n + 1].

    is_member: (N,) whether the node has a longer duration. cycle: (N,) edges of the latest cycle,
    against time: each edge leaves the node that the next edge enters. edges, cycle_room, members: their
    number, their room, and the members on the cycle. Between searches gain is (N,) zeros, the increase
    of each start; entry is (N,) -1, the edge by which the increase arrived; place is (N,) -1, the
    position in the heap. heap, touched: (N,) scratch.
    """

    def __init__(self, edges, time, blank):
        """Begin without rooms. blank: makes zeros of the kernel's kind."""
        self.start = edges.start
        self.source = edges.source
        self.height = edges.height
        self.channel = edges.channel
        self.time = time
        self.value = blank(len(time))
        self.room = blank(edges.number)
        self.out_start = blank(len(time) + 1)
        self.out_edge = blank(edges.number)
        self.out_target = blank(edges.number)
        self.is_member = blank(len(time))
        self.gain = blank(len(time))
        self.entry = blank(len(time))
        self.place = blank(len(time))
        self.heap = blank(len(time))
        self.touched = blank(len(time))
        self.cycle = blank(len(time))
        self.edges = 0
        self.cycle_room = 0
        self.members = 0


def compute_rooms(rooms, numerator, denominator, limit, most):
    """Compute start times at the period numerator / denominator, and the room of every edge.

    numerator / denominator: the period of one unit of height. limit: maximum of sums. most: rounds
    before a pause, at least one. Returns NONE, OVERFLOW, or CHANGED for a pause. If times still grow
    after N + 1 rounds, no schedule has the period.
    """
    nodes = len(rooms.time)
    rounds = 0
    is_changed = True
    # Bellman-Ford relaxation of longest paths, node by node, until no start time grows.
    while is_changed:
        is_changed = False
        if rounds == most:
            return CHANGED
        rounds += 1
        for node in range(nodes):
            best = rooms.value[node]
            for edge in range(rooms.start[node], rooms.start[node + 1]):
                best = max(best, reached_by(rooms, node, edge, numerator, denominator))
            if best > limit:
                return OVERFLOW
            if best > rooms.value[node]:
                rooms.value[node] = best
                is_changed = True
    for node in range(nodes):
        for edge in range(rooms.start[node], rooms.start[node + 1]):
            # The reduced cost of the edge, which is non-negative at a fixed point.
            reached = reached_by(rooms, node, edge, numerator, denominator)
            rooms.room[edge] = rooms.value[node] - reached
    return NONE


def reached_by(rooms, node, edge, numerator, denominator):
    """Return the earliest start of a node, times the denominator, that one of its edges permits."""
    source = rooms.source[edge]
    reached = rooms.value[source] - numerator * rooms.height[edge]
    if edge != rooms.start[node]:
        reached += denominator * rooms.time[source]
    return reached


def begin_search(rooms):
    """List the edges by their source node, and set what is so between searches."""
    nodes = len(rooms.time)
    for node in range(nodes):
        rooms.entry[node] = -1
        rooms.place[node] = -1
    # Counting sort by source node: count, prefix sums, then fill.
    for edge in range(rooms.start[nodes]):
        rooms.out_start[rooms.source[edge] + 1] += 1
    for node in range(nodes):
        rooms.out_start[node + 1] += rooms.out_start[node]
    for node in range(nodes):
        for edge in range(rooms.start[node], rooms.start[node + 1]):
            index = rooms.out_start[rooms.source[edge]]
            rooms.out_edge[index] = edge
            rooms.out_target[index] = node
            rooms.out_start[rooms.source[edge]] = index + 1
    # Filling has advanced each start to the start of the next node: shift the starts back.
    for node in range(nodes, 0, -1):
        rooms.out_start[node] = rooms.out_start[node - 1]
    rooms.out_start[0] = 0


def better_cycle(rooms, members, trial, scale):
    """Search a cycle through members with room / members < trial / scale; return FOUND or NONE.

    members: nodes with longer durations. The cycle is in `rooms`.
    """
    waiting = 0
    reached = 0
    for position in range(len(members)):
        node = members[position]
        rooms.is_member[node] = 1
        rooms.heap[waiting] = node
        rooms.place[node] = waiting
        waiting += 1
        rooms.touched[reached] = node
        reached += 1
        rooms.entry[node] = -2  # touched, but with no edge that leads here
    closing = -1
    # Best-first search by the largest increase, as Dijkstra's, with an indexed binary heap.
    while waiting > 0 and closing < 0:
        node = rooms.heap[0]
        rooms.place[node] = -1
        waiting -= 1
        # The heap is inlined: a function call for each node makes analyses 17 % slower.
        if waiting > 0:  # the last node moves to the root and sinks below children of larger gain
            moved = rooms.heap[waiting]
            at = 0
            while True:
                child = 2 * at + 1
                if child >= waiting:
                    break
                if (
                    child + 1 < waiting
                    and rooms.gain[rooms.heap[child + 1]] > rooms.gain[rooms.heap[child]]
                ):
                    child += 1
                if rooms.gain[rooms.heap[child]] <= rooms.gain[moved]:
                    break
                rooms.heap[at] = rooms.heap[child]
                rooms.place[rooms.heap[at]] = at
                at = child
            rooms.heap[at] = moved
            rooms.place[moved] = at
        if rooms.is_member[node] and rooms.entry[node] >= 0:
            closing = node_of_cycle(rooms, node)
            if closing >= 0:
                break
        begin = rooms.gain[node]  # a self-loop of the node may change its gain within the loop
        for out in range(rooms.out_start[node], rooms.out_start[node + 1]):
            edge = rooms.out_edge[out]
            target = rooms.out_target[out]
            increase = begin - scale * rooms.room[edge]
            if rooms.is_member[node] and rooms.channel[edge] >= 0:
                increase += trial
            if increase <= rooms.gain[target]:
                continue
            if rooms.entry[target] == -1:
                rooms.touched[reached] = target
                reached += 1
            rooms.gain[target] = increase
            rooms.entry[target] = edge
            at = rooms.place[target]
            if at < 0:  # new in the heap
                at = waiting
                waiting += 1
            while at > 0 and rooms.gain[rooms.heap[(at - 1) // 2]] < increase:
                rooms.heap[at] = rooms.heap[(at - 1) // 2]
                rooms.place[rooms.heap[at]] = at
                at = (at - 1) // 2
            rooms.heap[at] = target
            rooms.place[target] = at
    if closing >= 0:
        measure_cycle(rooms, closing)
    # Only touched nodes are reset, so a call costs as much as the search reaches.
    for position in range(reached):
        node = rooms.touched[position]
        rooms.is_member[node] = 0
        rooms.gain[node] = 0
        rooms.entry[node] = -1
        rooms.place[node] = -1
    return FOUND if closing >= 0 else NONE


def node_of_cycle(rooms, node):
    """Return a node on the cycle that is reached backwards from a node, or -1 if none is."""
    back = rooms.source[rooms.entry[node]]
    steps = 0
    while back != node and rooms.entry[back] >= 0 and steps <= len(rooms.time):
        back = rooms.source[rooms.entry[back]]
        steps += 1
    # More steps than nodes: the way back runs around a cycle without the node itself.
    return back if back == node or steps > len(rooms.time) else -1


def measure_cycle(rooms, closing):
    """Write the edges of the cycle through a node, and their number, room and members.

    The ratio of room and members is the next trial of Newton's method.
    """
    rooms.edges = 0
    rooms.cycle_room = 0
    rooms.members = 0
    node = closing
    while node != closing or rooms.edges == 0:
        edge = rooms.entry[node]
        rooms.cycle[rooms.edges] = edge
        rooms.edges += 1
        rooms.cycle_room += rooms.room[edge]
        node = rooms.source[edge]
        if rooms.is_member[node] and rooms.channel[edge] >= 0:
            rooms.members += 1
