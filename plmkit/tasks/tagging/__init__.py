"""What tasks with a tag for every word share."""
