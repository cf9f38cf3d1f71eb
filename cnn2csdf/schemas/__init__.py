"""JSON Schemas of what this package prints and reads: NAME.json for `csdf schema NAME`."""
