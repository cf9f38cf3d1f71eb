/* Apply to what became real numbers what is fused behind it. */
static void finish_behind(const run *r, const layer *l, range rows, range columns)
{
    view out = output_view(r, l);
    finish_region(l, &out, rows, columns);
}
