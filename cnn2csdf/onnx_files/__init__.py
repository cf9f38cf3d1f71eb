"""Networks from ONNX files and into them; the only place that knows the onnx package."""
