static const tensor *tensor_at(int32_t number)
{
    return (number < 0) ? NULL : &tensors[number];
}

/* The smallest range that contains two ranges. */
static range range_of_both(range a, range b)
{
    range both = (a.first < a.end) ? a : b;
    if ((a.first < a.end) && (b.first < b.end)) {
        both.first = smaller(a.first, b.first);
        both.end = larger(a.end, b.end);
    }
    return both;
}

/* Number of rows of its result that a stage has computed after `firings` firings. */
static int32_t rows_after(const stage *s, int32_t firings)
{
    int32_t rows = smaller(firings * s->rows, s->result->height);
    if (s->mode == INTO_SUMS) {
        rows = (firings == s->firings) ? s->result->height : 0;
    }
    return rows;
}

/* The rows of each layer of a stage that a firing computes, then the rows of each source that it
   reads. */
static void find_ranges(const stage *s, int32_t firing, range *ranges)
{
    int32_t number;
    int32_t position;
    for (number = 0; number < (s->layer_count + s->source_count); number++) {
        ranges[number].end = 0;
        ranges[number].first = 0;
    }
    if ((s->mode != ARRIVING) && (s->mode != COPIED)) {
        number = s->layer_count - 1;
        if (s->mode == INTO_SUMS) { /* the row that the last layer adds */
            range *added = &ranges[s->layers[number].inputs[0].local];
            ranges[number].end = s->result->height;
            added->first = s->first_row + firing;
            added->end = added->first + 1;
            number--;
        } else {
            ranges[number].first = rows_after(s, firing);
            ranges[number].end = rows_after(s, firing + 1);
        }
        for (; number >= 0; number--) {
            const layer *l = &s->layers[number];
            for (position = 0; position < l->input_count; position++) {
                const argument *in = &l->inputs[position];
                range need = rows_of(in->rows, ranges[number], in->source->height);
                ranges[in->local] = range_of_both(ranges[in->local], need);
            }
        }
    } else {
        /* no layer computes: rows arrive, or are copied */
    }
}

/* Number of rows of a tensor that are computed. */
static int32_t rows_computed(const instance *state, const tensor *t)
{
    int32_t number = t->producer - groups[state->group].first_stage;
    int32_t rows = t->height;
    if ((number >= 0) && (number < groups[state->group].stages)) {
        rows = rows_after(&stages[t->producer], state->fired[number]);
    }
    return rows;
}

/* The first row of a line buffer that one of its readers still needs; `height` for none. */
static int32_t needed_by(const instance *state, const reader *r, int32_t height)
{
    range ranges[MOST_RANGES];
    const stage *s = &stages[r->stage];
    int32_t firing = state->fired[r->stage - groups[state->group].first_stage];
    int32_t end = smaller(s->firings, firing + r->looks_ahead + 1);
    int32_t first = height;
    for (; firing < end; firing++) {
        find_ranges(s, firing, ranges);
        if (ranges[r->local].first < ranges[r->local].end) {
            first = smaller(first, ranges[r->local].first);
        }
    }
    return first;
}

/* The first row of a line buffer that any reader still needs; `made` for none. */
static int32_t first_needed_row(const instance *state, const tensor *t, int32_t made)
{
    int32_t number;
    int32_t first = made;
    for (number = 0; number < t->readers; number++) {
        const reader *r = &readers[t->first_reader + number];
        first = smaller(first, needed_by(state, r, t->height));
    }
    return first;
}

/* A stack of stages that wait for rows: each waits for the stage above it, the top for the stage that
   fires next. */
typedef struct {
    uint16_t waiting[sizeof ((const instance *)NULL)->fired / sizeof *((const instance *)NULL)->fired];
    uint32_t count;
} queue;

/* The stage that fires next so that stage `asking` gets its rows; stages that wait are pushed. */
static int32_t next_stage(const instance *state, int32_t asking, queue *q)
{
    range ranges[MOST_RANGES];
    int32_t number = 0;
    int32_t next = asking;
    const stage *s = &stages[next];
    find_ranges(s, state->fired[next - groups[state->group].first_stage], ranges);
    while (number < s->source_count) {
        const tensor *source = s->sources[number].source;
        if (rows_computed(state, source) < ranges[s->layer_count + number].end) {
            if (q->count < (sizeof q->waiting / sizeof *q->waiting)) {
                q->waiting[q->count] = (uint16_t)next;
                q->count++;
            }
            next = source->producer;
            s = &stages[next];
            find_ranges(s, state->fired[next - groups[state->group].first_stage], ranges);
            number = 0;
        } else {
            number++;
        }
    }
    return next;
}

/* Copy the staged rows that are still needed into their line buffer. */
static void flush_rows(instance *state, int32_t tensor_number, range rows, int32_t offset)
{
    const tensor *t = &tensors[tensor_number];
    int32_t row = larger(rows.first, first_needed_row(state, t, rows_computed(state, t)));
    for (; row < rows.end; row++) {
        copy_elements(&AT(state, t->offset)[row % larger(t->rows, 1) * t->stride],
                      &AT(state, offset)[(row - rows.first) * t->stride], t->stride);
    }
}

/* Mark the staging buffer as empty. */
static void clear_staged(instance *state)
{
    state->staged = -1;
    state->staged_end = 0;
    state->staged_first = 0;
    state->is_bottom_staged = 0;
    state->staged_offset = 0;
}

/* Empty the staging buffer: copy rows that are still needed into their line buffer. */
static void flush_staged(instance *state)
{
    range rows = {0, 0};
    rows.first = state->staged_first;
    rows.end = state->staged_end;
    if (state->staged >= 0) {
        flush_rows(state, state->staged, rows, state->staged_offset);
    }
    clear_staged(state);
}

/* Whether a stage reads a tensor. */
static int is_read(const stage *s, const tensor *t)
{
    int32_t number = 0;
    while ((number < s->source_count) && (s->sources[number].source != t)) {
        number++;
    }
    return number < s->source_count;
}

/* Compute the rows of a firing. row: of the input, for the stage that receives it. */
static void compute_stage(const run *r, const element *row)
{
    const stage *s = r->stage;
    if (s->mode == ARRIVING) {
        view out = tensor_view(r, s->result);
        if (row != NULL) {
            TAKE_ROW(row_at(&out, r->firing), row, s->result->stride);
        }
#if HAS_COPIES
    } else if (s->mode == COPIED) {
        view from = tensor_view(r, s->sources[0].source);
        view to = tensor_view(r, s->result);
        int32_t position;
        for (position = r->made.first; position < r->made.end; position++) {
            COPY_ROW(row_at(&to, position), row_at(&from, position), s->result->stride);
        }
#endif
#if HAS_TILES
    } else if (s->mode == BY_TILES) {
        compute_tiles(r);
#endif
#if FUSES_LAYERS
    } else if ((s->layer_count > 1) && (s->mode != INTO_SUMS) && (s->mode != BY_CHANNELS)) {
        SWEEP(r);
#endif
    } else {
        int32_t number = s->layer_count - 1;
        const layer *last = &s->layers[number];
        range columns = {0, 0};
        columns.end = s->result->width;
        if (s->mode == INTO_SUMS) {
            number = last->inputs[0].local;
        }
        last->compute(r, last, r->ranges[number], columns);
    }
}

/* Copy the weights whose transfer begins with a group; begin the transfer for a later group. */
static void copy_weights(instance *state, int32_t begin)
{
    int32_t number;
    for (number = 0; number < MOVED; number++) {
        const weights_copy *m = &weights_copies[number];
        if (m->begin == begin) {
            const void *from = m->from ? m->from : AT(state, m->home);
            if ((begin >= 0) && (begin < m->group)) {
                COPY_AHEAD(AT(state, m->offset), from, m->bytes);
            } else {
                COPY_BYTES(AT(state, m->offset), from, m->bytes);
            }
        }
    }
}

/* The stage, or a copy of it in which the addresses of copied weights are replaced. */
static const stage *with_copies(const instance *state, const stage *s, stage *own, layer *of,
                                movable *numbers)
{
    int32_t number;
    int32_t count = 0;
    for (number = 0; number < MOVED; number++) {
        const weights_copy *m = &weights_copies[number];
        if (m->of && (m->of >= s->layers) && (m->of < (s->layers + s->layer_count))) {
            const void *copied = AT(state, m->offset);
            if (!count) {
                *own = *s;
                (void)memcpy(of, s->layers, (size_t)s->layer_count * sizeof *of);
                own->layers = of;
            }
            (void)memcpy(&numbers[count], m->of->parameters, m->size);
            (void)memcpy((char *)&numbers[count] + m->field, &copied, sizeof copied);
            of[m->of - s->layers].parameters = &numbers[count];
            count++;
        }
    }
    return count ? own : s;
}

/* Record the rows that a firing has written to the staging buffer, if any. */
static void set_staged(instance *state, const run *r, int is_bottom)
{
    clear_staged(state);
    if (r->made.of != NULL) {
        state->staged = (int16_t)(r->made.of - tensors);
        state->staged_first = (uint16_t)r->made.first;
        state->staged_end = (uint16_t)r->made.end;
        state->staged_offset = r->made.offset;
        state->is_bottom_staged = (uint16_t)is_bottom;
    }
}

/* Copy the rows of a firing into the other line buffers of their tensor. */
static void copy_to_duplicates(const run *r)
{
    int32_t number;
    int32_t row;
    view from = tensor_view(r, r->stage->result);
    for (number = 0; number < DUPLICATES; number++) {
        if (duplicates[number].of == r->stage->result) {
            view to = tensor_view(r, duplicates[number].to);
            for (row = r->made.first; row < r->made.end; row++) {
                copy_elements(row_at(&to, row), row_at(&from, row), from.stride);
            }
        }
    }
}

/* Fire a stage: find its rows, and whether the line buffer has space for them; compute the rows; copy
   rows staged before that are still needed into their line buffer. The staging buffer has two ends, so
   that rows are read from one end while rows are written to the other. */
INLINED static void fire_stage(instance *state, int32_t number, const element *row)
{
    range ranges[MOST_RANGES];
    const group *g = &groups[state->group];
    const stage *s = &stages[number];
    int32_t firing = state->fired[number - g->first_stage];
    int32_t made = rows_after(s, firing);
    int32_t end = rows_after(s, firing + 1);
    run r;
#if CAN_STAGE
    int32_t rows = end - made;
    int32_t bottom = 0;
    int32_t staged;
    int is_bottom = 0;
    range before;
#endif
#if MOVES_WEIGHTS
    stage own_stage;
    layer own_layers[MOST_LAYERS];
    movable own_numbers[MOST_MOVED];
    s = with_copies(state, s, &own_stage, own_layers, own_numbers);
#endif
#if CAN_STAGE
    if ((state->staged >= 0) && !is_read(s, tensor_at(state->staged))) {
        flush_staged(state);
    }
    staged = state->staged;
    before.first = state->staged_first;
    before.end = state->staged_end;
    if (state->is_bottom_staged != 0U) {
        bottom = (before.end - before.first) * tensors[staged].stride;
    }
#endif
    find_ranges(s, firing, ranges);
    r.arena = state->arena;
    r.outside = OUTSIDE(state);
    r.part = 0;
    r.scratch = SCRATCH(state);
    r.joints = JOINT_TABLE;
    r.oldest = OLDEST(state);
    r.stage = s;
    r.ranges = ranges;
    r.firing = firing;
    r.made.of = NULL;
    r.made.first = made;
    r.made.end = end;
    r.made.offset = 0;
    r.buffers = g->pool;
#if CAN_STAGE
    r.read.of = tensor_at(staged);
    r.read.first = before.first;
    r.read.end = before.end;
    r.read.offset = state->staged_offset;
    if ((rows > 0) && (s->result->rows < s->result->height) &&
        ((made - first_needed_row(state, s->result, made) + rows) > s->result->rows)) {
        int32_t size = rows * s->result->stride;
        r.made.of = s->result;
        r.made.offset = g->pool + (bottom ? (g->pool_size - size) : 0);
        is_bottom = (bottom == 0);
        bottom = bottom ? bottom : size;
    }
    r.buffers += bottom;
#endif
    PROFILE_BEGIN((int)number);
    compute_stage(&r, row);
#if HAS_DUPLICATES
    copy_to_duplicates(&r);
#endif
    PROFILE_END((int)number);
    state->fired[number - g->first_stage]++;
#if CAN_STAGE
    if (staged >= 0) {
        flush_rows(state, staged, before, r.read.offset);
    }
    set_staged(state, &r, is_bottom);
#endif
}

/* Update the state variables of the group that has ended: write the new rows over the oldest rows. */
static void update_variables(instance *state)
{
    int32_t number;
    for (number = 0; number < VARIABLES; number++) {
        const variable *v = &variables[number];
        if (v->group == state->group) {
            uint16_t *oldest = &state->oldest[number];
            int32_t rows = v->kept->height;
            int32_t fresh = smaller(v->made->height, rows);
            int32_t row;
            const element *from = BASE(state, v->made);
            from = &from[(v->made->height - fresh) * v->made->stride];
            for (row = 0; row < fresh; row++) {
                copy_elements(&BASE(state, v->kept)[(*oldest + row) % rows * v->kept->stride],
                              &from[row * v->made->stride], v->kept->stride);
            }
            *oldest = (uint16_t)((*oldest + fresh) % rows);
        }
    }
}

/* Write the initial values of the state between frames. */
static void reset_kept(instance *state)
{
    int32_t number;
    int32_t time;
    for (number = 0; number < BEGINNINGS; number++) {
        const beginning *b = &beginnings[number];
        for (time = 0; time < b->times; time++) {
            (void)memcpy(&AT(state, b->offset)[time * b->length], b->numbers,
                   (size_t)b->length * sizeof *b->numbers);
        }
    }
#if HAS_VARIABLES
    (void)memset(state->oldest, 0, sizeof state->oldest);
#endif
}

/* Store a number in bytes at any address, the least significant byte first. */
static void store_bytes(uint8_t *to, uint32_t number, int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        to[i] = (uint8_t)((number >> (8U * (uint32_t)i)) & 0xFFU);
    }
}

/* Copy the state between frames to other memory: arrays of the arena, oldest rows, two bytes each. */
static void save_kept(const instance *state, uint8_t *to)
{
    int32_t number;
    for (number = 0; number < BEGINNINGS; number++) {
        const beginning *b = &beginnings[number];
        size_t bytes = (size_t)b->length * (size_t)b->times * sizeof *b->numbers;
        (void)memcpy(to, AT(state, b->offset), bytes);
        to += bytes;
    }
#if HAS_VARIABLES
    for (number = 0; number < VARIABLES; number++) {
        store_bytes(&to[2 * number], state->oldest[number], 2);
    }
#endif
}

/* Copy the state between frames back. */
static void restore_kept(instance *state, const uint8_t *from)
{
    int32_t number;
    for (number = 0; number < BEGINNINGS; number++) {
        const beginning *b = &beginnings[number];
        size_t bytes = (size_t)b->length * (size_t)b->times * sizeof *b->numbers;
        (void)memcpy(AT(state, b->offset), from, bytes);
        from += bytes;
    }
#if HAS_VARIABLES
    for (number = 0; number < VARIABLES; number++) {
        const uint32_t high = from[(2 * number) + 1];
        state->oldest[number] = (uint16_t)((high << 8U) | from[2 * number]);
    }
#endif
}

/* CRC-32 of IEEE 802.3, bit by bit: without a table in flash. */
static uint32_t checksum_of(const uint8_t *bytes, size_t count)
{
    uint32_t checksum = 0xFFFFFFFFU;
    size_t number;
    int32_t bit;
    for (number = 0; number < count; number++) {
        checksum ^= bytes[number];
        for (bit = 0; bit < 8; bit++) {
            checksum = (checksum >> 1U) ^ (((checksum & 1U) != 0U) ? 0xEDB88320U : 0U);
        }
    }
    return ~checksum;
}

/* Start a group: none of its stages has fired. */
static void begin_group(instance *state)
{
    (void)memset(state->fired, 0, sizeof state->fired);
    state->last = (uint16_t)(((int32_t)state->group < GROUPS) ? groups[state->group].stages : 0);
#if CAN_STAGE
    clear_staged(state);
#endif
#if HAS_TURNS
    state->turn = 0;
    state->position = 0;
    state->round = 0;
#endif
}

/* Fire stages until a row of the input is needed (returns 0) or the groups before `end` are complete
   (returns 1). row: the next row of the input. */
static int advance(instance *state, const element *row, int32_t end)
{
    const element *next = row;
    while ((int32_t)state->group < end) {
        const group *g = &groups[state->group];
        queue q = {{0}, 0};
        while (state->last > 0U) {
            int32_t number = (int32_t)state->last - 1;
            int32_t last = g->first_stage + number;
            if ((int32_t)state->fired[number] == stages[last].firings) {
                state->last--;
                continue;
            }
            if (q.count > 0U) {
                q.count--;
                last = (int32_t)q.waiting[q.count];
            }
            last = next_stage(state, last, &q);
            if ((stages[last].mode == ARRIVING) && !next) {
                return 0;
            }
            fire_stage(state, last, next);
#ifdef IS_GIVEN_UP
            if (IS_GIVEN_UP(state)) {
                return -1;
            }
#endif
            if (stages[last].mode == ARRIVING) {
                next = NULL;
            }
        }
#if HAS_VARIABLES
        update_variables(state);
#endif
        state->group++;
        begin_group(state);
    }
    return 1;
}

/* As advance, in the firing order of the plan, which the C file has as a table. */
static int advance_in_order(instance *state, const element *row, int32_t end)
{
#if MOVES_WEIGHTS
    if (!state->turn && !state->position && !state->round) {
        COPY_WEIGHTS(state, 0);
    }
#endif
    while (state->turn < TURNS) {
        const turns *t = &all_turns[state->turn];
        int32_t number = order[t->first + state->position];
        if ((stages[number].mode == ARRIVING) && !row) {
            return 0;
        }
        while (number >= (groups[state->group].first_stage + groups[state->group].stages)) {
#if HAS_VARIABLES
            update_variables(state);
#endif
            state->group++;
#if MOVES_WEIGHTS
            COPY_WEIGHTS(state, state->group);
#endif
            (void)memset(state->fired, 0, sizeof state->fired);
        }
        if ((int32_t)state->group >= end) {
            return 1;
        }
        fire_stage(state, number, row);
#ifdef IS_GIVEN_UP
        if (IS_GIVEN_UP(state)) {
            return -1;
        }
#endif
        if (stages[number].mode == ARRIVING) {
            row = NULL;
        }
        state->position++;
        if (state->position == t->length) {
            state->position = 0;
            state->round++;
        }
        if (state->round == t->times) {
            state->round = 0;
            state->turn++;
        }
    }
    while (state->group < GROUPS) {
#if HAS_VARIABLES
        update_variables(state);
#endif
        state->group++;
    }
    return 1;
}
