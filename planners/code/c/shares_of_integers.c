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
                total sums[BLOCK];
                block = smaller(share.end, (group + 1) * c->group_filters) - first;
                block = smaller(block, BLOCK);
                begin_sums(sums, c->to.bias, first, block);
                add_window(c, &in, under, down, x, sums, c->weights + first * of_filter,
                           group * c->group_inputs, block);
                store_sums(place + first - share.first, sums, &c->to, first, block);
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
            for (k = 0; k < count; k++) {
                int32_t channel = share.first + k;
                total sum;
                begin_sums(&sum, c->to.bias, channel, 1);
                for (i = down.first; i < down.end; i++) {
                    for (j = across.first; j < across.end; j++) {
                        int32_t at = column_at(&in, tapped(&c->at, 1, x, j)) + skip + k;
                        sum += (under[i][at] - c->to.zero_in) *
                               c->weights[(i * c->at.taps[1] + j) * p->channels + channel];
                    }
                }
                store_sums(place + k, &sum, &c->to, channel, 1);
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
                int32_t sum = 0;
                for (i = down.first; i < down.end; i++) {
                    for (j = across.first; j < across.end; j++) {
                        sum += under[i][column_at(&in, tapped(&p->at, 1, x, j)) + skip + k];
                    }
                }
                place[k] = mean_of(sum, many);
            }
            finish(l, place, count, share.first, x);
        }
    }
}

/* Weights: share by share of the inputs, in each as those of any convolution. Sums begin at a word. */
static void sum_parts(const run *r, const layer *l, range rows, range columns)
{
    const sliced *p = l->parameters;
    convolution c = *(const convolution *)p->of;
    const element *under[MOST_TAPS];
    range share = share_at(r, p);
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, i, first, taps = c.at.taps[0] * c.at.taps[1];
    total sums[BLOCK];
    element *kept = r->arena + (r->strips + r->stage->sums + 3) / 4 * 4;
    c.group_inputs = share.end - share.first;
    for (y = rows.first; y < rows.end; y++) {
        range down = rows_under(&c.at, &in, y, l->inputs[0].source->height, under);
        for (x = columns.first; x < columns.end; x++) {
            const trained *weights = c.weights + share.first * taps * c.group_filters;
            element *place = row_at(&out, y) + column_at(&out, x);
            int32_t at = ((y - rows.first) * l->result->width + x) * c.group_filters;
            for (first = 0; first < c.group_filters; first += BLOCK) {
                int32_t block = smaller(BLOCK, c.group_filters - first);
                begin_sums(sums, c.to.bias, first, block);
                for (i = 0; r->part > 0 && i < block; i++) {
                    sums[i] = load(kept, at + first + i);
                }
                add_window(&c, &in, under, down, x, sums, weights, 0, block);
                weights += taps * c.group_inputs * block;
                for (i = 0; i < block; i++) {
                    store(kept, at + first + i, (int32_t)sums[i]);
                }
                if (r->part + 1 == p->parts) {
                    store_sums(place + first, sums, &c.to, first, block);
                }
            }
            if (r->part + 1 == p->parts) {
                finish(l, place, c.group_filters, 0, x);
            }
        }
    }
}

static void look_up_share(const run *r, const layer *l, range rows, range columns)
{
    share_places(r, l, rows, columns, look_up_cell);
}

static void slope_share(const run *r, const layer *l, range rows, range columns)
{
    share_places(r, l, rows, columns, slope_cell);
}
