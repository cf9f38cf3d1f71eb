/* A gate of an LSTM of integers: what it adds up of the input, with its bias, and of what the LSTM
   gave before, each with a factor to steps of 1 / 4096. */
typedef struct {
    const trained *matrix;
    const trained *recurrent;
    const bias_sum *bias;
    int32_t multiplier;
    int32_t exponent;
    int32_t again_multiplier;
    int32_t again_exponent;
} gate;

/* gates: in, forget, new, out. bounds: tanh of a cell. Factors: of what a cell keeps, of what is new
   in it, of what it gives. */
typedef struct {
    gate gates[4];
    curve bounds;
    int32_t units;
    int32_t frames;
    int32_t elements;
    int32_t zero_in;
    int32_t zero_out;
    int32_t largest;
    int32_t multipliers[3];
    int32_t exponents[3];
} cells;

static int32_t as_short(int32_t value)
{
    return (value < -32768) ? -32768 : (value > 32767) ? 32767 : value;
}

/* Cells of 16 bits lie among elements, which begin anywhere. */
static int32_t cell_of(const element *kept, int32_t unit)
{
    int16_t found;
    (void)memcpy(&found, kept + (2 * unit), sizeof found);
    return found;
}

static void keep_cell(element *kept, int32_t unit, int32_t value)
{
    int16_t cell = (int16_t)value;
    (void)memcpy(kept + (2 * unit), &cell, sizeof cell);
}

/* What enters a gate of some units; before: NULL in the first frame. */
static void sum_gate(const cells *p, const gate *g, const element *from, const element *before,
                     int32_t first, int32_t block, int32_t *sums)
{
    int32_t again[BLOCK] = {0, 0, 0, 0};
    int32_t i;
    begin_sums(sums, g->bias, first, block);
    add_row(sums, from, p->zero_in, g->matrix + (first * p->elements), p->elements, block,
               p->elements);
    if (before != NULL) {
        add_row(again, before, p->zero_out, g->recurrent + (first * p->units), p->units, block,
                   p->units);
    }
    for (i = 0; i < block; i++) {
        int32_t sum = as_short(rescaled(sums[i], g->multiplier, g->exponent));
        sum += as_short(rescaled(again[i], g->again_multiplier, g->again_exponent));
        sums[i] = 3 * as_short(sum);
    }
}

static int32_t next_cell(const cells *p, int32_t cell, int32_t enters, int32_t forgets,
                         int32_t fresh)
{
    cell = as_short(rescaled(sigmoid_at(&p->bounds, forgets) * cell, p->multipliers[0],
                             p->exponents[0]));
    cell += as_short(rescaled(sigmoid_at(&p->bounds, enters) * tangent_at(&p->bounds, fresh),
                              p->multipliers[1], p->exponents[1]));
    return larger(smaller(as_short(cell), p->largest), -p->largest);
}

/* What some units give after a frame. */
static void give_cells(const cells *p, int32_t sums[][BLOCK], element *kept, element *to,
                       int32_t first, int32_t block)
{
    int32_t i;
    for (i = 0; i < block; i++) {
        int32_t cell = cell_of(kept, first + i);
        int32_t out;
        cell = next_cell(p, cell, sums[0][i], sums[1][i], sums[2][i]);
        keep_cell(kept, first + i, cell);
        out = curve_at(&p->bounds, cell) * sigmoid_at(&p->bounds, sums[3][i]);
        to[first + i] = stored(rescaled(out, p->multipliers[2], p->exponents[2]) + p->zero_out);
    }
}

/* A frame. before: what the LSTM gave before it; NULL for nothing. */
static void recur_frame(const cells *p, const element *from, const element *before, element *kept,
                       element *to)
{
    int32_t first;
    int32_t g;
    for (first = 0; first < p->units; first += BLOCK) {
        int32_t block = smaller(BLOCK, p->units - first);
        int32_t sums[4][BLOCK];
        for (g = 0; g < 4; g++) {
            sum_gate(p, &p->gates[g], from, before, first, block, sums[g]);
        }
        give_cells(p, sums, kept, to, first, block);
    }
}

static void recur_in_integers(const run *r, const layer *l, range rows, range columns)
{
    const cells *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    const element *from = row_at(&in, 0);
    const element *before = NULL;
    element *to = row_at(&out, 0);
    int32_t frame;
    (void)memset(r->scratch, 0, (size_t)p->units * 2);
    for (frame = 0; frame < p->frames; frame++) {
        recur_frame(p, from, before, r->scratch, to);
        before = to;
        from += p->elements;
        to += p->units;
    }
    finish_region(l, &out, rows, columns);
}

/* From where the frame or row before ended: what was given last, then the cells. */
static void recur_from_kept(const run *r, const layer *l, range rows, range columns)
{
    const cells *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *kept = &r->arena[l->buffer_offset];
    int32_t frame;
    int32_t y;
    for (y = rows.first; y < rows.end; y++) {
        const element *from = row_at(&in, y);
        element *to = row_at(&out, y);
        for (frame = 0; frame < p->frames; frame++) {
            recur_frame(p, from, kept, kept + p->units, to);
            copy_elements(kept, to, p->units);
            from += p->elements;
            to += p->units;
        }
    }
    finish_region(l, &out, rows, columns);
}

/* A filter over time in low rank: `rank` features for each unit, each of so many positions in time, with
   weights from the oldest on. Those before the newest stay from frame to frame, in elements or in twice
   as many; where none stays, there is one position. least, most: of what is kept, which is stored with a
   zero point and wraps around there. */
typedef struct {
    const trained *matrix;
    const int16_t *filters;
    const bias_sum *bias;
    int32_t units;
    int32_t rank;
    int32_t elements;
    int32_t zero_in;
    int32_t zero_kept;
    int32_t zero_out;
    int32_t least;
    int32_t most;
    int32_t multiplier;
    int32_t exponent;
    int32_t out_multiplier;
    int32_t out_exponent;
    int32_t length;
    int32_t is_wide;
} filtering;

/* What is kept of a feature. */
static int32_t kept_of(const filtering *p, int32_t sum)
{
    int32_t found = rescaled(sum, p->multiplier, p->exponent);
    int32_t all = p->most - p->least + 1;
    found = larger(smaller(found, p->most), p->least) + p->zero_kept;
    found = (found > p->most) ? (found - all) : (found < p->least) ? (found + all) : found;
    return found - p->zero_kept;
}

static int32_t place_of(const filtering *p, const element *kept, int32_t position)
{
    return p->is_wide ? cell_of(kept, position) : kept[position];
}

/* What a feature adds up over time; its newest position becomes the last that stays. */
static int64_t sum_in_time(const filtering *p, element *kept, const int16_t *with, int32_t newest)
{
    int32_t position;
    int32_t stays = p->length - 1;
    int32_t unit = p->is_wide ? 2 : 1;
    int64_t sum = (int64_t)with[stays] * newest;
    for (position = 0; position < stays; position++) {
        sum += (int64_t)with[position] * (place_of(p, kept, position) - p->zero_kept);
    }
    if (stays != 0) {
        copy_elements(kept, kept + unit, (stays - 1) * unit);
        if (p->is_wide != 0) {
            keep_cell(kept, stays - 1, newest + p->zero_kept);
        } else {
            kept[stays - 1] = (element)(newest + p->zero_kept);
        }
    }
    return sum;
}

static void filter_in_time(const run *r, const layer *l, range rows, range columns)
{
    const filtering *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    const element *from = row_at(&in, 0);
    element *to = row_at(&out, 0);
    element *kept = &r->arena[l->buffer_offset];
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
            sum += sum_in_time(p, kept + (feature * (p->length - 1) * (p->is_wide ? 2 : 1)),
                               p->filters + (feature * p->length), kept_of(p, sums[i]));
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

/* weights: position by position in time, the oldest first, unit by unit, value by value. */
typedef struct {
    int32_t units;
    int32_t length;
    int32_t count;
    const trained *weights;
    scaling to;
} matrix_in_time;

/* The result that this input ends; the input is added to the sums of all later ones, which stay. */
static void add_in_time(const run *r, const layer *l, range rows, range columns)
{
    const matrix_in_time *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    const element *values = row_at(&in, 0);
    element *kept = &r->arena[l->buffer_offset];
    element *pixel = row_at(&out, 0);
    int32_t later;
    int32_t unit;
    int32_t i;
    int32_t stays = m->length - 1;
    (void)rows;
    (void)columns;
    for (later = 0; later <= stays; later++) {
        const trained *with = &m->weights[(stays - later) * m->units * m->count];
        for (unit = 0; unit < m->units; unit++) {
            int32_t sum = (later < stays) ? load(kept, (later * m->units) + unit) : 0;
            for (i = 0; i < m->count; i++) {
                sum += (values[i] - m->to.zero_in) * *with++;
            }
            if (later != 0) {
                store(kept, ((later - 1) * m->units) + unit, sum);
            } else {
                total all = (m->to.bias ? m->to.bias[unit] : 0) + sum;
                store_sums(&pixel[unit], &all, &m->to, unit, 1);
            }
        }
    }
    finish(l, pixel, m->units, 0, 0);
}
