"""Memory planners for CNN inference on small devices."""
