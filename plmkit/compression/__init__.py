"""A trained model as a smaller or faster folder: an ONNX graph, one with 8-bit weights, or fewer attention heads."""
