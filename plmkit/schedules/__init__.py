"""Step to rate; gradients to weights."""
