static void add_values(total *sums, const element *values, int32_t zero, const trained *weights,
                       int32_t count, int32_t block, int32_t channels)
{
    (void)channels;
    add_products(sums, values, zero, weights, count, block);
}

static void add_eight_lanes(const convolution *c, const view *in, const element *const *rows,
                            range down, range across, int32_t x, int32_t first, total *sums)
{
    add_few_lanes(c, in, rows, down, across, x, first, LANES, sums);
}
