"""The same arithmetic, faster."""
