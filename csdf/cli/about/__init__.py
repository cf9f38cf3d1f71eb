"""Commands about csdf itself: its examples, its schemas, completion in shells."""
