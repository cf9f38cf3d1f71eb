/* Integers of one, two or four bytes in an int8 arena, without alignment. */
static int32_t wide_at(const element *pixel, int32_t number, int32_t bytes)
{
    int16_t found;
    if (bytes == 1) {
        return pixel[number];
    }
    if (bytes == 4) {
        return load(pixel, number);
    }
    (void)memcpy(&found, pixel + (2 * number), sizeof found);
    return found;
}

static void store_wide(element *pixel, int32_t number, int32_t bytes, int64_t value)
{
    int64_t most = (INT64_C(1) << ((8 * bytes) - 1)) - 1;
    int32_t found = (int32_t)((value > most) ? most : (value < (-most - 1)) ? (-most - 1) : value);
    int16_t two = (int16_t)found;
    if (bytes == 1) {
        pixel[number] = (element)found;
    } else if (bytes == 4) {
        store(pixel, number, found);
    } else {
        (void)memcpy(pixel + (2 * number), &two, sizeof two);
    }
}

/* Requantisation to another scale and another width. */
typedef struct {
    int32_t multiplier;
    int32_t exponent;
    int32_t zero_in;
    int32_t zero_out;
    int32_t bytes_in;
    int32_t bytes_out;
} widening;

static void widen_region(const run *r, const layer *l, range rows, range columns)
{
    const widening *p = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row_at(&in, y) + column_at(&in, x);
            element *to = row_at(&out, y) + column_at(&out, x);
            for (c = 0; c < (out.channels / p->bytes_out); c++) {
                int32_t value = wide_at(from, c, p->bytes_in) - p->zero_in;
                store_wide(to, c, p->bytes_out,
                           (int64_t)rescaled(value, p->multiplier, p->exponent) + p->zero_out);
            }
        }
    }
}

/* A softmax of contiguous elements, in units of 2 ** -16. */
static void softmax_wide(const run *r, const layer *l, range rows, range columns)
{
    const softmax_over *s = l->parameters;
    view in = input_view(r, l, 0);
    view out = output_view(r, l);
    int32_t y;
    int32_t x;
    int32_t c;
    for (y = rows.first; y < rows.end; y++) {
        for (x = columns.first; x < columns.end; x++) {
            const element *from = row_at(&in, y) + column_at(&in, x);
            element *to = row_at(&out, y) + column_at(&out, x);
            int32_t most = LEAST;
            int32_t sum = 0;
            int32_t lead = 0;
            int32_t share;
            for (c = 0; c < in.channels; c++) {
                most = larger(most, from[c]);
            }
            for (c = 0; c < in.channels; c++) {
                int32_t beyond = from[c] - most;
                sum += (beyond < s->least) ? 0 : divided_by_power(power_of(s, beyond), 12);
            }
            /* The largest adds 2 ** 19. */
            while ((lead < 12) && ((((uint32_t)sum << lead) & UINT32_C(2147483648)) == 0U)) {
                lead++;
            }
            share = reciprocal_of_one_plus((int32_t)(((uint32_t)sum << lead) - UINT32_C(2147483648)));
            for (c = 0; c < in.channels; c++) {
                int32_t beyond = from[c] - most;
                int32_t found = -32768;
                if (beyond >= s->least) {
                    found += divided_by_power(high_product(share, power_of(s, beyond)), 27 - lead);
                }
                store_wide(to, c, 2, found);
            }
        }
    }
}
