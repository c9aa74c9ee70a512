"""States to loss."""
