/* A layer that is computed in blocks of channels: a block of its output channels at a time, or partial
   sums over a block of its input channels. channels: that are divided; parts: number of blocks;
   adds_up: the layer of the stage that accumulates; of: the parameters of the layer. */
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

/* First channel of a block in an input: of the whole tensor, or of a strip with that block only. */
static int32_t share_within(const view *in, const sliced *p, range share)
{
    return (in->channels > p->share) ? share.first : 0;
}

/* Compute all columns for each block of channels; the last block also finishes the result. */
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

/* Compute each element from the input element at the same position, in runs of up to `most` pixels. A
   real number among integers has several channels. */
static void make_runs(const view *in, const view *out, const void *numbers, range rows, range columns,
                      pixel_function make, int32_t most)
{
    int32_t y;
    int32_t x;
    int32_t channels = smaller(in->channels, out->channels);
    int32_t at_once = smaller(columns_at_once(in, columns), columns_at_once(out, columns));
    at_once = smaller(at_once, most);
    for (y = rows.first; y < rows.end; y++) {
        const element *from = row_at(in, y);
        element *to = row_at(out, y);
        for (x = columns.first; x < columns.end; x += at_once) {
            make(numbers, &from[column_at(in, x)], &to[column_at(out, x)], at_once * channels, 0);
        }
    }
}

static void make_region(const run *r, const layer *l, range rows, range columns, pixel_function make,
                        int32_t most)
{
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    make_runs(&in, &out, l->parameters, rows, columns, make, most);
    finish_region(l, &out, rows, columns);
}

/* As make_rows, without the fused functions, which compute in real numbers. */
static void make_reals(const run *r, const layer *l, range rows, range columns, pixel_function make)
{
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    make_runs(&in, &out, l->parameters, rows, columns, make, INT32_MAX);
}

/* For functions with parameters for each channel. */
static void make_places(const run *r, const layer *l, range rows, range columns, pixel_function make)
{
    make_region(r, l, rows, columns, make, 1);
}

/* For functions that are equal in all channels. */
static void make_rows(const run *r, const layer *l, range rows, range columns, pixel_function make)
{
    make_region(r, l, rows, columns, make, INT32_MAX);
}

/* For a block of channels. */
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

/* Compute a block of channels of a window operator. */
static void share_windows(const run *r, const layer *l, range rows, range columns, window_kernel make)
{
    const sliced *p = l->parameters;
    range share = share_at(r, p);
    view in = input_view(r, l, 0);
    each_window(r, l, rows, columns, p->of, share, share_within(&in, p, share), make);
}
