/* Winograd transformation of tiles along an axis, of `results` results: back (weights * (forth
   tile)), for each point. */
typedef struct {
    int32_t points;
    int32_t tile;
    int32_t results;
    const element *forth;
    const element *back;
} transform;

/* A convolution in Winograd's domain. strip: rows of tiles at a time. kernel_rows: those that a sum
   over transformed rows takes, where tiles are transformed along rows only. */
typedef struct {
    windows at;
    transform down;
    transform across;
    int32_t strip;
    int32_t kernel_rows;
} tiling_numbers;

/* Steps between transformed elements: from a point, a map, a row of tiles, a tile to the next. */
typedef struct {
    int32_t point;
    int32_t map;
    int32_t row;
    int32_t tile;
} spacing;

/* Transform the tiles of some rows. lanes: contiguous elements in input and tiles: the channels of a
   place, or one. */
static INLINED void transform_lanes(const work *w, const element *arena, range rows, element *line,
                                    element *tiles, const spacing *by, int32_t count, int32_t lanes)
{
    const tiling_numbers *n = w->numbers;
    const map *in = w->inputs;
    const transform *d = &n->down;
    const transform *a = &n->across;
    int32_t part;
    int32_t ty;
    int32_t p;
    int32_t q;
    int32_t i;
    int32_t x;
    int32_t l;
    int32_t length = a->results * (count - 1) + a->tile;
    int32_t first = larger(0, -n->at.padding[1]);
    int32_t before = n->at.padding[1];
    int32_t end = smaller(in->width, length - before);
    for (part = 0; part < in->channels / lanes; part++) {
        for (ty = rows.first; ty < rows.end; ty++) {
            for (p = 0; p < d->points; p++) {
                fill_zero(line, length * lanes);
                for (i = 0; i < d->tile; i++) {
                    int32_t row = ty * d->results + i - n->at.padding[0];
                    element factor = d->forth[p * d->tile + i];
                    if (row >= 0 && row < in->height && factor != 0 && first < end) {
                        add_scaled(line + (first + before) * lanes,
                                   arena + in->offset + part * in->channel + row * in->row +
                                       first * lanes,
                                   factor, (end - first) * lanes, 1);
                    }
                }
                for (q = 0; q < a->points; q++) {
                    element *to = tiles + (p * a->points + q) * by->point + part * by->map +
                                  (ty - rows.first) * by->row;
                    for (x = 0; x < count; x++) {
                        fill_zero(to + x * by->tile, lanes);
                    }
                    for (i = 0; i < a->tile; i++) {
                        element factor = a->forth[q * a->tile + i];
                        for (x = 0; factor != 0 && x < count; x++) {
                            for (l = 0; l < lanes; l++) {
                                to[x * by->tile + l] +=
                                    factor * line[(x * a->results + i) * lanes + l];
                            }
                        }
                    }
                }
            }
        }
    }
}

static void transform_tiles(const work *w, const element *arena, range rows, element *line,
                            element *tiles, const spacing *by, int32_t count)
{
    if (w->inputs->column == 1) {
        transform_lanes(w, arena, rows, line, tiles, by, count, 1);
    } else {
        transform_lanes(w, arena, rows, line, tiles, by, count, w->inputs->channels);
    }
}

/* Transform contiguous products back: those of a row of tiles, or of a place. to: their first output
   element; height, width: number of output rows and columns. */
static void transform_back(const tiling_numbers *n, const map *out, const element *products,
                           int32_t by_point, int32_t count, element *line, element *to,
                           int32_t height, int32_t width)
{
    const transform *d = &n->down;
    const transform *a = &n->across;
    int32_t is_by_maps = out->column == 1;
    int32_t m;
    int32_t r;
    int32_t p;
    int32_t q;
    int32_t i;
    int32_t apart = is_by_maps ? a->results : 1;
    for (m = 0; m < smaller(d->results, height); m++) {
        fill_zero(line, a->points * count);
        for (q = 0; q < a->points; q++) {
            for (p = 0; p < d->points; p++) {
                element factor = d->back[m * d->points + p];
                if (factor != 0) {
                    add_scaled(line + q * count, products + (p * a->points + q) * by_point, factor,
                               count, 1);
                }
            }
        }
        for (r = 0; r < smaller(a->results, width); r++) {
            element *place = to + m * out->row + r * out->column;
            int32_t many = is_by_maps ? smaller(count, (width - 1 - r) / a->results + 1) : count;
            for (i = 0; i < many; i++) {
                place[i * apart] = 0;
            }
            for (q = 0; q < a->points; q++) {
                element factor = a->back[r * a->points + q];
                for (i = 0; factor != 0 && i < many; i++) {
                    place[i * apart] += factor * line[q * count + i];
                }
            }
        }
    }
}

/* Transform the products of some rows of tiles back. */
static void transform_all_back(const work *w, element *arena, range rows, int32_t count,
                               const element *products, int32_t by_point, element *line)
{
    const tiling_numbers *n = w->numbers;
    const map *out = &w->output;
    int32_t f;
    int32_t ty;
    int32_t tx;
    int32_t tiles = (rows.end - rows.first) * count;
    for (ty = rows.first; ty < rows.end; ty++) {
        int32_t top = ty * n->down.results;
        element *to = arena + out->offset + top * out->row;
        const element *from =
            products + (ty - rows.first) * count * (out->column == 1 ? 1 : out->channels);
        for (f = 0; out->column == 1 && f < out->channels; f++) {
            transform_back(n, out, from + f * tiles, by_point, count, line, to + f * out->channel,
                           out->height - top, out->width);
        }
        for (tx = 0; out->column != 1 && tx < count; tx++) {
            int32_t left = tx * n->across.results;
            transform_back(n, out, from + tx * out->channels, by_point, out->channels, line,
                           to + left * out->column, out->height - top, out->width - left);
        }
    }
}

/* Products at each point. apart: stride of points in the transformed input. */
static void multiply_points(const work *w, int32_t points, int32_t depth, int32_t places,
                            matrix seen, int32_t apart, element *products)
{
    const tiling_numbers *n = w->numbers;
    int32_t point;
    int32_t filters = w->output.channels;
    int32_t is_by_maps = w->output.column == 1;
    for (point = 0; point < points; point++) {
        matrix there = matrix_at(seen.at + point * apart, seen.down, seen.across);
        multiply_matrices(filters, places, depth,
                 matrix_at(n->at.weights + point * filters * depth, depth, 1), there,
                 products + point * filters * places, is_by_maps ? places : 1,
                 is_by_maps ? 1 : filters);
    }
}

static int32_t line_elements(const work *w, int32_t count)
{
    const transform *a = &((const tiling_numbers *)w->numbers)->across;
    int32_t forth = (a->results * (count - 1) + a->tile) *
                    (w->inputs->column == 1 ? 1 : w->inputs->channels);
    return larger(forth, a->points * (w->output.column == 1 ? count : w->output.channels));
}

/* Tiles along both axes. */
static void tile_by_tile(const work *w, element *arena)
{
    const tiling_numbers *n = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t points = n->down.points * n->across.points;
    int32_t is_by_maps = in->column == 1;
    int32_t count = (out->width + n->across.results - 1) / n->across.results;
    int32_t tile_rows = (out->height + n->down.results - 1) / n->down.results;
    element *line = arena + w->workspace;
    element *tiles = line + line_elements(w, count);
    range rows;
    for (rows.first = 0; rows.first < tile_rows; rows.first = rows.end) {
        int32_t places;
        spacing by;
        rows.end = smaller(tile_rows, rows.first + n->strip);
        places = (rows.end - rows.first) * count;
        by.point = in->channels * places;
        by.map = places;
        by.tile = is_by_maps ? 1 : in->channels;
        by.row = count * by.tile;
        transform_tiles(w, arena, rows, line, tiles, &by, count);
        multiply_points(w, points, in->channels, places,
                        is_by_maps ? matrix_at(tiles, places, 1) : matrix_at(tiles, 1, in->channels),
                        by.point, tiles + points * by.point);
        transform_all_back(w, arena, rows, count, tiles + points * by.point,
                           places * out->channels, line);
    }
}

/* Tiles along rows: an output row is a sum over rows of transformed tiles, which are contiguous. */
static void row_by_row_of_tiles(const work *w, element *arena)
{
    const tiling_numbers *n = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t points = n->across.points;
    int32_t channels = in->channels;
    int32_t depth = n->kernel_rows * channels;
    int32_t count = (out->width + n->across.results - 1) / n->across.results;
    element *line = arena + w->workspace;
    element *tiles = line + line_elements(w, count);
    element *products;
    range rows = {0, 0};
    range row;
    spacing by;
    rows.end = out->height - 1 + n->kernel_rows;
    by.point = rows.end * channels * count;
    by.map = count;
    by.row = in->column == 1 ? channels * count : channels;
    by.tile = in->column == 1 ? 1 : rows.end * channels;
    products = tiles + points * by.point;
    transform_tiles(w, arena, rows, line, tiles, &by, count);
    for (row.first = 0; row.first < out->height; row.first = row.end) {
        const element *from = tiles + row.first * by.row;
        row.end = row.first + 1;
        multiply_points(w, points, depth, count,
                        in->column == 1 ? matrix_at(from, count, 1) : matrix_at(from, 1, by.tile),
                        by.point, products);
        transform_all_back(w, arena, row, count, products, count * out->channels, line);
    }
}
