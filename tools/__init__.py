"""What developers of plmkit run; not installed."""
