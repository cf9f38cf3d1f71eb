/* For each row and column of the result those before and after it, and how far it is from the first:
   in 1024ths. */
typedef struct {
    const uint16_t *above, *below;
    const int16_t *down;
    const uint16_t *left, *right;
    const int16_t *across;
} interpolation_of_bytes;

static void resize_in_1024ths(const run *r, const layer *l, range rows, range columns)
{
    const interpolation_of_bytes *p = l->parameters;
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, c;
    for (y = rows.first; y < rows.end; y++) {
        const element *upper = row_at(&in, p->above[y]), *lower = row_at(&in, p->below[y]);
        int32_t down = p->down[y], up = 1024 - down;
        for (x = columns.first; x < columns.end; x++) {
            int32_t left = column_at(&in, p->left[x]), right = column_at(&in, p->right[x]);
            int32_t across = p->across[x], back = 1024 - across;
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                int32_t sum = ((upper[left + c] * up) + (lower[left + c] * down)) * back;
                sum += ((upper[right + c] * up) + (lower[right + c] * down)) * across;
                /* over 2 ** 20; halves go away from zero */
                to[c] = stored((sum + ((sum < 0) ? -524288 : 524288)) / 1048576);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* The same in single precision, of integers that were unsigned. */
typedef struct {
    const uint16_t *above, *below;
    const float *down;
    const uint16_t *left, *right;
    const float *across;
} interpolation_of_unsigned;

static float share_of(element value, float down, float across)
{
    return rounded(rounded((float)(value - LEAST) * down) * across);
}

static void resize_unsigned(const run *r, const layer *l, range rows, range columns)
{
    const interpolation_of_unsigned *p = l->parameters;
    view in = input_view(r, l, 0), out = output_view(r, l);
    int32_t y, x, c;
    for (y = rows.first; y < rows.end; y++) {
        const element *upper = row_at(&in, p->above[y]), *lower = row_at(&in, p->below[y]);
        float down = p->down[y], up = 1 - down;
        for (x = columns.first; x < columns.end; x++) {
            int32_t left = column_at(&in, p->left[x]), right = column_at(&in, p->right[x]);
            float across = p->across[x], back = 1 - across;
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                float sum = share_of(upper[left + c], up, back);
                sum += share_of(lower[left + c], down, back);
                sum += share_of(upper[right + c], up, across);
                sum += share_of(lower[right + c], down, across);
                to[c] = stored((int32_t)(sum + 0.5f) + LEAST);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}
