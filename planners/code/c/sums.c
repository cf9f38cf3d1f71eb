/* Filters, or channels of a depthwise convolution, whose sums are computed together. */
enum { BLOCK = 4, LANES = 8 };

INLINED static void begin_sums(total *sums, const bias_sum *bias, int32_t first, int32_t count)
{
    int32_t i;
#if defined(HELIUM)
    if (bias && (count == BLOCK) && (sizeof *sums == 4U)) {
        vstrwq_s32((int32_t *)(void *)sums, vldrwq_s32((const int32_t *)(const void *)(bias + first)));
        return;
    }
#endif
    if (bias && ((count % BLOCK) == 0)) {
        (void)memcpy(sums, &bias[first], (size_t)count * sizeof *sums);
    } else {
        for (i = 0; i < count; i++) {
            sums[i] = bias ? bias[first + i] : 0;
        }
    }
}

/* Operand of a product with filters: `count` values from element `from` on in each of `row_count` rows.
   zero: zero point of the values. Weights: from `weights_from` on, `width` a row, `apart` a filter. */
typedef struct {
    const element *const *rows;
    int32_t row_count;
    int32_t from;
    int32_t count;
    int32_t zero;
    int32_t weights_from;
    int32_t width;
    int32_t apart;
} patch;

/* A value, less its zero point, times a weight: a function, so that its bounds are proved once. */
/*@ requires LEAST - MOST <= value <= MOST - LEAST && -128 <= weight <= 127;
    assigns \result \from value, weight;
    ensures (LEAST - MOST) * 128 <= \result <= (MOST - LEAST) * 128; */
INLINED static int32_t product_of(int32_t value, int32_t weight)
{
    return value * weight;
}

/* The sum of products of values, less their zero point, with as many weights. */
/*@ requires LEAST <= zero <= MOST && 0 <= count && (sizeof(total) == 8 || count <= 65793);
    requires \valid_read(values + (0 .. count - 1)) && \valid_read(weights + (0 .. count - 1));
    requires \initialized(values + (0 .. count - 1)) && \initialized(weights + (0 .. count - 1));
    assigns \result \from values[0 .. count - 1], zero, weights[0 .. count - 1], count;
    ensures (LEAST - MOST) * 128 * count <= \result <= (MOST - LEAST) * 128 * count; */
INLINED static total sum_of_products(const element *values, int32_t zero, const trained *weights,
                                     int32_t count)
{
    int32_t k;
    total sum = 0;
    /*@ loop invariant 0 <= k <= count;
        loop invariant (LEAST - MOST) * 128 * k <= sum <= (MOST - LEAST) * 128 * k;
        loop assigns k, sum; */
    for (k = 0; k < count; k++) {
        sum += product_of(values[k] - zero, weights[k]);
    }
    return sum;
}

/* Add products to the sums of `filters` filters, from value `first` of each row on. */
static void add_products(total *sums, const patch *p, const trained *weights, int32_t first,
                         int32_t filters)
{
    int32_t i;
    int32_t j;
    for (i = 0; i < filters; i++) {
        const trained *with = &weights[(i * p->apart) + first];
        total sum = sums[i];
        for (j = 0; j < p->row_count; j++) {
            sum += sum_of_products(&p->rows[j][p->from + first], p->zero, &with[j * p->width],
                                   p->count - first);
        }
        sums[i] = sum;
    }
}

#if WEIGHTS_HAVE_ZEROS
/* Subtract the products of the values with the zero point of the weights. */
static void subtract_weight_zeros(total *sums, const patch *p, const scaling *s, int32_t filters)
{
    int32_t i;
    int32_t j;
    total all = 0;
    for (j = 0; s->zero_with && (j < p->row_count); j++) {
        for (i = 0; i < p->count; i++) {
            all += p->rows[j][p->from + i] - p->zero;
        }
    }
    for (i = 0; i < filters; i++) {
        sums[i] -= all * s->zero_with;
    }
}
#endif

/* weights[filters][taps][input channels]. */
typedef struct {
    window at;
    int32_t groups;
    int32_t group_inputs;
    int32_t group_filters;
    const trained *weights;
    scaling to;
} convolution;

/* Depthwise convolution; weights[taps][channels]. from: the first channel in the window, first: of the
   weights. */
static void add_few_lanes(const convolution *c, const receptive_field *field, int32_t from,
                          int32_t first, int32_t lanes, total *sums)
{
    int32_t i;
    int32_t j;
    int32_t k;
    for (i = field->down.first; i < field->down.end; i++) {
        for (j = field->across.first; j < field->across.end; j++) {
            const element *values = &field->rows[i][column_under(field, j) + from];
            const trained *with = &c->weights[(((i * c->at.taps[1]) + j) * c->groups) + first];
            for (k = 0; k < lanes; k++) {
                sums[k] += (values[k] - c->to.zero_in) * with[k];
            }
        }
    }
}
