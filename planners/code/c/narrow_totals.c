/* Types of sums of products, of biases, and of weights. */
typedef int32_t total;
typedef int32_t bias_sum;
typedef int8_t trained;
