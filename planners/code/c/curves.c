/* A function of 16-bit integers by a table with straight lines between. factor, shift: to steps of
   1 / (3 * 4096), for which the table has one of 1 / 24 each. is_odd: tanh, not sigmoid. */
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
    int32_t found = 32767 * 1024;
    if (position < 255) {
        found = (p->values[position] * 512) + ((size & 511) * (p->values[position + 1] - p->values[position]));
    }
    return ((value >= 0) ? (found + 512) : ((INT32_C(1) << 25) - found + 511)) >> 10;
}

static int32_t tangent_at(const curve *p, int32_t value)
{
    int32_t size = (value < 0) ? -value : value;
    int32_t position = size >> 8;
    int32_t found = 65535 * 256;
    if (position < 255) {
        found = (p->values[position] * 256) + ((size & 255) * (p->values[position + 1] - p->values[position]));
    }
    found -= INT32_C(1) << 23;
    return ((value >= 0) ? (found + 128) : (127 - found)) >> 8;
}

static int32_t curve_at(const curve *p, int32_t value)
{
    value = (int32_t)((((int64_t)value * p->factor) + p->half) >> p->shift);
    return p->is_odd ? tangent_at(p, value) : sigmoid_at(p, value);
}
