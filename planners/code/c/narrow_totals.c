/* Sums of products of integers with trained ones. */
typedef int32_t total;
typedef int32_t bias_sum;
typedef int8_t trained;
