/* A layer that CMSIS-NN computes where rows are contiguous; `own` is the kernel for other rows, with
   its parameters `numbers`. bias, exponents: of channels, as CMSIS-NN reads them; without exponents
   all units of a matrix have the exponent of the first. gathers: whether other rows are copied to
   the scratch. */
typedef struct {
    kernel own;
    const void *numbers;
    const int32_t *bias;
    const int32_t *exponents;
    int32_t gathers;
} shared_layer;

/* Input and output rows of a call. above: padding rows above the first; taken: bytes of the scratch
   with copied rows. */
typedef struct {
    const element *from;
    element *to;
    int32_t above;
    int32_t taken;
    cmsis_nn_dims in;
    cmsis_nn_dims out;
} row_block;

/* Whether rows of a tensor are contiguous, position by position. */
static int lie_together(const view *v, range rows)
{
    const element *first = row_at(v, rows.first);
    int32_t y;
    int32_t size = row_elements(v);
    for (y = rows.first + 1; y < rows.end; y++) {
        if (row_at(v, y) != first + (y - rows.first) * size) {
            return 0;
        }
    }
    return v->column_stride == v->channels && rows.first < rows.end;
}

static cmsis_nn_dims dims_of(const view *v, range rows)
{
    cmsis_nn_dims found;
    found.n = 1;
    found.h = rows.end - rows.first;
    found.w = v->width;
    found.c = v->channels;
    return found;
}

/* Copy rows to the scratch, contiguously; return whether the scratch is large enough. */
static int gather_rows(const run *r, const view *v, range rows, row_block *b)
{
    int32_t y;
    int32_t size = row_elements(v);
    b->taken = ((rows.end - rows.first) * size + 3) / 4 * 4;
    b->from = r->scratch;
    if (v->column_stride != v->channels || rows.first >= rows.end || b->taken > SCRATCH_BYTES) {
        return 0;
    }
    for (y = rows.first; y < rows.end; y++) {
        copy_elements(r->scratch + (y - rows.first) * size, row_at(v, y), size);
    }
    return 1;
}

/* Find the input rows of the windows of some rows; return whether one call can compute these. */
static int find_block(const run *r, const layer *l, range rows, const window *w, row_block *b)
{
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    range under = rows_of(l->inputs[0].rows, rows, l->inputs[0].source->height);
    if (!lie_together(&out, rows)) {
        return 0;
    }
    b->taken = 0;
    if (lie_together(&in, under)) {
        b->from = row_at(&in, under.first);
    } else if (!((const shared_layer *)l->parameters)->gathers || !gather_rows(r, &in, under, b)) {
        return 0;
    }
    b->to = row_at(&out, rows.first);
    b->above = under.first - tap_position(w, 0, rows.first, 0);
    b->in = dims_of(&in, under);
    b->out = dims_of(&out, rows);
    return 1;
}

static cmsis_nn_tile tile_of(const int32_t *rows_and_columns)
{
    cmsis_nn_tile found;
    found.h = rows_and_columns[0];
    found.w = rows_and_columns[1];
    return found;
}

static cmsis_nn_dims filters_of(const window *w, int32_t filters, int32_t channels)
{
    cmsis_nn_dims found;
    found.n = filters;
    found.h = w->taps[0];
    found.w = w->taps[1];
    found.c = channels;
    return found;
}

/* The scratch of a call that needs some bytes: at most those that were planned. */
static int take_scratch(const run *r, const row_block *b, int32_t bytes, cmsis_nn_context *found)
{
    found->buf = r->scratch + b->taken;
    found->size = bytes;
    return b->taken + bytes <= SCRATCH_BYTES;
}

static cmsis_nn_activation limits_within(int32_t least, int32_t most)
{
    cmsis_nn_activation found;
    found.min = least;
    found.max = most;
    return found;
}

/* Factors of channels. CMSIS-NN does not write them, although its fields are not const. */
static cmsis_nn_per_channel_quant_params factors_of(const shared_layer *s, const scaling *to)
{
    cmsis_nn_per_channel_quant_params found;
    found.multiplier = (int32_t *)(uintptr_t)to->multipliers;
    found.shift = (int32_t *)(uintptr_t)s->exponents;
    return found;
}

/* After a call: the kernel of this library computes what CMSIS-NN did not. */
static void end_block(const run *r, const layer *l, range rows, range columns, int is_made)
{
    if (is_made) {
        view out = output_view(r, l);
        finish_region(l, &out, rows, columns);
    } else {
        const shared_layer *s = l->parameters;
        layer own = *l;
        own.parameters = s->numbers;
        s->own(r, &own, rows, columns);
    }
    COUNT_BLOCK(is_made);
}

static void cmsis_convolve(const run *r, const layer *l, range rows, range columns)
{
    const shared_layer *s = l->parameters;
    const convolution *c = s->numbers;
    const scaling *to = &c->to;
    int32_t filters = c->group_filters;
    int is_made = 0;
    row_block b;
    if (find_block(r, l, rows, &c->at, &b)) {
        cmsis_nn_dims with = filters_of(&c->at, filters, c->group_inputs);
        cmsis_nn_dims bias = {1, 1, 1, 0};
        cmsis_nn_per_channel_quant_params by = factors_of(s, to);
        cmsis_nn_conv_params p;
        cmsis_nn_context scratch = {NULL, 0};
        bias.c = filters;
        p.input_offset = -to->zero_in;
        p.output_offset = to->zero_out;
        p.stride = tile_of(c->at.stride);
        p.padding = tile_of(c->at.before);
        p.padding.h = b.above;
        p.dilation = tile_of(c->at.dilation);
        p.activation = limits_within(to->least, to->most);
        if (c->at.taps[0] * c->at.taps[1] == 1 && !p.padding.w && !p.padding.h) {
            /* Without scratch; for larger windows this function would compute one row differently. */
            p.dilation.w = p.dilation.h = 1; /* no effect on one position */
            is_made = !arm_convolve_wrapper_s8(&scratch, &p, &by, &b.in, b.from, &with, c->weights,
                                               &bias, s->bias, &b.out, b.to);
        } else if (take_scratch(r, &b, arm_convolve_s8_get_buffer_size(&b.in, &with), &scratch)) {
            is_made = !arm_convolve_s8(&scratch, &p, &by, &b.in, b.from, &with, c->weights, &bias,
                                       s->bias, NULL, &b.out, b.to);
        }
    }
    end_block(r, l, rows, columns, is_made);
}

static void cmsis_depthwise_conv(const run *r, const layer *l, range rows, range columns)
{
    const shared_layer *s = l->parameters;
    const convolution *c = s->numbers;
    const scaling *to = &c->to;
    int is_made = 0;
    row_block b;
    if (find_block(r, l, rows, &c->at, &b)) {
        cmsis_nn_dims with = filters_of(&c->at, 1, c->groups);
        cmsis_nn_dims bias = {1, 1, 1, 0};
        cmsis_nn_per_channel_quant_params by = factors_of(s, to);
        cmsis_nn_dw_conv_params p;
        cmsis_nn_context scratch;
        bias.c = c->groups;
        p.input_offset = -to->zero_in;
        p.output_offset = to->zero_out;
        p.ch_mult = 1;
        p.stride = tile_of(c->at.stride);
        p.padding = tile_of(c->at.before);
        p.padding.h = b.above;
        p.dilation = tile_of(c->at.dilation);
        p.activation = limits_within(to->least, to->most);
        if (take_scratch(
                r, &b, arm_depthwise_conv_wrapper_s8_get_buffer_size(&p, &b.in, &with, &b.out),
                &scratch)) {
            is_made = !arm_depthwise_conv_wrapper_s8(&scratch, &p, &by, &b.in, b.from, &with,
                                                     c->weights, &bias, s->bias, &b.out, b.to);
        }
    }
    end_block(r, l, rows, columns, is_made);
}

static cmsis_nn_pool_params pool_of(const pooling *p, const row_block *b)
{
    cmsis_nn_pool_params found;
    found.stride = tile_of(p->at.stride);
    found.padding = tile_of(p->at.before);
    found.padding.h = b->above;
    found.activation = limits_within(LEAST, MOST);
    return found;
}

static void cmsis_average_pool(const run *r, const layer *l, range rows, range columns)
{
    const pooling *p = ((const shared_layer *)l->parameters)->numbers;
    int is_made = 0;
    row_block b;
    if (find_block(r, l, rows, &p->at, &b)) {
        cmsis_nn_dims with = filters_of(&p->at, 1, 1);
        cmsis_nn_pool_params how = pool_of(p, &b);
        cmsis_nn_context scratch;
        if (take_scratch(r, &b, arm_avgpool_s8_get_buffer_size(b.out.w, b.in.c), &scratch)) {
            is_made = !arm_avgpool_s8(&scratch, &how, &b.in, b.from, &with, &b.out, b.to);
        }
    }
    end_block(r, l, rows, columns, is_made);
}

static void cmsis_max_pool(const run *r, const layer *l, range rows, range columns)
{
    const pooling *p = ((const shared_layer *)l->parameters)->numbers;
    int is_made = 0;
    row_block b;
    if (find_block(r, l, rows, &p->at, &b)) {
        cmsis_nn_dims with = filters_of(&p->at, 1, 1);
        cmsis_nn_pool_params how = pool_of(p, &b);
        cmsis_nn_context scratch = {NULL, 0};
        is_made = !arm_max_pool_s8(&scratch, &how, &b.in, b.from, &with, &b.out, b.to);
    }
    end_block(r, l, rows, columns, is_made);
}

/* The shift of operands before a sum: SUM_STEPS is two to that power. */
enum { SUM_SHIFT = 20 };

static void cmsis_add(const run *r, const layer *l, range rows, range columns)
{
    const combining *p = ((const shared_layer *)l->parameters)->numbers;
    view one = input_view(r, l, p->each[0].input);
    view other = input_view(r, l, p->each[1].input);
    view out = output_view(r, l);
    int is_made = 0;
    if (lie_together(&one, rows) && lie_together(&other, rows) && lie_together(&out, rows)) {
        is_made = !arm_elementwise_add_s8(
            row_at(&one, rows.first), row_at(&other, rows.first), -p->zero[0], p->multiplier[0],
            p->exponent[0], -p->zero[1], p->multiplier[1], p->exponent[1], SUM_SHIFT,
            row_at(&out, rows.first), p->zero_out, p->multiplier[2], p->exponent[2], p->least, p->most,
            (rows.end - rows.first) * row_elements(&out));
    }
    end_block(r, l, rows, columns, is_made);
}

static void cmsis_fully_connected(const run *r, const layer *l, range rows, range columns)
{
    const shared_layer *s = l->parameters;
    const matrix *m = s->numbers;
    const scaling *to = &m->to;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    range all = {0, 0};
    int is_made = 0;
    all.end = l->inputs[0].source->height;
    if (lie_together(&in, all)) {
        int32_t count = all.end * row_elements(&in);
        cmsis_nn_dims given = {1, 1, 1, 0};
        cmsis_nn_dims with = {0, 1, 1, 0};
        cmsis_nn_dims made = {1, 1, 1, 0};
        cmsis_nn_fc_params p;
        cmsis_nn_context sums = {NULL, 0};
        given.c = with.n = count;
        with.c = made.c = m->units;
        p.input_offset = -to->zero_in;
        p.filter_offset = 0;
        p.output_offset = to->zero_out;
        p.activation = limits_within(to->least, to->most);
#if defined(HELIUM)
        /* CMSIS-NN begins with these sums, one for each unit. */
        sums.buf = (void *)(uintptr_t)(to->folded ? to->folded : s->bias);
        sums.size = 4 * m->units;
#endif
        if (arm_fully_connected_s8_get_buffer_size(&with) > sums.size) {
            is_made = 0;
        } else if (!s->exponents) {
            cmsis_nn_per_tensor_quant_params by;
            by.multiplier = to->multipliers[0];
            by.shift = to->exponents[0];
            is_made = !arm_fully_connected_s8(&sums, &p, &by, &given, row_at(&in, 0), &with,
                                              m->weights, &made, s->bias, &made, row_at(&out, 0));
        } else {
            cmsis_nn_per_channel_quant_params by = factors_of(s, to);
            is_made = !arm_fully_connected_per_channel_s8(&sums, &p, &by, &given, row_at(&in, 0),
                                                          &with, m->weights, &made, s->bias, &made,
                                                          row_at(&out, 0));
        }
    }
    end_block(r, l, rows, columns, is_made);
}
