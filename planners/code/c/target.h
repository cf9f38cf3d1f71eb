#ifndef TARGET_H
#define TARGET_H
#include <stdint.h>
/* Print a text on the host. */
void say(const char *text);
/* The next character of the file frames.txt on the host, or -1. */
int hear(void);
/* The most bytes of stack used since the start. */
uint32_t stack_bytes(void);
/* Instructions since the start, where QEMU counts one a nanosecond: -icount shift=0. QUARTERS of
   nanoseconds are a step of the processor's clock. */
uint64_t instructions(void);
uint32_t thousand_instructions(void);
#endif
