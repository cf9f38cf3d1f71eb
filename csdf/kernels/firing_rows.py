"""Demand-driven firing order of a group of stages, and the rows that their results retain.

A stage computes some rows of its result in each firing, from rows of the results of other stages of the
group. It fires when the rows that it needs are available; otherwise the producer of the missing rows
fires first. A table lists the rows needed and produced for each firing, so the order and the live rows
follow by counting. `planners.plan.firing` and `planners.memory.line_buffers` explain the rules.
"""

from __future__ import annotations

WHOLE = 0  # the result is stored whole
RING = 1  # a ring buffer with room for all live rows
LINE = 2  # a line buffer with room for the rows that outlive the next firing
READY = -1  # the stage can fire
STUCK = -1  # a stage needs rows that no stage produces


class StageReadings:
    """S stages with R readings: a reading is a pair of a stage and a result that it reads.

    numbers: flat, the tables of all stages and readings. Three fields hold the index in `numbers` at
    which a table begins. made: (S,) rows produced after 0, 1, ... firings. upto: (R,) rows that must be
    produced before firing 0, 1, ... of the reading stage. first: (R,) the first row that firing 0,
    1, ... or a later firing reads.
    count: (S,) firings. maker, user: (R,) the stage that produces, and the stage that reads. The
    readings by stage s are reading[s] : reading[s + 1]; the readings of its result are
    use[reader[s] : reader[s + 1]]. fired: (S,) scratch, firings so far. lacking: the reading that is
    stuck.
    """

    def __init__(self, numbers, count, made, reading, maker, upto, first, users):
        """Keep these arrays. users: reader, use, user and fired."""
        self.numbers = numbers
        self.count = count
        self.made = made
        self.reading = reading
        self.maker = maker
        self.upto = upto
        self.first = first
        self.reader, self.use, self.user, self.fired = users
        self.lacking = -1


def firing_order(group, order):
    """Write the stage of each firing in order; return the number of firings, or STUCK."""
    filled = 0
    restart(group)
    for last in range(len(group.count) - 1, -1, -1):
        while group.fired[last] < group.count[last]:
            # Pass the demand upstream, to the first stage whose input rows are available.
            stage = last
            asked = maker_lacking(group, stage)
            while asked != READY:
                # A producer without firings left can never supply the missing rows.
                if group.fired[asked] == group.count[asked]:
                    return STUCK
                stage = asked
                asked = maker_lacking(group, stage)
            order[filled] = stage
            filled += 1
            group.fired[stage] += 1
    return filled


def restart(group):
    """Count firings from zero again."""
    for stage in range(len(group.count)):
        group.fired[stage] = 0


def maker_lacking(group, stage):
    """Return the stage that has to fire before this stage can, or READY."""
    firing = group.fired[stage]
    for reading in range(group.reading[stage], group.reading[stage + 1]):
        if rows_made(group, group.maker[reading]) < group.numbers[group.upto[reading] + firing]:
            group.lacking = reading
            return group.maker[reading]
    return READY


def rows_made(group, stage):
    """Return the number of rows of its result that a stage has produced."""
    return group.numbers[group.made[stage] + group.fired[stage]]


def rows_alive(group, stage):
    """Return the number of live rows of a result: produced, and still needed."""
    made = rows_made(group, stage)
    released = made
    for number in range(group.reader[stage], group.reader[stage + 1]):
        reading = group.use[number]
        oldest = group.numbers[group.first[reading] + group.fired[group.user[reading]]]
        if oldest < released:
            released = oldest
    return made - released


def next_batch(group, stage):
    """Return the number of rows that the next firing of a stage produces."""
    here = group.made[stage] + group.fired[stage]
    return group.numbers[here + 1] - group.numbers[here]


def reads(group, stage, maker):
    """Whether a stage reads the result of the stage `maker`."""
    for reading in range(group.reading[stage], group.reading[stage + 1]):
        if group.maker[reading] == maker:
            return True
    return False


def count_rows(group, order, total, keeping, rows):
    """Write the rows that the buffer of each result needs.

    order: the stages of `total` firings. keeping: (S,) WHOLE, RING or LINE. rows: (S,) output, zero at
    the start.
    """
    waits = -1  # stage whose last batch is read by the next firing
    restart(group)
    for event in range(total):
        stage = order[event]
        # A ring holds the rows of a firing in addition to all rows live before it.
        if keeping[stage] == RING:
            raise_to(rows, stage, rows_alive(group, stage) + next_batch(group, stage))
        group.fired[stage] += 1
        if waits >= 0:
            raise_to(rows, waits, rows_alive(group, waits))
        waits = -1
        if keeping[stage] == LINE:
            # Rows that the next firing reads are staged until it ends: only the rows still live
            # then need room in the line buffer.
            if event + 1 < total and reads(group, order[event + 1], stage):
                waits = stage
            else:
                raise_to(rows, stage, rows_alive(group, stage))


def raise_to(values, index, value):
    """Make the value at an index at least as large as this."""
    if value > values[index]:
        values[index] = value


def count_passing(group, order, total, keeping, rows, row_bytes, passing):
    """Write the maximum of transient bytes in a firing of each stage: column strips, staged batches.

    A batch is the rows of one firing; it is staged if its line buffer has no room for it. rows: (S,)
    from `count_rows`; row_bytes: (S,). passing: (2 S,) input, the bytes of the column strips of each
    stage; then output, the transient bytes of each stage.
    """
    stages = len(group.count)
    staged = -1  # stage whose last batch found no room
    size = 0
    restart(group)
    for event in range(total):
        stage = order[event]
        moving = passing[stage]
        if staged >= 0 and reads(group, stage, staged):
            moving += size
        batch = next_batch(group, stage)
        staged = -1
        if keeping[stage] != WHOLE and batch > 0:
            # Without room in the line buffer the rows are staged until the next firing ends.
            if rows_alive(group, stage) + batch > rows[stage]:
                staged = stage
                size = batch * row_bytes[stage]
                moving += size
        raise_to(passing, stages + stage, moving)
        group.fired[stage] += 1
