/* Rows or columns from `first` to before `end`. */
typedef struct {
    int32_t first;
    int32_t end;
} range;

/* The input rows that an output row needs: floor((slope * row + first) / divisor) to
   floor((slope * row + last) / divisor), or the listed pairs. */
typedef struct {
    int32_t slope;
    int32_t first;
    int32_t last;
    int32_t divisor;
    int32_t is_clamped; /* rows outside the input are replaced by the nearest row */
    const uint16_t *pairs;
} rule;

/* A tensor in the arena; sizes are in slots, the elements of the arena. Row y is stored as row y %
   rows: a line buffer if rows < height. Offsets -1, -2, ... are tensors in memory of the caller. A
   tensor inside another tensor has the strides of that tensor. */
typedef struct {
    int32_t offset;
    int32_t rows;          /* of the buffer */
    int32_t stride;        /* slots from a row to the next */
    int32_t column_stride; /* slots from a column to the next */
    int32_t height;
    int32_t width;
    int32_t channels;
    int32_t producer; /* stage, or -1 */
#if CAN_STAGE
    int32_t first_reader;
    int32_t readers;
#endif
} tensor;

struct layer;
struct step;
struct run;

/* An input of a layer. local: index of its rows in the ranges of the stage; rows, columns: that an
   output row or column needs. */
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

/* A stage: layers that execute in the same firings. rows: of the result, in a firing; firings: in a
   frame. */
typedef struct {
    int32_t mode;
    int32_t rows;
    int32_t firings;
    int32_t first_row; /* INTO_SUMS: first input row that is accumulated */
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

/* The tiles of a stage. held: for each layer the pairs (first, end) of rows for each tile downwards,
   then of columns for each tile across. kept: for each layer the offsets of the rows retained for
   the tile below and of the columns retained for the next tile; NULL if tiles recompute them. */
typedef struct {
    int32_t down;
    int32_t across;
    const uint16_t *held;
    const int32_t *kept;
} tiling;

/* A state variable. kept: its rows; made: its new rows, copied after the group. */
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

/* Weights that are copied when group `begin` begins, or by NAME_init for -1. from: address in flash,
   or NULL: offset `home` of the arena. offset: of the copy in the arena. bytes: of the weights. of:
   the layer that reads the copy, if any; group: of the layer; size: of its parameters; field: offset
   of the address in them. */
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

/* A repeated part of the firing order: `length` stages from position `first` on, `times` times. */
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

/* The window of a state variable in a ring buffer: the rows of the ring from the oldest, then the
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
#if CAN_STAGE
    batch read;
#endif
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

static int32_t smaller(int32_t a, int32_t b)
{
    return (a < b) ? a : b;
}

static int32_t larger(int32_t a, int32_t b)
{
    return (a > b) ? a : b;
}

static int32_t first_of(const rule *r, int32_t row)
{
    return r->pairs ? (int32_t)r->pairs[2 * row]
                    : floor_quotient((r->slope * row) + r->first, r->divisor);
}

static int32_t last_of(const rule *r, int32_t row)
{
    return r->pairs ? (int32_t)r->pairs[(2 * row) + 1]
                    : floor_quotient((r->slope * row) + r->last, r->divisor);
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

/* The rows of an input of `limit` rows that the wanted output rows need. */
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

/* A block of a result in slow memory, which its kernel computes in fast memory, at an offset. */
typedef struct {
    const tensor *of;
    kernel make;
    int32_t offset;
    int32_t rows;
    int32_t columns;
} write_buffer;

/* A firing that computes a block of its result in a write buffer. */
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

/* The view of a tensor outside the fused layers; its last rows may be in the staging buffer. */
static view tensor_view(const run *r, const tensor *t)
{
    view v;
#if CAN_STAGE
    const batch *in_pool = (r->made.of == t) ? &r->made : (r->read.of == t) ? &r->read : NULL;
    v.staged = in_pool ? (element *)(void *)AT(r, in_pool->offset) : NULL;
    v.staged_from = in_pool ? in_pool->first : 0;
#else
    v.staged = NULL;
    v.staged_from = 0;
#endif
    v.base = (element *)(void *)BASE(r, t);
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

/* Make a view contain only these rows and columns, stored contiguously. */
static void lay_out(view *v, range rows, range columns)
{
    v->origin = rows.first;
    v->left = columns.first;
    v->rows = rows.end - rows.first;
    v->columns = 0;
    v->stride = (columns.end - columns.first) * v->column_stride;
}

/* Rows or columns of a layer in a tile. tile: index among the tiles downwards, then across. */
static range held_by(const tiling *t, int32_t number, int32_t tile)
{
    const uint16_t *pair = t->held + (2 * ((number * (t->down + t->across)) + tile));
    range held;
    held.first = pair[0];
    held.end = pair[1];
    return held;
}

/* A firing of a stage in tiles, at one tile. */
typedef struct {
    run now; /* first, as functions of a run take it */
    const tiling *tiles;
    int32_t down;
    int32_t across;
} tile_run;

/* Rows, and columns, of a layer in the current tile. */
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

#if FUSES_LAYERS || HAS_TILES
/* The view of a result between fused layers of a stage, or of a tile. */
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
#endif

static view input_view(const run *r, const layer *l, int32_t number)
{
    const argument *in = &l->inputs[number];
#if FUSES_LAYERS
    if (in->local < r->stage->layer_count) {
        return buffer_view(r, &r->stage->layers[in->local]);
    }
#endif
    return tensor_view(r, in->source);
}

static view output_view(const run *r, const layer *l)
{
#if FUSES_LAYERS
    if (l->result != r->stage->result) {
        return buffer_view(r, l);
    }
#endif
    return tensor_view(r, l->result);
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

/* Number of elements of a contiguous row. */
static int32_t row_elements(const view *v)
{
    return v->width * v->channels;
}

/* Columns that are one run in memory: all, where pixels are contiguous, else 1. */
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

/* Copy uint8 to int8 by subtracting 128, or back: the sign bit changes. `to` may be `from`. */
static void copy_shifted_bytes(void *to, const void *from, int32_t count)
{
    const uint8_t *values = from;
    uint8_t *results = to;
    int32_t i;
    for (i = 0; i < count; i++) {
        results[i] = (uint8_t)(values[i] ^ 0x80U);
    }
}

/* Copy uint16 to int16 by subtracting 32768, or back; without alignment. */
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

/* Apply the fused elementwise functions of a layer to elements of a pixel, from a channel on. */
static void finish(const layer *l, element *pixel, int32_t count, int32_t channel, int32_t column)
{
    const step *steps = l->steps;
    int32_t number;
    for (number = 0; number < l->step_count; number++) {
        steps[number].apply(&steps[number], pixel, count, channel, column);
    }
}

/* Apply the fused elementwise functions of a layer to all channels of a region. Integer channels
   have the same function: contiguous pixels are processed together. */
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

/* Define the kernel of a layer: `by` iterates over the result, `make` computes a pixel or a window. */
#define LAYER(name, by, make) \
    static void name(const run *r, const layer *l, range rows, range columns) \
    { \
        by(r, l, rows, columns, make); \
    }
