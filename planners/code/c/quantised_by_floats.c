/* The integer for a real number. */
static int32_t quantised(float value, float scale, int32_t zero, int32_t least, int32_t most)
{
    float stored = ROUND(value / scale) + (float)zero;
    int32_t integer = least; /* for NaN, too */
    if (stored > (float)least) {
        integer = (stored < (float)most) ? (int32_t)stored : most;
    }
    return integer;
}
