/* Where `is_quad`, four values in a row meet four weights of each filter
   in turn; otherwise the weights of all filters for one value lie side by side. */
enum { QUAD = 4, HALF = 4 };

/* Filters that are summed at once: one block, or several. */
#if defined(__SSE2__)
enum { TOGETHER = 2 * BLOCK };
#else
enum { TOGETHER = BLOCK };
#endif

static int32_t is_quad(int32_t channels, int32_t block)
{
    return block >= BLOCK && channels % QUAD == 0;
}

#if defined(__SSE2__)
/* Eight words of bytes, with their sign. */
static __m128i lower_words(__m128i bytes)
{
    return _mm_srai_epi16(_mm_unpacklo_epi8(_mm_setzero_si128(), bytes), 8);
}
#endif

#if defined(__SSE2__)
static __m128i upper_words(__m128i bytes)
{
    return _mm_srai_epi16(_mm_unpackhi_epi8(_mm_setzero_si128(), bytes), 8);
}
#endif

#if defined(__SSE2__)
/* Add the sums of both halves of four filters, two of them in each vector. */
static void add_halves(int32_t *sums, __m128i low, __m128i high)
{
    __m128i given = _mm_loadu_si128((const __m128i *)(const void *)sums);
    __m128 one = _mm_castsi128_ps(low), other = _mm_castsi128_ps(high);
    __m128i even = _mm_castps_si128(_mm_shuffle_ps(one, other, _MM_SHUFFLE(2, 0, 2, 0)));
    __m128i odd = _mm_castps_si128(_mm_shuffle_ps(one, other, _MM_SHUFFLE(3, 1, 3, 1)));
    given = _mm_add_epi32(given, _mm_add_epi32(even, odd));
    _mm_storeu_si128((__m128i *)(void *)sums, given);
}
#endif

static void add_quads(int32_t *restrict sums, const element *restrict values, int32_t zero,
                      const element *restrict weights, int32_t count)
{
#if defined(HELIUM)
    /* Two filters lie in a vector, so four values go into it twice; the products of those with even
       numbers and with odd numbers are summed up in turn. */
    uint16x8_t twice = vandq_u16(vidupq_n_u16(0, 1), vdupq_n_u16(QUAD - 1));
    int32x4_t low = vdupq_n_s32(0), high = low;
    const element *end = values + count;
    for (; values < end; values += QUAD) {
        int16x8_t v = vsubq_n_s16(vldrbq_gather_offset_s16(values, twice), (int16_t)zero);
        int16x8_t first = vldrbq_s16(weights), second = vldrbq_s16(weights + 2 * QUAD);
        low = vaddq_s32(low, vmullbq_int_s16(v, first));
        low = vaddq_s32(low, vmulltq_int_s16(v, first));
        high = vaddq_s32(high, vmullbq_int_s16(v, second));
        high = vaddq_s32(high, vmulltq_int_s16(v, second));
        weights += BLOCK * QUAD;
    }
    sums[0] += vgetq_lane_s32(low, 0) + vgetq_lane_s32(low, 1);
    sums[1] += vgetq_lane_s32(low, 2) + vgetq_lane_s32(low, 3);
    sums[2] += vgetq_lane_s32(high, 0) + vgetq_lane_s32(high, 1);
    sums[3] += vgetq_lane_s32(high, 2) + vgetq_lane_s32(high, 3);
#elif defined(__ARM_FEATURE_SIMD32)
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
    __m128i low = _mm_setzero_si128(), high = low;
    __m128i less = _mm_set1_epi16((short)zero);
    const element *end = values + count;
    for (; values < end; values += QUAD) {
        int32_t four;
        __m128i v, w = _mm_loadu_si128((const __m128i *)(const void *)weights);
        memcpy(&four, values, sizeof four);
        v = _mm_cvtsi32_si128(four);
        v = _mm_sub_epi16(lower_words(_mm_unpacklo_epi32(v, v)), less);
        low = _mm_add_epi32(low, _mm_madd_epi16(v, lower_words(w)));
        high = _mm_add_epi32(high, _mm_madd_epi16(v, upper_words(w)));
        weights += BLOCK * QUAD;
    }
    add_halves(sums, low, high);
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

#if defined(__SSE2__)
/* The same for two blocks of filters, whose weights are so many apart. */
static void add_two_quads(int32_t *restrict sums, const element *restrict values, int32_t zero,
                          const element *restrict weights, int32_t count, int32_t apart)
{
    __m128i a = _mm_setzero_si128(), b = a, c = a, d = a;
    __m128i less = _mm_set1_epi16((short)zero);
    const element *end = values + count;
    for (; values < end; values += QUAD) {
        int32_t four;
        __m128i v, w = _mm_loadu_si128((const __m128i *)(const void *)weights);
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(weights + apart));
        memcpy(&four, values, sizeof four);
        v = _mm_cvtsi32_si128(four);
        v = _mm_sub_epi16(lower_words(_mm_unpacklo_epi32(v, v)), less);
        a = _mm_add_epi32(a, _mm_madd_epi16(v, lower_words(w)));
        b = _mm_add_epi32(b, _mm_madd_epi16(v, upper_words(w)));
        c = _mm_add_epi32(c, _mm_madd_epi16(v, lower_words(x)));
        d = _mm_add_epi32(d, _mm_madd_epi16(v, upper_words(x)));
        weights += BLOCK * QUAD;
    }
    add_halves(sums, a, b);
    add_halves(sums + BLOCK, c, d);
}
#endif

#if defined(__SSE2__)
/* A block of filters, two values at a time, whose weights lie value by value. */
static void add_pairs(int32_t *restrict sums, const element *restrict values, int32_t zero,
                      const element *restrict weights, int32_t count)
{
    __m128i all = _mm_loadu_si128((const __m128i *)(const void *)sums);
    int32_t number;
    for (number = 0; number < count; number += 2) {
        int32_t rest = count - number, first = values[number] - zero, second = 0, with;
        __m128i w, both;
        memcpy(&with, weights, sizeof with);
        w = _mm_cvtsi32_si128(with);
        both = _mm_setzero_si128();
        if (rest > 1) {
            second = values[number + 1] - zero;
            memcpy(&with, weights + BLOCK, sizeof with);
            both = _mm_cvtsi32_si128(with);
        }
        w = lower_words(_mm_unpacklo_epi8(w, both));
        both = _mm_set1_epi32((first & 0xFFFF) | (int32_t)((uint32_t)second << 16));
        all = _mm_add_epi32(all, _mm_madd_epi16(both, w));
        weights += 2 * BLOCK;
    }
    _mm_storeu_si128((__m128i *)(void *)sums, all);
}
#endif

static void add_values(int32_t *sums, const element *values, int32_t zero, const trained *weights,
                       int32_t count, int32_t block, int32_t channels, int32_t apart)
{
    int32_t done;
#if defined(__SSE2__)
    if (block > BLOCK && is_quad(channels, block)) {
        add_two_quads(sums, values, zero, weights, count, apart);
        return;
    }
#endif
    for (done = 0; done < block; done += BLOCK) {
        if (is_quad(channels, block)) {
            add_quads(sums, values, zero, weights, count);
#if defined(__SSE2__)
        } else if (block >= BLOCK) {
            add_pairs(sums, values, zero, weights, count);
#endif
        } else {
            add_products(sums, values, zero, weights, count, block);
        }
        sums += BLOCK;
        weights += apart;
    }
}

/* As add_few_lanes, for four or eight channels. */
static void add_lanes(const convolution *c, const footprint *under, int32_t from, int32_t first,
                      int32_t *sums)
{
    int32_t i, j, step = c->groups, zero = c->to.zero_in;
#if defined(HELIUM)
    int32x4x2_t all = vld2q_s32(sums); /* channels of even and of odd numbers */
#elif defined(__SSE2__)
    __m128i less = _mm_set1_epi16((short)zero), *all = (__m128i *)(void *)sums;
    __m128i low = _mm_loadu_si128(all), high = _mm_loadu_si128(all + 1);
#else
    int32_t d0 = sums[0], d1 = sums[1], d2 = sums[2], d3 = sums[3];
#endif
#if defined(__ARM_FEATURE_SIMD32) && !defined(HELIUM)
    int16x2_t less = (int16x2_t)((uint32_t)(-zero & 0xFFFF) * UINT32_C(0x10001));
#endif
    for (i = under->down.first; i < under->down.end; i++) {
        const element *with = c->weights + first;
        with += (i * c->at.taps[1] + under->across.first) * step;
        for (j = under->across.first; j < under->across.end; j++) {
            const element *values = under->rows[i] + column_under(under, j) + from;
#if defined(HELIUM)
            int16x8_t v = vsubq_n_s16(vldrbq_s16(values), (int16_t)zero), w = vldrbq_s16(with);
            all.val[0] = vaddq_s32(all.val[0], vmullbq_int_s16(v, w));
            all.val[1] = vaddq_s32(all.val[1], vmulltq_int_s16(v, w));
#elif defined(__SSE2__)
            __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)values);
            __m128i w = _mm_loadl_epi64((const __m128i *)(const void *)with), lower, upper;
            v = _mm_sub_epi16(lower_words(v), less);
            w = lower_words(w);
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
#if defined(HELIUM)
    vst2q_s32(sums, all);
#elif defined(__SSE2__)
    _mm_storeu_si128(all, low);
    _mm_storeu_si128(all + 1, high);
#else
    sums[0] = d0;
    sums[1] = d1;
    sums[2] = d2;
    sums[3] = d3;
#endif
}

static void add_eight_lanes(const convolution *c, const footprint *under, int32_t from,
                            int32_t first, int32_t *sums)
{
    add_lanes(c, under, from, first, sums);
#if !defined(HELIUM) && !defined(__SSE2__)
    add_lanes(c, under, from + HALF, first + HALF, sums + HALF);
#endif
}
