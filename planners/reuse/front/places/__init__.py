"""Where chromosomes are evaluated: in this process, in others, on a cluster."""
