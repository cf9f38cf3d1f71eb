/* Define conversions of integers to real numbers, followed by the fused functions. */
#define THEN_FINISH(name, make) \
    static void name(const run *r, const layer *l, range rows, range columns) \
    { \
        make(r, l, rows, columns); \
        finish_behind_of_reals(r, l, rows, columns); \
    }

THEN_FINISH(dequantize_region_and_finish, dequantize_region)
THEN_FINISH(widen_region_and_finish, widen_region)
THEN_FINISH(convolve_by_range_and_finish, convolve_by_range)
THEN_FINISH(multiply_by_range_and_finish, multiply_by_range)
