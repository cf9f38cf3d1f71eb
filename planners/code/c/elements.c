static element stored(int32_t value)
{
    return (element)((value < LEAST) ? LEAST : (value > MOST) ? MOST : value);
}

/* 32-bit words in an array of elements, without alignment. */
static int32_t load(const element *words, int32_t number)
{
    int32_t word;
    (void)memcpy(&word, &((const char *)words)[4 * number], sizeof word);
    return word;
}

static void store(element *words, int32_t number, int32_t value)
{
    (void)memcpy(&((char *)words)[4 * number], &value, sizeof value);
}

static float real_at(const element *words, int32_t number)
{
    float word;
    (void)memcpy(&word, &((const char *)words)[4 * number], sizeof word);
    return word;
}

static void store_real(element *words, int32_t number, float value)
{
    (void)memcpy(&((char *)words)[4 * number], &value, sizeof value);
}

/* Elements of the size of a float. */
enum { REAL = 4 / sizeof(element) };

/* A float that is rounded here: the compiler cannot fuse the operation with the next. */
static float rounded(float value)
{
    volatile float kept = value;
    return kept;
}
