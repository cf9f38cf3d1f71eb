/* A product over the last axis of the first input: with the last but one of the second input, or with
   trained integers, column by column. Axes: batch, rows, columns. */
typedef struct {
    int32_t batches, rows, inner, columns;
    int32_t left_steps[3], left_is_map, right_steps[3], right_is_map, to_steps[3], to_is_map;
} axes_of_product;

/* What makes some columns of a row of the result, `at` the first of them. */
typedef void (*making)(const void *, const view *left, const view *right, const view *out,
                       const int32_t *at);

/* Whether elements along the last axis lie side by side. */
static int is_dense(const int32_t *steps, int32_t is_map)
{
    return !is_map && steps[2] == 1;
}

static void multiply_rows(const run *r, const layer *l, range rows, range columns, making make)
{
    const axes_of_product *p = l->parameters;
    view left = input_view(r, l, 0), out = output_view(r, l);
    view right = l->input_count > 1 ? input_view(r, l, 1) : left;
    int32_t first = p->to_is_map ? rows.first : 0, end = p->to_is_map ? rows.end : p->rows, at[3];
    at[2] = 0;
    for (at[0] = 0; at[0] < p->batches; at[0]++) {
        for (at[1] = first; at[1] < end; at[1]++) {
            make(p, &left, &right, &out, at);
        }
    }
    finish_region(l, &out, rows, columns);
}

/* An element of the first input in a row, and one of the second in a column. */
static const element *left_cell(const axes_of_product *p, const view *left, const int32_t *at,
                                int32_t k)
{
    int32_t place[3];
    place[0] = at[0];
    place[1] = at[1];
    place[2] = k;
    return cell_at(left, p->left_is_map, p->left_steps, place);
}

static const element *right_cell(const axes_of_product *p, const view *right, const int32_t *at,
                                 int32_t k)
{
    int32_t place[3];
    place[0] = at[0];
    place[1] = k;
    place[2] = at[2];
    return cell_at(right, p->right_is_map, p->right_steps, place);
}

static element *result_cell(const axes_of_product *p, const view *out, const int32_t *at)
{
    return cell_at(out, p->to_is_map, p->to_steps, at);
}

typedef struct {
    axes_of_product axes; /* first, as for all products */
    const trained *values;
    scaling to;
} trained_product;

/* A row of the result; where values lie side by side, as a fully connected layer. */
static void multiply_row(const void *numbers, const view *left, const view *right, const view *out,
                         const int32_t *from)
{
    const trained_product *t = numbers;
    const axes_of_product *p = &t->axes;
    int32_t at[3], k;
    range all = {0, 0};
    (void)right;
    at[0] = from[0];
    at[1] = from[1];
    if (is_dense(p->left_steps, p->left_is_map) && is_dense(p->to_steps, p->to_is_map)) {
        const element *row = left_cell(p, left, from, 0);
        const bias_sum *begin = t->to.bias;
        patch under = row_patch(&row, t->to.zero_in, p->inner, p->inner);
#if defined(HELIUM) && !WEIGHTS_HAVE_ZEROS
        if (t->to.folded) {
            begin = t->to.folded;
            under.zero = 0;
        }
#endif
        all.end = p->columns;
        all.first = make_filters(result_cell(p, out, from), &under, t->values, &t->to, begin, all);
    }
    for (at[2] = all.first; at[2] < p->columns; at[2]++) {
        const trained *with = t->values + at[2] * p->inner;
        total sum = t->to.bias ? t->to.bias[at[2]] : 0;
        for (k = 0; k < p->inner; k++) {
            int32_t value = *left_cell(p, left, at, k) - t->to.zero_in;
#if WEIGHTS_HAVE_ZEROS
            sum += value * (with[k] - t->to.zero_with);
#else
            sum += value * with[k];
#endif
        }
        store_sums(result_cell(p, out, at), &sum, &t->to, at[2], 1);
    }
}

LAYER(multiply_by_trained, multiply_rows, multiply_row)

typedef struct {
    axes_of_product axes; /* first, as for all products */
    int32_t zero[2], zero_out, multiplier, exponent;
} product_of_two;

static void multiply_two(const void *numbers, const view *left, const view *right, const view *out,
                         const int32_t *from)
{
    const product_of_two *t = numbers;
    const axes_of_product *p = &t->axes;
    int32_t at[3], k;
    at[0] = from[0];
    at[1] = from[1];
    for (at[2] = 0; at[2] < p->columns; at[2]++) {
        int32_t sum = 0;
        for (k = 0; k < p->inner; k++) {
            sum += (*left_cell(p, left, at, k) - t->zero[0]) *
                   (*right_cell(p, right, at, k) - t->zero[1]);
        }
        sum = rescaled(sum, t->multiplier, t->exponent);
        *result_cell(p, out, at) = stored(sum + t->zero_out);
    }
}

LAYER(multiply_both, multiply_rows, multiply_two)
