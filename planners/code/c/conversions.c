/* What makes real numbers of integers, then what is fused behind. */
static void dequantize_region_and_finish(const run *r, const layer *l, range rows, range columns)
{
    dequantize_region(r, l, rows, columns);
    finish_behind_of_reals(r, l, rows, columns);
}

static void widen_region_and_finish(const run *r, const layer *l, range rows, range columns)
{
    widen_region(r, l, rows, columns);
    finish_behind_of_reals(r, l, rows, columns);
}

static void convolve_by_range_and_finish(const run *r, const layer *l, range rows, range columns)
{
    convolve_by_range(r, l, rows, columns);
    finish_behind_of_reals(r, l, rows, columns);
}

static void multiply_by_range_and_finish(const run *r, const layer *l, range rows, range columns)
{
    multiply_by_range(r, l, rows, columns);
    finish_behind_of_reals(r, l, rows, columns);
}
