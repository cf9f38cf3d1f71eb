"""The exit codes of commands, and what each says."""

ANSWERED = 0
NO = 1
UNUSABLE = 2
GAVE_UP = 3
FAULT = 70  # of the program; EX_SOFTWARE of BSD's sysexits
