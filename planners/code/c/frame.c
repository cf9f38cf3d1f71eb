/* Rows or columns from `first` to before `end`. */
typedef struct {
    int32_t first;
    int32_t end;
} range;

/* Which rows of an input an output row needs: from floor((slope * row + first) / divisor) to
   floor((slope * row + last) / divisor), or as listed in pairs. */
typedef struct {
    int32_t slope;
    int32_t first;
    int32_t last;
    int32_t divisor;
    int32_t is_clamped; /* whether a row beyond the ends stands for the nearest one */
    const uint16_t *pairs;
} rule;

/* A tensor in the arena; sizes are in slots. Row y is stored as row y % rows. An offset below zero is
   memory of the caller: -1 for the first such tensor, -2 for the next. A tensor inside another has its
   strides. */
typedef struct {
    int32_t offset;
    int32_t rows;          /* stored */
    int32_t stride;        /* slots from a row to the next */
    int32_t column_stride; /* slots from a column to the next */
    int32_t height;
    int32_t width;
    int32_t channels;
    int32_t producer; /* stage, or -1 */
    int32_t first_reader;
    int32_t readers;
} tensor;

struct layer;
struct step;
struct run;

/* An input of a layer: `local` is its position among the ranges of its stage. */
typedef struct {
    const tensor *source;
    int32_t local;
    const rule *rows;
    const rule *columns;
} argument;

typedef void (*kernel)(const struct run *, const struct layer *, range rows, range columns);

typedef void (*change)(const struct step *, element *, int32_t count, int32_t channel,
                       int32_t column);

/* An elementwise function after a layer. by_channel, by_column: strides of `values`. */
typedef struct step {
    change apply;
    element a;
    element b;
    const element *values;
    const element *more;
    int32_t by_channel;
    int32_t by_column;
} step;

typedef struct layer {
    kernel compute;
    const void *parameters;
    const tensor *result;
    const argument *inputs;
    const void *steps; /* elementwise functions of the result */
    int32_t input_count;
    int32_t step_count;
    int32_t buffer_offset; /* slots: of the rows of a fused layer, or of a tile in the arena */
    int32_t buffer_rows;
    int32_t buffer_columns;
} layer;

/* A stage: layers that execute in the same firings. */
typedef struct {
    int32_t mode;
    int32_t rows;
    int32_t firings;
    int32_t first_row; /* of an input that is added to accumulators row by row */
    int32_t sums;      /* offset of the accumulators; BY_PARTS: from the row buffers on; BY_TILES: the
                          number of the tiling */
    const layer *layers;
    const argument *sources; /* tensors of other stages */
    int32_t layer_count;
    int32_t source_count;
    const tensor *result;
} stage;

/* A stage that reads a line buffer. local: its position among the ranges of the stage. looks_ahead:
   firings until the stage reads the first row of the buffer, at most. */
typedef struct {
    int32_t stage;
    int32_t local;
    int32_t looks_ahead;
} reader;

/* A group: stages whose firings alternate. pool, pool_size: of the staging buffer, in slots. */
typedef struct {
    int32_t first_stage;
    int32_t stages;
    int32_t pool;
    int32_t pool_size;
} group;

/* The tiles of a stage. held: for each layer the rows that each tile down holds of its tensor, then
   the columns of each tile across, from the first to before the second of two numbers. kept: for each
   layer where the rows lie that tiles below need, and the columns that the next tile needs; NULL where
   tiles compute them again. */
typedef struct {
    int32_t down;
    int32_t across;
    const uint16_t *held;
    const int32_t *kept;
} tiling;

/* A state variable. kept: its rows; made: the rows for the next frame, copied after the group. */
typedef struct {
    const tensor *kept;
    const tensor *made;
    int32_t group;
} variable;

/* Initial contents of state: `numbers`, repeated. */
typedef struct {
    int32_t offset;
    int32_t length;
    int32_t times;
    const slot *numbers;
} beginning;

/* Weights of a layer that are copied as group `begin` begins; as the library does, below zero. of: the
   layer that reads them here, if any. from: where they lie in flash, or NULL: at `home` in the arena.
   offset: in the arena. size: of the numbers of the layer, field: of the address among them. group: of
   the layer. */
typedef struct {
    const layer *of;
    const void *from;
    int32_t home;
    int32_t offset;
    int32_t bytes;
    size_t size;
    size_t field;
    int32_t begin;
    int32_t group;
} weights_copy;

/* A repeated piece of the firing order: `length` stages from position `first` on. */
typedef struct {
    int32_t first;
    int32_t length;
    int32_t times;
} turns;

/* A tensor whose rows are stored in a second ring buffer, too. */
typedef struct {
    const tensor *of;
    const tensor *to;
} duplicate;

/* The window of a state variable that is a ring buffer: the rows of the ring, the oldest first, then the
   new rows of `made`. */
typedef struct {
    const tensor *window;
    const tensor *made;
    int32_t variable_number;
} joint;

enum { ARRIVING, BY_ROWS, INTO_SUMS, BY_CHANNELS, BY_PARTS, COPIED, BY_TILES };

/* Rows of a tensor in the staging buffer. */
typedef struct {
    const tensor *of;
    int32_t first;
    int32_t end;
    int32_t offset;
} batch;

/* A firing. */
typedef struct run {
    slot *arena;
    slot *const *outside; /* tensors in memory of the caller */
    const stage *stage;
    const range *ranges;
    int32_t firing;
    int32_t buffers; /* offset of the row buffers of fused layers */
    int32_t part;    /* number of the channel block */
    batch read;
    batch made;
    slot *scratch; /* of the state, for intermediate results of a layer */
    const joint *joints;
    const uint16_t *oldest; /* of the state: the position of the oldest row of each variable */
} run;

/* Address and strides of a tensor, in elements. base: of row `origin` and column `left`; staged: of row
   `staged_from`. rows, columns: of a ring buffer; no columns: whole rows. */
typedef struct {
    element *base;
    element *staged;
    int32_t staged_from;
    int32_t origin;
    int32_t left;
    int32_t rows;
    int32_t stride;
    int32_t column_stride;
    int32_t columns;
    int32_t width;
    int32_t channels;
} view;

static int32_t floor_quotient(int32_t above, int32_t below)
{
    int32_t quotient = above / below;
    int32_t rest = above % below;
    return quotient - ((rest < 0) ? 1 : 0);
}

static int32_t smaller(int32_t one, int32_t other)
{
    return (one < other) ? one : other;
}

static int32_t larger(int32_t one, int32_t other)
{
    return (one > other) ? one : other;
}

static int32_t first_of(const rule *r, int32_t row)
{
    return r->pairs ? (int32_t)r->pairs[2 * row] : floor_quotient((r->slope * row) + r->first, r->divisor);
}

static int32_t last_of(const rule *r, int32_t row)
{
    return r->pairs ? (int32_t)r->pairs[(2 * row) + 1] : floor_quotient((r->slope * row) + r->last, r->divisor);
}

static int32_t clamped(int32_t position, int32_t limit)
{
    return smaller(larger(position, 0), limit - 1);
}

/* Negative positions count from the end; beyond both ends the last position there. */
static int32_t counted_from_ends(int32_t position, int32_t limit)
{
    return clamped((position < 0) ? (position + limit) : position, limit);
}

/* The rows of an input of so many rows that some output rows need. */
static range rows_of(const rule *r, range wanted, int32_t limit)
{
    range rows = {0, 0};
    if (wanted.first < wanted.end) {
        rows.first = first_of(r, wanted.first);
        rows.end = last_of(r, wanted.end - 1) + 1;
        if (r->is_clamped != 0) {
            rows.first = clamped(rows.first, limit);
            rows.end = clamped(rows.end - 1, limit) + 1;
        }
        rows.first = larger(rows.first, 0);
        rows.end = smaller(rows.end, limit);
        if (rows.first >= rows.end) {
            rows.end = 0;
            rows.first = 0;
        }
    }
    return rows;
}

static void join_rows(const run *r, const tensor *t, view *v)
{
    int32_t number;
    for (number = 0; number < JOINTS; number++) {
        const joint *j = &r->joints[number];
        if (j->window == t) {
            v->origin = -(int32_t)r->oldest[j->variable_number];
            v->staged = (element *)(void *)BASE(r, j->made);
            v->staged_from = t->rows;
        }
    }
}

/* Rows and columns of a result in slow memory that its kernel makes in fast memory, from an offset on in
   slots. */
typedef struct {
    const tensor *of;
    kernel make;
    int32_t offset;
    int32_t rows;
    int32_t columns;
} write_buffer;

/* A firing that makes a block of its result in a write buffer. */
typedef struct {
    run now; /* first, as functions of a run take it */
    const write_buffer *to;
    range rows;
    range columns;
} block_run;

static void in_block(const run *r, const tensor *t, view *v)
{
    if (r->made.of == t) {
        const block_run *b = (const block_run *)(const void *)r;
        v->base = (element *)(void *)AT(r, b->to->offset);
        v->staged = NULL;
        v->origin = b->rows.first;
        v->left = b->columns.first;
        v->rows = b->rows.end - b->rows.first;
        v->column_stride = v->channels;
        v->stride = (b->columns.end - b->columns.first) * v->column_stride;
    }
}

static view tensor_view(const run *r, const tensor *t)
{
    view v;
    const batch *in_pool = (r->made.of == t) ? &r->made : (r->read.of == t) ? &r->read : NULL;
    v.base = (element *)(void *)BASE(r, t);
    v.staged = in_pool ? (element *)(void *)AT(r, in_pool->offset) : NULL;
    v.staged_from = in_pool ? in_pool->first : 0;
    v.left = 0;
    v.origin = 0;
    v.rows = larger(t->rows, 1);
    v.stride = t->stride / SLOTS;
    v.column_stride = t->column_stride / SLOTS;
    v.columns = 0;
    v.width = t->width;
    v.channels = t->channels / SLOTS;
    JOIN(r, t, &v);
    return v;
}

/* Some rows and columns of a tensor, row by row. */
static void lay_out(view *v, range rows, range columns)
{
    v->origin = rows.first;
    v->left = columns.first;
    v->rows = rows.end - rows.first;
    v->columns = 0;
    v->stride = (columns.end - columns.first) * v->column_stride;
}

/* What a tile holds of the tensor of a layer. tile: those down first, then those across. */
static range held_by(const tiling *t, int32_t number, int32_t tile)
{
    const uint16_t *pair = t->held + (2 * ((number * (t->down + t->across)) + tile));
    range held;
    held.first = pair[0];
    held.end = pair[1];
    return held;
}

/* A firing of a stage of tiles, at one of them. */
typedef struct {
    run now; /* first, as functions of a run take it */
    const tiling *tiles;
    int32_t down;
    int32_t across;
} tile_run;

/* Rows and columns of a layer that the tile at work holds. */
static range rows_held(const tile_run *at, int32_t number)
{
    return held_by(at->tiles, number, at->down);
}

static range columns_held(const tile_run *at, int32_t number)
{
    return held_by(at->tiles, number, at->tiles->down + at->across);
}

static void as_tile(const run *r, const layer *l, view *v)
{
    if (r->stage->mode == BY_TILES) {
        const tile_run *at = (const tile_run *)(const void *)r;
        int32_t number = (int32_t)(l - r->stage->layers);
        v->base = (element *)(void *)AT(r, l->buffer_offset);
        lay_out(v, rows_held(at, number), columns_held(at, number));
    }
}

/* A tensor inside the stage of this firing. */
static view buffer_view(const run *r, const layer *l)
{
    view v;
    v.base = (element *)(void *)&AT(r, r->buffers)[l->buffer_offset];
    v.staged = NULL;
    v.staged_from = 0;
    v.origin = r->ranges[l - r->stage->layers].first;
    v.left = 0;
    v.rows = l->buffer_rows;
    v.column_stride = l->result->channels / SLOTS;
    v.stride = l->buffer_columns * v.column_stride;
    v.columns = l->buffer_columns;
    v.width = l->result->width;
    v.channels = v.column_stride;
    AS_TILE(r, l, &v);
    return v;
}

static view input_view(const run *r, const layer *l, int32_t number)
{
    const argument *in = &l->inputs[number];
    if (in->local < r->stage->layer_count) {
        return buffer_view(r, &r->stage->layers[in->local]);
    }
    return tensor_view(r, in->source);
}

static view output_view(const run *r, const layer *l)
{
    if (l->result == r->stage->result) {
        return tensor_view(r, l->result);
    }
    return buffer_view(r, l);
}

static element *row_at(const view *v, int32_t row)
{
    return (v->staged && (row >= v->staged_from))
               ? &v->staged[(row - v->staged_from) * v->stride]
               : &v->base[(row - v->origin) % v->rows * v->stride];
}

static int32_t column_at(const view *v, int32_t column)
{
    return (v->columns ? (column % v->columns) : FROM_LEFT(v, column)) * v->column_stride;
}

/* Elements of a row whose positions follow one another. */
static int32_t row_elements(const view *v)
{
    return v->width * v->channels;
}

/* How many of some columns go together: all where positions follow one another, else one. */
static int32_t columns_at_once(const view *v, range columns)
{
    return (!v->columns && (v->column_stride == v->channels)) ? (columns.end - columns.first) : 1;
}

static void copy_elements(element *to, const element *from, int32_t count)
{
    if (to != from) {
        (void)memmove(to, from, (size_t)count * sizeof *to);
    }
}

/* Copy unsigned bytes as signed ones less 128, or back: the first bit of each changes. `to` may be
   `from`. */
static void copy_shifted_bytes(void *to, const void *from, int32_t count)
{
    const uint8_t *values = from;
    uint8_t *results = to;
    int32_t i;
    for (i = 0; i < count; i++) {
        results[i] = (uint8_t)(values[i] ^ 0x80U);
    }
}

/* The same for 16 bits and 32768; numbers begin at any byte. */
static void copy_shifted_halves(void *to, const void *from, int32_t count)
{
    const uint8_t *values = from;
    uint8_t *results = to;
    int32_t i;
    for (i = 0; i < count; i++) {
        uint16_t value;
        (void)memcpy(&value, values + (2 * i), sizeof value);
        value ^= 0x8000U;
        (void)memcpy(results + (2 * i), &value, sizeof value);
    }
}

/* Apply what is fused behind a layer to the elements of one position from a channel on. */
static void finish(const layer *l, element *pixel, int32_t count, int32_t channel, int32_t column)
{
    const step *steps = l->steps;
    int32_t number;
    for (number = 0; number < l->step_count; number++) {
        steps[number].apply(&steps[number], pixel, count, channel, column);
    }
}

/* Apply what is fused behind a layer to all channels of a region: to integers, whose channels are all
   alike, at positions that go together. */
static void finish_region(const layer *l, const view *out, range rows, range columns)
{
    int32_t y;
    int32_t x;
    int32_t at_once = (sizeof(element) < sizeof(float)) ? columns_at_once(out, columns) : 1;
    if (l->step_count != 0) {
        for (y = rows.first; y < rows.end; y++) {
            element *row = row_at(out, y);
            for (x = columns.first; x < columns.end; x += at_once) {
                finish(l, &row[column_at(out, x)], at_once * out->channels, 0, x);
            }
        }
    }
}

/* Define the function of a layer: `by` goes over the result, and `make` makes what belongs to a
   position, a window or a fold. */
#define LAYER(name, by, make) \
    static void name(const run *r, const layer *l, range rows, range columns) \
    { \
        by(r, l, rows, columns, make); \
    }
