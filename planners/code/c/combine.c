/* An elementwise function of several operands, with the strides of each. */
typedef struct {
    element (*of)(element, element);
    int32_t operands;
    int32_t is_mean;
    int32_t pixels;
    const operand *each;
} combining;

static element first_of_two(element one, element other)
{
    (void)one;
    return other;
}

/* Apply a function to operands a and b; without a, to the result so far and b. */
static void combine_two(const run *r, const layer *l, const operand *a, const operand *b,
                        const view *out, range rows, range columns,
                        element (*of)(element, element))
{
    view one = (a && !a->values) ? input_view(r, l, a->input) : *out;
    view other = b->values ? *out : input_view(r, l, b->input);
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t stride = a ? a->channel : 1;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(out, y) + column_at(out, x);
            const element *before = a ? operand_at(a, &one, y, x) : to;
            const element *with = operand_at(b, &other, y, x);
            for (c = 0; c < out->channels; c++) {
                to[c] = of(before[c * stride], with[c * b->channel]);
            }
        }
    }
}

/* The result may overwrite the first or second operand, which are read together. */
static void combine(const run *r, const layer *l, range rows, range columns)
{
    const combining *p = l->parameters;
    view whole = output_view(r, l);
    view out = whole;
    range all = columns;
    int32_t number;
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t has_two = p->operands > 1;
    cut_row(&out, &columns, p->pixels);
    combine_two(r, l, &p->each[0], &p->each[has_two], &out, rows, columns,
                has_two ? p->of : first_of_two);
    for (number = 2; number < p->operands; number++) {
        combine_two(r, l, NULL, &p->each[number], &out, rows, columns, p->of);
    }
    for (y = rows.first; p->is_mean && (y < rows.end); y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                to[c] /= (element)p->operands;
            }
        }
    }
    finish_region(l, &whole, rows, all);
}

/* Define a function of two elements. */
#define OF_TWO(name, value) \
    static element name(element one, element other) \
    { \
        return value; \
    }

/* The remainder of a division that rounds down, with the sign of the divisor. */
static element floor_modulo(element one, element other)
{
    element rest = fmodf(one, other);
    return ((rest != 0) && ((rest < 0) != (other < 0))) ? (rest + other) : rest;
}

OF_TWO(add, one + other)
OF_TWO(mean, one + other)
OF_TWO(subtract, one - other)
OF_TWO(multiply, one * other)
OF_TWO(divide, one / other)
OF_TWO(floor_divide, (element)floor((double)one / (double)other))
OF_TWO(squared_difference, (one - other) * (one - other))
OF_TWO(maximum, (other > one) ? other : one)
OF_TWO(minimum, (other < one) ? other : one)
OF_TWO(power, powf(one, other))
OF_TWO(arc_tangent, atan2f(one, other))
OF_TWO(greater, (one > other) ? 1.0f : 0.0f)
OF_TWO(greater_or_equal, (one >= other) ? 1.0f : 0.0f)
OF_TWO(less, (one < other) ? 1.0f : 0.0f)
OF_TWO(less_or_equal, (one <= other) ? 1.0f : 0.0f)
OF_TWO(equal, (one == other) ? 1.0f : 0.0f)
OF_TWO(not_equal, (one != other) ? 1.0f : 0.0f)
OF_TWO(and, ((one != 0) && (other != 0)) ? 1.0f : 0.0f)
OF_TWO(or, ((one != 0) || (other != 0)) ? 1.0f : 0.0f)
OF_TWO(exclusive_or, ((one != 0) != (other != 0)) ? 1.0f : 0.0f)

static void extreme_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                         range rows)
{
    (void)rows;
    *to_cell(c, out, index) = (element)extreme_at(c, in, index);
}

LAYER(place_of_extreme, for_each_fold, extreme_fold)

/* Sums of all elements up to a position along an axis: with or without its own, from either end. */
typedef struct {
    cube axes; /* first, as for all functions over axes */
    int32_t axis;
    int32_t is_exclusive;
    int32_t is_reversed;
} running;

static void running_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                         range rows)
{
    const running *u = (const running *)(const void *)c;
    int32_t inner[3];
    int32_t number;
    int32_t count = c->sizes[u->axis];
    element sum = 0;
    begin_fold(c, index, inner);
    for (number = 0; number < count; number++) {
        element value;
        inner[u->axis] = u->is_reversed ? (count - 1 - number) : number;
        value = *from_cell(c, in, inner);
        if (is_wanted(rows, inner) != 0) {
            *to_cell(c, out, inner) = u->is_exclusive ? sum : (sum + value);
        }
        sum += value;
    }
}

LAYER(running_sum, for_each_fold, running_fold)

/* The largest or smallest elements along an axis in their order, or their positions. */
typedef struct {
    cube axes; /* first, as for all functions over axes */
    int32_t axis;
    int32_t count;
    int32_t is_smallest;
    int32_t gives_places;
} ranking;

static void ranking_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                         range rows)
{
    const ranking *k = (const ranking *)(const void *)c;
    int32_t inner[3];
    int32_t to[3];
    int32_t rank;
    int32_t number;
    int32_t before = -1;
    element last = 0;
    begin_fold(c, index, inner);
    begin_fold(c, index, to);
    for (rank = 0; rank < k->count; rank++) {
        int32_t found = -1;
        element best = 0;
        for (number = 0; number < c->sizes[k->axis]; number++) {
            element value;
            int32_t is_behind;
            int32_t is_better;
            inner[k->axis] = number;
            value = *from_cell(c, in, inner);
            is_behind = (rank == 0) || (k->is_smallest ? (value > last) : (value < last)) ||
                        ((value == last) && (number > before));
            is_better = (found < 0) || (k->is_smallest ? (value < best) : (value > best));
            if (is_behind && is_better) {
                found = number;
                best = value;
            }
        }
        to[k->axis] = rank;
        if (is_wanted(rows, to) != 0) {
            *to_cell(c, out, to) = k->gives_places ? (element)found : best;
        }
        last = best;
        before = found;
    }
}

LAYER(rank_elements, for_each_fold, ranking_fold)

/* The second operand where the first is not zero, else the third. */
static void choose(const run *r, const layer *l, range rows, range columns)
{
    const combining *p = l->parameters;
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t number;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                element found[3];
                for (number = 0; number < 3; number++) {
                    const operand *o = &p->each[number];
                    view in = o->values ? out : input_view(r, l, o->input);
                    found[number] = operand_at(o, &in, y, x)[c * o->channel];
                }
                to[c] = (found[0] != 0) ? found[1] : found[2];
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

static element sum_of_powers(const cube *c, const view *in, int32_t *inner, element most)
{
    element sum = 0;
    do {
        sum += expf(*from_cell(c, in, inner) - most);
    } while (next_inside(c, inner) != 0);
    return sum;
}

static void softmax_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                         range rows)
{
    int32_t inner[3];
    element most;
    element sum;
    begin_fold(c, index, inner);
    most = largest_inside(c, in, inner);
    sum = sum_of_powers(c, in, inner, most);
    do {
        if (is_wanted(rows, inner) != 0) {
            *to_cell(c, out, inner) = expf(*from_cell(c, in, inner) - most) / sum;
        }
    } while (next_inside(c, inner) != 0);
}

LAYER(softmax, for_each_fold, softmax_fold)

static void log_softmax_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                             range rows)
{
    int32_t inner[3];
    element most;
    element sum;
    begin_fold(c, index, inner);
    most = largest_inside(c, in, inner);
    sum = sum_of_powers(c, in, inner, most);
    sum = logf(sum);
    do {
        if (is_wanted(rows, inner) != 0) {
            *to_cell(c, out, inner) = *from_cell(c, in, inner) - most - sum;
        }
    } while (next_inside(c, inner) != 0);
}

LAYER(log_softmax, for_each_fold, log_softmax_fold)

/* Mean zero and variance one, then scaled and shifted. */
static void standardise_fold(const cube *c, const view *in, const view *out, const int32_t *index,
                             range rows)
{
    int32_t inner[3];
    element average = 0;
    element variance = 0;
    element count = (element)folded_count(c);
    begin_fold(c, index, inner);
    do {
        average += *from_cell(c, in, inner);
    } while (next_inside(c, inner) != 0);
    average /= count;
    do {
        element value = *from_cell(c, in, inner) - average;
        variance += value * value;
    } while (next_inside(c, inner) != 0);
    variance = sqrtf((variance / count) + c->epsilon);
    do {
        int32_t at = (inner[0] * c->scale_steps[0]) + (inner[1] * c->scale_steps[1]) +
                     (inner[2] * c->scale_steps[2]);
        element value = (*from_cell(c, in, inner) - average) / variance * c->scale[at];
        if (is_wanted(rows, inner) != 0) {
            *to_cell(c, out, inner) = value + (c->shift ? c->shift[at] : 0);
        }
    } while (next_inside(c, inner) != 0);
}

LAYER(standardise, for_each_fold, standardise_fold)

/* Define a reduction over axes: `found` is `start` at first, then `next` for each value; the result
   is `result`. */
#define FOLD(name, start, next, result) \
    static void name(const cube *c, const view *in, const view *out, const int32_t *index, \
                     range rows) \
    { \
        int32_t inner[3]; \
        element found; \
        (void)rows; \
        begin_fold(c, index, inner); \
        found = start; \
        do { \
            element value = *from_cell(c, in, inner); \
            found = next; \
        } while (next_inside(c, inner)); \
        *to_cell(c, out, index) = result; \
    }

FOLD(sum_fold, 0, found + value, found)
FOLD(mean_fold, 0, found + value, found / (element)folded_count(c))
FOLD(max_fold, LEAST, (value > found) ? value : found, found)
FOLD(min_fold, *from_cell(c, in, inner), (value < found) ? value : found, found)
FOLD(l2_fold, 0, found + (value * value), sqrtf(found))

LAYER(reduce_sum, for_each_fold, sum_fold)

LAYER(reduce_mean, for_each_fold, mean_fold)

LAYER(reduce_max, for_each_fold, max_fold)

LAYER(reduce_min, for_each_fold, min_fold)

LAYER(reduce_l2, for_each_fold, l2_fold)

/* A product of real numbers, to which a bias of each column may be added. */
typedef struct {
    axes_of_product axes; /* first, as for all products */
    real_weights values;
    const element *bias;
} product;

static void multiply_matrices(const run *r, const layer *l, range rows, range columns)
{
    const product *m = l->parameters;
    const axes_of_product *p = &m->axes;
    view left = input_view(r, l, 0);
    view out = output_view(r, l);
    view right = (l->input_count > 1) ? input_view(r, l, 1) : left;
    int32_t first = p->to_is_map ? rows.first : 0;
    int32_t end = p->to_is_map ? rows.end : p->rows;
    int32_t at[3];
    int32_t k;
    for (at[0] = 0; at[0] < p->batches; at[0]++) {
        for (at[1] = first; at[1] < end; at[1]++) {
            for (at[2] = 0; at[2] < p->columns; at[2]++) {
                element sum = m->bias ? m->bias[at[2]] : 0;
                for (k = 0; k < p->inner; k++) {
                    sum += *left_cell(p, &left, at, k) *
                           ((l->input_count > 1) ? *right_cell(p, &right, at, k)
                                                 : weight_at(m->values, (k * p->columns) + at[2]));
                }
                *result_cell(p, &out, at) = sum;
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* The products of the query of a token and head with its keys. */
static void attention_scores(const run *r, const layer *l, range rows, range columns)
{
    const attention *a = l->parameters;
    view query = input_view(r, l, 0);
    view key = input_view(r, l, 1);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t j;
    int32_t i;
    for (y = rows.first; y < rows.end; y++) {
        int32_t first = y / a->tokens * a->keys;
        for (x = columns.first; x < columns.end; x++) {
            const element *one = head_at(&query, y, x, a->width);
            element *to = row_at(&out, y) + column_at(&out, x);
            for (j = 0; j < a->keys; j++) {
                const element *other = head_at(&key, first + j, x, a->width);
                element sum = 0;
                for (i = 0; i < a->width; i++) {
                    sum += one[i] * other[i];
                }
                to[j] = sum;
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* The sum of the values of a head, each multiplied by its score. */
static void attention_values(const run *r, const layer *l, range rows, range columns)
{
    const attention *a = l->parameters;
    view scores = input_view(r, l, 0);
    view value = input_view(r, l, 1);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t j;
    int32_t i;
    for (y = rows.first; y < rows.end; y++) {
        int32_t first = y / a->tokens * a->keys;
        for (x = columns.first; x < columns.end; x++) {
            const element *score = row_at(&scores, y) + column_at(&scores, x);
            element *to = row_at(&out, y) + column_at(&out, x);
            for (i = 0; i < a->width; i++) {
                to[i] = 0;
            }
            for (j = 0; j < a->keys; j++) {
                const element *other = head_at(&value, first + j, x, a->width);
                for (i = 0; i < a->width; i++) {
                    to[i] += score[j] * other[i];
                }
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Rows of a table by their numbers, negative ones from its end on; beyond its ends that of the end.
   integers: the table as int8, or NULL; scales: of these, one, or one for each row. */
typedef struct {
    int32_t entries;
    real_weights table;
    const int8_t *integers;
    const float *scales;
    int32_t by_row;
} real_embedding;

static void look_up_rows(const run *r, const layer *l, range rows, range columns)
{
    const real_embedding *e = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            int32_t number = (int32_t)row_at(&in, y)[column_at(&in, x)];
            int32_t position = counted_from_ends(number, e->entries);
            int32_t first = position * out.channels;
            if (e->integers == NULL) {
                for (c = 0; c < out.channels; c++) {
                    to[c] = weight_at(e->table, first + c);
                }
            } else {
                float scale = e->scales[(e->by_row != 0) ? position : 0];
                for (c = 0; c < out.channels; c++) {
                    to[c] = (float)e->integers[first + c] * scale;
                }
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Gates of an LSTM: in, out, forget, new; of a GRU: update, reset, new. gives: the output is the
   whole sequence, the last state, or the last cell. */
enum { LSTM, GRU, PLAIN };
enum { GIVES_ALL, GIVES_LAST, GIVES_CELL };

/* The steps of a sequence in one direction or in both. limit: largest magnitude of a cell. */
typedef struct {
    int32_t kind;
    int32_t gives;
    int32_t resets_after;
    int32_t gates;
    int32_t units;
    int32_t frames;
    int32_t sequences;
    int32_t elements;
    int32_t directions;
    int32_t is_backward[2];
    real_weights matrix;
    real_weights recurrent;
    const element *bias;
    const element *state;
    const element *cell;
    element limit;
    int32_t inputs[2]; /* of state and cell, where they come in; 0 where not */
} recurrence;

/* The sums of gates, by rows of the matrices: of the input with its bias, of the state with its
   bias. */
static element entering(const recurrence *p, const view *in, int32_t direction, int32_t sequence,
                        int32_t frame, int32_t row)
{
    int32_t all = p->gates * p->units;
    int32_t at = (direction * all) + row;
    int32_t i;
    element sum = p->bias ? p->bias[(direction * 2 * all) + row] : 0;
    for (i = 0; i < p->elements; i++) {
        sum += weight_at(p->matrix, (at * p->elements) + i) *
               row_at(in, sequence)[column_at(in, i) + frame];
    }
    return sum;
}

static element returning(const recurrence *p, int32_t direction, int32_t row,
                         const element *hidden, const element *share)
{
    int32_t all = p->gates * p->units;
    int32_t at = (direction * all) + row;
    int32_t i;
    element sum = p->bias ? p->bias[(direction * 2 * all) + all + row] : 0;
    for (i = 0; i < p->units; i++) {
        sum += weight_at(p->recurrent, (at * p->units) + i) *
               (share ? (share[i] * hidden[i]) : hidden[i]);
    }
    return sum;
}

static element sigmoid(element x)
{
    return (tanhf(x * 0.5f) * 0.5f) + 0.5f;
}

/* The next state; gates: room for the sums of all gates. */
static void recur_once(const recurrence *p, const view *in, int32_t direction, int32_t sequence,
                       int32_t frame, element *hidden, element *cell, element *gates)
{
    int32_t u;
    int32_t row;
    int32_t n = p->units;
    int32_t plain = (p->kind == GRU) ? (2 * n) : (p->gates * n);
    for (row = 0; row < plain; row++) {
        gates[row] = entering(p, in, direction, sequence, frame, row) +
                     returning(p, direction, row, hidden, NULL);
        gates[row] = ((p->kind == PLAIN) || (row >= (3 * n))) ? tanhf(gates[row]) : sigmoid(gates[row]);
    }
    for (u = 0; (p->kind == GRU) && (u < n); u++) {
        element back = returning(p, direction, (2 * n) + u, hidden,
                                 p->resets_after ? NULL : (gates + n));
        gates[(2 * n) + u] = tanhf(entering(p, in, direction, sequence, frame, (2 * n) + u) +
                                 ((p->resets_after ? gates[n + u] : 1) * back));
    }
    for (u = 0; u < n; u++) {
        if (p->kind == LSTM) {
            cell[u] = (gates[(2 * n) + u] * cell[u]) + (gates[u] * gates[(3 * n) + u]);
            cell[u] = (cell[u] > p->limit) ? p->limit : (cell[u] < -p->limit) ? -p->limit : cell[u];
            hidden[u] = gates[n + u] * tanhf(cell[u]);
        } else if (p->kind == GRU) {
            hidden[u] = ((1 - gates[u]) * gates[(2 * n) + u]) + (gates[u] * hidden[u]);
        } else {
            hidden[u] = gates[u];
        }
    }
}

/* The initial value of a state or cell. */
static element first_state(const run *r, const layer *l, int32_t input, const element *values,
                           const int32_t *at)
{
    const recurrence *p = l->parameters;
    if (input != 0) {
        view in = input_view(r, l, input);
        return row_at(&in, at[1])[column_at(&in, at[2]) + at[0]];
    }
    return values ? values[(((at[0] * p->sequences) + at[1]) * p->units) + at[2]] : 0;
}

static void recur(const run *r, const layer *l, range rows, range columns)
{
    const recurrence *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *hidden = (element *)(void *)r->scratch;
    element *cell = hidden + p->units;
    element *gates = cell + p->units;
    int32_t first = (p->gives == GIVES_ALL) ? 0 : rows.first;
    int32_t end = (p->gives == GIVES_ALL) ? p->sequences : rows.end;
    int32_t d;
    int32_t s;
    int32_t pass;
    int32_t u;
    for (d = 0; d < p->directions; d++) {
        for (s = first; s < end; s++) {
            for (u = 0; u < p->units; u++) {
                int32_t at[3];
                at[0] = d;
                at[1] = s;
                at[2] = u;
                hidden[u] = first_state(r, l, p->inputs[0], p->state, at);
                cell[u] = first_state(r, l, p->inputs[1], p->cell, at);
            }
            for (pass = 0; pass < p->frames; pass++) {
                int32_t frame = p->is_backward[d] ? (p->frames - 1 - pass) : pass;
                recur_once(p, &in, d, s, frame, hidden, cell, gates);
                for (u = 0; (p->gives == GIVES_ALL) && (u < p->units); u++) {
                    int32_t position = (((frame * p->directions) + d) * p->sequences) + s;
                    row_at(&out, 0)[(position * p->units) + u] = hidden[u];
                }
            }
            for (u = 0; (p->gives != GIVES_ALL) && (u < p->units); u++) {
                row_at(&out, s)[column_at(&out, u) + d] =
                    (p->gives == GIVES_CELL) ? cell[u] : hidden[u];
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

enum { COORDINATE = 1 }; /* slots of a coordinate */

static float real_at(const element *pixel, int32_t number)
{
    return pixel[number];
}

static void store_real(element *pixel, int32_t number, float value)
{
    pixel[number] = value;
}

/* A number of an input; of integers scale and zero point count. */
static float number_at(const element *pixel, int32_t number, float scale, int32_t zero)
{
    (void)scale;
    (void)zero;
    return pixel[number];
}
