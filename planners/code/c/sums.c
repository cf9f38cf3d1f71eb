/* Filters whose weights lie side by side, and channels that are summed at once where each has a filter
   of its own. */
enum { BLOCK = 4, LANES = 8 };

static void begin_sums(total *sums, const bias_sum *bias, int32_t first, int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        sums[i] = bias ? bias[first + i] : 0;
    }
}

static void add_products(total *restrict sums, const element *restrict values, int32_t zero,
                         const trained *restrict weights, int32_t count, int32_t block)
{
    const element *end = values + count;
    if (block == BLOCK) {
        total a = sums[0], b = sums[1], c = sums[2], d = sums[3];
        for (; values < end; values++) {
            int32_t value = *values - zero;
            a += value * weights[0];
            b += value * weights[1];
            c += value * weights[2];
            d += value * weights[3];
            weights += BLOCK;
        }
        sums[0] = a;
        sums[1] = b;
        sums[2] = c;
        sums[3] = d;
        return;
    }
    for (; values < end; values++) {
        int32_t j;
        for (j = 0; j < block; j++) {
            sums[j] += (*values - zero) * weights[j];
        }
        weights += block;
    }
}

/* weights: group by group, block by block of filters, tap by tap, input channel by channel; of whole
   blocks of so many channels four by four. */
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
