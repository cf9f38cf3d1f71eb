/* Numbers of values that one instruction multiplies by weights: in a word, in a vector. */
enum { QUAD = 4, HALF = 4, VECTOR = 16 };

#if defined(__SSE2__)
/* Eight bytes, sign-extended to 16 bits. */
static __m128i lower_words(__m128i bytes)
{
    return _mm_srai_epi16(_mm_unpacklo_epi8(_mm_setzero_si128(), bytes), 8);
}
#endif

#if defined(__SSE2__) && !defined(__AVX2__)
static __m128i upper_words(__m128i bytes)
{
    return _mm_srai_epi16(_mm_unpackhi_epi8(_mm_setzero_si128(), bytes), 8);
}
#endif

#if defined(__SSE2__)
/* The sum of the elements of each of four vectors. */
static void add_vectors(int32_t *sums, __m128i a, __m128i b, __m128i c, __m128i d)
{
    __m128i given = _mm_loadu_si128((const __m128i *)(const void *)sums);
    __m128i first = _mm_add_epi32(_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
    __m128i last = _mm_add_epi32(_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
    given = _mm_add_epi32(given, _mm_unpacklo_epi64(first, last));
    given = _mm_add_epi32(given, _mm_unpackhi_epi64(first, last));
    _mm_storeu_si128((__m128i *)(void *)sums, given);
}
#endif

#if defined(__AVX2__)
static __m256i sixteen_words(const element *pixel)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)pixel));
}
#endif

#if defined(__AVX2__)
static __m256i eight_products(__m128i words, const trained *weights)
{
    __m128i with = lower_words(_mm_loadl_epi64((const __m128i *)(const void *)weights));
    return _mm256_set_m128i(_mm_setzero_si128(), _mm_madd_epi16(words, with));
}
#endif

#if defined(__AVX2__)
static __m128i both_halves(__m256i sums)
{
    return _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
}
#endif

#if defined(HELIUM)
/* Subtract the products of the zero point with the weights from the sums of four filters. */
static void take_weights(int32_t *sums, int32_t zero, const trained *weights, int32_t count,
                         int32_t apart)
{
    const trained *w = weights;
    const trained *x = w + apart;
    const trained *y = x + apart;
    const trained *z = y + apart;
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
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

#if defined(HELIUM) && FACTORS_ARE_SMALL
/* The assembly reads the fields of a scaling at the offsets of this structure. */
typedef char scaling_is_known[(offsetof(scaling, most) == (7 * sizeof(int32_t))) ? 1 : -1];
#endif

#if defined(HELIUM) && FACTORS_ARE_SMALL
/* Compute and store the results of filters in blocks of four, without zero points of the values, from
   filter `first` until `end`, the end of the results. Registers: r0 exponents, r1 values, r2
   initial sums, r3, r5, r7, r9 weights, r4, r6, r8, r10 sums, r11 multipliers, r12 values in a row,
   q4 to q6 zero point and limits. Stack: 0 first value of the first row, 4 stride of filters, 8 to,
   12 end, 16 second row, 20 end of the rows, 24 offset of the first value, 28 and 32 strides of
   weights after a row and after a block, 36 next row (unused for one row). */
NAKED static void make_blocks(element *to UNREAD, const patch *p UNREAD,
                              const trained *weights UNREAD, const scaling *s UNREAD,
                              const bias_sum *begin UNREAD, int32_t first UNREAD,
                              element *end UNREAD)
{
    __asm__("push {r4-r11, lr}\n\t"
            "vpush {d8-d13}\n\t"
            "sub sp, #40\n\t"
            "ldrd r4, r5, [sp, #124]\n\t"
            "ldr r6, [sp, #132]\n\t"
            "strd r0, r6, [sp, #8]\n\t"
            "ldrd r11, r0, [r3, #8]\n\t"
            "add r11, r11, r5, lsl #2\n\t"
            "add r0, r0, r5\n\t"
            "ldrd r7, r8, [r3, #20]\n\t"
            "ldr r9, [r3, #28]\n\t"
            "vdup.32 q4, r7\n\t"
            "vdup.32 q5, r8\n\t"
            "vdup.32 q6, r9\n\t"
            "ldrd r5, r6, [r1]\n\t"
            "ldrd r7, r12, [r1, #8]\n\t"
            "ldrd r8, r9, [r1, #24]\n\t"
            "mov r3, r2\n\t"
            "mov r2, r4\n\t"
            "ldr r4, [r5], #4\n\t"
            "add r4, r4, r7\n\t"
            "strd r4, r9, [sp]\n\t"
            "sub r6, r6, #1\n\t"
            "add r10, r5, r6, lsl #2\n\t"
            "strd r5, r10, [sp, #16]\n\t"
            "add r4, r12, #15\n\t"
            "bic r4, r4, #15\n\t"
            "sub r10, r8, r4\n\t"
            "strd r7, r10, [sp, #24]\n\t"
            "mls r9, r6, r8, r9\n\t"
            "sub r9, r9, r4\n\t"
            "cmp r6, #0\n\t"
            "it eq\n\t"
            "moveq r5, #0\n\t"
            "strd r9, r5, [sp, #32]\n"
            "1:\n\t"
            "ldrd r4, r6, [r2], #8\n\t"
            "ldrd r8, r10, [r2], #8\n\t"
            "ldr r1, [sp]\n"
            "2:\n\t"
            "ldr lr, [sp, #4]\n\t"
            "add r5, r3, lr\n\t"
            "add r7, r5, lr\n\t"
            "add r9, r7, lr\n\t"
            "wlstp.8 lr, r12, 4f\n"
            "3:\n\t"
            "vldrb.8 q0, [r1], #16\n\t"
            "vldrb.8 q1, [r3], #16\n\t"
            "vmladava.s8 r4, q0, q1\n\t"
            "vldrb.8 q1, [r5], #16\n\t"
            "vmladava.s8 r6, q0, q1\n\t"
            "vldrb.8 q1, [r7], #16\n\t"
            "vmladava.s8 r8, q0, q1\n\t"
            "vldrb.8 q1, [r9], #16\n\t"
            "vmladava.s8 r10, q0, q1\n\t"
            "letp lr, 3b\n"
            "4:\n\t"
            "ldr r1, [sp, #36]\n\t"
            "cbnz r1, 6f\n"
            "5:\n\t"
            "vmov q0[2], q0[0], r4, r8\n\t"
            "vmov q0[3], q0[1], r6, r10\n\t"
            "ldr r1, [sp, #32]\n\t"
            "add r3, r9, r1\n\t"
            "vldrw.32 q1, [r11], #16\n\t"
            "vldrb.s32 q2, [r0], #4\n\t"
            "vqrdmulh.s32 q0, q0, q1\n\t"
            "vshr.s32 q1, q0, #31\n\t" /* halves away from zero */
            "vadd.i32 q0, q0, q1\n\t"
            "vrshl.s32 q0, q0, q2\n\t"
            "vadd.i32 q0, q0, q4\n\t"
            "vmax.s32 q0, q0, q5\n\t"
            "vmin.s32 q0, q0, q6\n\t"
            "ldrd r1, lr, [sp, #8]\n\t"
            "vstrb.32 q0, [r1], #4\n\t"
            "str r1, [sp, #8]\n\t"
            "cmp r1, lr\n\t"
            "bne 1b\n\t"
            "add sp, #40\n\t"
            "vpop {d8-d13}\n\t"
            "pop {r4-r11, pc}\n"
            "6:\n\t"
            "ldr lr, [sp, #20]\n\t"
            "cmp r1, lr\n\t"
            "beq 7f\n\t"
            "ldr lr, [r1], #4\n\t"
            "str r1, [sp, #36]\n\t"
            "ldrd r1, r5, [sp, #24]\n\t"
            "add r1, r1, lr\n\t"
            "add r3, r3, r5\n\t"
            "b 2b\n"
            "7:\n\t"
            "ldr r1, [sp, #16]\n\t"
            "str r1, [sp, #36]\n\t"
            "b 5b");
}
#endif

#if defined(WORDS_MEET)
/* Multiply four values by four weights of each of four filters. Registers: r0 values, r2 and r3
   weights of the first and the third filter, r9 from a filter to the next, r4 to r7 sums, r8 the zero
   point. */
#define QUAD_MEETS_FOUR                                                                           \
    "ldr r11, [r0], #4\n\t"                                                                       \
    "sxtab16 r10, r8, r11\n\t"                                                                    \
    "sxtab16 r11, r8, r11, ror #8\n\t"                                                            \
    "ldr r12, [r2, r9]\n\t" WORD_MEETS("r5") "ldr r12, [r2], #4\n\t" WORD_MEETS("r4")            \
    "ldr r12, [r3, r9]\n\t" WORD_MEETS("r7") "ldr r12, [r3], #4\n\t" WORD_MEETS("r6")
#define WORD_MEETS(sum)                                                                           \
    "sxtb16 lr, r12\n\t"                                                                          \
    "sxtb16 r12, r12, ror #8\n\t"                                                                 \
    "smlad " sum ", lr, r10, " sum "\n\t"                                                         \
    "smlad " sum ", r12, r11, " sum "\n\t"
#define BYTE_MEETS(weight, sum) "ldrsb r12, " weight "\n\tmla " sum ", r12, r10, " sum "\n\t"
#endif

#if defined(WORDS_MEET)
/* Add to the sums of four filters the products of all rows of a patch, in r1; registers are
   allocated by hand. On the stack: 4 the patch, 8 weights. Offsets from r1 are those of the fields
   of a patch. */
#define ROWS_MEET                                                                                 \
    "ldrd r10, r11, [r1]\n\t"                                                                     \
    "push {r10, r11}\n\t" /* remaining rows */                                                \
    "cmp r11, #0\n\t"                                                                             \
    "ble 8f\n"                                                                                    \
    "1:\n\t"                                                                                      \
    "ldrd r10, r11, [sp, #12]\n\t" /* the patch, and weights of the row */                        \
    "ldr r1, [sp]\n\t"                                                                            \
    "ldr r0, [r1], #4\n\t"                                                                        \
    "str r1, [sp]\n\t"                                                                            \
    "ldrd r12, r1, [r10, #8]\n\t"                                                                 \
    "add r0, r0, r12\n\t"                                                                         \
    "mov r2, r11\n\t"                                                                             \
    "ldr r12, [r10, #24]\n\t"                                                                     \
    "add r12, r12, r11\n\t"                                                                       \
    "str r12, [sp, #16]\n\t"                                                                      \
    "add r3, r2, r9, lsl #1\n\t"                                                                  \
    "subs r1, r1, #16\n\t"                                                                        \
    "blt 3f\n"                                                                                    \
    "2:\n\t" QUAD_MEETS_FOUR QUAD_MEETS_FOUR QUAD_MEETS_FOUR QUAD_MEETS_FOUR                      \
    "subs r1, r1, #16\n\t"                                                                        \
    "bge 2b\n"                                                                                    \
    "3:\n\t"                                                                                      \
    "adds r1, r1, #12\n\t"                                                                        \
    "blt 5f\n"                                                                                    \
    "4:\n\t" QUAD_MEETS_FOUR                                                                      \
    "subs r1, r1, #4\n\t"                                                                         \
    "bge 4b\n"                                                                                    \
    "5:\n\t"                                                                                      \
    "adds r1, r1, #4\n\t"                                                                         \
    "beq 7f\n"                                                                                    \
    "6:\n\t"                                                                                      \
    "ldrsb r10, [r0], #1\n\t"                                                                     \
    "sxtah r10, r10, r8\n\t"                                                                      \
    BYTE_MEETS("[r2, r9]", "r5") BYTE_MEETS("[r2], #1", "r4")                                     \
    BYTE_MEETS("[r3, r9]", "r7") BYTE_MEETS("[r3], #1", "r6")                                     \
    "subs r1, r1, #1\n\t"                                                                         \
    "bgt 6b\n"                                                                                    \
    "7:\n\t"                                                                                      \
    "ldr r10, [sp, #4]\n\t"                                                                       \
    "subs r10, r10, #1\n\t"                                                                       \
    "str r10, [sp, #4]\n\t"                                                                       \
    "bgt 1b\n"                                                                                    \
    "8:\n\t"                                                                                      \
    "add sp, sp, #8\n\t"
#endif

#if defined(WORDS_MEET)
NAKED static void meet_rows(int32_t *sums UNREAD, const patch *p UNREAD,
                            const trained *weights UNREAD)
{
    __asm__("push {r0-r2, r4-r11, lr}\n\t"
            "ldr r8, [r1, #16]\n\t"
            "rsb r8, r8, #0\n\t"
            "pkhbt r8, r8, r8, lsl #16\n\t"
            "ldr r9, [r1, #28]\n\t"
            "ldm r0, {r4-r7}\n\t" ROWS_MEET
            "ldr r0, [sp], #12\n\t"
            "stm r0, {r4-r7}\n\t"
            "pop {r4-r11, pc}");
}
#endif

#if defined(WORDS_MEET) && SUMS_ARE_NARROW
/* Requantise and store four sums, r4 to r7, each with its own factor. On the stack: 24 multipliers,
   28 exponents, 32 to, 36 end, 40 the zero point, 44 and 48 the limits, four times each. Before: r0
   to, r4 the scaling, r7 the first channel, r8 end. */
#define SUMS_PREPARED                                                                             \
    "ldrd r5, r6, [r4, #4]\n\t"                                                                   \
    "add r5, r5, r7, lsl #2\n\t"                                                                  \
    "add r6, r6, r7\n\t"                                                                          \
    "strd r5, r6, [sp, #24]\n\t"                                                                  \
    "strd r0, r8, [sp, #32]\n\t"                                                                  \
    "ldr r5, [r4, #16]\n\t"                                                                       \
    "ldrb r6, [r4, #20]\n\t"                                                                      \
    "ldrb r8, [r4, #24]\n\t"                                                                      \
    "orr r6, r6, r6, lsl #8\n\t"                                                                  \
    "orr r6, r6, r6, lsl #16\n\t"                                                                 \
    "orr r8, r8, r8, lsl #8\n\t"                                                                  \
    "orr r8, r8, r8, lsl #16\n\t"                                                                 \
    "strd r5, r6, [sp, #40]\n\t"                                                                  \
    "str r8, [sp, #48]\n\t"
#define SUM_STORED(sum, at)                                                                       \
    "add " sum ", " sum ", " sum ", asr #31\n\t"                                                  \
    "uxtb r1, r11, ror #" at "\n\t"                                                               \
    "asr " sum ", " sum ", r1\n\t"                                                                \
    "add " sum ", " sum ", #1\n\t"                                                                \
    "add " sum ", r12, " sum ", asr #1\n\t"                                                       \
    "ssat " sum ", #8, " sum "\n\t"
#define SUMS_STORED                                                                               \
    "ldr r0, [sp, #24]\n\t"                                                                       \
    "ldm r0!, {r1-r3, r10}\n\t"                                                                   \
    "str r0, [sp, #24]\n\t"                                                                       \
    "lsl r4, r4, #1\n\t"                                                                          \
    "smmulr r4, r4, r1\n\t"                                                                       \
    "lsl r5, r5, #1\n\t"                                                                          \
    "smmulr r5, r5, r2\n\t"                                                                       \
    "lsl r6, r6, #1\n\t"                                                                          \
    "smmulr r6, r6, r3\n\t"                                                                       \
    "lsl r7, r7, #1\n\t"                                                                          \
    "smmulr r7, r7, r10\n\t"                                                                      \
    "ldr r0, [sp, #28]\n\t"                                                                       \
    "ldr r11, [r0], #4\n\t"                                                                       \
    "str r0, [sp, #28]\n\t"                                                                       \
    "mvn r11, r11\n\t"                                                                            \
    "ldr r12, [sp, #40]\n\t"                                                                      \
    SUM_STORED("r4", "0") SUM_STORED("r5", "8") SUM_STORED("r6", "16") SUM_STORED("r7", "24")     \
    "bfi r4, r5, #8, #8\n\t"                                                                      \
    "bfi r4, r6, #16, #8\n\t"                                                                     \
    "bfi r4, r7, #24, #8\n\t"                                                                     \
    "ldrd r1, r2, [sp, #44]\n\t"                                                                  \
    "ssub8 r3, r4, r1\n\t"                                                                        \
    "sel r4, r4, r1\n\t"                                                                          \
    "ssub8 r3, r4, r2\n\t"                                                                        \
    "sel r4, r2, r4\n\t"                                                                          \
    "ldrd r0, r1, [sp, #32]\n\t"                                                                  \
    "str r4, [r0], #4\n\t"                                                                        \
    "str r0, [sp, #32]\n\t"                                                                       \
    "cmp r0, r1\n\t"
#endif

#if defined(WORDS_MEET) && SUMS_ARE_NARROW
/* The assembly reads the fields of a scaling at the offsets of this structure. */
typedef char narrow_scaling_is_known[(offsetof(scaling, most) == (6 * sizeof(int32_t))) ? 1 : -1];
#endif

#if defined(WORDS_MEET) && SUMS_ARE_NARROW
/* Compute and store the results of filters on a patch in blocks of four, from filter `first` until
   `end`, the end of the results. Stack: 4 patch, 8 weights of a row, 12 weights of a block, 16
   stride of blocks, 20 initial sums. */
NAKED static void meet_blocks(element *to UNREAD, const patch *p UNREAD,
                              const trained *weights UNREAD, const scaling *s UNREAD,
                              const bias_sum *begin UNREAD, int32_t first UNREAD,
                              element *end UNREAD)
{
    __asm__("push {r4-r11, lr}\n\t"
            "sub sp, sp, #52\n\t"
            "ldr r9, [sp, #88]\n\t"
            "ldrd r7, r8, [sp, #92]\n\t"
            "mov r4, r3\n\t" SUMS_PREPARED
            "str r1, [sp, #4]\n\t"
            "str r2, [sp, #12]\n\t"
            "str r9, [sp, #20]\n\t"
            "ldr r8, [r1, #16]\n\t"
            "rsb r8, r8, #0\n\t"
            "pkhbt r8, r8, r8, lsl #16\n\t"
            "ldr r9, [r1, #28]\n\t"
            "lsl r3, r9, #2\n\t"
            "str r3, [sp, #16]\n"
            "9:\n\t"
            "ldr r0, [sp, #20]\n\t"
            "ldm r0!, {r4-r7}\n\t"
            "str r0, [sp, #20]\n\t"
            "ldrd r2, r3, [sp, #12]\n\t"
            "str r2, [sp, #8]\n\t"
            "add r2, r2, r3\n\t"
            "str r2, [sp, #12]\n\t"
            "ldr r1, [sp, #4]\n\t" ROWS_MEET SUMS_STORED
            "bne 9b\n\t"
            "add sp, sp, #52\n\t"
            "pop {r4-r11, pc}");
}
#endif

/* The assembly reads the fields of a patch at the offsets of this structure. */
typedef char patch_is_known[((offsetof(patch, apart) == (7 * sizeof(int32_t))) ||
                             (sizeof(void *) != sizeof(int32_t)))
                                ? 1
                                : -1];

/* Add the products of whole vectors or words of each row to the sums of four filters. Returns the
   number of values of a row that are done. */
INLINED static int32_t add_four(int32_t *restrict sums, const patch *p, const trained *restrict weights)
{
#if defined(HELIUM)
    int32_t all[BLOCK];
    int32_t i;
    int32_t apart = p->apart;
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    int32_t x;
    int32_t y;
    int32_t z;
    const trained *base = weights;
    const trained *w;
    const element *const *row = p->rows;
    const element *values;
    if (p->row_count <= 0) {
        return p->count;
    }
    /* A loop over all rows in assembly: compilers move addresses between vectors and registers. */
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
    if (p->zero != 0) {
        if (p->count == p->width) {
            take_weights(sums, p->zero, weights, p->row_count * p->count, apart);
        } else {
            for (i = 0; i < p->row_count; i++) {
                take_weights(sums, p->zero, weights + (i * p->width), p->count, apart);
            }
        }
    }
    return p->count;
#elif defined(WORDS_MEET)
    (void)sizeof(patch_is_known);
    meet_rows(sums, p, weights);
    return p->count;
#elif defined(__AVX2__)
    __m256i a = _mm256_setzero_si256();
    __m256i b = a;
    __m256i c = a;
    __m256i d = a;
    __m256i less = _mm256_set1_epi16((short)p->zero);
    int32_t done = 0;
    int32_t i;
    int32_t apart = p->apart;
    for (i = 0; i < p->row_count; i++) {
        const element *values = p->rows[i] + p->from;
        for (done = 0; (done + VECTOR) <= p->count; done += VECTOR) {
            const trained *w = weights + (i * p->width) + done;
            __m256i v = _mm256_sub_epi16(sixteen_words(values + done), less);
            a = _mm256_add_epi32(a, _mm256_madd_epi16(v, sixteen_words(w)));
            b = _mm256_add_epi32(b, _mm256_madd_epi16(v, sixteen_words(w + apart)));
            c = _mm256_add_epi32(c, _mm256_madd_epi16(v, sixteen_words(w + (2 * apart))));
            d = _mm256_add_epi32(d, _mm256_madd_epi16(v, sixteen_words(w + (3 * apart))));
        }
        for (; (done + (VECTOR / 2)) <= p->count; done += VECTOR / 2) {
            const trained *w = weights + (i * p->width) + done;
            __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)(values + done));
            v = _mm_sub_epi16(lower_words(v), _mm256_castsi256_si128(less));
            a = _mm256_add_epi32(a, eight_products(v, w));
            b = _mm256_add_epi32(b, eight_products(v, w + apart));
            c = _mm256_add_epi32(c, eight_products(v, w + (2 * apart)));
            d = _mm256_add_epi32(d, eight_products(v, w + (3 * apart)));
        }
    }
    add_vectors(sums, both_halves(a), both_halves(b), both_halves(c), both_halves(d));
    return done;
#elif defined(__SSE2__)
    __m128i all[BLOCK];
    __m128i less = _mm_set1_epi16((short)p->zero);
    int32_t done = 0;
    int32_t i;
    int32_t j;
    for (j = 0; j < BLOCK; j++) {
        all[j] = _mm_setzero_si128();
    }
    for (i = 0; i < p->row_count; i++) {
        const element *values = p->rows[i] + p->from;
        const trained *with = &weights[i * p->width];
        for (done = 0; (done + VECTOR) <= p->count; done += VECTOR) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(values + done));
            __m128i low = _mm_sub_epi16(lower_words(v), less);
            __m128i high = _mm_sub_epi16(upper_words(v), less);
            for (j = 0; j < BLOCK; j++) {
                const trained *here = with + (j * p->apart) + done;
                __m128i w = _mm_loadu_si128((const __m128i *)(const void *)here);
                all[j] = _mm_add_epi32(all[j], _mm_madd_epi16(low, lower_words(w)));
                all[j] = _mm_add_epi32(all[j], _mm_madd_epi16(high, upper_words(w)));
            }
        }
        for (; (done + (VECTOR / 2)) <= p->count; done += VECTOR / 2) {
            __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)(values + done));
            v = _mm_sub_epi16(lower_words(v), less);
            for (j = 0; j < BLOCK; j++) {
                const trained *here = with + (j * p->apart) + done;
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
    const trained *with = &weights[p->weights_from];
    if (filters == BLOCK) {
        done = add_four(sums, p, with);
    }
    if (done < p->count) {
        add_products(sums, p, with, done, filters);
    }
}
