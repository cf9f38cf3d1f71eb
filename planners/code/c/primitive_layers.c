/* The largest or the mean under each window. ends: padding below and on the right; is_padded:
   whether it counts in the mean. */
typedef struct {
    windows at;
    int32_t is_largest;
    int32_t is_padded;
    int32_t ends[2];
} pooling_numbers;

/* The number of taps along an axis that an average includes at a place. */
static int32_t taps_counted(const pooling_numbers *n, int32_t axis, int32_t place, int32_t length)
{
    int32_t tap;
    int32_t found = 0;
    int32_t low = n->is_padded ? -n->at.padding[axis] : 0;
    int32_t high = length + (n->is_padded ? n->ends[axis] : 0);
    for (tap = 0; tap < n->at.taps[axis]; tap++) {
        int32_t at = place * n->at.stride[axis] + tap * n->at.dilation[axis] - n->at.padding[axis];
        found += at >= low && at < high;
    }
    return found;
}

/* The maximum or average of a window of a map. */
static element pooled(const work *w, const element *from, int32_t y, int32_t x)
{
    const pooling_numbers *n = w->numbers;
    const map *in = w->inputs;
    element found = n->is_largest ? LEAST : 0;
    int32_t i;
    int32_t j;
    for (i = 0; i < n->at.taps[0]; i++) {
        int32_t row = row_under(&n->at, y, i, in->height);
        for (j = 0; row >= 0 && j < n->at.taps[1]; j++) {
            int32_t column = x * n->at.stride[1] + shift_of(&n->at, j);
            if (column >= 0 && column < in->width) {
                element value = from[row * in->row + column * in->column];
                found = n->is_largest ? (value > found ? value : found) : found + value;
            }
        }
    }
    return found;
}

static void pool_map(const work *w, element *arena)
{
    const pooling_numbers *n = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t c;
    int32_t y;
    int32_t x;
    for (y = 0; y < out->height; y++) {
        int32_t down = n->is_largest ? 1 : taps_counted(n, 0, y, in->height);
        for (x = 0; x < out->width; x++) {
            int32_t across = n->is_largest ? 1 : taps_counted(n, 1, x, in->width);
            element *to = arena + out->offset + y * out->row + x * out->column;
            for (c = 0; c < out->channels; c++) {
                to[c * out->channel] = pooled(w, arena + in->offset + c * in->channel, y, x) /
                                       (element)larger(1, down * across);
            }
        }
    }
}

/* The largest or the mean of each map. */
typedef struct {
    int32_t is_largest;
} folding;

static void fold_maps(const work *w, element *arena)
{
    const folding *f = w->numbers;
    const map *in = w->inputs;
    const map *out = &w->output;
    int32_t c;
    int32_t p;
    int32_t places = in->height * in->width;
    for (c = 0; c < in->channels; c++) {
        const element *from = arena + in->offset + c * in->channel;
        element found = from[0];
        for (p = 1; p < places; p++) {
            element value = from[p * in->column];
            found = f->is_largest ? (value > found ? value : found) : found + value;
        }
        arena[out->offset + c * out->channel] = f->is_largest ? found : found / (element)places;
    }
}

/* Concatenation along channels (0), rows (1) or columns (2). */
typedef struct {
    int32_t axis;
} joining_numbers;

static void join(const work *w, element *arena)
{
    const joining_numbers *j = w->numbers;
    const map *out = &w->output;
    int32_t number;
    int32_t c;
    int32_t y;
    int32_t x;
    int32_t to = out->offset;
    for (number = 0; number < w->input_count; number++) {
        const map *in = &w->inputs[number];
        for (c = 0; c < in->channels; c++) {
            for (y = 0; y < in->height; y++) {
                for (x = 0; x < in->width; x++) {
                    arena[to + c * out->channel + y * out->row + x * out->column] =
                        arena[in->offset + c * in->channel + y * in->row + x * in->column];
                }
            }
        }
        to += j->axis == 0   ? in->channels * out->channel
              : j->axis == 1 ? in->height * out->row
                             : in->width * out->column;
    }
}

/* An elementwise function of two inputs. is_flat: whether both have the shape and the layout of the
   output. */
typedef struct {
    element (*of)(element, element);
    int32_t is_flat;
} pairing;

static void combine_flat(const work *w, element *arena)
{
    const pairing *p = w->numbers;
    const map *out = &w->output;
    int32_t number;
    int32_t i;
    int32_t count = out->channels * out->height * out->width;
    element *to = arena + out->offset;
    const element *from = arena + w->inputs->offset;
    for (number = 1; number < w->input_count; number++) {
        const element *other = arena + w->inputs[number].offset;
        for (i = 0; i < count; i++) {
            to[i] = p->of(from[i], other[i]);
        }
        from = to;
    }
}

/* An element of an input for a place of the output; an input of one channel, row or column is
   repeated. */
static element spread(const element *arena, const map *m, int32_t c, int32_t y, int32_t x)
{
    return arena[m->offset + (m->channels == 1 ? 0 : c) * m->channel +
                 (m->height == 1 ? 0 : y) * m->row + (m->width == 1 ? 0 : x) * m->column];
}

static void combine_maps(const work *w, element *arena)
{
    const pairing *p = w->numbers;
    const map *out = &w->output;
    int32_t number;
    int32_t c;
    int32_t y;
    int32_t x;
    if (p->is_flat) {
        combine_flat(w, arena);
        return;
    }
    for (c = 0; c < out->channels; c++) {
        for (y = 0; y < out->height; y++) {
            for (x = 0; x < out->width; x++) {
                element found = spread(arena, &w->inputs[0], c, y, x);
                for (number = 1; number < w->input_count; number++) {
                    found = p->of(found, spread(arena, &w->inputs[number], c, y, x));
                }
                arena[out->offset + c * out->channel + y * out->row + x * out->column] = found;
            }
        }
    }
}

/* A fully connected layer, unit by unit; weights have the layout of the input. */
typedef struct {
    int32_t inputs;
    const element *weights;
} product_numbers;

static void multiply_vector(const work *w, element *arena)
{
    const product_numbers *m = w->numbers;
    const element *from = arena + w->inputs->offset;
    const element *weights = m->weights;
    element *to = arena + w->output.offset;
    int32_t unit;
    int32_t i;
    for (unit = 0; unit < w->output.channels; unit++) {
        element sums[4] = {0};
        for (i = 0; i + 4 <= m->inputs; i += 4) {
            sums[0] += weights[i] * from[i];
            sums[1] += weights[i + 1] * from[i + 1];
            sums[2] += weights[i + 2] * from[i + 2];
            sums[3] += weights[i + 3] * from[i + 3];
        }
        for (; i < m->inputs; i++) {
            sums[0] += weights[i] * from[i];
        }
        to[unit] = sums[0] + sums[1] + (sums[2] + sums[3]);
        weights += m->inputs;
    }
}

static void softmax_vector(const work *w, element *arena)
{
    const element *from = arena + w->inputs->offset;
    element *to = arena + w->output.offset;
    element most = LEAST;
    element sum = 0;
    int32_t i;
    int32_t count = w->output.channels;
    for (i = 0; i < count; i++) {
        most = from[i] > most ? from[i] : most;
    }
    for (i = 0; i < count; i++) {
        to[i] = expf(from[i] - most);
        sum += to[i];
    }
    for (i = 0; i < count; i++) {
        to[i] /= sum;
    }
}

static void copy_flat(const work *w, element *arena)
{
    const map *m = &w->output;
    memmove(arena + m->offset, arena + w->inputs->offset,
            (size_t)m->channels * (size_t)(m->height * m->width) * sizeof(element));
}
