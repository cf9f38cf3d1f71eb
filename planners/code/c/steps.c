/* Local response normalisation: each element is divided by a power of a sum of squares of
   `by_channel` neighbouring channels, from `by_column` channels before it. a, b: the power and the
   constant of the sum. more: the factor of the squares. */
static void step_neighbours(const step *s, element *v, int32_t count, int32_t channel,
                            int32_t column)
{
    element before[MOST_NEIGHBOURS + 1];
    int32_t i;
    int32_t j;
    int32_t after = s->by_channel - s->by_column;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element own = v[i];
        element sum = 0;
        for (j = larger(i - s->by_column, 0); j < smaller(i + after, count); j++) {
            element value = (j < i) ? before[j % (MOST_NEIGHBOURS + 1)] : v[j];
            sum += value * value;
        }
        before[i % (MOST_NEIGHBOURS + 1)] = own;
        v[i] = own / powf(s->b + (s->more[0] * sum), s->a);
    }
}

/* Softmax over the channels of a pixel. */
static void step_softmax(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    element most = LEAST;
    element sum = 0;
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        most = (v[i] > most) ? v[i] : most;
    }
    for (i = 0; i < count; i++) {
        v[i] = expf(v[i] - most);
        sum += v[i];
    }
    for (i = 0; i < count; i++) {
        v[i] /= sum;
    }
}

static element positive(element x)
{
    return (x > 0) ? x : 0;
}

/* Four at a time, so that compilers use vectors. */
static void step_relu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; (count - i) >= 4; i += 4) {
        element a = positive(v[i]);
        element b = positive(v[i + 1]);
        element c = positive(v[i + 2]);
        element d = positive(v[i + 3]);
        v[i] = a;
        v[i + 1] = b;
        v[i + 2] = c;
        v[i + 3] = d;
    }
    for (; i < count; i++) {
        v[i] = positive(v[i]);
    }
}

static element between(element x, element least, element most)
{
    return (x < least) ? least : (x > most) ? most : x;
}

static void step_clip(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    element least = s->a;
    element most = s->b;
    (void)channel;
    (void)column;
    for (i = 0; (count - i) >= 4; i += 4) {
        element a = between(v[i], least, most);
        element b = between(v[i + 1], least, most);
        element c = between(v[i + 2], least, most);
        element d = between(v[i + 3], least, most);
        v[i] = a;
        v[i + 1] = b;
        v[i + 2] = c;
        v[i + 3] = d;
    }
    for (; i < count; i++) {
        v[i] = between(v[i], least, most);
    }
}

static element limited(element x)
{
    return (x < 0) ? 0 : (x > 1) ? 1 : x;
}

static element softplus(element x)
{
    return (x > 0) ? (x + log1pf(expf(-x))) : log1pf(expf(x));
}

/* Define a step that replaces each element x by `value`. s->a, s->b: the numbers of the
   step; s->values, s->more: those of the channels, of which x belongs to channel + i. */
#define EACH_ELEMENT(name, value) \
    static void name(const step *s, element *v, int32_t count, int32_t channel, int32_t column) \
    { \
        int32_t i; \
        (void)s; \
        (void)channel; \
        (void)column; \
        for (i = 0; i < count; i++) { \
            element x = v[i]; \
            v[i] = value; \
        } \
    }

EACH_ELEMENT(step_affine, (x * s->values[channel + i]) + s->more[channel + i])
EACH_ELEMENT(step_prelu, (x < 0) ? (x * s->values[channel + i]) : x)
EACH_ELEMENT(step_leaky_relu, (x < 0) ? (x * s->a) : x)
EACH_ELEMENT(step_sigmoid, sigmoid(x))
EACH_ELEMENT(step_hard_sigmoid, limited((x * s->a) + s->b))
EACH_ELEMENT(step_hard_swish, x * limited((x * (1.0f / 6.0f)) + 0.5f))
EACH_ELEMENT(step_silu, x * sigmoid(x))
EACH_ELEMENT(step_mish, x * tanhf(softplus(x)))
EACH_ELEMENT(step_gelu, x * 0.5f * (1.0f + erff(x * 0.70710678f)))
EACH_ELEMENT(step_elu, (x < 0) ? (expm1f(x) * s->a) : x)
EACH_ELEMENT(step_selu, ((x < 0) ? (expm1f(x) * s->a) : x) * s->b)
EACH_ELEMENT(step_celu, (x < 0) ? (expm1f(x / s->a) * s->a) : x)
EACH_ELEMENT(step_tanh, tanhf(x))
EACH_ELEMENT(step_softplus, softplus(x))
EACH_ELEMENT(step_softsign, x / (1.0f + fabsf(x)))
EACH_ELEMENT(step_thresholded_relu, (x > s->a) ? x : 0)
EACH_ELEMENT(step_exp, expf(x))
EACH_ELEMENT(step_log, logf(x))
EACH_ELEMENT(step_sqrt, sqrtf(x))
EACH_ELEMENT(step_rsqrt, 1 / sqrtf(x))
EACH_ELEMENT(step_abs, fabsf(x))
EACH_ELEMENT(step_negative, -x)
EACH_ELEMENT(step_reciprocal, 1.0f / x)
EACH_ELEMENT(step_gelu_tanh, x * 0.5f * (1.0f + tanhf(0.79788456f * (x + (0.044715f * x * x * x)))))
EACH_ELEMENT(step_erf, erff(x))
EACH_ELEMENT(step_sin, sinf(x))
EACH_ELEMENT(step_cos, cosf(x))
EACH_ELEMENT(step_round, rintf(x))
EACH_ELEMENT(step_floor, floorf(x))
EACH_ELEMENT(step_ceil, ceilf(x))
EACH_ELEMENT(step_truncate, truncf(x))
EACH_ELEMENT(step_sign, (element)((x > 0) - (x < 0)))
EACH_ELEMENT(step_not, (x == 0) ? 1.0f : 0.0f)
EACH_ELEMENT(step_is_not_zero, (x != 0) ? 1.0f : 0.0f)
EACH_ELEMENT(step_zero_for_nan, (x == x) ? x : 0.0f)

/* Define a step that replaces each element x by `value`, which may use the constant k. */
#define EACH_WITH_CONSTANT(name, value) \
    static void name(const step *s, element *v, int32_t count, int32_t channel, int32_t column) \
    { \
        int32_t i; \
        for (i = 0; i < count; i++) { \
            element x = v[i]; \
            element k = s->values[(channel + i) * s->by_channel + column * s->by_column]; \
            v[i] = value; \
        } \
    }

EACH_WITH_CONSTANT(step_constant_add, add(x, k))
EACH_WITH_CONSTANT(step_constant_subtract, subtract(x, k))
EACH_WITH_CONSTANT(step_constant_subtract_first, subtract(k, x))
EACH_WITH_CONSTANT(step_constant_multiply, multiply(x, k))
EACH_WITH_CONSTANT(step_constant_divide, divide(x, k))
EACH_WITH_CONSTANT(step_constant_divide_first, divide(k, x))
EACH_WITH_CONSTANT(step_constant_maximum, maximum(x, k))
EACH_WITH_CONSTANT(step_constant_minimum, minimum(x, k))
EACH_WITH_CONSTANT(step_constant_mean, (x + k) / 2)
EACH_WITH_CONSTANT(step_constant_power, power(x, k))
EACH_WITH_CONSTANT(step_constant_power_first, power(k, x))
EACH_WITH_CONSTANT(step_constant_greater, greater(x, k))
EACH_WITH_CONSTANT(step_constant_greater_first, greater(k, x))
EACH_WITH_CONSTANT(step_constant_greater_or_equal, greater_or_equal(x, k))
EACH_WITH_CONSTANT(step_constant_greater_or_equal_first, greater_or_equal(k, x))
EACH_WITH_CONSTANT(step_constant_less, less(x, k))
EACH_WITH_CONSTANT(step_constant_less_first, less(k, x))
EACH_WITH_CONSTANT(step_constant_less_or_equal, less_or_equal(x, k))
EACH_WITH_CONSTANT(step_constant_less_or_equal_first, less_or_equal(k, x))
EACH_WITH_CONSTANT(step_constant_equal, equal(x, k))
EACH_WITH_CONSTANT(step_constant_and, and(x, k))
EACH_WITH_CONSTANT(step_constant_or, or(x, k))
EACH_WITH_CONSTANT(step_constant_exclusive_or, exclusive_or(x, k))
