/* The stored zero point of an input; zero if the layer has no such input. */
static int32_t zero_of(const run *r, const layer *l, int32_t number)
{
    view zero;
    if ((number < 0) || (number >= l->input_count)) {
        return LEAST;
    }
    zero = input_view(r, l, number);
    return *row_at(&zero, 0);
}

/* Which output is wanted: the scale of quantisation at run time, or the zero point. */
typedef struct {
    int32_t gives_zero;
} ranging;

static void find_range(const run *r, const layer *l, range rows, range columns)
{
    const ranging *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    float low = 0;
    float high = 0;
    float scale;
    int32_t y;
    int32_t x;
    int32_t c;
    (void)rows;
    (void)columns;
    for (y = 0; y < l->inputs[0].source->height; y++) {
        for (x = 0; x < in.width; x++) {
            const element *from = row_at(&in, y) + column_at(&in, x);
            for (c = 0; c < (in.channels / REAL); c++) {
                float value = real_at(from, c);
                low = (value < low) ? value : low;
                high = (value > high) ? value : high;
            }
        }
    }
    scale = (low < high) ? ((high - low) / 255) : 1;
    if (p->gives_zero != 0) {
        *row_at(&out, 0) = stored(nearest_even(-low / scale) + LEAST);
    } else {
        store_real(row_at(&out, 0), 0, scale);
    }
}

/* Quantisation by a scale and a zero point that are the next inputs. */
static void quantize_by_range(const run *r, const layer *l, range rows, range columns)
{
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    view scale = input_view(r, l, 1);
    float size = real_at(row_at(&scale, 0), 0);
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t zero = zero_of(r, l, 2);
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row_at(&in, y) + column_at(&in, x);
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                to[c] = stored_real(real_at(from, c), size, zero);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* A convolution of integers whose zero point is the next input; the result is the sums. */
static void convolve_by_range(const run *r, const layer *l, range rows, range columns)
{
    convolution c = *(const convolution *)l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t i;
    int32_t g;
    int32_t done;
    int32_t of_filter = c.at.taps[0] * c.at.taps[1] * c.group_inputs;
    receptive_field field;
    field.height = l->inputs[0].source->height;
    field.width = in.width;
    c.to.zero_in = zero_of(r, l, 1);
    for (y = rows.first; y < rows.end; y++) {
        locate_rows(&field, &c.at, &in, y);
        for (x = columns.first; x < columns.end; x++) {
            element *pixel = row_at(&out, y) + column_at(&out, x);
            const trained *weights = c.weights;
            int32_t first = 0;
            int32_t filters;
            locate_columns(&field, &c.at, &in, x, 0);
            for (g = 0; g < c.groups; g++) {
                for (done = 0; done < c.group_filters; done += filters) {
                    total sums[BLOCK];
                    filters = smaller(c.group_filters - done, BLOCK);
                    begin_sums(sums, NULL, 0, filters);
                    add_window(&c, &field, sums, weights, g * c.group_inputs, filters);
                    for (i = 0; i < filters; i++) {
                        store_real(pixel, first + i, (float)sums[i]);
                    }
                    weights += of_filter * filters;
                    first += filters;
                }
            }
        }
    }
}

/* A product of integer matrices. Zero points are inputs, or a constant for constant weights. The
   result has real numbers; steps count integers. */
typedef struct {
    axes_of_product axes;
    const trained *values;
    int32_t left_zero;
    int32_t right_zero;
    int32_t zero_with;
} product_by_range;

static void multiply_by_range(const run *r, const layer *l, range rows, range columns)
{
    const product_by_range *m = l->parameters;
    const axes_of_product *p = &m->axes;
    view left = input_view(r, l, 0);
    view out = output_view(r, l);
    view right = m->values ? left : input_view(r, l, 1);
    int32_t first = p->to_is_map ? rows.first : 0;
    int32_t end = p->to_is_map ? rows.end : p->rows;
    int32_t zero = zero_of(r, l, m->left_zero);
    int32_t other_zero = zero_of(r, l, m->right_zero);
    int32_t at[3];
    int32_t k;
    (void)columns;
    for (at[0] = 0; at[0] < p->batches; at[0]++) {
        for (at[1] = first; at[1] < end; at[1]++) {
            for (at[2] = 0; at[2] < p->columns; at[2]++) {
                int32_t sum = 0;
                for (k = 0; k < p->inner; k++) {
                    int32_t with;
                    if (m->values != NULL) {
                        with = m->values[(k * p->columns) + at[2]] - m->zero_with;
                    } else {
                        with = *right_cell(p, &right, at, k) - other_zero;
                    }
                    sum += (*left_cell(p, &left, at, k) - zero) * with;
                }
                store_real(result_cell(p, &out, at), 0, (float)sum);
            }
        }
    }
}
