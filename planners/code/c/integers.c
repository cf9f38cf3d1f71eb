#if WEIGHTS_HAVE_ZEROS
/* What values that met weights as they are stored have added too much, to each of some sums. */
static void take_zeros(total *sums, const element *values, const scaling *s, int32_t count,
                       int32_t filters)
{
    int32_t i;
    total all = 0;
    for (i = 0; s->zero_with && i < count; i++) {
        all += values[i] - s->zero_in;
    }
    for (i = 0; i < filters; i++) {
        sums[i] -= all * s->zero_with;
    }
}
#endif

/* Add to the sums of some filters what lies under a window. */
static void add_window(const convolution *c, const footprint *under, total *sums,
                       const trained *weights, int32_t channel, int32_t filters)
{
    int32_t i, j, taps, inputs = c->group_inputs, width = c->at.taps[1] * inputs;
    int32_t is_dense = under->step == inputs, apart = c->at.taps[0] * width;
    for (i = under->down.first; i < under->down.end; i++) {
        const element *row = under->rows[i] + channel;
        for (j = under->across.first; j < under->across.end; j += taps) {
            const trained *with = weights + i * width + j * inputs;
            const element *values = row + column_under(under, j);
            taps = 1;
            if (is_dense) {
                taps = (j < under->bend ? under->bend : under->across.end) - j;
            }
            add_values(sums, values, c->to.zero_in, with, inputs * taps, filters, apart);
#if WEIGHTS_HAVE_ZEROS
            take_zeros(sums, values, &c->to, inputs * taps, filters);
#endif
        }
    }
}

static void copy_few(element *to, const element *from, int32_t count)
{
#if defined(HELIUM)
    if (sizeof *to == 1) {
        mve_pred16_t inside = vctp8q((uint32_t)count);
        vstrbq_p_s8((int8_t *)(void *)to, vldrbq_z_s8((const int8_t *)(const void *)from, inside),
                    inside);
        return;
    }
#endif
    for (; count >= 4; count -= 4) {
        memcpy(to, from, 4 * sizeof *to);
        to += 4;
        from += 4;
    }
    for (; count > 0; count--) {
        *to++ = *from++;
    }
}

/* Windows of few channels and several rows are gathered once for all filters, with zero points where
   nothing lies under them. */
static int32_t has_patch(const convolution *c)
{
    int32_t width = c->at.taps[1] * c->group_inputs;
    return MOST_PATCH && c->groups == 1 && c->at.taps[0] > 1 && width < FEW &&
           c->at.taps[0] * width <= MOST_PATCH;
}

static void fill_patch(const convolution *c, const footprint *under, element *to)
{
    int32_t i, j, taps, inputs = c->group_inputs, width = c->at.taps[1] * inputs;
    int32_t is_dense = under->step == inputs, rows = c->at.taps[0];
    if (under->down.end - under->down.first < rows ||
        under->across.end - under->across.first < c->at.taps[1]) {
        memset(to, c->to.zero_in, (size_t)(rows * width) * sizeof *to);
    }
    for (i = under->down.first; i < under->down.end; i++) {
        for (j = under->across.first; j < under->across.end; j += taps) {
            taps = 1;
            if (is_dense) {
                taps = (j < under->bend ? under->bend : under->across.end) - j;
            }
            copy_few(to + i * width + j * inputs, under->rows[i] + column_under(under, j),
                     taps * inputs);
        }
    }
}

static void convolve_place(const void *numbers, const footprint *under, element *to,
                           range channels)
{
    const convolution *c = numbers;
    int32_t of_filter = c->at.taps[0] * c->at.taps[1] * c->group_inputs, filters;
    int32_t first = channels.first, group = first / c->group_filters, is_patched = has_patch(c);
    const trained *weights = c->weights + first * of_filter;
    element patch[MOST_PATCH + 1];
    total sums[BLOCK];
    if (is_patched) {
        fill_patch(c, under, patch);
    }
    for (; first < channels.end; first += filters) {
        int32_t end = (group + 1) * c->group_filters;
        filters = smaller(smaller(channels.end, end) - first, BLOCK);
        begin_sums(sums, c->to.bias, first, filters);
        if (is_patched) {
            add_values(sums, patch, c->to.zero_in, weights, of_filter, filters, of_filter);
#if WEIGHTS_HAVE_ZEROS
            take_zeros(sums, patch, &c->to, of_filter, filters);
#endif
        } else {
            add_window(c, under, sums, weights, group * c->group_inputs, filters);
        }
        store_sums(to, sums, &c->to, first, filters);
        weights += of_filter * filters;
        to += filters;
        group += first + filters == end;
    }
}

LAYER(convolve, all_windows, convolve_place)

#if WEIGHTS_HAVE_ZEROS
static void take_lane_zeros(total *sums, const convolution *c, const footprint *under, int32_t from,
                            int32_t lanes)
{
    int32_t i, j, k;
    for (i = under->down.first; c->to.zero_with && i < under->down.end; i++) {
        for (j = under->across.first; j < under->across.end; j++) {
            for (k = 0; k < lanes; k++) {
                take_zeros(sums + k, under->rows[i] + column_under(under, j) + from + k, &c->to, 1, 1);
            }
        }
    }
}
#endif

static void depthwise_place(const void *numbers, const footprint *under, element *to,
                            range channels)
{
    const convolution *c = numbers;
    int32_t from, count = channels.end - channels.first;
    total sums[LANES];
    for (from = 0; from < count; from += LANES) {
        int32_t first = channels.first + from, lanes = smaller(LANES, count - from);
        begin_sums(sums, c->to.bias, first, lanes);
        if (lanes == LANES) {
            add_eight_lanes(c, under, from, first, sums);
        } else {
            add_few_lanes(c, under, from, first, lanes, sums);
        }
#if WEIGHTS_HAVE_ZEROS
        take_lane_zeros(sums, c, under, from, lanes);
#endif
        store_sums(to + from, sums, &c->to, first, lanes);
    }
}

LAYER(depthwise_conv, all_windows, depthwise_place)

static element mean_of(int32_t sum, int32_t count)
{
    return (element)((sum > 0 ? sum + count / 2 : sum - count / 2) / count);
}

static void mean_under(const void *numbers, const footprint *under, element *to, range channels)
{
    int32_t i, j, k, count = counted(numbers, under);
    for (k = 0; k < channels.end - channels.first; k++) {
        int32_t sum = 0;
        for (i = under->down.first; i < under->down.end; i++) {
            for (j = under->across.first; j < under->across.end; j++) {
                sum += under->rows[i][column_under(under, j) + k];
            }
        }
        to[k] = mean_of(sum, count);
    }
}

LAYER(average_pool, all_windows, mean_under)

/* weights: unit by unit, place by place of the input as it lies. */
typedef struct {
    int32_t units;
    const trained *weights;
    scaling to;
} matrix;

static void fully_connected(const run *r, const layer *l, range rows, range columns)
{
    const matrix *m = l->parameters;
    view in = input_view(r, l, 0), out = output_view(r, l);
    element *place = row_at(&out, 0);
    const trained *weights = m->weights;
    int32_t done, block, y, count = row_elements(&in), height = l->inputs[0].source->height;
    total sums[BLOCK];
    (void)rows;
    (void)columns;
    for (done = 0; done < m->units; done += block) {
        block = smaller(BLOCK, m->units - done);
        begin_sums(sums, m->to.bias, done, block);
        for (y = 0; y < height; y++) {
            add_values(sums, row_at(&in, y), m->to.zero_in, weights + y * count, count, block,
                       height * count);
#if WEIGHTS_HAVE_ZEROS
            take_zeros(sums, row_at(&in, y), &m->to, count, block);
#endif
        }
        weights += height * count * block;
        store_sums(place + done, sums, &m->to, done, block);
    }
    finish(l, place, m->units, 0, 0);
}

/* Add a row of the input; weights: row by row, unit by unit, value by value. */
static void sum_fully(const run *r, const layer *l, range rows, range columns)
{
    const matrix *m = l->parameters;
    view in = input_view(r, l, 0), out = output_view(r, l);
    element *kept = r->arena + r->stage->sums, *place = row_at(&out, 0);
    const element *row = row_at(&in, rows.first);
    int32_t done, block, i, count = row_elements(&in), is_last = r->firing + 1 == r->stage->firings;
    const trained *weights = m->weights + rows.first * count * m->units;
    (void)columns;
    for (done = 0; done < m->units; done += block) {
        total sums[BLOCK];
        block = smaller(BLOCK, m->units - done);
        begin_sums(sums, m->to.bias, done, block);
        for (i = 0; r->firing && i < block; i++) {
            sums[i] = load(kept, done + i);
        }
        add_values(sums, row, m->to.zero_in, weights, count, block, count);
#if WEIGHTS_HAVE_ZEROS
        take_zeros(sums, row, &m->to, count, block);
#endif
        weights += count * block;
        for (i = 0; !is_last && i < block; i++) {
            store(kept, done + i, (int32_t)sums[i]);
        }
        if (is_last) {
            store_sums(place + done, sums, &m->to, done, block);
        }
    }
    if (is_last) {
        finish(l, place, m->units, 0, 0);
    }
}

/* Sums of each feature map, of places before some row and column. */
enum { SUM_MEAN, SUM_AVERAGE, SUM_LARGEST };

typedef struct {
    int32_t rows, columns, kind;
    averaging to;
} summing;

static int32_t summed(const summing *s, int32_t sum, int32_t value)
{
    return s->kind == SUM_LARGEST ? larger(sum, value) : sum + value;
}

static element sum_as_stored(const summing *s, int32_t sum)
{
    if (s->kind == SUM_MEAN) {
        return mean_of(sum, s->to.count);
    }
    return s->kind == SUM_LARGEST ? (element)sum : average_of(sum, &s->to);
}

static void sum_row(const run *r, const layer *l, range rows, range columns)
{
    const summing *s = l->parameters;
    view in = input_view(r, l, 0), out = output_view(r, l);
    element *sums = r->arena + r->stage->sums;
    const element *row = row_at(&in, rows.first);
    int32_t i, x;
    (void)columns;
    for (i = 0; i < in.channels; i++) {
        int32_t sum = r->firing ? load(sums, i) : s->kind == SUM_LARGEST ? LEAST : 0;
        for (x = 0; x < s->columns; x++) {
            sum = summed(s, sum, row[x * in.place + i]);
        }
        store(sums, i, sum);
    }
    if (r->firing + 1 == r->stage->firings) {
        element *place = row_at(&out, 0);
        for (i = 0; i < in.channels; i++) {
            place[i] = sum_as_stored(s, load(sums, i));
        }
        finish(l, place, in.channels, 0, 0);
    }
}

/* A convolution whose feature maps are summed up block by block as they are made. */
static void sum_block(const run *r, const layer *l, const trained *weights, int32_t group,
                      int32_t first, int32_t block, int32_t *sums)
{
    const layer *maps = r->stage->layers;
    const convolution *c = maps->parameters;
    const summing *s = l->parameters;
    view in = input_view(r, maps, 0);
    footprint under;
    int32_t y, x, i;
    under.height = maps->inputs[0].source->height;
    under.width = in.width;
    for (y = 0; y < s->rows; y++) {
        look_down(&under, &c->at, &in, y);
        for (x = 0; x < s->columns; x++) {
            total found[BLOCK];
            element made[BLOCK];
            look_across(&under, &c->at, &in, x, 0);
            begin_sums(found, c->to.bias, first, block);
            add_window(c, &under, found, weights, group * c->group_inputs, block);
            store_sums(made, found, &c->to, first, block);
            finish(maps, made, block, first, x);
            for (i = 0; i < block; i++) {
                sums[i] = summed(s, sums[i], made[i]);
            }
        }
    }
}

static void sum_channels(const run *r, const layer *l, range rows, range columns)
{
    const convolution *c = r->stage->layers[0].parameters;
    const summing *s = l->parameters;
    view out = output_view(r, l);
    element *place = row_at(&out, 0);
    const trained *weights = c->weights;
    int32_t group, done, i, first = 0;
    (void)rows;
    (void)columns;
    for (group = 0; group < c->groups; group++) {
        for (done = 0; done < c->group_filters; done += BLOCK) {
            int32_t block = smaller(BLOCK, c->group_filters - done), sums[BLOCK];
            for (i = 0; i < block; i++) {
                sums[i] = s->kind == SUM_LARGEST ? LEAST : 0;
            }
            sum_block(r, l, weights, group, first, block, sums);
            for (i = 0; i < block; i++) {
                place[first + i] = sum_as_stored(s, sums[i]);
            }
            weights += c->at.taps[0] * c->at.taps[1] * c->group_inputs * block;
            first += block;
        }
    }
    finish(l, place, first, 0, 0);
}

/* Two operands with a zero point each, and multipliers and exponents: of both and of the result for
   sums, where `sign` is that of the second operand; of the result for products. */
typedef struct {
    operand each[2];
    int32_t zero[2], zero_out, sign;
    int32_t multiplier[3], exponent[3];
} combining;

static int32_t added(const combining *p, int32_t one, int32_t other)
{
    one = rescaled(one * SUM_STEPS, p->multiplier[0], p->exponent[0]);
    other = rescaled(other * SUM_STEPS, p->multiplier[1], p->exponent[1]);
    return rescaled(one + p->sign * other, p->multiplier[2], p->exponent[2]);
}

static int32_t multiplied(const combining *p, int32_t one, int32_t other)
{
    return rescaled(one * other, p->multiplier[2], p->exponent[2]);
}

static void combine(const run *r, const layer *l, range rows, range columns,
                    int32_t (*of)(const combining *, int32_t, int32_t))
{
    const combining *p = l->parameters;
    view out = output_view(r, l), in[2];
    int32_t y, x, c;
    for (c = 0; c < 2; c++) {
        in[c] = p->each[c].values ? out : input_view(r, l, p->each[c].input);
    }
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            const element *one = operand_at(&p->each[0], &in[0], y, x);
            const element *other = operand_at(&p->each[1], &in[1], y, x);
            for (c = 0; c < out.channels; c++) {
                to[c] = stored(of(p, one[c * p->each[0].channel] - p->zero[0],
                                  other[c * p->each[1].channel] - p->zero[1]) +
                               p->zero_out);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

LAYER(add_tensors, combine, added)

LAYER(multiply_tensors, combine, multiplied)

typedef struct {
    cube axes; /* first, as for all functions over axes */
    averaging to;
} mean_over;

static void average_fold(const cube *c, const view *in, const view *out, const int32_t *place,
                         range rows)
{
    const mean_over *m = (const mean_over *)(const void *)c;
    int32_t inner[3], sum = 0;
    (void)rows;
    begin_fold(c, place, inner);
    do {
        sum += *from_cell(c, in, inner);
    } while (next_inside(c, inner));
    *to_cell(c, out, place) = average_of(sum, &m->to);
}

LAYER(average, for_each_fold, average_fold)

/* e ** x for x <= 0 with 5 bits before the point, as a fraction of 2 ** 31. */
static int32_t exponential(int32_t value)
{
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308,
                                       39332535,   720401,     242};
    int32_t below = (value & 16777215) - 16777216, x = below * 32 + 268435456;
    int32_t x2 = high_product(x, x), x3 = high_product(x2, x), x4 = high_product(x2, x2);
    int32_t third = high_product(divided_by_power(x4, 2) + x3, 715827883);
    int32_t found = 1895147668 + high_product(1895147668, x + divided_by_power(third + x2, 1));
    int32_t bit, rest = below - value;
    if (value == 0) {
        return INT32_MAX;
    }
    for (bit = 0; bit < 7; bit++) {
        if (rest & (INT32_C(1) << (24 + bit))) {
            found = high_product(found, factors[bit]);
        }
    }
    return found;
}

static int32_t saturated(int64_t value)
{
    return (int32_t)(value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value);
}

/* 1 / (1 + x) for 0 <= x <= 1, both as fractions of 2 ** 31, in three Newton steps. */
static int32_t reciprocal_of_one_plus(int32_t value)
{
    int32_t half = (int32_t)(((int64_t)value + INT64_C(2147483648)) / 2), step;
    int32_t found = 1515870810 + high_product(half, -1010580540);
    for (step = 0; step < 3; step++) {
        int32_t error = 536870912 - high_product(half, found);
        found += saturated((int64_t)high_product(found, error) * 4);
    }
    return saturated((int64_t)found * 2);
}

typedef struct {
    cube axes; /* first, as for all functions over axes */
    int32_t multiplier, exponent, least;
} softmax_over;

static int32_t power_of(const softmax_over *s, int32_t beyond)
{
    return exponential(high_product(beyond * (INT32_C(1) << s->exponent), s->multiplier));
}

static void softmax_fold(const cube *c, const view *in, const view *out, const int32_t *place,
                         range rows)
{
    const softmax_over *s = (const softmax_over *)(const void *)c;
    int32_t inner[3], most, sum = 0, lead = 0, share;
    begin_fold(c, place, inner);
    most = largest_inside(c, in, inner);
    do {
        int32_t beyond = *from_cell(c, in, inner) - most;
        sum += beyond < s->least ? 0 : divided_by_power(power_of(s, beyond), 12);
    } while (next_inside(c, inner));
    while (!((uint32_t)sum << lead & UINT32_C(2147483648))) {
        lead++;
    }
    share = reciprocal_of_one_plus((int32_t)(((uint32_t)sum << lead) - UINT32_C(2147483648)));
    do {
        int32_t beyond = *from_cell(c, in, inner) - most, found = -128;
        if (beyond >= s->least) {
            found += divided_by_power(high_product(share, power_of(s, beyond)), 12 - lead + 23);
        }
        if (is_wanted(rows, inner)) {
            *to_cell(c, out, inner) = stored(found);
        }
    } while (next_inside(c, inner));
}

LAYER(softmax, for_each_fold, softmax_fold)

/* The same numbers in other steps, or as single-precision numbers, or from these. */
typedef struct {
    int32_t multiplier, exponent, zero_in, zero_out;
    float scale;
} converting;

static void rescale_cell(const void *numbers, const element *from, element *to, int32_t count,
                         int32_t channel)
{
    const converting *p = numbers;
    int32_t c;
    (void)channel;
    for (c = 0; c < count; c++) {
        int32_t value = rescaled(from[c] - p->zero_in, p->multiplier, p->exponent);
        to[c] = stored(value + p->zero_out);
    }
}

LAYER(rescale_region, make_places, rescale_cell)

/* What each of the 256 integers becomes. */
typedef struct {
    const element *values;
} table;

static void look_up_cell(const void *numbers, const element *from, element *to, int32_t count,
                         int32_t channel)
{
    const table *t = numbers;
    int32_t c;
    (void)channel;
    for (c = 0; c < count; c++) {
        to[c] = t->values[from[c] + 128];
    }
}

LAYER(look_up_region, make_places, look_up_cell)

/* Integers below zero times a slope of their channel. */
typedef struct {
    const trained *slopes;
    int32_t multiplier, exponent, below_multiplier, below_exponent;
    int32_t zero_in, zero_slope, zero_out;
} sloping;

static void slope_cell(const void *numbers, const element *from, element *to, int32_t count,
                       int32_t channel)
{
    const sloping *s = numbers;
    int32_t c;
    for (c = 0; c < count; c++) {
        int32_t value = from[c] - s->zero_in, found;
        if (value >= 0) {
            found = rescaled(value, s->multiplier, s->exponent);
        } else {
            found = rescaled(value * (s->slopes[channel + c] - s->zero_slope), s->below_multiplier,
                             s->below_exponent);
        }
        to[c] = stored(found + s->zero_out);
    }
}

LAYER(slope_region, make_places, slope_cell)

/* Single-precision numbers take several elements each. */
static void quantize_region(const run *r, const layer *l, range rows, range columns)
{
    const converting *p = l->parameters;
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, c;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row_at(&in, y) + column_at(&in, x);
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                float value = roundf(real_at(from, c) / p->scale) + (float)p->zero_out;
                to[c] = (element)(value < LEAST ? LEAST : value > MOST ? MOST : value);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Before what is fused behind, which is for real numbers. */
static void dequantize_region(const run *r, const layer *l, range rows, range columns)
{
    const converting *p = l->parameters;
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, c;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row_at(&in, y) + column_at(&in, x);
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < in.channels; c++) {
                store_real(to, c, (float)((double)p->scale * (from[c] - p->zero_in)));
            }
        }
    }
}

/* Keep elements within limits: a, b. */
static void step_limits(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        v[i] = v[i] < s->a ? s->a : v[i] > s->b ? s->b : v[i];
    }
}
