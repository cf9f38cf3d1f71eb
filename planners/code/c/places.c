/* Concatenation of inputs along channels (0), rows (1) or columns (2); or in pieces (3), for a
   tensor that is no map. */
typedef struct {
    int32_t axis;
    int32_t pieces;
} joining;

static void join_maps(const run *r, const layer *l, range rows, range columns)
{
    const joining *j = l->parameters;
    view out = output_view(r, l);
    int32_t number;
    int32_t y;
    int32_t x;
    int32_t position = 0;
    for (number = 0; number < l->input_count; number++) {
        const tensor *source = l->inputs[number].source;
        view in = input_view(r, l, number);
        int32_t top = (j->axis == 1) ? position : 0;
        int32_t left = (j->axis == 2) ? position : 0;
        int32_t channel = (j->axis == 0) ? position : 0;
        int32_t bottom = (j->axis == 1) ? smaller(rows.end, top + source->height) : rows.end;
        int32_t right = (j->axis == 2) ? smaller(columns.end, left + source->width) : columns.end;
        for (y = larger(rows.first, top); y < bottom; y++) {
            const element *from = row_at(&in, y - top);
            element *to = row_at(&out, y) + channel;
            if ((from == (to + column_at(&out, left))) && (in.column_stride == out.column_stride)) {
                continue; /* already in place */
            }
            for (x = larger(columns.first, left); x < right; x++) {
                copy_elements(to + column_at(&out, x), from + column_at(&in, x - left), in.channels);
            }
        }
        position += (j->axis == 0) ? in.channels : (j->axis == 1) ? source->height : source->width;
    }
    finish_region(l, &out, rows, columns);
}

/* An operand of a concatenation: constants or an input, and its size along the axis. */
typedef struct {
    const element *values;
    int32_t input;
    int32_t size;
} piece;

typedef struct {
    int32_t axis;
    int32_t count;
    const piece *pieces;
} mending;

/* Concatenate inputs and constants along channels (0), rows (1) or columns (2). */
static void join_constants(const run *r, const layer *l, range rows, range columns)
{
    const mending *m = l->parameters;
    view out = output_view(r, l);
    int32_t number;
    int32_t y;
    int32_t x;
    int32_t position = 0;
    for (number = 0; number < m->count; position += m->pieces[number++].size) {
        const piece *p = &m->pieces[number];
        view in = p->values ? out : input_view(r, l, p->input);
        int32_t top = (m->axis == 1) ? position : 0;
        int32_t left = (m->axis == 2) ? position : 0;
        int32_t bottom = (m->axis == 1) ? smaller(rows.end, top + p->size) : rows.end;
        int32_t right = (m->axis == 2) ? smaller(columns.end, left + p->size) : columns.end;
        int32_t width = (m->axis == 2) ? p->size : out.width;
        int32_t channels = (m->axis == 0) ? p->size : out.channels;
        for (y = larger(rows.first, top); y < bottom; y++) {
            element *to = row_at(&out, y) + ((m->axis == 0) ? position : 0);
            for (x = larger(columns.first, left); x < right; x++) {
                const element *from =
                    p->values ? (p->values + ((((y - top) * width) + x - left) * channels))
                              : (row_at(&in, y - top) + column_at(&in, x - left));
                copy_elements(to + column_at(&out, x), from, channels);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

static void join_pieces(const run *r, const layer *l, range rows, range columns)
{
    const joining *j = l->parameters;
    view out = output_view(r, l);
    element *to = row_at(&out, 0);
    int32_t number;
    int32_t i;
    for (i = 0; i < j->pieces; i++) {
        for (number = 0; number < l->input_count; number++) {
            view in = input_view(r, l, number);
            int32_t size = row_elements(&in) / j->pieces;
            copy_elements(to, row_at(&in, 0) + (i * size), size);
            to += size;
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Strided slices along channels (0), rows (1) and columns (2). */
typedef struct {
    int32_t start[3];
    int32_t step[3];
} slicing;

static void slice_maps(const run *r, const layer *l, range rows, range columns)
{
    const slicing *s = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = rows.first; y < rows.end; y++) {
        const element *row = row_at(&in, s->start[1] + (y * s->step[1]));
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row + column_at(&in, s->start[2] + (x * s->step[2])) + s->start[0];
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                to[c] = from[c * s->step[0]];
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Channel shuffle of groups. */
typedef struct {
    int32_t groups;
} shuffling;

static void shuffle(const run *r, const layer *l, range rows, range columns)
{
    const shuffling *s = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t i;
    int32_t j;
    int32_t each = out.channels / s->groups;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row_at(&in, y) + column_at(&in, x);
            element *to = row_at(&out, y) + column_at(&out, x);
            for (i = 0; i < s->groups; i++) {
                for (j = 0; j < each; j++) {
                    to[(j * s->groups) + i] = from[(i * each) + j];
                }
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Space to depth, and depth to space. */
typedef struct {
    int32_t size;
    int32_t is_block_first;
} blocks;

static void space_to_depth(const run *r, const layer *l, range rows, range columns)
{
    const blocks *b = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t i;
    int32_t j;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            for (i = 0; i < b->size; i++) {
                const element *row = row_at(&in, (y * b->size) + i);
                for (j = 0; j < b->size; j++) {
                    copy_elements(to, row + column_at(&in, (x * b->size) + j), in.channels);
                    to += in.channels;
                }
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

static void depth_to_space(const run *r, const layer *l, range rows, range columns)
{
    const blocks *b = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t all = b->size * b->size;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row_at(&in, y / b->size) + column_at(&in, x / b->size);
            element *to = row_at(&out, y) + column_at(&out, x);
            int32_t position = (y % b->size * b->size) + (x % b->size);
            for (c = 0; c < out.channels; c++) {
                to[c] = from[b->is_block_first ? ((position * out.channels) + c)
                                               : ((c * all) + position)];
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Padding of rows and columns by a value, the nearest pixel or mirrored pixels, and of channels by a
   value. */
typedef struct {
    int32_t top;
    int32_t left;
    int32_t front;
    int32_t mode;
    element value;
} padding;

enum { PAD_VALUE, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC };

/* The input position for a position that may be outside; -1 for the value. */
static int32_t padded_pixel(const padding *p, int32_t position, int32_t limit)
{
    if (p->mode == PAD_VALUE) {
        return ((position < 0) || (position >= limit)) ? -1 : position;
    }
    if (p->mode == PAD_REFLECT) {
        int32_t period = larger((2 * limit) - 2, 1);
        position -= floor_quotient(position, period) * period;
        return (position < limit) ? position : (period - position);
    }
    if (p->mode == PAD_SYMMETRIC) {
        int32_t period = 2 * limit;
        position -= floor_quotient(position, period) * period;
        return (position < limit) ? position : (period - 1 - position);
    }
    return clamped(position, limit);
}

static void pad_maps(const run *r, const layer *l, range rows, range columns)
{
    const padding *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = rows.first; y < rows.end; y++) {
        int32_t row = padded_pixel(p, y - p->top, l->inputs[0].source->height);
        for (x = columns.first; x < columns.end; x++) {
            int32_t column = padded_pixel(p, x - p->left, in.width);
            element *to = row_at(&out, y) + column_at(&out, x);
            int32_t inner = ((row >= 0) && (column >= 0)) ? in.channels : 0;
            if (inner > 0) {
                copy_elements(to + p->front, row_at(&in, row) + column_at(&in, column), inner);
            }
            for (c = 0; c < p->front; c++) {
                to[c] = p->value;
            }
            for (c = p->front + inner; c < out.channels; c++) {
                to[c] = p->value;
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Nearest-neighbour resize. */
typedef struct {
    const rule *rows;
    const rule *columns;
} nearest;

static void resize_nearest(const run *r, const layer *l, range rows, range columns)
{
    const nearest *n = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    for (y = rows.first; y < rows.end; y++) {
        int32_t row = clamped(first_of(n->rows, y), l->inputs[0].source->height);
        for (x = columns.first; x < columns.end; x++) {
            int32_t column = clamped(first_of(n->columns, x), in.width);
            copy_elements(row_at(&out, y) + column_at(&out, x),
                          row_at(&in, row) + column_at(&in, column), out.channels);
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Bilinear interpolation: for each row and column the input position before it, and the fraction. */
typedef struct {
    const uint16_t *above;
    const element *down;
    const uint16_t *left;
    const element *across;
} interpolation;

static void resize_linear(const run *r, const layer *l, range rows, range columns)
{
    const interpolation *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = rows.first; y < rows.end; y++) {
        element down = p->down[y];
        const element *upper = row_at(&in, p->above[y]);
        const element *lower = (down > 0) ? row_at(&in, p->above[y] + 1) : upper;
        for (x = columns.first; x < columns.end; x++) {
            element across = p->across[x];
            int32_t left = column_at(&in, p->left[x]);
            int32_t right = (across > 0) ? column_at(&in, p->left[x] + 1) : left;
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                element west = upper[left + c] + ((lower[left + c] - upper[left + c]) * down);
                element east = upper[right + c] + ((lower[right + c] - upper[right + c]) * down);
                to[c] = west + ((east - west) * across);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Concatenate inputs and constants of a tensor that is no map, in `axis` pieces. */
static void join_constant_pieces(const run *r, const layer *l, range rows, range columns)
{
    const mending *m = l->parameters;
    view out = output_view(r, l);
    element *to = row_at(&out, 0);
    int32_t number;
    int32_t i;
    for (i = 0; i < m->axis; i++) {
        for (number = 0; number < m->count; number++) {
            const piece *p = &m->pieces[number];
            view in = p->values ? out : input_view(r, l, p->input);
            copy_elements(to, (p->values ? p->values : row_at(&in, 0)) + (i * p->size), p->size);
            to += p->size;
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Bicubic interpolation: for each row and column four input positions and their weights. */
typedef struct {
    const uint16_t *above;
    const element *down;
    const uint16_t *left;
    const element *across;
} cubic;

static void resize_cubic(const run *r, const layer *l, range rows, range columns)
{
    const cubic *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t i;
    int32_t j;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                element sum = 0;
                for (j = 0; j < 4; j++) {
                    int32_t column = column_at(&in, p->left[(4 * x) + j]) + c;
                    element mixed = 0;
                    for (i = 0; i < 4; i++) {
                        mixed += row_at(&in, p->above[(4 * y) + i])[column] * p->down[(4 * y) + i];
                    }
                    sum += mixed * p->across[(4 * x) + j];
                }
                to[c] = sum;
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* A permutation of elements. The digits of an element's number in the mixed radix of `sizes`, times
   `strides`, plus `first` are the number of the input element. Numbers count columns, then rows,
   then channels. */
typedef struct {
    int32_t digits;
    int32_t first;
    const int32_t *sizes;
    const int32_t *strides;
} moving;

static int32_t moved(const moving *m, int32_t number)
{
    int32_t digit;
    int32_t found = m->first;
    for (digit = m->digits - 1; digit >= 0; digit--) {
        found += number % m->sizes[digit] * m->strides[digit];
        number /= m->sizes[digit];
    }
    return found;
}

static void move_elements(const run *r, const layer *l, range rows, range columns)
{
    const moving *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t height = l->inputs[0].source->height;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                int32_t from = moved(m, (((c * l->result->height) + y) * out.width) + x);
                int32_t across = from % in.width;
                int32_t down = from / in.width % height;
                to[c] = row_at(&in, down)[column_at(&in, across) + (from / in.width / height)];
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Gather along channels (0), rows (1) or columns (2) at listed positions; without a list, the input
   is repeated. */
typedef struct {
    int32_t axis;
    const uint16_t *positions;
} gathering;

static int32_t gathered(const gathering *g, int32_t axis, int32_t position, int32_t limit)
{
    if (g->axis != axis) {
        return position;
    }
    return g->positions ? g->positions[position] : (position % limit);
}

static void gather_maps(const run *r, const layer *l, range rows, range columns)
{
    const gathering *g = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    int32_t height = l->inputs[0].source->height;
    for (y = rows.first; y < rows.end; y++) {
        const element *row = row_at(&in, gathered(g, 1, y, height));
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row + column_at(&in, gathered(g, 2, x, in.width));
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                to[c] = from[gathered(g, 0, c, in.channels)];
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Gather in a tensor that is no map. pieces: before the axis; behind: elements after the axis. */
typedef struct {
    int32_t pieces;
    int32_t size;
    int32_t listed;
    int32_t behind;
    const uint16_t *positions;
} picking;

static void gather_pieces(const run *r, const layer *l, range rows, range columns)
{
    const picking *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    element *to = row_at(&out, 0);
    int32_t i;
    int32_t position;
    for (i = 0; i < p->pieces; i++) {
        for (position = 0; position < p->listed; position++) {
            int32_t from = p->positions ? p->positions[position] : (position % p->size);
            copy_elements(to, row_at(&in, 0) + (((i * p->size) + from) * p->behind), p->behind);
            to += p->behind;
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Strides of an operand along channels, rows and columns of the result; 0 to broadcast. values: of a
   constant operand. */
typedef struct {
    const element *values;
    int32_t input;
    int32_t is_map;
    int32_t channel;
    int32_t row;
    int32_t column;
} operand;

static const element *operand_at(const operand *o, const view *in, int32_t y, int32_t x)
{
    const element *from = o->values ? o->values : row_at(in, (o->is_map && o->row) ? y : 0);
    if (o->values || !o->is_map) {
        return from + (y * o->row) + (x * o->column);
    }
    return o->column ? (from + column_at(in, x)) : from;
}

/* View a vector as `pixels` blocks along which operands are repeated; 1: unchanged. */
static void cut_row(view *out, range *columns, int32_t pixels)
{
    if (pixels > 1) {
        out->channels /= pixels;
        out->column_stride = out->channels;
        columns->first = 0;
        columns->end = pixels;
    }
}

/* Reshape: copy the elements in their order. */
static void view_elements(const run *r, const layer *l, range rows, range columns)
{
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t position;
    int32_t count;
    int32_t given = row_elements(&in);
    int32_t made = row_elements(&out);
    for (y = rows.first; y < rows.end; y++) {
        element *to = row_at(&out, y);
        for (position = 0; position < made; position += count) {
            int32_t at = (y * made) + position;
            int32_t rest = at % given;
            count = smaller(given - rest, made - position);
            copy_elements(to + position, row_at(&in, at / given) + rest, count);
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Permute pixels, with all their channels; pixels are numbered row by row. */
static void move_places(const run *r, const layer *l, range rows, range columns)
{
    const moving *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            int32_t from = moved(m, (y * out.width) + x);
            copy_elements(row_at(&out, y) + column_at(&out, x),
                          row_at(&in, from / in.width) + column_at(&in, from % in.width),
                          out.channels);
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Write the pixels of an input row to their positions in the whole result. */
static void scatter_places(const run *r, const layer *l, range rows, range columns)
{
    const moving *m = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t x;
    (void)columns;
    for (x = 0; x < in.width; x++) {
        int32_t to = moved(m, (rows.first * in.width) + x);
        copy_elements(row_at(&out, to / out.width) + column_at(&out, to % out.width),
                      row_at(&in, rows.first) + column_at(&in, x), in.channels);
    }
}

/* Attention. tokens: of a group; keys: of each token; width: elements of a token and head in the
   second input, whose heads are columns, or contiguous in a row. */
typedef struct {
    int32_t tokens;
    int32_t keys;
    int32_t width;
} attention;

static const element *head_at(const view *v, int32_t row, int32_t head, int32_t width)
{
    return row_at(v, row) + ((v->width > 1) ? column_at(v, head) : (head * width));
}
