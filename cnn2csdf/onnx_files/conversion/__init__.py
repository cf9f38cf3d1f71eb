"""From the nodes of an ONNX graph to layers, one module for each family of operators."""
