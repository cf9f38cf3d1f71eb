/* Sums of products of integers with trained ones. */
typedef int32_t total;
typedef int32_t bias_sum;
typedef int8_t trained;

/* What operands are multiplied with before they are added. */
enum { SUM_STEPS = 1048576 };

/* How sums become stored integers: for each channel a multiplier and an exponent, and limits. */
typedef struct {
    const int32_t *bias, *multipliers;
    const int8_t *exponents;
    int32_t zero_in, zero_out, least, most;
} scaling;

static void store_sums(element *to, const total *sums, const scaling *s, int32_t first,
                       int32_t count)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        int32_t value = rescaled(sums[i], s->multipliers[first + i], s->exponents[first + i]);
        value += s->zero_out;
        to[i] = (element)(value < s->least ? s->least : value > s->most ? s->most : value);
    }
}
