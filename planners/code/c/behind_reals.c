/* Apply the fused elementwise functions to values that became real numbers. */
static void finish_behind(const run *r, const layer *l, range rows, range columns)
{
    view out = output_view(r, l);
    finish_region(l, &out, rows, columns);
}
