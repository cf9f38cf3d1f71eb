/* The integer for a real number: value / (mantissa * 2^exponent), in integer arithmetic, bit for bit as
   in single precision. The quotient is rounded to 24 bits first, as a division of floats rounds it. */
static int32_t quantised(const float *value, uint32_t mantissa, int32_t exponent, int32_t zero,
                         int32_t least, int32_t most)
{
    uint32_t bits;
    uint32_t dividend;
    uint32_t quotient = 0U;
    int32_t power;
    int32_t shift;
    int32_t i;
    int32_t result;
    (void)memcpy(&bits, value, sizeof bits);
    dividend = (bits & 0x7FFFFFU) | 0x800000U;
    power = (int32_t)((bits >> 23) & 0xFFU);
    if ((power == 255) && ((bits & 0x7FFFFFU) != 0U)) {
        return least; /* not a number */
    }
    power -= 150 + exponent; /* value / scale = dividend / mantissa * 2^power */
    if (dividend < mantissa) {
        dividend <<= 1;
        power -= 1;
    }
    if (power < -2) {
        return zero; /* below a half; zeros and subnormal numbers, too */
    }
    if (power > 17) {
        return ((bits >> 31) != 0U) ? least : most;
    }
    for (i = 0; i < 24; i++) {
        quotient <<= 1;
        if (dividend >= mantissa) {
            dividend -= mantissa;
            quotient |= 1U;
        }
        dividend <<= 1;
    }
    if (dividend >= mantissa) {
        quotient += 1U; /* the quotient of two floats is never a tie */
    }
    shift = 23 - power;
    result = (int32_t)((quotient + ROUNDING) >> shift);
    result = zero + (((bits >> 31) != 0U) ? -result : result);
    return (result < least) ? least : ((result > most) ? most : result);
}
