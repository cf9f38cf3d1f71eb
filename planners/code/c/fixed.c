/* Shifts of negative integers keep the sign; a compiler where they do not stops here. */
typedef char sign_is_kept[((-3 >> 1) == -2) ? 1 : -1];

/* a * b / 2 ** 31, rounded to nearest, halves up. */
static int32_t high_product(int32_t a, int32_t b)
{
    (void)sizeof(sign_is_kept);
    return (int32_t)((((int64_t)a * b) + 1073741824) >> 31);
}

/* value / 2 ** exponent, rounded to nearest, halves away from zero. */
static int32_t divided_by_power(int64_t value, int32_t exponent)
{
    int64_t half = exponent ? (INT64_C(1) << (exponent - 1)) : 0;
    return (int32_t)((value + half - ((value < 0) && exponent)) >> exponent);
}

/* value * multiplier * 2 ** (exponent - 31), rounded as the quantised kernels of TensorFlow Lite: for
   negative exponents twice, the second time halves away from zero. An exponent above 31, of a scale of
   nearly zero, counts modulo 32. */
static inline int32_t rescaled(int32_t value, int32_t multiplier, int32_t exponent)
{
    if (exponent < 0) {
        int32_t product = high_product(value, multiplier);
        return (((product + (product >> 31)) >> (-1 - exponent)) + 1) >> 1;
    }
    return high_product((int32_t)(value * (INT64_C(1) << (exponent & 31))), multiplier);
}

#if defined(WORDS_MEET)
/* As rescaled, for a value of 30 bits and a negative exponent. */
INLINED static int32_t rescaled_narrow(int32_t value, int32_t multiplier, int32_t exponent)
{
    int32_t product = (int32_t)((uint32_t)value * 2);
    __asm__("smmulr %0, %0, %1" : "+r"(product) : "r"(multiplier));
    return (((product + (product >> 31)) >> (-1 - exponent)) + 1) >> 1;
}
#endif

/* As rescaled, for values of int8 layers, which have 30 bits. */
INLINED static int32_t rescaled_bytes(int32_t value, int32_t multiplier, int32_t exponent)
{
#if defined(WORDS_MEET)
    if ((sizeof(element) == 1) && (exponent < 0)) {
        return rescaled_narrow(value, multiplier, exponent);
    }
#endif
    return rescaled(value, multiplier, exponent);
}

#if defined(HELIUM)
/* `rescaled` of four values, with an exponent below zero. */
static int32x4_t rescaled_down(int32x4_t value, int32_t multiplier, int32_t exponent)
{
    value = vqrdmulhq_n_s32(value, multiplier);
    return vrshlq_n_s32(vaddq_s32(value, vshrq_n_s32(value, 31)), exponent);
}
#endif

#if defined(HELIUM)
/* `rescaled` of four values with factors of their own. powers: exponents. */
static int32x4_t rescaled_vector(int32x4_t value, int32x4_t multiplier, int32x4_t power)
{
    int32x4_t none = vdupq_n_s32(0);
    int32x4_t down = vminq_s32(power, none);
    int32x4_t product = vqrdmulhq_s32(vshlq_s32(value, vmaxq_s32(power, none)), multiplier);
    product = vaddq_s32(product, vshrq_n_s32(vandq_s32(product, down), 31)); /* halves away from zero */
    return vrshlq_s32(product, down);
}
#endif

/* Mean of `count` integers; multiplier and exponent contain the division by count. */
typedef struct {
    int32_t count;
    int32_t multiplier;
    int32_t exponent;
    int32_t zero_in;
    int32_t zero_out;
} averaging;

static element average_of(int32_t sum, const averaging *a)
{
    int32_t above = sum - (a->zero_in * a->count);
    return stored(rescaled(above, a->multiplier, a->exponent) + a->zero_out);
}
