/* Integers as real numbers, then what is fused behind. */
static void dequantize_and_finish(const run *r, const layer *l, range rows, range columns)
{
    dequantize_region(r, l, rows, columns);
    finish_behind_of_reals(r, l, rows, columns);
}

static void widen_and_finish(const run *r, const layer *l, range rows, range columns)
{
    widen_region(r, l, rows, columns);
    finish_behind_of_reals(r, l, rows, columns);
}
