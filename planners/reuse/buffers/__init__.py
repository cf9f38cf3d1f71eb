"""The buffers of an application, one for each edge, and which of them share bytes."""
