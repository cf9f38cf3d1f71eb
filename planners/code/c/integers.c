/* A patch of one row of values. */
static inline patch row_patch(const element *const *row, int32_t zero, int32_t count, int32_t apart)
{
    patch p;
    p.rows = row;
    p.row_count = 1;
    p.weights_from = 0;
    p.from = 0;
    p.width = count;
    p.count = count;
    p.zero = zero;
    p.apart = apart;
    return p;
}

/* Add the products of one row of values. */
static void add_row(total *sums, const element *values, int32_t zero, const trained *weights,
                    int32_t count, int32_t filters, int32_t apart)
{
    patch p = row_patch(&values, zero, count, apart);
    add_values(sums, &p, weights, filters);
}

/* A patch of `taps` adjacent taps from `tap` on, in all rows of a window. */
static patch taps_patch(const convolution *c, const receptive_field *field, int32_t tap, int32_t taps,
                        int32_t channel)
{
    patch p;
    p.rows = &field->rows[field->down.first];
    p.row_count = field->down.end - field->down.first;
    p.from = column_under(field, tap) + channel;
    p.count = taps * c->group_inputs;
    p.zero = c->to.zero_in;
    p.width = c->at.taps[1] * c->group_inputs;
    p.apart = c->at.taps[0] * p.width;
    p.weights_from = (field->down.first * p.width) + (tap * c->group_inputs);
    return p;
}

/* Add the products of a window to the sums of a block of filters. */
static void add_window(const convolution *c, const receptive_field *field, total *sums,
                       const trained *weights, int32_t channel, int32_t filters)
{
    int32_t j;
    int32_t taps;
    for (j = field->across.first; j < field->across.end; j += taps) {
        patch p;
        taps = 1;
        if (field->step == c->group_inputs) {
            taps = ((j < field->wrap) ? field->wrap : field->across.end) - j;
        }
        p = taps_patch(c, field, j, taps, channel);
        add_values(sums, &p, weights, filters);
#if WEIGHTS_HAVE_ZEROS
        subtract_weight_zeros(sums, &p, &c->to, filters);
#endif
    }
}

static void copy_few(element *to, const element *from, int32_t count)
{
    int32_t i = 0;
#if defined(HELIUM)
    if (sizeof *to == 1U) {
        mve_pred16_t inside = vctp8q((uint32_t)count);
        vstrbq_p_s8((int8_t *)(void *)to, vldrbq_z_s8((const int8_t *)(const void *)from, inside),
                    inside);
        return;
    }
#endif
    for (; (count - i) >= 4; i += 4) {
        (void)memcpy(&to[i], &from[i], 4U * sizeof *to);
    }
    for (; i < count; i++) {
        to[i] = from[i];
    }
}

/* Windows of few channels and several rows are gathered once for all filters (im2col), with zero points
   in the padding. */
static int32_t has_few_inputs(const convolution *c)
{
    int32_t width = c->at.taps[1] * c->group_inputs;
    return (c->groups == 1) && (c->at.taps[0] > 1) && (width < FEW) &&
           ((c->at.taps[0] * width) <= MOST_GATHERED);
}

static void gather(const convolution *c, const receptive_field *field, element *to)
{
    int32_t i;
    int32_t j;
    int32_t taps;
    int32_t inputs = c->group_inputs;
    int32_t width = c->at.taps[1] * inputs;
    int32_t rows = c->at.taps[0];
    if (((field->down.end - field->down.first) < rows) ||
        ((field->across.end - field->across.first) < c->at.taps[1])) {
        for (i = 0; i < (rows * width); i++) {
            to[i] = (element)c->to.zero_in;
        }
    }
    for (j = field->across.first; j < field->across.end; j += taps) {
        taps = 1;
        if (field->step == inputs) {
            taps = ((j < field->wrap) ? field->wrap : field->across.end) - j;
        }
        for (i = field->down.first; i < field->down.end; i++) {
            copy_few(&to[(i * width) + (j * inputs)], &field->rows[i][column_under(field, j)],
                     taps * inputs);
        }
    }
}

/* Compute and store the results of filters on a patch, four at a time. begin: initial sums; weights: of
   the first filter. Returns the first filter that remains. */
APART static int32_t make_filters(element *to, const patch *p, const trained *weights, const scaling *s,
                            const bias_sum *begin, range filters)
{
    int32_t first = filters.first;
#if (defined(HELIUM) && FACTORS_ARE_SMALL) || (defined(WORDS_MEET) && SUMS_ARE_NARROW)
    int32_t count = (filters.end - first) / BLOCK * BLOCK;
#if defined(WORDS_MEET)
    int32_t is_stored = HAS_NARROW_SUMS(s);
    (void)sizeof(narrow_scaling_is_known);
#else
    int32_t is_stored = HAS_SMALL_FACTORS(s);
    (void)sizeof(scaling_is_known);
#endif
    (void)sizeof(patch_is_known);
    if (is_stored && (count > 0) && (begin != NULL) && (p->row_count > 0)) {
#if defined(WORDS_MEET)
        meet_blocks(to, p, &weights[p->weights_from], s, &begin[first], first, &to[count]);
        first += count;
#else
        if (p->zero == 0) { /* no zero point to subtract */
            make_blocks(to, p, &weights[p->weights_from], s, &begin[first], first, &to[count]);
            first += count;
        }
#endif
    }
#endif
    for (; (filters.end - first) >= BLOCK; first += BLOCK) {
        int32_t done = first - filters.first;
        total sums[BLOCK];
        begin_sums(sums, begin, first, BLOCK);
        add_values(sums, p, &weights[done * p->apart], BLOCK);
#if WEIGHTS_HAVE_ZEROS
        subtract_weight_zeros(sums, p, s, BLOCK);
#endif
        store_sums(&to[done], sums, s, first, BLOCK);
    }
    return first;
}

/* Compute channels of a pixel whose window is no patch, or fewer than four channels. */
APART static void convolve_by_blocks(const convolution *c, const receptive_field *field, element *to,
                              range channels)
{
    int32_t of_filter = c->at.taps[0] * c->at.taps[1] * c->group_inputs;
    int32_t filters;
    int32_t end;
    int32_t first = channels.first;
    int32_t g = first / c->group_filters;
    const trained *weights = &c->weights[first * of_filter];
    total sums[BLOCK];
    for (; first < channels.end; first += filters) {
        end = (g + 1) * c->group_filters;
        filters = smaller(smaller(channels.end, end) - first, BLOCK);
        begin_sums(sums, c->to.bias, first, filters);
        add_window(c, field, sums, weights, g * c->group_inputs, filters);
        store_sums(to, sums, &c->to, first, filters);
        weights += of_filter * filters;
        to += filters;
        g += ((first + filters) == end) ? 1 : 0;
    }
}

/* Initial sums of the filters for a patch; for a whole window they include the zero point. */
static const bias_sum *sums_before(const convolution *c, patch *p)
{
#if defined(HELIUM) && !WEIGHTS_HAVE_ZEROS
    if (c->to.folded &&
        ((p->row_count * p->count) == (c->at.taps[0] * c->at.taps[1] * c->group_inputs))) {
        p->zero = 0;
        return c->to.folded;
    }
#else
    (void)p;
#endif
    return c->to.bias;
}

/* Compute channels of a pixel from a gathered window. Returns the first channel that remains. */
APART static int32_t make_gathered(const convolution *c, const receptive_field *field, element *to,
                                   range channels)
{
    int32_t of_filter = c->at.taps[0] * c->at.taps[1] * c->group_inputs;
    element inputs[MOST_GATHERED];
    const element *row = inputs;
    patch p;
    gather(c, field, inputs);
    p = row_patch(&row, c->to.zero_in, of_filter, of_filter);
    return make_filters(to, &p, &c->weights[channels.first * of_filter], &c->to,
                        sums_before(c, &p), channels);
}

static void convolve_pixel(const void *numbers, const receptive_field *field, element *to,
                           range channels)
{
    const convolution *c = numbers;
    range rest;
    rest.end = channels.end;
#if WINDOWS_ARE_GATHERED
    if (has_few_inputs(c) != 0) {
        rest.first = make_gathered(c, field, to, channels);
    } else
#endif
    if ((c->groups == 1) && (field->step == c->group_inputs) &&
               (field->wrap >= field->across.end)) {
        int32_t of_filter = c->at.taps[0] * c->at.taps[1] * c->group_inputs;
        patch p = taps_patch(c, field, field->across.first,
                             field->across.end - field->across.first, 0);
        const bias_sum *begin = sums_before(c, &p);
        rest.first = make_filters(to, &p, &c->weights[channels.first * of_filter], &c->to,
                                  begin, channels);
    } else {
        rest.first = channels.first;
    }
    if (rest.first < rest.end) {
        convolve_by_blocks(c, field, &to[rest.first - channels.first], rest);
    }
}

LAYER(convolve, each_window_all_channels, convolve_pixel)

#if WEIGHTS_HAVE_ZEROS
static void subtract_lane_zeros(total *sums, const convolution *c, const receptive_field *field,
                                int32_t from, int32_t lanes)
{
    int32_t i;
    int32_t j;
    int32_t k;
    for (i = field->down.first; c->to.zero_with && (i < field->down.end); i++) {
        for (j = field->across.first; j < field->across.end; j++) {
            for (k = 0; k < lanes; k++) {
                const element *value = field->rows[i] + column_under(field, j) + from + k;
                patch p = row_patch(&value, c->to.zero_in, 1, 0);
                subtract_weight_zeros(sums + k, &p, &c->to, 1);
            }
        }
    }
}
#endif

static void depthwise_pixel(const void *numbers, const receptive_field *field, element *to,
                            range channels)
{
    const convolution *c = numbers;
    int32_t count = channels.end - channels.first;
#if WEIGHTS_HAVE_ZEROS
    int32_t from = 0;
#else
    int32_t from = make_all_lanes(to, c, field, channels.first, count);
#endif
    total sums[LANES];
    for (; from < count; from += LANES) {
        int32_t first = channels.first + from;
        int32_t lanes = smaller(LANES, count - from);
        begin_sums(sums, c->to.bias, first, lanes);
        add_few_lanes(c, field, from, first, lanes, sums);
#if WEIGHTS_HAVE_ZEROS
        subtract_lane_zeros(sums, c, field, from, lanes);
#endif
        store_sums(&to[from], sums, &c->to, first, lanes);
    }
}

LAYER(depthwise_conv, each_window_all_channels, depthwise_pixel)

/* Add the products of an output pixel of a transposed convolution to the sums of some filters. */
static void add_transposed(const convolution *c, const view *in, int32_t height, int32_t y,
                           int32_t x, total *sums, const trained *weights, int32_t channel,
                           int32_t filters)
{
    int32_t i;
    int32_t j;
    int32_t apart = c->at.taps[0] * c->at.taps[1] * c->group_inputs;
    for (i = 0; i < c->at.taps[0]; i++) {
        int32_t row = transposed_source(&c->at, 0, y, i, height);
        for (j = 0; (row >= 0) && (j < c->at.taps[1]); j++) {
            int32_t column = transposed_source(&c->at, 1, x, j, in->width);
            if (column >= 0) {
                const element *values = row_at(in, row) + column_at(in, column) + channel;
                patch p = row_patch(&values, c->to.zero_in, c->group_inputs, apart);
                p.weights_from = ((i * c->at.taps[1]) + j) * c->group_inputs;
                add_values(sums, &p, weights, filters);
#if WEIGHTS_HAVE_ZEROS
                subtract_weight_zeros(sums, &p, &c->to, filters);
#endif
            }
        }
    }
}

static void transposed_pixel(const convolution *c, const view *in, int32_t height, int32_t y,
                             int32_t x, element *to)
{
    int32_t g;
    int32_t done;
    int32_t first = 0;
    int32_t of_filter = c->at.taps[0] * c->at.taps[1] * c->group_inputs;
    for (g = 0; g < c->groups; g++) {
        for (done = 0; done < c->group_filters; done += BLOCK) {
            int32_t filters = smaller(BLOCK, c->group_filters - done);
            total sums[BLOCK];
            begin_sums(sums, c->to.bias, first, filters);
            add_transposed(c, in, height, y, x, sums, c->weights + (first * of_filter),
                           g * c->group_inputs, filters);
            store_sums(to + first, sums, &c->to, first, filters);
            first += filters;
        }
    }
}

static void transposed_conv(const run *r, const layer *l, range rows, range columns)
{
    const convolution *c = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            transposed_pixel(c, &in, l->inputs[0].source->height, y, x, to);
            finish(l, to, out.channels, 0, x);
        }
    }
}

/* Mean, rounded half away from zero in the numbers of the file. offset: 128 for uint8, else 0. */
static element mean_of(int32_t sum, int32_t count, int32_t offset)
{
    int32_t above = sum + (offset * count);
    int32_t half = ((above > 0) ? count : -count) / 2;
    return (element)(((above + half) / count) - offset);
}

/* Sums over the pixels of a window, of up to four channels from `channel` on. */
static void window_sums(const receptive_field *field, int32_t channel, int32_t channels, int32_t *sums)
{
    int32_t i;
    int32_t j;
    int32_t k;
    /*@ loop unroll 100000; */
    for (i = field->down.first; i < field->down.end; i++) {
        /*@ loop unroll 100000; */
        for (j = field->across.first; j < field->across.end; j++) {
            const element *values = field->rows[i] + column_under(field, j) + channel;
#if defined(HELIUM)
            if ((channels == 4) && (sizeof *values == 1)) {
                int32x4_t more = vldrbq_s32((const int8_t *)(const void *)values);
                vstrwq_s32(sums, vaddq_s32(vldrwq_s32(sums), more));
                continue;
            }
#endif
            /*@ loop unroll 4; */
            for (k = 0; k < channels; k++) {
                sums[k] += values[k];
            }
        }
    }
}

static void window_mean(const void *numbers, const receptive_field *field, element *to, range channels)
{
    int32_t first;
    int32_t k;
    int32_t pixels = averaged_pixels(numbers, field);
    int32_t count = channels.end - channels.first;
    for (first = 0; first < count; first += 4) {
        int32_t sums[4] = {0, 0, 0, 0};
        int32_t block = smaller(count - first, 4);
        window_sums(field, first, block, sums);
        for (k = 0; k < block; k++) {
            to[first + k] = mean_of(sums[k], pixels, ((const pooling *)numbers)->offset);
        }
    }
}

LAYER(average_pool, each_window_all_channels, window_mean)

/* weights[units][inputs], the inputs in memory order. */
typedef struct {
    int32_t units;
    const trained *weights;
    scaling to;
} matrix;

/* Number of rows from `first` on that are consecutive in memory: a row of a matrix product. */
static int32_t rows_in_run(const view *v, int32_t first, int32_t height)
{
    int32_t y = first + 1;
    while ((y < height) && (row_at(v, y) == &row_at(v, first)[(y - first) * row_elements(v)])) {
        y++;
    }
    return y - first;
}

static void fully_connected(const run *r, const layer *l, range rows, range columns)
{
    const matrix *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *pixel = row_at(&out, 0);
    const element *row = row_at(&in, 0);
    const bias_sum *begin = m->to.bias;
    int32_t done;
    int32_t block;
    int32_t y;
    int32_t first = 0;
    int32_t count = row_elements(&in);
    int32_t height = l->inputs[0].source->height;
    int32_t first_run = rows_in_run(&in, 0, height); /* a ring has two, from its oldest row on */
    int32_t next_run = rows_in_run(&in, first_run, height);
    int32_t at_once;
    int32_t apart = height * count;
    range units = {0, 0};
    patch p = row_patch(&row, m->to.zero_in, apart, apart);
    total sums[BLOCK];
    (void)rows;
    (void)columns;
#if defined(HELIUM) && !WEIGHTS_HAVE_ZEROS
    if (m->to.folded != NULL) {
        begin = m->to.folded;
        p.zero = 0;
    }
#endif
    if (first_run == height) {
        units.end = m->units;
        first = make_filters(pixel, &p, m->weights, &m->to, begin, units);
    }
    for (done = first; done < m->units; done += block) {
        block = smaller(BLOCK, m->units - done);
        begin_sums(sums, begin, done, block);
        for (y = 0; y < height; y += at_once) {
            at_once = (y == 0) ? first_run : (y == first_run) ? next_run : 1;
            row = row_at(&in, y);
            p.count = at_once * count;
            add_values(sums, &p, &m->weights[(done * apart) + (y * count)], block);
#if WEIGHTS_HAVE_ZEROS
            subtract_weight_zeros(sums, &p, &m->to, block);
#endif
        }
        store_sums(&pixel[done], sums, &m->to, done, block);
    }
    finish(l, pixel, m->units, 0, 0);
}

/* Add the products of one input row; weights[rows][units][row elements]. */
static void sum_fully(const run *r, const layer *l, range rows, range columns)
{
    const matrix *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *kept = AT(r, r->stage->sums);
    element *pixel = row_at(&out, 0);
    const element *row = row_at(&in, rows.first);
    int32_t done;
    int32_t block;
    int32_t i;
    int32_t count = row_elements(&in);
    int32_t is_last = (r->firing + 1) == r->stage->firings;
    const trained *weights = m->weights + (rows.first * count * m->units);
    patch p = row_patch(&row, m->to.zero_in, count, count);
    (void)columns;
    for (done = 0; done < m->units; done += block) {
        total sums[BLOCK];
        block = smaller(BLOCK, m->units - done);
        begin_sums(sums, m->to.bias, done, block);
        for (i = 0; r->firing && (i < block); i++) {
            sums[i] = load(kept, done + i);
        }
        add_values(sums, &p, weights, block);
#if WEIGHTS_HAVE_ZEROS
        subtract_weight_zeros(sums, &p, &m->to, block);
#endif
        weights += count * block;
        for (i = 0; i < block; i++) {
            store(kept, done + i, (int32_t)sums[i]);
        }
    }
    /* After all products: the result may overwrite the row. */
    for (done = 0; is_last && (done < m->units); done++) {
        total sum = load(kept, done);
        store_sums(pixel + done, &sum, &m->to, done, 1);
    }
    if (is_last != 0) {
        finish(l, pixel, m->units, 0, 0);
    }
}

/* Reduction of each feature map over its first rows and columns. */
enum { SUM_MEAN, SUM_AVERAGE, SUM_LARGEST };

typedef struct {
    int32_t rows;
    int32_t columns;
    int32_t kind;
    averaging to;
} summing;

static int32_t summed(const summing *s, int32_t sum, int32_t value)
{
    return (s->kind == SUM_LARGEST) ? larger(sum, value) : (sum + value);
}

static element sum_as_stored(const summing *s, int32_t sum)
{
    if (s->kind == SUM_MEAN) {
        return mean_of(sum, s->to.count, s->to.zero_in);
    }
    return (s->kind == SUM_LARGEST) ? (element)sum : average_of(sum, &s->to);
}

#if defined(HELIUM)
/* Add a row to unaligned sums, four channels at a time. Returns the number of channels done. */
static int32_t add_row_in_fours(const summing *s, const element *row, const view *in, element *sums,
                                int32_t has_sums)
{
    int32_t i;
    int32_t x;
    if ((sizeof *row != 1) || (s->kind == SUM_LARGEST)) {
        return 0;
    }
    for (i = 0; (in->channels - i) >= 4; i += 4) {
        int8_t *kept = (int8_t *)(void *)(sums + (4 * i));
        int32x4_t sum = vdupq_n_s32(0);
        if (has_sums != 0) {
            sum = vreinterpretq_s32_s8(vldrbq_s8(kept));
        }
        for (x = 0; x < s->columns; x++) {
            const element *values = row + (x * in->column_stride) + i;
            sum = vaddq_s32(sum, vldrbq_s32((const int8_t *)(const void *)values));
        }
        vstrbq_s8(kept, vreinterpretq_s8_s32(sum));
    }
    return i;
}
#endif

static void sum_row(const run *r, const layer *l, range rows, range columns)
{
    const summing *s = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *sums = AT(r, r->stage->sums);
    const element *row = row_at(&in, rows.first);
    int32_t i;
    int32_t x;
    int32_t done = 0;
    (void)columns;
#if defined(HELIUM)
    done = add_row_in_fours(s, row, &in, sums, r->firing > 0);
#endif
    for (i = done; i < in.channels; i++) {
        int32_t sum = r->firing ? load(sums, i) : (s->kind == SUM_LARGEST) ? LEAST : 0;
        for (x = 0; x < s->columns; x++) {
            sum = summed(s, sum, row[(x * in.column_stride) + i]);
        }
        store(sums, i, sum);
    }
    if ((r->firing + 1) == r->stage->firings) {
        element *pixel = row_at(&out, 0);
        for (i = 0; i < in.channels; i++) {
            pixel[i] = sum_as_stored(s, load(sums, i));
        }
        finish(l, pixel, in.channels, 0, 0);
    }
}

/* Add rows of the feature maps of a fused convolution to the sums, for a block of filters. */
static void sum_block(const run *r, const layer *l, range rows, const trained *weights, int32_t g,
                      int32_t first, int32_t block, int32_t *sums)
{
    const layer *maps = r->stage->layers;
    const convolution *c = maps->parameters;
    const summing *s = l->parameters;
    view in = input_view(r, maps, 0);
    receptive_field field;
    int32_t y;
    int32_t x;
    int32_t i;
    field.height = maps->inputs[0].source->height;
    field.width = in.width;
    for (y = rows.first; y < rows.end; y++) {
        locate_rows(&field, &c->at, &in, y);
        for (x = 0; x < s->columns; x++) {
            total products[BLOCK];
            element results[BLOCK];
            locate_columns(&field, &c->at, &in, x, 0);
            begin_sums(products, c->to.bias, first, block);
            add_window(c, &field, products, weights, g * c->group_inputs, block);
            store_sums(results, products, &c->to, first, block);
            finish(maps, results, block, first, x);
            for (i = 0; i < block; i++) {
                sums[i] = summed(s, sums[i], results[i]);
            }
        }
    }
}

/* Reduce the feature maps of a fused convolution: all rows at once, or in INTO_SUMS the row of a
   firing. */
static void sum_channels(const run *r, const layer *l, range rows, range columns)
{
    const convolution *c = r->stage->layers[0].parameters;
    const summing *s = l->parameters;
    view out = output_view(r, l);
    element *pixel = row_at(&out, 0);
    element *kept = AT(r, r->stage->sums);
    const trained *weights = c->weights;
    range added = rows;
    int32_t g;
    int32_t done;
    int32_t i;
    int32_t first = 0;
    (void)columns;
    if (r->stage->mode != INTO_SUMS) {
        added.first = 0;
        added.end = s->rows;
    }
    for (g = 0; g < c->groups; g++) {
        for (done = 0; done < c->group_filters; done += BLOCK) {
            int32_t block = smaller(BLOCK, c->group_filters - done);
            int32_t sums[BLOCK];
            for (i = 0; i < block; i++) {
                sums[i] = r->firing ? load(kept, first + i) : (s->kind == SUM_LARGEST) ? LEAST : 0;
            }
            sum_block(r, l, added, weights, g, first, block, sums);
            for (i = 0; i < block; i++) {
                if (r->stage->mode == INTO_SUMS) {
                    store(kept, first + i, sums[i]);
                } else {
                    pixel[first + i] = sum_as_stored(s, sums[i]);
                }
            }
            weights += c->at.taps[0] * c->at.taps[1] * c->group_inputs * block;
            first += block;
        }
    }
    if ((r->firing + 1) == r->stage->firings) {
        for (i = 0; (r->stage->mode == INTO_SUMS) && (i < first); i++) {
            pixel[i] = sum_as_stored(s, load(kept, i));
        }
        finish(l, pixel, first, 0, 0);
    }
}
