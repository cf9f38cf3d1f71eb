/* Store a block of a result in slow memory, row by row of the block. */
static void store_block(const run *r, const block_run *b)
{
    const tensor *t = b->to->of;
    const slot *from = AT(r, b->to->offset);
    int32_t y;
    int32_t x;
    int32_t at_once = (t->column_stride == t->channels) ? (b->columns.end - b->columns.first) : 1;
    for (y = b->rows.first; y < b->rows.end; y++) {
        slot *to = BASE(r, t) + (y * t->stride);
        for (x = b->columns.first; x < b->columns.end; x += at_once) {
            copy_elements(to + (x * t->column_stride), from, at_once * t->channels);
            from += at_once * t->channels;
        }
    }
}

/* The kernel of a layer whose result is in slow memory: compute blocks in the write buffer, and store
   each block once. */
static void store_blocks(const run *r, const layer *l, range rows, range columns)
{
    block_run b;
    b.to = write_buffers;
    while (b.to->of != l->result) {
        b.to++;
    }
    b.now = *r;
    b.now.made.of = l->result;
    if (r->stage->mode == INTO_SUMS) { /* the last firing completes the result */
        b.rows.first = 0;
        b.rows.end = l->result->height;
        b.columns = columns;
        b.to->make(&b.now, l, rows, columns);
        if (r->made.first < r->made.end) {
            store_block(r, &b);
        }
        return;
    }
    for (b.rows.first = rows.first; b.rows.first < rows.end; b.rows.first = b.rows.end) {
        b.rows.end = smaller(b.rows.first + b.to->rows, rows.end);
        for (b.columns.first = columns.first; b.columns.first < columns.end;
             b.columns.first = b.columns.end) {
            b.columns.end = smaller(b.columns.first + b.to->columns, columns.end);
            b.to->make(&b.now, l, b.rows, b.columns);
            if (IS_LAST_PART(r)) {
                store_block(r, &b);
            }
        }
    }
}
