LAYER(max_pool_share, share_windows, window_maximum)

LAYER(average_pool_share, share_windows, window_mean)

LAYER(depthwise_conv_share, share_windows, depthwise_pixel)

/* Each filter reads all channels. Weights: block by block of filters, of which none goes beyond a group
   or a share. */
static void convolve_share(const run *r, const layer *l, range rows, range columns)
{
    const sliced *p = l->parameters;
    each_window(r, l, rows, columns, p->of, share_at(r, p), 0, convolve_pixel);
}

/* Weights: share by share of the inputs, in each as those of any convolution. */
static void sum_parts(const run *r, const layer *l, range rows, range columns)
{
    const sliced *p = l->parameters;
    convolution c = *(const convolution *)p->of;
    range share = share_at(r, p);
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    receptive_field field;
    int32_t y;
    int32_t x;
    int32_t is_last = (r->part + 1) == p->parts;
    c.group_inputs = share.end - share.first;
    c.weights =
        from_weight(c.weights, share.first * c.at.taps[0] * c.at.taps[1] * c.group_filters);
    field.height = l->inputs[0].source->height;
    field.width = in.width;
    for (y = rows.first; y < rows.end; y++) {
        locate_rows(&field, &c.at, &in, y);
        for (x = columns.first; x < columns.end; x++) {
            element *pixel = row_at(&out, y) + column_at(&out, x);
            int32_t at = (((y - rows.first) * l->result->width) + x) * c.group_filters;
            locate_columns(&field, &c.at, &in, x, 0);
            sum_part(r, &c, &field, at, is_last ? pixel : NULL);
            if (is_last != 0) {
                finish(l, pixel, c.group_filters, 0, x);
            }
        }
    }
}
