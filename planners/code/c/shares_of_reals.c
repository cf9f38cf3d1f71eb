/* Add the products of a block of input channels to the sums of a pixel, from an element on. to: of
   the result, after the last block. */
static void sum_part(const run *r, const convolution *c, const receptive_field *field, int32_t at,
                     element *to)
{
    real_weights weights = c->weights;
    element *sums = (element *)(void *)AT(r, r->buffers + r->stage->sums) + at;
    int32_t first;
    int32_t block;
    for (first = 0; first < c->group_filters; first += block) {
        block = smaller(BLOCK, c->group_filters - first);
        if (r->part == 0) {
            fill_with_bias(sums + first, c->bias, first, block);
        }
        add_window(c, field, sums + first, weights, 0, block);
        weights = from_weight(weights, c->at.taps[0] * c->at.taps[1] * c->group_inputs * block);
    }
    if (to != NULL) {
        copy_elements(to, sums, c->group_filters);
    }
}
