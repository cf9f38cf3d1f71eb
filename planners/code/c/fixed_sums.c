/* Factor of operands before they are added: 20 more bits. */
enum { SUM_STEPS = 1048576 };

/* Requantisation of sums: a multiplier and an exponent for each channel, and limits. */
typedef struct {
#if defined(HELIUM)
    const bias_sum *folded;
#endif
    const int32_t *bias;
    const int32_t *multipliers;
    const int8_t *exponents;
    int32_t zero_in;
    int32_t zero_out;
    int32_t least;
    int32_t most;
#if WEIGHTS_HAVE_ZEROS
    int32_t zero_with; /* of the weights */
#endif
#if SUMS_ROUND_ONCE
    int32_t rounds_once; /* as fully connected layers of LiteRT, halves up */
    const int32_t *further; /* bits of multipliers, 2 ** -31 each; NULL: none */
#endif
#if SUMS_ARE_MIXED
    int32_t has_small_factors; /* all factors are below a half */
    int32_t has_narrow_sums;   /* and sums have 30 bits */
#endif
} scaling;

#if defined(__SSE2__)
/* Two magnitudes (lower words) times two factors / 2 ** 31, rounded by adding `half`. */
static __m128i two_products(__m128i ones, __m128i others, __m128i half)
{
    return _mm_srli_epi64(_mm_add_epi64(_mm_mul_epu32(ones, others), half), 31);
}
#endif

#if defined(__SSE2__)
/* Store four sums as `rescaled` does: magnitudes go through two products with halves up, the second
   by 2 ** (31 + exponent), which single precision holds exactly. Exponents above zero: none (0). */
static int32_t store_four_sums(element *to, const total *sums, const scaling *s, int32_t first)
{
    __m128i none = _mm_setzero_si128();
    __m128i half = _mm_set_epi32(0, 1073741824, 0, 1073741824);
    __m128i value = _mm_loadu_si128((const __m128i *)(const void *)sums);
    __m128i sign;
    __m128i power;
    __m128i even;
    __m128i odd;
    __m128i by = _mm_loadu_si128((const __m128i *)(const void *)(s->multipliers + first));
    int32_t four;
    (void)memcpy(&four, s->exponents + first, sizeof four);
    power = _mm_cvtsi32_si128(four);
    if (_mm_movemask_epi8(_mm_cmpgt_epi8(power, none)) != 0) {
        return 0;
    }
    power = _mm_unpacklo_epi16(none, _mm_unpacklo_epi8(none, power));
    power = _mm_add_epi32(_mm_srai_epi32(power, 1), _mm_set1_epi32((127 + 31) * 8388608));
    power = _mm_cvttps_epi32(_mm_castsi128_ps(power));
    sign = _mm_srai_epi32(value, 31);
    value = _mm_sub_epi32(_mm_xor_si128(value, sign), sign);
    even = _mm_add_epi64(half, _mm_shuffle_epi32(sign, _MM_SHUFFLE(2, 2, 0, 0)));
    odd = _mm_add_epi64(half, _mm_shuffle_epi32(sign, _MM_SHUFFLE(3, 3, 1, 1)));
    even = two_products(value, by, even);
    odd = two_products(_mm_srli_epi64(value, 32), _mm_srli_epi64(by, 32), odd);
    even = two_products(even, power, half);
    odd = two_products(odd, _mm_srli_epi64(power, 32), half);
    value = _mm_or_si128(even, _mm_slli_epi64(odd, 32));
    value = _mm_sub_epi32(_mm_xor_si128(value, sign), sign);
    value = _mm_packs_epi32(value, value);
    value = _mm_adds_epi16(value, _mm_set1_epi16((short)s->zero_out));
    value = _mm_max_epi16(value, _mm_set1_epi16((short)s->least));
    value = _mm_min_epi16(value, _mm_set1_epi16((short)s->most));
    four = _mm_cvtsi128_si32(_mm_packs_epi16(value, value));
    (void)memcpy(to, &four, sizeof four);
    return 4;
}
#endif

#if defined(HELIUM)
/* Store up to four sums as `rescaled` does. */
INLINED static void store_vector(element *to, const total *sums, const scaling *s, int32_t first,
                                 int32_t count)
{
    int32x4_t value;
    int32x4_t factor;
    int32x4_t power;
    mve_pred16_t inside = vctp32q((uint32_t)count);
    if (count >= 4) {
        value = vldrwq_s32(sums);
        factor = vldrwq_s32(s->multipliers + first);
        power = vldrbq_s32(s->exponents + first);
    } else {
        value = vldrwq_z_s32(sums, inside);
        factor = vldrwq_z_s32(s->multipliers + first, inside);
        power = vldrbq_z_s32(s->exponents + first, inside);
    }
    value = vaddq_n_s32(rescaled_vector(value, factor, power), s->zero_out);
    value = vminq_s32(vmaxq_s32(value, vdupq_n_s32(s->least)), vdupq_n_s32(s->most));
    if (count >= 4) {
        vstrbq_s32(to, value);
    } else {
        vstrbq_p_s32(to, value, inside);
    }
}
#endif

#if SUMS_ROUND_ONCE
/* Store sums times (multiplier + further * 2 ** -31) * 2 ** (exponent - 31). */
static void store_sums_once(element *to, const total *sums, const scaling *s, int32_t first,
                            int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        int32_t shift = 31 - s->exponents[first + i];
        int64_t value = (int64_t)sums[i] * s->multipliers[first + i];
        if (s->further != NULL) {
            value += ((int64_t)sums[i] * s->further[first + i]) >> 31;
        }
        value = ((value + (INT64_C(1) << (shift - 1))) >> shift) + s->zero_out;
        value = (value < s->least) ? s->least : value;
        to[i] = (element)((value > s->most) ? s->most : value);
    }
}
#endif

INLINED static void store_sums(element *to, const total *sums, const scaling *s, int32_t first,
                               int32_t count)
{
    int32_t i = 0;
#if SUMS_ROUND_ONCE
    if (s->rounds_once != 0) {
        store_sums_once(to, sums, s, first, count);
        return;
    }
#endif
#if defined(HELIUM)
    for (; i < count; i += 4) {
        store_vector(to + i, sums + i, s, first + i, count - i);
    }
#else
    const int32_t *multipliers = &s->multipliers[first];
    const int8_t *exponents = &s->exponents[first];
    int32_t zero = s->zero_out;
    int32_t least = s->least;
    int32_t most = s->most;
    while (i < count) {
        int32_t value;
#if defined(__SSE2__)
        if (((count - i) >= 4) && store_four_sums(to + i, sums + i, s, first + i)) {
            i += 4;
            continue;
        }
#elif defined(WORDS_MEET)
        if (HAS_NARROW_SUMS(s)) {
            value = rescaled_narrow(sums[i], multipliers[i], exponents[i]) + zero;
            value = (value < least) ? least : value;
            value = (value > most) ? most : value;
            __asm__("" : "+r"(value)); /* no byte before it is stored */
            to[i] = (element)value;
            i++;
            continue;
        }
#endif
        value = rescaled(sums[i], multipliers[i], exponents[i]) + zero;
        value = (value < least) ? least : value;
        to[i] = (element)((value > most) ? most : value);
        i++;
    }
#endif
}
