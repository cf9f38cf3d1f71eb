/* An elementwise function of two operands. zero: their zero points. multiplier, exponent: for sums,
   of both operands and of the result, with `sign` for the second operand; for products, of the
   result. */
typedef struct {
    operand each[2];
    int32_t pixels;
    int32_t zero[2];
    int32_t zero_out;
    int32_t sign;
    int32_t least;
    int32_t most;
    int32_t multiplier[3];
    int32_t exponent[3];
} combining;

/* Computes `count` elements. steps: of each operand from an element to the next. */
typedef void (*combining_cell)(const combining *, element *to, const element *one,
                               const element *other, const int32_t *steps, int32_t count);

static void combine(const run *r, const layer *l, range rows, range columns, combining_cell make)
{
    const combining *p = l->parameters;
    view out = output_view(r, l);
    view in[2];
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t at_once;
    int32_t steps[2];
    cut_row(&out, &columns, p->pixels);
    at_once = columns_at_once(&out, columns);
    /*@ loop unroll 2; */
    for (c = 0; c < 2; c++) {
        const operand *o = &p->each[c];
        int32_t apart = o->column;
        int32_t goes_round = 0;
        in[c] = out;
        if (!o->values) {
            in[c] = input_view(r, l, o->input);
        }
        if (o->is_map && o->column) {
            apart = in[c].column_stride;
            goes_round = in[c].columns;
        }
        steps[c] = (out.channels > 1) ? o->channel : apart;
        if (goes_round || ((steps[c] * out.channels) != apart)) {
            at_once = 1;
        }
    }
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x += at_once) {
            element *to = row_at(&out, y) + column_at(&out, x);
            const element *one = operand_at(&p->each[0], &in[0], y, x);
            const element *other = operand_at(&p->each[1], &in[1], y, x);
            make(p, to, one, other, steps, at_once * out.channels);
        }
    }
}

/* Clamp a result to its limits. */
static element limited_to(const combining *p, int32_t value)
{
    return (element)smaller(larger(value, p->least), p->most);
}

#if defined(HELIUM)
/* Clamp and store four results. */
static void store_limited(element *to, int32x4_t value, const combining *p)
{
    value = vminq_s32(vmaxq_s32(vaddq_n_s32(value, p->zero_out), vdupq_n_s32(p->least)),
                      vdupq_n_s32(p->most));
    vstrbq_s32((int8_t *)(void *)to, value);
}
#endif

#if defined(HELIUM)
/* Load four operands, subtract the zero point, multiply by `steps`. */
static int32x4_t load_operands(const element *from, int32_t zero, int32_t steps)
{
    return vmulq_n_s32(vsubq_n_s32(vldrbq_s32((const int8_t *)(const void *)from), zero), steps);
}
#endif

#if defined(HELIUM)
/* Number of elements in whole groups of four: of contiguous bytes. */
static int32_t in_fours(const int32_t *steps, int32_t count)
{
    return ((sizeof(element) == 1) && (steps[0] == 1) && (steps[1] == 1)) ? (count / 4 * 4) : 0;
}
#endif

#if defined(HELIUM)
/* Add `count` elements in groups of four. With exponent 0, a factor of a half multiplies twice the
   value. */
static void add_in_fours(const combining *p, element *to, const element *one, const element *other,
                         int32_t count)
{
    int32_t half = p->exponent[0] == 0;
    int32_t also = p->exponent[1] == 0;
    int32_t c;
    int32_t steps = SUM_STEPS << half;
    int32_t others = SUM_STEPS << also;
    int32_t power = p->exponent[0] - half;
    int32_t raised = p->exponent[1] - also;
    for (c = 0; c < count; c += 4) {
        int32x4_t a = load_operands(one + c, p->zero[0], steps);
        int32x4_t b = load_operands(other + c, p->zero[1], others);
        a = rescaled_down(a, p->multiplier[0], power);
        b = vmlaq_n_s32(a, rescaled_down(b, p->multiplier[1], raised), p->sign);
        store_limited(to + c, rescaled_down(b, p->multiplier[2], p->exponent[2]), p);
    }
}
#endif

static void add_cell(const combining *p, element *to, const element *one, const element *other,
                     const int32_t *steps, int32_t count)
{
    int32_t c = 0;
    int32_t stride = steps[0];
    int32_t next = steps[1];
    int32_t zero = p->zero[0];
    int32_t less = p->zero[1];
    int32_t by = p->multiplier[0];
    int32_t with = p->multiplier[1];
    int32_t all = p->multiplier[2];
    int32_t power = p->exponent[0];
    int32_t raised = p->exponent[1];
    int32_t last = p->exponent[2];
    int32_t sign = p->sign;
#if defined(HELIUM)
    if (last < 0) {
        c = in_fours(steps, count);
        add_in_fours(p, to, one, other, c);
    }
#endif
    for (; c < count; c++) {
        int32_t sum = rescaled_bytes((one[c * stride] - zero) * SUM_STEPS, by, power);
        sum += sign * rescaled_bytes((other[c * next] - less) * SUM_STEPS, with, raised);
        to[c] = limited_to(p, rescaled_bytes(sum, all, last) + p->zero_out);
    }
}

LAYER(add_tensors, combine, add_cell)

static void multiply_cell(const combining *p, element *to, const element *one,
                          const element *other, const int32_t *steps, int32_t count)
{
    int32_t c = 0;
    int32_t stride = steps[0];
    int32_t next = steps[1];
    int32_t zero = p->zero[0];
    int32_t less = p->zero[1];
    int32_t multiplier = p->multiplier[2];
    int32_t exponent = p->exponent[2];
#if defined(HELIUM)
    for (; (exponent < 0) && (c < in_fours(steps, count)); c += 4) {
        int32x4_t product = vmulq_s32(load_operands(one + c, zero, 1),
                                      load_operands(other + c, less, 1));
        store_limited(to + c, rescaled_down(product, multiplier, exponent), p);
    }
#endif
    for (; c < count; c++) {
        int32_t product = (one[c * stride] - zero) * (other[c * next] - less);
        to[c] = limited_to(p, rescaled_bytes(product, multiplier, exponent) + p->zero_out);
    }
}

LAYER(multiply_tensors, combine, multiply_cell)

static void square_cell(const combining *p, element *to, const element *one, const element *other,
                        const int32_t *steps, int32_t count)
{
    int32_t c;
    int32_t apart;
    for (c = 0; c < count; c++) {
        apart = rescaled((one[c * steps[0]] - p->zero[0]) * 128, p->multiplier[0], p->exponent[0]);
        apart -= rescaled((other[c * steps[1]] - p->zero[1]) * 128, p->multiplier[1],
                          p->exponent[1]);
        apart = rescaled(apart * apart, p->multiplier[2], p->exponent[2]);
        to[c] = limited_to(p, apart + p->zero_out);
    }
}

LAYER(square_difference, combine, square_cell)

/* Operands have equal scales, so that stored values are compared. */
static void larger_cell(const combining *p, element *to, const element *one, const element *other,
                        const int32_t *steps, int32_t count)
{
    int32_t c;
    for (c = 0; c < count; c++) {
        to[c] = limited_to(p, larger(one[c * steps[0]], other[c * steps[1]]));
    }
}

LAYER(larger_of_tensors, combine, larger_cell)

static void smaller_cell(const combining *p, element *to, const element *one, const element *other,
                         const int32_t *steps, int32_t count)
{
    int32_t c;
    for (c = 0; c < count; c++) {
        to[c] = limited_to(p, smaller(one[c * steps[0]], other[c * steps[1]]));
    }
}

LAYER(smaller_of_tensors, combine, smaller_cell)

typedef struct {
    cube axes; /* first, as for all functions over axes */
    averaging to;
} mean_over;

static void average_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                         range rows)
{
    const mean_over *m = (const mean_over *)(const void *)c;
    int32_t inner[3];
    int32_t sum = 0;
    (void)rows;
    begin_fold(c, index, inner);
    do {
        sum += *from_cell(c, in, inner);
    } while (next_inside(c, inner) != 0);
    *to_cell(c, out, index) = average_of(sum, &m->to);
}

LAYER(average, for_each_fold, average_fold)

/* The maximum, or with a sign of -1 the minimum. */
typedef struct {
    cube axes;
    int32_t sign;
} extreme_over;

static void extreme_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                         range rows)
{
    int32_t inner[3];
    int32_t sign = ((const extreme_over *)(const void *)c)->sign;
    int32_t largest = INT32_MIN;
    (void)rows;
    begin_fold(c, index, inner);
    do {
        largest = larger(largest, sign * *from_cell(c, in, inner));
    } while (next_inside(c, inner) != 0);
    *to_cell(c, out, index) = (element)(sign * largest);
}

LAYER(reduce_extreme, for_each_fold, extreme_fold)

/* e ** x for x <= 0 with 5 bits before the point, as a fraction of 2 ** 31. */
static int32_t exponential(int32_t value)
{
    static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308,
                                       39332535,   720401,     242};
    int32_t below = (value & 16777215) - 16777216;
    int32_t x = (below * 32) + 268435456;
    int32_t x2 = high_product(x, x);
    int32_t x3 = high_product(x2, x);
    int32_t x4 = high_product(x2, x2);
    int32_t third = high_product(divided_by_power(x4, 2) + x3, 715827883);
    int32_t result = 1895147668 + high_product(1895147668, x + divided_by_power(third + x2, 1));
    int32_t bit;
    int32_t rest = below - value;
    if (value == 0) {
        return INT32_MAX;
    }
    for (bit = 0; bit < 7; bit++) {
        if ((rest & (INT32_C(1) << (24 + bit))) != 0) {
            result = high_product(result, factors[bit]);
        }
    }
    return result;
}

static int32_t saturated(int64_t value)
{
    return (int32_t)((value < INT32_MIN) ? INT32_MIN : (value > INT32_MAX) ? INT32_MAX : value);
}

/* 1 / (1 + x) for 0 <= x <= 1, both as fractions of 2 ** 31, in three Newton steps. */
static int32_t reciprocal_of_one_plus(int32_t value)
{
    int32_t half = (int32_t)(((int64_t)value + INT64_C(2147483648)) / 2);
    int32_t pass;
    int32_t result = 1515870810 + high_product(half, -1010580540);
    for (pass = 0; pass < 3; pass++) {
        int32_t error = saturated(INT64_C(536870912) - high_product(half, result));
        result = saturated(result + ((int64_t)high_product(result, error) * 4));
    }
    return saturated((int64_t)result * 2);
}

typedef struct {
    cube axes; /* first, as for all functions over axes */
    int32_t multiplier;
    int32_t exponent;
    int32_t least;
} softmax_over;

static int32_t power_of(const softmax_over *s, int32_t beyond)
{
    return exponential(high_product(beyond * (INT32_C(1) << s->exponent), s->multiplier));
}

static void softmax_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                         range rows)
{
    const softmax_over *s = (const softmax_over *)(const void *)c;
    int32_t inner[3];
    int32_t most;
    int32_t sum = 0;
    int32_t lead = 0;
    int32_t share;
    begin_fold(c, index, inner);
    most = largest_inside(c, in, inner);
    do {
        int32_t beyond = smaller(*from_cell(c, in, inner) - most, 0);
        sum += (beyond < s->least) ? 0 : divided_by_power(power_of(s, beyond), 12);
    } while (next_inside(c, inner) != 0);
    while ((lead < 31) && ((((uint32_t)sum << lead) & UINT32_C(2147483648)) == 0U)) {
        lead++;
    }
    share = reciprocal_of_one_plus((int32_t)(((uint32_t)sum << lead) - UINT32_C(2147483648)));
    do {
        int32_t beyond = smaller(*from_cell(c, in, inner) - most, 0);
        int32_t result = -128;
        if (beyond >= s->least) {
            result += divided_by_power(high_product(share, power_of(s, beyond)), 12 - lead + 23);
        }
        if (is_wanted(rows, inner) != 0) {
            *to_cell(c, out, inner) = stored(result);
        }
    } while (next_inside(c, inner) != 0);
}

LAYER(softmax, for_each_fold, softmax_fold)

/* Conversion between integer types, or from or to float. */
typedef struct {
    int32_t multiplier;
    int32_t exponent;
    int32_t zero_in;
    int32_t zero_out;
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

LAYER(rescale_region, make_rows, rescale_cell)

/* A table with the result for each int8 value. */
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

LAYER(look_up_region, make_rows, look_up_cell)

/* Negative values are multiplied by a slope for each channel. */
typedef struct {
    const trained *slopes;
    int32_t multiplier;
    int32_t exponent;
    int32_t below_multiplier;
    int32_t below_exponent;
    int32_t zero_in;
    int32_t zero_slope;
    int32_t zero_out;
} sloping;

static void slope_cell(const void *numbers, const element *from, element *to, int32_t count,
                       int32_t channel)
{
    const sloping *s = numbers;
    int32_t c;
    for (c = 0; c < count; c++) {
        int32_t value = from[c] - s->zero_in;
        int32_t result;
        if (value >= 0) {
            result = rescaled(value, s->multiplier, s->exponent);
        } else {
            result = rescaled(value * (s->slopes[channel + c] - s->zero_slope), s->below_multiplier,
                             s->below_exponent);
        }
        to[c] = stored(result + s->zero_out);
    }
}

LAYER(slope_region, make_places, slope_cell)

/* A float takes several elements. */
static void quantize_cell(const void *numbers, const element *from, element *to, int32_t count,
                          int32_t channel)
{
    const converting *p = numbers;
    int32_t c;
    (void)channel;
    for (c = 0; c < count; c++) {
        float value = roundf(real_at(from, c) / p->scale) + (float)p->zero_out;
        to[c] = LEAST; /* for NaN, too */
        if (value > (float)LEAST) {
            to[c] = (element)((value < (float)MOST) ? value : (float)MOST);
        }
    }
}

LAYER(quantize_region, make_rows, quantize_cell)

static void dequantize_cell(const void *numbers, const element *from, element *to, int32_t count,
                            int32_t channel)
{
    const converting *p = numbers;
    int32_t c;
    (void)channel;
    for (c = 0; c < count; c++) {
        store_real(to, c, (float)((double)p->scale * (from[c] - p->zero_in)));
    }
}

LAYER(dequantize_region, make_reals, dequantize_cell)

/* Clamp elements to [a, b]. */
static void step_limits(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i = 0;
    (void)channel;
    (void)column;
#if defined(HELIUM)
    for (; (sizeof *v == 1) && (i < count); i += 16) {
        mve_pred16_t inside = vctp8q((uint32_t)(count - i));
        int8_t *to = (int8_t *)(void *)(v + i);
        int8x16_t value = vmaxq_s8(vldrbq_z_s8(to, inside), vdupq_n_s8((int8_t)s->a));
        vstrbq_p_s8(to, vminq_s8(value, vdupq_n_s8((int8_t)s->b)), inside);
    }
#endif
    for (; i < count; i++) {
        v[i] = (v[i] < s->a) ? s->a : (v[i] > s->b) ? s->b : v[i];
    }
}
