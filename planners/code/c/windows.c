/* Window over rows (0) and columns (1). before, beyond: padding before and after the input; negative
   beyond: the last positions of the input are not read. */
typedef struct {
    int32_t taps[2];
    int32_t stride[2];
    int32_t dilation[2];
    int32_t before[2];
    int32_t beyond[2];
} window;

/* The taps inside [0, limit), where tap 0 is at `position` and taps are `spacing` apart. */
static range taps_within(int32_t position, int32_t spacing, int32_t taps, int32_t limit)
{
    range within = {0, 0};
    if ((position >= 0) && ((position + ((taps - 1) * spacing)) < limit)) {
        within.end = taps;
    } else {
        if (position < 0) {
            within.first = (spacing - 1 - position) / spacing;
        }
        if (position < limit) {
            within.end = smaller(((limit - 1 - position) / spacing) + 1, taps);
        }
        within.first = smaller(within.first, within.end);
    }
    return within;
}

static range taps_at(const window *w, int32_t axis, int32_t position, int32_t limit)
{
    return taps_within((position * w->stride[axis]) - w->before[axis], w->dilation[axis],
                       w->taps[axis], limit + smaller(w->beyond[axis], 0));
}

static int32_t tap_position(const window *w, int32_t axis, int32_t position, int32_t tap)
{
    return (position * w->stride[axis]) - w->before[axis] + (tap * w->dilation[axis]);
}

/* The input pixels of a window. rows: address of the row of each tap; down, across: taps inside the
   input. Tap `t` reads at offset before_wrap + t * step of its row, or after_wrap + t * step from tap
   `wrap` on, where a ring of columns begins again. */
typedef struct {
    const element *rows[MOST_TAPS];
    range down;
    range across;
    int32_t wrap;
    int32_t before_wrap;
    int32_t after_wrap;
    int32_t step;
    int32_t y;
    int32_t x;
    int32_t height;
    int32_t width;
} receptive_field;

/* Transposed convolution: the input row that adds to an output row by a tap; -1 for none. Input row i
   adds to output row i * stride + tap * dilation - before. */
static int32_t transposed_source(const window *w, int32_t axis, int32_t position, int32_t tap,
                                 int32_t limit)
{
    int32_t from = position + w->before[axis] - (tap * w->dilation[axis]);
    if ((from < 0) || (from % w->stride[axis]) || ((from / w->stride[axis]) >= limit)) {
        return -1;
    }
    return from / w->stride[axis];
}

static void locate_rows(receptive_field *f, const window *w, const view *in, int32_t y)
{
    int32_t tap;
    int32_t row;
    int32_t position;
    f->y = y;
    f->down = taps_at(w, 0, y, f->height);
    row = tap_position(w, 0, y, f->down.first);
    position = (row - in->origin) % in->rows;
    for (tap = f->down.first; tap < f->down.end; tap++) {
        f->rows[tap] = &in->base[position * in->stride];
        if (in->staged && (row >= in->staged_from)) {
            f->rows[tap] = &in->staged[(row - in->staged_from) * in->stride];
        }
        row += w->dilation[0];
        position += w->dilation[0];
        while (position >= in->rows) {
            position -= in->rows;
        }
    }
}

/* skip: number of input channels before the first channel that is read. */
static void locate_columns(receptive_field *f, const window *w, const view *in, int32_t x, int32_t skip)
{
    int32_t column = tap_position(w, 1, x, 0);
    f->x = x;
    f->across = taps_at(w, 1, x, f->width);
    f->wrap = f->across.end;
    f->after_wrap = (FROM_LEFT(in, column) * in->column_stride) + skip;
    f->before_wrap = f->after_wrap;
    f->step = w->dilation[1] * in->column_stride;
    if (in->columns != 0) {
        int32_t first = tap_position(w, 1, x, f->across.first);
        int32_t rest;
        f->before_wrap -= first / in->columns * in->columns * in->column_stride;
        f->after_wrap = f->before_wrap - (in->columns * in->column_stride);
        rest = in->columns - (first % in->columns);
        if (w->dilation[1] != 1) {
            rest = ((rest - 1) / w->dilation[1]) + 1;
        }
        f->wrap = smaller(f->wrap, f->across.first + rest);
    }
}

/* Offset in its row of the column that a tap reads. */
static int32_t column_under(const receptive_field *f, int32_t tap)
{
    return ((tap < f->wrap) ? f->before_wrap : f->after_wrap) + (tap * f->step);
}

/* As locate_columns, after position x - 1. Only the offset changes if both windows are inside the input
   and columns are no ring. */
static void locate_next_columns(receptive_field *f, const window *w, const view *in, int32_t x,
                                int32_t skip)
{
    int32_t column = tap_position(w, 1, x, 0);
    if (!in->columns && (f->across.first == 0) && (f->across.end == w->taps[1]) && (column >= 0) &&
        (tap_position(w, 1, x, w->taps[1] - 1) < (f->width + smaller(w->beyond[1], 0)))) {
        f->x = x;
        f->after_wrap = (FROM_LEFT(in, column) * in->column_stride) + skip;
        f->before_wrap = f->after_wrap;
    } else {
        locate_columns(f, w, in, x, skip);
    }
}

/* Computes channels of one output pixel from the input pixels of its window. numbers: the parameters of
   the layer, whose first member is the window. */
typedef void (*window_kernel)(const void *numbers, const receptive_field *field, element *to,
                            range channels);

INLINED static void each_window(const run *r, const layer *l, range rows, range columns,
                                const void *numbers, range channels, int32_t skip,
                                window_kernel compute_pixel)
{
    receptive_field field;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t count = channels.end - channels.first;
    const window *w = numbers;
    field.height = l->inputs[0].source->height;
    field.width = in.width;
    field.wrap = 0;
    field.before_wrap = 0;
    field.after_wrap = 0;
    field.step = 0;
    /* For Frama-C: limits of the positions whose windows are inside the input, analysed together. */
    /*@ ghost int32_t top = (w->before[0] + w->stride[0] - 1) / w->stride[0];
        int32_t left = (w->before[1] + w->stride[1] - 1) / w->stride[1];
        int32_t bottom = (field.height + w->before[0] - (w->taps[0] - 1) * w->dilation[0] - 1) /
                         w->stride[0];
        int32_t right = (field.width + w->before[1] - (w->taps[1] - 1) * w->dilation[1] - 1) /
                        w->stride[1]; */
    for (y = rows.first; y < rows.end; y++) {
        element *row = row_at(&out, y);
        /*@ split y < 1; */ /*@ split y < 2; */ /*@ split y < top; */
        /*@ split y <= bottom; */ /*@ split y <= bottom + 1; */ /*@ split y <= bottom + 2; */
        locate_rows(&field, w, &in, y);
        field.across.end = -1;
        field.across.first = -1;
        for (x = columns.first; x < columns.end; x++) {
            element *pixel = &row[column_at(&out, x)];
            /*@ split x < 1; */ /*@ split x < 2; */ /*@ split x < left; */
            /*@ split x <= right; */ /*@ split x <= right + 1; */ /*@ split x <= right + 2; */
            /*@ split field.across.first; */ /*@ split field.across.end; */
            locate_next_columns(&field, w, &in, x, skip);
            compute_pixel(numbers, &field, pixel, channels);
            finish(l, pixel, count, channels.first, x);
            /*@ merge x < 1; */ /*@ merge x < 2; */ /*@ merge x < left; */
            /*@ merge x <= right; */ /*@ merge x <= right + 1; */ /*@ merge x <= right + 2; */
            /*@ merge field.across.first; */ /*@ merge field.across.end; */
        }
        /*@ merge y < 1; */ /*@ merge y < 2; */ /*@ merge y < top; */
        /*@ merge y <= bottom; */ /*@ merge y <= bottom + 1; */ /*@ merge y <= bottom + 2; */
    }
}

/* Compute all channels of a region. */
INLINED static void each_window_all_channels(const run *r, const layer *l, range rows, range columns,
                                             window_kernel compute_pixel)
{
    range channels = {0, 0};
    channels.end = l->result->channels / SLOTS;
    each_window(r, l, rows, columns, l->parameters, channels, 0, compute_pixel);
}

typedef struct {
    window at;
    int32_t counts_padding;
    int32_t offset; /* 128 if the file has uint8, whose means round as unsigned values; else 0 */
} pooling;

/* Number of taps along an axis that an average includes. */
static int32_t averaged_along(const pooling *p, int32_t axis, int32_t position, int32_t limit)
{
    range taps;
    if (!p->counts_padding) {
        taps = taps_at(&p->at, axis, position, limit);
    } else {
        taps = taps_within(position * p->at.stride[axis], p->at.dilation[axis], p->at.taps[axis],
                           limit + p->at.before[axis] + p->at.beyond[axis]);
    }
    return taps.end - taps.first;
}

/* Number of pixels that an average includes, at least 1. */
static int32_t averaged_pixels(const pooling *p, const receptive_field *field)
{
    int32_t down = averaged_along(p, 0, field->y, field->height);
    return larger(down * averaged_along(p, 1, field->x, field->width), 1);
}

static void window_maximum(const void *numbers, const receptive_field *field, element *to,
                           range channels)
{
    int32_t i;
    int32_t j;
    int32_t k;
    int32_t count = channels.end - channels.first;
    (void)numbers;
    for (k = 0; k < count; k++) {
        to[k] = LEAST;
    }
    for (i = field->down.first; i < field->down.end; i++) {
        for (j = field->across.first; j < field->across.end; j++) {
            const element *values = field->rows[i] + column_under(field, j);
            for (k = 0; k < count; k++) {
                to[k] = (values[k] > to[k]) ? values[k] : to[k];
            }
        }
    }
}

LAYER(max_pool, each_window_all_channels, window_maximum)
