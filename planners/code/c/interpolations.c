/* For each row and column of the result those before and after it, and how far it is from the first:
   in 1024ths. */
typedef struct {
    const uint16_t *above;
    const uint16_t *below;
    const int16_t *down;
    const uint16_t *left;
    const uint16_t *right;
    const int16_t *across;
} interpolation_of_bytes;

static void resize_in_1024ths(const run *r, const layer *l, range rows, range columns)
{
    const interpolation_of_bytes *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = rows.first; y < rows.end; y++) {
        const element *upper = row_at(&in, p->above[y]);
        const element *lower = row_at(&in, p->below[y]);
        int32_t down = p->down[y];
        int32_t up = 1024 - down;
        for (x = columns.first; x < columns.end; x++) {
            int32_t left = column_at(&in, p->left[x]);
            int32_t right = column_at(&in, p->right[x]);
            int32_t across = p->across[x];
            int32_t back = 1024 - across;
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                int32_t sum = ((upper[left + c] * up) + (lower[left + c] * down)) * back;
                sum += ((upper[right + c] * up) + (lower[right + c] * down)) * across;
                /* over 2 ** 20; halves go away from zero */
                to[c] = stored((sum + ((sum < 0) ? -524288 : 524288)) / 1048576);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* The same in single precision, of integers that were unsigned. */
typedef struct {
    const uint16_t *above;
    const uint16_t *below;
    const float *down;
    const uint16_t *left;
    const uint16_t *right;
    const float *across;
} interpolation_of_unsigned;

static float share_of(element value, float down, float across)
{
    return rounded(rounded((float)(value - LEAST) * down) * across);
}

static void resize_unsigned(const run *r, const layer *l, range rows, range columns)
{
    const interpolation_of_unsigned *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = rows.first; y < rows.end; y++) {
        const element *upper = row_at(&in, p->above[y]);
        const element *lower = row_at(&in, p->below[y]);
        float down = p->down[y];
        float up = 1 - down;
        for (x = columns.first; x < columns.end; x++) {
            int32_t left = column_at(&in, p->left[x]);
            int32_t right = column_at(&in, p->right[x]);
            float across = p->across[x];
            float back = 1 - across;
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                float sum = share_of(upper[left + c], up, back);
                sum += share_of(lower[left + c], down, back);
                sum += share_of(upper[right + c], up, across);
                sum += share_of(lower[right + c], down, across);
                to[c] = stored((int32_t)(sum + 0.5f) + LEAST);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* A value times a power of two, within 32 bits. */
static int32_t shifted_up(int32_t value, int32_t bits)
{
    int64_t found = value * (INT64_C(1) << bits);
    found = (found > INT32_MAX) ? INT32_MAX : found;
    return (int32_t)((found < INT32_MIN) ? INT32_MIN : found);
}

/* The multiplier of one over the root of a number from 1 on, and its exponent: five Newton steps, with
   three bits before the point. */
static int32_t inverse_root(int32_t value, int32_t *exponent)
{
    int32_t pairs;
    int32_t length = 0;
    int32_t right = 11;
    int32_t estimate = 268435456;
    int32_t halved;
    int32_t half;
    int32_t i;
    *exponent = 0;
    if (value <= 1) {
        return INT32_MAX;
    }
    for (; value >= 536870912; right++) {
        value /= 4;
    }
    while ((value >> length) != 0) {
        length++;
    }
    pairs = ((31 - length) / 2) - 1;
    halved = (int32_t)(((uint32_t)value << (2 * pairs)) >> 1);
    half = divided_by_power(halved, 1);
    for (i = 0; i < 5; i++) {
        int32_t third = high_product(high_product(estimate, estimate), estimate);
        int32_t step_up = high_product(402653184, estimate);
        estimate = shifted_up(step_up - high_product(half, shifted_up(third, 6)), 3);
    }
    *exponent = pairs - right;
    estimate = high_product(estimate, 1518500250); /* the root of a half */
    if (*exponent > 0) {
        estimate = (int32_t)((uint32_t)estimate << *exponent);
        *exponent = 0;
    }
    return estimate;
}

/* Vectors over their lengths, in 128ths. */
typedef struct {
    cube axes; /* first, as for all functions over axes */
    /* 128 as a factor, or as a power of two */
    int32_t zero;
    int32_t times;
    int32_t raised;
} unit_scaling;

static void unit_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                      range rows)
{
    const unit_scaling *u = (const unit_scaling *)(const void *)c;
    int32_t inner[3];
    int32_t squares = 0;
    int32_t root;
    int32_t exponent;
    begin_fold(c, index, inner);
    do {
        int32_t value = *from_cell(c, in, inner) - u->zero;
        squares += value * value;
    } while (next_inside(c, inner) != 0);
    root = inverse_root(squares, &exponent);
    begin_fold(c, index, inner);
    do {
        int32_t value = u->times * (*from_cell(c, in, inner) - u->zero);
        if (is_wanted(rows, inner) != 0) {
            *to_cell(c, out, inner) = stored(rescaled(value, root, exponent + u->raised));
        }
    } while (next_inside(c, inner) != 0);
}

LAYER(unit_length, for_each_fold, unit_fold)
