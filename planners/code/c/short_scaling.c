/* What operands are multiplied with before they are added. */
enum { SUM_STEPS = 32768 };

/* How sums become stored integers: for each channel a multiplier and an exponent, and limits. is_wide:
   whether they may have more than 32 bits. */
typedef struct {
#if defined(HELIUM)
    const bias_sum *folded;
#endif
    const bias_sum *bias;
    const int32_t *multipliers;
    const int8_t *exponents;
    int32_t zero_in, is_wide, least, most;
#if WEIGHTS_HAVE_ZEROS
    int32_t zero_with; /* of the weights */
#endif
} scaling;

/* A sum of up to 48 bits times multiplier * 2 ** (exponent - 31), of which the upper 16 bits count. */
static int32_t rescaled_wide(int64_t value, int32_t multiplier, int32_t exponent)
{
    int32_t factor = (multiplier < 0x7FFF0000) ? ((multiplier + 32768) >> 16) : 32767;
    return (int32_t)(((value * factor) + (INT64_C(1) << (14 - exponent))) >> (15 - exponent));
}

static void store_sums(element *to, const total *sums, const scaling *s, int32_t first,
                       int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        int32_t multiplier = s->multipliers[first + i], exponent = s->exponents[first + i], value;
        if (s->is_wide != 0) {
            value = rescaled_wide(sums[i], multiplier, exponent);
        } else {
            value = rescaled((int32_t)sums[i], multiplier, exponent);
        }
        to[i] = (element)((value < s->least) ? s->least : (value > s->most) ? s->most : value);
    }
}
