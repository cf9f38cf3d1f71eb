"""The least traffic of a convolution over the tiles of its loop nests, for one order of the arrays.

Everything is of one group; what is moved and held is counted in bytes, and each of the three arrays
has elements of its own size. Of filters and of channels an option is LOOP_OPTION numbers: tile sizes
in the two arrays that the loop moves, and rounds of the third. Of rows and of columns it is AXIS_OPTION
numbers, as named below.
"""

from __future__ import annotations

LOOP_OPTION = 3  # of filters: held of output, of weights, rounds of input; of channels: held of
# input, of weights, rounds of output
HELD_OUTPUT = 0
HELD_WEIGHTS = 1
HELD_INPUT = 2
READ = 3
WEIGHT_ROUNDS = 4
OUTPUT_ROUNDS = 5
AXIS_OPTION = 6
TOTAL = 0
ANSWER = 5  # the least traffic; places of filters, channels, rows, columns


class TileChoices:
    """Tiles to choose from: (options * numbers of an option,); filters and channels fall."""

    def __init__(self, filters, channels, rows, columns):
        """Keep these arrays."""
        self.filters = filters
        self.channels = channels
        self.rows = rows
        self.columns = columns


class ConvolutionShape:
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


class TileSearch:
    """The choice at hand, and the best choice so far.

    inputs, weights: bytes that are moved; visits of the output; bytes that a tile of each array holds
    of one channel and one filter.
    """

    def __init__(self):
        """Wait for the first choice."""
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
    """Write the least traffic below answer[TOTAL], and the options that have it, into `answer`.

    answer: (ANSWER,).
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
            if choose_loops(choices, layer, search):
                answer[1] = search.filter
                answer[2] = search.channel
                answer[3] = row
                answer[4] = column
    answer[TOTAL] = search.best


def choose_loops(choices, layer, search):
    """Choose the tiles of filters and channels; whether that is better than what was known.

    For a tile of filters the tile of channels is the largest that fits: it holds more and moves less
    than a smaller one, and only shrinks as the tile of filters grows.
    """
    channel = len(choices.channels) // LOOP_OPTION - 1
    is_better = False
    for choice in range(len(choices.filters) // LOOP_OPTION):
        at = choice * LOOP_OPTION
        moved = search.inputs * choices.filters[at + 2] + search.weights
        # Filter tiles fall, so later tiles reread the input at least as often: none can be better.
        if moved + layer.outputs * (2 * search.visits - 1) >= search.best:
            break
        fixed = search.held_output * choices.filters[at]
        filter_weights = search.held_weights * choices.filters[at + 1]
        first = channel * LOOP_OPTION
        if (
            fixed
            + filter_weights * choices.channels[first + 1]
            + search.held_input * choices.channels[first]
            > layer.room
        ):
            continue
        # Two pointers over falling tile sizes: as the filter tile shrinks, the channel tile grows.
        while channel > 0:
            first = (channel - 1) * LOOP_OPTION
            held = (
                fixed
                + filter_weights * choices.channels[first + 1]
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
