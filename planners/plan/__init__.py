"""Plans of memory: their one value, its JSON form, their checker and their executor."""
