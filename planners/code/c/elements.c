static element stored(int32_t value)
{
    return (element)((value < LEAST) ? LEAST : (value > MOST) ? MOST : value);
}

/* Words among elements, which begin anywhere. */
static int32_t load(const element *words, int32_t number)
{
    int32_t found;
    (void)memcpy(&found, &((const char *)words)[4 * number], sizeof found);
    return found;
}

static void store(element *words, int32_t number, int32_t value)
{
    (void)memcpy(&((char *)words)[4 * number], &value, sizeof value);
}

static float real_at(const element *words, int32_t number)
{
    float found;
    (void)memcpy(&found, &((const char *)words)[4 * number], sizeof found);
    return found;
}

static void store_real(element *words, int32_t number, float value)
{
    (void)memcpy(&((char *)words)[4 * number], &value, sizeof value);
}

/* Elements that a single-precision number takes. */
enum { REAL = 4 / sizeof(element) };

/* A result in single precision: no compiler makes one operation of this one and the next. */
static float rounded(float value)
{
    volatile float kept = value;
    return kept;
}
