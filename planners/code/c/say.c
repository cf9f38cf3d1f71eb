#ifdef ON_TARGET
#include "target.h"
#else
#include <stdio.h>

static void say(const char *text)
{
    fputs(text, stdout);
}
#endif

static void say_number(uint32_t number)
{
    char digits[11];
    int place = 10;
    digits[place] = 0;
    do {
        digits[--place] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    say(digits + place);
}
