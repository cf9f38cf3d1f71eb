"""Minimum traffic of a convolution over the tiles of its loop nests, for one order of the arrays.

A nest moves tiles of three arrays, input, weights and output, between a slow memory and a buffer. The
order of the arrays decides which loops are around which tile. The search chooses a tile size for each
of four axes: filters, channels, rows and columns. Traffic and buffer are counted in bytes, for one
group of the convolution; each array has its own element size.
"""

from __future__ import annotations

# Numbers of an option for filters, or for channels. A filter tile has a size in the output and in the
# weights, and repeats the input; a channel tile has a size in the input and in the weights, and repeats
# the output.
TILE = 0  # elements in the output, or in the input
WEIGHT_TILE = 1  # elements in the weights
ROUNDS = 2  # times that the third array is moved
LOOP_OPTION = 3
# Numbers of an option for rows, or for columns.
HELD_OUTPUT = 0  # elements in the buffer
HELD_WEIGHTS = 1
HELD_INPUT = 2
READ = 3  # input elements that are moved, with repetition
WEIGHT_ROUNDS = 4
OUTPUT_ROUNDS = 5
AXIS_OPTION = 6
# The answer: minimum traffic, then the index of the option of filters, channels, rows and columns.
TOTAL = 0
ANSWER = 5


class TileChoices:
    """The options of each axis, LOOP_OPTION or AXIS_OPTION numbers each, one after another.

    Filter and channel tiles are listed in decreasing size.
    """

    def __init__(self, filters, channels, rows, columns):
        """Keep these arrays."""
        self.filters = filters
        self.channels = channels
        self.rows = rows
        self.columns = columns


class ConvolutionShape:
    """A group of a convolution.

    depth: input channels. weights, outputs: bytes of the weights and of the output. room: bytes of the
    buffer. input_bytes, weight_bytes, output_bytes: of an element.
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


class TileSearch:
    """The chosen tiles of rows and columns, and the best traffic so far.

    inputs, weights: bytes that are moved in one round of the filters; visits: times that each output
    tile is moved, in one round of the channels. held_input, held_weights, held_output: bytes of a tile
    of one channel and one filter. best: minimum traffic so far; filter, channel: its options.
    """

    def __init__(self):
        """Begin without a choice."""
        self.best = 0
        self.inputs = 0
        self.weights = 0
        self.visits = 0
        self.held_input = 0
        self.held_weights = 0
        self.held_output = 0
        self.filter = 0
        self.channel = 0


def minimum_traffic(choices, layer, answer):
    """Write the minimum traffic, if it is below answer[TOTAL], and its options into `answer`.

    answer: (ANSWER,). The output is written in each visit and read in each visit except the first:
    2 * visits - 1 moves.
    """
    rows = choices.rows
    columns = choices.columns
    search = TileSearch()
    search.best = answer[TOTAL]
    depth = layer.depth * layer.input_bytes
    least_read = columns[READ]
    for column in range(len(columns) // AXIS_OPTION):
        least_read = min(least_read, columns[column * AXIS_OPTION + READ])
    for row in range(len(rows) // AXIS_OPTION):
        here = row * AXIS_OPTION
        # Bound: the least traffic of this row option with any column option.
        least = depth * rows[here + READ] * least_read
        least += layer.weights * rows[here + WEIGHT_ROUNDS]
        if least + layer.outputs * (2 * rows[here + OUTPUT_ROUNDS] - 1) >= search.best:
            continue  # columns repeat weights and output at least once
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
            if choose_loops(choices, layer, search):
                answer[1] = search.filter
                answer[2] = search.channel
                answer[3] = row
                answer[4] = column
    answer[TOTAL] = search.best


def choose_loops(choices, layer, search):
    """Choose the tiles of filters and channels; return whether they have less traffic than the best.

    For each filter tile the largest channel tile that fits is best, because a larger tile moves less.
    As filter tiles decrease, this channel tile increases.
    """
    channel = len(choices.channels) // LOOP_OPTION - 1
    is_better = False
    for choice in range(len(choices.filters) // LOOP_OPTION):
        at = choice * LOOP_OPTION
        moved = search.inputs * choices.filters[at + ROUNDS] + search.weights
        # Filter tiles fall, so later tiles reread the input at least as often: none can be better.
        if moved + layer.outputs * (2 * search.visits - 1) >= search.best:
            break
        output = search.held_output * choices.filters[at + TILE]
        filter_weights = search.held_weights * choices.filters[at + WEIGHT_TILE]
        if output + held_of(choices, search, channel, filter_weights) > layer.room:
            continue
        # Two pointers over falling tile sizes: as the filter tile shrinks, the channel tile grows.
        while channel > 0:
            if output + held_of(choices, search, channel - 1, filter_weights) > layer.room:
                break
            channel -= 1
        repeated = search.visits * choices.channels[channel * LOOP_OPTION + ROUNDS]
        total = moved + layer.outputs * (2 * repeated - 1)
        if total < search.best:
            search.best = total
            search.filter = choice
            search.channel = channel
            is_better = True
    return is_better


def held_of(choices, search, channel, filter_weights):
    """Return the bytes of the weights and of the input in the buffer, for an option of the channels.

    filter_weights: bytes of the weights of one channel, with the chosen filter tile.
    """
    at = channel * LOOP_OPTION
    weights = filter_weights * choices.channels[at + WEIGHT_TILE]
    return weights + search.held_input * choices.channels[at + TILE]
