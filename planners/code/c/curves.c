/* Sigmoid or tanh (is_odd) of int16, by linear interpolation in a table with steps of 1 / 24. factor,
   half, shift: rescale the argument to steps of 1 / (3 * 4096). */
typedef struct {
    const int32_t *values;
    int32_t factor;
    int32_t half;
    int32_t shift;
    int32_t is_odd;
} curve;

static int32_t sigmoid_at(const curve *p, int32_t value)
{
    int32_t size = (value < 0) ? -value : value;
    int32_t position = size >> 9;
    int32_t result = 32767 * 1024;
    if (position < 255) {
        result = (p->values[position] * 512) +
                 ((size & 511) * (p->values[position + 1] - p->values[position]));
    }
    return ((value >= 0) ? (result + 512) : ((INT32_C(1) << 25) - result + 511)) >> 10;
}

static int32_t tangent_at(const curve *p, int32_t value)
{
    int32_t size = (value < 0) ? -value : value;
    int32_t position = size >> 8;
    int32_t result = 65535 * 256;
    if (position < 255) {
        result = (p->values[position] * 256) +
                 ((size & 255) * (p->values[position + 1] - p->values[position]));
    }
    result -= INT32_C(1) << 23;
    return ((value >= 0) ? (result + 128) : (127 - result)) >> 8;
}

static int32_t curve_at(const curve *p, int32_t value)
{
    value = (int32_t)((((int64_t)value * p->factor) + p->half) >> p->shift);
    return p->is_odd ? tangent_at(p, value) : sigmoid_at(p, value);
}
