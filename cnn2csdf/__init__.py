"""CNN to CSDF: a network becomes a graph whose layers work by parts, and runs by parts."""
