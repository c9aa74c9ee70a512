"""Papers, filed by what they changed."""
