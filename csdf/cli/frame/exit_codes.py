"""What the exit code of a command says."""

ANSWERED = 0
NO = 1
UNUSABLE = 2
GAVE_UP = 3
