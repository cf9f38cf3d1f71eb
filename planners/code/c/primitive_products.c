/* A matrix to read, with the steps from a row and from a column to the next. */
typedef struct {
    const element *at;
    int32_t down;
    int32_t across;
} matrix;

static matrix matrix_at(const element *at, int32_t down, int32_t across)
{
    matrix found;
    found.at = at;
    found.down = down;
    found.across = across;
    return found;
}

/* A block of a product in registers: four rows, and enough columns for the vector units. */
#define DEEP 4
#if defined(__SSE2__) || defined(__ARM_NEON)
#define WIDE 8
#else
#define WIDE 4
#endif

static INLINED void multiply_block(int32_t depth, matrix a, matrix b, element *c, int32_t down,
                                   int32_t across)
{
    element sums[DEEP][WIDE] = {{0}};
    int32_t i;
    int32_t j;
    int32_t k;
    for (k = 0; k < depth; k++) {
        const element *row = b.at + k * b.down;
#pragma GCC unroll 4
        for (i = 0; i < DEEP; i++) {
            element factor = a.at[i * a.down + k * a.across];
#pragma GCC unroll 8
            for (j = 0; j < WIDE; j++) {
                sums[i][j] += factor * row[j * b.across];
            }
        }
    }
#pragma GCC unroll 4
    for (i = 0; i < DEEP; i++) {
#pragma GCC unroll 8
        for (j = 0; j < WIDE; j++) {
            c[i * down + j * across] = sums[i][j];
        }
    }
}

static void multiply_edge(int32_t rows, int32_t columns, int32_t depth, matrix a, matrix b,
                          element *c, int32_t down, int32_t across)
{
    int32_t i;
    int32_t j;
    int32_t k;
    for (i = 0; i < rows; i++) {
        for (j = 0; j < columns; j++) {
            element sum = 0;
            for (k = 0; k < depth; k++) {
                sum += a.at[i * a.down + k * a.across] * b.at[k * b.down + j * b.across];
            }
            c[i * down + j * across] = sum;
        }
    }
}

static INLINED void multiply_blocks(int32_t rows, int32_t columns, int32_t depth, matrix a, matrix b,
                                    element *c, int32_t down, int32_t across)
{
    int32_t i;
    int32_t j;
    for (j = 0; j < columns; j += WIDE) {
        matrix there = matrix_at(b.at + j * b.across, b.down, b.across);
        int32_t wide = smaller(WIDE, columns - j);
        for (i = 0; i < rows; i += DEEP) {
            matrix here = matrix_at(a.at + i * a.down, a.down, a.across);
            int32_t deep = smaller(DEEP, rows - i);
            element *to = c + i * down + j * across;
            if (deep == DEEP && wide == WIDE) {
                multiply_block(depth, here, there, to, down, across);
            } else {
                multiply_edge(deep, wide, depth, here, there, to, down, across);
            }
        }
    }
}

/* c = a b. Columns or rows of c are contiguous; for rows the transposed product is computed. */
static void multiply_matrices(int32_t rows, int32_t columns, int32_t depth, matrix a, matrix b,
                              element *c, int32_t down, int32_t across)
{
    if (across != 1) {
        matrix other = matrix_at(a.at, a.across, a.down);
        a = matrix_at(b.at, b.across, b.down);
        b = other;
        if (b.across == 1) {
            multiply_blocks(columns, rows, depth, a, matrix_at(b.at, b.down, 1), c, across, 1);
        } else {
            multiply_blocks(columns, rows, depth, a, b, c, across, down);
        }
    } else if (b.across == 1) {
        multiply_blocks(rows, columns, depth, a, matrix_at(b.at, b.down, 1), c, down, 1);
    } else {
        multiply_blocks(rows, columns, depth, a, b, c, down, across);
    }
}

/* im2col and a product; by_rows: im2row. is_transposed: the weights of the filters are the columns
   of the matrix. strip: output rows at a time. */
typedef struct {
    windows at;
    int32_t is_by_rows;
    int32_t is_transposed;
    int32_t strip;
} lowering;

/* im2col of some output rows and channels: one column for each place. by_tap, by_row: strides of
   taps and of output rows. */
static void lower_columns(const windows *c, const map *in, const element *from, int32_t first,
                          range rows, int32_t width, int32_t depth, element *to, int32_t by_tap,
                          int32_t by_row)
{
    int32_t channel;
    int32_t i;
    int32_t j;
    int32_t y;
    int32_t x;
    for (channel = 0; channel < depth; channel++, from += in->channel) {
        for (i = 0; i < c->taps[0]; i++) {
            for (j = 0; j < c->taps[1]; j++, to += by_tap) {
                range on = columns_on_map(c, j, in->width, width);
                for (y = rows.first; y < rows.end; y++) {
                    int32_t row = row_under(c, first + y, i, in->height);
                    element *line = to + (y - rows.first) * by_row;
                    int32_t there = row * in->row + shift_of(c, j) * in->column;
                    fill_zero(line, row < 0 ? width : on.first);
                    for (x = on.first; row >= 0 && x < on.end; x++) {
                        line[x] = from[there + x * c->stride[1] * in->column];
                    }
                    fill_zero(line + on.end, row < 0 ? 0 : width - on.end);
                }
            }
        }
    }
}

/* im2row: one row for each place. by_row, by_place: strides of output rows and of places. */
static void lower_rows(const windows *c, const map *in, const element *from, range rows,
                       int32_t width, int32_t depth, element *to, int32_t by_row, int32_t by_place)
{
    int32_t channel;
    int32_t i;
    int32_t j;
    int32_t y;
    int32_t x;
    for (y = rows.first; y < rows.end; y++) {
        for (x = 0; x < width; x++) {
            element *tap = to + (y - rows.first) * by_row + x * by_place;
            for (i = 0; i < c->taps[0]; i++) {
                int32_t row = row_under(c, y, i, in->height);
                for (j = 0; j < c->taps[1]; j++, tap += depth) {
                    int32_t column = x * c->stride[1] + shift_of(c, j);
                    int32_t there = row * in->row + column * in->column;
                    if (row < 0 || column < 0 || column >= in->width) {
                        fill_zero(tap, depth);
                        continue;
                    }
                    for (channel = 0; channel < depth; channel++) {
                        tap[channel] = from[there + channel * in->channel];
                    }
                }
            }
        }
    }
}

static void lower_and_multiply(const work *w, element *arena)
{
    const lowering *l = w->numbers;
    const windows *c = &l->at;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t part;
    int32_t depth = filter_depth(c, in);
    int32_t filters = out->channels / c->groups;
    int32_t seen = depth * c->taps[0] * c->taps[1];
    element *lowered = arena + w->workspace;
    range rows;
    for (part = 0; part < c->groups; part++) {
        const element *from = arena + in->offset + part * depth * in->channel;
        const element *weights = c->weights + part * filters * seen;
        matrix of = l->is_transposed ? matrix_at(weights, 1, filters) : matrix_at(weights, seen, 1);
        for (rows.first = 0; rows.first < out->height; rows.first = rows.end) {
            int32_t places;
            element *to = arena + out->offset + part * filters * out->channel +
                          rows.first * out->row;
            rows.end = smaller(out->height, rows.first + l->strip);
            places = (rows.end - rows.first) * out->width;
            if (l->is_by_rows) {
                lower_rows(c, in, from, rows, out->width, depth, lowered, out->width * seen, seen);
            } else {
                lower_columns(c, in, from, 0, rows, out->width, depth, lowered, places, out->width);
            }
            multiply_matrices(filters, places, seen, of,
                     l->is_by_rows ? matrix_at(lowered, 1, seen) : matrix_at(lowered, places, 1), to,
                     out->channel, out->column);
        }
    }
}

/* MEC: only columns are lowered; the windows of an output row are contiguous. */
static void lower_columns_only(const work *w, element *arena)
{
    const windows *c = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    windows flat = *c;
    element *lowered = arena + w->workspace;
    int32_t y;
    int32_t place = in->channels * c->taps[1];
    int32_t seen = place * c->taps[0];
    range rows = {0, 0};
    rows.end = (out->height - 1) * c->stride[0] + c->taps[0];
    flat.taps[0] = flat.stride[0] = 1;
    if (in->column == 1) {
        lower_columns(&flat, in, arena + in->offset, 0, rows, out->width, in->channels, lowered,
                      out->width, place * out->width);
    } else {
        lower_rows(&flat, in, arena + in->offset, rows, out->width, in->channels, lowered, place,
                   rows.end * place);
    }
    for (y = 0; y < out->height; y++) {
        int32_t first = y * c->stride[0] * place;
        matrix of = in->column == 1 ? matrix_at(lowered + first * out->width, out->width, 1)
                                    : matrix_at(lowered + first, 1, rows.end * place);
        multiply_matrices(out->channels, out->width, seen, matrix_at(c->weights, seen, 1), of,
                 arena + out->offset + y * out->row, out->channel, out->column);
    }
}

/* A 1x1 convolution: the map is the matrix. */
static void multiply_map(const work *w, element *arena)
{
    const lowering *l = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    const element *weights = l->at.weights;
    multiply_matrices(out->channels, out->height * out->width, in->channels,
             l->is_transposed ? matrix_at(weights, 1, out->channels)
                              : matrix_at(weights, in->channels, 1),
             matrix_at(arena + in->offset, in->channel, in->column), arena + out->offset,
             out->channel, out->column);
}

/* Multiply, shift and add (kn2row): some input rows and kernel positions at a time. */
typedef struct {
    windows at;
    int32_t rows;
    int32_t taps;
} shifting;

/* Add the products of a kernel position to the output. by_filter, by_place: their strides; rows: the
   input rows that they belong to. */
static void add_shifted(const work *w, element *arena, const element *products, int32_t by_filter,
                        int32_t by_place, range rows, int32_t tap)
{
    const shifting *s = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t down = tap / s->at.taps[1] - s->at.padding[0];
    int32_t y;
    int32_t x;
    int32_t f;
    int32_t across = tap % s->at.taps[1] - s->at.padding[1];
    int32_t top = larger(0, rows.first - down);
    int32_t bottom = smaller(out->height, rows.end - down);
    int32_t left = larger(0, -across);
    int32_t right = smaller(out->width, in->width - across);
    int32_t outer = out->column == 1 ? out->channels : 1;
    for (f = 0; f < outer; f++) {
        for (y = top; y < bottom; y++) {
            element *to = arena + out->offset + f * out->channel + y * out->row;
            int32_t from = f * by_filter + ((y + down - rows.first) * in->width + across) * by_place;
            if (out->column == 1) {
                if (left < right) {
                    add_scaled(to + left, products + from + left, 1, right - left, 1);
                }
                continue;
            }
            for (x = left; x < right; x++) {
                add_scaled(to + x * out->column, products + from + x * by_place, 1, out->channels, 1);
            }
        }
    }
}

static void multiply_and_shift(const work *w, element *arena)
{
    const shifting *s = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t taps = s->at.taps[0] * s->at.taps[1];
    int32_t tap;
    int32_t place;
    element *products = arena + w->workspace;
    range rows;
    fill_zero(arena + out->offset, out->channels * out->height * out->width);
    for (rows.first = 0; rows.first < in->height; rows.first = rows.end) {
        int32_t places;
        rows.end = smaller(in->height, rows.first + s->rows);
        places = (rows.end - rows.first) * in->width;
        for (tap = 0; tap < taps; tap += s->taps) {
            int32_t is_by_filter = out->column == 1;
            int32_t many = s->taps * out->channels;
            int32_t by_filter = is_by_filter ? places : 1;
            int32_t by_place = is_by_filter ? 1 : many;
            multiply_matrices(many, places, in->channels,
                     matrix_at(s->at.weights + tap * out->channels * in->channels, in->channels, 1),
                     matrix_at(arena + in->offset + rows.first * in->row, in->channel, in->column),
                     products, by_filter, by_place);
            for (place = 0; place < s->taps; place++) {
                add_shifted(w, arena, products + place * out->channels * by_filter, by_filter,
                            by_place, rows, tap + place);
            }
        }
    }
}
