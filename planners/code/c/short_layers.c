static void curve_cell(const void *numbers, const element *from, element *to, int32_t count,
                       int32_t channel)
{
    const curve *p = numbers;
    int32_t c;
    (void)channel;
    for (c = 0; c < count; c++) {
        to[c] = (element)curve_at(p, from[c]);
    }
}

LAYER(curve_region, make_rows, curve_cell)

/* Integers times one of two numbers: those below zero, and the others. sign: of the first kind. */
typedef struct {
    int32_t multiplier;
    int32_t exponent;
    int32_t below_multiplier;
    int32_t below_exponent;
    int32_t sign;
} bending;

static void bend_cell(const void *numbers, const element *from, element *to, int32_t count,
                      int32_t channel)
{
    const bending *p = numbers;
    int32_t c;
    (void)channel;
    for (c = 0; c < count; c++) {
        int32_t value = from[c];
        if (value < 0) {
            value = p->sign * rescaled(value, p->below_multiplier, p->below_exponent);
        } else {
            value = rescaled(value, p->multiplier, p->exponent);
        }
        to[c] = stored(value);
    }
}

LAYER(bend_region, make_rows, bend_cell)

/* A softmax by tables of 513 values: exponentials of -10 to 0, and 1 / (1 + x). */
typedef struct {
    cube axes; /* first, as for all functions over axes */
    const int32_t *powers;
    const int32_t *reciprocals;
    int32_t multiplier;
    int32_t exponent;
} softmax_by_tables;

static int32_t between(const int32_t *values, int32_t value)
{
    const int32_t *index = values + 256 + (value >> 7);
    return index[0] + ((((index[1] - index[0]) * (value & 127)) + 64) >> 7);
}

static int32_t short_power(const softmax_by_tables *s, int32_t beyond)
{
    return between(s->powers, stored(rescaled(beyond, s->multiplier, s->exponent) + 32767));
}

static void softmax_short_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                               range rows)
{
    const softmax_by_tables *s = (const softmax_by_tables *)(const void *)c;
    int32_t inner[3];
    int32_t most;
    int32_t sum = 0;
    int32_t lead = 0;
    int32_t share;
    begin_fold(c, index, inner);
    most = largest_inside(c, in, inner);
    do {
        sum += short_power(s, *from_cell(c, in, inner) - most);
    } while (next_inside(c, inner) != 0);
    while (!(((uint32_t)sum << lead) & UINT32_C(2147483648))) {
        lead++;
    }
    share = (int32_t)(((((int64_t)sum << lead) / 2) + 8192) >> 14) - 98304;
    share = between(s->reciprocals, stored(share));
    do {
        int64_t found = (int64_t)short_power(s, *from_cell(c, in, inner) - most) * share;
        found = (found + (INT64_C(1) << (30 - lead))) >> (31 - lead);
        if (is_wanted(rows, inner) != 0) {
            *to_cell(c, out, inner) = (element)((found < 0) ? 0 : (found > 32767) ? 32767 : found);
        }
    } while (next_inside(c, inner) != 0);
}

LAYER(softmax_short, for_each_fold, softmax_short_fold)
