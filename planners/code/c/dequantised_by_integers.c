/* The real number of an integer less its zero point: difference * mantissa * 2^exponent, in integer
   arithmetic, rounded to even as a product of floats. */
static void dequantised(int32_t difference, uint32_t mantissa, int32_t exponent, float *value)
{
    uint32_t bits = 0U;
    if (difference != 0) {
        uint32_t size = (uint32_t)((difference < 0) ? -difference : difference);
        uint64_t product = (uint64_t)size * mantissa;
        int32_t shift = 0;
        while ((size >> shift) != 0U) {
            shift++;
        }
        shift -= (product < ((uint64_t)0x800000U << shift)) ? 1 : 0;
        if (shift > 0) { /* to 24 bits; halves go to even */
            uint64_t odd = (product >> shift) & 1U;
            product = (product + (((uint64_t)1 << (shift - 1)) - 1U) + odd) >> shift;
        }
        /* A carry out of 24 bits goes to the exponent. */
        bits = ((uint32_t)(exponent + shift + 149) << 23) + (uint32_t)product;
        bits |= (difference < 0) ? 0x80000000U : 0U;
    }
    (void)memcpy(value, &bits, sizeof bits);
}
