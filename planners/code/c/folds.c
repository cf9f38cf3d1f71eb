/* An input and a result as three axes each. sizes: of the input; of a map the axes are channels,
   rows and columns, and the step along the rows is zero. steps: elements between positions of an
   axis; to_steps is zero along a reduced axis. is_reduced: whether all positions of an axis become
   one. */
typedef struct {
    int32_t sizes[3];
    int32_t is_reduced[3];
    int32_t from_steps[3];
    int32_t from_is_map;
    int32_t to_steps[3];
    int32_t to_is_map;
    const element *scale;
    const element *shift;
    int32_t scale_steps[3];
    element epsilon;
} cube;

static element *cell_at(const view *v, int32_t is_map, const int32_t *steps, const int32_t *index)
{
    element *row = row_at(v, is_map ? index[1] : 0);
    if (is_map != 0) {
        return row + (index[0] * steps[0]) + (steps[2] ? column_at(v, index[2]) : 0);
    }
    return &row[(index[0] * steps[0]) + (index[1] * steps[1]) + (index[2] * steps[2])];
}

/* The first of the input positions that one result depends on; next_inside() iterates over them. */
static void begin_fold(const cube *c, const int32_t *index, int32_t *inner)
{
    int32_t axis;
    for (axis = 0; axis < 3; axis++) {
        inner[axis] = c->is_reduced[axis] ? 0 : index[axis];
    }
}

static int next_inside(const cube *c, int32_t *inner)
{
    int32_t axis;
    for (axis = 2; axis >= 0; axis--) {
        if (c->is_reduced[axis] != 0) {
            if (++inner[axis] < c->sizes[axis]) {
                return 1;
            }
            inner[axis] = 0;
        }
    }
    return 0;
}

static int32_t folded_count(const cube *c)
{
    int32_t axis;
    int32_t count = 1;
    for (axis = 0; axis < 3; axis++) {
        count *= c->is_reduced[axis] ? c->sizes[axis] : 1;
    }
    return count;
}

static element *from_cell(const cube *c, const view *in, const int32_t *index)
{
    return cell_at(in, c->from_is_map, c->from_steps, index);
}

static element *to_cell(const cube *c, const view *out, const int32_t *index)
{
    return cell_at(out, c->to_is_map, c->to_steps, index);
}

/* The largest of the elements that one result depends on. */
static element largest_inside(const cube *c, const view *in, int32_t *inner)
{
    element most = LEAST;
    do {
        element value = *from_cell(c, in, inner);
        most = (value > most) ? value : most;
    } while (next_inside(c, inner) != 0);
    return most;
}

/* Whether a position is within the wanted rows of the result. */
static int is_wanted(range rows, const int32_t *index)
{
    return (index[1] >= rows.first) && (index[1] < rows.end);
}

typedef void (*folding)(const cube *, const view *in, const view *out, const int32_t *index,
                        range wanted);

static void for_each_fold(const run *r, const layer *l, range rows, range columns, folding fold)
{
    const cube *c = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t index[3];
    int32_t x;
    int32_t y;
    int32_t z;
    int32_t goes_by_rows = c->from_is_map ? c->to_is_map : 0;
    int32_t first = (c->is_reduced[1] || !goes_by_rows) ? 0 : rows.first;
    int32_t end = c->is_reduced[1] ? 1 : goes_by_rows ? rows.end : c->sizes[1];
    int32_t left = (c->is_reduced[2] || !goes_by_rows) ? 0 : columns.first;
    int32_t right = c->is_reduced[2] ? 1 : goes_by_rows ? columns.end : c->sizes[2];
    range wanted = {0, INT32_MAX};
    if (goes_by_rows != 0) {
        wanted = rows;
    }
    for (x = 0; x < (c->is_reduced[0] ? 1 : c->sizes[0]); x++) {
        index[0] = x;
        for (y = first; y < end; y++) {
            index[1] = y;
            for (z = left; z < right; z++) {
                index[2] = z;
                fold(c, &in, &out, index, wanted);
            }
        }
    }
    finish_region(l, &out, rows, columns);
}

/* The position of the largest or smallest element along an axis; of equal elements the first or the
   last. */
typedef struct {
    cube axes; /* first, as for all functions over axes */
    int32_t is_smallest;
    int32_t takes_last;
} extreme;

static int32_t extreme_at(const cube *c, const view *in, const int32_t *index)
{
    const extreme *e = (const extreme *)(const void *)c;
    int32_t inner[3];
    int32_t number = 0;
    int32_t found = 0;
    element best;
    begin_fold(c, index, inner);
    best = *from_cell(c, in, inner);
    while (next_inside(c, inner) != 0) {
        element value = *from_cell(c, in, inner);
        int32_t is_better = e->is_smallest ? (value < best) : (value > best);
        number++;
        if (is_better || (e->takes_last && (value == best))) {
            best = value;
            found = number;
        }
    }
    return found;
}

/* A matrix product over the last axis of the first input, by the last axis but one of the second
   input or by constants, column by column. Axes: batch, rows, columns. */
typedef struct {
    int32_t batches;
    int32_t rows;
    int32_t inner;
    int32_t columns;
    int32_t left_steps[3];
    int32_t left_is_map;
    int32_t right_steps[3];
    int32_t right_is_map;
    int32_t to_steps[3];
    int32_t to_is_map;
} axes_of_product;

/* An element of the first input in a row, and an element of the second input in a column. */
static const element *left_cell(const axes_of_product *p, const view *left, const int32_t *at,
                                int32_t k)
{
    int32_t index[3];
    index[0] = at[0];
    index[1] = at[1];
    index[2] = k;
    return cell_at(left, p->left_is_map, p->left_steps, index);
}

static const element *right_cell(const axes_of_product *p, const view *right, const int32_t *at,
                                 int32_t k)
{
    int32_t index[3];
    index[0] = at[0];
    index[1] = k;
    index[2] = at[2];
    return cell_at(right, p->right_is_map, p->right_steps, index);
}

static element *result_cell(const axes_of_product *p, const view *out, const int32_t *at)
{
    return cell_at(out, p->to_is_map, p->to_steps, at);
}
