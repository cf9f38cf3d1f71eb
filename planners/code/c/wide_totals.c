/* Types of sums of products, of biases, and of weights. */
typedef int64_t total;
typedef int64_t bias_sum;
typedef int8_t trained;
