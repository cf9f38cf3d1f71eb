/* How a kernel moves over rows (0) and columns (1). beyond: places behind the input that count. */
typedef struct {
    int32_t taps[2], stride[2], dilation[2], before[2], beyond[2];
} window;

/* The taps, `spacing` apart from a place on, that lie within [0, limit). */
static range taps_within(int32_t place, int32_t spacing, int32_t taps, int32_t limit)
{
    range found = {0, 0};
    if (place < 0) {
        found.first = (spacing - 1 - place) / spacing;
    }
    if (place < limit) {
        found.end = smaller((limit - 1 - place) / spacing + 1, taps);
    }
    if (found.first > found.end) {
        found.first = found.end;
    }
    return found;
}

static range taps_at(const window *w, int32_t axis, int32_t place, int32_t limit)
{
    return taps_within(place * w->stride[axis] - w->before[axis], w->dilation[axis],
                       w->taps[axis], limit + smaller(w->beyond[axis], 0));
}

static int32_t tapped(const window *w, int32_t axis, int32_t place, int32_t tap)
{
    return place * w->stride[axis] - w->before[axis] + tap * w->dilation[axis];
}

/* The rows of the input under the taps of an output row. */
static range rows_under(const window *w, const view *in, int32_t y, int32_t height,
                        const element **rows)
{
    range down = taps_at(w, 0, y, height);
    int32_t tap;
    for (tap = down.first; tap < down.end; tap++) {
        rows[tap] = row_at(in, tapped(w, 0, y, tap));
    }
    return down;
}

typedef struct {
    window at;
    int32_t counts_padding;
} pooling;

/* Places along an axis that count in a mean. */
static int32_t counted(const pooling *p, int32_t axis, int32_t place, int32_t limit)
{
    range taps;
    if (!p->counts_padding) {
        taps = taps_at(&p->at, axis, place, limit);
    } else {
        taps = taps_within(place * p->at.stride[axis], p->at.dilation[axis], p->at.taps[axis],
                           limit + p->at.before[axis] + p->at.beyond[axis]);
    }
    return taps.end - taps.first;
}

static void pool_largest(const run *r, const layer *l, range rows, range columns)
{
    const pooling *p = l->parameters;
    const element *under[MOST_TAPS];
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, i, j, k;
    for (y = rows.first; y < rows.end; y++) {
        range down = rows_under(&p->at, &in, y, l->inputs[0].source->height, under);
        for (x = columns.first; x < columns.end; x++) {
            element *place = row_at(&out, y) + column_at(&out, x);
            range across = taps_at(&p->at, 1, x, in.width);
            for (k = 0; k < out.channels; k++) {
                place[k] = LEAST;
            }
            for (i = down.first; i < down.end; i++) {
                for (j = across.first; j < across.end; j++) {
                    const element *values = under[i] + column_at(&in, tapped(&p->at, 1, x, j));
                    for (k = 0; k < out.channels; k++) {
                        place[k] = values[k] > place[k] ? values[k] : place[k];
                    }
                }
            }
            finish(l, place, out.channels, 0, x);
        }
    }
}

/* How many taps from one on lie side by side: what is under them is read at once. */
static int32_t taps_together(const window *w, const view *in, int32_t column, int32_t taps)
{
    if (w->dilation[1] != 1) {
        return 1;
    }
    return in->columns ? smaller(taps, in->columns - column % in->columns) : taps;
}
