/* A function of two elements, and how each operand lies beside the result: steps from a channel,
   a row and a column to the next, nought where one element meets all. values: a constant. */
typedef struct {
    element (*of)(element, element);
    int32_t operands, is_mean;
    const struct operand *each;
} combining;

typedef struct operand {
    const element *values;
    int32_t input, is_map, channel, row, column;
} operand;

static element first_of_two(element one, element other)
{
    (void)one;
    return other;
}

static void combine_with(const run *r, const layer *l, const operand *o, const view *out,
                         range rows, range columns, element (*of)(element, element))
{
    view in = o->values ? *out : input_view(r, l, o->input);
    int32_t y, x, c;
    for (y = rows.first; y < rows.end; y++) {
        const element *from = o->values;
        if (!from) {
            from = row_at(&in, o->is_map && o->row ? y : 0);
        }
        if (!o->is_map || o->values) {
            from += y * o->row;
        }
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(out, y) + column_at(out, x);
            const element *with = from;
            if (o->values || !o->is_map) {
                with += x * o->column;
            } else if (o->column) {
                with += column_at(&in, x);
            }
            for (c = 0; c < out->channels; c++) {
                to[c] = of(to[c], with[c * o->channel]);
            }
        }
    }
}

static void combine(const run *r, const layer *l, range rows, range columns)
{
    const combining *p = l->parameters;
    view out = output_view(r, l);
    int32_t number, y, x, c;
    for (number = 0; number < p->operands; number++) {
        combine_with(r, l, &p->each[number], &out, rows, columns, number ? p->of : first_of_two);
    }
    for (y = rows.first; p->is_mean && y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                to[c] /= (element)p->operands;
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

static element of_add(element one, element other)
{
    return one + other;
}

static element of_mean(element one, element other)
{
    return one + other;
}

static element of_subtract(element one, element other)
{
    return one - other;
}

static element of_multiply(element one, element other)
{
    return one * other;
}

static element of_divide(element one, element other)
{
    return one / other;
}

static element of_maximum(element one, element other)
{
    return other > one ? other : one;
}

static element of_minimum(element one, element other)
{
    return other < one ? other : one;
}

static element of_power(element one, element other)
{
    return powf(one, other);
}

static void softmax_fold(const cube *c, const view *in, const view *out, const int32_t *place)
{
    int32_t inner[3];
    element most = LEAST, sum = 0;
    begin_fold(c, place, inner);
    do {
        element value = *from_cell(c, in, inner);
        most = value > most ? value : most;
    } while (next_inside(c, inner));
    do {
        sum += expf(*from_cell(c, in, inner) - most);
    } while (next_inside(c, inner));
    do {
        *to_cell(c, out, inner) = expf(*from_cell(c, in, inner) - most) / sum;
    } while (next_inside(c, inner));
}

static void softmax(const run *r, const layer *l, range rows, range columns)
{
    for_each_fold(r, l, rows, columns, softmax_fold);
}

static void log_softmax_fold(const cube *c, const view *in, const view *out, const int32_t *place)
{
    int32_t inner[3];
    element most = LEAST, sum = 0;
    begin_fold(c, place, inner);
    do {
        element value = *from_cell(c, in, inner);
        most = value > most ? value : most;
    } while (next_inside(c, inner));
    do {
        sum += expf(*from_cell(c, in, inner) - most);
    } while (next_inside(c, inner));
    sum = logf(sum);
    do {
        *to_cell(c, out, inner) = *from_cell(c, in, inner) - most - sum;
    } while (next_inside(c, inner));
}

static void log_softmax(const run *r, const layer *l, range rows, range columns)
{
    for_each_fold(r, l, rows, columns, log_softmax_fold);
}

/* Mean nought and variance one, then scaled and shifted. */
static void standardise_fold(const cube *c, const view *in, const view *out, const int32_t *place)
{
    int32_t inner[3];
    element mean = 0, variance = 0, count = (element)folded_count(c);
    begin_fold(c, place, inner);
    do {
        mean += *from_cell(c, in, inner);
    } while (next_inside(c, inner));
    mean /= count;
    do {
        element value = *from_cell(c, in, inner) - mean;
        variance += value * value;
    } while (next_inside(c, inner));
    variance = sqrtf(variance / count + c->epsilon);
    do {
        int32_t at = inner[0] * c->scale_steps[0] + inner[1] * c->scale_steps[1] +
                     inner[2] * c->scale_steps[2];
        element value = (*from_cell(c, in, inner) - mean) / variance * c->scale[at];
        *to_cell(c, out, inner) = value + (c->shift ? c->shift[at] : 0);
    } while (next_inside(c, inner));
}

static void standardise(const run *r, const layer *l, range rows, range columns)
{
    for_each_fold(r, l, rows, columns, standardise_fold);
}

static void sum_fold(const cube *c, const view *in, const view *out, const int32_t *place)
{
    int32_t inner[3];
    element sum = 0;
    begin_fold(c, place, inner);
    do {
        sum += *from_cell(c, in, inner);
    } while (next_inside(c, inner));
    *to_cell(c, out, place) = sum;
}

static void reduce_sum(const run *r, const layer *l, range rows, range columns)
{
    for_each_fold(r, l, rows, columns, sum_fold);
}

static void mean_fold(const cube *c, const view *in, const view *out, const int32_t *place)
{
    int32_t inner[3];
    element sum = 0;
    begin_fold(c, place, inner);
    do {
        sum += *from_cell(c, in, inner);
    } while (next_inside(c, inner));
    *to_cell(c, out, place) = sum / (element)folded_count(c);
}

static void reduce_mean(const run *r, const layer *l, range rows, range columns)
{
    for_each_fold(r, l, rows, columns, mean_fold);
}

static void max_fold(const cube *c, const view *in, const view *out, const int32_t *place)
{
    int32_t inner[3];
    element most = LEAST;
    begin_fold(c, place, inner);
    do {
        element value = *from_cell(c, in, inner);
        most = value > most ? value : most;
    } while (next_inside(c, inner));
    *to_cell(c, out, place) = most;
}

static void reduce_max(const run *r, const layer *l, range rows, range columns)
{
    for_each_fold(r, l, rows, columns, max_fold);
}

static void min_fold(const cube *c, const view *in, const view *out, const int32_t *place)
{
    int32_t inner[3];
    element least;
    begin_fold(c, place, inner);
    least = *from_cell(c, in, inner);
    do {
        element value = *from_cell(c, in, inner);
        least = value < least ? value : least;
    } while (next_inside(c, inner));
    *to_cell(c, out, place) = least;
}

static void reduce_min(const run *r, const layer *l, range rows, range columns)
{
    for_each_fold(r, l, rows, columns, min_fold);
}

static void l2_fold(const cube *c, const view *in, const view *out, const int32_t *place)
{
    int32_t inner[3];
    element sum = 0;
    begin_fold(c, place, inner);
    do {
        sum += *from_cell(c, in, inner) * *from_cell(c, in, inner);
    } while (next_inside(c, inner));
    *to_cell(c, out, place) = sqrtf(sum);
}

static void reduce_l2(const run *r, const layer *l, range rows, range columns)
{
    for_each_fold(r, l, rows, columns, l2_fold);
}

/* Product over the last axis of the first input with the last but one of the second input, or of a
   constant. Axes: batch, rows, columns. */
typedef struct {
    int32_t batches, rows, inner, columns;
    int32_t left_steps[3], left_is_map, right_steps[3], right_is_map, to_steps[3], to_is_map;
    const element *values;
} product;

static void multiply_matrices(const run *r, const layer *l, range rows, range columns)
{
    const product *p = l->parameters;
    view left = input_view(r, l, 0), out = output_view(r, l);
    view right = p->values ? left : input_view(r, l, 1);
    int32_t first = p->to_is_map ? rows.first : 0, end = p->to_is_map ? rows.end : p->rows;
    int32_t at[3], k;
    for (at[0] = 0; at[0] < p->batches; at[0]++) {
        for (at[1] = first; at[1] < end; at[1]++) {
            for (at[2] = 0; at[2] < p->columns; at[2]++) {
                element sum = 0;
                for (k = 0; k < p->inner; k++) {
                    int32_t one[3], other[3];
                    one[0] = other[0] = at[0];
                    one[1] = at[1];
                    one[2] = other[1] = k;
                    other[2] = at[2];
                    sum += *cell_at(&left, p->left_is_map, p->left_steps, one) *
                           (p->values ? p->values[k * p->columns + at[2]]
                                      : *cell_at(&right, p->right_is_map, p->right_steps, other));
                }
                *cell_at(&out, p->to_is_map, p->to_steps, at) = sum;
            }
        }
    }
    finish_region(l, &out, rows, columns);
}
