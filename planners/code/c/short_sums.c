static void add_values(total *sums, const patch *p, const trained *weights, int32_t filters)
{
    add_products(sums, p, weights + p->weights_from, 0, filters);
}

static void add_eight_lanes(const convolution *c, const footprint *under, int32_t from,
                            int32_t first, total *sums)
{
    add_few_lanes(c, under, from, first, LANES, sums);
}
