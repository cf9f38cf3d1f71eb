/* What no tile before it holds. */
static range fresh_of(const tiling *t, int32_t number, int32_t tile, int32_t is_first)
{
    range found = held_by(t, number, tile);
    if (!is_first) {
        found.first = larger(found.first, held_by(t, number, tile - 1).end);
    }
    return found;
}

static range fresh_rows(const tile_run *at, int32_t number)
{
    return fresh_of(at->tiles, number, at->down, at->down == 0);
}

static range fresh_columns(const tile_run *at, int32_t number)
{
    return fresh_of(at->tiles, number, at->tiles->down + at->across, at->across == 0);
}

/* What a tile and the next one hold. */
static range shared_by(const tiling *t, int32_t number, int32_t tile)
{
    range found = held_by(t, number, tile);
    found.first = held_by(t, number, tile + 1).first;
    return found;
}

/* What is kept of a tensor: rows that tiles below need, or columns that the next tile needs. */
typedef struct {
    int32_t offset;
    range rows;
    range columns;
} kept_places;

/* Rows that a tile and the one below it hold, of all columns that any tile holds; none below the last. */
static kept_places rows_below(const tiling *t, int32_t number, int32_t down)
{
    kept_places found;
    found.offset = t->kept[2 * number];
    found.rows.end = 0;
    found.rows.first = 0;
    if ((down >= 0) && ((down + 1) < t->down)) {
        found.rows = shared_by(t, number, down);
    }
    found.columns = held_by(t, number, t->down);
    found.columns.end = held_by(t, number, t->down + t->across - 1).end;
    return found;
}

/* Columns that a tile and the next one hold; none behind the last. */
static kept_places columns_beside(const tile_run *at, int32_t number, int32_t across)
{
    kept_places found;
    found.offset = at->tiles->kept[(2 * number) + 1];
    found.rows = rows_held(at, number);
    found.columns.end = 0;
    found.columns.first = 0;
    if ((across >= 0) && ((across + 1) < at->tiles->across)) {
        found.columns = shared_by(at->tiles, number, at->tiles->down + across);
    }
    return found;
}

/* Copy some columns of a tile, in all rows that are kept, from where they are kept or to there. */
static void copy_kept(const tile_run *at, int32_t number, const kept_places *as, range columns,
                      int32_t is_kept)
{
    view tile = buffer_view(&at->now, &at->now.stage->layers[number]);
    view kept = tile;
    int32_t y;
    int32_t count = (columns.end - columns.first) * tile.column_stride;
    kept.base = (element *)(void *)AT(&at->now, as->offset);
    lay_out(&kept, as->rows, as->columns);
    for (y = as->rows.first; (y < as->rows.end) && (count > 0); y++) {
        element *here = row_at(&tile, y) + column_at(&tile, columns.first);
        element *there = row_at(&kept, y) + column_at(&kept, columns.first);
        copy_elements(is_kept ? here : there, is_kept ? there : here, count);
    }
}

/* Put into a tile what tiles before it have kept. */
static void take_over(const tile_run *at, int32_t number)
{
    kept_places beside = columns_beside(at, number, at->across - 1);
    kept_places above = rows_below(at->tiles, number, at->down - 1);
    range columns = columns_held(at, number);
    columns.first = larger(columns.first, beside.columns.end);
    copy_kept(at, number, &beside, beside.columns, 1);
    copy_kept(at, number, &above, columns, 1);
}

/* Keep what tiles after it need. */
static void keep_for_others(const tile_run *at, int32_t number)
{
    kept_places beside = columns_beside(at, number, at->across);
    kept_places below = rows_below(at->tiles, number, at->down);
    copy_kept(at, number, &below, fresh_columns(at, number), 0);
    copy_kept(at, number, &beside, beside.columns, 0);
}

/* Compute a layer in a tile: all that it holds, or what no tile before has kept for it. */
static void work_in_tile(const tile_run *at, int32_t number)
{
    const layer *l = &at->now.stage->layers[number];
    range rows = rows_held(at, number);
    range columns = columns_held(at, number);
    if (at->tiles->kept != NULL) {
        take_over(at, number);
        rows = fresh_rows(at, number);
        columns = fresh_columns(at, number);
    }
    if ((rows.first < rows.end) && (columns.first < columns.end)) {
        l->compute(&at->now, l, rows, columns);
    }
    if (at->tiles->kept != NULL) {
        keep_for_others(at, number);
    }
}

/* All tiles of a stage, row by row of tiles, from left to right. */
static void work_tiles(const run *r)
{
    int32_t number;
    tile_run at;
    at.now = *r;
    at.tiles = &tilings[r->stage->sums];
    for (at.down = 0; at.down < at.tiles->down; at.down++) {
        for (at.across = 0; at.across < at.tiles->across; at.across++) {
            for (number = 0; number < r->stage->layer_count; number++) {
                work_in_tile(&at, number);
            }
        }
    }
}
