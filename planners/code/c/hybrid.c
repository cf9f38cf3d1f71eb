/* Products of real numbers with int8 weights. The real numbers are quantised by their own range at
   run time. sums_first: whether sums are multiplied by the scales of the weights before that of the
   numbers. scales: one for all channels, or one for each. */
typedef struct {
    int32_t has_offset;
    int32_t sums_first;
    int32_t by_channel;
    const float *scales;
    const int8_t *weights;
    const element *bias;
} hybrid;

/* Quantisation at run time: limits and zero point. */
typedef struct {
    float low;
    float high;
    float factor;
    float scale;
    int32_t zero;
    int32_t least;
    int32_t most;
} quantizer;

/* A result rounded to single precision: the compiler does not contract it with the next operation. */
static float single_result(float value)
{
    volatile float kept = value;
    return kept;
}

/* The nearest integer within the limits, halves away from zero; the zero point for a NaN. */
static int32_t nearest_away(const quantizer *q, float value)
{
    int32_t chosen = q->zero;
    if ((value > (float)q->least) && (value < (float)q->most)) {
        int32_t whole = (int32_t)value;
        float rest = value - (float)whole;
        chosen = whole + ((rest >= 0.5f) ? 1 : 0) - ((rest <= -0.5f) ? 1 : 0);
    } else if (value >= (float)q->most) {
        chosen = q->most;
    } else if (value <= (float)q->least) {
        chosen = q->least;
    } else {
        /* a NaN */
    }
    return chosen;
}

/* The range begins with zero; a NaN does not extend it. */
static void begin_range(quantizer *q)
{
    q->low = 0;
    q->high = 0;
}

static void extend_range(quantizer *q, const element *values, int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        q->low = (values[i] < q->low) ? values[i] : q->low;
        q->high = (values[i] > q->high) ? values[i] : q->high;
    }
}

#if RANGES_HAVE_OFFSETS
static void range_with_offset(quantizer *q)
{
    double low = q->low;
    double high = q->high;
    double size = (high - low) / 255;
    q->least = -128;
    q->most = 127;
    if (size > 1e38) {
        q->scale = (float)size;
    } else if ((float)size > 0x1p-128f) {
        double below = -128 - (low / size);
        double above = 127 - (high / size);
        double zero = ((128 - (low / size)) < (127 + (high / size))) ? below : above;
        zero += (zero < 0) ? -0.5 : 0.5;
        q->zero = smaller(larger((int32_t)zero, -128), 127);
        q->scale = (float)size;
        q->factor = (float)(1 / (double)q->scale);
    } else {
        /* zeros */
    }
}
#endif

/* Quantise numbers by the range that was measured. Numbers so small that the factor has no finite value
   count as zeros. An infinite number makes the scale infinite, and the sums NaN. */
static void end_range(quantizer *q, const hybrid *h)
{
    float limit = (-q->low > q->high) ? -q->low : q->high;
    q->factor = 0;
    q->scale = 1;
    q->zero = 0;
#if RANGES_HAVE_OFFSETS
    if (h->has_offset != 0) {
        range_with_offset(q);
        return;
    }
#else
    (void)h;
#endif
    q->least = -127;
    q->most = 127;
    if (limit > 0x1.fcp-122f) { /* 127 / 2^128 */
        q->factor = 127 / limit;
        q->scale = limit / 127;
    }
}

static void to_integers(const quantizer *q, int8_t *to, const element *values, int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        float value = single_result(values[i] * q->factor) + (float)q->zero;
        to[i] = (int8_t)nearest_away(q, value);
    }
}

static int32_t sum_of_integers(const quantizer *q, const int8_t *values, const int8_t *weights,
                               int32_t count)
{
    int32_t i;
    int32_t sum = 0;
    for (i = 0; i < count; i++) {
        sum += (values[i] - q->zero) * weights[i];
    }
    return sum;
}

static element real_sum(const hybrid *h, const quantizer *q, int32_t sum, int32_t channel)
{
    float scale = h->scales[(h->by_channel != 0) ? channel : 0];
    float value = (h->sums_first != 0) ? single_result(single_result((float)sum * scale) * q->scale)
                                       : single_result((float)sum * single_result(scale * q->scale));
    return h->bias ? (value + h->bias[channel]) : value;
}

/* weights: filter by filter, tap by tap, input by input. */
typedef struct {
    window at;
    int32_t groups;
    int32_t group_inputs;
    int32_t group_filters;
    hybrid with;
} hybrid_convolution;

/* Quantise the inputs of a group in a window, tap by tap. */
static void gather_integers(const hybrid_convolution *c, const quantizer *q,
                            const receptive_field *field, int32_t number, int8_t *to)
{
    int32_t i;
    int32_t j;
    int32_t inputs = c->group_inputs;
    for (i = field->down.first; i < field->down.end; i++) {
        const element *row = field->rows[i] + (number * inputs);
        for (j = field->across.first; j < field->across.end; j++) {
            to_integers(q, to + (((i * c->at.taps[1]) + j) * inputs), row + column_under(field, j),
                        inputs);
        }
    }
}

static void convolve_hybrid(const run *r, const layer *l, range rows, range columns)
{
    const hybrid_convolution *c = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int8_t *values = (int8_t *)(void *)r->scratch;
    int32_t y;
    int32_t x;
    int32_t g;
    int32_t f;
    int32_t i;
    int32_t of_row = c->at.taps[1] * c->group_inputs;
    receptive_field field;
    quantizer q;
    field.height = l->inputs[0].source->height;
    field.width = in.width;
    begin_range(&q);
    for (y = 0; y < field.height; y++) {
        for (x = 0; x < in.width; x++) {
            extend_range(&q, row_at(&in, y) + column_at(&in, x), in.channels);
        }
    }
    end_range(&q, &c->with);
    for (y = rows.first; y < rows.end; y++) {
        locate_rows(&field, &c->at, &in, y);
        for (x = columns.first; x < columns.end; x++) {
            element *pixel = row_at(&out, y) + column_at(&out, x);
            int32_t begin;
            int32_t length;
            locate_columns(&field, &c->at, &in, x, 0);
            begin = field.across.first * c->group_inputs;
            length = (field.across.end - field.across.first) * c->group_inputs;
            for (g = 0; g < c->groups; g++) {
                gather_integers(c, &q, &field, g, values);
                for (f = g * c->group_filters; f < ((g + 1) * c->group_filters); f++) {
                    const int8_t *weights = c->with.weights + (f * c->at.taps[0] * of_row);
                    int32_t sum = 0;
                    for (i = field.down.first; i < field.down.end; i++) {
                        sum += sum_of_integers(&q, values + (i * of_row) + begin,
                                               weights + (i * of_row) + begin, length);
                    }
                    pixel[f] = real_sum(&c->with, &q, sum, f);
                }
            }
            finish(l, pixel, out.channels, 0, x);
        }
    }
}

/* weights: unit by unit, each in the memory order of the input. */
typedef struct {
    int32_t units;
    hybrid with;
} hybrid_matrix;

static void fully_connected_hybrid(const run *r, const layer *l, range rows, range columns)
{
    const hybrid_matrix *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *pixel = row_at(&out, 0);
    int8_t *values = (int8_t *)(void *)r->scratch;
    int32_t y;
    int32_t i;
    int32_t height = l->inputs[0].source->height;
    int32_t count = row_elements(&in);
    quantizer q;
    (void)rows;
    (void)columns;
    begin_range(&q);
    for (y = 0; y < height; y++) {
        extend_range(&q, row_at(&in, y), count);
    }
    end_range(&q, &m->with);
    for (y = 0; y < height; y++) {
        to_integers(&q, values + (y * count), row_at(&in, y), count);
    }
    count *= height;
    for (i = 0; i < m->units; i++) {
        int32_t sum = sum_of_integers(&q, values, m->with.weights + (i * count), count);
        pixel[i] = real_sum(&m->with, &q, sum, i);
    }
    finish(l, pixel, m->units, 0, 0);
}

/* Multiply each row of the matrices by constant columns, which are contiguous. */
typedef struct {
    axes_of_product axes;
    hybrid with;
} hybrid_product;

static void multiply_hybrid(const run *r, const layer *l, range rows, range columns)
{
    const hybrid_product *h = l->parameters;
    const axes_of_product *p = &h->axes;
    view left = input_view(r, l, 0);
    view out = output_view(r, l);
    int8_t *values = (int8_t *)(void *)r->scratch;
    int32_t first = p->to_is_map ? rows.first : 0;
    int32_t end = p->to_is_map ? rows.end : p->rows;
    int32_t at[3];
    int32_t k;
    for (at[0] = 0; at[0] < p->batches; at[0]++) {
        for (at[1] = first; at[1] < end; at[1]++) {
            quantizer q;
            begin_range(&q);
            for (k = 0; k < p->inner; k++) {
                extend_range(&q, left_cell(p, &left, at, k), 1);
            }
            end_range(&q, &h->with);
            for (k = 0; k < p->inner; k++) {
                to_integers(&q, values + k, left_cell(p, &left, at, k), 1);
            }
            for (at[2] = 0; at[2] < p->columns; at[2]++) {
                int32_t sum = sum_of_integers(&q, values, h->with.weights + (at[2] * p->inner),
                                              p->inner);
                *result_cell(p, &out, at) = real_sum(&h->with, &q, sum, at[2]);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}
