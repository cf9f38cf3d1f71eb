/* A map of channels, rows and columns in the arena. Steps from each to the next, in elements, say its
   layout: CHW or HWC. The elements of a tensor that is no map are its channels. */
typedef struct {
    int32_t offset;
    int32_t channels;
    int32_t height;
    int32_t width;
    int32_t channel;
    int32_t row;
    int32_t column;
} map;

/* A layer and its primitive: the function, the offsets of tensors and workspace, and the fused
   elementwise functions. is_gathered: whether the channels of a place are copied together for these. */
typedef struct work {
    void (*compute)(const struct work *w, element *arena);
    const void *numbers;
    const map *inputs;
    map output;
    int32_t input_count;
    int32_t workspace;
    const element *bias;
    const step *steps;
    int32_t step_count;
    int32_t is_gathered;
} work;

#define BLOCK 16 /* rows and columns of a block that is transposed */

static void move_map(const element *from, const map *f, element *to, const map *t)
{
    int32_t channel;
    int32_t place;
    int32_t c;
    int32_t p;
    int32_t places = f->height * f->width;
    for (place = 0; place < places; place += BLOCK) {
        for (channel = 0; channel < f->channels; channel += BLOCK) {
            for (c = channel; c < smaller(channel + BLOCK, f->channels); c++) {
                for (p = place; p < smaller(place + BLOCK, places); p++) {
                    to[c * t->channel + p * t->column] = from[c * f->channel + p * f->column];
                }
            }
        }
    }
}

static void change_layout(const work *w, element *arena)
{
    move_map(arena + w->inputs->offset, w->inputs, arena + w->output.offset, &w->output);
}

static void add_bias(const element *bias, const map *m, element *to)
{
    int32_t c;
    int32_t p;
    int32_t places = m->height * m->width;
    for (c = 0; m->column == 1 && c < m->channels; c++) {
        for (p = 0; p < places; p++) {
            to[c * m->channel + p] += bias[c];
        }
    }
    for (p = 0; m->column != 1 && p < places; p++) {
        for (c = 0; c < m->channels; c++) {
            to[p * m->column + c * m->channel] += bias[c];
        }
    }
}

/* A fused elementwise function of all channels of a place. */
static void finish_place(const work *w, const step *s, element *place, element *gathered, int32_t x)
{
    const map *m = &w->output;
    int32_t c;
    if (m->channel == 1) {
        s->apply(s, place, m->channels, 0, x);
        return;
    }
    for (c = 0; !w->is_gathered && c < m->channels; c++) {
        s->apply(s, place + c * m->channel, 1, c, x);
    }
    for (c = 0; w->is_gathered && c < m->channels; c++) {
        gathered[c] = place[c * m->channel];
    }
    if (w->is_gathered) {
        s->apply(s, gathered, m->channels, 0, x);
    }
    for (c = 0; w->is_gathered && c < m->channels; c++) {
        place[c * m->channel] = gathered[c];
    }
}

static void work_on(const work *w, element *arena)
{
    const map *m = &w->output;
    element *all = arena + m->offset;
    int32_t number;
    int32_t p;
    int32_t places = m->height * m->width;
    w->compute(w, arena);
    if (w->bias) {
        add_bias(w->bias, m, all);
    }
    for (number = 0; number < w->step_count; number++) {
        const step *s = &w->steps[number];
        if (!s->values && !s->more) {
            s->apply(s, all, m->channels * places, 0, 0);
            continue;
        }
        for (p = 0; p < places; p++) {
            finish_place(w, s, all + p * m->column, arena + w->workspace, p % m->width);
        }
    }
}
