#ifndef TARGET_H
#define TARGET_H
#include <stdint.h>
/* Print a text on the host. */
void say(const char *text);
/* The most bytes of stack used since the start. */
uint32_t stack_bytes(void);
#endif
