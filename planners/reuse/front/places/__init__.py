"""Places where chromosomes are evaluated: this process, other processes, a cluster."""
