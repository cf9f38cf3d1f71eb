"""Traffic as Liao et al. print it: T = T_I + T_W + 2 T_O, and two layers that share the buffer."""
