/* A gate of an integer LSTM. Its argument is the sum of two matrix products, of the input (with bias)
   and of the previous output; each product is rescaled to steps of 1 / 4096. */
typedef struct {
    const trained *matrix;
    const trained *recurrent;
    const bias_sum *bias;
    int32_t multiplier;
    int32_t exponent;
    int32_t recurrent_multiplier;
    int32_t recurrent_exponent;
} lstm_gate;

/* An integer LSTM. gates: input, forget, cell candidate, output. limit: of the absolute cell state.
   multipliers, exponents: of the retained cell state, of the input gate times the candidate, and of
   the output. */
typedef struct {
    lstm_gate gates[4];
    curve tanh_table;
    int32_t units;
    int32_t frames;
    int32_t elements;
    int32_t zero_in;
    int32_t zero_out;
    int32_t limit;
    int32_t multipliers[3];
    int32_t exponents[3];
} lstm;

/* Saturated to int16. */
static int32_t saturated_int16(int32_t value)
{
    return (value < -32768) ? -32768 : (value > 32767) ? 32767 : value;
}

/* Cell states of 16 bits are stored among int8 elements, without alignment. */
static int32_t load_cell(const element *state, int32_t unit)
{
    int16_t cell;
    (void)memcpy(&cell, state + (2 * unit), sizeof cell);
    return cell;
}

static void store_cell(element *state, int32_t unit, int32_t value)
{
    int16_t cell = (int16_t)value;
    (void)memcpy(state + (2 * unit), &cell, sizeof cell);
}

/* The argument of a gate for a block of units. previous: output of the previous frame; NULL in the
   first frame. */
static void sum_gate(const lstm *p, const lstm_gate *g, const element *from, const element *previous,
                     int32_t first, int32_t block, int32_t *sums)
{
    int32_t recurrent_sums[BLOCK] = {0, 0, 0, 0};
    int32_t i;
    begin_sums(sums, g->bias, first, block);
    add_row(sums, from, p->zero_in, g->matrix + (first * p->elements), p->elements, block,
            p->elements);
    if (previous != NULL) {
        add_row(recurrent_sums, previous, p->zero_out, g->recurrent + (first * p->units), p->units,
                block, p->units);
    }
    for (i = 0; i < block; i++) {
        int32_t sum = saturated_int16(rescaled(sums[i], g->multiplier, g->exponent));
        sum += saturated_int16(rescaled(recurrent_sums[i], g->recurrent_multiplier,
                                  g->recurrent_exponent));
        sums[i] = 3 * saturated_int16(sum);
    }
}

static int32_t next_cell(const lstm *p, int32_t cell, int32_t input, int32_t forget,
                         int32_t proposed)
{
    int32_t retained = sigmoid_at(&p->tanh_table, forget) * cell;
    int32_t added = sigmoid_at(&p->tanh_table, input) * tangent_at(&p->tanh_table, proposed);
    cell = saturated_int16(rescaled(retained, p->multipliers[0], p->exponents[0]));
    cell += saturated_int16(rescaled(added, p->multipliers[1], p->exponents[1]));
    return larger(smaller(saturated_int16(cell), p->limit), -p->limit);
}

/* Update the cell states of a block of units, and write their outputs. */
static void update_cells(const lstm *p, int32_t sums[][BLOCK], element *state, element *to,
                         int32_t first, int32_t block)
{
    int32_t i;
    for (i = 0; i < block; i++) {
        int32_t cell = load_cell(state, first + i);
        int32_t out;
        cell = next_cell(p, cell, sums[0][i], sums[1][i], sums[2][i]);
        store_cell(state, first + i, cell);
        out = curve_at(&p->tanh_table, cell) * sigmoid_at(&p->tanh_table, sums[3][i]);
        to[first + i] = stored(rescaled(out, p->multipliers[2], p->exponents[2]) + p->zero_out);
    }
}

/* One time step. previous: output of the previous step; NULL in the first step. */
static void step_lstm(const lstm *p, const element *from, const element *previous, element *state,
                      element *to)
{
    int32_t first;
    int32_t g;
    for (first = 0; first < p->units; first += BLOCK) {
        int32_t block = smaller(BLOCK, p->units - first);
        int32_t sums[4][BLOCK];
        for (g = 0; g < 4; g++) {
            sum_gate(p, &p->gates[g], from, previous, first, block, sums[g]);
        }
        update_cells(p, sums, state, to, first, block);
    }
}

static void lstm_frames(const run *r, const layer *l, range rows, range columns)
{
    const lstm *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    const element *from = row_at(&in, 0);
    const element *previous = NULL;
    element *to = row_at(&out, 0);
    int32_t frame;
    (void)memset(r->scratch, 0, (size_t)p->units * 2);
    for (frame = 0; frame < p->frames; frame++) {
        step_lstm(p, from, previous, r->scratch, to);
        previous = to;
        from += p->elements;
        to += p->units;
    }
    finish_region(l, &out, rows, columns);
}

/* The LSTM with state between inferences: the previous output, then the cell states. */
static void lstm_with_state(const run *r, const layer *l, range rows, range columns)
{
    const lstm *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *state = AT(r, l->buffer_offset);
    int32_t frame;
    int32_t y;
    for (y = rows.first; y < rows.end; y++) {
        const element *from = row_at(&in, y);
        element *to = row_at(&out, y);
        for (frame = 0; frame < p->frames; frame++) {
            step_lstm(p, from, state, state + p->units, to);
            copy_elements(state, to, p->units);
            from += p->elements;
            to += p->units;
        }
    }
    finish_region(l, &out, rows, columns);
}

/* SVDF: a filter over time of low rank, with `rank` features for each unit. The filter of a feature has
   `length` taps, the oldest first. The state contains all time steps but the newest, as int8 or, with
   is_wide, int16. least, most: limits of the state elements, which wrap around there. */
typedef struct {
    const trained *matrix;
    const int16_t *filters;
    const bias_sum *bias;
    int32_t units;
    int32_t rank;
    int32_t elements;
    int32_t zero_in;
    int32_t zero_state;
    int32_t zero_out;
    int32_t least;
    int32_t most;
    int32_t multiplier;
    int32_t exponent;
    int32_t out_multiplier;
    int32_t out_exponent;
    int32_t length;
    int32_t is_wide;
} svdf;

/* A feature as the state stores it, less the zero point. */
static int32_t feature_as_stored(const svdf *p, int32_t sum)
{
    int32_t feature = rescaled(sum, p->multiplier, p->exponent);
    int32_t values = p->most - p->least + 1;
    feature = larger(smaller(feature, p->most), p->least) + p->zero_state;
    feature = (feature > p->most) ? (feature - values)
              : (feature < p->least) ? (feature + values)
                                     : feature;
    return feature - p->zero_state;
}

static int32_t state_at(const svdf *p, const element *state, int32_t position)
{
    return p->is_wide ? load_cell(state, position) : state[position];
}

/* The dot product of a feature with its filter; then the state advances by one time step. */
static int64_t filter_feature(const svdf *p, element *state, const int16_t *taps, int32_t newest)
{
    int32_t position;
    int32_t past = p->length - 1;
    int32_t unit = p->is_wide ? 2 : 1;
    int64_t sum = (int64_t)taps[past] * newest;
    for (position = 0; position < past; position++) {
        sum += (int64_t)taps[position] * (state_at(p, state, position) - p->zero_state);
    }
    if (past != 0) {
        copy_elements(state, state + unit, (past - 1) * unit);
        if (p->is_wide != 0) {
            store_cell(state, past - 1, newest + p->zero_state);
        } else {
            state[past - 1] = (element)(newest + p->zero_state);
        }
    }
    return sum;
}

static void svdf_frame(const run *r, const layer *l, range rows, range columns)
{
    const svdf *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    const element *from = row_at(&in, 0);
    element *to = row_at(&out, 0);
    element *state = AT(r, l->buffer_offset);
    int64_t sum = 0;
    int32_t first;
    int32_t i;
    int32_t count = p->units * p->rank;
    for (first = 0; first < count; first += BLOCK) {
        int32_t block = smaller(BLOCK, count - first);
        int32_t sums[BLOCK];
        begin_sums(sums, NULL, 0, block);
        add_row(sums, from, p->zero_in, p->matrix + (first * p->elements), p->elements, block,
                p->elements);
        for (i = 0; i < block; i++) {
            int32_t feature = first + i;
            int32_t unit = feature / p->rank;
            sum += filter_feature(p, state + (feature * (p->length - 1) * (p->is_wide ? 2 : 1)),
                                  p->filters + (feature * p->length),
                                  feature_as_stored(p, sums[i]));
            if (((feature + 1) % p->rank) == 0) {
                sum += p->bias[unit];
                to[unit] = stored(rescaled((int32_t)sum, p->out_multiplier, p->out_exponent) +
                                  p->zero_out);
                sum = 0;
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* A dense layer over several time steps. weights[length][units][count], the oldest step first. */
typedef struct {
    int32_t units;
    int32_t length;
    int32_t count;
    const trained *weights;
    scaling to;
} time_matrix;

/* Complete the result of this time step, and add the input to the partial sums of later steps, which
   are state. */
static void dense_over_time(const run *r, const layer *l, range rows, range columns)
{
    const time_matrix *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    const element *values = row_at(&in, 0);
    element *state = AT(r, l->buffer_offset);
    element *pixel = row_at(&out, 0);
    int32_t later;
    int32_t unit;
    int32_t i;
    int32_t past = m->length - 1;
    (void)rows;
    (void)columns;
    for (later = 0; later <= past; later++) {
        const trained *weights = &m->weights[(past - later) * m->units * m->count];
        for (unit = 0; unit < m->units; unit++) {
            int32_t sum = (later < past) ? load(state, (later * m->units) + unit) : 0;
            for (i = 0; i < m->count; i++) {
                sum += (values[i] - m->to.zero_in) * *weights++;
            }
            if (later != 0) {
                store(state, ((later - 1) * m->units) + unit, sum);
            } else {
                total with_bias = (m->to.bias ? m->to.bias[unit] : 0) + sum;
                store_sums(&pixel[unit], &with_bias, &m->to, unit, 1);
            }
        }
    }
    finish(l, pixel, m->units, 0, 0);
}
