"""Layers cycle by cycle: what a register holds after a cycle follows from what all held before.

The matrix unit is written from mvu_vvu_axi.sv, replay_buffer.sv and Q_srl.v: its control, without its
data, and with a queue as long as needed. In Verilator the Verilog had the same handshakes, in
320 runs with 8 foldings. The loop is a pipeline of registers with an iteration in each.
"""


def pipelined_loop(reads, writes, latency, frames, refusals):
    """The cycles in which a loop reads and writes; reads, writes: whether each iteration does.

    refusals: cycles in which no word is offered, and those in which none is taken. A stage passes its
    iteration on when the next is free or becomes free; a place of the last is free a cycle later.
    """
    iterations, started, ended, cycle = len(reads), 0, 0, 0
    read, written = [], []
    begun = []  # the cycles in which the iterations that are inside began
    while ended < frames * iterations:
        is_last = bool(begun) and cycle - begun[0] >= latency
        leaves = is_last and not (writes[ended % iterations] and cycle in refusals[1])
        starts = started < frames * iterations and len(begun) <= latency
        starts = starts and not (reads[started % iterations] and cycle in refusals[0])
        if leaves:
            written += [cycle] if writes[ended % iterations] else []
            ended += 1
            begun.pop(0)
        if starts:
            read += [cycle] if reads[started % iterations] else []
            started += 1
            begun.append(cycle)
        cycle += 1
    return read, written


def matrix_unit(folds, core, depth, vectors, refusals):
    """The cycles in which words are read, in which results enter the FIFO, and in which they leave it.

    folds: synapse fold, neuron fold (1: no memory of replayed words). core: cycles of the pipeline.
    refusals: cycles in which no word is offered, and those in which none is taken from the FIFO.
    """
    synapse, neuron = folds
    room = 1 << max(1, (synapse - 1).bit_length()) if synapse > 1 else 2
    read, entered, left = [], [], []
    written = fetched = freed = 0  # of the memory: words written, prefetches, words given up
    has_word = False  # the register behind the memory
    pipeline = [False] * core
    queue, is_valid, is_locked, step, stored = 0, False, False, 0, 0
    words, results = vectors * synapse, vectors * neuron
    cycle = 0
    while len(left) < results:
        offers = len(read) < words and cycle not in refusals[0]
        fifo_ready, takes = stored < depth, stored > 0 and cycle not in refusals[1]
        if neuron == 1:
            begins = reads = offers and not is_locked
        else:
            begins, reads = has_word and not is_locked, offers and written - freed < room
            vector, place = divmod(fetched, synapse * neuron)
            is_there = vector * synapse + place % synapse < written
            if not has_word or begins:  # the register takes the next word, if it is there
                has_word = is_there
                if is_there:
                    freed += place >= synapse * (neuron - 1)
                    fetched += 1
        if reads:
            read.append(cycle)
            written += 1
        pushed = pipeline.pop()
        pipeline.insert(0, begins and step % synapse == synapse - 1)
        step += begins
        enters = is_valid and fifo_ready
        if enters:
            entered.append(cycle)
        if takes:
            left.append(cycle)
        stored += enters - takes
        if queue == 0:
            is_locked = False
        elif is_valid and not fifo_ready:
            is_locked = True
        pops = queue > 0 and (enters or not is_valid)
        is_valid = pops or (is_valid and not enters)
        queue += pushed - pops
        cycle += 1
    return read, entered, left
