/* Sums of products of integers with trained ones. */
typedef int64_t total;
typedef int64_t bias_sum;
typedef int8_t trained;
