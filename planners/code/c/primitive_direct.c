/* A convolution: the sizes of its windows, down and across, and its weights as a primitive wants
   them. padding: at the top and on the left. */
typedef struct {
    int32_t taps[2];
    int32_t stride[2];
    int32_t dilation[2];
    int32_t padding[2];
    int32_t groups;
    const element *weights;
} windows;

/* The row of the input under row i of the kernel, or -1 beyond the map. */
static int32_t row_under(const windows *c, int32_t y, int32_t i, int32_t height)
{
    int32_t row = y * c->stride[0] + i * c->dilation[0] - c->padding[0];
    return row < height ? larger(row, -1) : -1;
}

/* Offset of column j of the kernel from the place of a window. */
static int32_t shift_of(const windows *c, int32_t j)
{
    return j * c->dilation[1] - c->padding[1];
}

/* The columns of the output whose windows have column j of the kernel on the map. */
static range columns_on_map(const windows *c, int32_t j, int32_t width, int32_t columns)
{
    range found;
    found.first = smaller(columns, larger(0, -floor_quotient(shift_of(c, j), c->stride[1])));
    found.end = smaller(columns, floor_quotient(width - 1 - shift_of(c, j), c->stride[1]) + 1);
    found.end = larger(found.first, found.end);
    return found;
}

static void fill_zero(element *to, int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        to[i] = 0;
    }
}

static void add_scaled(element *to, const element *from, element factor, int32_t count,
                       int32_t apart)
{
    int32_t i;
    if (apart == 1) {
        for (i = 0; i < count; i++) {
            to[i] += factor * from[i];
        }
        return;
    }
    for (i = 0; i < count; i++) {
        to[i] += factor * from[i * apart];
    }
}

/* Add the products of one weight and an input row to a row of the output. */
static void add_weight(const windows *c, element weight, int32_t j, const element *row,
                       const map *in, element *to, int32_t columns)
{
    range on = columns_on_map(c, j, in->width, columns);
    int32_t from = on.first * c->stride[1] + shift_of(c, j);
    if (on.first < on.end) {
        add_scaled(to + on.first, row + from * in->column, weight, on.end - on.first,
                   c->stride[1] * in->column);
    }
}

/* The input channels and weights of a filter. */
static int32_t filter_depth(const windows *c, const map *in)
{
    return in->channels / c->groups;
}

static int32_t filter_channel(const windows *c, const map *in, const map *out, int32_t f)
{
    return f / (out->channels / c->groups) * filter_depth(c, in);
}

/* Sum over input maps, one output map at a time. */
static void direct_map_by_map(const work *w, element *arena)
{
    const windows *c = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    const element *weight = c->weights;
    int32_t f;
    int32_t channel;
    int32_t i;
    int32_t j;
    int32_t y;
    int32_t depth = filter_depth(c, in);
    for (f = 0; f < out->channels; f++) {
        element *to = arena + out->offset + f * out->channel;
        int32_t first = filter_channel(c, in, out, f);
        fill_zero(to, out->height * out->width);
        for (channel = first; channel < first + depth; channel++) {
            const element *from = arena + in->offset + channel * in->channel;
            for (i = 0; i < c->taps[0]; i++) {
                for (j = 0; j < c->taps[1]; j++, weight++) {
                    for (y = 0; y < out->height; y++) {
                        int32_t row = row_under(c, y, i, in->height);
                        if (row >= 0) {
                            add_weight(c, *weight, j, from + row * in->row, in,
                                       to + y * out->row, out->width);
                        }
                    }
                }
            }
        }
    }
}

static void finish_row(const work *w, element *arena, int32_t f, int32_t y)
{
    const windows *c = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t channel;
    int32_t i;
    int32_t j;
    int32_t depth = filter_depth(c, in);
    const element *weight = c->weights + f * depth * c->taps[0] * c->taps[1];
    const element *from = arena + in->offset + filter_channel(c, in, out, f) * in->channel;
    element *to = arena + out->offset + f * out->channel + y * out->row;
    fill_zero(to, out->width);
    for (channel = 0; channel < depth; channel++) {
        for (i = 0; i < c->taps[0]; i++) {
            int32_t row = row_under(c, y, i, in->height);
            for (j = 0; j < c->taps[1]; j++, weight++) {
                if (row >= 0) {
                    add_weight(c, *weight, j, from + channel * in->channel + row * in->row, in, to,
                               out->width);
                }
            }
        }
    }
}

static void direct_row_by_row(const work *w, element *arena)
{
    int32_t f;
    int32_t y;
    for (f = 0; f < w->output.channels; f++) {
        for (y = 0; y < w->output.height; y++) {
            finish_row(w, arena, f, y);
        }
    }
}

static void direct_rows_of_all_filters(const work *w, element *arena)
{
    int32_t f;
    int32_t y;
    for (y = 0; y < w->output.height; y++) {
        for (f = 0; f < w->output.channels; f++) {
            finish_row(w, arena, f, y);
        }
    }
}

/* Four output maps at a time: each input element is read once for all four. */
static void finish_four_rows(const work *w, element *arena, int32_t f, int32_t y)
{
    const windows *c = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t channel;
    int32_t i;
    int32_t j;
    int32_t x;
    int32_t apart = c->stride[1] * in->column;
    const element *weight = c->weights + f * in->channels * c->taps[0] * c->taps[1];
    element *to = arena + out->offset + f * out->channel + y * out->row;
    element *to1 = to + out->channel;
    element *to2 = to1 + out->channel;
    element *to3 = to2 + out->channel;
    for (x = 0; x < 4; x++) {
        fill_zero(to + x * out->channel, out->width);
    }
    for (channel = 0; channel < in->channels; channel++) {
        for (i = 0; i < c->taps[0]; i++) {
            int32_t row = row_under(c, y, i, in->height);
            for (j = 0; j < c->taps[1]; j++, weight += 4) {
                range on = columns_on_map(c, j, in->width, out->width);
                int32_t from = in->offset + channel * in->channel + row * in->row +
                               shift_of(c, j) * in->column;
                for (x = on.first; row >= 0 && x < on.end; x++) {
                    element value = arena[from + x * apart];
                    to[x] += weight[0] * value;
                    to1[x] += weight[1] * value;
                    to2[x] += weight[2] * value;
                    to3[x] += weight[3] * value;
                }
            }
        }
    }
}

static void direct_four_filters(const work *w, element *arena)
{
    int32_t f;
    int32_t y;
    for (f = 0; f < w->output.channels; f += 4) {
        for (y = 0; y < w->output.height; y++) {
            finish_four_rows(w, arena, f, y);
        }
    }
}

/* Add the products of one tap to all filters of a place. */
static void add_filters(const windows *c, const element *from, const map *in, const element *weights,
                        element *to, int32_t filters)
{
    int32_t channel;
    int32_t each = filters / c->groups;
    int32_t depth = filter_depth(c, in);
    for (channel = 0; channel < in->channels; channel++) {
        add_scaled(to + channel / depth * each, weights + channel * each,
                   from[channel * in->channel], each, 1);
    }
}

/* All filters of four neighbouring places, which read each weight once if all taps are on the map;
   or of one place. */
static void finish_places(const work *w, element *arena, int32_t y, int32_t x, int32_t places)
{
    const windows *c = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t i;
    int32_t j;
    int32_t channel;
    int32_t f;
    int32_t place;
    int32_t apart = c->stride[1] * in->column;
    int32_t filters = out->channels;
    element *to = arena + out->offset + y * out->row + x * out->column;
    fill_zero(to, places * out->column);
    for (i = 0; i < c->taps[0]; i++) {
        int32_t row = row_under(c, y, i, in->height);
        for (j = 0; row >= 0 && j < c->taps[1]; j++) {
            int32_t column = x * c->stride[1] + shift_of(c, j);
            int32_t from = in->offset + row * in->row + column * in->column;
            const element *weight = c->weights + (i * c->taps[1] + j) * in->channels *
                                                     (filters / c->groups);
            if (places == 4 && column >= 0 && column + 3 * c->stride[1] < in->width) {
                for (channel = 0; channel < in->channels; channel++, from += in->channel) {
                    element a = arena[from];
                    element b = arena[from + apart];
                    element d = arena[from + 2 * apart];
                    element e = arena[from + 3 * apart];
                    for (f = 0; f < filters; f++, weight++) {
                        to[f] += a * *weight;
                        to[f + filters] += b * *weight;
                        to[f + 2 * filters] += d * *weight;
                        to[f + 3 * filters] += e * *weight;
                    }
                }
                continue;
            }
            for (place = 0; place < places; place++, column += c->stride[1]) {
                if (column >= 0 && column < in->width) {
                    add_filters(c, arena + from + place * apart, in, weight,
                                to + place * filters, filters);
                }
            }
        }
    }
}

static void direct_place_by_place(const work *w, element *arena)
{
    int32_t y;
    int32_t x;
    for (y = 0; y < w->output.height; y++) {
        for (x = 0; x < w->output.width; x++) {
            finish_places(w, arena, y, x, 1);
        }
    }
}

static void direct_four_places(const work *w, element *arena)
{
    int32_t y;
    int32_t x;
    int32_t places;
    for (y = 0; y < w->output.height; y++) {
        for (x = 0; x < w->output.width; x += places) {
            places = x + 4 <= w->output.width ? 4 : 1;
            finish_places(w, arena, y, x, places);
        }
    }
}

/* Depthwise convolution: all channels of a place, place by place. */
static void direct_depthwise(const work *w, element *arena)
{
    const windows *c = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t y;
    int32_t x;
    int32_t i;
    int32_t j;
    int32_t k;
    for (y = 0; y < out->height; y++) {
        for (x = 0; x < out->width; x++) {
            element *to = arena + out->offset + y * out->row + x * out->column;
            fill_zero(to, out->channels);
            for (i = 0; i < c->taps[0]; i++) {
                int32_t row = row_under(c, y, i, in->height);
                for (j = 0; row >= 0 && j < c->taps[1]; j++) {
                    int32_t column = x * c->stride[1] + shift_of(c, j);
                    int32_t from = in->offset + row * in->row + column * in->column;
                    const element *weight = c->weights + (i * c->taps[1] + j) * out->channels;
                    int32_t count = column >= 0 && column < in->width ? out->channels : 0;
                    for (k = 0; k < count; k++) {
                        to[k] += arena[from + k] * weight[k];
                    }
                }
            }
        }
    }
}
