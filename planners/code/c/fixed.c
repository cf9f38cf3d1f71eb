/* Shifts of negative integers keep the sign; a compiler where they do not stops here. */
typedef char sign_is_kept[((-3 >> 1) == -2) ? 1 : -1];

/* Half the product of two 32-bit integers over 2 ** 30, rounded to the nearest; halves go up. */
static int32_t high_product(int32_t one, int32_t other)
{
    (void)sizeof(sign_is_kept);
    return (int32_t)((((int64_t)one * other) + 1073741824) >> 31);
}

/* A value over a power of two, rounded to the nearest; halves go away from zero. */
static int32_t divided_by_power(int64_t value, int32_t exponent)
{
    int64_t half = exponent ? (INT64_C(1) << (exponent - 1)) : 0;
    return (int32_t)((value + half - ((value < 0) && exponent)) >> exponent);
}

/* A value times multiplier * 2 ** (exponent - 31); below zero the power divides in two steps, so that
   halves go away from zero. Above 31, of a scale of nearly zero, the exponent counts modulo 32. */
static inline int32_t rescaled(int32_t value, int32_t multiplier, int32_t exponent)
{
    if (exponent < 0) {
        int32_t found = high_product(value, multiplier);
        return (((found + (found >> 31)) >> (-1 - exponent)) + 1) >> 1;
    }
    return high_product((int32_t)(value * (INT64_C(1) << (exponent & 31))), multiplier);
}

#if defined(WORDS_MEET)
/* The same for a value of 30 bits and an exponent below zero. */
INLINED static int32_t rescaled_narrow(int32_t value, int32_t multiplier, int32_t exponent)
{
    int32_t found = (int32_t)((uint32_t)value * 2);
    __asm__("smmulr %0, %0, %1" : "+r"(found) : "r"(multiplier));
    return (((found + (found >> 31)) >> (-1 - exponent)) + 1) >> 1;
}
#endif

/* The same for what comes of bytes, in 30 bits. */
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
    int32x4_t found = vqrdmulhq_s32(vshlq_s32(value, vmaxq_s32(power, none)), multiplier);
    found = vaddq_s32(found, vshrq_n_s32(vandq_s32(found, down), 31)); /* halves away from zero */
    return vrshlq_s32(found, down);
}
#endif

/* The mean of many with another scale: multiplier and exponent have their number in them. */
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
