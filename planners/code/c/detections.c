/* Elements of boxes and scores per anchor, and the scales and zero points of integers. */
typedef struct {
    int32_t width;
    int32_t zero;
    float scale;
} detected;

/* anchors: row, column, height and width of each, as integers or as real numbers. by_class: maximum
   number of boxes of a class, or zero where each box has the score of its best class. */
typedef struct {
    detected boxes;
    detected scores;
    detected anchored;
    int32_t anchors;
    int32_t count;
    int32_t classes;
    int32_t classes_each;
    int32_t by_class;
    float score_limit;
    float overlap_limit;
    float scales[4];
    const element *centres;
    const float *real_centres;
} detecting;

/* The tensors of a firing: boxes, scores and results; the largest score of each anchor. */
typedef struct {
    const detecting *of;
    const element *boxes;
    const element *scores;
    element *to;
    element *best;
    int32_t rows;
} detection;

/* The last candidate that was considered. The candidates after it have a smaller score, or the same
   score and a larger number. */
typedef struct {
    int32_t number;
    int32_t is_first;
    element score;
} candidate;

/* The next candidate among `count` scores at a stride; 0 if there is none. */
static int next_candidate(candidate *at, const element *scores, int32_t count, int32_t apart)
{
    int32_t i;
    int32_t found = -1;
    for (i = 0; i < count; i++) {
        element score = scores[i * apart];
        int32_t is_behind =
            at->is_first || (score < at->score) || ((score == at->score) && (i > at->number));
        if (is_behind && ((found < 0) || (score > scores[found * apart]))) {
            found = i;
        }
    }
    if (found < 0) {
        return 0;
    }
    at->is_first = 0;
    at->number = found;
    at->score = scores[found * apart];
    return 1;
}

static double centre_at(const detecting *p, int32_t anchor, int32_t number)
{
    int32_t position = (4 * anchor) + number;
    if (p->real_centres != NULL) {
        return (double)p->real_centres[position];
    }
    return (double)number_at(p->centres, position, p->anchored.scale, p->anchored.zero);
}

/* Top, left, bottom and right of the box of an anchor. */
static void decode_box(const detection *d, int32_t anchor, float *corners)
{
    const detecting *p = d->of;
    const detected *b = &p->boxes;
    int32_t axis;
    for (axis = 0; axis < 2; axis++) {
        int32_t at = anchor * b->width;
        double offset = (double)number_at(d->boxes, at + axis, b->scale, b->zero);
        double size = (double)number_at(d->boxes, at + axis + 2, b->scale, b->zero);
        double anchored = centre_at(p, anchor, axis + 2);
        float centre = (float)((offset / (double)p->scales[axis] * anchored) +
                               centre_at(p, anchor, axis));
        float half = (float)(0.5 * exp(size / (double)p->scales[axis + 2]) * anchored);
        corners[axis] = centre - half;
        corners[axis + 2] = centre + half;
    }
}

static float area_of(const float *box)
{
    return (box[2] - box[0]) * (box[3] - box[1]);
}

/* Whether the intersection over union of two boxes exceeds the limit. */
static int overlaps(const detection *d, const float *box, int32_t row)
{
    float with[4];
    float sides[2];
    float area = area_of(box);
    float also;
    float shared;
    int32_t axis;
    for (axis = 0; axis < 4; axis++) {
        with[axis] = real_at(d->to, (4 * row) + axis);
    }
    also = area_of(with);
    if ((area <= 0) || (also <= 0)) {
        return 0;
    }
    for (axis = 0; axis < 2; axis++) {
        float low = (box[axis] > with[axis]) ? box[axis] : with[axis];
        float high = (box[axis + 2] < with[axis + 2]) ? box[axis + 2] : with[axis + 2];
        sides[axis] = (high > low) ? (high - low) : 0;
    }
    shared = sides[0] * sides[1];
    return (shared / ((area + also) - shared)) > d->of->overlap_limit;
}

static float score_of(const detection *d, element score)
{
    return number_at(&score, 0, d->of->scores.scale, d->of->scores.zero);
}

static void store_detection(const detection *d, int32_t row, const float *box, int32_t kind,
                            float score)
{
    int32_t axis;
    for (axis = 0; axis < 4; axis++) {
        store_real(d->to, (4 * row) + axis, box[axis]);
    }
    store_real(d->to, (4 * d->rows) + row, (float)kind);
    store_real(d->to, (5 * d->rows) + row, score);
}

/* Select boxes by the scores of their best classes; return their number. */
static int32_t detect_by_best_class(const detection *d)
{
    const detecting *p = d->of;
    candidate at = {0, 1, 0};
    int32_t i;
    int32_t chosen = 0;
    int32_t each;
    for (i = 0; i < p->anchors; i++) {
        candidate best = {0, 1, 0};
        (void)next_candidate(&best, d->scores + (i * p->scores.width), p->classes, 1);
        d->best[i] = best.score;
    }
    while ((chosen < p->count) && next_candidate(&at, d->best, p->anchors, 1)) {
        float box[4];
        candidate kind = {0, 1, 0};
        int32_t row = chosen * p->classes_each;
        int32_t is_clear = 1;
        if (!(score_of(d, at.score) >= p->score_limit)) {
            break;
        }
        decode_box(d, at.number, box);
        for (i = 0; is_clear && (i < chosen); i++) {
            is_clear = !overlaps(d, box, i * p->classes_each);
        }
        for (each = 0; is_clear && (each < smaller(p->classes_each, p->classes)); each++) {
            (void)next_candidate(&kind, d->scores + (at.number * p->scores.width), p->classes, 1);
            store_detection(d, row + each, box, kind.number, score_of(d, kind.score));
        }
        chosen += is_clear;
    }
    return chosen;
}

/* The insertion position of a score: after all scores that are at least as large. */
static int32_t row_for(const detection *d, int32_t chosen, float score)
{
    int32_t row = chosen;
    while ((row > 0) && (real_at(d->to, (5 * d->rows) + row - 1) < score)) {
        row--;
    }
    return row;
}

static void move_down(const detection *d, int32_t row, int32_t chosen)
{
    int32_t i;
    int32_t axis;
    for (i = smaller(chosen, d->of->count - 1); i > row; i--) {
        float box[4];
        for (axis = 0; axis < 4; axis++) {
            box[axis] = real_at(d->to, (4 * (i - 1)) + axis);
        }
        store_detection(d, i, box, (int32_t)real_at(d->to, (4 * d->rows) + i - 1),
                        real_at(d->to, (5 * d->rows) + i - 1));
    }
}

/* Select boxes of a class, among those of the classes before; return the number of boxes. A class
   ends at the first box that is no longer among the best: the boxes after it have no larger score. */
static int32_t detect_class(const detection *d, int32_t kind, int32_t chosen)
{
    const detecting *p = d->of;
    candidate at = {0, 1, 0};
    int32_t i;
    int32_t of_class = 0;
    while ((of_class < p->by_class) &&
           next_candidate(&at, d->scores + kind, p->anchors, p->scores.width)) {
        float box[4];
        float score = score_of(d, at.score);
        int32_t row = row_for(d, chosen, score);
        int32_t is_clear = 1;
        if (!(score >= p->score_limit) || (row >= p->count)) {
            break;
        }
        decode_box(d, at.number, box);
        for (i = 0; is_clear && (i < chosen); i++) {
            if ((int32_t)real_at(d->to, (4 * d->rows) + i) == kind) {
                is_clear = !overlaps(d, box, i);
            }
        }
        if (is_clear != 0) {
            move_down(d, row, chosen);
            store_detection(d, row, box, kind, score);
            chosen = smaller(chosen + 1, p->count);
            of_class++;
        }
    }
    return chosen;
}

/* Outputs: boxes, classes, scores and number of the detections, in the order of falling scores. */
static void detect(const run *r, const layer *l, range rows, range columns)
{
    const detecting *p = l->parameters;
    view boxes = input_view(r, l, 0);
    view scores = input_view(r, l, 1);
    view out = output_view(r, l);
    const float none[4] = {0, 0, 0, 0};
    detection d;
    int32_t i;
    int32_t chosen = 0;
    (void)rows;
    (void)columns;
    d.of = p;
    d.boxes = row_at(&boxes, 0);
    d.scores = row_at(&scores, 0) + (p->scores.width - p->classes); /* without the background */
    d.to = row_at(&out, 0);
    d.best = (element *)(void *)r->scratch;
    d.rows = p->count * p->classes_each;
    for (i = 0; i < d.rows; i++) {
        store_detection(&d, i, none, 0, 0);
    }
    if (p->by_class == 0) {
        chosen = detect_by_best_class(&d);
    } else {
        for (i = 0; i < p->classes; i++) {
            chosen = detect_class(&d, i, chosen);
        }
    }
    store_real(d.to, 6 * d.rows, (float)chosen);
}
