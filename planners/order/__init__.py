"""Orders of execution of least peak memory, for any graph of tensors."""
