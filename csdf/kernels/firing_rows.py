"""Rows that stages keep for one another in the demand-driven firing order of the last stage.

A stage makes its result some rows at a time, and fires when the rows that it needs are available;
otherwise the stage that produces them fires first. What a stage needs and makes is known for each of
its firings, so the order and the rows that wait follow by counting. planners.plan.firing and
planners.memory.line_buffers say what the rules are for.
"""

from __future__ import annotations

WHOLE = 0  # a result that lies whole
RING = 1  # a result with room for all rows that are ever there
LINE = 2  # a result with room for the rows that outlive the next firing
READY = -1  # nothing is lacking
STUCK = -1  # a stage needs rows that nobody makes


class StageReadings:
    """S stages with R readings of one another's results.

    numbers: all tables, one behind the other. count: (S,) firings of each stage. made: (S,) where the
    rows made after 0, 1, ... firings begin. reading: (S + 1,) stage s has the readings reading[s] :
    reading[s + 1]. maker, upto, first: (R,) stage read from; where the rows that have to be there for
    each firing begin; where the first rows that each firing or a later one needs begin.
    reader: (S + 1,) the result of stage s is read by the readings use[reader[s] : reader[s + 1]];
    user: (R,) stage of a reading. fired: (S,) scratch. lacking: the reading that is stuck.
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
    """Write the stages in the order in which they fire; return how many firings, or STUCK."""
    filled = 0
    restart(group)
    for last in range(len(group.count) - 1, -1, -1):
        while group.fired[last] < group.count[last]:
            # Pass the demand upstream, to the first stage whose input rows are available.
            place = last
            asked = maker_lacking(group, place)
            while asked != READY:
                # A producer without firings left can never supply the missing rows.
                if group.fired[asked] == group.count[asked]:
                    return STUCK
                place = asked
                asked = maker_lacking(group, place)
            order[filled] = place
            filled += 1
            group.fired[place] += 1
    return filled


def restart(group):
    """Count firings from zero again."""
    for place in range(len(group.count)):
        group.fired[place] = 0


def maker_lacking(group, place):
    """Return the stage that has to fire before this one can, or READY."""
    firing = group.fired[place]
    for reading in range(group.reading[place], group.reading[place + 1]):
        if rows_made(group, group.maker[reading]) < group.numbers[group.upto[reading] + firing]:
            group.lacking = reading
            return group.maker[reading]
    return READY


def rows_made(group, place):
    """Return how many rows of its result a stage has made."""
    return group.numbers[group.made[place] + group.fired[place]]


def rows_alive(group, place):
    """Return how many rows of the result of a stage are made and still needed."""
    made = rows_made(group, place)
    released = made
    for number in range(group.reader[place], group.reader[place + 1]):
        reading = group.use[number]
        gone = group.numbers[group.first[reading] + group.fired[group.user[reading]]]
        if gone < released:
            released = gone
    return made - released


def next_batch(group, place):
    """Return how many rows the next firing of a stage makes."""
    here = group.made[place] + group.fired[place]
    return group.numbers[here + 1] - group.numbers[here]


def reads(group, place, maker):
    """Whether a stage reads the result of another."""
    for reading in range(group.reading[place], group.reading[place + 1]):
        if group.maker[reading] == maker:
            return True
    return False


def count_rows(group, order, total, keeping, rows):
    """Write the most rows that the result of each stage has to keep: (S,), zero at first.

    order: `total` firings. keeping: (S,) WHOLE, RING or LINE.
    """
    waits = -1  # stage whose last batch is read by the next firing
    restart(group)
    for event in range(total):
        place = order[event]
        # A ring holds the rows of a firing in addition to all rows live before it.
        if keeping[place] == RING:
            raise_to(rows, place, rows_alive(group, place) + next_batch(group, place))
        group.fired[place] += 1
        if waits >= 0:
            raise_to(rows, waits, rows_alive(group, waits))
        waits = -1
        if keeping[place] == LINE:
            # Rows that the next firing reads are staged until it ends: only the rows still live
            # then need room in the line buffer.
            if event + 1 < total and reads(group, order[event + 1], place):
                waits = place
            else:
                raise_to(rows, place, rows_alive(group, place))


def raise_to(values, place, value):
    """Make a value at least as large as this."""
    if value > values[place]:
        values[place] = value


def count_passing(group, order, total, keeping, rows, row_bytes, passing):
    """Add the bytes of staged batches to those of strips: (S,), the most in one firing of each stage.

    rows: (S,) as count_rows finds them; row_bytes: (S,). passing: (S,) the strips at first, (2 S,)
    with room for the answer behind.
    """
    stages = len(group.count)
    staged = -1  # stage whose last batch found no room
    size = 0
    restart(group)
    for event in range(total):
        place = order[event]
        moving = passing[place]
        if staged >= 0 and reads(group, place, staged):
            moving += size
        batch = next_batch(group, place)
        staged = -1
        if keeping[place] != WHOLE and batch > 0:
            # Without room in the line buffer the rows are staged until the next firing ends.
            if rows_alive(group, place) + batch > rows[place]:
                staged = place
                size = batch * row_bytes[place]
                moving += size
        raise_to(passing, stages + place, moving)
        group.fired[place] += 1
