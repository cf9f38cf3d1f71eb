"""How stages go through tensors: the spans they need, and what can be summed up."""
