"""Files to batches."""
