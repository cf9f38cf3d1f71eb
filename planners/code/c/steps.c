static void step_affine(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)column;
    for (i = 0; i < count; i++) {
        v[i] = v[i] * s->values[channel + i] + s->more[channel + i];
    }
}

/* Each element over a power of the squares of its neighbours among the channels: by_channel of them
   from by_column before it on; a, b: the power and what is added to the squares. more: the factor
   of the squares. */
static void step_neighbours(const step *s, element *v, int32_t count, int32_t channel,
                            int32_t column)
{
    element before[MOST_NEIGHBOURS + 1];
    int32_t i, j, after = s->by_channel - s->by_column;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element own = v[i], sum = 0;
        for (j = larger(i - s->by_column, 0); j < smaller(i + after, count); j++) {
            element value = j < i ? before[j % (MOST_NEIGHBOURS + 1)] : v[j];
            sum += value * value;
        }
        before[i % (MOST_NEIGHBOURS + 1)] = own;
        v[i] = own / powf(s->b + s->more[0] * sum, s->a);
    }
}

static void step_prelu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)column;
    for (i = 0; i < count; i++) {
        v[i] = v[i] < 0 ? v[i] * s->values[channel + i] : v[i];
    }
}

static element limited(element x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

static element softplus(element x)
{
    return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
}

static element positive(element x)
{
    return x > 0 ? x : 0;
}

/* Four at a time, of which compilers make vectors. */
static void step_relu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; count - i >= 4; i += 4) {
        element a = positive(v[i]), b = positive(v[i + 1]);
        element c = positive(v[i + 2]), d = positive(v[i + 3]);
        v[i] = a;
        v[i + 1] = b;
        v[i + 2] = c;
        v[i + 3] = d;
    }
    for (; i < count; i++) {
        v[i] = positive(v[i]);
    }
}

static void step_leaky_relu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x < 0 ? x * s->a : x;
    }
}

static element between(element x, element least, element most)
{
    return x < least ? least : x > most ? most : x;
}

static void step_clip(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    element least = s->a, most = s->b;
    (void)channel;
    (void)column;
    for (i = 0; count - i >= 4; i += 4) {
        element a = between(v[i], least, most), b = between(v[i + 1], least, most);
        element c = between(v[i + 2], least, most), d = between(v[i + 3], least, most);
        v[i] = a;
        v[i + 1] = b;
        v[i + 2] = c;
        v[i + 3] = d;
    }
    for (; i < count; i++) {
        v[i] = between(v[i], least, most);
    }
}

static void step_sigmoid(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = tanhf(x * 0.5f) * 0.5f + 0.5f;
    }
}

static void step_hard_sigmoid(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = limited(x * s->a + s->b);
    }
}

static void step_hard_swish(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x * limited(x * (1.0f / 6.0f) + 0.5f);
    }
}

static void step_silu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x * (tanhf(x * 0.5f) * 0.5f + 0.5f);
    }
}

static void step_mish(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x * tanhf(softplus(x));
    }
}

static void step_gelu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x * 0.5f * (1.0f + erff(x * 0.70710678f));
    }
}

static void step_elu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x < 0 ? expm1f(x) * s->a : x;
    }
}

static void step_selu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = (x < 0 ? expm1f(x) * s->a : x) * s->b;
    }
}

static void step_celu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x < 0 ? expm1f(x / s->a) * s->a : x;
    }
}

static void step_tanh(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = tanhf(x);
    }
}

static void step_softplus(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = softplus(x);
    }
}

static void step_softsign(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x / (1.0f + fabsf(x));
    }
}

static void step_thresholded_relu(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x > s->a ? x : 0;
    }
}

static void step_exp(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = expf(x);
    }
}

static void step_log(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = logf(x);
    }
}

static void step_sqrt(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = sqrtf(x);
    }
}

static void step_abs(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = fabsf(x);
    }
}

static void step_negative(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = -x;
    }
}

static void step_reciprocal(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = 1.0f / x;
    }
}

static void step_constant_add(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x + k;
    }
}

static void step_constant_subtract(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x - k;
    }
}

static void step_constant_subtract_first(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = k - x;
    }
}

static void step_constant_multiply(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x * k;
    }
}

static void step_constant_divide(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x / k;
    }
}

static void step_constant_divide_first(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = k / x;
    }
}

static void step_constant_maximum(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = k > x ? k : x;
    }
}

static void step_constant_minimum(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = k < x ? k : x;
    }
}

static void step_constant_mean(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = (x + k) / 2;
    }
}

static void step_constant_power(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = powf(x, k);
    }
}

static void step_constant_power_first(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = powf(k, x);
    }
}

static void step_gelu_tanh(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x * 0.5f * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    }
}

static void step_erf(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = erff(x);
    }
}

static void step_sin(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = sinf(x);
    }
}

static void step_cos(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = cosf(x);
    }
}

static void step_round(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = rintf(x);
    }
}

static void step_floor(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = floorf(x);
    }
}

static void step_ceil(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = ceilf(x);
    }
}

static void step_truncate(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = truncf(x);
    }
}

static void step_sign(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = (element)((x > 0) - (x < 0));
    }
}

static void step_not(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x == 0 ? 1.0f : 0.0f;
    }
}

static void step_is_not_zero(const step *s, element *v, int32_t count, int32_t channel, int32_t column)
{
    int32_t i;
    (void)s;
    (void)channel;
    (void)column;
    for (i = 0; i < count; i++) {
        element x = v[i];
        v[i] = x != 0 ? 1.0f : 0.0f;
    }
}

static void step_constant_greater(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x > k ? 1.0f : 0.0f;
    }
}

static void step_constant_greater_first(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = k > x ? 1.0f : 0.0f;
    }
}

static void step_constant_greater_or_equal(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x >= k ? 1.0f : 0.0f;
    }
}

static void step_constant_greater_or_equal_first(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = k >= x ? 1.0f : 0.0f;
    }
}

static void step_constant_less(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x < k ? 1.0f : 0.0f;
    }
}

static void step_constant_less_first(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = k < x ? 1.0f : 0.0f;
    }
}

static void step_constant_less_or_equal(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x <= k ? 1.0f : 0.0f;
    }
}

static void step_constant_less_or_equal_first(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = k <= x ? 1.0f : 0.0f;
    }
}

static void step_constant_equal(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x == k ? 1.0f : 0.0f;
    }
}

static void step_constant_and(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x != 0 && k != 0 ? 1.0f : 0.0f;
    }
}

static void step_constant_or(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = x != 0 || k != 0 ? 1.0f : 0.0f;
    }
}

static void step_constant_exclusive_or(const step *s, element *v, int32_t count, int32_t channel,
                         int32_t column)
{
    int32_t i;
    for (i = 0; i < count; i++) {
        element x = v[i];
        element k = s->values[(channel + i) * s->by_channel + column * s->by_column];
        v[i] = (x != 0) != (k != 0) ? 1.0f : 0.0f;
    }
}
