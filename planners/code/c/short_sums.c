static void add_values(total *sums, const element *values, int32_t zero, const trained *weights,
                       int32_t count, int32_t filters, int32_t apart)
{
    add_products(sums, values, zero, weights, count, filters, apart);
}

static void add_eight_lanes(const convolution *c, const footprint *under, int32_t from,
                            int32_t first, total *sums)
{
    add_few_lanes(c, under, from, first, LANES, sums);
}
