/* An average under a window, with another scale. */
typedef struct {
    pooling windows;
    averaging to;
} scaled_pooling;

static void scaled_under(const void *numbers, const receptive_field *field, element *to, range channels)
{
    const scaled_pooling *s = numbers;
    int32_t i;
    int32_t j;
    int32_t k;
    int32_t many = averaged_pixels(&s->windows, field);
    for (k = 0; k < (channels.end - channels.first); k++) {
        int32_t sum = 0;
        for (i = field->down.first; i < field->down.end; i++) {
            for (j = field->across.first; j < field->across.end; j++) {
                sum += field->rows[i][column_under(field, j) + k] - s->to.zero_in;
            }
        }
        to[k] = mean_in_steps(sum, many, &s->to);
    }
}

LAYER(pool_scaled, each_window_all_channels, scaled_under)

LAYER(pool_scaled_share, share_windows, scaled_under)

/* Real numbers times a factor of their channel, plus an offset of it. Without offsets only negative
   numbers are multiplied, and nothing is added. */
typedef struct {
    const float *factors;
    const float *offsets;
    float given;
    float result;
    int32_t zero_in;
    int32_t zero_out;
} changing;

static void change_cell(const void *numbers, const element *from, element *to, int32_t count,
                        int32_t channel)
{
    const changing *p = numbers;
    int32_t c;
    for (c = 0; c < count; c++) {
        float value = real_of(from[c] - p->zero_in, p->given);
        if (p->offsets != NULL) {
            value = rounded(value * p->factors[channel + c]);
            value = rounded(value + p->offsets[channel + c]);
        } else if (value < 0) {
            value = rounded(value * p->factors[channel + c]);
        }
        to[c] = stored_real(value, p->result, p->zero_out);
    }
}

LAYER(change_region, make_places, change_cell)

LAYER(change_share, share_places, change_cell)

/* An operand: integers, or constant real numbers. */
typedef struct {
    operand at;
    const float *reals;
    float scale;
    int32_t zero;
} real_operand;

enum { REAL_SUM, REAL_DIFFERENCE, REAL_PRODUCT, REAL_QUOTIENT, REAL_LARGEST, REAL_LEAST };

typedef struct {
    real_operand each[2];
    int32_t pixels;
    int32_t kind;
    float scale;
    int32_t zero;
} joining_reals;

static float operand_value(const real_operand *o, const element *pixel, const float *given,
                           int32_t channel)
{
    if (given != NULL) {
        return given[channel * o->at.channel];
    }
    return real_of(pixel[channel * o->at.channel] - o->zero, o->scale);
}

static float of_two_reals(int32_t kind, float one, float other)
{
    switch (kind) {
    case REAL_SUM:
        return one + other;
    case REAL_DIFFERENCE:
        return one - other;
    case REAL_PRODUCT:
        return one * other;
    case REAL_QUOTIENT:
        return one / other;
    case REAL_LARGEST:
        return (one > other) ? one : other;
    default:
        return (one < other) ? one : other;
    }
}

static void combine_in_single(const run *r, const layer *l, range rows, range columns)
{
    const joining_reals *p = l->parameters;
    view whole = output_view(r, l);
    view out = whole;
    view in[2];
    range all = columns;
    int32_t y;
    int32_t x;
    int32_t c;
    for (c = 0; c < 2; c++) {
        in[c] = p->each[c].reals ? out : input_view(r, l, p->each[c].at.input);
    }
    cut_row(&out, &columns, p->pixels);
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            const element *pixel[2] = {NULL, NULL};
            const float *given[2] = {NULL, NULL};
            for (c = 0; c < 2; c++) {
                const real_operand *o = &p->each[c];
                if (o->reals != NULL) {
                    given[c] = o->reals + (y * o->at.row) + (x * o->at.column);
                } else {
                    pixel[c] = operand_at(&o->at, &in[c], y, x);
                }
            }
            for (c = 0; c < out.channels; c++) {
                float one = operand_value(&p->each[0], pixel[0], given[0], c);
                float other = operand_value(&p->each[1], pixel[1], given[1], c);
                to[c] = stored_real(rounded(of_two_reals(p->kind, one, other)), p->scale, p->zero);
            }
        }
    }
    finish_region(l, &whole, rows, all);
}

/* powers: e ** -(scale * n) for an integer that is n below the largest. */
typedef struct {
    cube axes; /* first, as for all functions over axes */
    const int32_t *powers;
    float scale;
    int32_t zero;
} sharing_by_table;

static void share_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                       range rows)
{
    const sharing_by_table *s = (const sharing_by_table *)(const void *)c;
    int32_t inner[3];
    int32_t most;
    uint64_t sum = 0;
    begin_fold(c, index, inner);
    most = largest_inside(c, in, inner);
    do {
        sum += (uint32_t)s->powers[most - *from_cell(c, in, inner)];
    } while (next_inside(c, inner) != 0);
    do {
        float power = (float)s->powers[most - *from_cell(c, in, inner)];
        if (is_wanted(rows, inner) != 0) {
            *to_cell(c, out, inner) = stored_real(rounded(power / (float)sum), s->scale, s->zero);
        }
    } while (next_inside(c, inner) != 0);
}

LAYER(share_by_table, for_each_fold, share_fold)

/* Single-precision numbers take several elements each. */
typedef struct {
    float scale;
    int32_t zero;
} rounding;

static void round_cell(const void *numbers, const element *from, element *to, int32_t count,
                       int32_t channel)
{
    const rounding *p = numbers;
    int32_t c;
    (void)channel;
    for (c = 0; c < count; c++) {
        to[c] = stored_real(real_at(from, c), p->scale, p->zero);
    }
}

LAYER(round_region, make_rows, round_cell)

static void widen_cell(const void *numbers, const element *from, element *to, int32_t count,
                       int32_t channel)
{
    const rounding *p = numbers;
    int32_t c;
    (void)channel;
    for (c = 0; c < count; c++) {
        store_real(to, c, real_of(from[c] - p->zero, p->scale));
    }
}

LAYER(widen_region, make_reals, widen_cell)

/* Requantise integers: as real numbers, then rounded. */
typedef struct {
    float given;
    float result;
    int32_t zero_in;
    int32_t zero_out;
} restating;

static void restate_cell(const void *numbers, const element *from, element *to, int32_t count,
                         int32_t channel)
{
    const restating *p = numbers;
    int32_t c;
    (void)channel;
    for (c = 0; c < count; c++) {
        to[c] = stored_real(real_of(from[c] - p->zero_in, p->given), p->result, p->zero_out);
    }
}

LAYER(restate_region, make_rows, restate_cell)

/* The requantised value of each of the 256 integers, for a layer that moves elements. */
static void step_look_up(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        v[i] = s->values[v[i] + 128];
    }
}
