"""Down-sets of a graph of tensors: live bytes, step costs, and the down-set of least live bytes.

Steps are numbered from 0, tensors likewise. A step reads tensors and makes tensors; a tensor that
several steps read is one tensor. A down-set holds with each step all steps before it; its live bytes
are the sizes of the tensors that are inputs or made in it, and are outputs or have a reader outside
of it.
"""

from __future__ import annotations

ENDLESS = 2**60  # capacity of an edge that no cut may contain
SOURCE = 0
SINK = 1


class Tensors:
    """A graph of tensors. S steps, T tensors.

    The tensors that step s makes are entries made_start[s] : made_start[s + 1] of `made`, its inputs
    likewise in `read`, each once; the inputs that its result may overwrite in `pair`. The readers of
    tensor t are in `reader`. size, producer, is_output: (T,) producer is -1 for an input.

    scratch: (S,) bytes that a step needs only while it runs. result_bytes: (S,) of the scratch and of
    all tensors that a step makes. live_result_bytes: (S,) of the tensors that it makes for readers, or
    as outputs.
    """

    def __init__(
        self, made_start, made, read_start, read, pair_start, pair, reader_start, reader,
        size, producer, is_output, result_bytes, live_result_bytes, scratch,
    ):  # fmt: skip
        """Keep these arrays."""
        self.made_start = made_start
        self.made = made
        self.read_start = read_start
        self.read = read
        self.pair_start = pair_start
        self.pair = pair
        self.reader_start = reader_start
        self.reader = reader
        self.size = size
        self.producer = producer
        self.is_output = is_output
        self.result_bytes = result_bytes
        self.live_result_bytes = live_result_bytes
        self.scratch = scratch


class Walk:
    """A down-set to which steps are added and from which they are removed, with its live bytes.

    is_done: (S,) whether a step is in it. waiting: (S,) tensors read that are not made yet; 0: the step
    is ready. unread: (T,) readers outside. live: bytes. count: steps.
    """

    def __init__(self, tensors, is_done, waiting, unread):
        """Begin anywhere; `load` comes first."""
        self.tensors = tensors
        self.is_done = is_done
        self.waiting = waiting
        self.unread = unread
        self.live = 0
        self.count = 0

    def load(self, mark):
        """Make the steps with mark 0 the down-set."""
        self.count = 0
        for step in range(len(self.is_done)):
            self.is_done[step] = 1 if mark[step] == 0 else 0
            self.count += self.is_done[step]
            self.waiting[step] = 0
        self.count_live()

    def count_live(self):
        """Write the live bytes, unread tensors and waiting steps of the steps that are done."""
        self.live = 0
        for tensor in range(len(self.unread)):
            begin = self.tensors.reader_start[tensor]
            end = self.tensors.reader_start[tensor + 1]
            maker = self.tensors.producer[tensor]
            is_made = maker < 0 or self.is_done[maker] == 1
            remaining = 0
            for entry in range(begin, end):
                reader = self.tensors.reader[entry]
                if self.is_done[reader] == 0:
                    remaining += 1
                    if not is_made:
                        self.waiting[reader] += 1
            self.unread[tensor] = remaining
            if is_made and (remaining > 0 or self.tensors.is_output[tensor] == 1):
                self.live += self.tensors.size[tensor]

    def cost(self, step):
        """Return the bytes that are live while a ready step runs."""
        total = self.live + self.tensors.result_bytes[step]
        for entry in range(self.tensors.pair_start[step], self.tensors.pair_start[step + 1]):
            # In place: the result overwrites an input of which this step is the last reader.
            tensor = self.tensors.pair[entry]
            if self.unread[tensor] == 1 and self.tensors.is_output[tensor] == 0:
                return self.live + self.tensors.scratch[step]
        return total

    def change(self, step):
        """Return by how much a ready step raises the live bytes; below 0 where it lowers them."""
        difference = self.tensors.live_result_bytes[step]
        for entry in range(self.tensors.read_start[step], self.tensors.read_start[step + 1]):
            tensor = self.tensors.read[entry]
            if self.unread[tensor] == 1 and self.tensors.is_output[tensor] == 0:
                # The step is the last reader, so the tensor is dead after it.
                difference -= self.tensors.size[tensor]
        return difference

    def run(self, step):
        """Add a ready step to the down-set."""
        self.live += self.change(step)
        self.is_done[step] = 1
        self.count += 1
        for entry in range(self.tensors.read_start[step], self.tensors.read_start[step + 1]):
            self.unread[self.tensors.read[entry]] -= 1
        for entry in range(self.tensors.made_start[step], self.tensors.made_start[step + 1]):
            tensor = self.tensors.made[entry]
            for k in range(
                self.tensors.reader_start[tensor], self.tensors.reader_start[tensor + 1]
            ):
                self.waiting[self.tensors.reader[k]] -= 1

    def unrun(self, step):
        """Take the step that was added last out of the down-set."""
        self.is_done[step] = 0
        self.count -= 1
        for entry in range(self.tensors.read_start[step], self.tensors.read_start[step + 1]):
            self.unread[self.tensors.read[entry]] += 1
        for entry in range(self.tensors.made_start[step], self.tensors.made_start[step + 1]):
            tensor = self.tensors.made[entry]
            for k in range(
                self.tensors.reader_start[tensor], self.tensors.reader_start[tensor + 1]
            ):
                self.waiting[self.tensors.reader[k]] += 1
        # The counts are those before the step again, so the change is the one that `run` added.
        self.live -= self.change(step)


class FlowNetwork:
    """A flow network over the steps between two down-sets; its minimum cut is a down-set.

    Of each node: head: its first edge; level: distance from the source; arc: its next edge to try.
    queue: (nodes,) nodes of a breadth-first search; path: (nodes,) edges from the source. Of each edge:
    following: the next edge of its node; target; room: residual capacity. Edge 2k + 1 is the reverse of
    edge 2k. node: (S,) of each step. stamp: (T,) is `stamped` if the tensor is in the network. work:
    edges looked at so far.
    """

    def __init__(
        self, tensors, head, level, arc, queue, path, following, target, room, node, stamp
    ):  # fmt: skip
        """Keep these arrays."""
        self.tensors = tensors
        self.head = head
        self.level = level
        self.arc = arc
        self.queue = queue
        self.path = path
        self.following = following
        self.target = target
        self.room = room
        self.node = node
        self.stamp = stamp
        self.stamped = 0
        self.nodes = 0
        self.edges = 0
        self.work = 0

    def least_between(self, mark):
        """Mark with 0 the steps of the largest down-set of least live bytes between two down-sets.

        mark: (S,) 0 in the smaller down-set, 1 only in the larger one, 2 in neither; changed: steps of
        the answer get 0.

        A step on the side of the source is in the down-set. A tensor is cut, at its size, where its
        producer is on that side and a reader is not, or the tensor is an output. Maximum flow: Dinic.
        Source of the node for each tensor: Lawler, Cutsets and partitions of hypergraphs, Networks 3
        (1973).
        """
        self.build(mark)
        # Dinic's algorithm: a level graph, then a blocking flow, until the sink is unreachable.
        while self.levels():
            for node in range(self.nodes):
                self.arc[node] = self.head[node]
            self.augment()
        # The maximal minimum cut: all nodes that cannot reach the sink are on the source side.
        self.reach_sink()
        for step in range(len(mark)):
            if mark[step] == 1 and self.level[self.node[step]] < 0:
                mark[step] = 0

    def build(self, mark):
        """Write the flow network between the down-sets of the marks."""
        self.nodes = 2
        self.edges = 0
        self.stamped += 1
        self.head[SOURCE] = -1
        self.head[SINK] = -1
        for step in range(len(mark)):
            if mark[step] == 1:
                self.node[step] = self.nodes
                self.head[self.nodes] = -1
                self.nodes += 1
        for step in range(len(mark)):
            if mark[step] == 1:
                self.add_results(mark, step)
                self.add_inputs(mark, step)

    def add_results(self, mark, step):
        """Add the tensors that a step makes."""
        for entry in range(self.tensors.made_start[step], self.tensors.made_start[step + 1]):
            self.add_tensor(mark, self.tensors.made[entry], self.node[step])

    def add_inputs(self, mark, step):
        """Add edges from a step to the producers of its inputs, and inputs without a producer here."""
        for entry in range(self.tensors.read_start[step], self.tensors.read_start[step + 1]):
            tensor = self.tensors.read[entry]
            maker = self.tensors.producer[tensor]
            if maker >= 0 and mark[maker] == 1:
                # Infinite capacity: a down-set that contains a step contains the producers of its
                # inputs.
                self.add_edge(self.node[step], self.node[maker], ENDLESS)
            elif self.stamp[tensor] != self.stamped:
                self.add_tensor(mark, tensor, SOURCE)

    def add_tensor(self, mark, tensor, node):
        """Add a tensor that `node` makes: an edge of its size is cut if a reader, or the end, needs it.

        The end needs outputs and tensors that a step in neither down-set reads.
        """
        self.stamp[tensor] = self.stamped
        begin = self.tensors.reader_start[tensor]
        end = self.tensors.reader_start[tensor + 1]
        is_live = self.tensors.is_output[tensor] == 1
        for entry in range(begin, end):
            if mark[self.tensors.reader[entry]] == 2:
                is_live = True
        if is_live:
            self.add_edge(node, SINK, self.tensors.size[tensor])
        elif end > begin:
            # Lawler's node for a hyperedge: a tensor is cut once, whatever the number of its
            # readers.
            net = self.nodes
            self.nodes += 1
            self.head[net] = -1
            self.add_edge(node, net, self.tensors.size[tensor])
            for entry in range(begin, end):
                reader = self.tensors.reader[entry]
                if mark[reader] == 1:
                    self.add_edge(net, self.node[reader], ENDLESS)

    def add_edge(self, begin, end, room):
        """Add an edge and its reverse."""
        self.add_half(begin, end, room)
        self.add_half(end, begin, 0)

    def add_half(self, begin, end, room):
        """Add an edge in one direction."""
        self.target[self.edges] = end
        self.room[self.edges] = room
        self.following[self.edges] = self.head[begin]
        self.head[begin] = self.edges
        self.edges += 1

    def levels(self):
        """Write the distance of each node from the source; whether the sink is reached."""
        for node in range(self.nodes):
            self.level[node] = -1
        self.level[SOURCE] = 0
        self.queue[0] = SOURCE
        first = 0
        last = 1
        while first < last:
            node = self.queue[first]
            first += 1
            edge = self.head[node]
            while edge >= 0:
                self.work += 1
                head = self.target[edge]
                # Breadth-first search over edges with residual capacity.
                if self.room[edge] > 0 and self.level[head] < 0:
                    self.level[head] = self.level[node] + 1
                    self.queue[last] = head
                    last += 1
                edge = self.following[edge]
        return self.level[SINK] >= 0

    def augment(self):
        """Send flow along shortest paths until none is left: a blocking flow (Dinic)."""
        depth = 0
        node = SOURCE
        while True:
            if node == SINK:
                node = self.push(depth)
                depth = self.level[node]
            edge = self.arc[node]
            while edge >= 0:
                self.work += 1
                head = self.target[edge]
                if self.room[edge] > 0 and self.level[head] == self.level[node] + 1:
                    break
                edge = self.following[edge]
            # Current arc: edges found useless in this phase are not looked at again.
            self.arc[node] = edge
            if edge >= 0:
                self.path[depth] = edge
                depth += 1
                node = self.target[edge]
            elif depth == 0:
                break
            else:
                # Dead end: remove the node from the level graph and retreat.
                self.level[node] = -1
                depth -= 1
                node = self.target[twin(self.path[depth])]

    def push(self, depth):
        """Send what the path holds from source to sink; return the node before its first full edge."""
        most = ENDLESS
        for k in range(depth):
            most = min(most, self.room[self.path[k]])
        # The search resumes at the first saturated edge of the path, not at the source.
        full = -1
        for k in range(depth):
            edge = self.path[k]
            self.room[edge] -= most
            self.room[twin(edge)] += most
            if full < 0 and self.room[edge] == 0:
                full = k
        return self.target[twin(self.path[full])]

    def reach_sink(self):
        """Write a level of at least 0 for each node from which flow can still reach the sink."""
        for node in range(self.nodes):
            self.level[node] = -1
        self.level[SINK] = 0
        self.queue[0] = SINK
        first = 0
        last = 1
        while first < last:
            node = self.queue[first]
            first += 1
            edge = self.head[node]
            while edge >= 0:
                self.work += 1
                head = self.target[edge]
                if self.room[twin(edge)] > 0 and self.level[head] < 0:
                    self.level[head] = 0
                    self.queue[last] = head
                    last += 1
                edge = self.following[edge]


def twin(edge):
    """Return the reverse of an edge."""
    return edge + 1 if edge % 2 == 0 else edge - 1
