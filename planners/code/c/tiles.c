/* Rows or columns of a tile that no earlier tile holds. */
static range new_in_tile(const tiling *t, int32_t number, int32_t tile, int32_t is_first)
{
    range held = held_by(t, number, tile);
    if (!is_first) {
        held.first = larger(held.first, held_by(t, number, tile - 1).end);
    }
    return held;
}

static range new_rows(const tile_run *at, int32_t number)
{
    return new_in_tile(at->tiles, number, at->down, at->down == 0);
}

static range new_columns(const tile_run *at, int32_t number)
{
    return new_in_tile(at->tiles, number, at->tiles->down + at->across, at->across == 0);
}

/* Rows or columns that a tile and its successor hold. */
static range shared_with_next(const tiling *t, int32_t number, int32_t tile)
{
    range held = held_by(t, number, tile);
    held.first = held_by(t, number, tile + 1).first;
    return held;
}

/* Part of a tensor retained for later tiles: rows for the tile below, or columns for the next tile. */
typedef struct {
    int32_t offset;
    range rows;
    range columns;
} retained_part;

/* Rows retained for the tile below, in all columns of the stage; empty for the bottom tiles. */
static retained_part rows_for_below(const tiling *t, int32_t number, int32_t down)
{
    retained_part below;
    below.offset = t->kept[2 * number];
    below.rows.end = 0;
    below.rows.first = 0;
    if ((down >= 0) && ((down + 1) < t->down)) {
        below.rows = shared_with_next(t, number, down);
    }
    below.columns = held_by(t, number, t->down);
    below.columns.end = held_by(t, number, t->down + t->across - 1).end;
    return below;
}

/* Columns retained for the next tile of the row of tiles; empty after the last. */
static retained_part columns_for_next(const tile_run *at, int32_t number, int32_t across)
{
    retained_part right;
    right.offset = at->tiles->kept[(2 * number) + 1];
    right.rows = rows_held(at, number);
    right.columns.end = 0;
    right.columns.first = 0;
    if ((across >= 0) && ((across + 1) < at->tiles->across)) {
        right.columns = shared_with_next(at->tiles, number, at->tiles->down + across);
    }
    return right;
}

/* Copy columns between a tile and its retained part, in all retained rows. into_tile: the direction. */
static void copy_retained(const tile_run *at, int32_t number, const retained_part *as, range columns,
                          int32_t into_tile)
{
    view tile = buffer_view(&at->now, &at->now.stage->layers[number]);
    view kept = tile;
    int32_t y;
    int32_t count = (columns.end - columns.first) * tile.column_stride;
    kept.base = (element *)(void *)AT(&at->now, as->offset);
    lay_out(&kept, as->rows, as->columns);
    for (y = as->rows.first; (y < as->rows.end) && (count > 0); y++) {
        element *in_tile = row_at(&tile, y) + column_at(&tile, columns.first);
        element *in_retained = row_at(&kept, y) + column_at(&kept, columns.first);
        copy_elements(into_tile ? in_tile : in_retained, into_tile ? in_retained : in_tile, count);
    }
}

/* Copy the parts that earlier tiles have retained into a tile. */
static void restore_retained(const tile_run *at, int32_t number)
{
    retained_part left = columns_for_next(at, number, at->across - 1);
    retained_part above = rows_for_below(at->tiles, number, at->down - 1);
    range columns = columns_held(at, number);
    columns.first = larger(columns.first, left.columns.end);
    copy_retained(at, number, &left, left.columns, 1);
    copy_retained(at, number, &above, columns, 1);
}

/* Retain the rows and columns that later tiles need. */
static void retain_for_later(const tile_run *at, int32_t number)
{
    retained_part right = columns_for_next(at, number, at->across);
    retained_part below = rows_for_below(at->tiles, number, at->down);
    copy_retained(at, number, &below, new_columns(at, number), 0);
    copy_retained(at, number, &right, right.columns, 0);
}

/* Compute a layer in a tile: all its pixels, or the pixels that no earlier tile has retained. */
static void compute_in_tile(const tile_run *at, int32_t number)
{
    const layer *l = &at->now.stage->layers[number];
    range rows = rows_held(at, number);
    range columns = columns_held(at, number);
    if (at->tiles->kept != NULL) {
        restore_retained(at, number);
        rows = new_rows(at, number);
        columns = new_columns(at, number);
    }
    if ((rows.first < rows.end) && (columns.first < columns.end)) {
        l->compute(&at->now, l, rows, columns);
    }
    if (at->tiles->kept != NULL) {
        retain_for_later(at, number);
    }
}

/* Compute all tiles of a stage, from left to right in each row of tiles. */
static void compute_tiles(const run *r)
{
    int32_t number;
    tile_run at;
    at.now = *r;
    at.tiles = &tilings[r->stage->sums];
    for (at.down = 0; at.down < at.tiles->down; at.down++) {
        for (at.across = 0; at.across < at.tiles->across; at.across++) {
            for (number = 0; number < r->stage->layer_count; number++) {
                compute_in_tile(&at, number);
            }
        }
    }
}
