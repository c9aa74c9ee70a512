"""Papers that changed what is hidden, and what is asked of it."""
