/* The factor of operands before a sum. */
enum { SUM_STEPS = 32768 };

/* Requantisation of sums: a multiplier and an exponent for each channel, and limits. is_wide:
   whether sums may have more than 32 bits. */
typedef struct {
#if defined(HELIUM)
    const bias_sum *folded;
#endif
    const bias_sum *bias;
    const int32_t *multipliers;
    const int8_t *exponents;
    int32_t zero_in;
    int32_t is_wide;
    int32_t least;
    int32_t most;
#if WEIGHTS_HAVE_ZEROS
    int32_t zero_with; /* of the weights */
#endif
#if SUMS_ROUND_ONCE
    int32_t rounds_once; /* as fully connected layers, halves up */
    const int32_t *further; /* bits of multipliers, 2 ** -31 each; NULL: none */
#endif
} scaling;

/* A sum of up to 48 bits times multiplier * 2 ** (exponent - 31), of which the upper 16 bits count. */
static int32_t rescaled_wide(int64_t value, int32_t multiplier, int32_t exponent)
{
    int32_t factor = (multiplier < 0x7FFF0000) ? ((multiplier + 32768) >> 16) : 32767;
    return (int32_t)(((value * factor) + (INT64_C(1) << (14 - exponent))) >> (15 - exponent));
}

#if SUMS_ROUND_ONCE
/* A sum times (multiplier + further * 2 ** -31) * 2 ** (exponent - 31). Sums from 2 ** (16 - exponent)
   on are beyond all limits, and their products beyond 64 bits. */
static int32_t rescaled_once(int64_t value, int32_t multiplier, int32_t further, int32_t exponent)
{
    int64_t end = INT64_C(1) << ((exponent < 16) ? (16 - exponent) : 0);
    value = (value < -end) ? -end : (value > end) ? end : value;
    value = (value * multiplier) + ((value * further) >> 31);
    return (int32_t)((value + (INT64_C(1) << (30 - exponent))) >> (31 - exponent));
}
#endif

static void store_sums(element *to, const total *sums, const scaling *s, int32_t first,
                       int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        int32_t multiplier = s->multipliers[first + i];
        int32_t exponent = s->exponents[first + i];
        int32_t value;
#if SUMS_ROUND_ONCE
        if (s->rounds_once != 0) {
            int32_t further = (s->further != NULL) ? s->further[first + i] : 0;
            value = rescaled_once(sums[i], multiplier, further, exponent);
            to[i] = (element)((value < s->least) ? s->least : (value > s->most) ? s->most : value);
            continue;
        }
#endif
        if (s->is_wide != 0) {
            value = rescaled_wide(sums[i], multiplier, exponent);
        } else {
            value = rescaled((int32_t)sums[i], multiplier, exponent);
        }
        to[i] = (element)((value < s->least) ? s->least : (value > s->most) ? s->most : value);
    }
}
