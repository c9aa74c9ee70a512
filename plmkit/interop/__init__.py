"""Published weights, in and out."""
