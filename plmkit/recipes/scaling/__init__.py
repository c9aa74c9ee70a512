"""Papers that changed the size."""
