static const trained *from_weight(const trained *weights, int32_t position)
{
    return weights + position;
}

/* Add the products of a block of input channels to the sums of a pixel, which begin at a multiple of
   four bytes. to: of the result, after the last block. */
static void sum_part(const run *r, const convolution *c, const receptive_field *field, int32_t at,
                     element *to)
{
    const trained *weights = c->weights;
    element *kept = AT(r, (r->buffers + r->stage->sums + 3) / 4 * 4);
    int32_t i;
    int32_t first;
    int32_t block;
    total sums[BLOCK];
    for (first = 0; first < c->group_filters; first += block) {
        block = smaller(c->group_filters - first, BLOCK);
        begin_sums(sums, c->to.bias, first, block);
        for (i = 0; (r->part > 0) && (i < block); i++) {
            sums[i] = load(kept, at + first + i);
        }
        add_window(c, field, sums, weights, 0, block);
        for (i = 0; i < block; i++) {
            store(kept, at + first + i, (int32_t)sums[i]);
        }
        if (to != NULL) {
            store_sums(to + first, sums, &c->to, first, block);
        }
        weights += c->at.taps[0] * c->at.taps[1] * c->group_inputs * block;
    }
}

LAYER(look_up_share, share_places, look_up_cell)

LAYER(slope_share, share_places, slope_cell)
