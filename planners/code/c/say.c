#ifdef ON_TARGET
#include "target.h"
#else
#include <stdio.h>

static void say(const char *text)
{
    fputs(text, stdout);
}
#endif

static void say_number(uint64_t number)
{
    char digits[21];
    int position = 20;
    digits[position] = 0;
    do {
        digits[--position] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    say(digits + position);
}
