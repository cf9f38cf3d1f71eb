"""The least traffic of a convolution over ways to nest its loops, and tiles.

Everything is of one group, in elements. Six loops are numbered: filters, channels, output rows,
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


def least_traffic(
    structures, filters, channels, rows, columns, weight_elements, output_elements, room, answer
):
    """Write the least traffic, and the places of the first choice that has it, into `answer`.

    structures: (S * STRUCTURE,). filters, channels: (K,) tile sizes and, behind them, numbers of
    tiles: sizes fall, numbers grow. rows, columns: (R * OPTION,); the first is uncut. room: elements
    of the buffer. answer: (ANSWER,), with TOTAL above every traffic and LOOKED_AT 0.

    For a structure and options of both axes, the tile of channels for a tile of filters is the
    largest that fits: traffic falls with the tile. It only grows as the other falls, so one pass
    over both is enough. What cannot fit, or with one tile of all filters and all channels would not
    be better than what is known, is not looked into.
    One function, as a translated kernel calls no other.
    """
    filter_options = len(filters) // 2
    channel_options = len(channels) // 2
    row_options = len(rows) // OPTION
    column_options = len(columns) // OPTION
    all_filters = filters[0]
    all_channels = channels[0]
    least_columns = columns[READS]
    looked_at = 0
    best = answer[TOTAL]
    enough = all_channels * rows[READS] * least_columns + weight_elements + output_elements
    for structure in range(len(structures) // STRUCTURE):
        if best <= enough:
            break
        at = structure * STRUCTURE
        input_moved = structures[at + INPUT_MOVED]
        weights_moved = structures[at + WEIGHTS_MOVED]
        output_moved = structures[at + OUTPUT_MOVED]
        weights_rounds = structures[at + WEIGHTS_ROUNDS]
        output_rounds = structures[at + OUTPUT_ROUNDS]
        slides = structures[at + SLIDES]
        moved = input_moved | weights_moved | output_moved
        cuts_rows = (input_moved >> ROWS & 1) + 2 * (input_moved >> KERNEL_ROWS & 1)
        cuts_columns = (input_moved >> COLUMNS & 1) + 2 * (input_moved >> KERNEL_COLUMNS & 1)
        row_reads = READS + cuts_rows
        if slides == ROWS:
            row_reads = READS_BY_PLACES + cuts_rows
        elif slides == KERNEL_ROWS:
            row_reads = READS_BY_KERNEL + cuts_rows
        column_reads = READS + cuts_columns
        if slides == COLUMNS:
            column_reads = READS_BY_PLACES + cuts_columns
        elif slides == KERNEL_COLUMNS:
            column_reads = READS_BY_KERNEL + cuts_columns
        rows_go_round = weights_rounds >> ROWS & 1
        columns_go_round = weights_rounds >> COLUMNS & 1
        kernel_rows_go_round = output_rounds >> KERNEL_ROWS & 1
        kernel_columns_go_round = output_rounds >> KERNEL_COLUMNS & 1
        channels_go_round = output_rounds >> CHANNELS & 1
        filters_go_round = structures[at + INPUT_ROUNDS] >> FILTERS & 1
        input_has_channels = input_moved >> CHANNELS & 1
        weights_have_channels = weights_moved >> CHANNELS & 1
        weights_have_filters = weights_moved >> FILTERS & 1
        output_has_filters = output_moved >> FILTERS & 1
        for row in range(row_options):
            one = row * OPTION
            if rows[one + PLACE_TRIPS] > 1 and moved >> ROWS & 1 == 0:
                continue
            if rows[one + KERNEL_TRIPS] > 1 and moved >> KERNEL_ROWS & 1 == 0:
                continue
            looked_at += 1
            input_by_rows = all_channels * rows[one + row_reads]
            held_rows = rows[one + LARGEST + cuts_rows]
            weights_by_rows = weight_elements
            if rows_go_round:
                weights_by_rows *= rows[one + PLACE_TRIPS]
            visits_by_rows = 1
            if kernel_rows_go_round:
                visits_by_rows = rows[one + KERNEL_TRIPS]
            least = input_by_rows * least_columns + weights_by_rows
            if least + output_elements * (2 * visits_by_rows - 1) >= best:
                continue
            tile_rows = rows[PLACES]
            if output_moved >> ROWS & 1:
                tile_rows = rows[one + PLACES]
            tile_kernel_rows = rows[KERNEL]
            if weights_moved >> KERNEL_ROWS & 1:
                tile_kernel_rows = rows[one + KERNEL]
            for column in range(column_options):
                other = column * OPTION
                if columns[other + PLACE_TRIPS] > 1 and moved >> COLUMNS & 1 == 0:
                    continue
                if columns[other + KERNEL_TRIPS] > 1 and moved >> KERNEL_COLUMNS & 1 == 0:
                    continue
                looked_at += 1
                inputs = input_by_rows * columns[other + column_reads]
                weights = weights_by_rows
                if columns_go_round:
                    weights *= columns[other + PLACE_TRIPS]
                visits = visits_by_rows
                if kernel_columns_go_round:
                    visits *= columns[other + KERNEL_TRIPS]
                if inputs + weights + output_elements * (2 * visits - 1) >= best:
                    continue
                held_input = held_rows * columns[other + LARGEST + cuts_columns]
                held_weights = tile_kernel_rows * columns[KERNEL]
                if weights_moved >> KERNEL_COLUMNS & 1:
                    held_weights = tile_kernel_rows * columns[other + KERNEL]
                held_output = tile_rows * columns[PLACES]
                if output_moved >> COLUMNS & 1:
                    held_output = tile_rows * columns[other + PLACES]
                channel = channel_options - 1
                for choice in range(filter_options):
                    if moved >> FILTERS & 1 == 0 and choice > 0:
                        break
                    looked_at += 1
                    weight_filters = filters[choice] if weights_have_filters else all_filters
                    output_filters = filters[choice] if output_has_filters else all_filters
                    trips = filters[filter_options + choice] if filters_go_round else 1
                    least = inputs * trips + weights + output_elements * (2 * visits - 1)
                    if least >= best:
                        break
                    held = output_filters * held_output
                    each = 0  # of what is held, for each channel of a tile
                    if input_has_channels:
                        each = held_input
                    else:
                        held += held_input * all_channels
                    if weights_have_channels:
                        each += held_weights * weight_filters
                    else:
                        held += held_weights * weight_filters * all_channels
                    if held + each * channels[channel] > room:
                        continue
                    while channel > 0 and held + each * channels[channel - 1] <= room:
                        channel -= 1
                    looked_at += 1
                    if channels_go_round:
                        repeated = visits * channels[channel_options + channel]
                    else:
                        repeated = visits
                    total = inputs * trips + weights + output_elements * (2 * repeated - 1)
                    if total < best:
                        best = total
                        answer[BEST_STRUCTURE] = structure
                        answer[BEST_FILTERS] = choice
                        answer[BEST_CHANNELS] = channel
                        answer[BEST_ROWS] = row
                        answer[BEST_COLUMNS] = column
    answer[TOTAL] = best
    answer[LOOKED_AT] = looked_at


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


def nested_traffic(
    filters, channels, rows, columns, depth, weight_elements, output_elements, room, answer
):
    """Write the least traffic below answer[TOTAL], and the options that have it, into `answer`.

    filters, channels: (K * LOOP_OPTION,), largest tiles first. rows, columns: (R * AXIS_OPTION,).
    depth: channels of the input. room: elements of the buffer. For a tile of filters the tile of
    channels is the largest that fits: it holds more and moves less than a smaller one, and only
    shrinks as the tile of filters grows.
    """
    filter_options = len(filters) // LOOP_OPTION
    channel_options = len(channels) // LOOP_OPTION
    best = answer[0]
    least_read = columns[READ]
    for column in range(len(columns) // AXIS_OPTION):
        least_read = min(least_read, columns[column * AXIS_OPTION + READ])
    for row in range(len(rows) // AXIS_OPTION):
        one = row * AXIS_OPTION
        least = depth * rows[one + READ] * least_read
        least += weight_elements * rows[one + WEIGHT_ROUNDS]
        if least + output_elements * (2 * rows[one + OUTPUT_ROUNDS] - 1) >= best:
            continue  # whatever the columns: they repeat nothing less than once
        for column in range(len(columns) // AXIS_OPTION):
            other = column * AXIS_OPTION
            inputs = depth * rows[one + READ] * columns[other + READ]
            weights = weight_elements
            weights *= rows[one + WEIGHT_ROUNDS] * columns[other + WEIGHT_ROUNDS]
            rounds = rows[one + OUTPUT_ROUNDS] * columns[other + OUTPUT_ROUNDS]
            if inputs + weights + output_elements * (2 * rounds - 1) >= best:
                continue
            held_output = rows[one + HELD_OUTPUT] * columns[other + HELD_OUTPUT]
            held_weights = rows[one + HELD_WEIGHTS] * columns[other + HELD_WEIGHTS]
            held_input = rows[one + HELD_INPUT] * columns[other + HELD_INPUT]
            if held_output + held_weights + held_input > room:
                continue
            channel = channel_options - 1
            for choice in range(filter_options):
                at = choice * LOOP_OPTION
                moved = inputs * filters[at + 2] + weights
                if moved + output_elements * (2 * rounds - 1) >= best:
                    break
                fixed = held_output * filters[at]
                each = held_weights * filters[at + 1]
                first = channel * LOOP_OPTION
                if fixed + each * channels[first + 1] + held_input * channels[first] > room:
                    continue
                while channel > 0:
                    first = (channel - 1) * LOOP_OPTION
                    if fixed + each * channels[first + 1] + held_input * channels[first] > room:
                        break
                    channel -= 1
                repeated = rounds * channels[channel * LOOP_OPTION + 2]
                total = moved + output_elements * (2 * repeated - 1)
                if total < best:
                    best = total
                    answer[1] = choice
                    answer[2] = channel
                    answer[3] = row
                    answer[4] = column
    answer[0] = best
