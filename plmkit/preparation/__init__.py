"""A corpus → everything a run needs of it; `plm doctor` reports on it."""
