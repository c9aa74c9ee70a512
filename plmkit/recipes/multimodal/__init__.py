"""Images and text."""
