/* Values that meet weights in one word, and in one vector. */
enum { QUAD = 4, HALF = 4, VECTOR = 16 };

#if defined(__ARM_FEATURE_SIMD32) && !defined(HELIUM)
/* Bytes 1 and 3 of a word with their sign, added to two halves of a word: a rotation within SXTAB16,
   which the intrinsics do not reach. */
INLINED static int16x2_t odd_bytes(int16x2_t to, int8x4_t four)
{
#if defined(__GNUC__)
    int16x2_t found;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(found) : "r"(to), "r"(four));
    return found;
#else
    return __sxtab16(to, (int8x4_t)TURNED(four));
#endif
}
#endif

#if defined(__ARM_FEATURE_SIMD32) && !defined(HELIUM)
/* The same without a sum. */
INLINED static int16x2_t odd_alone(int8x4_t four)
{
#if defined(__GNUC__)
    int16x2_t found;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(found) : "r"(four));
    return found;
#else
    return __sxtb16((int8x4_t)TURNED(four));
#endif
}
#endif

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
/* Add the sums of four vectors. */
static void add_vectors(int32_t *sums, __m128i a, __m128i b, __m128i c, __m128i d)
{
    __m128i given = _mm_loadu_si128((const __m128i *)(const void *)sums);
    a = _mm_add_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    c = _mm_add_epi32(_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
    given = _mm_add_epi32(given, _mm_unpacklo_epi64(a, c));
    given = _mm_add_epi32(given, _mm_unpackhi_epi64(a, c));
    _mm_storeu_si128((__m128i *)(void *)sums, given);
}
#endif

#if defined(__AVX2__)
static __m256i sixteen_words(const element *place)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)place));
}
#endif

#if defined(__AVX2__)
static __m128i both_halves(__m256i sums)
{
    return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
}
#endif

#if defined(HELIUM)
/* Take from the sums of four filters what a zero point of the values adds. */
static void take_weights(int32_t *sums, int32_t zero, const trained *weights, int32_t count,
                         int32_t apart)
{
    const trained *w = weights, *x = w + apart, *y = x + apart, *z = y + apart;
    int32_t a = 0, b = 0, c = 0, d = 0;
    __asm__("wlstp.8 lr, %[n], 1f\n"
            "2:\n\t"
            "vldrb.8 q0, [%[w]], #16\n\t"
            "vaddva.s8 %[a], q0\n\t"
            "vldrb.8 q0, [%[x]], #16\n\t"
            "vaddva.s8 %[b], q0\n\t"
            "vldrb.8 q0, [%[y]], #16\n\t"
            "vaddva.s8 %[c], q0\n\t"
            "vldrb.8 q0, [%[z]], #16\n\t"
            "vaddva.s8 %[d], q0\n\t"
            "letp lr, 2b\n"
            "1:"
            : [a] "+Te"(a), [b] "+Te"(b), [c] "+Te"(c), [d] "+Te"(d), [w] "+r"(w), [x] "+r"(x),
              [y] "+r"(y), [z] "+r"(z)
            : [n] "r"(count)
            : "q0", "lr", "cc", "memory");
    sums[0] -= zero * a;
    sums[1] -= zero * b;
    sums[2] -= zero * c;
    sums[3] -= zero * d;
}
#endif

#if defined(__ARM_FEATURE_SIMD32) && !defined(HELIUM)
/* Four values meet as many weights of four filters; compilers keep fewer of these numbers in registers. */
#define QUAD_MEETS_FOUR                                                                           \
    "ldr %[odd], [%[v]], #4\n\t"                                                                  \
    "sxtab16 %[even], %[less], %[odd]\n\t"                                                        \
    "sxtab16 %[odd], %[less], %[odd], ror #8\n\t"                                                 \
    "ldr %[t], [%[w], %[apart]]\n\t" MEETS("b") "ldr %[t], [%[w]], #4\n\t" MEETS("a")            \
    "ldr %[t], [%[y], %[apart]]\n\t" MEETS("d") "ldr %[t], [%[y]], #4\n\t" MEETS("c")
#define MEETS(sum)                                                                                \
    "sxtb16 %[u], %[t]\n\t"                                                                       \
    "sxtb16 %[t], %[t], ror #8\n\t"                                                               \
    "smlad %[" sum "], %[u], %[even], %[" sum "]\n\t"                                            \
    "smlad %[" sum "], %[t], %[odd], %[" sum "]\n\t"
#define MEET_FOUR(code)                                                                           \
    do {                                                                                          \
        int32_t even, odd, t, u;                                                                  \
        __asm__(code                                                                              \
                : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [v] "+r"(values),           \
                  [w] "+r"(with), [y] "+r"(third), [even] "=&r"(even), [odd] "=&r"(odd),          \
                  [t] "=&r"(t), [u] "=&r"(u)                                                      \
                : [less] "r"(less), [apart] "r"(apart)                                            \
                : "cc", "memory");                                                                \
    } while (0)
#endif

/* Add to the sums of four filters as many products of each row as whole vectors or words have; how many
   those are. */
INLINED static int32_t add_four(int32_t *restrict sums, const patch *p, const trained *restrict weights)
{
#if defined(HELIUM)
    int32_t all[BLOCK], i, apart = p->apart;
    int32_t a = 0, b = 0, c = 0, d = 0, x, y, z;
    const trained *base = weights, *w;
    const element *const *row = p->rows, *values;
    if (p->row_count <= 0) {
        return p->count;
    }
    /* All rows at once: compilers move their numbers about between vectors and registers. */
    __asm__("1:\n\t"
            "ldr lr, [%[p], %[apart]]\n\t"
            "mov %[w], %[base]\n\t"
            "add %[x], %[w], lr\n\t"
            "add %[y], %[x], lr\n\t"
            "add %[z], %[y], lr\n\t"
            "ldr lr, [%[p], %[width]]\n\t"
            "add %[base], lr\n\t"
            "ldr %[v], [%[row]], #4\n\t"
            "ldr lr, [%[p], %[from]]\n\t"
            "add %[v], lr\n\t"
            "ldr lr, [%[p], %[count]]\n\t"
            "wlstp.8 lr, lr, 3f\n"
            "2:\n\t"
            "vldrb.8 q0, [%[v]], #16\n\t"
            "vldrb.8 q1, [%[w]], #16\n\t"
            "vmladava.s8 %[a], q0, q1\n\t"
            "vldrb.8 q1, [%[x]], #16\n\t"
            "vmladava.s8 %[b], q0, q1\n\t"
            "vldrb.8 q1, [%[y]], #16\n\t"
            "vmladava.s8 %[c], q0, q1\n\t"
            "vldrb.8 q1, [%[z]], #16\n\t"
            "vmladava.s8 %[d], q0, q1\n\t"
            "letp lr, 2b\n"
            "3:\n\t"
            "ldrd lr, %[v], [%[p]]\n\t"
            "add lr, lr, %[v], lsl #2\n\t"
            "cmp %[row], lr\n\t"
            "blo 1b"
            : [a] "+Te"(a), [b] "+Te"(b), [c] "+Te"(c), [d] "+Te"(d), [v] "=&r"(values),
              [w] "=&r"(w), [x] "=&r"(x), [y] "=&r"(y), [z] "=&r"(z), [base] "+r"(base),
              [row] "+r"(row)
            : [p] "r"(p), [from] "i"(offsetof(patch, from)), [count] "i"(offsetof(patch, count)),
              [width] "i"(offsetof(patch, width)), [apart] "i"(offsetof(patch, apart))
            : "q0", "q1", "lr", "cc", "memory");
    __asm__("strd %[a], %[b], [%[to]]\n\t"
            "strd %[c], %[d], [%[to], #8]"
            :
            : [to] "r"(all), [a] "r"(a), [b] "r"(b), [c] "r"(c), [d] "r"(d)
            : "memory");
    vstrwq_s32(sums, vaddq_s32(vldrwq_s32(sums), vldrwq_s32(all)));
    if (p->zero && p->count == p->width) {
        take_weights(sums, p->zero, weights, p->row_count * p->count, apart);
    } else if (p->zero) {
        for (i = 0; i < p->row_count; i++) {
            take_weights(sums, p->zero, weights + i * p->width, p->count, apart);
        }
    }
    return p->count;
#elif defined(__ARM_FEATURE_SIMD32)
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3], left, i, apart = p->apart;
    int16x2_t less = (int16x2_t)((uint32_t)(-p->zero & 0xFFFF) * UINT32_C(0x10001));
    for (i = 0; i < p->row_count; i++) {
        const element *values = p->rows[i] + p->from;
        const trained *with = weights + i * p->width, *third = with + 2 * apart;
        for (left = p->count; left >= VECTOR; left -= VECTOR) {
            MEET_FOUR(QUAD_MEETS_FOUR QUAD_MEETS_FOUR QUAD_MEETS_FOUR QUAD_MEETS_FOUR);
        }
        for (; left >= QUAD; left -= QUAD) {
            MEET_FOUR(QUAD_MEETS_FOUR);
        }
        for (; left > 0; left--) {
            int32_t value = *values++ - p->zero;
            a += value * with[0];
            b += value * with[apart];
            c += value * third[0];
            d += value * third[apart];
            with++;
            third++;
        }
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
    return p->count;
#elif defined(__AVX2__)
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    __m256i less = _mm256_set1_epi16((short)p->zero);
    int32_t done = 0, i, apart = p->apart;
    for (i = 0; i < p->row_count; i++) {
        const element *values = p->rows[i] + p->from;
        for (done = 0; done + VECTOR <= p->count; done += VECTOR) {
            const trained *w = weights + i * p->width + done;
            __m256i v = _mm256_sub_epi16(sixteen_words(values + done), less);
            a = _mm256_add_epi32(a, _mm256_madd_epi16(v, sixteen_words(w)));
            b = _mm256_add_epi32(b, _mm256_madd_epi16(v, sixteen_words(w + apart)));
            c = _mm256_add_epi32(c, _mm256_madd_epi16(v, sixteen_words(w + 2 * apart)));
            d = _mm256_add_epi32(d, _mm256_madd_epi16(v, sixteen_words(w + 3 * apart)));
        }
    }
    add_vectors(sums, both_halves(a), both_halves(b), both_halves(c), both_halves(d));
    return done;
#elif defined(__SSE2__)
    __m128i all[BLOCK], less = _mm_set1_epi16((short)p->zero);
    int32_t done = 0, i, j;
    for (j = 0; j < BLOCK; j++) {
        all[j] = _mm_setzero_si128();
    }
    for (i = 0; i < p->row_count; i++) {
        const element *values = p->rows[i] + p->from;
        const trained *with = weights + i * p->width;
        for (done = 0; done + VECTOR <= p->count; done += VECTOR) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(values + done));
            __m128i low = _mm_sub_epi16(lower_words(v), less);
            __m128i high = _mm_sub_epi16(upper_words(v), less);
            for (j = 0; j < BLOCK; j++) {
                const trained *here = with + j * p->apart + done;
                __m128i w = _mm_loadu_si128((const __m128i *)(const void *)here);
                all[j] = _mm_add_epi32(all[j], _mm_madd_epi16(low, lower_words(w)));
                all[j] = _mm_add_epi32(all[j], _mm_madd_epi16(high, upper_words(w)));
            }
        }
        for (; done + VECTOR / 2 <= p->count; done += VECTOR / 2) {
            __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)(values + done));
            v = _mm_sub_epi16(lower_words(v), less);
            for (j = 0; j < BLOCK; j++) {
                const trained *here = with + j * p->apart + done;
                __m128i w = _mm_loadl_epi64((const __m128i *)(const void *)here);
                all[j] = _mm_add_epi32(all[j], _mm_madd_epi16(v, lower_words(w)));
            }
        }
    }
    add_vectors(sums, all[0], all[1], all[2], all[3]);
    return done;
#else
    (void)sums;
    (void)p;
    (void)weights;
    return 0;
#endif
}

INLINED static void add_values(int32_t *sums, const patch *p, const trained *weights, int32_t filters)
{
    int32_t done = 0;
    weights += p->weights_from;
    if (filters == BLOCK) {
        done = add_four(sums, p, weights);
    }
    if (done < p->count) {
        add_products(sums, p, weights, done, filters);
    }
}

#if defined(__ARM_FEATURE_SIMD32) && !defined(HELIUM)
/* Four values meet as many weights, of a sum each. */
#define LANES_MEET                                                                                \
    "ldr %[odd], [%[v]]\n\t"                                                                      \
    "ldr %[t], [%[w]]\n\t"                                                                        \
    "sxtab16 %[even], %[less], %[odd]\n\t"                                                        \
    "sxtab16 %[odd], %[less], %[odd], ror #8\n\t"                                                 \
    "sxtb16 %[u], %[t]\n\t"                                                                       \
    "sxtb16 %[t], %[t], ror #8\n\t"                                                               \
    "smlabb %[a], %[u], %[even], %[a]\n\t"                                                        \
    "smlabb %[b], %[t], %[odd], %[b]\n\t"                                                         \
    "smlatt %[c], %[u], %[even], %[c]\n\t"                                                        \
    "smlatt %[d], %[t], %[odd], %[d]\n\t"
#endif

/* Add to sums of four or eight channels what lies under taps side by side, from a channel on. step: from
   a tap to the next. */
INLINED static void add_lanes(int32_t *sums, const patch *p, const trained *weights, int32_t from,
                              int32_t step)
{
    int32_t i, zero = p->zero, apart = p->apart;
#if defined(HELIUM)
    int32x4x2_t all = vld2q_s32(sums); /* channels of even and of odd numbers */
    int32x4_t even = all.val[0], odd = all.val[1];
#elif defined(__SSE2__)
    __m128i less = _mm_set1_epi16((short)zero), *all = (__m128i *)(void *)sums;
    __m128i low = _mm_loadu_si128(all), high = _mm_loadu_si128(all + 1);
#else
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
#endif
#if defined(__ARM_FEATURE_SIMD32) && !defined(HELIUM)
    int16x2_t less = (int16x2_t)((uint32_t)(-zero & 0xFFFF) * UINT32_C(0x10001));
#endif
    for (i = 0; i < p->row_count; i++) {
        const element *values = p->rows[i] + p->from + from, *end = values + p->count;
        const trained *with = weights + i * p->width;
        for (; values != end; values += step, with += apart) {
#if defined(HELIUM)
            int16x8_t v = vsubq_n_s16(vldrbq_s16(values), (int16_t)zero), w = vldrbq_s16(with);
            even = vaddq_s32(even, vmullbq_int_s16(v, w));
            odd = vaddq_s32(odd, vmulltq_int_s16(v, w));
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
            int32_t even, odd, t, u;
            __asm__(LANES_MEET
                    : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [even] "=&r"(even),
                      [odd] "=&r"(odd), [t] "=&r"(t), [u] "=&r"(u)
                    : [v] "r"(values), [w] "r"(with), [less] "r"(less)
                    : "memory");
#else
            a += (values[0] - zero) * with[0];
            b += (values[1] - zero) * with[1];
            c += (values[2] - zero) * with[2];
            d += (values[3] - zero) * with[3];
#endif
        }
    }
#if defined(HELIUM)
    all.val[0] = even;
    all.val[1] = odd;
    vst2q_s32(sums, all);
#elif defined(__SSE2__)
    _mm_storeu_si128(all, low);
    _mm_storeu_si128(all + 1, high);
#else
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
#endif
}

/* How many of so many channels are made at once, of windows that are one patch. */
#if defined(HELIUM) || defined(__SSE2__)
enum { SIDE_BY_SIDE = 8 };
#else
enum { SIDE_BY_SIDE = 4 };
#endif

static void make_lanes(element *to, const patch *p, const trained *weights, int32_t from,
                       int32_t step, const scaling *s, int32_t first)
{
    total sums[SIDE_BY_SIDE];
    begin_sums(sums, s->bias, first, SIDE_BY_SIDE);
    add_lanes(sums, p, weights, from, step);
    store_sums(to, sums, s, first, SIDE_BY_SIDE);
}

/* Make the channels of a place that go into such lanes; how many those are. */
static int32_t make_all_lanes(element *to, const convolution *c, const footprint *under,
                              int32_t first, int32_t count)
{
    int32_t from, step = under->step;
    const trained *weights = c->weights + first;
    patch p;
    if (WEIGHTS_HAVE_ZEROS || under->bend < under->across.end) {
        return 0;
    }
    p.rows = under->rows + under->down.first;
    p.row_count = under->down.end - under->down.first;
    p.from = column_under(under, under->across.first);
    p.count = (under->across.end - under->across.first) * step;
    p.zero = c->to.zero_in;
    p.apart = c->groups;
    p.width = c->at.taps[1] * c->groups;
    weights += under->down.first * p.width + under->across.first * c->groups;
    for (from = 0; from + SIDE_BY_SIDE <= count; from += SIDE_BY_SIDE) {
        make_lanes(to + from, &p, weights + from, from, step, &c->to, first + from);
    }
    return from;
}
