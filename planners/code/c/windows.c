/* How a kernel moves over rows (0) and columns (1). beyond: positions behind the input that count. */
typedef struct {
    int32_t taps[2];
    int32_t stride[2];
    int32_t dilation[2];
    int32_t before[2];
    int32_t beyond[2];
} window;

/* The taps, `spacing` apart from a position on, that lie within [0, limit). */
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

/* What lies under a window: rows of the input by tap, and where the columns of taps lie in each. Where
   columns are a ring, taps from `bend` on lie behind its beginning. */
typedef struct {
    const element *rows[MOST_TAPS];
    range down;
    range across;
    int32_t bend;
    int32_t before;
    int32_t behind;
    int32_t step;
    int32_t y;
    int32_t x;
    int32_t height;
    int32_t width;
} receptive_field;

/* Input row i adds to output row i * stride + tap * dilation - before. */
static int32_t source_of(const window *w, int32_t axis, int32_t position, int32_t tap, int32_t limit)
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

/* skip: channels of the input before the first that is read. */
static void locate_columns(receptive_field *f, const window *w, const view *in, int32_t x, int32_t skip)
{
    int32_t column = tap_position(w, 1, x, 0);
    f->x = x;
    f->across = taps_at(w, 1, x, f->width);
    f->bend = f->across.end;
    f->behind = (FROM_LEFT(in, column) * in->column_stride) + skip;
    f->before = f->behind;
    f->step = w->dilation[1] * in->column_stride;
    if (in->columns != 0) {
        int32_t first = tap_position(w, 1, x, f->across.first);
        int32_t rest;
        f->before -= first / in->columns * in->columns * in->column_stride;
        f->behind = f->before - (in->columns * in->column_stride);
        rest = in->columns - (first % in->columns);
        if (w->dilation[1] != 1) {
            rest = ((rest - 1) / w->dilation[1]) + 1;
        }
        f->bend = smaller(f->bend, f->across.first + rest);
    }
}

/* Where in its row the column under a tap lies. */
static int32_t column_under(const receptive_field *f, int32_t tap)
{
    return ((tap < f->bend) ? f->before : f->behind) + (tap * f->step);
}

/* The same at the next position, where `x` was the one before: whole windows of a row that is no ring follow
   one another. */
static void locate_next_columns(receptive_field *f, const window *w, const view *in, int32_t x, int32_t skip)
{
    int32_t column = tap_position(w, 1, x, 0);
    if (!in->columns && (f->across.first == 0) && (f->across.end == w->taps[1]) && (column >= 0) &&
        (tap_position(w, 1, x, w->taps[1] - 1) < (f->width + smaller(w->beyond[1], 0)))) {
        f->x = x;
        f->behind = (FROM_LEFT(in, column) * in->column_stride) + skip;
        f->before = f->behind;
    } else {
        locate_columns(f, w, in, x, skip);
    }
}

/* What makes some channels of a position of what lies under a window, by the layer's own numbers, which
   begin with the window. */
typedef void (*window_cell)(const void *numbers, const receptive_field *field, element *to,
                            range channels);

INLINED static void make_windows(const run *r, const layer *l, range rows, range columns,
                         const void *numbers, range channels, int32_t skip, window_cell make)
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
    field.bend = 0;
    field.before = 0;
    field.behind = 0;
    field.step = 0;
    /* For Frama-C, which takes positions together whose windows are whole: where those begin and end. */
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
            make(numbers, &field, pixel, channels);
            finish(l, pixel, count, channels.first, x);
            /*@ merge x < 1; */ /*@ merge x < 2; */ /*@ merge x < left; */
            /*@ merge x <= right; */ /*@ merge x <= right + 1; */ /*@ merge x <= right + 2; */
            /*@ merge field.across.first; */ /*@ merge field.across.end; */
        }
        /*@ merge y < 1; */ /*@ merge y < 2; */ /*@ merge y < top; */
        /*@ merge y <= bottom; */ /*@ merge y <= bottom + 1; */ /*@ merge y <= bottom + 2; */
    }
}

/* The same for all channels. */
INLINED static void all_windows(const run *r, const layer *l, range rows, range columns, window_cell make)
{
    range channels = {0, 0};
    channels.end = l->result->channels / SLOTS;
    make_windows(r, l, rows, columns, l->parameters, channels, 0, make);
}

typedef struct {
    window at;
    int32_t counts_padding;
    int32_t offset; /* of unsigned integers, whose means are rounded as they were */
} pooling;

/* Places along an axis that count in a mean. */
static int32_t counted_along(const pooling *p, int32_t axis, int32_t position, int32_t limit)
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

/* Places under a window that count in a mean. */
static int32_t counted(const pooling *p, const receptive_field *field)
{
    int32_t down = counted_along(p, 0, field->y, field->height);
    return larger(down * counted_along(p, 1, field->x, field->width), 1);
}

static void largest_under(const void *numbers, const receptive_field *field, element *to, range channels)
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

LAYER(max_pool, all_windows, largest_under)
