/* The nearest whole number; halves go to the even one. At most 2 ** 23, beyond all elements; of what
   is no number the least. No rounding mode, no library, no fused operation can change it. */
static int32_t nearest_even(float value)
{
    uint32_t bits;
    uint32_t whole;
    int32_t exponent;
    int32_t found;
    (void)memcpy(&bits, &value, sizeof bits);
    exponent = (int32_t)((bits >> 23) & 255);
    whole = (bits & UINT32_C(8388607)) | UINT32_C(8388608);
    if (exponent < 126) {
        return 0;
    }
    if ((exponent == 255) && (whole > UINT32_C(8388608))) {
        return -8388608;
    }
    found = 8388608;
    if (exponent < 150) {
        int32_t shift = 150 - exponent;
        whole += (UINT32_C(1) << (shift - 1)) - 1 + ((whole >> shift) & 1);
        found = (int32_t)(whole >> shift);
    }
    return (bits >> 31) ? -found : found;
}

static float real_of(int32_t value, float scale)
{
    return rounded((float)value * scale);
}

static element stored_real(float value, float scale, int32_t zero)
{
    return stored(nearest_even(value / scale) + zero);
}

/* How sums become stored integers: a factor for each channel, and limits. */
typedef struct {
#if defined(HELIUM)
    const bias_sum *folded;
#endif
    const bias_sum *bias;
    const float *factors;
    int32_t zero_in;
    int32_t zero_out;
    int32_t least;
    int32_t most;
#if WEIGHTS_HAVE_ZEROS
    int32_t zero_with; /* of the weights */
#endif
} scaling;

static void store_sums(element *to, const total *sums, const scaling *s, int32_t first,
                       int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        int32_t value = nearest_even((float)sums[i] * s->factors[first + i]) + s->zero_out;
        to[i] = (element)((value < s->least) ? s->least : (value > s->most) ? s->most : value);
    }
}

/* The mean of many with another scale. */
typedef struct {
    int32_t count;
    float given;
    float result;
    int32_t zero_in;
    int32_t zero_out;
} averaging;

static element mean_in_steps(int32_t sum, int32_t count, const averaging *a)
{
    float ratio = a->given / rounded(a->result * (float)count);
    return stored(nearest_even((float)sum * ratio) + a->zero_out);
}

static element average_of(int32_t sum, const averaging *a)
{
    return mean_in_steps(sum - (a->zero_in * a->count), a->count, a);
}
