"""Direct convolutions in several loop orders.

Maps of float32 by channels are (channels, rows, columns); maps by places, one place for each pixel,
are (rows, columns, channels). steps: `ranges.Steps`, the stride, dilation and padding of windows.
Window elements outside the map count as zero. Filter f reads the input channels
of its group: `group_channels` channels from f // group_filters * group_channels on. The innermost loop
is contiguous in memory, over columns or filters, and adds to as many separate sums: a compiler can
vectorise it without a change in the order of any sum.
"""

from __future__ import annotations


def by_maps(source, kernel, steps, output):
    """Compute output map by output map; each is the sum over input maps and kernel elements.

    source, output: by channels. kernel: (filters, channels of a group, rows, columns).
    """
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width = source.shape[1], source.shape[2]
    group_channels = kernel.shape[1]
    group_filters = kernel.shape[0] * group_channels // source.shape[0]
    for f in range(kernel.shape[0]):
        first_channel = f // group_filters * group_channels
        for y in range(output.shape[1]):
            for x in range(output.shape[2]):
                output[f, y, x] = 0.0
        for c in range(group_channels):
            for i in range(kernel.shape[2]):
                for j in range(kernel.shape[3]):
                    weight = kernel[f, c, i, j]
                    shift = j * column_dilation - left
                    # Output columns whose tap is inside the map: 0 <= x * across + shift < width.
                    first = max(0, -(shift // across))
                    end = min(output.shape[2], (width - 1 - shift) // across + 1)
                    for y in range(output.shape[1]):
                        row = y * down + i * row_dilation - top
                        if 0 <= row < height:
                            for x in range(first, end):
                                output[f, y, x] += (
                                    weight * source[first_channel + c, row, x * across + shift]
                                )


def by_rows(source, kernel, steps, output):
    """Compute row by row of an output map, then the next map.

    source, output: by channels. kernel: (filters, channels of a group, rows, columns).
    """
    _row_by_row(source, kernel, steps, output, output.shape[1], 1)


def by_rows_of_all_filters(source, kernel, steps, output):
    """Compute a row of all output maps, then the next row: input rows remain in the cache.

    source, output: by channels. kernel: (filters, channels of a group, rows, columns).
    """
    _row_by_row(source, kernel, steps, output, 1, kernel.shape[0])


def _row_by_row(source, kernel, steps, output, filter_turns, row_turns):
    """Compute one output row in each turn.

    filter_turns, row_turns: consecutive turns with the same filter, and with the same row.
    """
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width = source.shape[1], source.shape[2]
    group_channels = kernel.shape[1]
    group_filters = kernel.shape[0] * group_channels // source.shape[0]
    for turn in range(kernel.shape[0] * output.shape[1]):
        # One flat loop for two loop orders: rows within a filter, or filters within a row.
        f = turn // filter_turns % kernel.shape[0]
        y = turn // row_turns % output.shape[1]
        first_channel = f // group_filters * group_channels
        for x in range(output.shape[2]):
            output[f, y, x] = 0.0
        for c in range(group_channels):
            for i in range(kernel.shape[2]):
                row = y * down + i * row_dilation - top
                if row < 0 or row >= height:
                    continue
                for j in range(kernel.shape[3]):
                    weight = kernel[f, c, i, j]
                    shift = j * column_dilation - left
                    first = max(0, -(shift // across))
                    end = min(output.shape[2], (width - 1 - shift) // across + 1)
                    for x in range(first, end):
                        output[f, y, x] += (
                            weight * source[first_channel + c, row, x * across + shift]
                        )


def by_four_filters(source, kernel, steps, output):
    """Compute a row of four output maps at a time: each input element is read once for the four.

    source, output: by channels. kernel: (filters / 4, channels, rows, columns, 4), without groups.
    """
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width = source.shape[1], source.shape[2]
    for block in range(kernel.shape[0]):
        f = 4 * block
        for y in range(output.shape[1]):
            for x in range(output.shape[2]):
                output[f, y, x] = 0.0
                output[f + 1, y, x] = 0.0
                output[f + 2, y, x] = 0.0
                output[f + 3, y, x] = 0.0
            for c in range(source.shape[0]):
                for i in range(kernel.shape[2]):
                    row = y * down + i * row_dilation - top
                    if row < 0 or row >= height:
                        continue
                    for j in range(kernel.shape[3]):
                        shift = j * column_dilation - left
                        first = max(0, -(shift // across))
                        end = min(output.shape[2], (width - 1 - shift) // across + 1)
                        # Blocking by four filters: each input element is loaded once for four
                        # products.
                        weight0 = kernel[block, c, i, j, 0]
                        weight1 = kernel[block, c, i, j, 1]
                        weight2 = kernel[block, c, i, j, 2]
                        weight3 = kernel[block, c, i, j, 3]
                        for x in range(first, end):
                            element = source[c, row, x * across + shift]
                            output[f, y, x] += weight0 * element
                            output[f + 1, y, x] += weight1 * element
                            output[f + 2, y, x] += weight2 * element
                            output[f + 3, y, x] += weight3 * element


def by_places(source, kernel, steps, output):
    """Compute all filters of a pixel, then the next pixel.

    source, output: by places. kernel: (rows, columns, channels, filters of a group).
    """
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width, channels = source.shape[:3]
    group_filters = kernel.shape[3]
    group_channels = channels * group_filters // output.shape[2]
    for y in range(output.shape[0]):
        for x in range(output.shape[1]):
            for f in range(output.shape[2]):
                output[y, x, f] = 0.0
            for i in range(kernel.shape[0]):
                row = y * down + i * row_dilation - top
                if row < 0 or row >= height:
                    continue
                for j in range(kernel.shape[1]):
                    column = x * across + j * column_dilation - left
                    if column < 0 or column >= width:
                        continue
                    for c in range(channels):
                        element = source[row, column, c]
                        first = c // group_channels * group_filters
                        # The innermost loop is contiguous in the weights and the output, so it
                        # vectorises.
                        for f in range(group_filters):
                            output[y, x, first + f] += element * kernel[i, j, c, f]


def by_four_places(source, kernel, steps, output):
    """Compute all filters of four neighbouring pixels at a time: weights are read once for the four.

    source, output: by places; columns left over from groups of four are computed singly.
    kernel: (rows, columns, channels, filters), without groups.
    """
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width, channels = source.shape[:3]
    filters = kernel.shape[3]
    for y in range(output.shape[0]):
        x = 0
        while x < output.shape[1]:
            # Blocks of four columns, then the remaining columns one by one.
            places = 4 if x + 4 <= output.shape[1] else 1
            for place in range(places):
                for f in range(filters):
                    output[y, x + place, f] = 0.0
            for i in range(kernel.shape[0]):
                row = y * down + i * row_dilation - top
                if row < 0 or row >= height:
                    continue
                for j in range(kernel.shape[1]):
                    column = x * across + j * column_dilation - left
                    # Interior: all four taps are inside the map, so no bounds are tested in the
                    # inner loops.
                    if places == 4 and column >= 0 and column + 3 * across < width:
                        for c in range(channels):
                            element0 = source[row, column, c]
                            element1 = source[row, column + across, c]
                            element2 = source[row, column + 2 * across, c]
                            element3 = source[row, column + 3 * across, c]
                            for f in range(filters):
                                weight = kernel[i, j, c, f]
                                output[y, x, f] += element0 * weight
                                output[y, x + 1, f] += element1 * weight
                                output[y, x + 2, f] += element2 * weight
                                output[y, x + 3, f] += element3 * weight
                        continue
                    for place in range(places):
                        there = column + place * across
                        if there < 0 or there >= width:
                            continue
                        for c in range(channels):
                            element = source[row, there, c]
                            for f in range(filters):
                                output[y, x + place, f] += element * kernel[i, j, c, f]
            x += places


def depthwise_by_places(source, kernel, steps, output):
    """Compute all channels of a pixel, each with its own kernel, then the next pixel.

    source, output: by places, with equal channels. kernel: (rows, columns, channels).
    """
    down, across = steps.stride
    row_dilation, column_dilation = steps.dilation
    top, left = steps.padding
    height, width, channels = source.shape[:3]
    for y in range(output.shape[0]):
        for x in range(output.shape[1]):
            for c in range(channels):
                output[y, x, c] = 0.0
            for i in range(kernel.shape[0]):
                row = y * down + i * row_dilation - top
                if row < 0 or row >= height:
                    continue
                for j in range(kernel.shape[1]):
                    column = x * across + j * column_dilation - left
                    if column < 0 or column >= width:
                        continue
                    for c in range(channels):
                        output[y, x, c] += source[row, column, c] * kernel[i, j, c]
