"""Networks from TensorFlow Lite files (.tflite)."""
