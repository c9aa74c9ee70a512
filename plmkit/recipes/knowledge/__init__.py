"""Papers that added world knowledge."""
