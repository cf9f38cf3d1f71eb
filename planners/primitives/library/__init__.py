"""Ways to compute a convolution, and the other layers, in two layouts of feature maps."""
