"""The least traffic of a convolution over ways to nest its loops, and tiles.

Everything is of one group; what is moved and held is counted in bytes, and each of the three arrays
has elements of its own size. Six loops are numbered: filters, channels, output rows,
output columns, kernel rows, kernel columns; a set of loops has bit 1 << number for each. A structure
is STRUCTURE numbers, an option of an axis of the maps OPTION numbers, as named below.
"""

from __future__ import annotations

FILTERS = 0
CHANNELS = 1
ROWS = 2
COLUMNS = 3
KERNEL_ROWS = 4
KERNEL_COLUMNS = 5

# A structure: for each array, the loops that move its tiles, and those that go round it.
INPUT_MOVED = 0
WEIGHTS_MOVED = 1
OUTPUT_MOVED = 2
INPUT_ROUNDS = 3
WEIGHTS_ROUNDS = 4
OUTPUT_ROUNDS = 5
SLIDES = 6  # the innermost loop that moves the input, if it keeps a halo
STRUCTURE = 7

# An option: sizes and numbers of tiles of output places and kernel places along rows or columns.
# LARGEST and READS have four numbers each: the input is cut by neither of the two loops, by that of
# output places, by that of kernel places, or by both.
PLACES = 0  # in a tile
KERNEL = 1
PLACE_TRIPS = 2  # tiles
KERNEL_TRIPS = 3
LARGEST = 4  # input places of the largest tile
READS = 8  # input places of all tiles, every tile whole
READS_BY_PLACES = 12  # the same where steps of output places bring what is new only
READS_BY_KERNEL = 16  # the same where steps of kernel places do
OPTION = 20

TOTAL = 0  # the answer, and what was looked at
BEST_STRUCTURE = 1
BEST_FILTERS = 2
BEST_CHANNELS = 3
BEST_ROWS = 4
BEST_COLUMNS = 5
LOOKED_AT = 6
ANSWER = 7


class Choices:
    """Tiles to choose from, and the structures to choose them for.

    structures: (S * STRUCTURE,). filters, channels: (K,) tile sizes and, behind them, numbers of
    tiles: sizes fall, numbers grow. rows, columns: (R * OPTION,); the first is uncut.
    """

    def __init__(self, structures, filters, channels, rows, columns):
        """Keep these arrays."""
        self.structures = structures
        self.filters = filters
        self.channels = channels
        self.rows = rows
        self.columns = columns


class Layer:
    """A convolution, of one group.

    depth: channels of the input. weights, outputs, room: bytes of the weights, of the output, of the
    buffer. input_bytes, weight_bytes, output_bytes: of one element.
    """

    def __init__(self, depth, weights, outputs, room, input_bytes, weight_bytes, output_bytes):
        """Keep these numbers."""
        self.depth = depth
        self.weights = weights
        self.outputs = outputs
        self.room = room
        self.input_bytes = input_bytes
        self.weight_bytes = weight_bytes
        self.output_bytes = output_bytes


class Way:
    """A structure that is looked into: its loops as truth values and places of options."""

    def __init__(self):
        """Wait for `read`."""
        self.input_moved = 0
        self.weights_moved = 0
        self.output_moved = 0
        self.moved = 0  # by any
        self.weights_rounds = 0
        self.output_rounds = 0
        self.filters_go_round = 0
        self.row_cuts = 0  # which of four numbers of an option of rows holds; likewise columns
        self.column_cuts = 0
        self.row_reads = 0
        self.column_reads = 0


class Search:
    """The state of the choice at hand, and the best choice so far."""

    def __init__(self):
        """Wait for the first choice."""
        self.best = 0
        self.looked_at = 0
        # By the option of rows alone, then by that of columns as well: bytes of the input and of
        # the weights that are moved, visits of the output, and the bytes that a tile of each array
        # holds of one channel and one filter.
        self.row_inputs = 0
        self.row_weights = 0
        self.row_visits = 0
        self.row_held_input = 0
        self.row_held_weights = 0
        self.row_held_output = 0
        self.inputs = 0
        self.weights = 0
        self.visits = 0
        self.held_input = 0
        self.held_weights = 0
        self.held_output = 0
        self.filter = 0
        self.channel = 0


def least_traffic(choices, layer, answer):
    """Write the least traffic, and the places of the first choice that has it, into `answer`.

    answer: (ANSWER,), with TOTAL above every traffic and LOOKED_AT 0.

    For a structure and options of both axes, the tile of channels for a tile of filters is the
    largest that fits: traffic falls with the tile. It only grows as the other falls, so one pass
    over both is enough. What cannot fit, or with one tile of all filters and all channels would not
    be better than what is known, is not looked into.
    """
    search = Search()
    way = Way()
    search.best = answer[TOTAL]
    least_input = choices.channels[0] * choices.rows[READS] * choices.columns[READS]
    least_input *= layer.input_bytes
    enough = least_input + layer.weights + layer.outputs
    for structure in range(len(choices.structures) // STRUCTURE):
        if search.best <= enough:
            break
        read(choices.structures, structure * STRUCTURE, way)
        for row in range(len(choices.rows) // OPTION):
            if not enter_rows(choices, layer, way, search, row * OPTION):
                continue
            for column in range(len(choices.columns) // OPTION):
                if not enter_columns(choices, layer, way, search, column * OPTION):
                    continue
                if choose_loops(choices, layer, way, search):
                    answer[BEST_STRUCTURE] = structure
                    answer[BEST_FILTERS] = search.filter
                    answer[BEST_CHANNELS] = search.channel
                    answer[BEST_ROWS] = row
                    answer[BEST_COLUMNS] = column
    answer[TOTAL] = search.best
    answer[LOOKED_AT] = search.looked_at


def read(structures, at, way):
    """Write what the structure at this place says into `way`."""
    way.input_moved = structures[at + INPUT_MOVED]
    way.weights_moved = structures[at + WEIGHTS_MOVED]
    way.output_moved = structures[at + OUTPUT_MOVED]
    way.moved = way.input_moved | way.weights_moved | way.output_moved
    way.weights_rounds = structures[at + WEIGHTS_ROUNDS]
    way.output_rounds = structures[at + OUTPUT_ROUNDS]
    way.filters_go_round = structures[at + INPUT_ROUNDS] >> FILTERS & 1
    way.row_cuts = (way.input_moved >> ROWS & 1) + 2 * (way.input_moved >> KERNEL_ROWS & 1)
    way.column_cuts = (way.input_moved >> COLUMNS & 1) + 2 * (way.input_moved >> KERNEL_COLUMNS & 1)
    slides = structures[at + SLIDES]
    way.row_reads = READS + way.row_cuts
    if slides == ROWS:
        way.row_reads = READS_BY_PLACES + way.row_cuts
    elif slides == KERNEL_ROWS:
        way.row_reads = READS_BY_KERNEL + way.row_cuts
    way.column_reads = READS + way.column_cuts
    if slides == COLUMNS:
        way.column_reads = READS_BY_PLACES + way.column_cuts
    elif slides == KERNEL_COLUMNS:
        way.column_reads = READS_BY_KERNEL + way.column_cuts


def enter_rows(choices, layer, way, search, at):
    """Count for the option of rows at this place; False if nothing with it is better."""
    if choices.rows[at + PLACE_TRIPS] > 1 and way.moved >> ROWS & 1 == 0:
        return False
    if choices.rows[at + KERNEL_TRIPS] > 1 and way.moved >> KERNEL_ROWS & 1 == 0:
        return False
    search.looked_at += 1
    search.row_inputs = choices.channels[0] * choices.rows[at + way.row_reads] * layer.input_bytes
    search.row_weights = layer.weights
    if way.weights_rounds >> ROWS & 1:
        search.row_weights *= choices.rows[at + PLACE_TRIPS]
    search.row_visits = (
        choices.rows[at + KERNEL_TRIPS] if way.output_rounds >> KERNEL_ROWS & 1 else 1
    )
    least = search.row_inputs * choices.columns[READS] + search.row_weights
    if least + layer.outputs * (2 * search.row_visits - 1) >= search.best:
        return False
    search.row_held_input = choices.rows[at + LARGEST + way.row_cuts] * layer.input_bytes
    search.row_held_weights = choices.rows[
        (at if way.weights_moved >> KERNEL_ROWS & 1 else 0) + KERNEL
    ]
    search.row_held_weights *= layer.weight_bytes
    search.row_held_output = choices.rows[(at if way.output_moved >> ROWS & 1 else 0) + PLACES]
    search.row_held_output *= layer.output_bytes
    return True


def enter_columns(choices, layer, way, search, at):
    """Count for the option of columns at this place, with that of rows; False: nothing is better."""
    if choices.columns[at + PLACE_TRIPS] > 1 and way.moved >> COLUMNS & 1 == 0:
        return False
    if choices.columns[at + KERNEL_TRIPS] > 1 and way.moved >> KERNEL_COLUMNS & 1 == 0:
        return False
    search.looked_at += 1
    search.inputs = search.row_inputs * choices.columns[at + way.column_reads]
    search.weights = search.row_weights
    if way.weights_rounds >> COLUMNS & 1:
        search.weights *= choices.columns[at + PLACE_TRIPS]
    search.visits = search.row_visits
    if way.output_rounds >> KERNEL_COLUMNS & 1:
        search.visits *= choices.columns[at + KERNEL_TRIPS]
    least = search.inputs + search.weights + layer.outputs * (2 * search.visits - 1)
    if least >= search.best:
        return False
    search.held_input = search.row_held_input * choices.columns[at + LARGEST + way.column_cuts]
    search.held_weights = (
        search.row_held_weights
        * choices.columns[(at if way.weights_moved >> KERNEL_COLUMNS & 1 else 0) + KERNEL]
    )
    search.held_output = (
        search.row_held_output
        * choices.columns[(at if way.output_moved >> COLUMNS & 1 else 0) + PLACES]
    )
    return True


def choose_loops(choices, layer, way, search):
    """Choose the tiles of filters and channels; whether that is better than what was known."""
    filter_options = len(choices.filters) // 2
    channel_options = len(choices.channels) // 2
    all_filters = choices.filters[0]
    all_channels = choices.channels[0]
    input_has_channels = way.input_moved >> CHANNELS & 1
    weights_have_channels = way.weights_moved >> CHANNELS & 1
    weights_have_filters = way.weights_moved >> FILTERS & 1
    output_has_filters = way.output_moved >> FILTERS & 1
    once = search.weights + layer.outputs * (2 * search.visits - 1)
    channel = channel_options - 1
    is_better = False
    for choice in range(filter_options):
        if choice > 0 and way.moved >> FILTERS & 1 == 0:
            break
        search.looked_at += 1
        trips = choices.filters[filter_options + choice] if way.filters_go_round else 1
        if search.inputs * trips + once >= search.best:
            break
        held = search.held_output * (choices.filters[choice] if output_has_filters else all_filters)
        held_weights = choices.filters[choice] if weights_have_filters else all_filters
        held_weights *= search.held_weights
        each = 0  # of what is held, for each channel of a tile
        if input_has_channels:
            each = search.held_input
        else:
            held += search.held_input * all_channels
        if weights_have_channels:
            each += held_weights
        else:
            held += held_weights * all_channels
        if held + each * choices.channels[channel] > layer.room:
            continue
        while channel > 0 and held + each * choices.channels[channel - 1] <= layer.room:
            channel -= 1
        search.looked_at += 1
        visits = search.visits
        if way.output_rounds >> CHANNELS & 1:
            visits *= choices.channels[channel_options + channel]
        total = search.inputs * trips + search.weights + layer.outputs * (2 * visits - 1)
        if total < search.best:
            search.best = total
            search.filter = choice
            search.channel = channel
            is_better = True
    return is_better


# Nests with two levels of tiles. Of filters and channels an option is three numbers; of an axis six.
LOOP_OPTION = 3  # of filters: held of output, of weights, rounds of input; of channels: held of
# input, of weights, rounds of output
HELD_OUTPUT = 0
HELD_WEIGHTS = 1
HELD_INPUT = 2
READ = 3
WEIGHT_ROUNDS = 4
OUTPUT_ROUNDS = 5
AXIS_OPTION = 6
NESTED_ANSWER = 5  # the least traffic; places of filters, channels, rows, columns


def nested_traffic(choices, layer, answer):
    """Write the least traffic below answer[TOTAL], and the options that have it, into `answer`.

    choices: without structures; filters, channels: (K * LOOP_OPTION,), largest tiles first. rows,
    columns: (R * AXIS_OPTION,).
    """
    rows = choices.rows
    columns = choices.columns
    search = Search()
    search.best = answer[TOTAL]
    depth = layer.depth * layer.input_bytes
    least_read = columns[READ]
    for column in range(len(columns) // AXIS_OPTION):
        least_read = min(least_read, columns[column * AXIS_OPTION + READ])
    for row in range(len(rows) // AXIS_OPTION):
        here = row * AXIS_OPTION
        least = depth * rows[here + READ] * least_read
        least += layer.weights * rows[here + WEIGHT_ROUNDS]
        if least + layer.outputs * (2 * rows[here + OUTPUT_ROUNDS] - 1) >= search.best:
            continue  # whatever the columns: they repeat nothing less than once
        for column in range(len(columns) // AXIS_OPTION):
            there = column * AXIS_OPTION
            search.inputs = depth * rows[here + READ] * columns[there + READ]
            search.weights = layer.weights
            search.weights *= rows[here + WEIGHT_ROUNDS] * columns[there + WEIGHT_ROUNDS]
            search.visits = rows[here + OUTPUT_ROUNDS] * columns[there + OUTPUT_ROUNDS]
            once = layer.outputs * (2 * search.visits - 1)
            if search.inputs + search.weights + once >= search.best:
                continue
            search.held_output = rows[here + HELD_OUTPUT] * columns[there + HELD_OUTPUT]
            search.held_output *= layer.output_bytes
            search.held_weights = rows[here + HELD_WEIGHTS] * columns[there + HELD_WEIGHTS]
            search.held_weights *= layer.weight_bytes
            search.held_input = rows[here + HELD_INPUT] * columns[there + HELD_INPUT]
            search.held_input *= layer.input_bytes
            if search.held_output + search.held_weights + search.held_input > layer.room:
                continue
            if choose_nested_loops(choices, layer, search):
                answer[1] = search.filter
                answer[2] = search.channel
                answer[3] = row
                answer[4] = column
    answer[TOTAL] = search.best


def choose_nested_loops(choices, layer, search):
    """Choose the tiles of filters and channels; whether that is better than what was known.

    For a tile of filters the tile of channels is the largest that fits: it holds more and moves less
    than a smaller one, and only shrinks as the tile of filters grows.
    """
    channel = len(choices.channels) // LOOP_OPTION - 1
    is_better = False
    for choice in range(len(choices.filters) // LOOP_OPTION):
        at = choice * LOOP_OPTION
        moved = search.inputs * choices.filters[at + 2] + search.weights
        if moved + layer.outputs * (2 * search.visits - 1) >= search.best:
            break
        fixed = search.held_output * choices.filters[at]
        each = search.held_weights * choices.filters[at + 1]
        first = channel * LOOP_OPTION
        if (
            fixed + each * choices.channels[first + 1] + search.held_input * choices.channels[first]
            > layer.room
        ):
            continue
        while channel > 0:
            first = (channel - 1) * LOOP_OPTION
            held = (
                fixed
                + each * choices.channels[first + 1]
                + search.held_input * choices.channels[first]
            )
            if held > layer.room:
                break
            channel -= 1
        repeated = search.visits * choices.channels[channel * LOOP_OPTION + 2]
        total = moved + layer.outputs * (2 * repeated - 1)
        if total < search.best:
            search.best = total
            search.filter = choice
            search.channel = channel
            is_better = True
    return is_better
