/* A layer of a stage in parts: it makes a share of its channels at a time, or adds up what a share of
   its input's channels gives. channels: that are shared. parts: of the stage, which sums them up in
   its layer `adds_up`. of: the layer's own numbers. */
typedef struct {
    int32_t channels;
    int32_t share;
    int32_t parts;
    int32_t adds_up;
    const void *of;
} sliced;

static range share_at(const run *r, const sliced *p)
{
    range found;
    found.first = smaller(r->part * p->share, p->channels);
    found.end = smaller(found.first + p->share, p->channels);
    return found;
}

/* Where the share begins in what a layer reads: of all channels, or of a strip that holds a share. */
static int32_t share_within(const view *in, const sliced *p, range share)
{
    return (in->channels > p->share) ? share.first : 0;
}

/* Go along the columns once for each part of the channels; the last goes on to the result. */
static void sweep_parts(const run *r)
{
    const stage *s = r->stage;
    const sliced *p = (s->mode == BY_PARTS) ? s->layers[0].parameters : NULL;
    int32_t parts = p ? p->parts : 1;
    run each = *r;
    for (each.part = 0; each.part < parts; each.part++) {
        sweep_to(&each, ((each.part + 1) < parts) ? p->adds_up : (s->layer_count - 1));
    }
}

typedef void (*pixel_function)(const void *numbers, const element *from, element *to, int32_t count,
                     int32_t channel);

/* What makes each element of the one at the same position, by the layer's own numbers; positions that go
   together at once, but so many at most. */
static void make_region(const run *r, const layer *l, range rows, range columns, pixel_function make,
                        int32_t most)
{
    int32_t y;
    int32_t x;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t at_once = smaller(columns_at_once(&in, columns), columns_at_once(&out, columns));
    at_once = smaller(at_once, most);
    for (y = rows.first; y < rows.end; y++) {
        const element *from = row_at(&in, y);
        element *to = row_at(&out, y);
        for (x = columns.first; x < columns.end; x += at_once) {
            make(l->parameters, &from[column_at(&in, x)], &to[column_at(&out, x)],
                 at_once * out.channels, 0);
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Where each channel has numbers of its own. */
static void make_places(const run *r, const layer *l, range rows, range columns, pixel_function make)
{
    make_region(r, l, rows, columns, make, 1);
}

/* Where all channels are alike. */
static void make_rows(const run *r, const layer *l, range rows, range columns, pixel_function make)
{
    make_region(r, l, rows, columns, make, INT32_MAX);
}

/* The same for a share of the channels. */
static void share_places(const run *r, const layer *l, range rows, range columns,
                        pixel_function make)
{
    const sliced *p = l->parameters;
    range share = share_at(r, p);
    int32_t y;
    int32_t x;
    int32_t count = share.end - share.first;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row_at(&in, y) + column_at(&in, x);
            element *to = row_at(&out, y) + column_at(&out, x);
            make(p->of, from + share_within(&in, p, share), to, count, share.first);
            finish(l, to, count, share.first, x);
        }
    }
}

static void copy_cell(const void *numbers, const element *from, element *to, int32_t count,
                      int32_t channel)
{
    (void)numbers;
    (void)channel;
    copy_elements(to, from, count);
}

LAYER(copy_region, make_rows, copy_cell)

LAYER(copy_share, share_places, copy_cell)

/* What windows make of a share of the channels, which their input has apart. */
static void share_windows(const run *r, const layer *l, range rows, range columns, window_kernel make)
{
    const sliced *p = l->parameters;
    range share = share_at(r, p);
    view in = input_view(r, l, 0);
    each_window(r, l, rows, columns, p->of, share, share_within(&in, p, share), make);
}
