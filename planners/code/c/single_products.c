/* A matrix product of integers, rounded as the runtime rounds the product of real numbers. steps:
   scale of the second operand, for each column or for all. ratios: of the sum to the scale of the
   result. most: largest magnitude of the second operand. block: number of products that are summed
   before they are added to those of earlier columns. */
typedef struct {
    axes_of_product axes; /* first, as for all products */
    const trained *values;
    const int32_t *bias;
    const float *steps;
    const float *ratios;
    int32_t has_many;
    int32_t zero[2];
    int32_t zero_out;
    int32_t most;
    int32_t block;
    float step;
    float scale;
} product_in_single;

static int32_t second_factor(const product_in_single *t, const view *right, const int32_t *at,
                             int32_t k)
{
    if (t->values != NULL) {
        return t->values[(at[2] * t->axes.inner) + k] - t->zero[1];
    }
    return *right_cell(&t->axes, right, at, k) - t->zero[1];
}

/* The sum with all roundings of the runtime: fused multiply-adds of real numbers. */
static float product_in_order(const product_in_single *t, const view *left, const view *right,
                              const int32_t *at)
{
    float found = 0;
    float unit = t->steps[t->has_many ? at[2] : 0];
    int32_t k = 0;
    int32_t first;
    for (first = 0; first < t->axes.inner; first += t->block) {
        float sum = 0;
        for (; k < smaller(t->axes.inner, first + t->block); k++) {
            int32_t value = *left_cell(&t->axes, left, at, k) - t->zero[0];
            sum = fmaf(real_of(value, t->step), real_of(second_factor(t, right, at, k), unit), sum);
        }
        if (first != 0) {
            sum = rounded(found + sum);
        } else if (t->bias != NULL) {
            sum = rounded(sum + real_of(t->bias[at[2]], rounded(t->step * unit)));
        }
        found = sum;
    }
    return found;
}

/* Whether the distance of a sum, in steps of the result, from a half exceeds all rounding errors, so
   that the nearest integer is that of the runtime. size: an upper bound on the sum of magnitudes of
   products. */
static int is_certain(int32_t sum, float size, float ratio, int32_t inner, int32_t *even)
{
    float value = (float)sum * ratio;
    float error = size * ratio * (float)(inner + 16) * 5.9604645e-8f; /* 2 ** -24 */
    *even = nearest_even(value);
    return (fabsf(value - (float)*even) + error) < 0.4999f;
}

/* Integers are summed exactly. Only near a half the rounding order of the runtime matters. */
static void multiply_in_single(const void *numbers, const view *left, const view *right,
                               const view *out, const int32_t *from)
{
    const product_in_single *t = numbers;
    const axes_of_product *p = &t->axes;
    int32_t at[3];
    int32_t k;
    int32_t sizes = 0;
    at[0] = from[0];
    at[1] = from[1];
    for (k = 0; k < p->inner; k++) {
        int32_t value = *left_cell(p, left, from, k) - t->zero[0];
        sizes += (value < 0) ? -value : value;
    }
    for (at[2] = 0; at[2] < p->columns; at[2]++) {
        int32_t sum = t->bias ? t->bias[at[2]] : 0;
        int32_t near;
        float size = ((float)sizes * (float)t->most) + ((sum < 0) ? -(float)sum : (float)sum);
        float ratio = t->ratios[t->has_many ? at[2] : 0];
        for (k = 0; k < p->inner; k++) {
            sum += (*left_cell(p, left, at, k) - t->zero[0]) * second_factor(t, right, at, k);
        }
        if (!is_certain(sum, size, ratio, p->inner, &near)) {
            near = nearest_even(product_in_order(t, left, right, at) / t->scale);
        }
        *result_cell(p, out, at) = stored(near + t->zero_out);
    }
}

LAYER(multiply_as_reals, multiply_rows, multiply_in_single)

typedef struct {
    attending numbers; /* first, as for all attention */
    int32_t zero_out;
    int32_t most;
    int32_t block;
    float steps[2];
    float ratio;
    float scale;
} attending_in_single;

static void store_as_real(const meeting *m, int32_t result, int32_t sum, element *to)
{
    const attending_in_single *a = (const attending_in_single *)(const void *)m->numbers;
    float found = 0;
    int32_t near;
    int32_t first;
    int32_t k = 0;
    if (!is_certain(sum, (float)m->sizes * (float)a->most, a->ratio, m->inner, &near)) {
        for (first = 0; first < m->inner; first += a->block) {
            float part = 0;
            for (; k < smaller(m->inner, first + a->block); k++) {
                part = fmaf(real_of(first_factor(m, k), a->steps[0]),
                            real_of(other_factor(m, result, k), a->steps[1]), part);
            }
            found = first ? rounded(found + part) : part;
        }
        near = nearest_even(found / a->scale);
    }
    *to = stored(near + a->zero_out);
}

LAYER(attend_as_reals, attend, store_as_real)

/* A convolution that is a matrix product in the file. steps: scales of the weights of each filter;
   `step` of all without them. */
typedef struct {
    convolution of; /* first: parts of channels see it alone */
    const float *steps;
    int32_t most;
    int32_t block;
    float given;
    float step;
    float scale;
} product_convolution;

static int32_t value_under(const convolution *c, const receptive_field *field, int32_t k)
{
    const element *row = field->rows[field->down.first];
    return row[column_under(field, k / c->group_inputs) + (k % c->group_inputs)] - c->to.zero_in;
}

static float filter_in_order(const product_convolution *p, const receptive_field *field, int32_t filter)
{
    int32_t inner = p->of.at.taps[1] * p->of.group_inputs;
    int32_t k = 0;
    int32_t first;
    const trained *weights = p->of.weights + (filter * inner);
    float found = 0;
    float unit = p->steps ? p->steps[filter] : p->step;
    for (first = 0; first < inner; first += p->block) {
        float sum = 0;
        for (; k < smaller(inner, first + p->block); k++) {
            int32_t with = weights[k];
#if WEIGHTS_HAVE_ZEROS
            with -= p->of.to.zero_with;
#endif
            sum = fmaf(real_of(value_under(&p->of, field, k), p->given), real_of(with, unit), sum);
        }
        if (first != 0) {
            sum = rounded(found + sum);
        } else if (p->of.to.bias != NULL) {
            sum = rounded(sum + real_of(p->of.to.bias[filter], rounded(p->given * unit)));
        }
        found = sum;
    }
    return found;
}

static void product_pixel(const void *numbers, const receptive_field *field, element *to,
                          range channels)
{
    const product_convolution *p = numbers;
    const scaling *s = &p->of.to;
    int32_t inner = p->of.at.taps[1] * p->of.group_inputs;
    int32_t sizes = 0;
    int32_t i;
    int32_t k;
    int32_t count;
    for (k = 0; k < inner; k++) {
        int32_t value = value_under(&p->of, field, k);
        sizes += (value < 0) ? -value : value;
    }
    for (; channels.first < channels.end; channels.first += count) {
        total sums[BLOCK];
        count = smaller(channels.end - channels.first, BLOCK);
        begin_sums(sums, s->bias, channels.first, count);
        add_window(&p->of, field, sums, p->of.weights + (channels.first * inner), 0, count);
        for (i = 0; i < count; i++) {
            int32_t filter = channels.first + i;
            int32_t near;
            float bias = s->bias ? fabsf((float)s->bias[filter]) : 0;
            float size = ((float)sizes * (float)p->most) + bias;
            if (!is_certain(sums[i], size, s->factors[filter], inner, &near)) {
                near = nearest_even(filter_in_order(p, field, filter) / p->scale);
            }
            near += s->zero_out;
            *to++ = (element)((near < s->least) ? s->least : (near > s->most) ? s->most : near);
        }
    }
}

LAYER(convolve_as_reals, each_window_all_channels, product_pixel)

LAYER(convolve_as_reals_share, share_windows, product_pixel)

/* Normalisation to mean zero and variance one along some axes, then scale and shift. */
typedef struct {
    cube axes; /* first, as for all functions over axes */
    const float *scales;
    const float *shifts;
    float given;
    float result;
    float epsilon;
    int32_t zero_in;
    int32_t zero_out;
} standardising;

enum { PARTIAL_SUMS = 8 };

static void standardise_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                             range rows)
{
    const standardising *s = (const standardising *)(const void *)c;
    int32_t inner[3];
    int32_t number = 0;
    int32_t count = folded_count(c);
    int32_t half;
    float sums[PARTIAL_SUMS] = {0};
    float mean;
    float inverse;
    double sum = 0;
    begin_fold(c, index, inner);
    do {
        sum += (double)real_of(*from_cell(c, in, inner) - s->zero_in, s->given);
    } while (next_inside(c, inner) != 0);
    mean = (float)(sum / count);
    do {
        float apart = rounded(real_of(*from_cell(c, in, inner) - s->zero_in, s->given) - mean);
        sums[number] = fmaf(apart, apart, sums[number]);
        number = (number + 1) % PARTIAL_SUMS;
    } while (next_inside(c, inner) != 0);
    for (half = PARTIAL_SUMS / 2; half; half /= 2) {
        for (number = 0; number < half; number++) {
            sums[number] = rounded(sums[number] + sums[number + half]);
        }
    }
    inverse = rounded(1 / rounded(sqrtf(rounded(rounded(sums[0] / (float)count) + s->epsilon))));
    number = 0;
    do {
        float value = rounded(real_of(*from_cell(c, in, inner) - s->zero_in, s->given) - mean);
        value = rounded(rounded(value * inverse) * s->scales[number]);
        if (s->shifts != NULL) {
            value = rounded(value + s->shifts[number]);
        }
        if (is_wanted(rows, inner) != 0) {
            *to_cell(c, out, inner) = stored_real(value, s->result, s->zero_out);
        }
        number++;
    } while (next_inside(c, inner) != 0);
}

LAYER(standardise_as_reals, for_each_fold, standardise_fold)
