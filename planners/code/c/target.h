#ifndef TARGET_H
#define TARGET_H
#include <stdint.h>
/* Print a text on the host. */
void say(const char *text);
/* The next character of the file frames.txt on the host, or -1. */
int hear(void);
/* The most bytes of stack used since the start. */
uint32_t stack_bytes(void);
/* Cycles of the processor since the start, on a board with QUARTERS=4. In QEMU instructions, where it
   counts one a nanosecond (-icount shift=0): QUARTERS of them are a step of the processor's clock. */
uint64_t processor_ticks(void);
#endif
