/* The real number of an integer less its zero point. */
static float dequantised(int32_t difference, float scale)
{
    return scale * (float)difference;
}
