/* Filters of a block, whose weights for one value are contiguous. Sixteen and eight sums stay in
   registers, and compilers use vectors for them. */
enum { BLOCK = 16 };

/* The variables of eight and of sixteen sums, each with its position in the block. */
#define EIGHT(of) of(a, 0) of(b, 1) of(c, 2) of(d, 3) of(e, 4) of(f, 5) of(g, 6) of(h, 7)

#define SIXTEEN(of) \
    EIGHT(of) of(i, 8) of(j, 9) of(k, 10) of(l, 11) of(m, 12) of(n, 13) of(o, 14) of(p, 15)

#define LOAD_SUM(sum, at) element sum = sums[at];

#define STORE_SUM(sum, at) sums[at] = sum;

#define ADD_PRODUCT(sum, at) sum += v * weights[at];

BY_LANES static void add_sixteen_products(element *restrict sums, const element *restrict values,
                                 const element *restrict weights, int32_t count, int32_t stride)
{
    SIXTEEN(LOAD_SUM)
    const element *end = &values[count];
    for (; values < end; values++) {
        element v = *values;
        SIXTEEN(ADD_PRODUCT)
        weights += stride;
    }
    SIXTEEN(STORE_SUM)
}

BY_LANES static void add_eight_products(element *restrict sums, const element *restrict values,
                               const element *restrict weights, int32_t count, int32_t stride)
{
    EIGHT(LOAD_SUM)
    const element *end = &values[count];
    for (; values < end; values++) {
        element v = *values;
        EIGHT(ADD_PRODUCT)
        weights += stride;
    }
    EIGHT(STORE_SUM)
}

static void add_single_products(element *restrict sums, const element *restrict values,
                                const element *restrict weights, int32_t count, int32_t block)
{
    int32_t i;
    int32_t j;
    int32_t done = 0;
    for (; (block - done) >= 16; done += 16) {
        add_sixteen_products(&sums[done], values, &weights[done], count, block);
    }
    for (; (block - done) >= 8; done += 8) {
        add_eight_products(&sums[done], values, &weights[done], count, block);
    }
    for (i = 0; (done < block) && (i < count); i++) {
        for (j = done; j < block; j++) {
            sums[j] += values[i] * weights[j];
        }
        weights += block;
    }
}

/* Weights: float, or float16. */
typedef struct {
    const element *singles;
#if SOME_WEIGHTS_ARE_HALVES
    const uint16_t *halves; /* binary16 of IEEE 754, if not NULL */
#endif
} real_weights;

#if SOME_WEIGHTS_ARE_HALVES
/* float16 to float for zero, subnormal numbers (steps of 2^-24) and infinity. */
static inline element single_of_extreme(uint16_t half)
{
    uint32_t bits = half & 0x7FFFU;
    float number = (bits < 0x0400U) ? ((float)(int32_t)bits * 5.9604644775390625e-8f) : INFINITY;
    return ((half & 0x8000U) != 0U) ? -number : number;
}
#endif

#if SOME_WEIGHTS_ARE_HALVES
/* float16 to float, exactly: exponents differ by 112. No half type of the compiler is needed; every
   Cortex-M with a floating-point unit has the instruction. */
INLINED static element single_of(uint16_t half)
{
#if (defined(WORDS_MEET) || defined(HELIUM)) && defined(__ARM_FP) && (__ARM_ARCH_PROFILE == 'M')
    float number;
    __asm__("vcvtb.f32.f16 %0, %1" : "=t"(number) : "t"((uint32_t)half));
    return number;
#else
    uint32_t bits = half & 0x7FFFU;
    float number;
    if ((bits - 0x0400U) >= 0x7800U) {
        return single_of_extreme(half);
    }
    bits = ((bits + 0x1C000U) << 13U) | ((half & 0x8000U) << 16U);
    (void)memcpy(&number, &bits, sizeof number);
    return number;
#endif
}
#endif

#if SOME_WEIGHTS_ARE_HALVES && defined(HELIUM) && (__ARM_FEATURE_MVE & 2)
/* vcvtb.f32.f16 q3, q3 as a number: GNU as 2.40 writes other registers into that instruction. */
INLINED static float32x4_t four_singles(const uint16_t *halves)
{
    register uint32x4_t bits __asm__("q3") = vldrhq_u32(halves);
    __asm__(".inst.w 0xFE3F6E07" : "+w"(bits));
    return vreinterpretq_f32_u32(bits);
}
#endif

#if SOME_WEIGHTS_ARE_HALVES
#define ADD_HALF_PRODUCT(sum, at) sum += v * single_of(with[at]);
#endif

#if SOME_WEIGHTS_ARE_HALVES
/* Each weight becomes a single in a register. stride: from the weights of a value to the next. */
static void add_eight_half_products(element *restrict sums, const element *restrict values,
                                    const uint16_t *restrict weights, int32_t count, int32_t stride)
{
    int32_t i;
#if defined(HELIUM) && (__ARM_FEATURE_MVE & 2)
    float32x4_t low = vld1q_f32(sums);
    float32x4_t high = vld1q_f32(sums + 4);
    for (i = 0; i < count; i++) {
        const uint16_t *with = &weights[i * stride];
        low = vaddq_f32(low, vmulq_n_f32(four_singles(with), values[i]));
        high = vaddq_f32(high, vmulq_n_f32(four_singles(with + 4), values[i]));
    }
    vst1q_f32(sums, low);
    vst1q_f32(sums + 4, high);
#elif defined(__AVX2__) && defined(__F16C__)
    __m256 all = _mm256_loadu_ps(sums);
    for (i = 0; i < count; i++) {
        const void *with = &weights[i * stride];
        __m256 eight = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)with));
        all = _mm256_add_ps(all, _mm256_mul_ps(eight, _mm256_set1_ps(values[i])));
    }
    _mm256_storeu_ps(sums, all);
#else
    EIGHT(LOAD_SUM)
    for (i = 0; i < count; i++) {
        element v = values[i];
        const uint16_t *with = &weights[i * stride];
        EIGHT(ADD_HALF_PRODUCT)
    }
    EIGHT(STORE_SUM)
#endif
}
#endif

#if SOME_WEIGHTS_ARE_HALVES
static void add_half_products(element *restrict sums, const element *restrict values,
                              const uint16_t *restrict weights, int32_t count, int32_t block)
{
    int32_t i;
    int32_t j;
    int32_t done = 0;
    for (; (block - done) >= 8; done += 8) {
        add_eight_half_products(&sums[done], values, &weights[done], count, block);
    }
    for (i = 0; (done < block) && (i < count); i++) {
        for (j = done; j < block; j++) {
            sums[j] += values[i] * single_of(weights[j]);
        }
        weights += block;
    }
}
#endif

static void add_products(element *restrict sums, const element *restrict values,
                         real_weights weights, int32_t count, int32_t block)
{
#if SOME_WEIGHTS_ARE_HALVES
    if (weights.halves != NULL) {
        add_half_products(sums, values, weights.halves, count, block);
        return;
    }
#endif
    add_single_products(sums, values, weights.singles, count, block);
}

/* The weights from `position` on. */
static real_weights from_weight(real_weights weights, int32_t position)
{
#if SOME_WEIGHTS_ARE_HALVES
    if (weights.halves != NULL) {
        weights.halves = &weights.halves[position];
        return weights;
    }
#endif
    weights.singles = &weights.singles[position];
    return weights;
}

static element weight_at(real_weights weights, int32_t position)
{
#if SOME_WEIGHTS_ARE_HALVES
    if (weights.halves != NULL) {
        return single_of(weights.halves[position]);
    }
#endif
    return weights.singles[position];
}

/* weights[groups][blocks of filters][taps][input channels][filters of a block]. */
typedef struct {
    window at;
    int32_t groups;
    int32_t group_inputs;
    int32_t group_filters;
    real_weights weights;
    const element *bias;
} convolution;

/* Add the products of a window to the sums of a block of filters. */
static void add_window(const convolution *c, const receptive_field *field, element *sums,
                       real_weights weights, int32_t channel, int32_t block)
{
    int32_t i;
    int32_t j;
    int32_t taps;
    int32_t inputs = c->group_inputs;
    int32_t size = inputs * block;
    int32_t is_dense = field->step == inputs;
    for (i = field->down.first; i < field->down.end; i++) {
        const element *row = field->rows[i] + channel;
        for (j = field->across.first; j < field->across.end; j += taps) {
            real_weights with = from_weight(weights, ((i * c->at.taps[1]) + j) * size);
            taps = 1;
            if (is_dense != 0) {
                taps = ((j < field->wrap) ? field->wrap : field->across.end) - j;
            }
            add_products(sums, row + column_under(field, j), with, inputs * taps, block);
        }
    }
}

static void fill_with_bias(element *sums, const element *bias, int32_t first, int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        sums[i] = bias ? bias[first + i] : 0;
    }
}

static void convolve_pixel(const void *numbers, const receptive_field *field, element *to,
                           range channels)
{
    const convolution *c = numbers;
    int32_t of_filter = c->at.taps[0] * c->at.taps[1] * c->group_inputs;
    int32_t block;
    int32_t first = channels.first;
    int32_t g = first / c->group_filters;
    real_weights weights = from_weight(c->weights, first * of_filter);
    for (; first < channels.end; first += block) {
        int32_t end = (g + 1) * c->group_filters;
        block = smaller(smaller(channels.end, end) - first, BLOCK);
        fill_with_bias(to, c->bias, first, block);
        add_window(c, field, to, weights, g * c->group_inputs, block);
        weights = from_weight(weights, of_filter * block);
        to += block;
        g += ((first + block) == end) ? 1 : 0;
    }
}

LAYER(convolve, each_window_all_channels, convolve_pixel)

/* Channels of a depthwise convolution that are computed together. */
enum { LANES = 8 };

#define ADD_LANE(sum, at) sum += values[at] * with[at];

/* Depthwise convolution of eight channels; weights: tap by tap, channel by channel. from: the first
   channel in the window, first: of the weights. */
BY_LANES static void add_eight_lanes(const convolution *of, const receptive_field *field, int32_t from,
                                     int32_t first, element *restrict sums)
{
    EIGHT(LOAD_SUM)
    int32_t i;
    int32_t j;
    int32_t last = field->across.end - 1;
    for (i = field->down.first; i < field->down.end; i++) {
        int32_t tap = (i * of->at.taps[1]) + field->across.first;
        const element *with = &of->weights.singles[(tap * of->groups) + first];
        for (j = field->across.first; j <= last; j++) {
            const element *values = &field->rows[i][column_under(field, j) + from];
            EIGHT(ADD_LANE)
            if (j == last) {
                break;
            }
            with += of->groups;
        }
    }
    EIGHT(STORE_SUM)
}

static void add_few_lanes(const convolution *c, const receptive_field *field, int32_t from,
                          int32_t first, int32_t lanes, element *restrict sums)
{
    int32_t i;
    int32_t j;
    int32_t k;
    for (i = field->down.first; i < field->down.end; i++) {
        for (j = field->across.first; j < field->across.end; j++) {
            const element *values = &field->rows[i][column_under(field, j) + from];
            int32_t with = (((i * c->at.taps[1]) + j) * c->groups) + first;
            for (k = 0; k < lanes; k++) {
                sums[k] += values[k] * weight_at(c->weights, with + k);
            }
        }
    }
}

static void depthwise_pixel(const void *numbers, const receptive_field *field, element *to,
                            range channels)
{
    const convolution *c = numbers;
    int32_t from;
    int32_t count = channels.end - channels.first;
    fill_with_bias(to, c->bias, channels.first, count);
    for (from = 0; from < count; from += LANES) {
        int32_t first = channels.first + from;
        if (((count - from) >= LANES) && (c->weights.singles != NULL)) {
            add_eight_lanes(c, field, from, first, to + from);
        } else {
            add_few_lanes(c, field, from, first, smaller(count - from, LANES), to + from);
        }
    }
}

LAYER(depthwise_conv, each_window_all_channels, depthwise_pixel)

static void add_transposed(const convolution *c, const view *in, int32_t height, int32_t y,
                           int32_t x, element *sums, real_weights weights, int32_t channel,
                           int32_t block)
{
    int32_t i;
    int32_t j;
    int32_t size = c->group_inputs * block;
    for (i = 0; i < c->at.taps[0]; i++) {
        int32_t row = transposed_source(&c->at, 0, y, i, height);
        for (j = 0; (row >= 0) && (j < c->at.taps[1]); j++) {
            int32_t column = transposed_source(&c->at, 1, x, j, in->width);
            if (column >= 0) {
                add_products(sums, row_at(in, row) + column_at(in, column) + channel,
                             from_weight(weights, ((i * c->at.taps[1]) + j) * size), c->group_inputs,
                             block);
            }
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
    int32_t g;
    int32_t done;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *pixel = row_at(&out, y) + column_at(&out, x);
            real_weights weights = c->weights;
            int32_t first = 0;
            for (g = 0; g < c->groups; g++) {
                for (done = 0; done < c->group_filters; done += BLOCK) {
                    int32_t block = smaller(BLOCK, c->group_filters - done);
                    fill_with_bias(pixel + first, c->bias, first, block);
                    add_transposed(c, &in, l->inputs[0].source->height, y, x, pixel + first,
                                   weights, g * c->group_inputs, block);
                    weights = from_weight(weights,
                                     c->at.taps[0] * c->at.taps[1] * c->group_inputs * block);
                    first += block;
                }
            }
            finish(l, pixel, out.channels, 0, x);
        }
    }
}

static void window_mean(const void *numbers, const receptive_field *field, element *to, range channels)
{
    int32_t i;
    int32_t j;
    int32_t k;
    int32_t many = averaged_pixels(numbers, field);
    int32_t count = channels.end - channels.first;
    fill_with_bias(to, NULL, 0, count);
    for (i = field->down.first; i < field->down.end; i++) {
        for (j = field->across.first; j < field->across.end; j++) {
            const element *values = field->rows[i] + column_under(field, j);
            for (k = 0; k < count; k++) {
                to[k] += values[k];
            }
        }
    }
    for (k = 0; k < count; k++) {
        to[k] /= (element)many;
    }
}

LAYER(average_pool, each_window_all_channels, window_mean)

/* weights[blocks of units][inputs][units of a block], the inputs in memory order. */
typedef struct {
    int32_t units;
    real_weights weights;
    const element *bias;
} matrix;

static void fully_connected(const run *r, const layer *l, range rows, range columns)
{
    const matrix *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *pixel = row_at(&out, 0);
    real_weights weights = m->weights;
    int32_t done;
    int32_t i;
    int32_t y;
    (void)rows;
    (void)columns;
    for (done = 0; done < m->units; done += BLOCK) {
        int32_t block = smaller(BLOCK, m->units - done);
        for (i = 0; i < block; i++) {
            pixel[done + i] = m->bias ? m->bias[done + i] : 0;
        }
        for (y = 0; y < l->inputs[0].source->height; y++) {
            add_products(&pixel[done], row_at(&in, y), weights, row_elements(&in), block);
            weights = from_weight(weights, row_elements(&in) * block);
        }
    }
    finish(l, pixel, m->units, 0, 0);
}

/* Add the products of one input row; weights[rows][row elements][units]. */
static void sum_fully(const run *r, const layer *l, range rows, range columns)
{
    const matrix *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *sums = (element *)(void *)AT(r, r->stage->sums);
    int32_t i;
    (void)columns;
    for (i = 0; (r->firing == 0) && (i < m->units); i++) {
        sums[i] = 0;
    }
    add_products(sums, row_at(&in, rows.first),
                 from_weight(m->weights, rows.first * row_elements(&in) * m->units), row_elements(&in),
                 m->units);
    if ((r->firing + 1) == r->stage->firings) {
        element *pixel = row_at(&out, 0);
        for (i = 0; i < m->units; i++) {
            pixel[i] = sums[i] + (m->bias ? m->bias[i] : 0);
        }
        finish(l, pixel, m->units, 0, 0);
    }
}

/* Sum, mean or maximum of each feature map over its first rows and columns. */
typedef struct {
    int32_t rows;
    int32_t columns;
    int32_t is_largest;
    element scale;
} summing;

static void sum_into(element *sum, const summing *s, element value)
{
    if (s->is_largest != 0) {
        *sum = (value > *sum) ? value : *sum;
    } else {
        *sum += value;
    }
}

static void sum_row(const run *r, const layer *l, range rows, range columns)
{
    const summing *s = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *sums = (element *)(void *)AT(r, r->stage->sums);
    const element *row = row_at(&in, rows.first);
    int32_t i;
    int32_t x;
    (void)columns;
    for (i = 0; (r->firing == 0) && (i < in.channels); i++) {
        sums[i] = s->is_largest ? LEAST : 0;
    }
    for (x = 0; x < s->columns; x++) {
        for (i = 0; i < in.channels; i++) {
            sum_into(&sums[i], s, row[(x * in.column_stride) + i]);
        }
    }
    if ((r->firing + 1) == r->stage->firings) {
        element *pixel = row_at(&out, 0);
        for (i = 0; i < in.channels; i++) {
            pixel[i] = sums[i] * s->scale;
        }
        finish(l, pixel, in.channels, 0, 0);
    }
}

/* Add rows of the feature maps of a fused convolution to the sums, for a block of filters. */
static void sum_block(const run *r, const layer *l, range rows, real_weights weights, int32_t g,
                      int32_t first, int32_t block, element *sums)
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
            element products[BLOCK];
            locate_columns(&field, &c->at, &in, x, 0);
            fill_with_bias(products, c->bias, first, block);
            add_window(c, &field, products, weights, g * c->group_inputs, block);
            finish(maps, products, block, first, x);
            for (i = 0; i < block; i++) {
                sum_into(&sums[i], s, products[i]);
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
    element *kept = (element *)(void *)AT(r, r->stage->sums);
    real_weights weights = c->weights;
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
            element sums[BLOCK];
            for (i = 0; i < block; i++) {
                sums[i] = r->firing ? kept[first + i] : s->is_largest ? LEAST : 0;
            }
            sum_block(r, l, added, weights, g, first, block, sums);
            for (i = 0; i < block; i++) {
                if (r->stage->mode == INTO_SUMS) {
                    kept[first + i] = sums[i];
                } else {
                    pixel[first + i] = sums[i] * s->scale;
                }
            }
            weights = from_weight(weights, c->at.taps[0] * c->at.taps[1] * c->group_inputs * block);
            first += block;
        }
    }
    if ((r->firing + 1) == r->stage->firings) {
        for (i = 0; (r->stage->mode == INTO_SUMS) && (i < first); i++) {
            pixel[i] = kept[i] * s->scale;
        }
        finish(l, pixel, first, 0, 0);
    }
}
