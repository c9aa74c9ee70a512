"""Documents → rows."""
