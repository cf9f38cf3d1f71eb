static int32_t end_column(const rule *r, int32_t column, int32_t width)
{
    int32_t first = clamped(first_of(r, column), width);
    return larger(first + 1, smaller(last_of(r, column) + 1, width));
}

/* Compute layer `last` column by column; first the columns of other layers that it needs. */
static void sweep_to(const run *r, int32_t last)
{
    int32_t computed[MOST_LAYERS] = {0};
    const stage *s = r->stage;
    while (computed[last] < s->layers[last].result->width) {
        int32_t number = last;
        int32_t position = 0;
        range columns;
        while (position < s->layers[number].input_count) {
            const argument *in = &s->layers[number].inputs[position];
            if ((in->local < s->layer_count) &&
                (computed[in->local] < end_column(in->columns, computed[number], in->source->width))) {
                number = in->local;
                position = 0;
            } else {
                position++;
            }
        }
        columns.first = computed[number];
        computed[number]++;
        columns.end = computed[number];
        if (r->ranges[number].first < r->ranges[number].end) {
            s->layers[number].compute(r, &s->layers[number], r->ranges[number], columns);
        }
    }
}

/* Compute the result column by column. */
static void sweep(const run *r)
{
    sweep_to(r, r->stage->layer_count - 1);
}
