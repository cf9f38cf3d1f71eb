/* Where `is_quad`, four values in a row meet four weights of each filter
   in turn; otherwise the weights of all filters for one value lie side by side. */
enum { QUAD = 4, HALF = 4 };

static int32_t is_quad(int32_t channels, int32_t block)
{
    return block == BLOCK && channels % QUAD == 0;
}

static void add_quads(int32_t *restrict sums, const element *restrict values, int32_t zero,
                      const element *restrict weights, int32_t count)
{
#if defined(__ARM_FEATURE_SIMD32)
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    int16x2_t less = (int16x2_t)((uint32_t)(-zero & 0xFFFF) * UINT32_C(0x10001));
    const element *end = values + count;
    for (; values < end; values += QUAD) {
        int8x4_t four, all[BLOCK];
        int16x2_t even, odd;
        memcpy(&four, values, sizeof four);
        memcpy(all, weights, sizeof all);
        even = __sxtab16(less, four);
        odd = __sxtab16(less, (int8x4_t)TURNED(four));
        a = __smlad(__sxtb16(all[0]), even, a);
        b = __smlad(__sxtb16(all[1]), even, b);
        c = __smlad(__sxtb16(all[2]), even, c);
        d = __smlad(__sxtb16(all[3]), even, d);
        a = __smlad(__sxtb16((int8x4_t)TURNED(all[0])), odd, a);
        b = __smlad(__sxtb16((int8x4_t)TURNED(all[1])), odd, b);
        c = __smlad(__sxtb16((int8x4_t)TURNED(all[2])), odd, c);
        d = __smlad(__sxtb16((int8x4_t)TURNED(all[3])), odd, d);
        weights += BLOCK * QUAD;
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#elif defined(__SSE2__)
    __m128i none = _mm_setzero_si128(), low = none, high = none;
    __m128i less = _mm_set1_epi16((short)zero);
    const element *end = values + count;
    int32_t found[2 * BLOCK], k;
    for (; values < end; values += QUAD) {
        int32_t four;
        __m128i v, w = _mm_loadu_si128((const __m128i *)(const void *)weights);
        memcpy(&four, values, sizeof four);
        v = _mm_cvtsi32_si128(four);
        v = _mm_srai_epi16(_mm_unpacklo_epi8(none, _mm_unpacklo_epi32(v, v)), 8);
        v = _mm_sub_epi16(v, less);
        low = _mm_add_epi32(low, _mm_madd_epi16(v, _mm_srai_epi16(_mm_unpacklo_epi8(none, w), 8)));
        high = _mm_add_epi32(high, _mm_madd_epi16(v, _mm_srai_epi16(_mm_unpackhi_epi8(none, w), 8)));
        weights += BLOCK * QUAD;
    }
    _mm_storeu_si128((__m128i *)(void *)found, low);
    _mm_storeu_si128((__m128i *)(void *)(found + BLOCK), high);
    for (k = 0; k < BLOCK; k++) {
        sums[k] += found[2 * k] + found[2 * k + 1];
    }
#else
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3], k;
    const element *end = values + count;
    for (; values < end; values += QUAD) {
        for (k = 0; k < QUAD; k++) {
            int32_t value = values[k] - zero;
            a += value * weights[k];
            b += value * weights[QUAD + k];
            c += value * weights[2 * QUAD + k];
            d += value * weights[3 * QUAD + k];
        }
        weights += BLOCK * QUAD;
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#endif
}

static void add_values(int32_t *sums, const element *values, int32_t zero, const trained *weights,
                       int32_t count, int32_t block, int32_t channels)
{
    if (is_quad(channels, block)) {
        add_quads(sums, values, zero, weights, count);
    } else {
        add_products(sums, values, zero, weights, count, block);
    }
}

/* One filter a channel; weights: tap by tap, channel by channel. Adds four or eight channels. */
static void add_lanes(const convolution *c, const view *in, const element *const *rows, range down,
                      range across, int32_t x, int32_t first, int32_t *sums)
{
    int32_t i, j, step = in->channels, zero = c->to.zero_in;
#if defined(__SSE2__)
    __m128i none = _mm_setzero_si128(), less = _mm_set1_epi16((short)zero);
    __m128i low = none, high = none;
    int32_t found[LANES];
#else
    int32_t d0 = sums[0], d1 = sums[1], d2 = sums[2], d3 = sums[3];
#endif
#if defined(__ARM_FEATURE_SIMD32)
    int16x2_t less = (int16x2_t)((uint32_t)(-zero & 0xFFFF) * UINT32_C(0x10001));
#endif
    for (i = down.first; i < down.end; i++) {
        const element *with = c->weights + (i * c->at.taps[1] + across.first) * step + first;
        for (j = across.first; j < across.end; j++) {
            const element *values = rows[i] + column_at(in, tapped(&c->at, 1, x, j)) + first;
#if defined(__SSE2__)
            __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)values);
            __m128i w = _mm_loadl_epi64((const __m128i *)(const void *)with), lower, upper;
            v = _mm_sub_epi16(_mm_srai_epi16(_mm_unpacklo_epi8(none, v), 8), less);
            w = _mm_srai_epi16(_mm_unpacklo_epi8(none, w), 8);
            lower = _mm_mullo_epi16(v, w);
            upper = _mm_mulhi_epi16(v, w);
            low = _mm_add_epi32(low, _mm_unpacklo_epi16(lower, upper));
            high = _mm_add_epi32(high, _mm_unpackhi_epi16(lower, upper));
#elif defined(__ARM_FEATURE_SIMD32)
            int8x4_t v, w;
            int32_t even, odd, even_with, odd_with;
            memcpy(&v, values, sizeof v);
            memcpy(&w, with, sizeof w);
            even = (int32_t)__sxtab16(less, v);
            odd = (int32_t)__sxtab16(less, (int8x4_t)TURNED(v));
            even_with = (int32_t)__sxtb16(w);
            odd_with = (int32_t)__sxtb16((int8x4_t)TURNED(w));
            d0 += (int16_t)even * (int16_t)even_with;
            d1 += (int16_t)odd * (int16_t)odd_with;
            d2 += (even >> 16) * (even_with >> 16);
            d3 += (odd >> 16) * (odd_with >> 16);
#else
            d0 += (values[0] - zero) * with[0];
            d1 += (values[1] - zero) * with[1];
            d2 += (values[2] - zero) * with[2];
            d3 += (values[3] - zero) * with[3];
#endif
            with += step;
        }
    }
#if defined(__SSE2__)
    _mm_storeu_si128((__m128i *)(void *)found, low);
    _mm_storeu_si128((__m128i *)(void *)(found + HALF), high);
    for (i = 0; i < LANES; i++) {
        sums[i] += found[i];
    }
#else
    sums[0] = d0;
    sums[1] = d1;
    sums[2] = d2;
    sums[3] = d3;
#endif
}

static void add_eight_lanes(const convolution *c, const view *in, const element *const *rows,
                            range down, range across, int32_t x, int32_t first, int32_t *sums)
{
    add_lanes(c, in, rows, down, across, x, first, sums);
#if !defined(__SSE2__)
    add_lanes(c, in, rows, down, across, x, first + HALF, sums + HALF);
#endif
}
