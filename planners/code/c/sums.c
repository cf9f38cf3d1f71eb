/* Filters that are summed at once, and channels that are where each has a filter of its own. */
enum { BLOCK = 4, LANES = 8 };

static void begin_sums(total *sums, const bias_sum *bias, int32_t first, int32_t count)
{
    int32_t i;
    if (bias && count == BLOCK) {
        memcpy(sums, bias + first, BLOCK * sizeof *sums);
        return;
    }
    for (i = 0; i < count; i++) {
        sums[i] = bias ? bias[first + i] : 0;
    }
}

/* Add products to the sums of some filters, whose weights are so far apart. */
static void add_products(total *restrict sums, const element *restrict values, int32_t zero,
                         const trained *restrict weights, int32_t count, int32_t filters,
                         int32_t apart)
{
    int32_t i, k;
    for (i = 0; i < filters; i++) {
        total sum = sums[i];
        for (k = 0; k < count; k++) {
            sum += (values[k] - zero) * weights[k];
        }
        sums[i] = sum;
        weights += apart;
    }
}

/* weights: filter by filter, tap by tap, input channel by channel. */
typedef struct {
    window at;
    int32_t groups, group_inputs, group_filters;
    const trained *weights;
    scaling to;
} convolution;

/* One filter a channel; weights: tap by tap, channel by channel. from: the first channel of what lies
   under the window, first: of the weights. */
static void add_few_lanes(const convolution *c, const footprint *under, int32_t from, int32_t first,
                          int32_t lanes, total *sums)
{
    int32_t i, j, k;
    for (i = under->down.first; i < under->down.end; i++) {
        for (j = under->across.first; j < under->across.end; j++) {
            const element *values = under->rows[i] + column_under(under, j) + from;
            const trained *with = c->weights + (i * c->at.taps[1] + j) * c->groups + first;
            for (k = 0; k < lanes; k++) {
                sums[k] += (values[k] - c->to.zero_in) * with[k];
            }
        }
    }
}
