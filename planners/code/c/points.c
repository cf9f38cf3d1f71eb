/* Gather elements, or slices of the trailing axes, by an input of indices; in the form with
   coordinates, the last axis of the indices has a coordinate for each leading axis. */
typedef struct {
    int32_t axes;
    int32_t inner;
    const int32_t *sizes;
    int32_t values_are_map;
    int32_t positions_are_map;
    int32_t result_is_map;
} gathering_points;

/* The element with a number in row-major order of the axes. unit: slots of an element. */
static element *numbered(const view *v, int32_t is_map, int32_t height, int32_t number,
                         int32_t unit)
{
    int32_t area = height * v->width;
    if (is_map == 0) {
        return row_at(v, 0) + (number * unit);
    }
    return row_at(v, (number % area) / v->width) + column_at(v, number % v->width) +
           (number / area * unit);
}

static int32_t position_at(const gathering_points *p, const view *positions, int32_t height,
                           int32_t number, int32_t unit)
{
    int32_t axis;
    int32_t position = 0;
    for (axis = 0; axis < p->axes; axis++) {
        const element *at =
            numbered(positions, p->positions_are_map, height, (number * p->axes) + axis, unit);
        int32_t coordinate = counted_from_ends((int32_t)real_at(at, 0), p->sizes[axis]);
        position = (position * p->sizes[axis]) + coordinate;
    }
    return position;
}

static int is_inside(range of, int32_t position)
{
    return (position >= of.first) && (position < of.end);
}

/* unit: slots of a coordinate. */
static void gather_by(const run *r, const layer *l, range rows, range columns, int32_t unit)
{
    const gathering_points *p = l->parameters;
    view values = input_view(r, l, 0);
    view positions = input_view(r, l, 1);
    view out = output_view(r, l);
    int32_t from = l->inputs[0].source->height;
    int32_t height = l->inputs[1].source->height;
    int32_t to = l->result->height;
    int32_t count = to * row_elements(&out) / p->inner;
    int32_t n;
    int32_t i;
    for (n = 0; n < count; n++) {
        int32_t position = position_at(p, &positions, height, n, unit);
        for (i = 0; i < p->inner; i++) {
            int32_t number = (n * p->inner) + i;
            int32_t y = number / out.width % to;
            int32_t x = number % out.width;
            if ((p->result_is_map == 0) || (is_inside(rows, y) && is_inside(columns, x))) {
                *numbered(&out, p->result_is_map, to, number, 1) =
                    *numbered(&values, p->values_are_map, from, (position * p->inner) + i, 1);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

LAYER(gather_points, gather_by, COORDINATE)

/* The index of the pixel of a window that has the maximum, plus a tenth: truncation is exact. */
static void position_under(const void *numbers, const receptive_field *field, element *to,
                           range channels)
{
    const pooling *p = numbers;
    int32_t i;
    int32_t j;
    int32_t k;
    for (k = 0; k < (channels.end - channels.first); k++) {
        element best = LEAST;
        int32_t found = 0;
        for (i = field->down.first; i < field->down.end; i++) {
            for (j = field->across.first; j < field->across.end; j++) {
                element value = *(field->rows[i] + column_under(field, j) + k);
                if (value > best) {
                    best = value;
                    found = (i * p->at.taps[1]) + j;
                }
            }
        }
        to[k] = (element)((float)found + 0.1f);
    }
}

LAYER(place_of_maximum, each_window_all_channels, position_under)

/* Rows and columns of a block. */
typedef struct {
    int32_t size[2];
} unpooling;

static void unpool(const run *r, const layer *l, range rows, range columns)
{
    const unpooling *u = l->parameters;
    view in = input_view(r, l, 0);
    view indices = input_view(r, l, 1);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = rows.first; y < rows.end; y++) {
        const element *from = row_at(&in, y / u->size[0]);
        const element *at = row_at(&indices, y / u->size[0]);
        for (x = columns.first; x < columns.end; x++) {
            int32_t pixel = (y % u->size[0] * u->size[1]) + (x % u->size[1]);
            int32_t column = x / u->size[1];
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < out.channels; c++) {
                int32_t is_here = (int32_t)at[column_at(&indices, column) + c] == pixel;
                to[c] = is_here ? from[column_at(&in, column) + c] : 0;
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* Look up rows of an integer table by indices that are real numbers. Negative indices count from the
   end; indices outside of the table are clamped. */
typedef struct {
    int32_t entries;
    const element *table;
} embedding;

static void look_up_integers(const run *r, const layer *l, range rows, range columns)
{
    const embedding *e = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            int32_t number = (int32_t)real_at(row_at(&in, y) + column_at(&in, x), 0);
            int32_t position = counted_from_ends(number, e->entries);
            copy_elements(row_at(&out, y) + column_at(&out, x), e->table + (position * out.channels),
                          out.channels);
        }
    }
    finish_region(l, &out, rows, columns);
}
