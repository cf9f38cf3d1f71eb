/* Computes some columns of a row of the result, `at` the first of them. */
typedef void (*making)(const void *, const view *left, const view *right, const view *out,
                       const int32_t *at);

/* Whether elements along the last axis are contiguous. */
static int is_dense(const int32_t *steps, int32_t is_map)
{
    return !is_map && (steps[2] == 1);
}

static void multiply_rows(const run *r, const layer *l, range rows, range columns, making make)
{
    const axes_of_product *p = l->parameters;
    view left = input_view(r, l, 0);
    view out = output_view(r, l);
    view right = (l->input_count > 1) ? input_view(r, l, 1) : left;
    int32_t first = p->to_is_map ? rows.first : 0;
    int32_t end = p->to_is_map ? rows.end : p->rows;
    int32_t at[3];
    at[2] = 0;
    for (at[0] = 0; at[0] < p->batches; at[0]++) {
        for (at[1] = first; at[1] < end; at[1]++) {
            make(p, &left, &right, &out, at);
        }
    }
    finish_region(l, &out, rows, columns);
}

typedef struct {
    axes_of_product axes; /* first, as for all products */
    const trained *values;
    scaling to;
} trained_product;

/* Compute a row of the result; contiguous values are multiplied as in a fully connected layer. */
static void multiply_row(const void *numbers, const view *left, const view *right, const view *out,
                         const int32_t *from)
{
    const trained_product *t = numbers;
    const axes_of_product *p = &t->axes;
    int32_t at[3];
    int32_t k;
    range all = {0, 0};
    (void)right;
    at[0] = from[0];
    at[1] = from[1];
    if (is_dense(p->left_steps, p->left_is_map) && is_dense(p->to_steps, p->to_is_map)) {
        const element *row = left_cell(p, left, from, 0);
        const bias_sum *begin = t->to.bias;
        patch under = row_patch(&row, t->to.zero_in, p->inner, p->inner);
#if defined(HELIUM) && !WEIGHTS_HAVE_ZEROS
        if (t->to.folded != NULL) {
            begin = t->to.folded;
            under.zero = 0;
        }
#endif
        all.end = p->columns;
        all.first = make_filters(result_cell(p, out, from), &under, t->values, &t->to, begin, all);
    }
    for (at[2] = all.first; at[2] < p->columns; at[2]++) {
        const trained *with = t->values + (at[2] * p->inner);
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
    int32_t zero[2];
    int32_t zero_out;
    int32_t multiplier;
    int32_t exponent;
} product_of_two;

static void multiply_two(const void *numbers, const view *left, const view *right, const view *out,
                         const int32_t *from)
{
    const product_of_two *t = numbers;
    const axes_of_product *p = &t->axes;
    int32_t at[3];
    int32_t k;
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

/* Attention between integers: a token and head with its keys or values. Scores are products with
   keys, row by row of the second input; values are sums over its rows, each times a score. */
typedef struct {
    attention at;
    int32_t sums_rows;
    int32_t zero[2];
} attending;

typedef struct {
    const attending *numbers;
    const element *left;
    const view *right;
    /* sums of the first factors, and of their sizes */
    int32_t first;
    int32_t head;
    int32_t inner;
    int32_t all;
    int32_t sizes;
} meeting;

typedef void (*storing)(const meeting *, int32_t result, int32_t sum, element *to);

static int32_t first_factor(const meeting *m, int32_t k)
{
    return m->left[k] - m->numbers->zero[0];
}

static int32_t other_factor(const meeting *m, int32_t result, int32_t k)
{
    int32_t row = m->numbers->sums_rows ? k : result;
    int32_t position = m->numbers->sums_rows ? result : k;
    return head_at(m->right, m->first + row, m->head, m->numbers->at.width)[position] -
           m->numbers->zero[1];
}

static void begin_meeting(meeting *m)
{
    int32_t k;
    m->sizes = 0;
    m->all = 0;
    for (k = 0; k < m->inner; k++) {
        int32_t value = first_factor(m, k);
        m->all += value;
        m->sizes += (value < 0) ? -value : value;
    }
}

/* Add products of some results that follow one another, with the second factors as they are stored. */
static void add_meetings(const meeting *m, int32_t result, int32_t count, int32_t *sums)
{
    const attending *a = m->numbers;
    int32_t k;
    int32_t i;
    for (k = 0; a->sums_rows && (k < m->inner); k++) {
        const element *other = head_at(m->right, m->first + k, m->head, a->at.width) + result;
        int32_t value = first_factor(m, k);
        for (i = 0; i < count; i++) {
            sums[i] += value * other[i];
        }
    }
    for (i = 0; !a->sums_rows && (i < count); i++) {
        const element *other = head_at(m->right, m->first + result + i, m->head, a->at.width);
        for (k = 0; k < m->inner; k++) {
            sums[i] += first_factor(m, k) * other[k];
        }
    }
}

static void attend(const run *r, const layer *l, range rows, range columns, storing store_sum)
{
    const attending *a = l->parameters;
    view left = input_view(r, l, 0);
    view right = input_view(r, l, 1);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t i;
    int32_t done;
    int32_t count;
    int32_t results = a->sums_rows ? a->at.width : a->at.keys;
    meeting m;
    m.numbers = a;
    m.right = &right;
    m.inner = a->sums_rows ? a->at.keys : a->at.width;
    for (y = rows.first; y < rows.end; y++) {
        m.first = y / a->at.tokens * a->at.keys;
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            m.head = x;
            m.left = head_at(&left, y, x, a->sums_rows ? 0 : a->at.width);
            begin_meeting(&m);
            for (done = 0; done < results; done += count) {
                int32_t sums[LANES] = {0};
                count = smaller(results - done, LANES);
                add_meetings(&m, done, count, sums);
                for (i = 0; i < count; i++) {
                    store_sum(&m, done + i, sums[i] - (m.all * a->zero[1]), to + done + i);
                }
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

typedef struct {
    attending numbers; /* first, as for all attention */
    int32_t zero_out;
    int32_t multiplier;
    int32_t exponent;
} attending_in_fixed;

static void store_rescaled(const meeting *m, int32_t result, int32_t sum, element *to)
{
    const attending_in_fixed *a = (const attending_in_fixed *)(const void *)m->numbers;
    (void)result;
    *to = stored(rescaled(sum, a->multiplier, a->exponent) + a->zero_out);
}

LAYER(attend_in_integers, attend, store_rescaled)
