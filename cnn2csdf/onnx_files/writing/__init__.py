"""From layers to the nodes of an ONNX graph."""
