"""Papers that changed what is hidden."""
