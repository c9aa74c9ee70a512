"""One file per kind of task."""
