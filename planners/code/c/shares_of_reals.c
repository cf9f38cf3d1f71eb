/* Weights: block by block of filters, of which none goes beyond a group or a share. */
static void convolve_share(const run *r, const layer *l, range rows, range columns)
{
    const sliced *p = l->parameters;
    const convolution *c = p->of;
    const element *under[MOST_TAPS];
    range share = share_at(r, p);
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, first, block, of_filter = c->at.taps[0] * c->at.taps[1] * c->group_inputs;
    for (y = rows.first; y < rows.end; y++) {
        range down = rows_under(&c->at, &in, y, l->inputs[0].source->height, under);
        for (x = columns.first; x < columns.end; x++) {
            element *place = row_at(&out, y) + column_at(&out, x);
            for (first = share.first; first < share.end; first += block) {
                int32_t group = first / c->group_filters;
                element *sums = place + first - share.first;
                block = smaller(share.end, (group + 1) * c->group_filters) - first;
                block = smaller(block, BLOCK);
                fill_with_bias(sums, c->bias, first, block);
                add_window(c, &in, under, down, x, sums, c->weights + first * of_filter,
                           group * c->group_inputs, block);
            }
            finish(l, place, share.end - share.first, share.first, x);
        }
    }
}

static void convolve_depthwise_share(const run *r, const layer *l, range rows, range columns)
{
    const sliced *p = l->parameters;
    const convolution *c = p->of;
    const element *under[MOST_TAPS];
    range share = share_at(r, p);
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, i, j, k, count = share.end - share.first, skip = share_within(&in, p, share);
    for (y = rows.first; y < rows.end; y++) {
        range down = rows_under(&c->at, &in, y, l->inputs[0].source->height, under);
        for (x = columns.first; x < columns.end; x++) {
            range across = taps_at(&c->at, 1, x, in.width);
            element *place = row_at(&out, y) + column_at(&out, x);
            fill_with_bias(place, c->bias, share.first, count);
            for (i = down.first; i < down.end; i++) {
                for (j = across.first; j < across.end; j++) {
                    const element *values = under[i] + column_at(&in, tapped(&c->at, 1, x, j));
                    const element *with = c->weights + (i * c->at.taps[1] + j) * p->channels;
                    for (k = 0; k < count; k++) {
                        place[k] += values[skip + k] * with[share.first + k];
                    }
                }
            }
            finish(l, place, count, share.first, x);
        }
    }
}

static void pool_mean_share(const run *r, const layer *l, range rows, range columns)
{
    const sliced *s = l->parameters;
    const pooling *p = s->of;
    const element *under[MOST_TAPS];
    range share = share_at(r, s);
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, i, j, k, count = share.end - share.first, skip = share_within(&in, s, share);
    int32_t height = l->inputs[0].source->height;
    for (y = rows.first; y < rows.end; y++) {
        range down = rows_under(&p->at, &in, y, height, under);
        for (x = columns.first; x < columns.end; x++) {
            element *place = row_at(&out, y) + column_at(&out, x);
            range across = taps_at(&p->at, 1, x, in.width);
            int32_t many = larger(counted(p, 0, y, height) * counted(p, 1, x, in.width), 1);
            for (k = 0; k < count; k++) {
                element sum = 0;
                for (i = down.first; i < down.end; i++) {
                    for (j = across.first; j < across.end; j++) {
                        sum += under[i][column_at(&in, tapped(&p->at, 1, x, j)) + skip + k];
                    }
                }
                place[k] = sum / (element)many;
            }
            finish(l, place, count, share.first, x);
        }
    }
}

/* Weights: share by share of the inputs, in each as those of any convolution. */
static void sum_parts(const run *r, const layer *l, range rows, range columns)
{
    const sliced *p = l->parameters;
    convolution c = *(const convolution *)p->of;
    const element *under[MOST_TAPS];
    range share = share_at(r, p);
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, first, taps = c.at.taps[0] * c.at.taps[1];
    c.group_inputs = share.end - share.first;
    for (y = rows.first; y < rows.end; y++) {
        range down = rows_under(&c.at, &in, y, l->inputs[0].source->height, under);
        element *line = r->arena + r->strips + r->stage->sums;
        line += (y - rows.first) * l->result->width * c.group_filters;
        for (x = columns.first; x < columns.end; x++) {
            const element *weights = c.weights + share.first * taps * c.group_filters;
            element *sums = line + x * c.group_filters;
            for (first = 0; first < c.group_filters; first += BLOCK) {
                int32_t block = smaller(BLOCK, c.group_filters - first);
                if (r->part == 0) {
                    fill_with_bias(sums + first, c.bias, first, block);
                }
                add_window(&c, &in, under, down, x, sums + first, weights, 0, block);
                weights += taps * c.group_inputs * block;
            }
            if (r->part + 1 == p->parts) {
                element *place = row_at(&out, y) + column_at(&out, x);
                copy_elements(place, sums, c.group_filters);
                finish(l, place, c.group_filters, 0, x);
            }
        }
    }
}
