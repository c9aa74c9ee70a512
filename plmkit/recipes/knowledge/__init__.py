"""Papers that brought knowledge of the world in."""
