/* What a tile holds of the tensor of a layer. tile: those down first, then those across. */
static range held_by(const tiling *t, int32_t number, int32_t tile)
{
    const uint16_t *pair = t->held + 2 * (number * (t->down + t->across) + tile);
    range found;
    found.first = pair[0];
    found.end = pair[1];
    return found;
}

/* What no tile before it holds. */
static range fresh_of(const tiling *t, int32_t number, int32_t tile, int32_t is_first)
{
    range found = held_by(t, number, tile);
    if (!is_first) {
        found.first = larger(found.first, held_by(t, number, tile - 1).end);
    }
    return found;
}

/* What a tile and the next one hold. */
static range shared_by(const tiling *t, int32_t number, int32_t tile)
{
    range found = held_by(t, number, tile);
    found.first = held_by(t, number, tile + 1).first;
    return found;
}

/* Rows that tiles below need, of all columns that any tile holds. */
static view rows_below(const run *r, const tiling *t, int32_t number, range rows)
{
    view found = strip_view(r, &r->stage->layers[number]);
    range columns = held_by(t, number, t->down);
    columns.end = held_by(t, number, t->down + t->across - 1).end;
    found.base = (element *)(void *)(r->arena + t->kept[2 * number]);
    lay_out(&found, rows, columns);
    return found;
}

/* Columns that the next tile needs. */
static view columns_beside(const run *r, const tiling *t, int32_t number, range columns)
{
    view found = strip_view(r, &r->stage->layers[number]);
    found.base = (element *)(void *)(r->arena + t->kept[2 * number + 1]);
    lay_out(&found, r->ranges[number], columns);
    return found;
}

static void copy_places(const view *to, const view *from, range rows, range columns)
{
    int32_t y, count = (columns.end - columns.first) * to->place;
    for (y = rows.first; y < rows.end && count > 0; y++) {
        copy_elements(row_at(to, y) + column_at(to, columns.first),
                      row_at(from, y) + column_at(from, columns.first), count);
    }
}

/* Put into a tile what tiles before it have kept. */
static void take_over(const run *r, const tiling *t, int32_t number, int32_t down, int32_t across)
{
    view tile = strip_view(r, &r->stage->layers[number]);
    range columns = r->ranges[MOST_LAYERS + number];
    if (across > 0) {
        range beside = shared_by(t, number, t->down + across - 1);
        if (beside.first < beside.end) {
            view kept = columns_beside(r, t, number, beside);
            copy_places(&tile, &kept, r->ranges[number], beside);
            columns.first = beside.end;
        }
    }
    if (down > 0) {
        range above = shared_by(t, number, down - 1);
        if (above.first < above.end) {
            view kept = rows_below(r, t, number, above);
            copy_places(&tile, &kept, above, columns);
        }
    }
}

/* Keep what tiles after it need. */
static void keep_for_others(const run *r, const tiling *t, int32_t number, int32_t down,
                            int32_t across)
{
    view tile = strip_view(r, &r->stage->layers[number]);
    if (down + 1 < t->down) {
        range below = shared_by(t, number, down);
        if (below.first < below.end) {
            view kept = rows_below(r, t, number, below);
            copy_places(&kept, &tile, below, fresh_of(t, number, t->down + across, across == 0));
        }
    }
    if (across + 1 < t->across) {
        range beside = shared_by(t, number, t->down + across);
        if (beside.first < beside.end) {
            view kept = columns_beside(r, t, number, beside);
            copy_places(&kept, &tile, r->ranges[number], beside);
        }
    }
}

/* Compute a layer in a tile, and move what tiles keep. */
static void work_in_tile(const run *r, const tiling *t, int32_t number, int32_t down,
                         int32_t across)
{
    const layer *l = &r->stage->layers[number];
    range rows = r->ranges[number], columns = r->ranges[MOST_LAYERS + number];
    if (t->kept) {
        take_over(r, t, number, down, across);
        rows = fresh_of(t, number, down, down == 0);
        columns = fresh_of(t, number, t->down + across, across == 0);
    }
    if (rows.first < rows.end && columns.first < columns.end) {
        l->compute(r, l, rows, columns);
    }
    if (t->kept) {
        keep_for_others(r, t, number, down, across);
    }
}

/* All tiles of a stage, row by row of tiles, from left to right. */
static void work_tiles(const run *r)
{
    const stage *s = r->stage;
    const tiling *t = &tilings[s->sums];
    int32_t down, across, number;
    range held[2 * MOST_LAYERS];
    run tile = *r;
    tile.ranges = held;
    tile.strips = 0;
    for (down = 0; down < t->down; down++) {
        for (across = 0; across < t->across; across++) {
            for (number = 0; number < s->layer_count; number++) {
                held[number] = held_by(t, number, down);
                held[MOST_LAYERS + number] = held_by(t, number, t->down + across);
            }
            for (number = 0; number < s->layer_count; number++) {
                work_in_tile(&tile, t, number, down, across);
            }
        }
    }
}
