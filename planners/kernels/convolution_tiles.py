"""Tiles of a map, transformed along rows and columns, and results of tiles transformed back.

A tile of a by b input elements gives m by n results; tiles follow one another every m rows and n
columns. In the transformed domain a convolution is a product for each of the p by q points. The
matrices of the transforms are given: `row_points` (p, a), `column_points` (q, b) forwards,
`row_results` (m, p), `column_results` (n, q) backwards, real (Winograd) or complex (Fourier).
A transform along one axis alone has a 1 by 1 matrix for the other. The index of an axis is called by
the letter of its length.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016, section 4.
"""

from __future__ import annotations


def forwards_by_channels(source, row_points, column_points, spacing, corner, line, transformed):
    """Transform tiles, channel by channel.

    source: (channels, rows, columns). spacing: m, n. corner: rows and columns of the first tile before
    the first element of the map; negative where the tile begins inside. line: scratch, (n * (tiles in
    a row - 1) + b,). transformed: out, (p, q, channels, rows of tiles, tiles in a row).
    """
    height, width = source.shape[1], source.shape[2]
    down, across = spacing
    above, before = corner
    for channel in range(transformed.shape[2]):
        for tile_row in range(transformed.shape[3]):
            for p in range(transformed.shape[0]):
                # The transform is separable: combine rows first, in one line for all tiles of a row
                # of tiles.
                for x in range(len(line)):
                    line[x] = 0
                for a in range(row_points.shape[1]):
                    row = tile_row * down + a - above
                    factor = row_points[p, a]
                    if row < 0 or row >= height or factor == 0:
                        continue
                    for x in range(max(0, -before), min(width, len(line) - before)):
                        line[x + before] += factor * source[channel, row, x]
                for q in range(transformed.shape[1]):
                    for tile in range(transformed.shape[4]):
                        transformed[p, q, channel, tile_row, tile] = 0
                    for b in range(column_points.shape[1]):
                        factor = column_points[q, b]
                        if factor == 0:
                            continue
                        # Then combine columns; neighbouring tiles overlap and read the same
                        # elements of the line.
                        for tile in range(transformed.shape[4]):
                            transformed[p, q, channel, tile_row, tile] += (
                                factor * line[tile * across + b]
                            )


def forwards_by_places(source, row_points, column_points, spacing, corner, line, transformed):
    """Transform tiles, all channels at a time.

    source: (rows, columns, channels). line: scratch, (n * (tiles in a row - 1) + b, channels).
    transformed: out, (p, q, rows of tiles, tiles in a row, channels). The rest is as by channels.
    """
    height, width, channels = source.shape[:3]
    down, across = spacing
    above, before = corner
    for tile_row in range(transformed.shape[2]):
        for p in range(transformed.shape[0]):
            for x in range(line.shape[0]):
                for channel in range(channels):
                    line[x, channel] = 0
            for a in range(row_points.shape[1]):
                row = tile_row * down + a - above
                factor = row_points[p, a]
                if row < 0 or row >= height or factor == 0:
                    continue
                for x in range(max(0, -before), min(width, line.shape[0] - before)):
                    for channel in range(channels):
                        line[x + before, channel] += factor * source[row, x, channel]
            for q in range(transformed.shape[1]):
                for tile in range(transformed.shape[3]):
                    for channel in range(channels):
                        transformed[p, q, tile_row, tile, channel] = 0
                    for b in range(column_points.shape[1]):
                        factor = column_points[q, b]
                        if factor == 0:
                            continue
                        for channel in range(channels):
                            transformed[p, q, tile_row, tile, channel] += (
                                factor * line[tile * across + b, channel]
                            )


def backwards_by_channels(products, row_results, column_results, first, line, output):
    """Transform products back into rows of the output, map by map.

    products: (p, q, filters, rows of tiles, tiles in a row). first: the row of tiles that is row 0
    of `products`. line: scratch, (q, tiles in a row). output: out, (filters, rows, columns); what
    tiles hold beyond it is left out.
    """
    down, across = row_results.shape[0], column_results.shape[0]
    width = output.shape[2]
    for filter_ in range(products.shape[2]):
        for tile_row in range(products.shape[3]):
            for m in range(down):
                y = (first + tile_row) * down + m
                if y >= output.shape[1]:
                    continue
                for q in range(line.shape[0]):
                    for tile in range(line.shape[1]):
                        line[q, tile] = 0
                    for p in range(row_results.shape[1]):
                        factor = row_results[m, p]
                        if factor == 0:
                            continue
                        for tile in range(line.shape[1]):
                            line[q, tile] += factor * products[p, q, filter_, tile_row, tile]
                for n in range(across):
                    # Tiles whose column n is inside the output; the last tile of a row may be cut
                    # off.
                    tiles = min(line.shape[1], (width - 1 - n) // across + 1)
                    for tile in range(tiles):
                        output[filter_, y, tile * across + n] = 0
                    for q in range(line.shape[0]):
                        factor = column_results[n, q]
                        if factor == 0:
                            continue
                        for tile in range(tiles):
                            # The imaginary parts of a Fourier transform cancel in the sum over q.
                            part = factor * line[q, tile]
                            output[filter_, y, tile * across + n] += part.real


def backwards_by_places(products, row_results, column_results, first, line, output):
    """Transform products back into rows of the output, all filters at a time.

    products: (p, q, rows of tiles, tiles in a row, filters). line: scratch, (q, filters). output:
    out, (rows, columns, filters). The rest is as by channels.
    """
    down, across = row_results.shape[0], column_results.shape[0]
    filters = output.shape[2]
    for tile_row in range(products.shape[2]):
        for tile in range(products.shape[3]):
            for m in range(down):
                y = (first + tile_row) * down + m
                if y >= output.shape[0]:
                    continue
                for q in range(line.shape[0]):
                    for filter_ in range(filters):
                        line[q, filter_] = 0
                    for p in range(row_results.shape[1]):
                        factor = row_results[m, p]
                        if factor == 0:
                            continue
                        for filter_ in range(filters):
                            line[q, filter_] += factor * products[p, q, tile_row, tile, filter_]
                for n in range(across):
                    x = tile * across + n
                    if x >= output.shape[1]:
                        continue
                    for filter_ in range(filters):
                        output[y, x, filter_] = 0
                    for q in range(line.shape[0]):
                        factor = column_results[n, q]
                        if factor == 0:
                            continue
                        for filter_ in range(filters):
                            part = factor * line[q, filter_]
                            output[y, x, filter_] += part.real
