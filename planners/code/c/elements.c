static element stored(int32_t value)
{
    return (element)(value < -128 ? -128 : value > 127 ? 127 : value);
}

static int32_t load(const element *place, int32_t number)
{
    int32_t found;
    memcpy(&found, place + 4 * number, sizeof found);
    return found;
}

static void store(element *place, int32_t number, int32_t value)
{
    memcpy(place + 4 * number, &value, sizeof value);
}
