#if defined(WORDS_MEET)
/* Multiply four values by four weights elementwise, and add each product to its own sum. */
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

/* Add the products of a depthwise window to the sums of four or eight channels, from a channel on.
   stride: of taps. */
INLINED static void add_lanes(int32_t *sums, const patch *p, const trained *weights, int32_t from,
                              int32_t stride)
{
    int32_t i;
    int32_t zero = p->zero;
    int32_t apart = p->apart;
#if defined(HELIUM)
    int32x4x2_t all = vld2q_s32(sums); /* channels of even and of odd numbers */
    int32x4_t even = all.val[0];
    int32x4_t odd = all.val[1];
#elif defined(__SSE2__)
    __m128i less = _mm_set1_epi16((short)zero);
    __m128i *all = (__m128i *)(void *)sums;
    __m128i low = _mm_loadu_si128(all);
    __m128i high = _mm_loadu_si128(all + 1);
#else
    int32_t a = sums[0];
    int32_t b = sums[1];
    int32_t c = sums[2];
    int32_t d = sums[3];
#endif
#if defined(WORDS_MEET)
    uint32_t less = (uint32_t)(-zero & 0xFFFF) * UINT32_C(0x10001);
#endif
    for (i = 0; i < p->row_count; i++) {
        const element *values = &p->rows[i][p->from + from];
        const element *last = &values[p->count - stride]; /* of a tap: the loop ends there */
        const trained *with = &weights[i * p->width];
        for (;;) {
#if defined(HELIUM)
            int16x8_t v = vsubq_n_s16(vldrbq_s16(values), (int16_t)zero);
            int16x8_t w = vldrbq_s16(with);
            even = vaddq_s32(even, vmullbq_int_s16(v, w));
            odd = vaddq_s32(odd, vmulltq_int_s16(v, w));
#elif defined(__SSE2__)
            __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)values);
            __m128i w = _mm_loadl_epi64((const __m128i *)(const void *)with);
            __m128i lower;
            __m128i upper;
            v = _mm_sub_epi16(lower_words(v), less);
            w = lower_words(w);
            lower = _mm_mullo_epi16(v, w);
            upper = _mm_mulhi_epi16(v, w);
            low = _mm_add_epi32(low, _mm_unpacklo_epi16(lower, upper));
            high = _mm_add_epi32(high, _mm_unpackhi_epi16(lower, upper));
#elif defined(WORDS_MEET)
            int32_t even;
            int32_t odd;
            int32_t t;
            int32_t u;
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
            if (values == last) {
                break;
            }
            values += stride;
            with += apart;
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

/* Channels of a depthwise window that are computed together. */
#if defined(HELIUM) || defined(__SSE2__)
enum { SIDE_BY_SIDE = 8 };
#else
enum { SIDE_BY_SIDE = 4 };
#endif

/* Compute SIDE_BY_SIDE channels. parts: the taps before and after the end of the ring of columns. */
static void make_lanes(element *to, const patch *parts, const trained *weights, int32_t from,
                       int32_t stride, const scaling *s, int32_t first)
{
    int32_t part;
    total sums[SIDE_BY_SIDE];
    begin_sums(sums, s->bias, first, SIDE_BY_SIDE);
    for (part = 0; (part < 2) && (parts[part].count > 0); part++) {
        add_lanes(sums, &parts[part], &weights[parts[part].weights_from], from, stride);
    }
    store_sums(to, sums, s, first, SIDE_BY_SIDE);
}

#if defined(HELIUM) && FACTORS_ARE_SMALL
/* Eight channels in assembly, even channels in one vector and odd channels in another. Registers: r0
   values, r1 weights, r2 addresses, r3 zero point, r4 and r5 strides of taps. */
#define LANES_BEGIN(even, odd, at)                                                                \
    "vld20.32 {" even ", " odd "}, [r2]\n\t"                                                      \
    "vld21.32 {" even ", " odd "}, [r2]!\n\t"
#define LANES_MEET(even, odd, at)                                                                 \
    "vldrb.s16 q0, [r0" at "]\n\t"                                                               \
    "vldrb.s16 q1, [r1" at "]\n\t"                                                               \
    "vsub.i16 q0, q0, r3\n\t"                                                                    \
    "vmullb.s16 q2, q0, q1\n\t"                                                                  \
    "vmullt.s16 q3, q0, q1\n\t"                                                                  \
    "vadd.i32 " even ", " even ", q2\n\t"                                                        \
    "vadd.i32 " odd ", " odd ", q3\n\t"
#define LANES_MULTIPLY(even, odd, at)                                                             \
    "vld20.32 {q0, q1}, [r2]\n\t"                                                                \
    "vld21.32 {q0, q1}, [r2]!\n\t"                                                               \
    "vqrdmulh.s32 " even ", " even ", q0\n\t"                                                    \
    "vqrdmulh.s32 " odd ", " odd ", q1\n\t"
#define LANES_SHIFT(even, odd, at)                                                                \
    "vldrb.s16 q0, [r2], #8\n\t"                                                                 \
    "vmovlb.s16 q1, q0\n\t"                                                                      \
    "vmovlt.s16 q0, q0\n\t"                                                                      \
    "vshr.s32 q2, " even ", #31\n\t"                                                             \
    "vshr.s32 q3, " odd ", #31\n\t"                                                              \
    "vadd.i32 " even ", " even ", q2\n\t"                                                        \
    "vadd.i32 " odd ", " odd ", q3\n\t"                                                          \
    "vrshl.s32 " even ", " even ", q1\n\t"                                                       \
    "vrshl.s32 " odd ", " odd ", q0\n\t"
#define LANES_STORE(even, odd, at)                                                                \
    "vqmovnb.s32 q0, " even "\n\t"                                                               \
    "vqmovnt.s32 q0, " odd "\n\t"                                                                \
    "vqadd.s16 q0, q0, r0\n\t"                                                                   \
    "vmax.s16 q0, q0, q1\n\t"                                                                    \
    "vmin.s16 q0, q0, q2\n\t"                                                                    \
    "vstrb.16 q0, [r2], #8\n\t"
#define ONE_EIGHT(part) part("q4", "q5", "")
#define TWO_EIGHTS(part) part("q4", "q5", "") part("q6", "q7", ", #8")
#endif

#if defined(HELIUM) && FACTORS_ARE_SMALL
/* A loop over blocks of 8 or 16 channels of a pixel. More registers: r6 and r7 rows, r8 offset of the
   first value, r9 weights, r10 stride of rows of weights, r11 and r12 taps before and after the wrap.
   Stack: 0 weights, 4 to, 8 end, 12 bias, 16 multipliers, 20 exponents, 24 rows, 28 scaling, 32 offset
   from the wrap to the first value after it. */
#define LANES_IN_ASSEMBLY(lanes, number)                                                          \
    "push {r4-r11, lr}\n\t"                                                                       \
    "vpush {d8-d15}\n\t"                                                                          \
    "sub sp, #36\n\t"                                                                             \
    "ldrd r4, r5, [sp, #136]\n\t"                                                                 \
    "ldr r6, [sp, #144]\n\t"                                                                      \
    "strd r2, r0, [sp]\n\t"                                                                       \
    "ldrd r7, r8, [r4, #4]\n\t"                                                                   \
    "ldr r9, [r4, #12]\n\t"                                                                       \
    "add r7, r7, r5, lsl #2\n\t"                                                                  \
    "add r8, r8, r5, lsl #2\n\t"                                                                  \
    "add r9, r9, r5\n\t"                                                                          \
    "strd r6, r7, [sp, #8]\n\t"                                                                   \
    "strd r8, r9, [sp, #16]\n\t"                                                                  \
    "ldrd r6, r7, [r1]\n\t"                                                                       \
    "strd r6, r4, [sp, #24]\n\t"                                                                  \
    "add r7, r6, r7, lsl #2\n\t"                                                                  \
    "mov r4, r3\n\t"                                                                              \
    "ldrd r8, r11, [r1, #8]\n\t"                                                                  \
    "add r0, r8, r11\n\t"                                                                         \
    "ldrd r3, r12, [r1, #40]\n\t"                                                                 \
    "sub r0, r3, r0\n\t"                                                                          \
    "str r0, [sp, #32]\n\t"                                                                       \
    "sdiv r11, r11, r4\n\t"                                                                       \
    "sdiv r12, r12, r4\n\t"                                                                       \
    "ldrd r3, r0, [r1, #16]\n\t"                                                                  \
    "ldrd r10, r5, [r1, #24]\n\t"                                                                 \
    "ldr r9, [sp]\n\t"                                                                            \
    "add r9, r9, r0\n\t"                                                                          \
    "str r9, [sp]\n"                                                                              \
    "1:\n\t"                                                                                      \
    "ldr r6, [sp, #24]\n\t"                                                                       \
    "ldr r9, [sp]\n\t"                                                                            \
    "ldr r2, [sp, #12]\n\t" lanes(LANES_BEGIN)                                                    \
    "str r2, [sp, #12]\n\t"                                                                       \
    "ldr r2, [sp, #32]\n"                                                                         \
    "2:\n\t"                                                                                      \
    "ldr r0, [r6], #4\n\t"                                                                        \
    "add r0, r0, r8\n\t"                                                                          \
    "mov r1, r9\n\t"                                                                              \
    "dls lr, r11\n"                                                                               \
    "3:\n\t" lanes(LANES_MEET)                                                                    \
    "add r0, r0, r4\n\t"                                                                          \
    "add r1, r1, r5\n\t"                                                                          \
    "le lr, 3b\n\t"                                                                               \
    "add r0, r0, r2\n\t"                                                                          \
    "wls lr, r12, 5f\n"                                                                           \
    "4:\n\t" lanes(LANES_MEET)                                                                    \
    "add r0, r0, r4\n\t"                                                                          \
    "add r1, r1, r5\n\t"                                                                          \
    "le lr, 4b\n"                                                                                 \
    "5:\n\t"                                                                                      \
    "add r9, r9, r10\n\t"                                                                         \
    "cmp r6, r7\n\t"                                                                              \
    "bne 2b\n\t"                                                                                  \
    "ldr r2, [sp, #16]\n\t" lanes(LANES_MULTIPLY)                                                 \
    "str r2, [sp, #16]\n\t"                                                                       \
    "ldr r2, [sp, #20]\n\t" lanes(LANES_SHIFT)                                                    \
    "str r2, [sp, #20]\n\t"                                                                       \
    "ldr r2, [sp, #28]\n\t"                                                                       \
    "ldrd r0, r1, [r2, #20]\n\t"                                                                  \
    "ldr r2, [r2, #28]\n\t"                                                                       \
    "vdup.16 q1, r1\n\t"                                                                          \
    "vdup.16 q2, r2\n\t"                                                                          \
    "ldr r2, [sp, #4]\n\t" lanes(LANES_STORE)                                                     \
    "str r2, [sp, #4]\n\t"                                                                        \
    "ldr r0, [sp]\n\t"                                                                            \
    "add r0, r0, #" number "\n\t"                                                                 \
    "str r0, [sp]\n\t"                                                                            \
    "add r8, r8, #" number "\n\t"                                                                 \
    "ldr r0, [sp, #8]\n\t"                                                                        \
    "cmp r2, r0\n\t"                                                                              \
    "bne 1b\n\t"                                                                                  \
    "add sp, #36\n\t"                                                                             \
    "vpop {d8-d15}\n\t"                                                                           \
    "pop {r4-r11, pc}"
#endif

#if defined(HELIUM) && FACTORS_ARE_SMALL
/* Compute the channels from `first` on; `end - to` is a multiple of 8, or of 16. */
NAKED static void make_eight(element *to UNREAD, const patch *p UNREAD,
                             const trained *weights UNREAD, int32_t stride UNREAD,
                             const scaling *s UNREAD, int32_t first UNREAD, element *end UNREAD)
{
    __asm__(LANES_IN_ASSEMBLY(ONE_EIGHT, "8"));
}
#endif

#if defined(HELIUM) && FACTORS_ARE_SMALL
NAKED static void make_sixteen(element *to UNREAD, const patch *p UNREAD,
                               const trained *weights UNREAD, int32_t stride UNREAD,
                               const scaling *s UNREAD, int32_t first UNREAD, element *end UNREAD)
{
    __asm__(LANES_IN_ASSEMBLY(TWO_EIGHTS, "16"));
}
#endif

#if defined(WORDS_MEET) && SUMS_ARE_NARROW
/* A loop over blocks of four channels, for a Cortex-M4. Registers: r0 values, r1 weights, r2 and r3
   from a tap to the next, r9 the end of the values, r8 the zero point. On the stack: 0 the next row,
   4 the end of the rows, 8 weights of a row, 12 of a block, 16 the first value, 20 the bias, 52 and 56
   rows, 60 values before the end of the ring of columns and 64 after it, 68 from that end to the first
   value after it, 72 and 76 the strides in r2 and r3. */
#define TAP_MEETS                                                                                 \
    "ldr r10, [r0]\n\t"                                                                           \
    "ldr r12, [r1]\n\t"                                                                           \
    "sxtab16 r11, r8, r10\n\t"                                                                    \
    "sxtab16 r10, r8, r10, ror #8\n\t"                                                            \
    "sxtb16 lr, r12\n\t"                                                                          \
    "sxtb16 r12, r12, ror #8\n\t"                                                                 \
    "smlabb r4, lr, r11, r4\n\t"                                                                  \
    "smlabb r5, r12, r10, r5\n\t"                                                                 \
    "smlatt r6, lr, r11, r6\n\t"                                                                  \
    "smlatt r7, r12, r10, r7\n\t"                                                                 \
    "add r0, r0, r2\n\t"                                                                          \
    "add r1, r1, r3\n\t"                                                                          \
    "cmp r0, r9\n\t"
#endif

#if defined(WORDS_MEET) && SUMS_ARE_NARROW
NAKED static void make_fours(element *to UNREAD, const patch *parts UNREAD,
                             const trained *weights UNREAD, int32_t stride UNREAD,
                             const scaling *s UNREAD, int32_t first UNREAD, element *end UNREAD)
{
    __asm__("push {r4-r11, lr}\n\t"
            "sub sp, sp, #80\n\t"
            "ldrd r4, r7, [sp, #116]\n\t"
            "ldr r8, [sp, #124]\n\t"
            "ldr r9, [r4]\n\t"
            "add r9, r9, r7, lsl #2\n\t" SUMS_PREPARED
            "str r9, [sp, #20]\n\t"
            "ldrd r4, r5, [r1]\n\t" /* rows */
            "add r5, r4, r5, lsl #2\n\t"
            "str r5, [sp, #4]\n\t"
            "ldrd r5, r6, [r1, #8]\n\t" /* offset of the first value, number of values */
            "ldrd r7, r8, [r1, #40]\n\t"
            "str r5, [sp, #16]\n\t"
            "sub r7, r7, r5\n\t"
            "sub r7, r7, r6\n\t"
            "strd r6, r8, [sp, #60]\n\t"
            "str r7, [sp, #68]\n\t"
            "ldrd r8, r5, [r1, #16]\n\t" /* zero point, offset of the first weight */
            "add r2, r2, r5\n\t"
            "str r2, [sp, #12]\n\t"
            "ldrd r5, r6, [r1, #24]\n\t"
            "strd r4, r5, [sp, #52]\n\t"
            "mov r2, r3\n\t"
            "mov r3, r6\n\t"
            "strd r2, r3, [sp, #72]\n\t"
            "rsb r8, r8, #0\n\t"
            "pkhbt r8, r8, r8, lsl #16\n"
            "1:\n\t"
            "ldr r0, [sp, #20]\n\t"
            "ldm r0!, {r4-r7}\n\t"
            "str r0, [sp, #20]\n\t"
            "ldr r9, [sp, #52]\n\t"
            "ldr r1, [sp, #12]\n"
            "2:\n\t"
            "ldr r0, [r9], #4\n\t"
            "str r9, [sp]\n\t"
            "ldr r10, [sp, #16]\n\t"
            "add r0, r0, r10\n\t"
            "ldr r10, [sp, #56]\n\t"
            "add r10, r10, r1\n\t"
            "str r10, [sp, #8]\n\t"
            "ldr r9, [sp, #60]\n\t"
            "add r9, r9, r0\n"
            "3:\n\t" TAP_MEETS
            "bne 3b\n\t"
            "ldr r10, [sp, #64]\n\t"
            "cmp r10, #0\n\t"
            "bne 5f\n"
            "4:\n\t"
            "ldrd r9, r10, [sp]\n\t"
            "ldr r1, [sp, #8]\n\t"
            "cmp r9, r10\n\t"
            "bne 2b\n\t" SUMS_STORED
            "ldrd r0, r4, [sp, #12]\n\t"
            "add r0, r0, #4\n\t"
            "add r4, r4, #4\n\t"
            "strd r0, r4, [sp, #12]\n\t"
            "ldrd r2, r3, [sp, #72]\n\t"
            "bne 1b\n\t"
            "add sp, sp, #80\n\t"
            "pop {r4-r11, pc}\n"
            "5:\n\t"
            "ldr r9, [sp, #68]\n\t"
            "add r0, r0, r9\n\t"
            "add r9, r0, r10\n"
            "6:\n\t" TAP_MEETS
            "bne 6b\n\t"
            "b 4b");
}
#endif

/* The patch of taps `first` to `end` in all rows of a depthwise window. */
static patch lanes_patch(const convolution *c, const receptive_field *field, int32_t first, int32_t end)
{
    patch found;
    found.rows = &field->rows[field->down.first];
    found.row_count = field->down.end - field->down.first;
    found.from = column_under(field, first);
    found.count = (end - first) * field->step;
    found.zero = c->to.zero_in;
    found.apart = c->groups;
    found.width = c->at.taps[1] * c->groups;
    found.weights_from = (field->down.first * found.width) + (first * c->groups);
    return found;
}

/* Compute the channels of a pixel that fill whole blocks. Returns their number. */
static int32_t make_all_lanes(element *to, const convolution *c, const receptive_field *field,
                              int32_t first, int32_t count)
{
    int32_t from = 0;
    int32_t stride = field->step;
    int32_t wrap = smaller(field->wrap, field->across.end);
    const trained *weights = &c->weights[first];
    patch parts[2];
    parts[0] = lanes_patch(c, field, field->across.first, wrap);
    parts[1].from = parts[0].from + parts[0].count;
    parts[1].count = 0;
    if (wrap < field->across.end) {
        parts[1] = lanes_patch(c, field, wrap, field->across.end);
    }
#if defined(HELIUM) && FACTORS_ARE_SMALL
    if (HAS_SMALL_FACTORS(&c->to) && c->to.bias && (parts[0].row_count > 0) && (parts[0].count > 0)) {
        from = count / 16 * 16;
        if (from != 0) {
            make_sixteen(to, parts, weights, stride, &c->to, first, &to[from]);
        }
        if ((count - from) >= 8) {
            parts[0].from += from;
            parts[1].from += from;
            make_eight(to + from, parts, weights + from, stride, &c->to, first + from,
                       to + from + 8);
            from += 8;
        }
    }
#elif defined(WORDS_MEET) && SUMS_ARE_NARROW
    if (HAS_NARROW_SUMS(&c->to) && c->to.bias && (parts[0].row_count > 0) && (parts[0].count > 0) &&
        (count >= 4)) {
        from = count / 4 * 4;
        make_fours(to, parts, weights, stride, &c->to, first, &to[from]);
    }
#endif
    for (; (count - from) >= SIDE_BY_SIDE; from += SIDE_BY_SIDE) {
        make_lanes(&to[from], parts, &weights[from], from, stride, &c->to, first + from);
    }
    return from;
}
