/* Concatenation of inputs with different scales, along channels (0), rows (1) or columns (2), or in
   pieces (3) of a tensor that is no map. */
typedef struct {
    int32_t axis;
    int32_t pieces;
    const table *tables; /* of each input; none where it has the scale of the result */
} joining_by_tables;

static void join_by_table(const table *t, const element *from, element *to, int32_t count)
{
    if (t->values != NULL) {
        look_up_cell(t, from, to, count, 0);
    } else {
        copy_elements(to, from, count);
    }
}

static void join_by_tables(const run *r, const layer *l, range rows, range columns)
{
    const joining_by_tables *j = l->parameters;
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
            for (x = larger(columns.first, left); x < right; x++) {
                const element *cell_from = from + column_at(&in, x - left);
                join_by_table(&j->tables[number], cell_from, to + column_at(&out, x), in.channels);
            }
        }
        position += (j->axis == 0) ? in.channels : (j->axis == 1) ? source->height : source->width;
    }
    finish_region(l, &out, rows, columns);
}

static void join_pieces_by_tables(const run *r, const layer *l, range rows, range columns)
{
    const joining_by_tables *j = l->parameters;
    view out = output_view(r, l);
    element *to = row_at(&out, 0);
    int32_t number;
    int32_t i;
    for (i = 0; i < j->pieces; i++) {
        for (number = 0; number < l->input_count; number++) {
            view in = input_view(r, l, number);
            int32_t size = row_elements(&in) / j->pieces;
            join_by_table(&j->tables[number], row_at(&in, 0) + (i * size), to, size);
            to += size;
        }
    }
    finish_region(l, &out, rows, columns);
}

/* The position of the maximum or minimum of integers, as a float; steps count integers. */
static void integer_extreme_fold(const cube *c, const view *in, const view *out,
                                 const int32_t *index, range rows)
{
    (void)rows;
    store_real(to_cell(c, out, index), 0, (float)extreme_at(c, in, index));
}

LAYER(place_of_integer_extreme, for_each_fold, integer_extreme_fold)

/* Slots of a coordinate: coordinates of integer tensors are floats. */
enum { COORDINATE = REAL };

/* Dequantise an integer in single precision. */
static float number_at(const element *pixel, int32_t number, float scale, int32_t zero)
{
    return rounded((float)(pixel[number] - zero) * scale);
}
