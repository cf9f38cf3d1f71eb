static void add_values(total *sums, const patch *p, const trained *weights, int32_t filters)
{
    add_products(sums, p, weights + p->weights_from, 0, filters);
}

static int32_t make_all_lanes(element *to, const convolution *c, const receptive_field *field,
                              int32_t first, int32_t count)
{
    (void)to;
    (void)c;
    (void)field;
    (void)first;
    (void)count;
    return 0;
}
